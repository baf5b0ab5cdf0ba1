//! Datatypes (MPI 5.0 section 5.1): their construction, inquiry and freeing.
//!
//! SAFETY: each `mpi_*` function here is called under the contract that the standard gives it: pointers are valid for the accesses that the
//! standard specifies, and buffers are not used until their operation has ended. One thread at a time uses the state of MPI (`state`).

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results and read arrays at the program's pointers; blocks that do more have a note"
)]

use std::ffi::c_int;

use mpi_over_am::ErrorClass;
use mpi_over_am::datatype::{Datatype, Distribution, Order};

use crate::constants::{
    MPI_DATATYPE_NULL, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_DFLT_DARG,
    MPI_DISTRIBUTE_NONE, MPI_ORDER_C, MPI_ORDER_FORTRAN,
};
use crate::data::{any_datatype_of, count_of, is_unnamed};
use crate::errors::on_process;
use crate::failure::{Failure, Outcome, elements, not_null};
use crate::state::Mpi;
use crate::types::{Ints, MPI_Datatype};

/// One of the two forms of a constructor: counts are `int` or 64 bits. A datatype remembers the form with which it was made: its contents
/// are reported in that form.
pub(crate) trait Form {
    type Count: Into<i64>;
    type Counts: Into<Ints>;
    const IS_LARGE: bool;
}

pub(crate) struct Small;
pub(crate) struct Large;

impl Form for Small {
    type Count = c_int;
    type Counts = Ints;
    const IS_LARGE: bool = false;
}

impl Form for Large {
    type Count = i64;
    type Counts = Ints;
    const IS_LARGE: bool = true;
}

/// A handle for a datatype.
///
/// # Errors
/// There are a million datatypes already.
pub(crate) fn keep_datatype(mpi: &Mpi, datatype: Datatype) -> Outcome<MPI_Datatype> {
    let handle = mpi.datatypes.insert(datatype.clone())?;
    datatype.set_number(handle as u64);
    Ok(MPI_Datatype(handle))
}

fn make<F: Form>(
    function: &str,
    at: *mut MPI_Datatype,
    make: impl FnOnce(&Mpi) -> Outcome<Datatype>,
) -> c_int {
    on_process(function, |mpi| {
        let at = not_null(at)?;
        let made =
            make(mpi).and_then(|new| keep_datatype(mpi, if F::IS_LARGE { new.made_large() } else { new }));
        // Not before the type is made: `at` may be in the list of the types that it is made of.
        unsafe { *at = made.as_ref().copied().unwrap_or(MPI_DATATYPE_NULL) };
        made.map(drop)
    })
}

fn refused(what: String) -> Failure {
    Failure::new(ErrorClass::Argument, what)
}

/// A length or a size that the program passes. A negative one is `MPI_ERR_ARG`; a negative count of elements is `MPI_ERR_COUNT`.
fn length_of(length: i64) -> Outcome<u64> {
    u64::try_from(length).map_err(|_| refused(format!("a length is {length}, below zero")))
}

/// The elements of a program's array.
///
/// # Safety
/// The array must be null or have `count` elements.
unsafe fn list(of: Ints, count: u64) -> Outcome<Vec<i64>> {
    if count > 0 && of.is_null() {
        return Err(refused(format!("an array of {count} elements is null")));
    }
    Ok((0..count as usize).map(|index| unsafe { of.at(index) }).collect())
}

/// [`list`] for lengths.
///
/// # Safety
/// Those of [`list`].
unsafe fn lengths(of: Ints, count: u64) -> Outcome<Vec<u64>> {
    unsafe { list(of, count) }?.into_iter().map(length_of).collect()
}

fn order_of(order: c_int) -> Outcome<Order> {
    match order {
        MPI_ORDER_C => Ok(Order::C),
        MPI_ORDER_FORTRAN => Ok(Order::Fortran),
        _ => Err(refused(format!("{order} is neither MPI_ORDER_C nor MPI_ORDER_FORTRAN"))),
    }
}

