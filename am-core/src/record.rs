//! Events of contexts, for the traces and statistics of a job: contexts pass them to the recorder of the process.
//!
//! [`start`] sets the recorder, if the launcher asked for a trace or statistics. Without a recorder no event is made, and a call pays
//! nothing: the word that it tests to see whether it runs inside a handler also tells whether there is a recorder. With a recorder, each
//! call, message and transfer is recorded as it happens.

use std::sync::{Arc, OnceLock};

use am_core_engine::handler::{HandlerId, HandlerSet};

use crate::call_guard;
use crate::task::TaskId;

pub use am_core_engine::handler::MessageName;
pub use am_events::{Event, EventKind, Recorder};

/// Records that a message was sent.
#[inline]
pub(crate) fn sent(handlers: &impl HandlerSet, peer: TaskId, message: (HandlerId, &[u8]), bytes: u64) {
    if is_on() {
        tell_sent(handlers, peer, message, bytes);
    }
}

#[cold]
fn tell_sent(handlers: &impl HandlerSet, peer: TaskId, (id, uhdr): (HandlerId, &[u8]), bytes: u64) {
    let MessageName { protocol, tag, context } = handlers.describe(id, uhdr);
    tell(&Event { kind: EventKind::Sent, name: protocol, peer: Some(peer.0), tag, context, amount: bytes });
}

/// Records that this task begins a put, get or rmw.
#[inline]
pub(crate) fn moved(name: &str, peer: TaskId, bytes: u64) {
    if is_on() {
        tell(&Event { peer: Some(peer.0), amount: bytes, ..Event::plain(EventKind::Moved, name) });
    }
}

static RECORDER: OnceLock<Arc<dyn Recorder>> = OnceLock::new();

/// Sets the recorder of the process. Only the first call has an effect.
pub fn start(recorder: Arc<dyn Recorder>) {
    if RECORDER.set(recorder).is_ok() {
        call_guard::mark_recorded();
    }
}

/// Whether the process has a recorder.
#[inline]
#[must_use]
pub fn is_on() -> bool {
    call_guard::is_recorded()
}

/// Passes an event to the recorder, if the process has one. A forked copy of a task records nothing.
#[cold]
#[inline(never)]
pub fn tell(event: &Event<'_>) {
    if let Some(recorder) = RECORDER.get().filter(|_| !call_guard::is_copy()) {
        recorder.record(event);
    }
}

/// The span of a call: from [`begin`](Self::begin) until the value is dropped.
#[derive(Debug)]
pub(crate) struct Span {
    is_told: bool,
}

impl Span {
    /// Begins a span of this name, if the process has a recorder.
    #[inline]
    pub(crate) fn begin(name: &str) -> Self {
        let is_told = is_on();
        if is_told {
            tell(&Event::plain(EventKind::Begin, name));
        }
        Self { is_told }
    }
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if self.is_told {
            tell(&Event::plain(EventKind::End, ""));
        }
    }
}
