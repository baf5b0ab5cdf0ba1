//! Header handlers and completion handlers (LAPI's `hdr_hndlr` and `compl_hndlr`; MPI-LAPI paper, sections 3 and 5.3).
//!
//! A header handler runs at the target when the first packet of a message has arrived. It returns the destination of the data and the
//! completion. It cannot communicate: a communicating call in a handler is refused, because the engine is not re-entrant and the handler
//! could wait for itself.

pub(crate) mod results;

use std::fmt;
use std::sync::{Arc, Mutex};

pub use am_core_engine::handler::*;

use crate::record::{self, Event, EventKind};

use results::Results;

type Registered = Box<dyn FnMut(&Message<'_>) -> Answer + Send>;

/// Header handlers registered at run time, as closures (`LAPI_Addr_set`).
#[derive(Default)]
pub struct HandlerTable {
    handlers: Vec<Registered>,
    /// The handler for results of calls, and the calls under way; set when the first function is registered.
    pub(crate) calls: Option<(HandlerId, Arc<Mutex<Results>>)>,
}

impl fmt::Debug for HandlerTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerTable").field("handlers", &self.handlers.len()).finish()
    }
}

impl HandlerTable {
    /// Registers a handler; its number is the count of handlers before it. `None` beyond [`HandlerId::COUNT_MAX`].
    pub fn register(
        &mut self,
        handler: impl FnMut(&Message<'_>) -> Answer + Send + 'static,
    ) -> Option<HandlerId> {
        let id =
            u16::try_from(self.handlers.len()).ok().filter(|&id| usize::from(id) < HandlerId::COUNT_MAX)?;
        self.handlers.push(if record::is_on() { told(HandlerId(id), handler) } else { Box::new(handler) });
        Some(HandlerId(id))
    }
}

/// A handler that also records each message that it gets.
fn told(
    id: HandlerId,
    mut handler: impl FnMut(&Message<'_>) -> Answer + Send + 'static,
) -> Box<dyn FnMut(&Message<'_>) -> Answer + Send> {
    Box::new(move |message| {
        record::tell(&Event {
            peer: Some(message.source.task.0),
            tag: i32::from(id.0),
            context: MessageName::OF_HANDLER,
            amount: message.len,
            ..Event::plain(EventKind::Received, "handler")
        });
        handler(message)
    })
}

impl HandlerSet for HandlerTable {
    const RUNS_USER_CODE: bool = true;

    #[inline(always)]
    fn header(&mut self, id: HandlerId, message: &Message<'_>) -> Option<Answer> {
        self.handlers.get_mut(usize::from(id.0)).map(|handler| handler(message))
    }

    /// Registered handlers have no requests: a completion that marks one does nothing.
    fn complete_request(&mut self, _request: u64, _delivered: Delivered) {}

    fn count(&self) -> usize {
        self.handlers.len()
    }
}
