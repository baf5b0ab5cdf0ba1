//! The fields of Rust structs, as elements of a message: padding is not sent, and nothing has to be believed.
//!
//! A macro that writes offsets would have to be trusted with them, by an `unsafe` trait. Here a type lists *references* to its
//! fields, which the compiler checks: they are alive, initialised, and, where they are to be written, nobody else's. So what
//! `#[derive(Equivalence)]` writes is safe code, and anybody may write the same by hand; enums and fields that are left out are
//! right too.

#![expect(
    clippy::cast_possible_truncation,
    reason = "lengths are u64 in messages and usize in memory, which is the same here (am-core asserts it)"
)]

use std::marker::PhantomData;

use am_core::fabric::Fabric;

use super::{RecvData, SendData};
use crate::error::Result;
use crate::policy::LockPolicy;
use crate::request::Scope;
use mpi_datatype::{Datatype, Predefined};

/// A type whose fields can be sent and received: an MPI datatype of its own.
///
/// ```
/// use mpi_over_am::{Environment, Equivalence};
///
/// #[derive(Equivalence, Clone, Default, Debug, PartialEq)]
/// #[repr(C)]
/// struct Particle {
///     kind: u8,
///     position: [f64; 3],
///     // The neighbours stay at home.
///     #[equivalence(skip)]
///     neighbours: Vec<u32>,
/// }
///
/// # let environment = Environment::init()?;
/// # let world = environment.world();
/// let out = [Particle { kind: 2, position: [1.0, 2.0, 3.0], neighbours: vec![7] }];
/// let mut got = [Particle::default()];
/// world.scope(|s| {
///     let arriving = s.irecv_fields(&mut got, world.rank(), 0)?;
///     world.send_fields(&out, world.rank(), 0)?;
///     s.wait(arriving)
/// })?;
/// assert_eq!(got[0].position, [1.0, 2.0, 3.0]);
/// assert!(got[0].neighbours.is_empty());
/// # environment.finalize()
/// # ; Ok::<(), mpi_over_am::Error>(())
/// ```
///
/// The derive takes structs of any form with `#[repr(C)]` or `#[repr(transparent)]`, also generic ones, whose fields are numbers,
/// arrays, and structs that derive it too. The fields go in the order of their declaration, and the padding between them is not
/// sent. It refuses, with the reason, enums and unions, references and pointers, packed structs, and those whose layout Rust
/// chooses. Types that not all bytes are good for do not have the trait:
///
/// ```compile_fail,E0277
/// #[derive(mpi_over_am::Equivalence)]
/// #[repr(C)]
/// struct Light {
///     is_on: bool,
/// }
/// ```
/// ```compile_fail
/// #[derive(mpi_over_am::Equivalence)]
/// struct LaidOutByRust {
///     number: u8,
/// }
/// ```
/// ```compile_fail
/// #[derive(mpi_over_am::Equivalence)]
/// #[repr(C)]
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
/// An implementation by hand may list other fields for another value, as those of an enum; receiver and sender must then have
/// values of the same form.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no MPI datatype",
    label = "neither a number, nor an array or struct of numbers",
    note = "numbers have `Equivalence`, arrays of what has it, and structs with `#[repr(C)] #[derive(Equivalence)]`",
    note = "not every byte makes a `bool`, a `char` or an enum: send a number; a field can stay at home with `#[equivalence(skip)]`"
)]
pub trait Equivalence {
    /// Adds the fields to `list`, to be read.
    fn list<'a>(&'a self, list: &mut FieldList<'a>);

    /// Adds the fields to `list`, to be written.
    fn list_mut<'a>(&'a mut self, list: &mut FieldListMut<'a>);

    /// The datatype of this value's fields: their displacements from its beginning, and its extent (`MPI_Type_create_struct` and
    /// `MPI_Type_create_resized`).
    ///
    /// # Errors
    /// More bytes than there are addresses.
    fn equivalent_datatype(&self) -> Result<Datatype>
    where
        Self: Sized,
    {
        // A single value is like the first.
        Ok(fields_to_keep(std::slice::from_ref(self))?.datatype().clone())
    }
}

