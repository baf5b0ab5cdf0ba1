//! States of an operation.

/// The state of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The slot is free.
    Free,
    /// Persistent and not started: a wait returns at once.
    Inactive,
    /// Complete. The three states in which a wait returns at once come first: one comparison finds them.
    Done,
    /// A receive that waits for its message.
    Posted,
    /// Under way: a send, a receive that has matched a message, or a schedule.
    Moving,
    /// An operation that consists of several messages: complete when all of them are.
    Parts,
    /// The program carries out the operation, and reports when it is complete.
    ByProgram,
    /// The helper thread carries out the operation.
    ByHelper,
}
