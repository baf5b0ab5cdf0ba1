//! Puts with a signal, and signals (OpenSHMEM 1.6, section 9.8).

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

use am_atomics::{AtomicOp, Width};

use crate::objects::Ctx;
use crate::world::{fail, world};
use crate::{atomics, context, progress, rma};

#[inline]
pub(crate) unsafe fn put<T>(
    call: &str,
    ctx: Ctx,
    dest: *mut T,
    source: *const T,
    count: usize,
    sig_addr: *mut u64,
    signal: u64,
    sig_op: c_int,
    pe: c_int,
) {
    let operation = match sig_op {
        0 => AtomicOp::Swap(signal),
        1 => AtomicOp::FetchAdd(signal),
        _ => fail(call, format_args!("sig_op = {sig_op}: use SHMEM_SIGNAL_SET or SHMEM_SIGNAL_ADD")),
    };
    unsafe {
        rma::put(call, ctx, dest, source, count, pe);
        // The data are there before the signal: on this host because the atomic operation releases, and on others after a fence.
        progress::complete(call);
    }
    update(call, ctx, sig_addr, operation, pe);
}

fn update(call: &str, ctx: Ctx, sig_addr: *mut u64, operation: AtomicOp, pe: c_int) {
    let pe = context::pe(call, ctx, pe);
    unsafe { atomics::update_slowly(call, sig_addr.addr(), Width::Bits64, pe, operation) };
}

pub(crate) unsafe fn add(call: &str, ctx: Ctx, sig_addr: *mut u64, signal: u64, pe: c_int) {
    update(call, ctx, sig_addr, AtomicOp::FetchAdd(signal), pe);
}

pub(crate) unsafe fn set(call: &str, ctx: Ctx, sig_addr: *mut u64, signal: u64, pe: c_int) {
    update(call, ctx, sig_addr, AtomicOp::Swap(signal), pe);
}

pub(crate) unsafe fn fetch(call: &str, sig_addr: *const u64) -> u64 {
    world(call);
    if sig_addr.is_null() || !sig_addr.is_aligned() {
        fail(call, format_args!("sig_addr = {sig_addr:?}: not the address of an aligned word"));
    }
    // Acquire: pairs with the signal's release.
    let value = unsafe { AtomicU64::from_ptr(sig_addr.cast_mut()) }.load(Ordering::Acquire);
    progress::progress(call);
    value
}
