//! Groups (MPI 5.0 section 7.3).
//!
//! SAFETY: each `mpi_*` function here is called under the contract that the standard gives it: pointers are valid for the accesses that the
//! standard specifies, and buffers are not used until their operation has ended. One thread at a time uses the state of MPI (`state`).

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results and read arrays at the program's pointers; blocks that do more have a note"
)]

use std::ffi::c_int;

use mpi_over_am::{Comparison, ErrorClass, Group, PROC_NULL, RankRange};

use crate::constants::{
    MPI_CONGRUENT, MPI_GROUP_EMPTY, MPI_GROUP_NULL, MPI_IDENT, MPI_PROC_NULL, MPI_SIMILAR, MPI_UNDEFINED,
    MPI_UNEQUAL,
};
use crate::data::dest_of;
use crate::errors::on_process;
use crate::failure::{Failure, Outcome, elements, not_null};
use crate::state::Mpi;
use crate::types::MPI_Group;

/// The group of a handle.
///
/// # Errors
/// The handle is invalid.
pub(crate) fn group_of(mpi: &Mpi, handle: MPI_Group) -> Outcome<Group> {
    if handle == MPI_GROUP_EMPTY {
        return Ok(Group::EMPTY);
    }
    mpi.groups.get(handle.0).ok_or_else(|| {
        let what = match handle {
            MPI_GROUP_NULL => "the group is MPI_GROUP_NULL".to_owned(),
            other => format!("0x{:x} is not a group: it was freed, or never was one", other.0),
        };
        Failure::new(ErrorClass::Group, what)
    })
}

/// A new handle for a group; `MPI_GROUP_EMPTY` for the empty group.
///
/// # Errors
/// There are a million groups already.
pub(crate) fn keep_group(mpi: &Mpi, group: Group) -> Outcome<MPI_Group> {
    if group.size() == 0 {
        return Ok(MPI_GROUP_EMPTY);
    }
    mpi.groups.insert(group).map(MPI_Group)
}

/// The standard's number of the result of a comparison (`MPI_IDENT` and the like).
pub(crate) fn code_of_comparison(comparison: Comparison) -> c_int {
    match comparison {
        Comparison::Identical => MPI_IDENT,
        Comparison::Congruent => MPI_CONGRUENT,
        Comparison::Similar => MPI_SIMILAR,
        Comparison::Unequal => MPI_UNEQUAL,
    }
}

/// Ranks in a group from the program; `MPI_PROC_NULL` is not allowed.
fn ranks_of(ranks: &[c_int]) -> Outcome<Vec<u32>> {
    let rank_of = |&rank: &c_int| {
        let what = || Failure::new(ErrorClass::Rank, format!("rank {rank} does not exist"));
        u32::try_from(rank).map_err(|_| what())
    };
    ranks.iter().map(rank_of).collect()
}

