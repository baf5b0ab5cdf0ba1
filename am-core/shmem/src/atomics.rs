//! Atomic operations (OpenSHMEM 1.6, section 9.7).

use std::ffi::c_int;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use am_atomics::{AtomicOp, Width};

use crate::context;
use crate::objects::Ctx;
use crate::types::Word;
use crate::world::{self, Place, Target, fail, fail_by, locate, mapped};

/// Operates on a word of a PE; returns the old value. The operation is made where it is needed: the compiler then knows it there.
#[inline(always)]
unsafe fn update<T: Word>(
    call: &str,
    ctx: Ctx,
    dest: *const T,
    pe: c_int,
    operation: impl Fn() -> AtomicOp,
) -> T {
    let pe = context::pe(call, ctx, pe);
    match mapped(dest.addr(), size_of::<T>(), pe) {
        Some(target) => {
            // SAFETY: the word's bytes were checked; OpenSHMEM's programs access it by atomics meanwhile.
            let Some(old) = (unsafe { am_atomics::update(target.at, T::WIDTH, operation()) }) else {
                misaligned(call, dest.addr(), size_of::<T>(), pe)
            };
            world::wake(target, pe);
            T::from_bits(old)
        }
        None => T::from_bits(unsafe { update_slowly(call, dest.addr(), T::WIDTH, pe, operation()) }),
    }
}

#[inline(never)]
pub(crate) unsafe fn update_slowly(
    call: &str,
    dest: usize,
    width: Width,
    pe: c_int,
    operation: AtomicOp,
) -> u64 {
    let len = width.bytes() as usize;
    match locate(call, "dest", dest, len, pe) {
        Place::Mapped(target) => {
            // SAFETY: as in `update`.
            let Some(old) = (unsafe { am_atomics::update(target.at, width, operation) }) else {
                misaligned(call, dest, len, pe)
            };
            world::wake(target, pe);
            old
        }
        Place::Far(at) => {
            let old = world::world(call).shared.rmw(at, width, operation);
            old.unwrap_or_else(|error| fail_by(call, &error))
        }
    }
}

#[cold]
fn misaligned(call: &str, dest: usize, len: usize, pe: c_int) -> ! {
    fail(
        call,
        format_args!(
            "dest = {dest:#x} for PE {pe}: an atomic operation needs an address that is a multiple of {len}"
        ),
    )
}

#[inline(always)]
pub(crate) unsafe fn fetch<T: Word>(call: &str, ctx: Ctx, source: *const T, pe: c_int) -> T {
    let pe = context::pe(call, ctx, pe);
    match mapped(source.addr(), size_of::<T>(), pe) {
        Some(target) if target.at.cast::<T>().is_aligned() => unsafe { load(target) },
        _ => T::from_bits(unsafe { fetch_slowly(call, source.addr(), T::WIDTH, pe) }),
    }
}

#[inline(always)]
unsafe fn load<T: Word>(Target { at, .. }: Target) -> T {
    // SAFETY: as in `update`. Acquire: like the other atomic operations.
    T::from_bits(unsafe {
        match T::WIDTH {
            Width::Bits8 => AtomicU8::from_ptr(at).load(Ordering::Acquire).into(),
            Width::Bits16 => AtomicU16::from_ptr(at.cast()).load(Ordering::Acquire).into(),
            Width::Bits32 => AtomicU32::from_ptr(at.cast()).load(Ordering::Acquire).into(),
            Width::Bits64 => AtomicU64::from_ptr(at.cast()).load(Ordering::Acquire),
        }
    })
}

/// By an operation that changes nothing.
#[inline(never)]
unsafe fn fetch_slowly(call: &str, source: usize, width: Width, pe: c_int) -> u64 {
    unsafe { update_slowly(call, source, width, pe, AtomicOp::FetchAdd(0)) }
}

#[inline(always)]
pub(crate) unsafe fn set<T: Word>(call: &str, ctx: Ctx, dest: *mut T, value: T, pe: c_int) {
    unsafe { update(call, ctx, dest, pe, || AtomicOp::Swap(value.to_bits())) };
}

#[inline(always)]
pub(crate) unsafe fn swap<T: Word>(call: &str, ctx: Ctx, dest: *mut T, value: T, pe: c_int) -> T {
    unsafe { update(call, ctx, dest, pe, || AtomicOp::Swap(value.to_bits())) }
}

