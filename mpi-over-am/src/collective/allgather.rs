//! The gather whose result everybody gets.
//!
//! Each block goes to each task at once: memory is as near to all tasks as to a neighbour, so that a ring would only wait. Many
//! tasks with short blocks of the same length go in rounds, in each of which a task doubles what it has (Bruck et al. 1997).

use super::Plan;
use super::call::Parts;
use crate::buffer::{RecvData, SendData};
use crate::error::Result;
use mpi_datatype::{Datatype, Predefined};

/// Collects every task's `own` in everybody's `into`. `own` is `None` where it is in its place.
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
            in_rounds(plan, &own, into)
        }
        _ => super::exchange(plan, |_| own.clone(), |from| into.of(from)),
    }
}

/// The blocks lie in scratch memory from this task's own on, around the end.
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
