//! How a datatype was made (MPI 5.0 section 5.1.13), and the datatypes that are selected by their members, class, size or range (sections
//! 6.9.4, 19.1.5 and 19.1.6).
//!
//! SAFETY: each `mpi_*` function here is called under the contract that the standard gives it: pointers are valid for the accesses that the
//! standard specifies, and buffers are not used until their operation has ended. One thread at a time uses the state of MPI (`state`).

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results and read arrays at the program's pointers; blocks that do more have a note"
)]

use std::ffi::c_int;

use mpi_over_am::ErrorClass;
use mpi_over_am::datatype::{Combiner, Contents, Datatype, Distribution, Order, Predefined, TypeClass};

use crate::constants::{
    MPI_COMBINER_CONTIGUOUS, MPI_COMBINER_DARRAY, MPI_COMBINER_DUP, MPI_COMBINER_F90_COMPLEX,
    MPI_COMBINER_F90_INTEGER, MPI_COMBINER_F90_REAL, MPI_COMBINER_HINDEXED, MPI_COMBINER_HINDEXED_BLOCK,
    MPI_COMBINER_HVECTOR, MPI_COMBINER_INDEXED, MPI_COMBINER_INDEXED_BLOCK, MPI_COMBINER_NAMED,
    MPI_COMBINER_RESIZED, MPI_COMBINER_STRUCT, MPI_COMBINER_SUBARRAY, MPI_COMBINER_VECTOR, MPI_DATATYPE_NULL,
    MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_NONE, MPI_ORDER_C,
    MPI_ORDER_FORTRAN, MPI_TYPECLASS_COMPLEX, MPI_TYPECLASS_INTEGER, MPI_TYPECLASS_REAL, MPI_UNDEFINED,
};
use crate::data::{any_datatype_of, is_unnamed};
use crate::datatypes::keep_datatype;
use crate::errors::on_process;
use crate::failure::{Failure, Outcome, not_null};
use crate::state::Mpi;
use crate::types::MPI_Datatype;

/// The standard's numbers of the combiners (include/mpi.h).
fn number_of(combiner: Combiner) -> c_int {
    match combiner {
        Combiner::Named => MPI_COMBINER_NAMED,
        Combiner::Dup => MPI_COMBINER_DUP,
        Combiner::Contiguous => MPI_COMBINER_CONTIGUOUS,
        Combiner::Vector => MPI_COMBINER_VECTOR,
        Combiner::Hvector => MPI_COMBINER_HVECTOR,
        Combiner::Indexed => MPI_COMBINER_INDEXED,
        Combiner::Hindexed => MPI_COMBINER_HINDEXED,
        Combiner::IndexedBlock => MPI_COMBINER_INDEXED_BLOCK,
        Combiner::HindexedBlock => MPI_COMBINER_HINDEXED_BLOCK,
        Combiner::Struct => MPI_COMBINER_STRUCT,
        Combiner::Subarray => MPI_COMBINER_SUBARRAY,
        Combiner::Darray => MPI_COMBINER_DARRAY,
        Combiner::F90Real => MPI_COMBINER_F90_REAL,
        Combiner::F90Complex => MPI_COMBINER_F90_COMPLEX,
        Combiner::F90Integer => MPI_COMBINER_F90_INTEGER,
        Combiner::Resized => MPI_COMBINER_RESIZED,
    }
}

/// The contents of a type, in the form in which they are reported.
struct ReportedContents<'a> {
    combiner: Combiner,
    integers: Vec<i64>,
    addresses: &'a [i64],
    counts: Vec<i64>,
    datatypes: &'a [Datatype],
}

impl<'a> ReportedContents<'a> {
    fn of(datatype: &'a Datatype) -> Self {
        let combiner = datatype.combiner();
        match datatype.contents() {
            None => {
                Self { combiner, integers: Vec::new(), addresses: &[], counts: Vec::new(), datatypes: &[] }
            }
            Some(contents) if tells_large(contents) => {
                let large = contents.large();
                let (integers, counts) = (in_c(combiner, large.integers, 0), large.counts);
                Self { combiner, integers, addresses: &[], counts, datatypes: &contents.datatypes }
            }
            Some(Contents { integers, addresses, datatypes, .. }) => {
                let sizes = if combiner == Combiner::Darray { integers[2] as usize } else { 0 };
                let integers = in_c(combiner, integers.clone(), sizes);
                Self { combiner, integers, addresses, counts: Vec::new(), datatypes }
            }
        }
    }
}

