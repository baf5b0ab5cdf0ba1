//! Packets and transfers: the credits that they take, and their outcomes.

pub use am_atomics::{AtomicOp, Width};

/// The credit that a packet takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// A slot in the target's receive queue.
    OneWay = 0,
    /// A slot in the target's receive queue, and one in the origin's for the [`Class::Answer`].
    Request = 1,
    /// The slot that a request reserved. While the request is unanswered, the post never returns [`Posted::Retry`].
    Answer = 2,
}

/// The caller's number of a transfer that was accepted ([`Transfer::Posted`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpId(pub u32);

/// Outcome of a post, and of a request to end a registration.
#[must_use = "Retry means that nothing was done"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// Carried out.
    Done,
    /// Not carried out, usually because no credit is left: try again after a poll.
    Retry,
}

/// Outcome of a transfer to or from granted memory, and of an atomic operation on it, for which `T` is the old value.
#[must_use = "a transfer that is Retry or Unreachable was not started"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer<T = ()> {
    /// Carried out.
    Done(T),
    /// Accepted; a later poll reports the end.
    Posted,
    /// No capacity now: try again after a poll.
    Retry,
    /// This task cannot access that memory, or not atomically: the bytes have to travel in packets, and the owner of the memory has to
    /// carry out an atomic operation.
    Unreachable,
}
