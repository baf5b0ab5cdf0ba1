//! Pointers to elements in the memory of all tasks together, and the operations on them.

use std::fmt;

use bytemuck::Pod;

use crate::buffer::{MappedPart, RemoteAddress};
use crate::call_guard;
use crate::context::Context;
use crate::error::{Error, RangeFault, Result};
use crate::fabric::Fabric;
use crate::handler::HandlerSet;
use crate::task::TaskId;
use crate::transfer::{AtomicOp, Width};
use crate::verbs::{Get, GetOptions, Put, PutOptions, Scope};

/// An element of a segment in some task's memory, and the elements after it up to the end of that task's part.
///
/// An operation on memory that this task has mapped ends in its call: a few checks, and the access itself. The memory of a segment is found
/// when its heap is made. A pointer that came as bytes ([`from_bytes`](Self::from_bytes)) is checked at each use, which takes longer.
///
/// It is a number, not a borrow: it may be stored, sent to other tasks ([`to_bytes`](Self::to_bytes)), and outlive its target. Each use is
/// checked, and is an error if the memory is no longer exposed.
pub struct GlobalPointer<T> {
    address: RemoteAddress,
    /// Elements from here to the end.
    count: u64,
    /// The elements in place, if the pointer was made by a task that has mapped them.
    mapped: MappedPart<T>,
}

impl<T> Clone for GlobalPointer<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for GlobalPointer<T> {}

impl<T> PartialEq for GlobalPointer<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.address, self.count) == (other.address, other.count)
    }
}

impl<T> Eq for GlobalPointer<T> {}

impl<T> fmt::Debug for GlobalPointer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RemoteAddress { task, grant, offset, .. } = self.address;
        let kind = std::any::type_name::<T>();
        write!(f, "{} x {kind} in {task}, region {} at {offset:#x}", self.count, grant.region)
    }
}

impl<T: Pod> GlobalPointer<T> {
    /// Bytes of the encoded form.
    pub const BYTES: usize = RemoteAddress::BYTES + 8;

    #[inline(always)]
    pub(super) fn new(address: RemoteAddress, count: u64, mapped: MappedPart<T>) -> Self {
        Self { address, count, mapped }
    }

    /// The task that has the element in its memory.
    #[inline(always)]
    #[must_use]
    pub fn task(self) -> TaskId {
        self.address.task
    }

    /// The address of the element, for am-core's calls.
    #[inline(always)]
    #[must_use]
    pub fn address(self) -> RemoteAddress {
        self.address
    }

    /// Number of elements from here to the end of the task's part.
    #[inline(always)]
    #[must_use]
    pub fn count(self) -> u64 {
        self.count
    }

    /// The element `count` positions further on, in the same task's memory. The position just after the last element is allowed.
    ///
    /// # Errors
    /// The element lies beyond the end of the task's part.
    #[inline(always)]
    pub fn plus(self, count: u64) -> Result<Self> {
        self.check(count)?;
        // A count that came as bytes may be any number.
        let bytes = count.checked_mul(size_of::<T>() as u64).ok_or_else(|| self.beyond(count))?;
        Ok(Self::new(self.address.plus(bytes), self.count - count, self.mapped.plus(count)))
    }

    /// The encoded form, to be sent.
    #[must_use]
    pub fn to_bytes(self) -> [u8; RemoteAddress::BYTES + 8] {
        let mut bytes = [0; RemoteAddress::BYTES + 8];
        bytes[..RemoteAddress::BYTES].copy_from_slice(&self.address.to_bytes());
        bytes[RemoteAddress::BYTES..].copy_from_slice(&self.count.to_le_bytes());
        bytes
    }

    /// A pointer from received bytes. It is a claim, which is checked at each use.
    #[must_use]
    pub fn from_bytes(bytes: [u8; RemoteAddress::BYTES + 8]) -> Self {
        let mut address = [0; RemoteAddress::BYTES];
        let mut count = [0; 8];
        address.copy_from_slice(&bytes[..RemoteAddress::BYTES]);
        count.copy_from_slice(&bytes[RemoteAddress::BYTES..]);
        Self::new(RemoteAddress::from_bytes(address), u64::from_le_bytes(count), MappedPart::NONE)
    }

    /// Checks that `count` elements lie before the end of the task's part.
    #[inline(always)]
    pub(super) fn check(self, count: u64) -> Result<()> {
        if count <= self.count { Ok(()) } else { Err(self.beyond(count)) }
    }

