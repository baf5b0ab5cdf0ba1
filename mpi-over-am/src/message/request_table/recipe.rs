//! What a persistent request does each time it is started.

use std::sync::Arc;

use super::schedule::Schedule;
use crate::data::buffer::{RecvData, SendData};
use crate::matching::Pattern;
use crate::message::route::{Mode, Route};
use crate::message::status::Status;

/// What a start has to do.
#[derive(Clone, Debug)]
pub(crate) enum Recipe {
    /// Sends.
    Send { mode: Mode, route: Route, data: SendData },
    /// Receives.
    Receive { pattern: Pattern, data: RecvData },
    /// Nothing: the peer is [`PROC_NULL`](crate::PROC_NULL).
    Nobody { status: Status },
    /// Starts a round of a partitioned operation.
    Parts,
    /// Starts a schedule.
    Schedule(Arc<Schedule>),
}
