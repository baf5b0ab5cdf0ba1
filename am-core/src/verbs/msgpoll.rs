//! `LAPI_Msgpoll`: progress up to a bound.

use crate::call_guard;
use crate::context::Context;
use crate::error::Result;
use crate::fabric::Fabric;
use crate::handler::HandlerSet;

/// Why [`Context::msgpoll`] has returned (the flags of `lapi_msg_info_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollReason {
    /// An operation of this task has ended (`LAPI_SEND_COMPLETE`).
    SendComplete,
    /// A message has arrived, or there was other work (`LAPI_RECV_COMPLETE`).
    ReceiveComplete,
    /// Both (`LAPI_BOTH_COMPLETE`).
    Both,
    /// `idle_polls_max` consecutive rounds of progress did nothing (`LAPI_DISP_CNTR`).
    GaveUp,
    /// Another thread uses the context and makes its progress (`LAPI_POLLING_NET`); only for a
    /// [`SharedContext`](crate::shared::SharedContext).
    OtherThread,
}

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Makes progress until a round has done something (an operation of this task has ended, an event was handled, or other work was done),
    /// or until `idle_polls_max` consecutive rounds did nothing. Never sleeps.
    ///
    /// # Errors
    /// An error while making progress; a call inside a handler.
    pub fn msgpoll(&mut self, idle_polls_max: u32) -> Result<PollReason> {
        call_guard::check("msgpoll")?;
        let ended_before = self.statistics().operations_ended;
        for _ in 0..idle_polls_max {
            if self.probe()? {
                let ended = self.statistics().operations_ended > ended_before;
                let reason = if ended { PollReason::SendComplete } else { PollReason::ReceiveComplete };
                // If another round handles something, that counts as an arrival.
                let more = self.probe()?;
                return Ok(if ended && more { PollReason::Both } else { reason });
            }
        }
        Ok(PollReason::GaveUp)
    }
}