    #[cold]
    #[inline(never)]
    fn beyond(self, count: u64) -> Error {
        let size = size_of::<T>() as u64;
        let RemoteAddress { task, grant, offset, .. } = self.address;
        Error::RemoteRange {
            task,
            region: grant.region,
            generation: grant.generation,
            offset,
            len: count.saturating_mul(size),
            why: RangeFault::Bounds { region_len: offset.saturating_add(self.count.saturating_mul(size)) },
        }
    }

    /// Returns the element's value (get).
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    #[inline(always)]
    pub fn read<F: Fabric, H: HandlerSet>(self, context: &mut Context<F, H>) -> Result<T> {
        let is_unmarked = call_guard::is_unmarked_process();
        if !context.is_round_due()
            && let Some(value) = context.load_mapped(is_unmarked, &self.mapped)
        {
            return Ok(value);
        }
        Self::read_slowly(context, &self)
    }

    /// A round of progress is due, or the program has run handlers. Or the general path has to read the element, or to refuse it: the
    /// pointer has none, or none that is mapped here; a task was lost; or the process has another mark.
    #[inline(never)]
    fn read_slowly<F: Fabric, H: HandlerSet>(context: &mut Context<F, H>, at: &Self) -> Result<T> {
        let is_unmarked = call_guard::is_unmarked();
        context.make_round(is_unmarked);
        if let Some(value) = context.load_mapped(is_unmarked, &at.mapped) {
            return Ok(value);
        }
        let mut value = T::zeroed();
        at.get(context, std::slice::from_mut(&mut value), GetOptions::default())?;
        Ok(value)
    }

    /// Sets the element (put). The value is certainly stored when the next fence returns. With [`put`](Self::put), a counter can tell that
    /// earlier.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    #[inline(always)]
    pub fn write<F: Fabric, H: HandlerSet>(self, context: &mut Context<F, H>, value: T) -> Result<()> {
        if context.store_mapped(call_guard::is_unmarked_process(), &self.mapped, value) {
            return Ok(());
        }
        Self::write_slowly(context, &self, value)
    }

    /// Like [`read_slowly`](Self::read_slowly).
    #[inline(never)]
    fn write_slowly<F: Fabric, H: HandlerSet>(
        context: &mut Context<F, H>,
        at: &Self,
        value: T,
    ) -> Result<()> {
        if context.store_mapped(call_guard::is_unmarked(), &at.mapped, value) {
            return Ok(());
        }
        at.put(context, std::slice::from_ref(&value), PutOptions::default())
    }

    /// Reads `to.len()` elements, beginning with this one; they are in `to` when the call returns.
    ///
    /// # Errors
    /// Elements beyond the end of the task's part; the errors of [`Context::get`].
    #[inline(always)]
    pub fn get<F: Fabric, H: HandlerSet>(
        self,
        context: &mut Context<F, H>,
        to: &mut [T],
        options: GetOptions,
    ) -> Result<()> {
        if to.len() as u64 > self.count {
            return Err(self.beyond(to.len() as u64));
        }
        context.get(self.address, bytemuck::cast_slice_mut(to), options)
    }

    /// Writes `values` to the elements from this one on; `values` may be changed again when the call returns.
    ///
    /// # Errors
    /// Elements beyond the end of the task's part; the errors of [`Context::put`].
    #[inline(always)]
    pub fn put<F: Fabric, H: HandlerSet>(
        self,
        context: &mut Context<F, H>,
        values: &[T],
        options: PutOptions,
    ) -> Result<()> {
        if values.len() as u64 > self.count {
            return Err(self.beyond(values.len() as u64));
        }
        context.put(self.address, bytemuck::cast_slice(values), options)
    }

    /// Like [`get`](Self::get), without waiting: `to` is filled when the scope has ended, or when the origin counter is bumped.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn get_in<'env, F: Fabric, H: HandlerSet>(
        self,
        scope: &mut Scope<'_, 'env, F, H>,
        to: &'env mut [T],
        options: GetOptions,
    ) -> Result<()> {
        self.check(to.len() as u64)?;
        scope.start(Get { from: self.address, options }, bytemuck::cast_slice_mut::<T, u8>(to))
    }

    /// Like [`put`](Self::put), without waiting: `values` stay borrowed until the scope has ended.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    pub fn put_in<'env, F: Fabric, H: HandlerSet>(
        self,
        scope: &mut Scope<'_, 'env, F, H>,
        values: &'env [T],
        options: PutOptions,
    ) -> Result<()> {
        self.check(values.len() as u64)?;
        scope.start(Put { to: self.address, options }, bytemuck::cast_slice::<T, u8>(values))
    }
}

mod sealed {
    pub trait Sealed {}
}

