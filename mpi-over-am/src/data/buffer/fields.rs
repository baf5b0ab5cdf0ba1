//! The fields of Rust structs as elements of a message, without padding, and without `unsafe` in macros.
//!
//! A macro that generated offsets would need an `unsafe` trait. Here a type lists *references* to its fields, which the compiler checks:
//! the fields are live, initialised and, for writing, exclusively borrowed. So the code of `#[derive(Equivalence)]` is safe, and programs
//! can write it by hand, even for enums or for some of the fields.

#![expect(
    clippy::cast_possible_truncation,
    reason = "lengths are u64 in messages and usize in memory, which is the same here (am-core asserts it)"
)]

use std::marker::PhantomData;
use std::num::Wrapping;
use std::ptr::NonNull;

use am_core::buffer::{RawBuffer, RawBytes};
use bytemuck::{AnyBitPattern, NoUninit};

use super::{Incoming, Outgoing, RecvData, SendData};
use crate::error::Result;
use mpi_datatype::{Datatype, Predefined};

/// A type whose values are elements of messages, with its own MPI datatype. Numbers implement this trait, and arrays and tuples of such
/// types; structs can derive it.
///
/// ```
/// use mpi_over_am::{Environment, Equivalence};
///
/// #[derive(Equivalence, Clone, Default, Debug, PartialEq)]
/// struct Particle {
///     kind: u8,
///     position: [f64; 3],
///     // Not sent.
///     #[equivalence(skip)]
///     neighbours: Vec<u32>,
/// }
///
/// # let environment = Environment::init()?;
/// # let world = environment.world();
/// let out = [Particle { kind: 2, position: [1.0, 2.0, 3.0], neighbours: vec![7] }];
/// let mut got = [Particle::default()];
/// world.sendrecv(&out, world.rank(), 0, &mut got, world.rank(), 0)?;
/// assert_eq!(got[0].position, [1.0, 2.0, 3.0]);
/// assert!(got[0].neighbours.is_empty());
/// # environment.finalize()
/// # ; Ok::<(), mpi_over_am::Error>(())
/// ```
///
/// The derive supports all structs, including generic ones, whose fields are numbers, arrays, tuples, and structs that also derive it. The
/// fields are sent in the order of their declaration, independent of the layout by Rust or C (`#[repr(C)]`), without padding; a struct
/// without padding is sent as contiguous bytes. The derive rejects enums and unions, references and pointers, and packed structs, and gives
/// the reason. Types for which some bytes are invalid do not implement the trait:
///
/// ```compile_fail,E0277
/// #[derive(mpi_over_am::Equivalence)]
/// struct Light {
///     is_on: bool,
/// }
/// ```
/// ```compile_fail
/// #[derive(mpi_over_am::Equivalence)]
/// struct Borrowing {
///     address: *const u8,
/// }
/// ```
/// ```compile_fail
/// #[derive(mpi_over_am::Equivalence)]
/// #[repr(C)]
/// union Either {
///     number: u32,
///     bytes: [u8; 4],
/// }
/// ```
/// ```compile_fail
/// #[derive(mpi_over_am::Equivalence)]
/// #[repr(u8)]
/// enum Kind {
///     Cold,
///     Warm,
/// }
/// ```
///
/// A manual implementation may list different fields for different values, such as those of an enum; sender and receiver must then have
/// values of the same form.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no MPI datatype",
    label = "neither a number, nor an array or struct of numbers",
    note = "numbers, arrays and tuples implement `Equivalence`, and structs with `#[derive(Equivalence)]`",
    note = "a type of another crate that is `bytemuck::NoUninit + AnyBitPattern` can be sent as `mpi_over_am::Plain<T>`",
    note = "not every byte is a valid `bool`, `char` or enum: send a number; a field can be left out by `#[equivalence(skip)]`"
)]
pub trait Equivalence {
    /// Adds the fields to `list`, for reading.
    fn list<'a>(&'a self, list: &mut FieldList<'a>);

    /// Adds the fields to `list`, for writing.
    fn list_mut<'a>(&'a mut self, list: &mut FieldListMut<'a>);

