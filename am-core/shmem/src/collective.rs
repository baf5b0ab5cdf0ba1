//! Collectives that move data (OpenSHMEM 1.6, section 9.10), over teams, and over the sets of PEs of old programs.
//!
//! Data are put into the members' destinations, and tokens tell that they are there (`tokens`).

use std::ffi::{c_int, c_long};

use crate::objects::{Ctx, Members, Team};
use crate::team::{active_set, members};
use crate::tokens::{self, receive, send};
use crate::world::{World, fail, world};
use crate::{progress, rma};

pub(crate) unsafe fn barrier_all(call: &str) {
    progress::quiet(call);
    tokens::barrier(call, world(call), members(call, Team::WORLD));
}

pub(crate) unsafe fn sync_all(call: &str) {
    tokens::barrier(call, world(call), members(call, Team::WORLD));
}

pub(crate) unsafe fn team_sync(call: &str, team: Team) -> c_int {
    if team == Team::INVALID {
        return -1;
    }
    tokens::barrier(call, world(call), members(call, team));
    0
}

pub(crate) unsafe fn barrier(call: &str, start: c_int, log_stride: c_int, size: c_int, _sync: *mut c_long) {
    progress::quiet(call);
    tokens::barrier(call, world(call), &active_set(call, start, log_stride, size));
}

pub(crate) unsafe fn sync(call: &str, start: c_int, log_stride: c_int, size: c_int, _sync: *mut c_long) {
    tokens::barrier(call, world(call), &active_set(call, start, log_stride, size));
}

/// Tells all members that this PE has put its data, and waits for theirs.
fn all_have_put(call: &str, world: &World, members: &Members) {
    let count = members.list.len();
    for step in 1..count {
        send(call, world, members.slot, members.list[(members.me + step) % count]);
    }
    for step in 1..count {
        receive(call, world, members.slot, members.list[(members.me + count - step) % count]);
    }
}

/// Puts into `dest`, `offset` elements on, of member `to`.
unsafe fn put_to<T>(
    call: &str,
    members: &Members,
    to: usize,
    (dest, offset): (*mut T, usize),
    source: *const T,
    count: usize,
) {
    let pe = members.list[to] as c_int;
    unsafe { rma::put(call, Ctx::DEFAULT, dest.wrapping_add(offset), source, count, pe) };
}

/// By a binomial tree: a member that has the data puts them to those that are to have them from it.
unsafe fn broadcast_among<T>(
    call: &str,
    members: &Members,
    dest: *mut T,
    source: *const T,
    count: usize,
    root: c_int,
    root_too: bool,
) {
    let world = world(call);
    let size = members.list.len();
    let Some(root) = usize::try_from(root).ok().filter(|&root| root < size) else {
        fail(call, format_args!("PE_root = {root}: the members have numbers 0 to {}", size - 1))
    };
    let place = (members.me + size - root) % size;
    let at = |place: usize| (place + root) % size;
    let mut from = source;
    let mut step = 1;
    while step < size {
        if place & step != 0 {
            receive(call, world, members.slot, members.list[at(place - step)]);
            from = dest;
            break;
        }
        step *= 2;
    }
    while step > 1 {
        step /= 2;
        if place + step < size {
            unsafe { put_to(call, members, at(place + step), (dest, 0), from, count) };
            send(call, world, members.slot, members.list[at(place + step)]);
        }
    }
    if place == 0 && root_too {
        unsafe { std::ptr::copy(source, dest, count) };
    }
}

unsafe fn fcollect_among<T>(call: &str, members: &Members, dest: *mut T, source: *const T, count: usize) {
    for step in 0..members.list.len() {
        let to = (members.me + step) % members.list.len();
        unsafe { put_to(call, members, to, (dest, members.me * count), source, count) };
    }
    all_have_put(call, world(call), members);
}

unsafe fn collect_among<T>(call: &str, members: &Members, dest: *mut T, source: *const T, count: usize) {
    let world = world(call);
    let mut before = 0;
    tokens::exchange(call, world, members, &(count as u64).to_ne_bytes(), |at, letter| {
        if at < members.me {
            before += letter.try_into().map_or(0, u64::from_ne_bytes) as usize;
        }
    });
    for step in 0..members.list.len() {
        let to = (members.me + step) % members.list.len();
        unsafe { put_to(call, members, to, (dest, before), source, count) };
    }
    all_have_put(call, world, members);
}

unsafe fn alltoall_among<T>(call: &str, members: &Members, dest: *mut T, source: *const T, count: usize) {
    for step in 0..members.list.len() {
        let to = (members.me + step) % members.list.len();
        let from = source.wrapping_add(to * count);
        unsafe { put_to(call, members, to, (dest, members.me * count), from, count) };
    }
    all_have_put(call, world(call), members);
}

unsafe fn alltoalls_among<T>(
    call: &str,
    members: &Members,
    dest: *mut T,
    source: *const T,
    dst: isize,
    sst: isize,
    count: usize,
) {
    for step in 0..members.list.len() {
        let to = (members.me + step) % members.list.len();
        let dest = dest.wrapping_offset((members.me * count) as isize * dst);
        let from = source.wrapping_offset((to * count) as isize * sst);
        let pe = members.list[to] as c_int;
        unsafe { rma::iput(call, Ctx::DEFAULT, dest, from, dst, sst, count, pe) };
    }
    all_have_put(call, world(call), members);
}

/// The forms over teams, which return an error for the invalid team, and those over active sets.
macro_rules! forms {
    ($($name:ident $among:ident ($($argument:ident: $kind:ty),*);)*) => {
        $(
            #[inline(never)]
            pub(crate) unsafe fn $name<T>(call: &str, team: Team, dest: *mut T, source: *const T, $($argument: $kind),*) -> c_int {
                if team == Team::INVALID {
                    return -1;
                }
                unsafe { $among(call, members(call, team), dest, source, $($argument),*) };
                0
            }
        )*

        pub(crate) mod old {
            use super::*;

            $(
                pub(crate) unsafe fn $name<T>(call: &str, dest: *mut T, source: *const T, $($argument: $kind,)* start: c_int, log_stride: c_int, size: c_int, _sync: *mut c_long) {
                    unsafe { $among(call, &active_set(call, start, log_stride, size), dest, source, $($argument),*) };
                }
            )*

            /// The root's destination is not written.
            pub(crate) unsafe fn broadcast<T>(call: &str, dest: *mut T, source: *const T, count: usize, root: c_int, start: c_int, log_stride: c_int, size: c_int, _sync: *mut c_long) {
                let members = active_set(call, start, log_stride, size);
                unsafe { broadcast_among(call, &members, dest, source, count, root, false) };
            }
        }
    };
}

forms! {
    alltoall alltoall_among (count: usize);
    alltoalls alltoalls_among (dst: isize, sst: isize, count: usize);
    collect collect_among (count: usize);
    fcollect fcollect_among (count: usize);
}

#[inline(never)]
pub(crate) unsafe fn broadcast<T>(
    call: &str,
    team: Team,
    dest: *mut T,
    source: *const T,
    count: usize,
    root: c_int,
) -> c_int {
    if team == Team::INVALID {
        return -1;
    }
    unsafe { broadcast_among(call, members(call, team), dest, source, count, root, true) };
    0
}
