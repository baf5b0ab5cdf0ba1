//! Calls on counters other than waiting: the state of each destination (`LAPI_Setcntr_wstatus`).

use crate::context::Context;
use crate::counter::{Counter, CounterName, DestinationStatus};
use crate::error::{Error, Result};
use crate::fabric::Fabric;
use crate::handler::HandlerSet;
use crate::task::TaskId;

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Sets the counter to 0, and from now on tracks those operations to `destinations` that have it as their completion counter
    /// (`LAPI_Setcntr_wstatus`).
    ///
    /// # Errors
    /// A removed counter, or an unknown task.
    pub fn set_counter_watched(&mut self, counter: Counter, destinations: &[TaskId]) -> Result<()> {
        destinations.iter().try_for_each(|&task| self.check_exists(self.engine.endpoint_of(task)))?;
        self.engine.counters.watch(counter, destinations)
    }

    /// The states of the destinations, in the order in which they were given. Makes no progress.
    ///
    /// # Errors
    /// A counter that is not watched ([`set_counter_watched`](Self::set_counter_watched)).
    pub fn counter_destinations(&self, counter: Counter) -> Result<Vec<(TaskId, DestinationStatus)>> {
        let all = self.engine.counters.destinations(counter).map(<[_]>::to_vec);
        all.ok_or(Error::UnknownCounter { counter: CounterName::to_wire(Some(counter.name())) })
    }
}
