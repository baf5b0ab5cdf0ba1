//! Collectives over point-to-point messages, one algorithm per file (MPI 5.0 chapter 6).
//!
//! All tasks of a communicator must call collectives in the same order. The messages of collectives have a context id of their own, so that
//! no receive of the program matches them. An algorithm is written once, over a `Plan`: a blocking call carries it out immediately
//! (`direct`), a non-blocking one records it (`recorder`) as a schedule that every call with progress advances. Tasks on several hosts
//! carry out these algorithms in stages (`hosts`), each among some of the tasks (`among`).

mod agreement;
mod allgather;
mod allreduce;
mod alltoall;
mod among;
mod arguments;
mod barrier;
mod broadcast;
mod call;
mod chunks;
mod direct;
mod gather;
mod hosts;
mod inter;
mod neighbour;
mod on_board;
mod on_lines;
mod parts;
mod perform;
mod plan;
mod prepared;
mod recorder;
mod reduce;
mod reduce_scatter;
mod scan;
mod short;
mod stages;
mod table;
mod words;

use std::sync::Arc;

use am_core::buffer::{RawBuffer, RawBytes};
use am_core::fabric::Fabric;

use crate::communicator::Communicator;
use crate::context_id::Space;
pub use crate::data::buffer::Datum;
use crate::data::buffer::{RecvData, SendData};
use crate::data::op::Combine;
use crate::error::Result;
use crate::events::{self, EventKind, Fact};
use crate::message::board::Ticket;
use crate::message::progress::start_schedule;
use crate::message::request_id::RequestId;
use crate::message::request_table::{NO_SCOPE, Recipe, Schedule};
use crate::policy::LockPolicy;
use crate::settings::Check;
pub use arguments::{LayoutPart, Placement, Position};
pub use call::Collective;
use direct::Direct;
pub use parts::{Neighbours, Parts};
use plan::Plan;
pub use prepared::{Buffer, KeptOperator, Make, NoOperator, Nothing, Operator, Prepared};
use recorder::{Recorder, Series};
pub use table::*;

impl Collective {
    /// Carries out the collective, and returns when this task's part is done.
    ///
    /// # Errors
    /// Arguments that do not match; an operation that is not defined for its type; the death of a task.
    pub fn run<F: Fabric, L: LockPolicy>(&self, communicator: &Communicator<F, L>) -> Result<()> {
        communicator.carry_out(self, self.op().map(|op| op as &dyn Combine))
    }

    /// Starts the collective (`MPI_Ibarrier` and the like). What was promised about the memory of its [`SendData`] and [`RecvData`] must
    /// hold until the request is complete.
    ///
    /// # Errors
    /// Those of [`run`](Self::run); no request exists then.
    pub fn start<F: Fabric, L: LockPolicy>(&self, communicator: &Communicator<F, L>) -> Result<RequestId> {
        communicator.start_collective(self, Series::Started, NO_SCOPE)
    }

