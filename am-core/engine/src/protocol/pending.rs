//! Packets without a credit: a first-in first-out queue for each target, emptied as credits return.
//!
//! Later packets to a target with a queue, except answers, are appended to the queue, so that messages keep their order. A queue holds
//! packets that calls of the program or unanswered requests of the peer caused, and a bounded number that handlers added.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use smallvec::SmallVec;

use super::outgoing::post_raw_pieces;
use super::outstanding::{Data, State};
use super::packet::{self, Kind, SECOND};
use super::per_peer::Tally;
use super::statistics::Statistics;
use super::{Engine, malformed};
use crate::buffer::{INLINE_BYTES_MAX, InlineBytes, RawBytes};
use crate::error::Result;
use crate::fabric::{Fabric, Peer};
use crate::handler::HandlerSet;
use crate::transfer::{Class, Posted};
use crate::user_code::UserCode;

/// A packet that waits for a credit, or a message whose pieces wait for credits.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) class: Class,
    pub(crate) label: u16,
    /// The bytes before the data.
    pub(crate) front: SmallVec<[u8; INLINE_BYTES_MAX]>,
    /// The operation whose data follow the front, and which ends when they are sent; 0: none.
    pub(crate) op: u32,
    /// Length of the pieces in which the data are sent; 0: the data are sent as one packet.
    pub(crate) piece_bytes: u32,
}

/// The queues of one context.
#[derive(Debug, Default)]
pub struct Pending {
    /// Indexed by the peer's number.
    queues: Vec<VecDeque<Queued>>,
    /// Number of queued answers for each peer.
    answers: Tally,
    /// The peers whose queues are not empty, in round-robin order.
    turns: VecDeque<Peer>,
    /// Number of peers for which new operations are refused.
    blocked: usize,
    /// Whether a packet may have to wait: a queue is not empty, or operations with a peer are refused.
    shut: bool,
}

impl Pending {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Whether a packet can be posted without further checks.
    #[inline(always)]
    pub(crate) fn is_clear(&self) -> bool {
        !self.shut
    }

    /// Counts one more peer with which operations are refused.
    pub(crate) fn block(&mut self) {
        self.blocked += 1;
        self.shut = true;
    }

    /// Counts one fewer peer with which operations are refused.
    pub(crate) fn unblock(&mut self) {
        self.blocked -= 1;
        self.look_again();
    }

    fn look_again(&mut self) {
        self.shut = self.blocked > 0 || !self.turns.is_empty();
    }

    /// Whether packets wait for credits of `target`.
    #[inline]
    pub fn has(&self, target: Peer) -> bool {
        !self.is_empty() && self.queues.get(at(target)).is_some_and(|queue| !queue.is_empty())
    }

    /// Number of answers that wait for credits of `target`.
    fn answers_to(&self, target: Peer) -> usize {
        self.answers.of(target)
    }

    fn push(&mut self, target: Peer, packet: Queued) {
        if packet.class == Class::Answer {
            self.answers.add(target);
        }
        if at(target) >= self.queues.len() {
            self.queues.resize_with(at(target) + 1, VecDeque::new);
        }
        let queue = &mut self.queues[at(target)];
        if queue.is_empty() {
            self.turns.push_back(target);
        }
        queue.push_back(packet);
        self.shut = true;
    }

    /// Removes the queued packet of one operation.
    pub(crate) fn forget(&mut self, target: Peer, op: u32) {
        self.keep_where(target, |packet| packet.op != op);
    }

    /// Removes the packets queued for `target`, except the packet of an earlier purge, whose answer this task waits for.
    pub(crate) fn drop_for_purge(&mut self, target: Peer) {
        self.keep_where(target, |packet| packet.label == packet::label(Kind::Withdraw, SECOND));
    }

    /// Removes the packets to the targets for which `is_meant` holds.
    pub(crate) fn drop_where(&mut self, is_meant: impl Fn(Peer) -> bool) {
        for target in self.turns.iter().copied().filter(|&target| is_meant(target)).collect::<Vec<_>>() {
            self.keep_where(target, |_| false);
        }
    }

    fn keep_where(&mut self, target: Peer, mut keep: impl FnMut(&Queued) -> bool) {
        let Some(queue) = self.queues.get_mut(at(target)) else { return };
        queue.retain(|packet| {
            let stays = keep(packet);
            if !stays && packet.class == Class::Answer {
                self.answers.subtract(target);
            }
            stays
        });
        if queue.is_empty() {
            self.turns.retain(|&other| other != target);
            self.look_again();
        }
    }
}

fn at(peer: Peer) -> usize {
    peer.index.0 as usize
}

/// Maximum number of packets sent in one call of `work`, to bound its time.
const PACKETS_A_CALL: usize = 64;

impl<U: UserCode> Engine<U> {
    /// Queues a packet for `target`.
    #[cold]
    #[inline(never)]
    pub(crate) fn queue(&mut self, target: Peer, packet: Queued) {
        Statistics::add(&mut self.statistics.retries, 1);
        self.pending.push(target, packet);
        self.busy = true;
    }

