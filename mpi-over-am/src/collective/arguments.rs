//! The arguments of typed collectives: slices, and the parts that they are divided into.

use std::any::TypeId;
use std::ops::Range;

use super::{Datum, Parts};
use crate::data::buffer::{
    Equivalence, Keeps, RecvData, SendData, elements_to_keep, elements_to_keep_mut, incoming_to_keep,
    layout_to_keep, layout_to_keep_mut, outgoing_to_keep,
};
use crate::error::{Error, Result};
use crate::rank::ROOT;
use bytemuck::{AnyBitPattern, NoUninit};
use mpi_datatype::{Datatype, Predefined};

/// The lengths and positions of the parts of a slice, one part for each rank or neighbour.
#[derive(Clone, Copy, Debug)]
pub struct Placement<'a> {
    /// Number of elements of each part.
    pub counts: &'a [usize],
    /// Index of the first element of each part.
    pub displacements: &'a [usize],
}

impl Placement<'_> {
    /// The parts of a slice of `len` elements.
    ///
    /// # Errors
    /// [`Error::Count`]: a part is not inside the slice, or the numbers of displacements and counts differ. [`Error::TooLarge`]: the end of
    /// a part overflows.
    fn parts<D>(
        &self,
        call: &'static str,
        len: usize,
        mut part: impl FnMut(Range<usize>) -> Result<D>,
    ) -> Result<Parts<D>> {
        if self.counts.len() != self.displacements.len() {
            let (given, expected) = (self.displacements.len(), self.counts.len());
            return Err(Error::Count { call, given, expected });
        }
        let parts = self.counts.iter().zip(self.displacements).map(|(&count, &first)| {
            let end = first.checked_add(count).ok_or(Error::TooLarge { call })?;
            if end > len {
                return Err(Error::Count { call, given: len, expected: end });
            }
            part(first..end)
        });
        Ok(Parts::Listed(parts.collect::<Result<_>>()?))
    }
}

/// One part of a slice: elements of a datatype, from a displacement on.
#[derive(Clone, Copy, Debug)]
pub struct LayoutPart<'a> {
    /// Bytes from the start of the slice.
    pub displacement_bytes: usize,
    /// The number of elements.
    pub count: u64,
    /// The type of the elements.
    pub datatype: &'a Datatype,
}

/// A task's position in its communicator. Only `run`, `start`, `start_owned` and `keep` make one.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    pub(super) rank: u32,
    pub(super) size: u32,
    /// Number of tasks in the remote group of an inter-communicator.
    pub(super) remote: Option<u32>,
}

// SAFETY: the memory outlives the operation: `run` waits for the collective; a scope waits for everything started in it; an owned or
// persistent request keeps its vector.
#[expect(unsafe_code, reason = "a promise about the buffers of operations (`buffer::Keeps`)")]
unsafe impl Keeps for Position {}

impl Position {
    /// Whether this task is the root.
    pub(super) fn is_root(self, root: u32) -> bool {
        if self.remote.is_some() { root == ROOT } else { self.rank == root }
    }

    /// What the root has, and other tasks do not have.
    pub(super) fn at_root<R>(self, root: u32, make: impl FnOnce() -> Result<R>) -> Result<Option<R>> {
        self.is_root(root).then(make).transpose()
    }

    /// Number of ranks that this task exchanges parts with.
    pub(super) fn partners(self) -> usize {
        self.remote.unwrap_or(self.size) as usize
    }

    /// The elements of a reduction, for sending.
    #[inline]
    pub(super) fn operands<T: Datum>(self, data: &[T]) -> Result<SendData> {
        Ok(elements_to_keep(&self, data, &element_type::<T>()?))
    }

    /// The elements of a reduction, for receiving.
    #[inline]
    pub(super) fn results<T: Datum>(self, data: &mut [T]) -> Result<RecvData> {
        Ok(elements_to_keep_mut(&self, data, &element_type::<T>()?))
    }

    #[inline]
    pub(super) fn elements<T: Equivalence>(self, values: &[T]) -> Result<SendData> {
        outgoing_to_keep(&self, values)
    }

    #[inline]
    pub(super) fn elements_mut<T: Equivalence>(self, values: &mut [T]) -> Result<RecvData> {
        incoming_to_keep(&self, values)
    }