/// The distribution of a dimension, from the standard's constants.
fn distribution_of(constant: c_int, argument: c_int) -> Outcome<Distribution> {
    let argument = if argument == MPI_DISTRIBUTE_DFLT_DARG { None } else { Some(argument) };
    let len = match argument {
        Some(len) if constant != MPI_DISTRIBUTE_NONE && len <= 0 => {
            return Err(refused(format!("the argument of a distribution is {len}, below one")));
        }
        other => other.map(|len| u64::from(len.unsigned_abs())),
    };
    match constant {
        MPI_DISTRIBUTE_NONE => Ok(Distribution::None(argument.map(i64::from))),
        MPI_DISTRIBUTE_BLOCK => Ok(Distribution::Block(len)),
        MPI_DISTRIBUTE_CYCLIC => Ok(Distribution::Cyclic(len)),
        other => Err(refused(format!("{other} is not a distribution (MPI_DISTRIBUTE_BLOCK and the like)"))),
    }
}

/// The constructors, each in its two forms. The parameters in brackets are those whose types differ between the forms: `Count` is a number,
/// `Counts` an array.
macro_rules! constructors {
    ($(
        $small:ident $large:ident $name:literal
        ($($before:ident: $before_type:ty,)* [$($own:ident: $own_type:ident),*] $($behind:ident: $behind_type:ty),*)
        |$mpi:ident| $body:expr
    )*) => { $(
        pub(crate) unsafe fn $small(
            $($before: $before_type,)*
            $($own: <Small as Form>::$own_type,)*
            $($behind: $behind_type,)*
            new: *mut MPI_Datatype,
        ) -> c_int {
            $(let $own = $own.into();)*
            make::<Small>($name, new, |$mpi| $body)
        }

        pub(crate) unsafe fn $large(
            $($before: $before_type,)*
            $($own: <Large as Form>::$own_type,)*
            $($behind: $behind_type,)*
            new: *mut MPI_Datatype,
        ) -> c_int {
            $(let $own = $own.into();)*
            make::<Large>($name, new, |$mpi| $body)
        }
    )* };
}