    /// Sends a packet of fixed format, now or when there is a credit.
    ///
    /// # Errors
    /// `PeerFailed`, `UnknownTask`.
    pub(crate) fn send_control<F: Fabric>(
        &mut self,
        fabric: &mut F,
        target: Peer,
        class: Class,
        label: u16,
        bytes: InlineBytes,
    ) -> Result<()> {
        self.send_front(fabric, target, class, label, bytes.as_slice())
    }

    /// Sends a packet without a body, now or when there is a credit.
    ///
    /// # Errors
    /// `PeerFailed`, `UnknownTask`.
    pub(crate) fn send_front<F: Fabric>(
        &mut self,
        fabric: &mut F,
        target: Peer,
        class: Class,
        label: u16,
        front: &[u8],
    ) -> Result<()> {
        // Among answers, only a reply carries data of the program. If a fence waited for the other answers, two tasks could fence each
        // other for ever.
        if class != Class::Answer || packet::is(label, Kind::Message) {
            self.touched.mark(target);
        }
        self.send_unmarked(fabric, target, class, label, front)
    }

    /// Like [`send_front`](Self::send_front), for a packet that fences of data do not wait for.
    ///
    /// # Errors
    /// `PeerFailed`, `UnknownTask`.
    pub(super) fn send_unmarked<F: Fabric>(
        &mut self,
        fabric: &mut F,
        target: Peer,
        class: Class,
        label: u16,
        front: &[u8],
    ) -> Result<()> {
        // An answer has a reserved credit, and may overtake other packets.
        let waits = class != Class::Answer && self.pending.has(target);
        if waits || no_data().post(fabric, target, class, label, front)? == Posted::Retry {
            if class == Class::Answer && self.pending.answers_to(target) >= self.limits.requests_max {
                return Err(malformed(target, "more requests than it has slots for answers"));
            }
            self.queue(target, Queued { class, label, front: front.into(), op: 0, piece_bytes: 0 });
        }
        Ok(())
    }

    /// Sends queued packets, until the queues are empty, no credits are left or [`PACKETS_A_CALL`] are sent. Returns whether a packet was
    /// sent.
    ///
    /// # Errors
    /// The error of a packet that could not be sent, or of its operation, if it is reported nowhere else.
    pub(crate) fn work_on_pending<F: Fabric, H: HandlerSet>(
        &mut self,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<bool> {
        let mut sent = 0;
        for _ in 0..self.pending.turns.len() {
            let Some(target) = self.pending.turns.pop_front() else { break };
            let mut queue = core::mem::take(&mut self.pending.queues[at(target)]);
            let mut outcome = Ok(());
            while let Some(packet) = queue.front().filter(|_| sent < PACKETS_A_CALL) {
                let is_answer = packet.class == Class::Answer;
                let posted = self.post_queued(fabric, target, packet);
                if is_answer && !matches!(posted, Ok(Posted::Retry)) {
                    self.pending.answers.subtract(target);
                }
                match posted {
                    Ok(Posted::Retry) => break,
                    Ok(_) => {
                        sent += 1;
                        if let Some(Queued { op, .. }) = queue.pop_front().filter(|packet| packet.op != 0) {
                            outcome = self.end_op(op, Ok(0), fabric, handlers);
                        }
                    }
                    Err(error) => {
                        let op = queue.pop_front().map_or(0, |packet| packet.op);
                        outcome =
                            if op == 0 { Err(error) } else { self.end_op(op, Err(error), fabric, handlers) };
                    }
                }
                if outcome.is_err() {
                    break;
                }
            }
            // The end of an operation may have queued more packets for this target, which go to the end of the queue.
            let more = core::mem::take(&mut self.pending.queues[at(target)]);
            if more.is_empty() && !queue.is_empty() {
                self.pending.turns.push_back(target);
            }
            queue.extend(more);
            self.pending.queues[at(target)] = queue;
            self.pending.look_again();
            outcome?;
        }
        Ok(sent > 0)
    }

    fn post_queued<F: Fabric>(&mut self, fabric: &mut F, target: Peer, packet: &Queued) -> Result<Posted> {
        let (class, label) = (packet.class, packet.label);
        match self.ops.get_mut(packet.op).map(|op| &mut op.state) {
            Some(&mut State::Queued(Data::Bytes(bytes))) if packet.piece_bytes > 0 => {
                let to = (target, packet::handler_of(label));
                let mut front = InlineBytes::new();
                let fitted = front.push(&packet.front);
                debug_assert!(fitted, "the front was made in an entry");
                post_raw_pieces(fabric, to, front, bytes, packet.piece_bytes)
            }
            Some(State::Queued(data)) => data.post(fabric, target, class, label, &packet.front),
            _ => no_data().post(fabric, target, class, label, &packet.front),
        }
    }
}

/// No data, for a packet without a body.
fn no_data() -> Data {
    Data::Bytes(RawBytes::EMPTY)
}
