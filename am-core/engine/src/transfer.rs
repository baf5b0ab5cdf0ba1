//! The plain words in which the engine and a fabric speak of packets and transfers.

use core::fmt;

pub use am_atomics::{AtomicOp, Width};

use crate::buffer::{InlineBytes, PacketWriter, RawBuffer, RawBytes, RawPieces};
use crate::error::Result;
use crate::task::Endpoint;
use crate::user_code::{self, UserCode};

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
    ///
    /// # Errors
    /// Its own: the packet is not sent then.
    fn write(&mut self, writer: &mut PacketWriter<'_>) -> Result<()>;

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

    /// Writes the `len` bytes from `offset` on into `room`. Asked in rising order, each byte once. If it panics, the message ends with
    /// [`Error::HandlerPanicked`](crate::error::Error::HandlerPanicked), and the packet that was being written is not sent.
    fn gather(&mut self, offset: u64, len: usize, writer: &mut PacketWriter<'_>);

    /// Whether there is nothing to write.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Data of a message that are not in one piece, as the engine keeps them.
pub trait Parts: fmt::Debug + Send {
    /// Bytes in all.
    fn size(&self) -> u64;

    /// Writes the `len` bytes from `offset` on into `room`. Asked in rising order, each byte once.
    ///
    /// # Errors
    /// [`Error::HandlerPanicked`](crate::error::Error::HandlerPanicked).
    fn write_part(&mut self, offset: u64, len: usize, writer: &mut PacketWriter<'_>) -> Result<()>;
}

/// The data of a message that a gatherer writes.
#[derive(Debug)]
pub struct Gather<G, U> {
    gatherer: G,
    len: u64,
    user: U,
    own: Endpoint,
}

impl<G: Gatherer, U: UserCode> Gather<G, U> {
    /// What `gatherer` has, for a message that `own` sends. The gatherer runs through `user`, but when it is asked here for its length.
    #[inline]
    pub fn new(gatherer: G, user: U, own: Endpoint) -> Self {
        Self { len: gatherer.len(), gatherer, user, own }
    }
}

impl<G: Gatherer, U: UserCode + Send> Parts for Gather<G, U> {
    fn size(&self) -> u64 {
        self.len
    }

    fn write_part(&mut self, offset: u64, len: usize, writer: &mut PacketWriter<'_>) -> Result<()> {
        user_code::run(self.user, self.own, "gather", || self.gatherer.gather(offset, len, writer))
    }
}

/// Some of these data, as the body of a packet. What a gatherer leaves out becomes zeroes: what lay in the NIC's buffer before belongs to
/// somebody else.
#[derive(Debug)]
pub(crate) struct Part<'a, P: ?Sized> {
    pub(crate) of: &'a mut P,
    pub(crate) offset: u64,
    pub(crate) len: usize,
}

impl<P: Parts + ?Sized> Body for Part<'_, P> {
    fn len(&self) -> usize {
        self.len
    }

    fn write(&mut self, writer: &mut PacketWriter<'_>) -> Result<()> {
        let end = writer.used() + self.len;
        self.of.write_part(self.offset, self.len, writer)?;
        while writer.used() < end && writer.put_slice(&[0; 64][..64.min(end - writer.used())]) > 0 {}
        Ok(())
    }
}

/// A body of all of them.
impl<G: Gatherer, U: UserCode + Send> Body for Gather<G, U> {
    fn len(&self) -> usize {
        usize::try_from(self.len).unwrap_or(usize::MAX)
    }

    fn write(&mut self, writer: &mut PacketWriter<'_>) -> Result<()> {
        let len = Body::len(self);
        Part { of: self, offset: 0, len }.write(writer)
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
    fn write(&mut self, writer: &mut PacketWriter<'_>) -> Result<()> {
        writer.put_slice(self);
        Ok(())
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
    fn write(&mut self, writer: &mut PacketWriter<'_>) -> Result<()> {
        writer.put(*self);
        Ok(())
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
    fn write(&mut self, writer: &mut PacketWriter<'_>) -> Result<()> {
        writer.put(self.as_bytes());
        Ok(())
    }
}

impl Body for RawPieces<RawBytes> {
    fn len(&self) -> usize {
        usize::try_from(RawPieces::len(self)).unwrap_or(usize::MAX)
    }

    fn write(&mut self, writer: &mut PacketWriter<'_>) -> Result<()> {
        self.gather_from(0, Body::len(self), writer);
        Ok(())
    }
}

impl Parts for RawPieces<RawBytes> {
    fn size(&self) -> u64 {
        RawPieces::len(self)
    }

    fn write_part(&mut self, offset: u64, len: usize, writer: &mut PacketWriter<'_>) -> Result<()> {
        self.gather_from(offset, len, writer);
        Ok(())
    }
}
