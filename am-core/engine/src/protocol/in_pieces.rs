//! Bytes that are sent as several messages, which are posted together: no other message to the same target comes between them.

use super::Engine;
use super::outgoing::{Issued, Outgoing, post_pieces, post_raw_pieces};
use super::outstanding::{Data, End, Op, State};
use super::packet::{self, Kind, MessageHead};
use super::pending::Queued;
use crate::buffer::{INLINE_BYTES_MAX, InlineBytes, RawBytes};
use crate::error::{Error, Result};
use crate::fabric::Fabric;
use crate::transfer::{Class, Posted};
use crate::user_code::UserCode;

impl<U: UserCode> Engine<U> {
    /// Sends `bytes` in pieces if all pieces can be posted now, and reach the target sooner than by a read: see
    /// [`Post::takes_pieces`](crate::fabric::Post::takes_pieces). `Retry`: nothing was sent.
    ///
    /// # Errors
    /// Those of [`send`](Self::send).
    pub fn try_in_pieces<F: Fabric>(
        &mut self,
        fabric: &mut F,
        outgoing: &Outgoing<'_>,
        bytes: &[u8],
        piece_bytes: usize,
    ) -> Result<Posted> {
        if !self.pending.is_clear() {
            return Ok(Posted::Retry);
        }
        let target = fabric.peer(outgoing.target)?;
        self.touched.mark(target);
        let (to, front) = ((target, outgoing.handler), front_of(outgoing)?);
        post_pieces(fabric, to, front, bytes.len(), piece_bytes, bytes.chunks(piece_bytes))
    }

    /// Like [`try_in_pieces`](Self::try_in_pieces), but pieces that cannot be posted now wait until they can. The caller has found that
    /// they may wait: [`Post::pieces_may_wait`](crate::fabric::Post::pieces_may_wait).
    ///
    /// # Errors
    /// Those of [`send`](Self::send).
    pub fn send_in_pieces<F: Fabric>(
        &mut self,
        fabric: &mut F,
        outgoing: &Outgoing<'_>,
        bytes: RawBytes,
        piece_bytes: u32,
        end: End,
    ) -> Result<Issued> {
        let target = self.target(fabric, outgoing.target)?;
        self.touched.mark(target);
        let (to, front) = ((target, outgoing.handler), front_of(outgoing)?);
        if !self.pending.has(target)
            && post_raw_pieces(fabric, to, front, bytes, piece_bytes)? == Posted::Done
        {
            self.bump_own(end.origin);
            return Ok(Issued::Done);
        }
        let state = State::Queued(Data::Bytes(bytes));
        let op = self.ops.insert(Op { peer: target, len: bytes.len() as u64, end, state })?;
        let (class, label) = (Class::OneWay, packet::label(Kind::Message, outgoing.handler));
        self.queue(target, Queued { class, label, front: front.as_slice().into(), op, piece_bytes });
        Ok(Issued::Ongoing(op))
    }
}

/// The head and the user header of the first piece.
///
/// # Errors
/// `UserHeaderTooLong`: they do not fit into a completion entry.
fn front_of(outgoing: &Outgoing<'_>) -> Result<InlineBytes> {
    debug_assert!(
        outgoing.class() == Class::OneWay && outgoing.target_counter == 0,
        "pieces have no counters"
    );
    let mut front = InlineBytes::new();
    if outgoing.head().push_to(&mut front) && front.push(outgoing.uhdr) {
        return Ok(front);
    }
    Err(Error::UserHeaderTooLong { len: outgoing.uhdr.len(), max: INLINE_BYTES_MAX - MessageHead::BYTES_MIN })
}