constructors! {
    mpi_type_contiguous mpi_type_contiguous_c "MPI_Type_contiguous"
    ([count: Count] old: MPI_Datatype)
    |mpi| Ok(Datatype::contiguous(count_of(count)?, &any_datatype_of(mpi, old)?)?)

    mpi_type_vector mpi_type_vector_c "MPI_Type_vector"
    ([count: Count, block_len: Count, stride: Count] old: MPI_Datatype)
    |mpi| {
        let old = any_datatype_of(mpi, old)?;
        Ok(Datatype::vector(count_of(count)?, length_of(block_len)?, stride, &old)?)
    }

    mpi_type_create_hvector mpi_type_create_hvector_c "MPI_Type_create_hvector"
    ([count: Count, block_len: Count] stride: i64, old: MPI_Datatype)
    |mpi| {
        let old = any_datatype_of(mpi, old)?;
        Ok(Datatype::hvector(count_of(count)?, length_of(block_len)?, stride, &old)?)
    }

    mpi_type_indexed mpi_type_indexed_c "MPI_Type_indexed"
    ([count: Count, block_lens: Counts, displacements: Counts] old: MPI_Datatype)
    |mpi| {
        let (count, old) = (count_of(count)?, any_datatype_of(mpi, old)?);
        let (lens, displacements) = unsafe { (lengths(block_lens, count)?, list(displacements, count)?) };
        Ok(Datatype::indexed(&lens, &displacements, &old)?)
    }

    mpi_type_create_indexed_block mpi_type_create_indexed_block_c "MPI_Type_create_indexed_block"
    ([count: Count, block_len: Count, displacements: Counts] old: MPI_Datatype)
    |mpi| {
        let (count, old) = (count_of(count)?, any_datatype_of(mpi, old)?);
        let displacements = unsafe { list(displacements, count) }?;
        Ok(Datatype::indexed_block(length_of(block_len)?, &displacements, &old)?)
    }

    mpi_type_create_hindexed mpi_type_create_hindexed_c "MPI_Type_create_hindexed"
    ([count: Count, block_lens: Counts] displacements: *const i64, old: MPI_Datatype)
    |mpi| {
        let (count, old) = (count_of(count)?, any_datatype_of(mpi, old)?);
        let (lens, displacements) =
            unsafe { (lengths(block_lens, count)?, list(displacements.into(), count)?) };
        Ok(Datatype::hindexed(&lens, &displacements, &old)?)
    }

    mpi_type_create_hindexed_block mpi_type_create_hindexed_block_c "MPI_Type_create_hindexed_block"
    ([count: Count, block_len: Count] displacements: *const i64, old: MPI_Datatype)
    |mpi| {
        let (count, old) = (count_of(count)?, any_datatype_of(mpi, old)?);
        let displacements = unsafe { list(displacements.into(), count) }?;
        Ok(Datatype::hindexed_block(length_of(block_len)?, &displacements, &old)?)
    }

    mpi_type_create_struct mpi_type_create_struct_c "MPI_Type_create_struct"
    ([count: Count, block_lens: Counts] displacements: *const i64, types: *const MPI_Datatype)
    |mpi| {
        let count = count_of(count)?;
        let (lens, displacements) =
            unsafe { (lengths(block_lens, count)?, list(displacements.into(), count)?) };
        if count > 0 && types.is_null() {
            return Err(refused(format!("an array of {count} datatypes is null")));
        }
        let olds: Vec<_> = (0..count as usize)
            .map(|index| any_datatype_of(mpi, unsafe { *types.add(index) }))
            .collect::<Outcome<_>>()?;
        Ok(Datatype::structure(&lens, &displacements, &olds)?)
    }

    mpi_type_create_subarray mpi_type_create_subarray_c "MPI_Type_create_subarray"
    (dimensions: c_int, [sizes: Counts, subsizes: Counts, starts: Counts] order: c_int, old: MPI_Datatype)
    |mpi| {
        let (dimensions, old) = (length_of(dimensions.into())?, any_datatype_of(mpi, old)?);
        let [sizes, subsizes, starts] =
            [sizes, subsizes, starts].map(|list| unsafe { lengths(list, dimensions) });
        Ok(Datatype::subarray(&sizes?, &subsizes?, &starts?, order_of(order)?, &old)?)
    }

    mpi_type_create_darray mpi_type_create_darray_c "MPI_Type_create_darray"
    (size: c_int, rank: c_int, dimensions: c_int, [lengths_of_array: Counts]
     distributions: *const c_int, arguments: *const c_int, grid: *const c_int, order: c_int, old: MPI_Datatype)
    |mpi| {
        let (dimensions, old) = (length_of(dimensions.into())?, any_datatype_of(mpi, old)?);
        let of = (length_of(size.into())?, length_of(rank.into())?);
        let (array, grid) =
            unsafe { (lengths(lengths_of_array, dimensions)?, lengths(grid.into(), dimensions)?) };
        let [distributions, arguments] =
            [distributions, arguments].map(|constants| unsafe { elements(constants, dimensions as c_int) });
        let distributions: Vec<_> = distributions?
            .iter()
            .zip(arguments?)
            .map(|(&constant, &argument)| distribution_of(constant, argument))
            .collect::<Outcome<_>>()?;
        Ok(Datatype::darray(of, &array, &distributions, &grid, order_of(order)?, &old)?)
    }

    mpi_type_create_resized mpi_type_create_resized_c "MPI_Type_create_resized"
    ([] old: MPI_Datatype, lower_bound: i64, extent: i64)
    |mpi| Ok(Datatype::resized(&any_datatype_of(mpi, old)?, lower_bound, extent)?)
}

