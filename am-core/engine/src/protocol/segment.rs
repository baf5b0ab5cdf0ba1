//! Cutting data into packets: the pieces of an announced message, or of a get that its owner serves.

use alloc::collections::VecDeque;

use super::outstanding::{Data, State};
use super::packet::{self, FIRST, Kind, PIECE_HEAD_BYTES, SECOND, pack};
use super::statistics::Statistics;
use super::{Engine, granted};
use crate::buffer::{Access, Grant};
use crate::error::{Outcome, Refusal, Result};
use crate::fabric::{Fabric, Peer};
use crate::transfer::Class;
use crate::user_code::UserCode;

/// Packets of one stream in one call, at most, before the next stream has its turn.
const PACKETS_A_TURN: usize = 16;

/// Data that are being sent as pieces.
#[derive(Debug)]
pub(crate) enum Stream {
    /// The data of an announced message: the operation.
    Message(u32),
    /// A part of this task's exposed memory, to a peer's get.
    Serve(Serve),
}

/// A get that this task serves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Serve {
    pub(crate) origin: Peer,
    pub(crate) op: u32,
    pub(crate) grant: Grant,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) sent: u64,
    pub(crate) counter: u32,
}

enum Turn {
    Finished,
    More,
    NoRoom,
}

impl<U: UserCode> Engine<U> {
    pub(crate) fn start_stream(&mut self, stream: Stream) {
        self.streams.push_back(stream);
        self.busy = true;
    }

    /// Gives each stream a turn; whether anything went.
    ///
    /// # Errors
    /// A stream that can't go on.
    pub(crate) fn work_on_streams<F: Fabric>(&mut self, fabric: &mut F) -> Result<bool> {
        let mut moved = false;
        for _ in 0..self.streams.len() {
            let Some(mut stream) = self.streams.pop_front() else { break };
            let turn = match &mut stream {
                Stream::Message(op) => self.send_pieces(fabric, *op),
                Stream::Serve(serve) => self.serve_pieces(fabric, serve),
            };
            moved |= matches!(turn, Ok(Turn::Finished | Turn::More));
            if let Ok(Turn::More | Turn::NoRoom) = turn {
                self.streams.push_back(stream);
            }
            turn?;
        }
        Ok(moved)
    }

    fn piece_bytes(&self) -> u64 {
        // Whole words, so that no operand of an accumulation is cut.
        (self.limits.packet_bytes_max - PIECE_HEAD_BYTES) as u64 & !7
    }

    /// The last piece is a request: the target has to answer that the message is whole.
    fn send_pieces<F: Fabric>(&mut self, fabric: &mut F, op: u32) -> Result<Turn> {
        let piece_bytes = self.piece_bytes();
        for _ in 0..PACKETS_A_TURN {
            let Some(record) = self.ops.get_mut(op) else { return Ok(Turn::Finished) };
            let target = record.peer;
            let State::Announced { data, pieces: Some(pieces), .. } = &mut record.state else {
                return Ok(Turn::Finished);
            };
            let left = pieces.len - pieces.sent;
            if left == 0 {
                return Ok(Turn::Finished);
            }
            let len = left.min(piece_bytes);
            let class = if len == left { Class::Request } else { Class::OneWay };
            let mut head = [0; PIECE_HEAD_BYTES];
            head[..4].copy_from_slice(&pieces.incoming.to_le_bytes());
            head[4..].copy_from_slice(&pieces.sent.to_le_bytes());
            let label = packet::label(Kind::Piece, FIRST);
            let part = (pieces.sent, len as usize);
            let outcome = data.post_part(fabric, target, class, label, &head, part)?;
            if outcome == Outcome::Retry {
                Statistics::add(&mut self.statistics.retries, 1);
                return Ok(Turn::NoRoom);
            }
            pieces.sent += len;
            Statistics::add(&mut self.statistics.pieces_sent, 1);
        }
        Ok(Turn::More)
    }

    /// Each piece is checked anew: the region may have been taken back meanwhile.
    fn serve_pieces<F: Fabric>(&mut self, fabric: &mut F, serve: &mut Serve) -> Result<Turn> {
        let piece_bytes = self.piece_bytes();
        for _ in 0..PACKETS_A_TURN {
            let len = (serve.len - serve.sent).min(piece_bytes);
            if len == 0 {
                let done = pack([&serve.op.to_le_bytes(), &serve.len.to_le_bytes()]);
                let label = packet::label(Kind::Told, FIRST);
                self.send_control(fabric, serve.origin, Class::Answer, label, done)?;
                self.bump_claimed(serve.counter)?;
                return Ok(Turn::Finished);
            }
            let at = serve.offset.wrapping_add(serve.sent);
            let part = match granted(fabric, serve.grant, at, len, Access::READ) {
                Ok(part) => part,
                Err(error) => {
                    self.refuse(fabric, serve.origin, Class::Answer, serve.op, Refusal::of(&error))?;
                    return Err(error);
                }
            };
            let mut head = [0; PIECE_HEAD_BYTES];
            head[..4].copy_from_slice(&serve.op.to_le_bytes());
            head[4..].copy_from_slice(&serve.sent.to_le_bytes());
            let label = packet::label(Kind::Piece, SECOND);
            let mut data = Data::Bytes(part.as_bytes());
            if data.post(fabric, serve.origin, Class::OneWay, label, &head)? == Outcome::Retry {
                Statistics::add(&mut self.statistics.retries, 1);
                return Ok(Turn::NoRoom);
            }
            serve.sent += len;
            Statistics::add(&mut self.statistics.pieces_sent, 1);
        }
        Ok(Turn::More)
    }

    /// Drops the streams to endpoints for which `is_meant` holds.
    pub(crate) fn drop_streams(&mut self, is_meant: impl Fn(Peer) -> bool) {
        let ops = &self.ops;
        self.streams.retain(|stream| match stream {
            Stream::Message(op) => ops.get(*op).is_some_and(|op| !is_meant(op.peer)),
            Stream::Serve(serve) => !is_meant(serve.origin),
        });
    }
}

/// The streams of one context, in the order of their turns.
pub(crate) type Streams = VecDeque<Stream>;
