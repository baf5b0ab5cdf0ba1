//! Remote memory access (OpenSHMEM 1.6, section 9.6). An operation on a PE of this host has ended when its call returns; so non-blocking
//! forms are the blocking ones.

use std::ffi::c_int;

use am_core::GetOptions;
use am_core::PutOptions;
use am_core::RemoteAddress;

use crate::context;
use crate::objects::Ctx;
use crate::world::{self, Place, Target, fail, fail_by, locate, mapped};

/// Bytes of `count` elements.
#[inline(always)]
fn bytes<T>(call: &str, count: usize) -> usize {
    match count.checked_mul(size_of::<T>()) {
        Some(bytes) => bytes,
        None => fail(
            call,
            format_args!("{count} elements of {} bytes are more than memory holds", size_of::<T>()),
        ),
    }
}

/// Copies to memory of a PE.
unsafe fn put_bytes(call: &str, place: Place, source: *const u8, len: usize, pe: c_int) {
    match place {
        Place::Mapped(target) => {
            // SAFETY: the target's bytes were checked; the source is the caller's. They overlap only in a put to this PE.
            unsafe { std::ptr::copy(source, target.at, len) };
            world::wake(target, pe);
        }
        Place::Far(to) => {
            let source = unsafe { std::slice::from_raw_parts(source, len) };
            let put =
                world::world(call).shared.with(|context| context.put(to, source, PutOptions::default()));
            put.unwrap_or_else(|error| fail_by(call, &error));
        }
    }
}

/// Copies from memory of a PE.
pub(crate) unsafe fn get_bytes(call: &str, place: Place, dest: *mut u8, len: usize) {
    match place {
        // SAFETY: as in `put_bytes`.
        Place::Mapped(Target { at, .. }) => unsafe { std::ptr::copy(at.cast_const(), dest, len) },
        Place::Far(from) => {
            let dest = unsafe { std::slice::from_raw_parts_mut(dest, len) };
            let got =
                world::world(call).shared.with(|context| context.get(from, dest, GetOptions::default()));
            got.unwrap_or_else(|error| fail_by(call, &error));
        }
    }
}

/// A part of a place that was checked.
fn at(place: Place, offset: usize) -> Place {
    match place {
        // SAFETY: the caller stays inside the place.
        Place::Mapped(Target { at, part }) => Place::Mapped(Target { at: unsafe { at.add(offset) }, part }),
        Place::Far(address) => Place::Far(RemoteAddress::plus(address, offset as u64)),
    }
}

#[inline(always)]
pub(crate) unsafe fn put<T>(call: &str, ctx: Ctx, dest: *mut T, source: *const T, count: usize, pe: c_int) {
    let len = bytes::<T>(call, count);
    let pe = context::pe(call, ctx, pe);
    match mapped(dest.addr(), len, pe) {
        Some(target) => {
            // SAFETY: as in `put_bytes`.
            unsafe { std::ptr::copy(source.cast::<u8>(), target.at, len) };
            world::wake(target, pe);
        }
        None => unsafe { put_slowly(call, dest.addr(), source.cast(), len, pe) },
    }
}

#[inline(never)]
unsafe fn put_slowly(call: &str, dest: usize, source: *const u8, len: usize, pe: c_int) {
    if len > 0 {
        unsafe { put_bytes(call, locate(call, "dest", dest, len, pe), source, len, pe) };
    } else {
        world::check_pe(call, pe);
    }
}

#[inline(always)]
pub(crate) unsafe fn get<T>(call: &str, ctx: Ctx, dest: *mut T, source: *const T, count: usize, pe: c_int) {
    let len = bytes::<T>(call, count);
    let pe = context::pe(call, ctx, pe);
    match mapped(source.addr(), len, pe) {
        // SAFETY: as in `put_bytes`.
        Some(target) => unsafe { std::ptr::copy(target.at.cast_const(), dest.cast::<u8>(), len) },
        None => unsafe { get_slowly(call, source.addr(), dest.cast(), len, pe) },
    }
}

#[inline(never)]
unsafe fn get_slowly(call: &str, source: usize, dest: *mut u8, len: usize, pe: c_int) {
    if len > 0 {
        unsafe { get_bytes(call, locate(call, "source", source, len, pe), dest, len) };
    } else {
        world::check_pe(call, pe);
    }
}