pub(crate) unsafe fn mpi_type_dup(old: MPI_Datatype, new: *mut MPI_Datatype) -> c_int {
    on_process("MPI_Type_dup", |mpi| {
        let (new, datatype) = (not_null(new)?, any_datatype_of(mpi, old)?);
        unsafe { *new = MPI_DATATYPE_NULL };
        let handle = keep_datatype(mpi, Datatype::dup(&datatype))?;
        let properties = crate::type_objects::duplicated(mpi, old).inspect_err(|_| {
            mpi.datatypes.remove(handle.0);
        })?;
        crate::type_objects::begin_with(mpi, handle, properties);
        unsafe { *new = handle };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_type_commit(datatype: *mut MPI_Datatype) -> c_int {
    on_process("MPI_Type_commit", |mpi| {
        any_datatype_of(mpi, unsafe { *not_null(datatype)? })?.commit();
        Ok(())
    })
}

pub(crate) unsafe fn mpi_type_free(datatype: *mut MPI_Datatype) -> c_int {
    on_process("MPI_Type_free", |mpi| {
        let at = not_null(datatype)?;
        let handle = unsafe { *at };
        let datatype = any_datatype_of(mpi, handle)?;
        if datatype.as_predefined().is_some() || is_unnamed(&datatype) {
            let what = format!("the datatype 0x{:x} is predefined and cannot be freed", handle.0);
            return Err(Failure::new(ErrorClass::Type, what));
        }
        drop(datatype);
        crate::type_objects::free(mpi, handle)?;
        unsafe { *at = MPI_DATATYPE_NULL };
        Ok(())
    })
}

/// Stores a number that the datatype has.
fn give_number(
    function: &str,
    datatype: MPI_Datatype,
    number: impl FnOnce(&Datatype) -> i64,
    at: *mut i64,
) -> c_int {
    on_process(function, |mpi| {
        unsafe { *not_null(at)? = number(&any_datatype_of(mpi, datatype)?) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_type_size_c(datatype: MPI_Datatype, size: *mut i64) -> c_int {
    give_number("MPI_Type_size", datatype, |of| of.size() as i64, size)
}

// The next three are of MPI-1: the standard has removed them (MPI 5.0 section 17.1), and old programs still call them.

pub(crate) unsafe fn mpi_type_extent(datatype: MPI_Datatype, extent: *mut i64) -> c_int {
    give_number("MPI_Type_extent", datatype, Datatype::extent, extent)
}

pub(crate) unsafe fn mpi_type_lb(datatype: MPI_Datatype, lower: *mut i64) -> c_int {
    give_number("MPI_Type_lb", datatype, Datatype::lower_bound, lower)
}

pub(crate) unsafe fn mpi_type_ub(datatype: MPI_Datatype, upper: *mut i64) -> c_int {
    give_number("MPI_Type_ub", datatype, |of| of.lower_bound() + of.extent(), upper)
}

fn give_bounds(
    function: &str,
    datatype: MPI_Datatype,
    bounds: impl FnOnce(&Datatype) -> (i64, i64),
    (lower, extent): (*mut i64, *mut i64),
) -> c_int {
    on_process(function, |mpi| {
        let datatype = any_datatype_of(mpi, datatype)?;
        unsafe { (*not_null(lower)?, *not_null(extent)?) = bounds(&datatype) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_type_get_extent_c(
    datatype: MPI_Datatype,
    lower: *mut i64,
    extent: *mut i64,
) -> c_int {
    let bounds = |of: &Datatype| (of.lower_bound(), of.extent());
    give_bounds("MPI_Type_get_extent", datatype, bounds, (lower, extent))
}

pub(crate) unsafe fn mpi_type_get_true_extent_c(
    datatype: MPI_Datatype,
    lower: *mut i64,
    extent: *mut i64,
) -> c_int {
    let bounds = |of: &Datatype| (of.true_lower_bound(), of.true_extent());
    give_bounds("MPI_Type_get_true_extent", datatype, bounds, (lower, extent))
}