    /// The datatype of this value's fields, with their displacements from the value's start, and the value's extent
    /// (`MPI_Type_create_struct` and `MPI_Type_create_resized`).
    ///
    /// # Errors
    /// [`Error::TooLarge`](crate::Error::TooLarge): more bytes than the address space.
    fn equivalent_datatype(&self) -> Result<Datatype>
    where
        Self: Sized,
    {
        // The elements of a single value have exactly this datatype. SAFETY: no operation gets the elements; only their type is used.
        let fields = unsafe { fields_without_lifetime(std::slice::from_ref(self))? };
        Ok(fields.datatype().clone())
    }

    /// The type and number of each value's elements, if all are numbers of one type. Collectives use this to describe and divide messages.
    /// A wrong result cannot make them access other memory.
    #[doc(hidden)]
    #[must_use]
    fn numbers() -> Option<(Predefined, u64)> {
        None
    }

    /// The fields of all values, for sending.
    ///
    /// # Errors
    /// [`Error::TooLarge`](crate::Error::TooLarge): more bytes than the address space.
    #[doc(hidden)]
    #[inline]
    fn outgoing_of(values: &[Self]) -> Result<Outgoing<'_>>
    where
        Self: Sized,
    {
        outgoing_fields(values)
    }

    /// The fields of all values, for receiving.
    ///
    /// # Errors
    /// [`Error::TooLarge`](crate::Error::TooLarge): more bytes than the address space.
    #[doc(hidden)]
    #[inline]
    fn incoming_of(values: &mut [Self]) -> Result<Incoming<'_>>
    where
        Self: Sized,
    {
        incoming_fields(values)
    }
}

/// Fields for reading.
#[derive(Debug, Default)]
pub struct FieldList<'a> {
    listed: Listed,
    _fields: PhantomData<&'a ()>,
}

/// Fields for writing.
#[derive(Debug, Default)]
pub struct FieldListMut<'a> {
    listed: Listed,
    _fields: PhantomData<&'a mut ()>,
}

impl<'a> FieldList<'a> {
    /// Adds a field.
    #[inline]
    pub fn add<T: Equivalence + ?Sized>(&mut self, field: &'a T) {
        field.list(self);
    }

    /// Adds values as their bytes.
    pub(super) fn add_bytes<T: NoUninit>(&mut self, values: &'a [T]) {
        let len = size_of_val(values) as u64;
        self.listed.add(values.as_ptr().expose_provenance(), Predefined::Uint8, len);
    }
}

impl<'a> FieldListMut<'a> {
    /// Adds a field.
    #[inline]
    pub fn add<T: Equivalence + ?Sized>(&mut self, field: &'a mut T) {
        field.list_mut(self);
    }

    /// Adds values as their bytes.
    pub(super) fn add_bytes<T: AnyBitPattern>(&mut self, values: &'a mut [T]) {
        let len = size_of_val(values) as u64;
        self.listed.add(values.as_mut_ptr().expose_provenance(), Predefined::Uint8, len);
    }
}

/// The fields listed so far.
#[derive(Debug)]
enum Listed {
    /// Runs of numbers, each with its address, type and count.
    Runs(Vec<Run>),
    /// The range of bytes that contains exactly the listed fields, in order; `None` if there is no such range. Computing it allocates
    /// nothing, and for a derived type the compiler knows the result. The start is stored because a list could be swapped with that of
    /// another value: the range then shows that other bytes were listed.
    OnePiece(Option<(usize, usize)>),
}

type Run = (usize, Predefined, u64);

impl Default for Listed {
    fn default() -> Self {
        Self::Runs(Vec::new())
    }
}

impl Listed {
    #[inline]
    fn add(&mut self, at: usize, basic: Predefined, count: u64) {
        match self {
            Self::OnePiece(piece) => {
                let len = (count * basic.size()) as usize;
                *piece = piece.filter(|(_, end)| *end == at).map(|(start, end)| (start, end + len));
            }
            Self::Runs(runs) => match runs.last_mut() {
                Some((start, last, so_far))
                    if *last == basic && *start + (*so_far * basic.size()) as usize == at =>
                {
                    *so_far += count;
                }
                _ => runs.push((at, basic, count)),
            },
        }
    }

    fn into_runs(self) -> Vec<Run> {
        match self {
            Self::Runs(runs) => runs,
            Self::OnePiece(_) => Vec::new(),
        }
    }
}