#[inline(always)]
pub(crate) unsafe fn compare_swap<T: Word>(
    call: &str,
    ctx: Ctx,
    dest: *mut T,
    cond: T,
    value: T,
    pe: c_int,
) -> T {
    let operation = || AtomicOp::CompareSwap { expected: cond.to_bits(), new: value.to_bits() };
    unsafe { update(call, ctx, dest, pe, operation) }
}

#[inline(always)]
pub(crate) unsafe fn fetch_inc<T: Word>(call: &str, ctx: Ctx, dest: *mut T, pe: c_int) -> T {
    unsafe { update(call, ctx, dest, pe, || AtomicOp::FetchAdd(1)) }
}

#[inline(always)]
pub(crate) unsafe fn inc<T: Word>(call: &str, ctx: Ctx, dest: *mut T, pe: c_int) {
    unsafe { update(call, ctx, dest, pe, || AtomicOp::FetchAdd(1)) };
}

/// The form that returns the old value, the one that returns nothing, and the one that stores the old value.
macro_rules! operations {
    ($($fetching:ident $plain:ident $nonblocking:ident $operation:ident;)*) => {$(
        #[inline(always)]
        pub(crate) unsafe fn $fetching<T: Word>(call: &str, ctx: Ctx, dest: *mut T, value: T, pe: c_int) -> T {
            unsafe { update(call, ctx, dest, pe, || AtomicOp::$operation(value.to_bits())) }
        }

        #[inline(always)]
        pub(crate) unsafe fn $plain<T: Word>(call: &str, ctx: Ctx, dest: *mut T, value: T, pe: c_int) {
            unsafe { update(call, ctx, dest, pe, || AtomicOp::$operation(value.to_bits())) };
        }

        #[inline(always)]
        pub(crate) unsafe fn $nonblocking<T: Word>(call: &str, ctx: Ctx, fetch: *mut T, dest: *mut T, value: T, pe: c_int) {
            unsafe { *fetch = $fetching(call, ctx, dest, value, pe) };
        }
    )*};
}

operations! {
    fetch_add add fetch_add_nbi FetchAdd;
    fetch_and and fetch_and_nbi FetchAnd;
    fetch_or or fetch_or_nbi FetchOr;
    fetch_xor xor fetch_xor_nbi FetchXor;
}

pub(crate) unsafe fn fetch_nbi<T: Word>(call: &str, ctx: Ctx, into: *mut T, source: *const T, pe: c_int) {
    unsafe { *into = fetch(call, ctx, source, pe) };
}

pub(crate) unsafe fn swap_nbi<T: Word>(
    call: &str,
    ctx: Ctx,
    into: *mut T,
    dest: *mut T,
    value: T,
    pe: c_int,
) {
    unsafe { *into = swap(call, ctx, dest, value, pe) };
}

pub(crate) unsafe fn compare_swap_nbi<T: Word>(
    call: &str,
    ctx: Ctx,
    into: *mut T,
    dest: *mut T,
    cond: T,
    value: T,
    pe: c_int,
) {
    unsafe { *into = compare_swap(call, ctx, dest, cond, value, pe) };
}

pub(crate) unsafe fn fetch_inc_nbi<T: Word>(call: &str, ctx: Ctx, into: *mut T, dest: *mut T, pe: c_int) {
    unsafe { *into = fetch_inc(call, ctx, dest, pe) };
}

/// The names of version 1.3, without contexts.
pub(crate) mod old {
    use super::{Ctx, Word, c_int};

    macro_rules! without_context {
        ($($name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)?;)*) => {$(
            pub(crate) unsafe fn $name<T: Word>(call: &str, $($argument: $kind,)* pe: c_int) $(-> $result)? {
                unsafe { super::$name(call, Ctx::DEFAULT, $($argument,)* pe) }
            }
        )*};
    }

    without_context! {
        fetch(source: *const T) -> T;
        set(dest: *mut T, value: T);
        swap(dest: *mut T, value: T) -> T;
        compare_swap(dest: *mut T, cond: T, value: T) -> T;
        fetch_inc(dest: *mut T) -> T;
        inc(dest: *mut T);
        fetch_add(dest: *mut T, value: T) -> T;
        add(dest: *mut T, value: T);
    }
}
