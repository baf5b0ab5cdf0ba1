//! Bytes that are sent as several messages, which are posted together: no other message to the same target comes between them.

use super::Engine;
use super::outstanding::{Data, End, Op, State};
use super::packet::{self, Kind, MessageHead};
use super::pending::Queued;
use super::send::{Issued, Outgoing};
use crate::buffer::{INLINE_BYTES_MAX, InlineBytes, RawBytes};
use crate::error::{Error, Outcome, Result};
use crate::fabric::{Fabric, Peer};
use crate::handler::HandlerId;
use crate::transfer::{Body, Class};
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
    ) -> Result<Outcome> {
        if !self.pending.is_clear() {
            return Ok(Outcome::Retry);
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
            && post_raw_pieces(fabric, to, front, bytes, piece_bytes)? == Outcome::Done
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

/// Posts all pieces of `bytes`, or none: [`Outcome::Retry`].
pub(super) fn post_raw_pieces<F: Fabric>(
    fabric: &mut F,
    to: (Peer, HandlerId),
    front: InlineBytes,
    bytes: RawBytes,
    piece_bytes: u32,
) -> Result<Outcome> {
    let (len, piece) = (bytes.len(), piece_bytes as usize);
    let parts =
        (0..len).step_by(piece).map(|at| bytes.part(at, piece.min(len - at)).unwrap_or(RawBytes::EMPTY));
    post_pieces(fabric, to, front, len, piece, parts)
}

/// Posts the pieces, or none of them: [`Outcome::Retry`]. The first piece has this front, and the others have no user header.
fn post_pieces<F: Fabric>(
    fabric: &mut F,
    (target, handler): (Peer, HandlerId),
    front: InlineBytes,
    len: usize,
    piece_bytes: usize,
    pieces: impl Iterator<Item = impl Body>,
) -> Result<Outcome> {
    let label = packet::label(Kind::Message, handler);
    let number = u32::try_from(len.div_ceil(piece_bytes)).unwrap_or(u32::MAX);
    if !fabric.takes_pieces(target.index, len, number)? {
        return Ok(Outcome::Retry);
    }
    let mut no_header = InlineBytes::new();
    let head = MessageHead { uhdr_len: 0, target_counter: 0, completion_counter: 0 };
    let fitted = head.push_to(&mut no_header);
    debug_assert!(fitted, "a head fits into an empty packet");
    let mut front = &front;
    for mut piece in pieces {
        let posted = fabric.post_packet(target.index, Class::OneWay, label, front, &mut piece)?;
        debug_assert_eq!(posted, Outcome::Done, "the fabric has promised to take all pieces");
        front = &no_header;
    }
    Ok(Outcome::Done)
}
