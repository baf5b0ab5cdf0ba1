//! What an origin posts: a message, the bytes before its data, and pieces of data that are posted together.

use super::FRONT_BYTES_MAX;
use super::packet::{self, Announcement, Kind, MessageHead};
use crate::buffer::{INLINE_BYTES_MAX, InlineBytes, RawBytes};
use crate::error::{Error, Outcome, Result};
use crate::fabric::{Fabric, Peer};
use crate::handler::HandlerId;
use crate::task::Endpoint;
use crate::transfer::{Body, Class, Posted};
use smallvec::SmallVec;

/// A message to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// The context that receives the message.
    pub target: Endpoint,
    /// The header handler to run there.
    pub handler: HandlerId,
    /// The user header.
    pub uhdr: &'a [u8],
    /// The counter of the target that the message bumps there, as on the wire; 0: none.
    pub target_counter: u32,
    /// The counter of this task that the target's answer bumps, as on the wire; 0: none.
    pub completion_counter: u32,
    /// Whether the message's completion may answer: then a slot for the answer is reserved.
    pub answerable: bool,
    /// Whether the message is announced even if it is short.
    pub announce: bool,
}

impl Outgoing<'_> {
    /// A request if the message's completion may answer, or if the target has to acknowledge the message.
    #[inline(always)]
    pub(crate) fn class(&self) -> Class {
        if self.answerable || self.completion_counter != 0 { Class::Request } else { Class::OneWay }
    }

    /// Whether the message fits into one completion entry with data of this length.
    #[inline(always)]
    #[must_use]
    pub fn is_inline(&self, len: usize) -> bool {
        self.head().len() + self.uhdr.len() + len <= INLINE_BYTES_MAX
    }

    #[inline(always)]
    pub(crate) fn head(&self) -> MessageHead {
        MessageHead {
            uhdr_len: self.uhdr.len() as u16,
            target_counter: self.target_counter,
            completion_counter: self.completion_counter,
        }
    }
}

/// The bytes before the user data of a packet, on the stack. Filled in place: zeroing and moving all of it would cost more than sending a
/// short message.
#[derive(Default)]
pub(crate) struct FrontBytes(SmallVec<[u8; FRONT_BYTES_MAX]>);

impl FrontBytes {
    /// Fills in the head, the announcement, if any, and the user header.
    ///
    /// # Errors
    /// `UserHeaderTooLong`.
    pub(crate) fn fill(
        &mut self,
        head: MessageHead,
        announcement: Option<Announcement>,
        uhdr: &[u8],
        uhdr_max: usize,
    ) -> Result<()> {
        if uhdr.len() > uhdr_max {
            return Err(Error::UserHeaderTooLong { len: uhdr.len(), max: uhdr_max });
        }
        let mut fixed = InlineBytes::new();
        let fitted = match announcement {
            None => head.push_to(&mut fixed),
            Some(announcement) => head.push_short_to(&mut fixed) && fixed.push(&announcement.to_bytes()),
        };
        debug_assert!(fitted, "a head and an announcement fit into an empty packet");
        self.0.extend_from_slice(fixed.as_slice());
        self.0.extend_from_slice(uhdr);
        Ok(())
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

/// State of an operation when the call that began it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Issued {
    /// Done: the program may reuse the local memory, and no report follows.
    Done,
    /// Under way, with this number.
    Ongoing(u32),
}

impl Issued {
    /// The outcome for a caller that needs to know whether it may reuse the memory.
    pub fn outcome(self) -> Outcome {
        match self {
            Self::Done => Outcome::Done,
            Self::Ongoing(_) => Outcome::Posted,
        }
    }
}

/// Posts all pieces of `bytes`, or none: [`Posted::Retry`].
pub(super) fn post_raw_pieces<F: Fabric>(
    fabric: &mut F,
    to: (Peer, HandlerId),
    front: InlineBytes,
    bytes: RawBytes,
    piece_bytes: u32,
) -> Result<Posted> {
    let (len, piece) = (bytes.len(), piece_bytes as usize);
    let parts =
        (0..len).step_by(piece).map(|at| bytes.part(at, piece.min(len - at)).unwrap_or(RawBytes::EMPTY));
    post_pieces(fabric, to, front, len, piece, parts)
}

/// Posts the pieces, or none of them: [`Posted::Retry`]. The first piece has this front, and the others have no user header.
pub(super) fn post_pieces<F: Fabric>(
    fabric: &mut F,
    (target, handler): (Peer, HandlerId),
    front: InlineBytes,
    len: usize,
    piece_bytes: usize,
    pieces: impl Iterator<Item = impl Body>,
) -> Result<Posted> {
    let label = packet::label(Kind::Message, handler);
    let number = u32::try_from(len.div_ceil(piece_bytes)).unwrap_or(u32::MAX);
    if !fabric.takes_pieces(target.index, len, number)? {
        return Ok(Posted::Retry);
    }
    let mut no_header = InlineBytes::new();
    let head = MessageHead { uhdr_len: 0, target_counter: 0, completion_counter: 0 };
    let fitted = head.push_to(&mut no_header);
    debug_assert!(fitted, "a head fits into an empty packet");
    let mut front = &front;
    for mut piece in pieces {
        let posted = fabric.post_packet(target.index, Class::OneWay, label, front, &mut piece)?;
        debug_assert_eq!(posted, Posted::Done, "the fabric has promised to take all pieces");
        front = &no_header;
    }
    Ok(Posted::Done)
}
