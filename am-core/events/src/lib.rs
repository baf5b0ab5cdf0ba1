//! Events of a task, for the traces and statistics of a job: the common types of the layers that report them and of the job that records
//! them.

#![forbid(unsafe_code)]

/// The kind of an event. The numbers are those of a job's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EventKind {
    /// A call, a part of it, a collective or a sleep begins.
    Begin = 1,
    /// The span that this thread began last ends.
    End = 2,
    /// A message is sent.
    Sent = 3,
    /// A message has matched its receive, or runs its handler.
    Received = 4,
    /// This task moved bytes without the help of its peer: a put or a get.
    Moved = 5,
    /// A value, such as the length of a queue.
    Value = 6,
    /// An event without a duration.
    Mark = 7,
}

impl EventKind {
    const ALL: [Self; 7] =
        [Self::Begin, Self::End, Self::Sent, Self::Received, Self::Moved, Self::Value, Self::Mark];

    /// The kind with this number.
    #[must_use]
    pub fn of(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| u32::from(*kind as u8) == number)
    }
}

/// Something that a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// What kind of thing it is.
    pub kind: EventKind,
    /// The call, the protocol, or the queue. An end has none.
    pub name: &'a str,
    /// The number of the task at the other end.
    pub peer: Option<u32>,
    /// MPI's tag, or the number of the header handler.
    pub tag: i32,
    /// The communicator or handler that the tag belongs to.
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
}

/// Records events. A context calls it within its own calls, so it must not call a context.
pub trait Recorder: Send + Sync {
    /// Records an event of the calling thread.
    fn record(&self, event: &Event<'_>);
}
