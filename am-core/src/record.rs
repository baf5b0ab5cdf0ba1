//! Events of contexts, for the traces and statistics of a job: contexts hand them to the recorder of the process.
//!
//! A process gets its recorder from [`start`], if the launcher asked for a trace or statistics. Without a recorder no event is made: a call tests
//! the word that also tells whether it runs inside a handler. With one, each call, message and transfer is recorded as it happens.

use std::sync::{Arc, OnceLock};

use am_core_engine::handler::{HandlerId, HandlerSet};

use crate::in_handler;
use crate::task::TaskId;

pub use am_core_engine::handler::MessageName;

/// What kind of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A call or a part of it begins.
    Begin,
    /// The last one that this thread began, and that has not ended, ends.
    End,
    /// A message is handed over.
    Sent,
    /// A message has met its receive, or runs its handler.
    Received,
    /// This task moved bytes without the help of its peer: a put or a get.
    Moved,
    /// A value, such as the length of a queue.
    Value,
    /// Something that takes no time.
    Mark,
}

/// Something that a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// What kind of thing it is.
    pub kind: EventKind,
    /// The call, the protocol, the queue. An end has none.
    pub name: &'a str,
    /// The task at the other end.
    pub peer: Option<TaskId>,
    /// MPI's tag, or the number of the header handler.
    pub tag: i32,
    /// What the tag belongs to.
    pub context: u32,
    /// Bytes, or the value.
    pub amount: u64,
}

impl<'a> Event<'a> {
    /// An event without peer, tag and amount.
    #[must_use]
    pub const fn plain(kind: EventKind, name: &'a str) -> Self {
        Self { kind, name, peer: None, tag: 0, context: 0, amount: 0 }
    }

    /// A message of `bytes` bytes of user data.
    #[cold]
    pub(crate) fn sent(
        handlers: &'a impl HandlerSet,
        peer: TaskId,
        (id, uhdr): (HandlerId, &[u8]),
        bytes: u64,
    ) -> Self {
        let MessageName { protocol, tag, context } = handlers.describe(id, uhdr);
        Self { kind: EventKind::Sent, name: protocol, peer: Some(peer), tag, context, amount: bytes }
    }

    /// A transfer by this task alone.
    pub(crate) const fn moved(name: &'a str, peer: TaskId, bytes: usize) -> Self {
        Self { peer: Some(peer), amount: bytes as u64, ..Self::plain(EventKind::Moved, name) }
    }
}

/// Records events. A context calls it amid its own calls, so it must not call a context.
pub trait Recorder: Send + Sync {
    /// Records an event of the calling thread.
    fn record(&self, event: &Event<'_>);
}

/// Records that a message was handed over.
#[inline]
pub(crate) fn sent(handlers: &impl HandlerSet, peer: TaskId, message: (HandlerId, &[u8]), bytes: u64) {
    if is_on() {
        tell(&Event::sent(handlers, peer, message, bytes));
    }
}

/// Records a put or a get that this task carried out alone.
#[inline]
pub(crate) fn moved(name: &str, peer: TaskId, bytes: u64) {
    if is_on() {
        tell(&Event { amount: bytes, ..Event::moved(name, peer, 0) });
    }
}

static RECORDER: OnceLock<Arc<dyn Recorder>> = OnceLock::new();

/// Makes this the recorder of the process. The first call decides; later ones change nothing.
pub fn start(recorder: Arc<dyn Recorder>) {
    if RECORDER.set(recorder).is_ok() {
        in_handler::mark_recorded();
    }
}

/// Whether the process has a recorder.
#[inline]
#[must_use]
pub fn is_on() -> bool {
    in_handler::is_recorded()
}

/// Hands an event to the recorder, if the process has one. The copy of a task that fork has made records nothing.
#[cold]
#[inline(never)]
pub fn tell(event: &Event<'_>) {
    if let Some(recorder) = RECORDER.get().filter(|_| !in_handler::is_copy()) {
        recorder.record(event);
    }
}

/// A call that begins now, and ends when this is dropped.
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
