//! The elements of a message, borrowed until its operation has ended.

use std::marker::PhantomData;
use std::ptr::NonNull;

use am_core::buffer::{RawBuffer, RawBytes};
use bytemuck::{AnyBitPattern, NoUninit};

use super::{RecvData, SendData, bytes_of, raw_buffer};

/// A lender that ends every operation started through it before `'a` ends: a scope.
pub(crate) trait Lends<'a> {}

/// The elements of a message to be sent, borrowed for `'a`.
#[derive(Debug)]
pub struct Outgoing<'a>(Sending<'a>);

/// The elements that a message is received into, borrowed for `'a`.
#[derive(Debug)]
pub struct Incoming<'a>(Receiving, PhantomData<&'a mut [u8]>);

/// The layout of the elements of a send.
#[derive(Debug)]
pub(crate) enum Sending<'a> {
    /// Contiguous.
    Bytes(&'a [u8]),
    /// As a datatype describes. The memory is borrowed for `'a`.
    Elements(SendData, PhantomData<&'a [u8]>),
}

/// The layout of the elements of a receive.
#[derive(Debug)]
pub(crate) enum Receiving {
    Bytes(RawBuffer),
    Elements(RecvData),
}

impl<'a> Outgoing<'a> {
    /// The bytes of a slice.
    #[inline(always)]
    #[must_use]
    pub fn of_slice<T: NoUninit>(data: &'a [T]) -> Self {
        Self(Sending::Bytes(bytes_of(data)))
    }

    /// Elements that a datatype describes.
    ///
    /// # Safety
    /// The promise of `data` must be kept for `'a`.
    pub(super) unsafe fn of_data(data: SendData) -> Self {
        Self(Sending::Elements(data, PhantomData))
    }

    /// Bytes of the message.
    #[must_use]
    pub fn packed_len(&self) -> u64 {
        match &self.0 {
            Sending::Bytes(bytes) => bytes.len() as u64,
            Sending::Elements(data, _) => data.packed_len(),
        }
    }

    /// Lends the elements to `send`. When `send` returns or unwinds, its operation must have ended.
    #[inline(always)]
    pub(crate) fn lend<R>(self, send: impl FnOnce(Sending<'a>) -> R) -> R {
        send(self.0)
    }

    /// Like [`lend`](Self::lend), for a call that accepts any layout.
    pub(crate) fn lend_data<R>(self, send: impl FnOnce(SendData) -> R) -> R {
        // SAFETY: `send` ends its operation before it returns or unwinds, and so before the borrow ends.
        send(unsafe { self.into_data() })
    }

    /// Lends the elements to an operation of a scope. The scope ends before `'a` does, and waits for every operation that was started
    /// through it.
    #[inline(always)]
    pub(crate) fn lend_to_scope(self, _scope: &'a impl Lends<'a>) -> SendData {
        // SAFETY: the scope ends the operation before the borrow ends (`Lends`).
        unsafe { self.into_data() }
    }

    /// The elements without their lifetime.
    ///
    /// # Safety
    /// The operation that gets the elements must end before `'a` does, or nothing may access or free the memory until the operation has
    /// ended.
    #[inline(always)]
    pub(super) unsafe fn into_data(self) -> SendData {
        match self.0 {
            Sending::Bytes(bytes) => {
                // SAFETY: the caller's promise; the bytes of a slice are initialised.
                let raw = unsafe { RawBytes::new(NonNull::from(bytes).cast(), bytes.len()) };
                SendData::from_bytes(raw)
            }
            Sending::Elements(data, _) => data,
        }
    }
}

impl<'a> Incoming<'a> {
    /// A slice to fill from its start.
    #[inline(always)]
    #[must_use]
    pub fn of_slice<T: AnyBitPattern>(to: &'a mut [T]) -> Self {
        // SAFETY: `to` is exclusively borrowed for `'a`, which the operation that gets the range does not outlive (`lend`,
        // `lend_to_scope`). `AnyBitPattern` means that any received bytes are valid elements.
        Self(Receiving::Bytes(unsafe { raw_buffer(to) }), PhantomData)
    }

    /// Elements that a datatype describes.
    ///
    /// # Safety
    /// The promise of `data` must be kept for `'a`.
    pub(super) unsafe fn of_data(data: RecvData) -> Self {
        Self(Receiving::Elements(data), PhantomData)
    }

    /// Bytes of a message that fills all elements.
    #[must_use]
    pub fn packed_len(&self) -> u64 {
        match &self.0 {
            Receiving::Bytes(buffer) => buffer.len() as u64,
            Receiving::Elements(data) => data.packed_len(),
        }
    }

    /// Lends the elements to `receive`. When `receive` returns or unwinds, its operation must have ended.
    #[inline(always)]
    pub(crate) fn lend<R>(self, receive: impl FnOnce(Receiving) -> R) -> R {
        receive(self.0)
    }

    /// Like [`lend`](Self::lend), for a call that accepts any layout.
    pub(crate) fn lend_data<R>(self, receive: impl FnOnce(RecvData) -> R) -> R {
        // SAFETY: `receive` ends its operation before it returns or unwinds, and so before the borrow ends.
        receive(unsafe { self.into_data() })
    }

    /// Lends the elements to an operation of a scope; see [`Outgoing::lend_to_scope`].
    #[inline(always)]
    pub(crate) fn lend_to_scope(self, _scope: &'a impl Lends<'a>) -> RecvData {
        // SAFETY: the scope ends the operation before the borrow ends (`Lends`).
        unsafe { self.into_data() }
    }

    /// The elements without their lifetime.
    ///
    /// # Safety
    /// The operation that gets the elements must end before `'a` does, or nothing may access or free the memory until the operation has
    /// ended.
    #[inline(always)]
    pub(super) unsafe fn into_data(self) -> RecvData {
        match self.0 {
            Receiving::Bytes(buffer) => RecvData::from_buffer(buffer),
            Receiving::Elements(data) => data,
        }
    }
}