/// Fields to be read.
#[derive(Debug, Default)]
pub struct FieldList<'a> {
    places: Places,
    _fields: PhantomData<&'a ()>,
}

/// Fields to be written.
#[derive(Debug, Default)]
pub struct FieldListMut<'a> {
    places: Places,
    _fields: PhantomData<&'a mut ()>,
}

impl<'a> FieldList<'a> {
    /// Adds a field.
    #[inline]
    pub fn add<T: Equivalence + ?Sized>(&mut self, field: &'a T) {
        field.list(self);
    }
}

impl<'a> FieldListMut<'a> {
    /// Adds a field.
    #[inline]
    pub fn add<T: Equivalence + ?Sized>(&mut self, field: &'a mut T) {
        field.list_mut(self);
    }
}

/// Runs of numbers: where they begin, what they are, how many.
#[derive(Debug, Default)]
struct Places(Vec<(usize, Predefined, u64)>);

impl Places {
    #[inline]
    fn add(&mut self, at: usize, basic: Predefined) {
        match self.0.last_mut() {
            Some((start, last, count))
                if *last == basic && *start + (*count * basic.size()) as usize == at =>
            {
                *count += 1;
            }
            _ => self.0.push((at, basic, 1)),
        }
    }

    /// The type of everything from `from` on, with displacements counted from `base`.
    fn datatype(&self, base: usize, from: usize) -> Result<Datatype> {
        let places = &self.0[from..];
        let lens: Vec<u64> = places.iter().map(|(_, _, count)| *count).collect();
        let displacements: Vec<i64> =
            places.iter().map(|(at, _, _)| at.wrapping_sub(base).cast_signed() as i64).collect();
        let types: Vec<Datatype> = places.iter().map(|(_, basic, _)| Datatype::predefined(*basic)).collect();
        Ok(Datatype::structure(&lens, &displacements, &types)?)
    }
}

/// The elements of a slice, one after the other.
struct Collected {
    /// The type of the first element's fields, if the others lie alike.
    each: Option<Datatype>,
    all: Places,
    count: u64,
}

impl Collected {
    /// Lists elements, `size` bytes each; `list` appends the fields of an element.
    fn new<E>(
        elements: impl Iterator<Item = E>,
        (base, size): (usize, usize),
        mut list: impl FnMut(E) -> Places,
    ) -> Result<Self> {
        let (mut all, mut count, mut alike, mut first) = (Places::default(), 0, true, Places::default());
        for element in elements {
            let places = list(element);
            let by = (count as usize).wrapping_mul(size);
            if count == 0 {
                first = places;
            } else {
                alike &= places.0.len() == first.0.len()
                    && places.0.iter().zip(&first.0).all(|(own, of_first)| {
                        own.0 == of_first.0.wrapping_add(by) && (own.1, own.2) == (of_first.1, of_first.2)
                    });
                if !alike {
                    if all.0.is_empty() {
                        // Those before were like the first.
                        for before in 0..count as usize {
                            let by = before.wrapping_mul(size);
                            all.0.extend(
                                first.0.iter().map(|&(at, basic, n)| (at.wrapping_add(by), basic, n)),
                            );
                        }
                    }
                    all.0.extend(places.0);
                }
            }
            count += 1;
        }
        let each =
            if alike { Some(Datatype::resized(&first.datatype(base, 0)?, 0, size as i64)?) } else { None };
        Ok(Self { each, all, count })
    }

    /// A count and a type, with displacements from `base`.
    fn elements(&self, base: usize) -> Result<(u64, Datatype)> {
        match &self.each {
            Some(each) => Ok((self.count, each.clone())),
            None => Ok((1, self.all.datatype(base, 0)?)),
        }
    }
}

/// The fields of a slice's elements, which nothing writes until the operation has ended: as for
/// [`elements_to_keep`](super::elements_to_keep), the caller keeps that promise.
///
/// # Errors
/// More bytes than there are addresses.
pub(crate) fn fields_to_keep<T: Equivalence>(values: &[T]) -> Result<SendData> {
    let base = values.as_ptr().expose_provenance();
    let collected = Collected::new(values.iter(), (base, size_of::<T>()), |value| {
        let mut list = FieldList::default();
        value.list(&mut list);
        list.places
    })?;
    let (count, datatype) = collected.elements(base)?;
    // SAFETY: the elements are the numbers to which `list` was given references that live as long as the borrow of `values`; the
    // caller lets nobody write them until the operation has ended. They were shared references: the numbers are initialised. Their
    // provenance was exposed when they were listed.
    Ok(unsafe { SendData::new(values.as_ptr().cast(), count, &datatype) })
}

