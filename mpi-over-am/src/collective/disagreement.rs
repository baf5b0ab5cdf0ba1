//! Tasks that disagree about a collective so much that some go by puts and others by messages: they give it lengths on both sides of
//! the bound, or call different ones. It is a mistake of the program's, by which each would wait for what the other never does.
//!
//! Collectives that wait are numbered alike in all tasks, where there are lanes. Puts carry the number in the head of their place, and
//! messages in their tag; so a task that waits in one way knows of a mistake when it finds something of the other way with the number
//! of its own collective, in whatever order things come. It gives up, and tells all others, which may wait for this task by now. Nothing
//! is done for it but in waits that have not found what they wait for. What has no byte has no head: a collective of no length in
//! one task is not found out.

use am_core::Context;
use am_core::buffer::RawBytes;
use am_core::fabric::Fabric;

use super::lanes::LanesOf;
use super::tags;
use crate::buffer::SendData;
use crate::communicator::{Communicator, Space};
use crate::error::{Error, Result};
use crate::handlers::MpiHandlers;
use crate::protocol::{self, Mode};
use crate::request::RequestId;
use crate::state::{State, is_over};

impl<F: Fabric> Communicator<F> {
    /// Waits for a message of the collective with this number.
    ///
    /// # Errors
    /// [`Error::WaysDiffer`]; what progress reports.
    pub(super) fn wait_beside_lanes(
        &self,
        state: &mut State<F>,
        request: RequestId,
        number: u32,
    ) -> Result<()> {
        let lanes = self.lanes().try_borrow().map_err(|_| Error::Nested)?;
        let mut disagree = false;
        state.wait_for(|context| {
            if is_over(context, request) {
                return true;
            }
            let is_put = matches!(&*lanes, LanesOf::Ready(lanes) if lanes.has_put_of(context, number));
            disagree = is_put || self.has_early_collective(context, tags::alarm(number));
            disagree
        })?;
        if disagree { Err(ways_differ(state)) } else { Ok(()) }
    }

    /// Whether a task carries the collective with this number out by messages, while this one goes by puts; or has found out that
    /// some do.
    #[inline]
    pub(super) fn is_by_messages(&self, context: &mut Context<F, MpiHandlers>, number: u32) -> bool {
        self.has_early_collective(context, tags::waited(number))
            || self.has_early_collective(context, tags::alarm(number))
    }

    /// Tells all tasks that they disagree about the collective with this number, and waits for none.
    pub(super) fn tell_of_disagreement(&self, number: u32) -> Result<()> {
        let nothing = SendData::from_bytes(RawBytes::EMPTY);
        for rank in (0..self.size()).filter(|&rank| rank != self.rank()) {
            let route = self.route(Space::Collective, rank, tags::alarm(number))?;
            let mut state = self.state()?;
            let request = protocol::start_send_data(&mut state, Mode::Standard, &route, &nothing, 0)?;
            state.handlers().requests.detach(request);
        }
        Ok(())
    }
}

#[cold]
pub(super) fn ways_differ<F: Fabric>(state: &State<F>) -> Error {
    Error::WaysDiffer { puts_bytes_max: state.selection.puts_bytes_max }
}
