//! The allgather.
//!
//! Each task sends its block directly to every other task: in shared memory all tasks are equally near, so a ring would only add waits.
//! Many tasks with short blocks of the same length use rounds: in each round a task doubles its number of blocks (Bruck et al. 1997). If
//! the result for many tasks is very short, rank 0 collects it and broadcasts it along a flat tree: most tasks then wait once instead of
//! once in each round.

use super::parts::Parts;
use super::{Plan, broadcast, gather};
use crate::data::buffer::{RecvData, SendData};
use crate::error::Result;
use crate::message::tree::FLAT_BYTES_MAX;
use mpi_datatype::{Datatype, Predefined};

/// Collects the blocks of all tasks in each task's `into`. `own` is this task's block; `None`: it is already in its place in `into`
/// (`MPI_IN_PLACE`).
pub(super) fn allgather(plan: &mut impl Plan, own: Option<&SendData>, into: &Parts<RecvData>) -> Result<()> {
    let (rank, selection) = (plan.rank(), plan.selection());
    let in_place = into.of(rank);
    if let Some(own) = own {
        plan.copy(own, &in_place)?;
    }
    let own = own.cloned().unwrap_or_else(|| in_place.as_send());
    match into {
        Parts::Equal { all, .. }
            if plan.size() > selection.allgather_linear_tasks_max
                && all.packed_len() <= selection.allgather_rounds_bytes_max =>
        {
            if all.packed_len() > FLAT_BYTES_MAX {
                return in_rounds(plan, &own, into);
            }
            gather::gather(plan, Some(&own).filter(|_| rank != 0), Some(into), 0)?;
            broadcast::by_tree(plan, all, 0)
        }
        _ => super::exchange(plan, |_| own.clone(), |from| into.of(from)),
    }
}

/// Collects the blocks in rounds. The scratch memory holds them in the order of the ranks, from this task's own block on, wrapping around
/// after the last rank.
fn in_rounds(plan: &mut impl Plan, own: &SendData, into: &Parts<RecvData>) -> Result<()> {
    let (rank, size) = (plan.rank(), plan.size());
    let block = own.packed_len();
    let slots = plan.scratch(block * u64::from(size), &Datatype::predefined(Predefined::Byte))?;
    let blocks = |first: u32, count: u32| {
        slots.part((u64::from(first) * block).cast_signed(), u64::from(count) * block)
    };
    plan.copy(own, &blocks(0, 1))?;
    let mut have = 1;
    while have < size {
        let more = have.min(size - have);
        let (to, from) = ((rank + size - have) % size, (rank + have) % size);
        plan.across((&blocks(0, more).as_send(), to), (&blocks(have, more), from))?;
        have += more;
    }
    for number in 1..size {
        plan.copy(&blocks(number, 1).as_send(), &into.of((rank + number) % size))?;
    }
    Ok(())
}
