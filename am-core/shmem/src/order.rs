//! The order of operations (OpenSHMEM 1.6, section 9.12).
//!
//! Stores to PEs of this host are in order where the machine orders stores, and are done when their call returns. am-core does not
//! order operations on PEs of other hosts, so for those a fence here waits until they are complete.

use std::ffi::c_int;
use std::sync::atomic::{Ordering, fence as barrier};

use crate::objects::Ctx;
use crate::{context, progress};

pub(crate) unsafe fn fence(call: &str) {
    barrier(Ordering::Release);
    progress::complete(call);
}

pub(crate) unsafe fn quiet(call: &str) {
    progress::quiet(call);
}

pub(crate) unsafe fn ctx_fence(call: &str, _ctx: Ctx) {
    unsafe { fence(call) };
}

pub(crate) unsafe fn ctx_quiet(call: &str, _ctx: Ctx) {
    unsafe { quiet(call) };
}

pub(crate) unsafe fn pe_quiet(call: &str, pes: *const c_int, count: usize) {
    unsafe { ctx_pe_quiet(call, Ctx::DEFAULT, pes, count) };
}

pub(crate) unsafe fn ctx_pe_quiet(call: &str, ctx: Ctx, pes: *const c_int, count: usize) {
    for at in 0..count {
        context::pe(call, ctx, unsafe { *pes.add(at) });
    }
    unsafe { quiet(call) };
}