    /// Makes the collective persistent (`MPI_Barrier_init` and the like), to be [started](Communicator::start). All tasks must make these
    /// calls in the same order; they may start the requests in any order. What was promised about the memory of the [`SendData`] and
    /// [`RecvData`] must hold for every start.
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    pub fn keep<F: Fabric, L: LockPolicy>(&self, communicator: &Communicator<F, L>) -> Result<RequestId> {
        communicator.keep_collective(self).map(|id| communicator.numbered(id))
    }
}

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Starts a collective. `scope` is the number of the scope that its request belongs to, or [`NO_SCOPE`].
    fn start_collective(&self, collective: &Collective, series: Series, scope: u32) -> Result<RequestId> {
        let schedule = self.record(collective, series)?;
        Ok(start_schedule(&mut *self.state()?, schedule, scope))
    }

    /// [`Collective::keep`], for a typed object.
    fn keep_collective(&self, collective: &Collective) -> Result<RequestId> {
        let (schedule, _) = self.record(collective, Series::Persistent)?;
        Ok(self.state()?.handlers().requests.insert_persistent(false, Recipe::Schedule(schedule)))
    }

    /// Records a collective as a schedule, for the communicator's board if there is a ticket.
    fn record(&self, collective: &Collective, series: Series) -> Result<(Arc<Schedule>, Option<Ticket>)> {
        // Takes the collective's number before it checks the arguments, so that the numbers of a task with wrong arguments still agree with
        // those of the other tasks.
        let mut recorder = Recorder::new(self, collective.op().cloned(), series)?;
        self.check(collective)?;
        if recorder.selection().check == Check::On {
            agreement::agree(&mut recorder, collective, collective.op().map(|op| op as &dyn Combine))?;
        }
        // Not a persistent collective: each task starts these in an order of its own, while the steps of a board have the same order.
        let ticket = match series {
            Series::Started => self.record_on_board(collective, &mut recorder)?,
            Series::Persistent => None,
        };
        if ticket.is_none() {
            self.perform(collective, &mut recorder)?;
        }
        Ok((Arc::new(recorder.into_schedule()), ticket))
    }

    fn carry_out(&self, collective: &Collective, op: Option<&dyn Combine>) -> Result<()> {
        if matches!(collective, Collective::Barrier)
            && let Some(done) = self.try_barrier_of_two()
        {
            return done;
        }
        let fact = || {
            let context = self.route(Space::Collective, 0, 0).map(|route| route.envelope.context_id().0);
            let (name, context) = (agreement::name_in_record(collective), context.unwrap_or_default());
            Fact { name, rank: self.size(), context, ..Fact::default() }
        };
        events::tell(EventKind::CollectiveBegun, fact);
        let result = self.carry_out_unwatched(collective, op);
        events::tell(EventKind::CollectiveEnded, fact);
        result
    }

    fn carry_out_unwatched(&self, collective: &Collective, op: Option<&dyn Combine>) -> Result<()> {
        let mut direct = Direct::new(self, op)?;
        self.check(collective)?;
        if direct.selection().check == Check::On {
            agreement::agree(&mut direct, collective, op)?;
        }
        if self.try_on_board(collective, &mut direct)? {
            return Ok(());
        }
        self.perform(collective, &mut direct)
    }

    fn check(&self, collective: &Collective) -> Result<()> {
        match self.is_inter() {
            false => collective.check(self.rank(), self.size()),
            true => collective.check_inter(self.size(), self.remote_size()?),
        }
    }

    fn perform(&self, collective: &Collective, plan: &mut impl Plan) -> Result<()> {
        if self.is_inter() { inter::perform(collective, plan) } else { collective.perform(plan) }
    }

    /// The number of a new non-blocking or persistent collective: the same at all tasks.
    fn next_collective(&self) -> Result<u32> {
        let context_id = self.route(Space::Collective, 0, 0)?.envelope.context_id().0;
        let mut state = self.state()?;
        let started = state.started.entry(context_id).or_default();
        *started = started.wrapping_add(1);
        Ok(*started)
    }
}

/// An empty message to send, and one to receive.
fn nothing() -> (SendData, RecvData) {
    (SendData::from_bytes(RawBytes::EMPTY), RecvData::from_buffer(RawBuffer::EMPTY))
}

/// The memory of `data` as bytes, if it is contiguous.
fn as_bytes(data: &RecvData) -> Option<RecvData> {
    data.as_buffer().map(RecvData::from_buffer)
}

/// Sends each other task its part, and receives one from each. The last pair of parts is exchanged by a blocking call, so with two tasks
/// neither needs a request.
fn exchange<P: Plan>(
    plan: &mut P,
    part_for: impl Fn(u32) -> SendData,
    buffer_for: impl Fn(u32) -> RecvData,
) -> Result<()> {
    let (rank, size) = (plan.rank(), plan.size());
    for (number, (from, to)) in (2..).zip(partners(rank, size)) {
        if number == size {
            plan.across((&part_for(to), to), (&buffer_for(from), from))?;
        } else {
            plan.receive(&buffer_for(from), from)?;
            plan.send(&part_for(to), to)?;
        }
    }
    plan.wait()
}

/// Receives a part from each other task, and waits for all receives. The last part is received by a blocking call, as in [`exchange`].
fn receive_all<P: Plan>(plan: &mut P, buffer_for: impl Fn(u32) -> RecvData) -> Result<()> {
    let (rank, size) = (plan.rank(), plan.size());
    for (number, (from, _)) in (2..).zip(partners(rank, size)) {
        if number == size {
            plan.pull(&buffer_for(from), from)?;
        } else {
            plan.receive(&buffer_for(from), from)?;
        }
    }
    plan.wait_for_receives()
}

/// All other ranks, as pairs of a source and a destination, in the order in which a task uses them. Each task begins with a different pair.
fn partners(rank: u32, size: u32) -> impl Iterator<Item = (u32, u32)> {
    (1..size).map(move |distance| {
        let from = if rank >= distance { rank - distance } else { rank + (size - distance) };
        let to = if rank < size - distance { rank + distance } else { rank - (size - distance) };
        (from, to)
    })
}
