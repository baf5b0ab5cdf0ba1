//! Receiving messages in line: the receiver looks at a message in the ring, and consumes it without the engine's queues.

use super::Engine;
use super::packet::{self, Kind, MessageHead};
use crate::buffer::{Arrived, INLINE_BYTES_MAX, InlineBytes};
use crate::fabric::{FRONT_WORDS, Fabric, InLine, NextPacket, PeerIndex};
use crate::handler::HandlerId;
use crate::user_code::UserCode;

/// Maximum number of messages received in line before a round of progress, which may handle messages of other peers: about as many as one
/// peer has credits for.
const TAKEN_MAX: u32 = 64;

/// The messages of one peer, received in line. Messages of one source do not overtake each other.
#[derive(Debug)]
pub struct MessagesInLine<'a, P> {
    packets: P,
    taken: &'a mut u32,
}

impl<U: UserCode> Engine<U> {
    /// Borrows the messages of one peer, to receive them in line; `taken` is the number of messages received in line since the last round
    /// of progress, which sets it to 0. `None`: the caller has to make progress first, or the fabric does not support it.
    #[inline(always)]
    pub fn in_line<'a, F: Fabric>(
        &self,
        fabric: &'a mut F,
        source: PeerIndex,
        taken: &'a mut u32,
    ) -> Option<MessagesInLine<'a, impl InLine + use<'a, F, U>>> {
        // Pending work, a failure, and a purge that drops messages need progress first.
        if self.busy || self.attention {
            return None;
        }
        Some(MessagesInLine { packets: fabric.in_line(source)?, taken })
    }
}

impl<P: InLine> MessagesInLine<'_, P> {
    /// Waits briefly for the next message, and looks at it in the ring, if it is a one-way message for `handler`. [`take`](Self::take)
    /// consumes it. If the caller does not consume the message, the next round of progress gives it to its header handler. `None`: nothing
    /// arrived in time, another message arrived, or the caller has to make progress first.
    #[inline(always)]
    pub fn look(&mut self, handler: HandlerId) -> Option<NextPacket<'_>> {
        if *self.taken >= TAKEN_MAX {
            self.packets.end_turn();
            return None;
        }
        self.packets.look(packet::label(Kind::Message, handler))
    }

    /// Consumes the message that the last [`look`](Self::look) returned, and returns its credit to the sender.
    #[inline(always)]
    pub fn take(&mut self) {
        *self.taken += 1;
        self.packets.take();
    }
}

impl<'a> NextPacket<'a> {
    /// Number of bytes of the message's user header, if the message names no counter.
    #[inline(always)]
    #[must_use]
    pub fn uhdr_len(&self) -> Option<usize> {
        u16::try_from(self.front[0]).ok().map(usize::from)
    }

    /// The user header and the data of the message, if the message names no counter and has a user header of `uhdr_len` bytes. `None`
    /// also for a user header that is not wholly in the packet's front, and for data that lie partly in the entry and partly in the NIC's
    /// buffer.
    #[inline(always)]
    #[must_use]
    pub fn parts(&self, uhdr_len: usize) -> Option<(InlineBytes, Arrived<'a>)> {
        const UHDR_BYTES_MAX: usize = 8 * FRONT_WORDS - MessageHead::BYTES_MIN;
        let [head, front @ ..] = self.front;
        // The head of a message without counters is the length of its user header.
        if head != uhdr_len as u64 || uhdr_len > UHDR_BYTES_MAX {
            return None;
        }
        let begin = MessageHead::BYTES_MIN + uhdr_len;
        // A claim below `begin` becomes a large number.
        let in_entry = self.in_entry.wrapping_sub(begin as u64);
        let data = match self.buffered {
            None if in_entry <= (INLINE_BYTES_MAX - begin) as u64 => {
                self.entry.skip(begin).take(in_entry as usize)
            }
            Some(buffered) if in_entry == 0 => buffered,
            _ => return None,
        };
        let mut words = [0; INLINE_BYTES_MAX / 8];
        words[..front.len()].copy_from_slice(&front);
        Some((InlineBytes::from_words(words, uhdr_len), data))
    }
}
