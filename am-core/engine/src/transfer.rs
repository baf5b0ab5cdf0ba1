//! Types that the engine and a fabric share: packets and transfers.

use core::fmt;

pub use am_contract::transfer::{AtomicOp, Class, OpId, Posted, Transfer, Width};

use crate::buffer::{InlineBytes, PacketWriter, RawBuffer, RawBytes, RawPieces};
use crate::error::Result;
use crate::task::Endpoint;
use crate::user_code::{self, UserCode};

/// What follows the head of a packet: bytes of user memory, or a gatherer that writes them into the NIC's buffer itself.
pub trait Body {
    /// Number of bytes.
    fn len(&self) -> usize;

    /// Writes all bytes.
    ///
    /// # Errors
    /// Any error of the implementation; the packet is not sent then.
    fn write(&mut self, writer: &mut PacketWriter<'_>) -> Result<()>;

    /// Appends all bytes to a packet that lies in its entry; returns false if they do not fit, or must not be copied there.
    fn push_to(&mut self, _packet: &mut InlineBytes) -> bool {
        false
    }

    /// Whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// User data that are not contiguous: writes any part of them into a NIC's buffer when asked (the counterpart of
/// [`Sink`](crate::handler::Sink)).
pub trait Gatherer: fmt::Debug + Send {
    /// Number of bytes.
    fn len(&self) -> u64;

    /// Writes the `len` bytes from `offset` on. Offsets rise, and each byte is asked for once. If the call panics, the message ends with
    /// [`Error::HandlerPanicked`](crate::error::Error::HandlerPanicked), and the packet under way is not sent.
    fn gather(&mut self, offset: u64, len: usize, writer: &mut PacketWriter<'_>);

    /// Whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Message data that are not contiguous, in the form that the engine keeps.
pub trait Parts: fmt::Debug + Send {
    /// Number of bytes.
    fn size(&self) -> u64;

    /// Writes the `len` bytes from `offset` on. Offsets rise, and each byte is asked for once.
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
    /// The data of `gatherer`, for a message that `own` sends. The gatherer runs through `user`, except when it is asked here for its
    /// length.
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

/// A part of message data, as the body of a packet. Bytes that a gatherer leaves out become zeros: the NIC's buffer may hold data of
/// another task.
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

/// All of the data, as a body.
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
