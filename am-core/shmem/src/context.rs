//! Communication contexts (OpenSHMEM 1.6, section 9.5). Operations on PEs of this host end in their call, and those on others are ordered
//! together, so a context is its team: PE numbers are numbers in it.

use std::ffi::{c_int, c_long};

use crate::objects::{ContextObject, Ctx, Team};
use crate::progress;
use crate::team;
use crate::types::SessionConfig;
use crate::world::{check_pe, fail, world};

/// The number in the job of the PE that has number `pe` in the context's team.
#[inline(always)]
pub(crate) fn pe(call: &str, ctx: Ctx, pe: c_int) -> c_int {
    if ctx == Ctx::DEFAULT { pe } else { pe_of_team(call, ctx, pe) }
}

#[inline(never)]
fn pe_of_team(call: &str, ctx: Ctx, pe: c_int) -> c_int {
    let members = team::members(call, object(call, ctx).team);
    match usize::try_from(pe).ok().and_then(|at| members.list.get(at)) {
        Some(&pe) => pe as c_int,
        None => fail(
            call,
            format_args!(
                "there is no PE {pe} in the context's team, which has PEs 0 to {}",
                members.list.len() - 1
            ),
        ),
    }
}

fn object(call: &str, ctx: Ctx) -> &'static ContextObject {
    if ctx == Ctx::INVALID {
        fail(
            call,
            format_args!("ctx is SHMEM_CTX_INVALID: the context could not be created, or was destroyed"),
        );
    }
    // SAFETY: a handle that `create` has made; the program uses it until it destroys it.
    unsafe { &*ctx.0 }
}

pub(crate) unsafe fn create(call: &str, options: c_long, ctx: *mut Ctx) -> c_int {
    unsafe { team_create(call, Team::WORLD, options, ctx) }
}

pub(crate) unsafe fn team_create(call: &str, team: Team, _options: c_long, ctx: *mut Ctx) -> c_int {
    world(call);
    if team == Team::INVALID {
        unsafe { *ctx = Ctx::INVALID };
        return -1;
    }
    unsafe { *ctx = Ctx(Box::into_raw(Box::new(ContextObject { team }))) };
    0
}

pub(crate) unsafe fn destroy(call: &str, ctx: Ctx) {
    if ctx == Ctx::DEFAULT {
        fail(call, format_args!("ctx is SHMEM_CTX_DEFAULT, which stays until shmem_finalize"));
    }
    if ctx == Ctx::INVALID {
        return;
    }
    progress::quiet(call);
    // SAFETY: a handle that `create` has made, and that the program gives up.
    drop(unsafe { Box::from_raw(ctx.0) });
}

pub(crate) unsafe fn get_team(call: &str, ctx: Ctx, team: *mut Team) -> c_int {
    world(call);
    let (found, code) = match ctx {
        Ctx::DEFAULT => (Team::WORLD, 0),
        Ctx::INVALID => (Team::INVALID, -1),
        ctx => (object(call, ctx).team, 0),
    };
    unsafe { *team = found };
    code
}

/// A session is a hint: operations end in their call, so nothing is gained by delaying them.
pub(crate) unsafe fn session_start(
    call: &str,
    ctx: Ctx,
    _options: c_long,
    _config: *const SessionConfig,
    _mask: c_long,
) {
    if ctx == Ctx::INVALID {
        fail(call, format_args!("ctx is SHMEM_CTX_INVALID"));
    }
}

pub(crate) unsafe fn session_stop(call: &str, ctx: Ctx) {
    if ctx == Ctx::INVALID {
        fail(call, format_args!("ctx is SHMEM_CTX_INVALID"));
    }
    // The PE exists in any case: the call checks that the library is in use.
    check_pe(call, 0);
}
