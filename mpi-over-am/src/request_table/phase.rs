//! The phases of an operation.

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The slot is free.
    Free,
    /// Persistent, and not started: over, for whoever waits.
    Inactive,
    /// Over. The three that a wait does not wait for come first: one comparison finds them.
    Done,
    /// A receive that waits for its message.
    Posted,
    /// A send, or a receive that has met its message.
    Moving,
    /// Partitioned: over when all of its messages are.
    Parts,
    /// The program carries it out, and says when it is over.
    ByProgram,
}
