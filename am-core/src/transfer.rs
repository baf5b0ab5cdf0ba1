//! The plain words in which the engine and a fabric speak of packets and transfers.

use std::fmt;

use crate::buffer::{RawBytes, Room};

/// Which room a packet takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A place in the target's receive queue.
    OneWay,
    /// The same, and a place in the origin's receive queue for one [`Class::Answer`].
    Request,
    /// The place that a request reserved. Never answered with [`Outcome::Retry`](crate::error::Outcome::Retry) if the request is still unanswered.
    Answer,
}

/// The number by which the engine knows an operation that a fabric has accepted ([`Outcome::Posted`](crate::error::Outcome::Posted)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpId(pub u32);

/// How a transfer to or from granted memory can go.
#[must_use = "a transfer that is Retry or Staged was not started"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Carried out.
    Done,
    /// Accepted; an completion event will tell the end.
    Posted,
    /// No room now.
    Retry,
    /// There is no way from here into that memory: send the bytes as packets.
    Staged,
}

/// An atomic operation on a word of granted memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// Adds the operand (`FETCH_AND_ADD`).
    FetchAdd(u64),
    /// Bitwise or (`FETCH_AND_OR`).
    FetchOr(u64),
    /// Bitwise and.
    FetchAnd(u64),
    /// Bitwise exclusive or.
    FetchXor(u64),
    /// Replaces the value (`SWAP`).
    Swap(u64),
    /// Replaces the value if it equals `expected` (`COMPARE_AND_SWAP`).
    CompareSwap {
        /// The value that must be there.
        expected: u64,
        /// The value to put there.
        new: u64,
    },
}

/// Size of the word of an atomic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 32 bits; operands and result are the low halves.
    Bits32,
    /// 64 bits.
    Bits64,
}

impl Width {
    /// Bytes of the word.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::Bits32 => 4,
            Self::Bits64 => 8,
        }
    }
}

/// What became of an atomic operation.
#[must_use = "an operation that is Retry or AtOwner was not started"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    /// Carried out; the old value.
    Done(u64),
    /// Accepted; an completion event will carry the old value.
    Posted,
    /// No room now.
    Retry,
    /// Only the owner of that region can do it: send it a packet.
    AtOwner,
}

/// What follows the head of a packet: bytes of user memory, or a gatherer that writes them into the NIC's buffer itself.
pub trait Body {
    /// Bytes it will write.
    fn len(&self) -> usize;

    /// Writes all of them.
    fn write(&mut self, room: &mut Room);

    /// Whether there is nothing to write.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// User data that are not in one piece: writes any part of them into a NIC's buffer when it is asked (the sending side's
/// [`Sink`](crate::handler::Sink)).
pub trait Gatherer: fmt::Debug + Send {
    /// Bytes in all.
    fn len(&self) -> u64;

    /// Writes the `len` bytes from `offset` on into `room`. Asked in rising order, each byte once.
    fn gather(&mut self, offset: u64, len: usize, room: &mut Room);

    /// Whether there is nothing to write.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A part of what a gatherer has, as the body of a packet. What the gatherer leaves out becomes zeroes: what lay in the NIC's
/// buffer before belongs to somebody else.
#[derive(Debug)]
pub(crate) struct Gathered<'a, G: Gatherer + ?Sized> {
    pub(crate) gatherer: &'a mut G,
    pub(crate) offset: u64,
    pub(crate) len: usize,
}

impl<G: Gatherer + ?Sized> Body for Gathered<'_, G> {
    fn len(&self) -> usize {
        self.len
    }

    fn write(&mut self, room: &mut Room) {
        let end = room.used() + self.len;
        self.gatherer.gather(self.offset, self.len, room);
        while room.used() < end && room.put_slice(&[0; 64][..64.min(end - room.used())]) > 0 {}
    }
}

impl Body for &[u8] {
    #[inline(always)]
    fn len(&self) -> usize {
        <[u8]>::len(self)
    }

    #[inline(always)]
    fn write(&mut self, room: &mut Room) {
        room.put_slice(self);
    }
}

impl Body for RawBytes {
    #[inline(always)]
    fn len(&self) -> usize {
        RawBytes::len(self)
    }

    #[inline(always)]
    fn write(&mut self, room: &mut Room) {
        room.put(*self);
    }
}