#[inline(always)]
pub(crate) unsafe fn p<T>(call: &str, ctx: Ctx, dest: *mut T, value: T, pe: c_int) {
    let pe = context::pe(call, ctx, pe);
    match mapped(dest.addr(), size_of::<T>(), pe) {
        Some(target) => {
            // SAFETY: as in `put_bytes`.
            unsafe { target.at.cast::<T>().write_unaligned(value) };
            world::wake(target, pe);
        }
        None => unsafe { put_slowly(call, dest.addr(), (&raw const value).cast(), size_of::<T>(), pe) },
    }
}

#[inline(always)]
pub(crate) unsafe fn g<T>(call: &str, ctx: Ctx, source: *const T, pe: c_int) -> T {
    let pe = context::pe(call, ctx, pe);
    match mapped(source.addr(), size_of::<T>(), pe) {
        // SAFETY: as in `put_bytes`.
        Some(target) => unsafe { target.at.cast::<T>().read_unaligned() },
        None => {
            let mut value = std::mem::MaybeUninit::<T>::uninit();
            unsafe { get_slowly(call, source.addr(), value.as_mut_ptr().cast(), size_of::<T>(), pe) };
            // SAFETY: all bytes were filled, and any bytes are a value of a number.
            unsafe { value.assume_init() }
        }
    }
}

pub(crate) unsafe fn iput<T>(
    call: &str,
    ctx: Ctx,
    dest: *mut T,
    source: *const T,
    dst: isize,
    sst: isize,
    count: usize,
    pe: c_int,
) {
    unsafe { ibput(call, ctx, dest, source, dst, sst, 1, count, pe) };
}

pub(crate) unsafe fn iget<T>(
    call: &str,
    ctx: Ctx,
    dest: *mut T,
    source: *const T,
    dst: isize,
    sst: isize,
    count: usize,
    pe: c_int,
) {
    unsafe { ibget(call, ctx, dest, source, dst, sst, 1, count, pe) };
}

/// The bytes of blocks with a distance, all together: checked at once.
fn span<T>(
    call: &str,
    argument: &str,
    address: usize,
    distance: isize,
    block: usize,
    count: usize,
    pe: c_int,
) -> Place {
    let wrong = || -> ! {
        fail(
            call,
            format_args!(
                "{count} blocks of {block} elements at a distance of {distance}: use a distance of at least the block"
            ),
        )
    };
    let Ok(distance) = usize::try_from(distance) else { wrong() };
    if distance < block {
        wrong();
    }
    let elements = (count - 1).checked_mul(distance).and_then(|elements| elements.checked_add(block));
    match elements.and_then(|elements| elements.checked_mul(size_of::<T>())) {
        Some(len) => locate(call, argument, address, len, pe),
        None => wrong(),
    }
}

pub(crate) unsafe fn ibput<T>(
    call: &str,
    ctx: Ctx,
    dest: *mut T,
    source: *const T,
    dst: isize,
    sst: isize,
    block: usize,
    count: usize,
    pe: c_int,
) {
    let pe = context::pe(call, ctx, pe);
    if count == 0 || block == 0 {
        world::check_pe(call, pe);
        return;
    }
    let place = span::<T>(call, "dest", dest.addr(), dst, block, count, pe);
    let (width, len) = (size_of::<T>(), block * size_of::<T>());
    for index in 0..count {
        let from = source.wrapping_offset(index as isize * sst).cast::<u8>();
        match at(place, index * dst as usize * width) {
            // SAFETY: as in `put_bytes`.
            Place::Mapped(target) => unsafe { std::ptr::copy(from, target.at, len) },
            far => unsafe { put_bytes(call, far, from, len, pe) },
        }
    }
    if let Place::Mapped(target) = place {
        world::wake(target, pe);
    }
}

pub(crate) unsafe fn ibget<T>(
    call: &str,
    ctx: Ctx,
    dest: *mut T,
    source: *const T,
    dst: isize,
    sst: isize,
    block: usize,
    count: usize,
    pe: c_int,
) {
    let pe = context::pe(call, ctx, pe);
    if count == 0 || block == 0 {
        world::check_pe(call, pe);
        return;
    }
    let place = span::<T>(call, "source", source.addr(), sst, block, count, pe);
    let (width, len) = (size_of::<T>(), block * size_of::<T>());
    for index in 0..count {
        let to = dest.wrapping_offset(index as isize * dst).cast::<u8>();
        unsafe { get_bytes(call, at(place, index * sst as usize * width), to, len) };
    }
}
