//! Answers of a target to the origin of an operation, with the pieces of a get: handled at the origin. Refusals are also made here.

use super::outstanding::State;
use super::packet::{self, FIRST, Kind, pack};
use super::piece_stream::{From, Stream};
use super::statistics::Statistics;
use super::{Engine, FollowUp, Packet, malformed};
use crate::buffer::InlineBytes;
use crate::counter::CounterName;
use crate::error::{Error, Refusal, Result};
use crate::fabric::{Fabric, Peer};
use crate::transfer::Class;
use crate::user_code::UserCode;
use alloc::boxed::Box;

impl<U: UserCode> Engine<U> {
    /// Bumps the counters of this task that an acknowledgement names.
    pub(crate) fn handle_acks(&mut self, packet: Packet<'_>) -> Result<()> {
        let mut fields = packet.fields()?;
        let Some(first) = fields.u32() else {
            return Err(malformed(packet.from, "an acknowledgement without its counter"));
        };
        let second = fields.u32().unwrap_or(0);
        self.counters.note_received(CounterName::from_wire(first), packet.from.endpoint.task);
        let bumped = self.bump_claimed(first);
        self.bump_claimed(second)?;
        bumped
    }

    /// Ends the operation of an announced message: its target has the data, or wants none. Bumps the counters that the answer names.
    pub(crate) fn handle_fetched(&mut self, packet: Packet<'_>) -> Result<()> {
        let mut fields = packet.fields()?;
        let (Some(op), Some(first), Some(second)) = (fields.u32(), fields.u32(), fields.u32()) else {
            return Err(malformed(packet.from, "an answer shorter than its fields"));
        };
        match self.ops.with_peer(op, packet.from).map(|op| &op.state) {
            Some(State::Announced { .. }) => {}
            _ => return Err(malformed(packet.from, "an answer to a message that was not announced")),
        }
        self.counters.note_received(CounterName::from_wire(first), packet.from.endpoint.task);
        let bumped = self.bump_claimed(first).and(self.bump_claimed(second));
        self.later(match bumped {
            Ok(()) => FollowUp::EndOp { op, result: Ok(0) },
            // The message is complete even if a counter was wrong.
            Err(error) => FollowUp::EndOpWith { op, met: Box::new(error) },
        });
        Ok(())
    }

    /// Starts to send the data of an announced message in pieces, as the target has asked.
    pub(crate) fn handle_accepted(&mut self, packet: Packet<'_>) -> Result<()> {
        let mut fields = packet.fields()?;
        let (Some(op), Some(incoming), Some(len)) = (fields.u32(), fields.u32(), fields.u64()) else {
            return Err(malformed(packet.from, "an acceptance shorter than its fields"));
        };
        let Some(State::Announced { data, in_pieces: in_pieces @ false, .. }) =
            self.ops.with_peer(op, packet.from).map(|op| &mut op.state)
        else {
            return Err(malformed(packet.from, "an acceptance of a message that was not announced"));
        };
        if len == 0 || len > data.len() {
            return Err(malformed(packet.from, "an acceptance of 0 bytes, or of more than were announced"));
        }
        *in_pieces = true;
        self.start_stream(Stream {
            to: packet.from,
            number: incoming,
            sent: 0,
            len,
            from: From::Operation(op),
        });
        Ok(())
    }

    /// Ends a get or rmw that the owner has carried out.
    pub(crate) fn handle_told(&mut self, packet: Packet<'_>) -> Result<()> {
        let mut fields = packet.fields()?;
        let (Some(op), Some(value)) = (fields.u32(), fields.u64()) else {
            return Err(malformed(packet.from, "an answer shorter than its fields"));
        };
        match self.ops.with_peer(op, packet.from).map(|op| &mut op.state) {
            Some(State::Atomic { posted: false, .. }) => {
                self.later(FollowUp::EndOp { op, result: Ok(value) });
                Ok(())
            }
            Some(State::Asked { to, received }) => {
                let is_whole = received.covered() == to.len() as u64;
                let early = || malformed(packet.from, "the end of a get before its last byte");
                // No more pieces will come in either case.
                let result = if is_whole { Ok(value) } else { Err(early()) };
                self.later(FollowUp::EndOp { op, result });
                Ok(())
            }
            _ => Err(malformed(packet.from, "an answer that this task did not ask for")),
        }
    }

    /// Stores a piece of a get.
    pub(crate) fn handle_get_piece(&mut self, packet: Packet<'_>) -> Result<()> {
        let Some((op, offset, bytes)) = super::announce::piece_of(packet) else {
            return Err(malformed(packet.from, "a piece shorter than its head"));
        };
        Statistics::add(&mut self.statistics.pieces_received, 1);
        let Some(State::Asked { to, received }) = self.ops.with_peer(op, packet.from).map(|op| &mut op.state)
        else {
            return Err(malformed(packet.from, "a piece that this task did not ask for"));
        };
        let part = usize::try_from(offset).ok().and_then(|offset| to.part(offset, bytes.len()));
        match part.filter(|_| received.insert(offset, bytes.len() as u64)) {
            Some(part) => {
                bytes.copy_to_buffer(part);
                Ok(())
            }
            None => Err(malformed(packet.from, "a piece outside its get, or one that arrived twice")),
        }
    }

    /// Ends the operation that its target has refused. If this task has no such operation, returns the refusal as an error.
    pub(crate) fn handle_refused(&mut self, packet: Packet<'_>) -> Result<()> {
        let mut fields = packet.fields()?;
        let (Some(op), Some(reason)) = (fields.u32(), fields.u32()) else {
            return Err(malformed(packet.from, "a refusal shorter than its fields"));
        };
        let (Some(first), Some(second)) = (fields.u64(), fields.u64()) else {
            return Err(malformed(packet.from, "a refusal shorter than its fields"));
        };
        Statistics::add(&mut self.statistics.refused_by_peers, 1);
        let error = match Refusal::from_wire(reason, first, second) {
            // The same error as if this task had noticed the misalignment.
            Refusal::Misaligned { offset, size } => Error::Misaligned { offset, size },
            why => Error::Refused { target: packet.from.endpoint, why },
        };
        match self.ops.with_peer(op, packet.from) {
            Some(record) if !record.is_posted() => {
                self.later(FollowUp::EndOp { op, result: Err(error) });
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Tells the origin of a packet that the packet was refused.
    ///
    /// # Errors
    /// `PeerFailed`: the origin is dead.
    pub(crate) fn refuse<F: Fabric>(
        &mut self,
        fabric: &mut F,
        origin: Peer,
        class: Class,
        op: u32,
        why: Refusal,
    ) -> Result<()> {
        self.send_control(fabric, origin, class, packet::label(Kind::Refused, FIRST), refusal(op, why))
    }

    /// Notes that a packet failed here with `error`. [`carry_out_cold`](Self::carry_out_cold) then tells the origin of a request, and
    /// returns the error to the caller.
    #[cold]
    #[inline(never)]
    pub(crate) fn refuse_later(&mut self, origin: Peer, class: Class, op: u32, error: Error) {
        Statistics::add(&mut self.statistics.packets_refused, 1);
        let answered = class == Class::Request;
        self.later(FollowUp::Refuse { origin, answered, op, error: Box::new(error) });
    }
}

/// The bytes of a refusal.
pub(super) fn refusal(op: u32, why: Refusal) -> InlineBytes {
    let (reason, first, second) = why.to_wire();
    pack([&op.to_le_bytes(), &reason.to_le_bytes(), &first.to_le_bytes(), &second.to_le_bytes()])
}