/// The integers of a type's contents with C's constants: the order of an array, the distributions of its dimensions and their arguments.
/// `sizes`: the number of sizes before the distributions.
fn in_c(combiner: Combiner, mut integers: Vec<i64>, sizes: usize) -> Vec<i64> {
    const CONSTANTS: [(i64, c_int); 5] = [
        (Order::C.constant(), MPI_ORDER_C),
        (Order::Fortran.constant(), MPI_ORDER_FORTRAN),
        (Distribution::None(None).constant(), MPI_DISTRIBUTE_NONE),
        (Distribution::Block(None).constant(), MPI_DISTRIBUTE_BLOCK),
        (Distribution::Cyclic(None).constant(), MPI_DISTRIBUTE_CYCLIC),
    ];
    let translate = |integer: &mut i64| {
        let known = CONSTANTS.iter().find(|(known, _)| known == integer);
        *integer = known.map_or(*integer, |&(_, constant)| constant.into());
    };
    if combiner == Combiner::Darray {
        let (dimensions, from) = (integers[2] as usize, 3 + sizes);
        let (distributions, behind) = integers[from..].split_at_mut(dimensions);
        distributions.iter_mut().for_each(translate);
        for argument in &mut behind[..dimensions] {
            if *argument == Distribution::DEFAULT_ARGUMENT {
                *argument = MPI_DISTRIBUTE_DFLT_DARG.into();
            }
        }
    }
    if let (Combiner::Darray | Combiner::Subarray, Some(order)) = (combiner, integers.last_mut()) {
        translate(order);
    }
    integers
}

/// Whether a type was made with large counts, by a constructor that has counts.
fn tells_large(contents: &Contents) -> bool {
    contents.is_large && !contents.large().counts.is_empty()
}

/// Refuses a type with large counts, which the calls that return `int` counts cannot report.
fn no_large(reported: &ReportedContents<'_>) -> Outcome<()> {
    if reported.counts.is_empty() {
        return Ok(());
    }
    let what = "the datatype was made with large counts: its contents are reported by MPI_Type_get_envelope_c and \
                MPI_Type_get_contents_c";
    Err(Failure::new(ErrorClass::Type, what))
}