/// Element types with atomic operations: integers of 32 and 64 bits.
pub trait Word: Pod + Eq + sealed::Sealed {
    /// Size of the word.
    const WIDTH: Width;

    /// The value in the low bits of an operand.
    fn to_bits(self) -> u64;

    /// The value in the low bits of a result.
    fn from_bits(bits: u64) -> Self;
}

macro_rules! word {
    ($($kind:ty, $unsigned:ty, $width:ident;)*) => {$(
        impl sealed::Sealed for $kind {}
        impl Word for $kind {
            const WIDTH: Width = Width::$width;

            #[inline(always)]
            fn to_bits(self) -> u64 {
                // Through the unsigned type of the same size, to avoid sign extension.
                u64::from(bytemuck::cast::<$kind, $unsigned>(self))
            }

            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                bytemuck::cast::<$unsigned, $kind>(bits as $unsigned)
            }
        }
    )*};
}

word! {
    u32, u32, Bits32;
    i32, u32, Bits32;
    u64, u64, Bits64;
    i64, u64, Bits64;
}

impl<T: Word> GlobalPointer<T> {
    /// An atomic operation on the element; returns the old value (rmw).
    ///
    /// # Errors
    /// A pointer to the end of the task's part, where there is no element; the errors of [`Context::rmw`].
    #[inline(always)]
    pub fn rmw<F: Fabric, H: HandlerSet>(
        self,
        context: &mut Context<F, H>,
        operation: AtomicOp,
    ) -> Result<T> {
        self.rmw_by(context, || operation)
    }

    /// [`rmw`](Self::rmw) by an operation that is made where it is carried out, so that the compiler knows it there.
    #[inline(always)]
    fn rmw_by<F: Fabric, H: HandlerSet>(
        self,
        context: &mut Context<F, H>,
        operation: impl Fn() -> AtomicOp,
    ) -> Result<T> {
        let is_unmarked = call_guard::is_unmarked_process();
        if !context.is_round_due()
            && let Some(old) = context.update_mapped(is_unmarked, &self.mapped, T::WIDTH, &operation)
        {
            return Ok(T::from_bits(old));
        }
        Self::rmw_slowly(context, &self, operation())
    }

    /// Like [`read_slowly`](Self::read_slowly).
    #[inline(never)]
    fn rmw_slowly<F: Fabric, H: HandlerSet>(
        context: &mut Context<F, H>,
        at: &Self,
        operation: AtomicOp,
    ) -> Result<T> {
        let is_unmarked = call_guard::is_unmarked();
        context.make_round(is_unmarked);
        let old = match context.update_mapped(is_unmarked, &at.mapped, T::WIDTH, || operation) {
            Some(old) => old,
            None => {
                at.check(1)?;
                context.rmw(at.address, T::WIDTH, operation)?
            }
        };
        Ok(T::from_bits(old))
    }

    /// Adds `value`, wrapping; returns the old value.
    ///
    /// # Errors
    /// Those of [`rmw`](Self::rmw).
    #[inline(always)]
    pub fn fetch_add<F: Fabric, H: HandlerSet>(self, context: &mut Context<F, H>, value: T) -> Result<T> {
        self.rmw_by(context, || AtomicOp::FetchAdd(value.to_bits()))
    }

    /// Bitwise exclusive or; returns the old value.
    ///
    /// # Errors
    /// Those of [`rmw`](Self::rmw).
    #[inline(always)]
    pub fn fetch_xor<F: Fabric, H: HandlerSet>(self, context: &mut Context<F, H>, value: T) -> Result<T> {
        self.rmw_by(context, || AtomicOp::FetchXor(value.to_bits()))
    }

    /// Replaces the value; returns the old one.
    ///
    /// # Errors
    /// Those of [`rmw`](Self::rmw).
    #[inline(always)]
    pub fn swap<F: Fabric, H: HandlerSet>(self, context: &mut Context<F, H>, value: T) -> Result<T> {
        self.rmw_by(context, || AtomicOp::Swap(value.to_bits()))
    }

    /// If the value is `expected`, replaces it and returns `Ok` with the old value; otherwise returns `Err` with the current value.
    ///
    /// # Errors
    /// Those of [`rmw`](Self::rmw).
    #[inline(always)]
    pub fn compare_exchange<F: Fabric, H: HandlerSet>(
        self,
        context: &mut Context<F, H>,
        expected: T,
        new: T,
    ) -> Result<Result<T, T>> {
        let operation = || AtomicOp::CompareSwap { expected: expected.to_bits(), new: new.to_bits() };
        let old = self.rmw_by(context, operation)?;
        Ok(if old == expected { Ok(old) } else { Err(old) })
    }
}