/// The datatype of the runs, with displacements relative to `base`.
fn datatype_of(runs: &[Run], base: usize) -> Result<Datatype> {
    let lens: Vec<u64> = runs.iter().map(|(_, _, count)| *count).collect();
    let displacements: Vec<i64> =
        runs.iter().map(|(at, _, _)| at.wrapping_sub(base).cast_signed() as i64).collect();
    let types: Vec<Datatype> = runs.iter().map(|(_, basic, _)| Datatype::predefined(*basic)).collect();
    Ok(Datatype::structure(&lens, &displacements, &types)?)
}

/// Whether the fields of all values are exactly the `len` bytes from `base` on, in order.
#[inline]
fn are_one_piece<E>(
    values: impl Iterator<Item = E>,
    (base, len): (usize, usize),
    mut list: impl FnMut(E, Listed) -> Listed,
) -> bool {
    let mut listed = Listed::OnePiece(Some((base, base)));
    for value in values {
        listed = list(value, listed);
        if !matches!(listed, Listed::OnePiece(Some(_))) {
            return false;
        }
    }
    matches!(listed, Listed::OnePiece(Some(piece)) if piece == (base, base + len))
}

/// The fields of values; contiguous if possible.
#[inline]
fn outgoing_fields<T: Equivalence>(values: &[T]) -> Result<Outgoing<'_>> {
    let (at, len) = (NonNull::from(values).cast::<u8>(), size_of_val(values));
    let one_piece = are_one_piece(values.iter(), (at.addr().get(), len), |value, listed| {
        let mut list = FieldList { listed, _fields: PhantomData };
        value.list(&mut list);
        list.listed
    });
    if one_piece {
        // SAFETY: the bytes from `at` to `at + len` are the memory of `values`. Each of them belongs to a number to which `list` was given
        // a shared reference (just checked), so it is initialised. Nothing writes these bytes while `values` is borrowed, which is the
        // lifetime of the result.
        return Ok(unsafe { Outgoing::of_data(SendData::from_bytes(RawBytes::new(at, len))) });
    }
    // SAFETY: nothing writes the elements while `values` is borrowed, which is the lifetime of the result.
    Ok(unsafe { Outgoing::of_data(fields_without_lifetime(values)?) })
}

/// Like [`outgoing_fields`], for receiving.
#[inline]
fn incoming_fields<T: Equivalence>(values: &mut [T]) -> Result<Incoming<'_>> {
    let (at, len) = (NonNull::from(&mut *values).cast::<u8>(), size_of_val(values));
    let one_piece = are_one_piece(values.iter_mut(), (at.addr().get(), len), |value, listed| {
        let mut list = FieldListMut { listed, _fields: PhantomData };
        value.list_mut(&mut list);
        list.listed
    });
    if one_piece {
        let at: *mut u8 = std::ptr::with_exposed_provenance_mut(at.addr().get());
        // SAFETY: each byte from `at` to `at + len` belongs to a number to which `list_mut` was given an exclusive reference (just
        // checked); listing the number exposed the reference's provenance. Nothing else accesses these bytes while `values` is borrowed,
        // which is the lifetime of the result. Any received bytes are valid numbers. `at` is the address of a slice, so it is not null.
        return Ok(unsafe {
            Incoming::of_data(RecvData::from_buffer(RawBuffer::new(NonNull::new_unchecked(at), len)))
        });
    }
    // SAFETY: nothing else accesses the elements while `values` is exclusively borrowed, which is the lifetime of the result.
    Ok(unsafe { Incoming::of_data(fields_without_lifetime_mut(values)?) })
}

/// The elements of a slice, in order.
struct Collected {
    /// The datatype of the first element's fields, if all other elements have the same layout.
    each: Option<Datatype>,
    all: Vec<Run>,
    count: u64,
}

