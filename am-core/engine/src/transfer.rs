//! The plain words in which the engine and a fabric speak of packets and transfers.

use core::fmt;

pub use crate::atomic::{AtomicOp, Width};
use crate::buffer::{InlineBytes, RawBuffer, RawBytes, RawPieces, Room};

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
    /// Accepted; a completion event tells when it has ended.
    Posted,
    /// No room now.
    Retry,
    /// There is no way from here into that memory: send the bytes as packets.
    Staged,
}

/// What became of an atomic operation.
#[must_use = "an operation that is Retry or AtOwner was not started"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    /// Carried out; the old value.
    Done(u64),
    /// Accepted; a completion event carries the old value.
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
    fn write(&mut self, room: &mut Room<'_>);

    /// Appends all of them to a packet inside an entry; whether they fitted, and may be copied so.
    fn push_to(&mut self, _packet: &mut InlineBytes) -> bool {
        false
    }

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
    fn gather(&mut self, offset: u64, len: usize, room: &mut Room<'_>);

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

    fn write(&mut self, room: &mut Room<'_>) {
        let end = room.used() + self.len;
        self.gatherer.gather(self.offset, self.len, room);
        while room.used() < end && room.put_slice(&[0; 64][..64.min(end - room.used())]) > 0 {}
    }
}

impl Body for &[u8] {
    #[inline(always)]
    fn push_to(&mut self, packet: &mut InlineBytes) -> bool {
        packet.push(self)
    }

    #[inline(always)]
    fn len(&self) -> usize {
        <[u8]>::len(self)
    }

    #[inline(always)]
    fn write(&mut self, room: &mut Room<'_>) {
        room.put_slice(self);
    }
}

impl Body for RawBytes {
    #[inline(always)]
    fn push_to(&mut self, packet: &mut InlineBytes) -> bool {
        packet.push_raw(*self)
    }

    #[inline(always)]
    fn len(&self) -> usize {
        RawBytes::len(self)
    }

    #[inline(always)]
    fn write(&mut self, room: &mut Room<'_>) {
        room.put(*self);
    }
}

impl Body for RawBuffer {
    #[inline(always)]
    fn push_to(&mut self, packet: &mut InlineBytes) -> bool {
        packet.push_raw(self.as_bytes())
    }

    #[inline(always)]
    fn len(&self) -> usize {
        RawBuffer::len(self)
    }

    #[inline(always)]
    fn write(&mut self, room: &mut Room<'_>) {
        room.put(self.as_bytes());
    }
}

impl Body for RawPieces<RawBytes> {
    fn len(&self) -> usize {
        usize::try_from(RawPieces::len(self)).unwrap_or(usize::MAX)
    }

    fn write(&mut self, room: &mut Room<'_>) {
        self.gather_from(0, Body::len(self), room);
    }
}

impl Gatherer for RawPieces<RawBytes> {
    fn len(&self) -> u64 {
        RawPieces::len(self)
    }

    fn gather(&mut self, offset: u64, len: usize, room: &mut Room<'_>) {
        self.gather_from(offset, len, room);
    }
}
