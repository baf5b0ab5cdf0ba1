//! The fields of Rust structs, as elements of a message: padding is not sent, and nothing has to be believed.
//!
//! A derive macro would have to be trusted with offsets, by an `unsafe` trait. Here a type lists *references* to its fields, which
//! the compiler checks: they are alive, initialised, and, where they are to be written, nobody else's. A type needs one line
//! ([`fields!`](crate::fields)), no second crate, and no `unsafe` of its own; enums and fields that are left out are right too.

#![expect(
    clippy::cast_possible_truncation,
    reason = "lengths are u64 in messages and usize in memory, which is the same here (am-core asserts it)"
)]

use std::marker::PhantomData;

use super::{RecvData, SendData};
use crate::datatype::{Datatype, Predefined};
use crate::error::Result;

/// A type whose fields can be sent and received. [`fields!`](crate::fields) implements it for a struct.
pub trait Fields {
    /// Adds the fields to `list`, to be read.
    fn list<'a>(&'a self, list: &mut FieldList<'a>);

    /// Adds the fields to `list`, to be written.
    fn list_mut<'a>(&'a mut self, list: &mut FieldListMut<'a>);
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
    pub fn add<T: Fields + ?Sized>(&mut self, field: &'a T) {
        field.list(self);
    }
}

impl<'a> FieldListMut<'a> {
    /// Adds a field.
    #[inline]
    pub fn add<T: Fields + ?Sized>(&mut self, field: &'a mut T) {
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
        Datatype::structure(&lens, &displacements, &types)
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

/// The fields of a slice's elements, to be sent by an operation that has ended when `send` returns or unwinds: `send` keeps the
/// promise.
///
/// # Errors
/// What `send` returns.
pub(crate) fn lend_fields<T: Fields, R>(values: &[T], send: impl FnOnce(SendData) -> Result<R>) -> Result<R> {
    let base = values.as_ptr().expose_provenance();
    let collected = Collected::new(values.iter(), (base, size_of::<T>()), |value| {
        let mut list = FieldList::default();
        value.list(&mut list);
        list.places
    })?;
    let (count, datatype) = collected.elements(base)?;
    // SAFETY: the elements are the numbers to which `list` was given references that live as long as the borrow of `values`, which
    // is until this function returns or unwinds, and `send` ends the operation before. They were shared references: the numbers
    // are initialised, and nobody writes them. Their provenance was exposed when they were listed.
    send(unsafe { SendData::new(values.as_ptr().cast(), count, &datatype) })
}

/// As [`lend_fields`], to be received.
///
/// # Errors
/// What `receive` returns.
pub(crate) fn lend_fields_mut<T: Fields, R>(
    values: &mut [T],
    receive: impl FnOnce(RecvData) -> Result<R>,
) -> Result<R> {
    let at = values.as_mut_ptr();
    let base = at.expose_provenance();
    let collected = Collected::new(values.iter_mut(), (base, size_of::<T>()), |value| {
        let mut list = FieldListMut::default();
        value.list_mut(&mut list);
        list.places
    })?;
    let (count, datatype) = collected.elements(base)?;
    // SAFETY: as for `lend_fields`; `list_mut` was given exclusive references, so that no two elements are the same and nobody else
    // touches them, and whatever bytes come make valid numbers.
    receive(unsafe { RecvData::new(at.cast(), count, &datatype) })
}

/// Numbers, whose bytes are all initialised, and for which all bytes are valid.
macro_rules! numbers {
    ($($type:ty => $basic:ident),+ $(,)?) => {$(
        impl Fields for $type {
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

impl<T: Fields, const N: usize> Fields for [T; N] {
    fn list<'a>(&'a self, list: &mut FieldList<'a>) {
        self.iter().for_each(|field| list.add(field));
    }

    fn list_mut<'a>(&'a mut self, list: &mut FieldListMut<'a>) {
        self.iter_mut().for_each(|field| list.add(field));
    }
}
