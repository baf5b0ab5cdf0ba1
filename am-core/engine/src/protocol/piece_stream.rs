//! Sends data in pieces: those of an announced message, or of a get that the owner of the memory serves.

use alloc::collections::VecDeque;

use super::outstanding::{Data, State};
use super::packet::{self, FIRST, FOURTH, Kind, PIECE_HEAD_BYTES, SECOND, pack};
use super::statistics::Statistics;
use super::{Engine, granted};
use crate::buffer::{Access, Grant};
use crate::error::{Error, Refusal, Result};
use crate::fabric::{Fabric, Peer};
use crate::handler::HandlerSet;
use crate::transfer::{Class, Posted};
use crate::user_code::UserCode;

/// Maximum number of packets of one stream before the next stream has its turn.
const PACKETS_A_TURN: usize = 16;

/// Data that are sent in pieces.
#[derive(Debug)]
pub(crate) struct Stream {
    /// The peer that receives the data.
    pub(crate) to: Peer,
    /// The receiver's number of the message or get.
    pub(crate) number: u32,
    pub(crate) sent: u64,
    pub(crate) len: u64,
    pub(crate) from: From,
}

/// The source of pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) enum From {
    /// The data of an operation: an announced message, or a put.
    Operation(u32),
    /// A part of this task's exposed memory, for a peer's get; and the counter to bump at the end.
    Exposed { grant: Grant, offset: u64, counter: u32 },
}

enum Turn {
    Finished,
    More,
    NoCredit,
}

impl<U: UserCode> Engine<U> {
    pub(crate) fn start_stream(&mut self, stream: Stream) {
        self.streams.push_back(stream);
        self.busy = true;
    }

    /// Gives each stream a turn; returns whether a stream used its whole turn or ended.
    ///
    /// # Errors
    /// The error of a stream that cannot continue.
    pub(crate) fn work_on_streams<F: Fabric, H: HandlerSet>(
        &mut self,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<bool> {
        let mut moved = false;
        for _ in 0..self.streams.len() {
            let Some(mut stream) = self.streams.pop_front() else { break };
            let turn = self.post_pieces(fabric, &mut stream, handlers);
            moved |= matches!(turn, Ok(Turn::Finished | Turn::More));
            match turn {
                Ok(Turn::More | Turn::NoCredit) => self.streams.push_back(stream),
                _ => self.no_longer_asks(&stream),
            }
            turn?;
        }
        Ok(moved)
    }

    /// Posts the next pieces of a stream.
    fn post_pieces<F: Fabric, H: HandlerSet>(
        &mut self,
        fabric: &mut F,
        stream: &mut Stream,
        handlers: &mut H,
    ) -> Result<Turn> {
        // Whole words, so that no operand of an accumulation is cut.
        let piece_bytes = (self.limits.packet_bytes_max - PIECE_HEAD_BYTES) as u64 & !7;
        for _ in 0..PACKETS_A_TURN {
            let (to, sent, left) = (stream.to, stream.sent, stream.len - stream.sent);
            if left == 0 {
                self.end_stream(fabric, stream)?;
                return Ok(Turn::Finished);
            }
            let len = left.min(piece_bytes);
            let mut head = [0; PIECE_HEAD_BYTES];
            head[..4].copy_from_slice(&stream.number.to_le_bytes());
            head[4..].copy_from_slice(&sent.to_le_bytes());
            let outcome = match stream.from {
                From::Operation(op) => {
                    let state = self.ops.get_mut(op).map(|op| &mut op.state);
                    let Some(State::Announced { data, in_pieces: true, .. }) = state else {
                        return Ok(Turn::Finished);
                    };
                    // The last piece is a request: the target answers that the message is whole.
                    let class = if len == left { Class::Request } else { Class::OneWay };
                    let label = packet::label(Kind::Piece, FIRST);
                    match data.post_part(fabric, to, class, label, &head, (sent, len as usize)) {
                        Err(error) if error.is_panic() => {
                            self.break_off(fabric, stream, op, error, handlers)?;
                            return Ok(Turn::Finished);
                        }
                        posted => posted?,
                    }
                }
                From::Exposed { grant, offset, .. } => {
                    // Each piece is checked, because the region may be unexposed between two pieces.
                    let part = match granted(fabric, grant, offset.wrapping_add(sent), len, Access::READ) {
                        Ok(part) => part,
                        Err(error) => {
                            self.refuse(fabric, to, Class::Answer, stream.number, Refusal::of(&error))?;
                            return Err(error);
                        }
                    };
                    let label = packet::label(Kind::Piece, SECOND);
                    Data::Bytes(part.as_bytes()).post(fabric, to, Class::OneWay, label, &head)?
                }
            };
            if outcome == Posted::Retry {
                Statistics::add(&mut self.statistics.retries, 1);
                return Ok(Turn::NoCredit);
            }
            stream.sent += len;
            Statistics::add(&mut self.statistics.pieces_sent, 1);
        }
        Ok(Turn::More)
    }

    /// Ends the operation of a message whose gatherer panicked, and tells the target to expect no more pieces.
    #[cold]
    fn break_off<F: Fabric, H: HandlerSet>(
        &mut self,
        fabric: &mut F,
        stream: &Stream,
        op: u32,
        error: Error,
        handlers: &mut H,
    ) -> Result<()> {
        let label = packet::label(Kind::Withdraw, FOURTH);
        let told =
            self.send_control(fabric, stream.to, Class::OneWay, label, pack([&stream.number.to_le_bytes()]));
        self.end_op(op, Err(error), fabric, handlers).and(told)
    }

    /// Ends a stream whose pieces were all sent. The target answers a message's last piece; a get ends with an answer from here.
    fn end_stream<F: Fabric>(&mut self, fabric: &mut F, stream: &Stream) -> Result<()> {
        let From::Exposed { counter, .. } = stream.from else { return Ok(()) };
        let done = pack([&stream.number.to_le_bytes(), &stream.len.to_le_bytes()]);
        self.send_control(fabric, stream.to, Class::Answer, packet::label(Kind::Told, FIRST), done)?;
        self.bump_claimed(counter)
    }

    /// Drops the streams to the endpoints for which `is_meant` holds.
    pub(crate) fn drop_streams(&mut self, is_meant: impl Fn(Peer) -> bool) {
        let mut streams = core::mem::take(&mut self.streams);
        streams.retain(|stream| {
            let is_dropped = is_meant(stream.to);
            if is_dropped {
                self.no_longer_asks(stream);
            }
            !is_dropped
        });
        self.streams = streams;
    }

    /// If the stream serves a get, notes that the get no longer waits for an answer.
    fn no_longer_asks(&mut self, stream: &Stream) {
        if let From::Exposed { .. } = stream.from {
            self.asked_by.subtract(stream.to);
        }
    }
}

/// The streams of one context, in the order of their turns.
pub(crate) type Streams = VecDeque<Stream>;