pub(crate) unsafe fn mpi_type_get_envelope(
    datatype: MPI_Datatype,
    integers: *mut c_int,
    addresses: *mut c_int,
    datatypes: *mut c_int,
    combiner: *mut c_int,
) -> c_int {
    on_process("MPI_Type_get_envelope", |mpi| {
        let datatype = any_datatype_of(mpi, datatype)?;
        let reported = ReportedContents::of(&datatype);
        no_large(&reported)?;
        unsafe {
            *not_null(integers)? = reported.integers.len() as c_int;
            *not_null(addresses)? = reported.addresses.len() as c_int;
            *not_null(datatypes)? = reported.datatypes.len() as c_int;
            *not_null(combiner)? = number_of(reported.combiner);
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_type_get_envelope_c(
    datatype: MPI_Datatype,
    integers: *mut i64,
    addresses: *mut i64,
    counts: *mut i64,
    datatypes: *mut i64,
    combiner: *mut c_int,
) -> c_int {
    on_process("MPI_Type_get_envelope_c", |mpi| {
        let datatype = any_datatype_of(mpi, datatype)?;
        let reported = ReportedContents::of(&datatype);
        unsafe {
            *not_null(integers)? = reported.integers.len() as i64;
            *not_null(addresses)? = reported.addresses.len() as i64;
            *not_null(counts)? = reported.counts.len() as i64;
            *not_null(datatypes)? = reported.datatypes.len() as i64;
            *not_null(combiner)? = number_of(reported.combiner);
        }
        Ok(())
    })
}

/// Stores a list in a program's array.
///
/// # Errors
/// The array is too short, or is null although the list has elements; an error of `element`.
///
/// # Safety
/// The array must be null or have `max` elements.
unsafe fn give<T, V: Copy>(
    list: &[V],
    max: i64,
    at: *mut T,
    mut element: impl FnMut(V) -> Outcome<T>,
) -> Outcome<()> {
    if (list.len() as i64) > max {
        let what = format!("{} elements are to be stored, and the array has {max}", list.len());
        return Err(Failure::new(ErrorClass::Argument, what));
    }
    for (index, &value) in list.iter().enumerate() {
        unsafe { *not_null(at)?.add(index) = element(value)? };
    }
    Ok(())
}

/// An argument that the program gave as an int. Arguments given as a count are reported as counts, or not at all ([`no_large`]).
fn integer(value: i64) -> Outcome<c_int> {
    Ok(c_int::try_from(value).expect("it was given as an int"))
}

/// The handle for a type in the contents of another: the constant of a predefined type, the one handle of an unnamed type ([`unnamed`]), or
/// a new handle.
pub(crate) fn handle_to_tell(mpi: &Mpi, datatype: &Datatype) -> Outcome<MPI_Datatype> {
    if is_unnamed(datatype) {
        return unnamed(mpi, || datatype.clone());
    }
    match mpi.handle_of(datatype).filter(|_| datatype.as_predefined().is_some()) {
        Some(handle) => Ok(handle),
        None => keep_datatype(mpi, datatype.by_value()),
    }
}

fn not_named(reported: &ReportedContents<'_>) -> Outcome<()> {
    if reported.combiner == Combiner::Named {
        return Err(Failure::new(ErrorClass::Type, "a named datatype has no contents"));
    }
    Ok(())
}

pub(crate) unsafe fn mpi_type_get_contents(
    datatype: MPI_Datatype,
    max_integers: c_int,
    max_addresses: c_int,
    max_datatypes: c_int,
    integers: *mut c_int,
    addresses: *mut i64,
    datatypes: *mut MPI_Datatype,
) -> c_int {
    on_process("MPI_Type_get_contents", |mpi| {
        let datatype = any_datatype_of(mpi, datatype)?;
        let reported = ReportedContents::of(&datatype);
        not_named(&reported)?;
        no_large(&reported)?;
        unsafe {
            give(&reported.integers, max_integers.into(), integers, integer)?;
            give(reported.addresses, max_addresses.into(), addresses, Ok)?;
            give_types(mpi, reported.datatypes, max_datatypes.into(), datatypes)
        }
    })
}

pub(crate) unsafe fn mpi_type_get_contents_c(
    datatype: MPI_Datatype,
    max_integers: i64,
    max_addresses: i64,
    max_counts: i64,
    max_datatypes: i64,
    integers: *mut c_int,
    addresses: *mut i64,
    counts: *mut i64,
    datatypes: *mut MPI_Datatype,
) -> c_int {
    on_process("MPI_Type_get_contents_c", |mpi| {
        let datatype = any_datatype_of(mpi, datatype)?;
        let reported = ReportedContents::of(&datatype);
        not_named(&reported)?;
        unsafe {
            give(&reported.integers, max_integers, integers, integer)?;
            give(reported.addresses, max_addresses, addresses, Ok)?;
            give(&reported.counts, max_counts, counts, Ok)?;
            give_types(mpi, reported.datatypes, max_datatypes, datatypes)
        }
    })
}

unsafe fn give_types(mpi: &Mpi, list: &[Datatype], max: i64, at: *mut MPI_Datatype) -> Outcome<()> {
    let places: Vec<_> = (0..list.len()).collect();
    unsafe { give(&places, max, at, |index| handle_to_tell(mpi, &list[index])) }
}

pub(crate) unsafe fn mpi_type_match_size(
    typeclass: c_int,
    size: c_int,
    datatype: *mut MPI_Datatype,
) -> c_int {
    on_process("MPI_Type_match_size", |mpi| {
        let refused = |what| Failure::new(ErrorClass::Argument, what);
        let class = match typeclass {
            MPI_TYPECLASS_INTEGER => TypeClass::Integer,
            MPI_TYPECLASS_REAL => TypeClass::Real,
            MPI_TYPECLASS_COMPLEX => TypeClass::Complex,
            other => {
                return Err(refused(format!(
                    "{other} is not a class of types (MPI_TYPECLASS_REAL and the like)"
                )));
            }
        };
        let bytes = u64::try_from(size).unwrap_or(0);
        let found = Predefined::of_size(class, bytes).map(Datatype::predefined);
        let handle = found.and_then(|found| mpi.handle_of(&found));
        let what = || refused(format!("no type of this class has {size} bytes"));
        unsafe { *not_null(datatype)? = handle.ok_or_else(what)? };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_type_get_value_index(
    value_type: MPI_Datatype,
    index_type: MPI_Datatype,
    pair_type: *mut MPI_Datatype,
) -> c_int {
    on_process("MPI_Type_get_value_index", |mpi| {
        let parts = [value_type, index_type].map(|handle| any_datatype_of(mpi, handle));
        let [value, index] = parts;
        let wanted = (value?.as_predefined(), index?.as_predefined());
        let pair = Predefined::ALL
            .into_iter()
            .find(|pair| pair.parts().is_some_and(|(value, index)| (Some(value), Some(index)) == wanted));
        let handle = pair.and_then(|pair| mpi.handle_of(&Datatype::predefined(pair)));
        // If there is no such pair, the standard allows MPI_DATATYPE_NULL.
        unsafe { *not_null(pair_type)? = handle.unwrap_or(MPI_DATATYPE_NULL) };
        Ok(())
    })
}

/// The handle of an unnamed type. All equal types get the same handle.
fn unnamed(mpi: &Mpi, make: impl FnOnce() -> Datatype) -> Outcome<MPI_Datatype> {
    let new = make();
    let making = |of: &Datatype| (of.combiner(), of.contents().map(|contents| contents.integers.clone()));
    let wanted = making(&new);
    let mut known = mpi.types.unnamed.borrow_mut();
    let found = known.iter().find(|handle| mpi.datatype(**handle).is_some_and(|of| making(&of) == wanted));
    if let Some(&found) = found {
        return Ok(found);
    }
    let handle = keep_datatype(mpi, new)?;
    known.push(handle);
    Ok(handle)
}

fn give_unnamed(function: &str, at: *mut MPI_Datatype, make: impl FnOnce() -> Outcome<Datatype>) -> c_int {
    on_process(function, |mpi| {
        let (at, new) = (not_null(at)?, make()?);
        unsafe { *at = unnamed(mpi, || new)? };
        Ok(())
    })
}

/// A precision or an exponent range, in decimal digits; `None` for `MPI_UNDEFINED`.
fn digits_of(digits: c_int) -> Outcome<Option<u32>> {
    if digits == MPI_UNDEFINED {
        return Ok(None);
    }
    let what = || {
        Failure::new(
            ErrorClass::Argument,
            format!("the precision or range is {digits}: give a number from 0 up, or MPI_UNDEFINED"),
        )
    };
    u32::try_from(digits).map(Some).map_err(|_| what())
}

pub(crate) unsafe fn mpi_type_create_f90_real(
    precision: c_int,
    range: c_int,
    new: *mut MPI_Datatype,
) -> c_int {
    give_unnamed("MPI_Type_create_f90_real", new, || {
        Ok(Datatype::f90_real(digits_of(precision)?, digits_of(range)?)?)
    })
}

pub(crate) unsafe fn mpi_type_create_f90_complex(
    precision: c_int,
    range: c_int,
    new: *mut MPI_Datatype,
) -> c_int {
    give_unnamed("MPI_Type_create_f90_complex", new, || {
        Ok(Datatype::f90_complex(digits_of(precision)?, digits_of(range)?)?)
    })
}

pub(crate) unsafe fn mpi_type_create_f90_integer(range: c_int, new: *mut MPI_Datatype) -> c_int {
    give_unnamed("MPI_Type_create_f90_integer", new, || {
        let range = digits_of(range)?;
        let what = || Failure::new(ErrorClass::Argument, "no range is given");
        Ok(Datatype::f90_integer(range.ok_or_else(what)?)?)
    })
}