    /// Parts of `count` values for each of some ranks, for sending.
    pub(super) fn parts<T: Equivalence>(
        self,
        call: &'static str,
        values: &[T],
        (count, ranks): (usize, usize),
    ) -> Result<Parts<SendData>> {
        equal_parts::<T, _>(call, values.len(), (count, ranks), |part| self.elements(&values[part]))
    }

    /// Like [`parts`](Self::parts), for receiving.
    pub(super) fn parts_mut<T: Equivalence>(
        self,
        call: &'static str,
        values: &mut [T],
        (count, ranks): (usize, usize),
    ) -> Result<Parts<RecvData>> {
        equal_parts::<T, _>(call, values.len(), (count, ranks), |part| self.elements_mut(&mut values[part]))
    }

    /// Parts of a slice where a placement says, for sending.
    pub(super) fn placed<T: Equivalence>(
        self,
        call: &'static str,
        (values, placement): (&[T], Placement<'_>),
    ) -> Result<Parts<SendData>> {
        placement.parts(call, values.len(), |part| self.elements(&values[part]))
    }

    /// Like [`placed`](Self::placed), for receiving.
    pub(super) fn placed_mut<T: Equivalence>(
        self,
        call: &'static str,
        (values, placement): (&mut [T], Placement<'_>),
    ) -> Result<Parts<RecvData>> {
        placement.parts(call, values.len(), |part| self.elements_mut(&mut values[part]))
    }

    /// Parts of a slice with a type each, for sending.
    pub(super) fn layouts<T: NoUninit>(
        self,
        memory: &[T],
        parts: &[LayoutPart<'_>],
    ) -> Result<Parts<SendData>> {
        let part = |part: &LayoutPart<'_>| {
            layout_to_keep(&self, memory, part.displacement_bytes, (part.count, part.datatype))
        };
        Ok(Parts::Listed(parts.iter().map(part).collect::<Result<_>>()?))
    }

    /// Like [`layouts`](Self::layouts), for receiving.
    pub(super) fn layouts_mut<T: AnyBitPattern>(
        self,
        memory: &mut [T],
        parts: &[LayoutPart<'_>],
    ) -> Result<Parts<RecvData>> {
        let part = |part: &LayoutPart<'_>| {
            layout_to_keep_mut(&self, memory, part.displacement_bytes, (part.count, part.datatype))
        };
        Ok(Parts::Listed(parts.iter().map(part).collect::<Result<_>>()?))
    }
}

/// Parts of `count` values for each of some ranks. All tasks must choose the same algorithm, so the type alone decides whether the parts
/// are one contiguous piece. The fields of other types may lie differently from value to value, so their parts are listed.
fn equal_parts<T: Equivalence, D>(
    call: &'static str,
    given: usize,
    (count, ranks): (usize, usize),
    mut part: impl FnMut(Range<usize>) -> Result<D>,
) -> Result<Parts<D>> {
    if let Some((_, each)) = T::numbers() {
        return Ok(Parts::Equal { all: part(0..given)?, count: count as u64 * each });
    }
    let expected = count.checked_mul(ranks).ok_or(Error::TooLarge { call })?;
    if given != expected {
        return Err(Error::Count { call, given, expected });
    }
    let parts = (0..ranks).map(|rank| part(rank * count..(rank + 1) * count));
    Ok(Parts::Listed(parts.collect::<Result<_>>()?))
}

/// The MPI type of `T`. For a Rust type without an MPI type, a type of the same size.
fn element_type<T: 'static>() -> Result<Datatype> {
    let is = |other: TypeId| TypeId::of::<T>() == other;
    Ok(match size_of::<T>() {
        1 if is(TypeId::of::<i8>()) => Predefined::Int8.into(),
        2 if is(TypeId::of::<i16>()) => Predefined::Int16.into(),
        4 if is(TypeId::of::<i32>()) => Predefined::Int32.into(),
        4 if is(TypeId::of::<f32>()) => Predefined::Float.into(),
        8 if is(TypeId::of::<i64>()) => Predefined::Int64.into(),
        8 if is(TypeId::of::<f64>()) => Predefined::Double.into(),
        1 => Predefined::Uint8.into(),
        2 => Predefined::Uint16.into(),
        4 => Predefined::Uint32.into(),
        8 => Predefined::Uint64.into(),
        16 => Predefined::Integer16.into(),
        size => Datatype::contiguous(size as u64, &Predefined::Byte.into())?,
    })
}
