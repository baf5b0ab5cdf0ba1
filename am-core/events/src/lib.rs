//! Events of a task, for the traces and statistics of a job: types shared by the layers that report events and the job that records them.

#![forbid(unsafe_code)]

/// The kind of an event, with its number in a job's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EventKind {
    /// The beginning of a call, a part of a call, a collective or a sleep.
    Begin = 1,
    /// The end of the span that this thread began last.
    End = 2,
    /// A message was sent.
    Sent = 3,
    /// A message matched its receive, or the message's handler ran.
    Received = 4,
    /// A put, get or rmw was begun.
    Moved = 5,
    /// A value, such as the length of a queue.
    Value = 6,
    /// An event without a duration.
    Mark = 7,
}

impl EventKind {
    const ALL: [Self; 7] =
        [Self::Begin, Self::End, Self::Sent, Self::Received, Self::Moved, Self::Value, Self::Mark];

    /// The kind with this number, if there is one.
    #[must_use]
    pub fn of(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| u32::from(*kind as u8) == number)
    }
}

/// An event of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The kind of the event.
    pub kind: EventKind,
    /// The call, the protocol, or the queue. Empty for an end.
    pub name: &'a str,
    /// The task at the other end.
    pub peer: Option<u32>,
    /// MPI's tag, or the number of the header handler.
    pub tag: i32,
    /// The number space of the tag: a communicator, or `u32::MAX` if the tag is the number of a handler.
    pub context: u32,
    /// Bytes, or the value.
    pub amount: u64,
}

impl<'a> Event<'a> {
    /// An event without a peer, tag, context or amount.
    #[must_use]
    pub const fn plain(kind: EventKind, name: &'a str) -> Self {
        Self { kind, name, peer: None, tag: 0, context: 0, amount: 0 }
    }
}

/// Receives events. A recorder is called inside calls of a context, so it must not use a context.
pub trait Recorder: Send + Sync {
    /// Records an event of the calling thread.
    fn record(&self, event: &Event<'_>);
}