pub(crate) unsafe fn mpi_group_size(group: MPI_Group, size: *mut c_int) -> c_int {
    on_process("MPI_Group_size", |mpi| {
        unsafe { *not_null(size)? = group_of(mpi, group)?.size() as c_int };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_group_rank(group: MPI_Group, rank: *mut c_int) -> c_int {
    on_process("MPI_Group_rank", |mpi| {
        let found = group_of(mpi, group)?.rank().map_or(MPI_UNDEFINED, |rank| rank as c_int);
        unsafe { *not_null(rank)? = found };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_group_translate_ranks(
    group1: MPI_Group,
    n: c_int,
    ranks1: *const c_int,
    group2: MPI_Group,
    ranks2: *mut c_int,
) -> c_int {
    on_process("MPI_Group_translate_ranks", |mpi| {
        let (from, to) = (group_of(mpi, group1)?, group_of(mpi, group2)?);
        let ranks: Vec<u32> =
            unsafe { elements(ranks1, n)? }.iter().map(|&rank| dest_of(rank)).collect::<Outcome<_>>()?;
        if !ranks.is_empty() {
            not_null(ranks2)?;
        }
        for (index, translated) in from.translate_ranks(&ranks, &to)?.into_iter().enumerate() {
            let rank = match translated {
                Some(PROC_NULL) => MPI_PROC_NULL,
                Some(rank) => rank as c_int,
                None => MPI_UNDEFINED,
            };
            unsafe { *ranks2.add(index) = rank };
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_group_compare(group1: MPI_Group, group2: MPI_Group, result: *mut c_int) -> c_int {
    on_process("MPI_Group_compare", |mpi| {
        let found = group_of(mpi, group1)?.compare(&group_of(mpi, group2)?);
        unsafe { *not_null(result)? = code_of_comparison(found) };
        Ok(())
    })
}

/// Runs a call that makes a new group from another.
fn make(
    function: &str,
    group: MPI_Group,
    new: *mut MPI_Group,
    call: impl FnOnce(&Mpi, &Group) -> Outcome<Group>,
) -> c_int {
    on_process(function, |mpi| {
        let new = not_null(new)?;
        let made = call(mpi, &group_of(mpi, group)?)?;
        unsafe { *new = keep_group(mpi, made)? };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_group_union(group1: MPI_Group, group2: MPI_Group, new: *mut MPI_Group) -> c_int {
    make("MPI_Group_union", group1, new, |mpi, group| Ok(group.union(&group_of(mpi, group2)?)))
}

pub(crate) unsafe fn mpi_group_intersection(
    group1: MPI_Group,
    group2: MPI_Group,
    new: *mut MPI_Group,
) -> c_int {
    make("MPI_Group_intersection", group1, new, |mpi, group| Ok(group.intersection(&group_of(mpi, group2)?)))
}

pub(crate) unsafe fn mpi_group_difference(
    group1: MPI_Group,
    group2: MPI_Group,
    new: *mut MPI_Group,
) -> c_int {
    make("MPI_Group_difference", group1, new, |mpi, group| Ok(group.difference(&group_of(mpi, group2)?)))
}

pub(crate) unsafe fn mpi_group_incl(
    group: MPI_Group,
    n: c_int,
    ranks: *const c_int,
    new: *mut MPI_Group,
) -> c_int {
    make("MPI_Group_incl", group, new, |_, group| Ok(group.incl(&ranks_of(unsafe { elements(ranks, n)? })?)?))
}

pub(crate) unsafe fn mpi_group_excl(
    group: MPI_Group,
    n: c_int,
    ranks: *const c_int,
    new: *mut MPI_Group,
) -> c_int {
    make("MPI_Group_excl", group, new, |_, group| Ok(group.excl(&ranks_of(unsafe { elements(ranks, n)? })?)?))
}

unsafe fn ranges_of(ranges: *mut [c_int; 3], n: c_int) -> Outcome<Vec<RankRange>> {
    let ranges = unsafe { elements(ranges.cast_const(), n)? };
    Ok(ranges.iter().map(|&[first, last, stride]| RankRange { first, last, stride }).collect())
}

pub(crate) unsafe fn mpi_group_range_incl(
    group: MPI_Group,
    n: c_int,
    ranges: *mut [c_int; 3],
    new: *mut MPI_Group,
) -> c_int {
    make("MPI_Group_range_incl", group, new, |_, group| {
        Ok(group.range_incl(&unsafe { ranges_of(ranges, n)? })?)
    })
}

pub(crate) unsafe fn mpi_group_range_excl(
    group: MPI_Group,
    n: c_int,
    ranges: *mut [c_int; 3],
    new: *mut MPI_Group,
) -> c_int {
    make("MPI_Group_range_excl", group, new, |_, group| {
        Ok(group.range_excl(&unsafe { ranges_of(ranges, n)? })?)
    })
}

pub(crate) unsafe fn mpi_group_free(group: *mut MPI_Group) -> c_int {
    on_process("MPI_Group_free", |mpi| {
        let at = not_null(group)?;
        let handle = unsafe { *at };
        group_of(mpi, handle)?;
        // The empty group is the result of many calls, so programs free it like any other.
        mpi.groups.remove(handle.0);
        unsafe { *at = MPI_GROUP_NULL };
        Ok(())
    })
}
