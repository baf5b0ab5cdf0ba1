//! What contexts do, told to the process's recorder: for traces and statistics of a job.
//!
//! A process has a recorder if whoever started it wants one ([`start`]). Without one nothing here runs: calls look at one word that they look
//! at anyway. With one, each call, message and transfer is told as it happens.

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
    /// This task moves bytes by itself: a put, a get.
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
    /// By what the receiver tells messages apart: MPI's tag, a handler.
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

/// Takes what is told. It is called from inside of calls, and makes none of a context.
pub trait Recorder: Send + Sync {
    /// Takes an event of the calling thread.
    fn record(&self, event: &Event<'_>);
}

/// Tells the recorder, if there is one, that a message is handed over.
#[inline]
pub(crate) fn sent(handlers: &impl HandlerSet, peer: TaskId, message: (HandlerId, &[u8]), bytes: u64) {
    if is_on() {
        tell(&Event::sent(handlers, peer, message, bytes));
    }
}

/// Tells the recorder, if there is one, of bytes that this task moves by itself.
#[inline]
pub(crate) fn moved(name: &str, peer: TaskId, bytes: u64) {
    if is_on() {
        tell(&Event { amount: bytes, ..Event::moved(name, peer, 0) });
    }
}

static RECORDER: OnceLock<Arc<dyn Recorder>> = OnceLock::new();

/// From now on everything is told to this recorder. A process has one: that of the first call.
pub fn start(recorder: Arc<dyn Recorder>) {
    if RECORDER.set(recorder).is_ok() {
        in_handler::mark_recorded();
    }
}

/// Whether anything is told.
#[inline]
#[must_use]
pub fn is_on() -> bool {
    in_handler::is_recorded()
}

/// Tells the recorder, if there is one. In a copy of a task nothing is told.
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
    /// A span of this name, if anything is told.
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