impl Collected {
    /// Lists elements, `size` bytes each; `list` returns the fields of an element.
    fn new<E>(
        elements: impl Iterator<Item = E>,
        (base, size): (usize, usize),
        mut list: impl FnMut(E) -> Listed,
    ) -> Result<Self> {
        let (mut all, mut count, mut alike, mut first) = (Vec::new(), 0, true, Vec::new());
        for element in elements {
            let runs = list(element).into_runs();
            let by = (count as usize).wrapping_mul(size);
            if count == 0 {
                first = runs;
            } else {
                alike &= runs.len() == first.len()
                    && runs.iter().zip(&first).all(|(own, of_first): (&Run, &Run)| {
                        own.0 == of_first.0.wrapping_add(by) && (own.1, own.2) == (of_first.1, of_first.2)
                    });
                if !alike {
                    if all.is_empty() {
                        // All earlier elements were like the first.
                        for before in 0..count as usize {
                            let by = before.wrapping_mul(size);
                            all.extend(first.iter().map(|&(at, basic, n)| (at.wrapping_add(by), basic, n)));
                        }
                    }
                    all.extend(runs);
                }
            }
            count += 1;
        }
        let each =
            if alike { Some(Datatype::resized(&datatype_of(&first, base)?, 0, size as i64)?) } else { None };
        Ok(Self { each, all, count })
    }

    /// Count and datatype, with displacements relative to `base`.
    fn elements(&self, base: usize) -> Result<(u64, Datatype)> {
        match &self.each {
            Some(each) => Ok((self.count, each.clone())),
            None => Ok((1, datatype_of(&self.all, base)?)),
        }
    }
}

/// The fields of a slice's elements, without the slice's lifetime.
///
/// # Safety
/// Nothing may write the elements until the operation that gets them has ended.
///
/// # Errors
/// [`Error::TooLarge`](crate::Error::TooLarge).
unsafe fn fields_without_lifetime<T: Equivalence>(values: &[T]) -> Result<SendData> {
    let base = values.as_ptr().expose_provenance();
    let collected = Collected::new(values.iter(), (base, size_of::<T>()), |value| {
        let mut list = FieldList::default();
        value.list(&mut list);
        list.listed
    })?;
    let (count, datatype) = collected.elements(base)?;
    // SAFETY: the elements are the numbers to which `list` was given references that live as long as the borrow of `values`; the caller
    // ensures that nothing writes them until the operation has ended. They were shared references: the numbers are initialised. Their
    // provenance was exposed when they were listed.
    Ok(unsafe { SendData::new(values.as_ptr().cast(), count, &datatype) })
}

/// Like [`fields_without_lifetime`], for receiving.
///
/// # Safety
/// Nothing else may access the elements until the operation that gets them has ended.
///
/// # Errors
/// Those of [`fields_without_lifetime`].
unsafe fn fields_without_lifetime_mut<T: Equivalence>(values: &mut [T]) -> Result<RecvData> {
    let at = values.as_mut_ptr();
    let base = at.expose_provenance();
    let collected = Collected::new(values.iter_mut(), (base, size_of::<T>()), |value| {
        let mut list = FieldListMut::default();
        value.list_mut(&mut list);
        list.listed
    })?;
    let (count, datatype) = collected.elements(base)?;
    // SAFETY: the elements are the numbers to which `list_mut` got exclusive references, so no two overlap; their provenance was exposed
    // when they were listed. Any received bytes are valid numbers. The caller has promised that nothing else accesses them.
    Ok(unsafe { RecvData::new(at.cast(), count, &datatype) })
}

/// Numbers: all bytes are initialised, and all bytes are valid.
macro_rules! numbers {
    ($($type:ty => $basic:ident),+ $(,)?) => {$(
        impl Equivalence for $type {
            #[inline]
            fn list<'a>(&'a self, list: &mut FieldList<'a>) {
                list.listed.add(std::ptr::from_ref(self).expose_provenance(), Predefined::$basic, 1);
            }

            #[inline]
            fn list_mut<'a>(&'a mut self, list: &mut FieldListMut<'a>) {
                list.listed.add(std::ptr::from_mut(self).expose_provenance(), Predefined::$basic, 1);
            }

            #[inline(always)]
            fn numbers() -> Option<(Predefined, u64)> {
                Some((Predefined::$basic, 1))
            }

            #[inline(always)]
            fn outgoing_of(values: &[Self]) -> Result<Outgoing<'_>> {
                Ok(Outgoing::of_slice(values))
            }

            #[inline(always)]
            fn incoming_of(values: &mut [Self]) -> Result<Incoming<'_>> {
                Ok(Incoming::of_slice(values))
            }
        }
    )+};
}