/// As [`fields_to_keep`], to be received: nothing else touches the fields until the operation has ended.
///
/// # Errors
/// As there.
pub(crate) fn field_room_to_keep<T: Equivalence>(values: &mut [T]) -> Result<RecvData> {
    let at = values.as_mut_ptr();
    let base = at.expose_provenance();
    let collected = Collected::new(values.iter_mut(), (base, size_of::<T>()), |value| {
        let mut list = FieldListMut::default();
        value.list_mut(&mut list);
        list.places
    })?;
    let (count, datatype) = collected.elements(base)?;
    // SAFETY: as for `fields_to_keep`; `list_mut` was given exclusive references, so that no two elements are the same, and whatever
    // bytes come make valid numbers; that nobody else touches them is the caller's word.
    Ok(unsafe { RecvData::new(at.cast(), count, &datatype) })
}

/// The fields of a slice's elements, to be sent by an operation that has ended when `send` returns or unwinds: `send` keeps the
/// promise.
///
/// # Errors
/// What `send` returns.
pub(crate) fn lend_fields<T: Equivalence, R>(
    values: &[T],
    send: impl FnOnce(SendData) -> Result<R>,
) -> Result<R> {
    // `values` is borrowed until this function returns or unwinds, and `send` ends the operation before.
    send(fields_to_keep(values)?)
}

/// As [`lend_fields`], to be received.
///
/// # Errors
/// What `receive` returns.
pub(crate) fn lend_fields_mut<T: Equivalence, R>(
    values: &mut [T],
    receive: impl FnOnce(RecvData) -> Result<R>,
) -> Result<R> {
    // As for `lend_fields`, and the borrow is exclusive.
    receive(field_room_to_keep(values)?)
}

/// As [`lend_fields`], for an operation of a scope. The scope keeps the promise: see [`lend_bytes`](super::lend_bytes).
///
/// # Errors
/// As for [`fields_to_keep`].
pub(crate) fn lend_fields_to_scope<'scope, T: Equivalence, F: Fabric, L: LockPolicy>(
    _scope: &'scope Scope<'scope, '_, F, L>,
    values: &'scope [T],
) -> Result<SendData> {
    fields_to_keep(values)
}

/// As [`lend_fields_to_scope`], to be received.
///
/// # Errors
/// As there.
pub(crate) fn lend_fields_mut_to_scope<'scope, T: Equivalence, F: Fabric, L: LockPolicy>(
    _scope: &'scope Scope<'scope, '_, F, L>,
    values: &'scope mut [T],
) -> Result<RecvData> {
    field_room_to_keep(values)
}

/// Numbers, whose bytes are all initialised, and for which all bytes are valid.
macro_rules! numbers {
    ($($type:ty => $basic:ident),+ $(,)?) => {$(
        impl Equivalence for $type {
            #[inline]
            fn list<'a>(&'a self, list: &mut FieldList<'a>) {
                list.places.add(std::ptr::from_ref(self).expose_provenance(), Predefined::$basic);
            }

            #[inline]
            fn list_mut<'a>(&'a mut self, list: &mut FieldListMut<'a>) {
                list.places.add(std::ptr::from_mut(self).expose_provenance(), Predefined::$basic);
            }
        }
    )+};
}

numbers! {
    i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64, isize => Aint,
    u8 => Uint8, u16 => Uint16, u32 => Uint32, u64 => Uint64, usize => UnsignedLong,
    f32 => Float, f64 => Double,
}

impl<T: Equivalence, const N: usize> Equivalence for [T; N] {
    fn list<'a>(&'a self, list: &mut FieldList<'a>) {
        self.iter().for_each(|field| list.add(field));
    }

    fn list_mut<'a>(&'a mut self, list: &mut FieldListMut<'a>) {
        self.iter_mut().for_each(|field| list.add(field));
    }
}
