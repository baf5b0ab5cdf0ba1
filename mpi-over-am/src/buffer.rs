//! User memory that an operation holds beyond a call: this crate's only `unsafe`.
//!
//! A [`RawBytes`] or [`RawBuffer`] made here carries a promise: the memory stays alive, and the program leaves it alone, until
//! the operation that holds it has ended. Each function says who keeps that promise.

use std::ptr::NonNull;

use am_core::buffer::RawBuffer;
use bytemuck::{AnyBitPattern, NoUninit};

/// The bytes of a slice to be sent.
#[inline(always)]
pub(crate) fn bytes_of<T: NoUninit>(data: &[T]) -> &[u8] {
    // SAFETY: `NoUninit` says that every byte of a `T` is initialised; the bytes are borrowed as long as `data` is; a slice is
    // no longer than isize::MAX bytes, and bytes have no alignment.
    unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) }
}

/// Lends a slice to a blocking receive. `receive` keeps the promise: nothing uses the memory any more when it returns or
/// unwinds.
#[inline(always)]
pub(crate) fn lend_to_receive<T: AnyBitPattern, R>(to: &mut [T], receive: impl FnOnce(RawBuffer) -> R) -> R {
    let len = size_of_val(to);
    // SAFETY: `to` is exclusively borrowed until this function returns or unwinds, and `receive` ends the operation before
    // (`protocol::receive`). `AnyBitPattern` says that whatever bytes come make valid elements.
    let raw = unsafe { RawBuffer::new(NonNull::from(&mut *to).cast(), len) };
    receive(raw)
}
