//! The reduce-scatter.
//!
//! Each task sends each other task its part of that task's chunk, and combines the parts of its own chunk: in the order of the ranks, if
//! the operation does not commute.

use super::chunks::Chunks;
use super::plan::Others;
use super::{Plan, receive_all};
use crate::data::buffer::{RecvData, SendData};
use crate::error::Result;
use mpi_datatype::Datatype;

/// Combines the parts of all tasks for this task's chunk into `into`. `own` is `None` if `into` initially holds the whole vector.
pub(super) fn reduce_scatter(
    plan: &mut impl Plan,
    own: Option<&SendData>,
    into: &RecvData,
    chunks: &Chunks,
) -> Result<()> {
    let (first, count) = chunks.of(plan.rank());
    let memory = slots(plan, count, into.datatype())?;
    let result = into.part(0, count);
    if let Some(own) = own {
        return exchange(plan, (own, false), chunks, (&result, &memory));
    }
    // The chunks for the other tasks are in the memory of the result.
    let chunk = plan.scratch(count, into.datatype())?;
    plan.copy(&into.part(first, count).as_send(), &chunk)?;
    exchange(plan, (&into.as_send(), true), chunks, (&chunk, &memory))?;
    plan.copy(&chunk.as_send(), &result)
}

/// Memory for the other tasks' parts of a chunk.
pub(super) fn slots(plan: &mut impl Plan, count: u64, datatype: &Datatype) -> Result<RecvData> {
    let others = u64::from(plan.size() - 1);
    plan.scratch(count * others, datatype)
}

/// Combines all tasks' parts of this task's chunk in `chunk`, which holds this task's own part already if `is_in_place`. `own` has the
/// parts for the other tasks, and `slots` is the memory for the parts from them.
fn exchange(
    plan: &mut impl Plan,
    (own, is_in_place): (&SendData, bool),
    chunks: &Chunks,
    (chunk, slots): (&RecvData, &RecvData),
) -> Result<()> {
    let part_for = |to: u32| {
        let (first, count) = chunks.of(to);
        own.part(first, count)
    };
    let own = part_for(plan.rank());
    let incoming = Incoming::new(plan, (&own, is_in_place), (chunk, slots))?;
    super::exchange(plan, part_for, |from| incoming.slot(from))?;
    incoming.combine(plan)
}

/// The parts of one chunk: this task's own, and those that the other tasks send.
pub(super) struct Incoming<'a> {
    own: &'a SendData,
    chunk: &'a RecvData,
    slots: &'a RecvData,
    rank: u32,
    /// The task whose part is received directly in the chunk, so that this task's own part need not be copied there. `None` if the chunk
    /// holds this task's own part.
    in_chunk: Option<u32>,
}

impl<'a> Incoming<'a> {
    /// The arguments are those of [`exchange`]; `own` is this task's part alone.
    pub(super) fn new(
        plan: &mut impl Plan,
        (own, is_in_place): (&'a SendData, bool),
        (chunk, slots): (&'a RecvData, &'a RecvData),
    ) -> Result<Self> {
        let rank = plan.rank();
        let in_chunk =
            (plan.is_commutative() && !is_in_place && plan.size() > 1).then_some(u32::from(rank == 0));
        if !is_in_place && in_chunk.is_none() {
            plan.copy(own, chunk)?;
        }
        Ok(Self { own, chunk, slots, rank, in_chunk })
    }

    /// The memory for the part of another task.
    pub(super) fn slot(&self, from: u32) -> RecvData {
        if self.in_chunk == Some(from) {
            return self.chunk.clone();
        }
        // This task has no slot of its own.
        let number = if from < self.rank { from } else { from - 1 };
        let count = self.chunk.count();
        self.slots.part((u64::from(number) * count).cast_signed(), count)
    }

    /// Receives the parts, and combines them in the chunk.
    pub(super) fn receive_and_combine(&self, plan: &mut impl Plan) -> Result<()> {
        let other = 1 - self.rank.min(1);
        match self.in_chunk {
            Some(_) if plan.size() == 2 => {
                plan.pull_and_combine(self.chunk, other, Others::Earlier(self.own))
            }
            None if plan.size() == 2 && plan.is_commutative() => {
                plan.pull_and_combine(&self.slot(other), other, Others::Later(self.chunk))
            }
            _ => {
                receive_all(plan, |from| self.slot(from))?;
                self.combine(plan)
            }
        }
    }

    /// Combines the parts, which must all have arrived, in the chunk.
    pub(super) fn combine(&self, plan: &mut impl Plan) -> Result<()> {
        let &Self { own, chunk, rank, in_chunk, .. } = self;
        let size = plan.size();
        if chunk.count() == 0 || size == 1 {
            return Ok(());
        }
        if plan.is_commutative() {
            if in_chunk.is_some() {
                plan.combine(own, chunk)?;
            }
            return (0..size)
                .filter(|&from| from != rank && in_chunk != Some(from))
                .try_for_each(|from| plan.combine(&self.slot(from).as_send(), chunk));
        }
        for later in 1..rank {
            plan.combine(&self.slot(later - 1).as_send(), &self.slot(later))?;
        }
        if rank > 0 {
            plan.combine(&self.slot(rank - 1).as_send(), chunk)?;
        }
        let mut reduced = chunk.clone();
        for later in rank + 1..size {
            plan.combine(&reduced.as_send(), &self.slot(later))?;
            reduced = self.slot(later);
        }
        if rank + 1 < size { plan.copy(&reduced.as_send(), chunk) } else { Ok(()) }
    }
}
