//! Lanes: from each task of a communicator to each other one, some places in memory that the receiver has exposed, and a counter
//! of the receiver's that the sender bumps when it has put something there.
//!
//! All tasks call their collectives in the same order, so what arrives on a lane arrives in the order in which it is asked for:
//! nothing has to be matched, and there is no request. A put of up to eight bytes is one packet with its counter; longer ones are
//! stored where they belong, and a notice follows. The receiver copies them out, for a place may be written by whoever knows its
//! address, and tells its sender when half of the places are free again: a sender that is ahead by all of them waits.
//!
//! Each place begins with the length of what lies in it: a task that expects another number of bytes says so.

use am_core::Context;
use am_core::buffer::{Exposed, RemoteAddress};
use am_core::counter::{Counter, CounterName};
use am_core::fabric::Fabric;
use am_core::handler::HandlerSet;

use crate::error::{Error, Result};
use crate::policy::{Field, LockPolicy};

/// Places of a lane.
pub(crate) const PLACES: u64 = 8;
/// After so many the receiver tells that they are free again.
pub(crate) const TOLD_AFTER: u64 = PLACES / 2;

/// The lanes of a communicator, if it has any.
#[derive(Debug)]
pub(crate) enum LanesOf {
    /// Not yet: so many collectives so far.
    After(u32),
    /// It has.
    Ready(Box<Lanes>),
    /// A call has taken them out ([`TakenLanes`]).
    Taken,
    /// It gets none.
    None,
}

impl Default for LanesOf {
    fn default() -> Self {
        Self::After(0)
    }
}

impl LanesOf {
    /// Gives memory and counters back, when nobody will name them any more: now, or before the next lanes are made.
    pub(crate) fn close<F: Fabric, H: HandlerSet>(
        self,
        former: &mut Vec<Lanes>,
        context: &mut Context<F, H>,
    ) {
        if let Self::Ready(lanes) = self {
            former.push(*lanes);
            close_former(former, context);
        }
    }

    /// The lanes of a collective that was chosen because they are there.
    pub(crate) fn lanes(&mut self) -> &mut Lanes {
        match self {
            Self::Ready(lanes) => lanes,
            Self::After(_) | Self::Taken | Self::None => {
                unreachable!("a collective goes by puts where there are lanes")
            }
        }
    }
}

/// The lanes of a communicator that a call has taken out while it waits. They come back when this is dropped.
#[derive(Debug)]
pub(crate) struct TakenLanes<'a, L: LockPolicy> {
    field: &'a L::Field<LanesOf>,
    pub(crate) lanes: LanesOf,
}

impl<'a, L: LockPolicy> TakenLanes<'a, L> {
    /// # Errors
    /// [`Error::Nested`]: another collective of this communicator has them.
    #[inline]
    pub(crate) fn take(field: &'a L::Field<LanesOf>) -> Result<Self> {
        match field.replace(LanesOf::Taken) {
            LanesOf::Taken => Err(Error::Nested),
            lanes => Ok(Self { field, lanes }),
        }
    }
}

impl<L: LockPolicy> Drop for TakenLanes<'_, L> {
    #[inline]
    fn drop(&mut self) {
        self.field.set(std::mem::replace(&mut self.lanes, LanesOf::None));
    }
}

/// The lanes of a communicator: by rank, to and from that task.
#[derive(Debug)]
pub(crate) struct Lanes {
    pub(crate) memory: Exposed,
    pub(crate) place_bytes: u64,
    pub(crate) lanes: Box<[Lane]>,
}

/// Both lanes between this task and another one.
#[derive(Debug)]
pub(crate) struct Lane {
    /// This task's places there.
    pub(crate) there: RemoteAddress,
    /// The other one's counter of what this task has put there.
    pub(crate) arrived_there: Option<CounterName>,
    /// Bumped when the other one has emptied another [`TOLD_AFTER`] places.
    pub(crate) emptied: Counter,
    /// Places that this task has filled so far.
    pub(crate) filled: u64,
    /// Bumped when the other one has put something here.
    pub(crate) arrived: Counter,
    /// Of that, what this task has taken.
    pub(crate) taken: u64,
    /// Places that this task has emptied so far.
    pub(crate) used: u64,
    /// The other one's counter of emptied places.
    pub(crate) emptied_there: Option<CounterName>,
}

/// Closes the lanes of former communicators of which every task has told all that it had to tell.
pub(crate) fn close_former<F: Fabric, H: HandlerSet>(former: &mut Vec<Lanes>, context: &mut Context<F, H>) {
    for lanes in std::mem::take(former) {
        if lanes.lanes.iter().all(|lane| has_reached(context, lane.emptied, lane.filled / TOLD_AFTER)) {
            lanes.close(context);
        } else {
            former.push(lanes);
        }
    }
}

impl Lanes {
    pub(crate) fn close<F: Fabric, H: HandlerSet>(self, context: &mut Context<F, H>) {
        for lane in &self.lanes {
            context.remove_counter(lane.emptied);
            context.remove_counter(lane.arrived);
        }
        // If it fails the memory stays exposed, which does nobody harm.
        let _ = context.unexpose(self.memory);
    }
}

#[inline(always)]
pub(crate) fn has_reached<F: Fabric, H: HandlerSet>(
    context: &Context<F, H>,
    counter: Counter,
    number: u64,
) -> bool {
    context.counter_value(counter).is_ok_and(|value| value >= number)
}