numbers! {
    i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64, isize => Aint, i128 => Integer16,
    u8 => Uint8, u16 => Uint16, u32 => Uint32, u64 => Uint64, usize => UnsignedLong, u128 => Integer16,
    f32 => Float, f64 => Double,
}

impl<T: Equivalence, const N: usize> Equivalence for [T; N] {
    #[inline]
    fn list<'a>(&'a self, list: &mut FieldList<'a>) {
        self.iter().for_each(|field| list.add(field));
    }

    #[inline]
    fn list_mut<'a>(&'a mut self, list: &mut FieldListMut<'a>) {
        self.iter_mut().for_each(|field| list.add(field));
    }

    fn numbers() -> Option<(Predefined, u64)> {
        T::numbers().map(|(basic, each)| (basic, each * N as u64))
    }

    #[inline(always)]
    fn outgoing_of(values: &[Self]) -> Result<Outgoing<'_>> {
        T::outgoing_of(values.as_flattened())
    }

    #[inline(always)]
    fn incoming_of(values: &mut [Self]) -> Result<Incoming<'_>> {
        T::incoming_of(values.as_flattened_mut())
    }
}

impl<T: Equivalence> Equivalence for Wrapping<T> {
    #[inline]
    fn list<'a>(&'a self, list: &mut FieldList<'a>) {
        list.add(&self.0);
    }

    #[inline]
    fn list_mut<'a>(&'a mut self, list: &mut FieldListMut<'a>) {
        list.add(&mut self.0);
    }
}

/// Tuples are sent in the order of their fields. The empty tuple is an empty message.
macro_rules! tuples {
    ($(($($type:ident . $field:tt),*))+) => {$(
        impl<$($type: Equivalence),*> Equivalence for ($($type,)*) {
            #[inline]
            #[allow(unused_variables, reason = "a tuple may have no field")]
            fn list<'a>(&'a self, list: &mut FieldList<'a>) {
                $(list.add(&self.$field);)*
            }

            #[inline]
            #[allow(unused_variables, reason = "a tuple may have no field")]
            fn list_mut<'a>(&'a mut self, list: &mut FieldListMut<'a>) {
                $(list.add(&mut self.$field);)*
            }
        }
    )+};
}

tuples! {
    ()
    (A.0)
    (A.0, B.1)
    (A.0, B.1, C.2)
    (A.0, B.1, C.2, D.3)
    (A.0, B.1, C.2, D.3, E.4)
    (A.0, B.1, C.2, D.3, E.4, F.5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::buffer::{Buffer, BufferMut, Receiving, Sending};

    #[test]
    fn only_values_without_gaps_are_one_piece() {
        let is_one_piece = |outgoing: Outgoing<'_>| {
            outgoing.lend(|sending| match sending {
                Sending::Bytes(_) => true,
                Sending::Elements(data, _) => data.as_bytes().is_some(),
            })
        };
        assert!(is_one_piece([(1u32, [2u16; 2]); 3].outgoing().unwrap()));
        assert!(is_one_piece([(); 3].outgoing().unwrap()));
        assert!(!is_one_piece([(1u32, 2u8); 3].outgoing().unwrap()));
        let mut dense = [(1u32, 2i32); 3];
        let buffer = dense.incoming().unwrap().lend(|receiving| match receiving {
            Receiving::Bytes(buffer) => Some(buffer),
            Receiving::Elements(data) => data.as_buffer(),
        });
        assert_eq!(buffer.map(|buffer| buffer.len()), Some(24));
    }

    /// A list may be swapped with that of another value, in other memory.
    #[test]
    fn a_piece_counts_for_its_own_bytes_only() {
        let said = |piece| are_one_piece([()].into_iter(), (96, 16), |(), _| Listed::OnePiece(piece));
        assert!(said(Some((96, 112))));
        for piece in [None, Some((104, 112)), Some((112, 112)), Some((96, 104))] {
            assert!(!said(piece), "{piece:?}");
        }
        assert!(!are_one_piece([()].into_iter(), (96, 16), |(), _| Listed::default()));
    }
}
