//! Packets that found no room: a first-in first-out queue for each target, emptied as room comes.
//!
//! What is sent to a target while its queue is not empty goes behind it, so that messages keep their order. A queue is as long
//! as what the program (or the peer's own unanswered requests) caused; handlers add nothing without bound.

use std::collections::{HashMap, VecDeque};

use super::outstanding::State;
use super::packet::{self, Kind, SECOND};
use super::statistics::Statistics;
use super::{Engine, Lower};
use crate::buffer::{InlineBytes, RawBytes};
use crate::error::{Outcome, Result};
use crate::handler::HandlerSet;
use crate::task::Endpoint;
use crate::transfer::{Class, Gathered};

use super::outstanding::Data;

/// A packet that waits for room.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) class: Class,
    pub(crate) label: u16,
    pub(crate) front: Front,
    /// The operation whose data follow the front, and which ends when they have gone; 0: none.
    pub(crate) op: u32,
}

/// The bytes before the data.
#[derive(Debug)]
pub(crate) enum Front {
    /// A packet that fits into an entry.
    Inline(InlineBytes),
    /// One that does not.
    Packet(Box<[u8]>),
}

/// The queues of one context. A target without waiting packets has none.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    queues: HashMap<Endpoint, VecDeque<Queued>>,
    /// The targets that have a queue, in the order in which they get their turn.
    turns: VecDeque<Endpoint>,
    /// Peers that new operations are refused with.
    blocked: usize,
    /// Whether a packet may go straight to the fabric: nothing waits, and nobody is refused.
    shut: bool,
}

impl Pending {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Whether a packet may go straight to the fabric, without another look.
    #[inline(always)]
    pub(crate) fn is_clear(&self) -> bool {
        !self.shut
    }

    /// Operations with one peer more are refused.
    pub(crate) fn block(&mut self) {
        self.blocked += 1;
        self.shut = true;
    }

    /// With one less.
    pub(crate) fn unblock(&mut self) {
        self.blocked -= 1;
        self.look_again();
    }

    fn look_again(&mut self) {
        self.shut = self.blocked > 0 || !self.turns.is_empty();
    }

    /// Whether packets wait for room at `target`.
    #[inline]
    pub(crate) fn has(&self, target: Endpoint) -> bool {
        !self.is_empty() && self.queues.contains_key(&target)
    }

    fn push(&mut self, target: Endpoint, packet: Queued) {
        let turns = &mut self.turns;
        let queue = self.queues.entry(target).or_insert_with(|| {
            turns.push_back(target);
            VecDeque::new()
        });
        queue.push_back(packet);
        self.shut = true;
    }

    /// Takes out the packet of one operation, which is never sent.
    pub(crate) fn forget(&mut self, target: Endpoint, op: u32) {
        if let Some(queue) = self.queues.get_mut(&target) {
            queue.retain(|packet| packet.op != op);
        }
    }

    /// Takes out all that waits for `target`, but the news of an earlier purge: the answer to that is waited for.
    pub(crate) fn drop_for_purge(&mut self, target: Endpoint) {
        let Some(queue) = self.queues.get_mut(&target) else { return };
        queue.retain(|packet| packet.label == packet::label(Kind::Withdraw, SECOND));
        if queue.is_empty() {
            self.queues.remove(&target);
            self.turns.retain(|&other| other != target);
            self.look_again();
        }
    }

    /// Takes out all that waits for `is_meant`, which is never sent.
    pub(crate) fn drop_where(&mut self, is_meant: impl Fn(Endpoint) -> bool) -> Vec<Queued> {
        let dropped: Vec<Endpoint> = self.turns.iter().copied().filter(|&target| is_meant(target)).collect();
        self.turns.retain(|&target| !is_meant(target));
        self.look_again();
        dropped.iter().filter_map(|target| self.queues.remove(target)).flatten().collect()
    }
}

/// Packets sent in one call of `work`, at most: the bound on the time that it takes.
const PACKETS_A_CALL: usize = 64;

impl Engine {
    /// Puts a packet behind those that wait for room at `target`.
    #[cold]
    #[inline(never)]
    pub(crate) fn queue(&mut self, target: Endpoint, packet: Queued) {
        Statistics::add(&mut self.statistics.retries, 1);
        self.pending.push(target, packet);
        self.busy = true;
    }

    /// Sends a packet of fixed format, now or when there is room.
    ///
    /// # Errors
    /// A dead or unknown target.
    pub(crate) fn send_control<L: Lower>(
        &mut self,
        lower: &mut L,
        target: Endpoint,
        class: Class,
        label: u16,
        bytes: InlineBytes,
    ) -> Result<()> {
        // An answer has its room reserved, and is ordered with nothing that waits.
        let waits = class != Class::Answer && self.pending.has(target);
        if waits || lower.post_inline(target, class, label, &bytes)? == Outcome::Retry {
            self.queue(target, Queued { class, label, front: Front::Inline(bytes), op: 0 });
        }
        self.touched.mark(target);
        Ok(())
    }

    /// Sends a packet without a body, now or when there is room.
    ///
    /// # Errors
    /// A dead or unknown target.
    pub(crate) fn send_front<L: Lower>(
        &mut self,
        lower: &mut L,
        target: Endpoint,
        class: Class,
        label: u16,
        front: &[u8],
    ) -> Result<()> {
        let mut inline = InlineBytes::new();
        if inline.push(front) {
            return self.send_control(lower, target, class, label, inline);
        }
        let mut nothing = RawBytes::EMPTY;
        self.touched.mark(target);
        if self.pending.has(target)
            || lower.post_packet(target, class, label, front, &mut nothing)? == Outcome::Retry
        {
            self.queue(target, Queued { class, label, front: Front::Packet(front.into()), op: 0 });
        }
        Ok(())
    }

    /// Sends what waits for room, as far as there is some; whether anything went.
    ///
    /// # Errors
    /// What the operations whose packets could not go end with.
    pub(crate) fn work_on_pending<L: Lower, H: HandlerSet>(
        &mut self,
        lower: &mut L,
        handlers: &mut H,
    ) -> Result<bool> {
        let mut sent = 0;
        for _ in 0..self.pending.turns.len() {
            let Some(target) = self.pending.turns.pop_front() else { break };
            let Some(mut queue) = self.pending.queues.remove(&target) else { continue };
            let mut outcome = Ok(());
            while let Some(packet) = queue.front().filter(|_| sent < PACKETS_A_CALL) {
                match self.post_queued(lower, target, packet) {
                    Ok(Outcome::Retry) => break,
                    Ok(_) => {
                        sent += 1;
                        if let Some(Queued { op, .. }) = queue.pop_front().filter(|packet| packet.op != 0) {
                            outcome = self.end_op(op, Ok(0), lower, handlers);
                        }
                    }
                    Err(error) => {
                        let op = queue.pop_front().map_or(0, |packet| packet.op);
                        outcome =
                            if op == 0 { Err(error) } else { self.end_op(op, Err(error), lower, handlers) };
                    }
                }
                if outcome.is_err() {
                    break;
                }
            }
            // A request that completed may have queued more for this target: that goes behind.
            if let Some(more) = self.pending.queues.remove(&target) {
                queue.extend(more);
                self.pending.turns.retain(|&other| other != target);
            }
            if !queue.is_empty() {
                self.pending.queues.insert(target, queue);
                self.pending.turns.push_back(target);
            }
            self.pending.look_again();
            outcome?;
        }
        Ok(sent > 0)
    }

    fn post_queued<L: Lower>(&mut self, lower: &mut L, target: Endpoint, packet: &Queued) -> Result<Outcome> {
        let mut nothing = RawBytes::EMPTY;
        let (class, label) = (packet.class, packet.label);
        let front: &[u8] = match &packet.front {
            Front::Inline(bytes) => return lower.post_inline(target, class, label, bytes),
            Front::Packet(front) => front,
        };
        match self.ops.get_mut(packet.op).map(|op| &mut op.state) {
            Some(State::Queued(Data::Bytes(bytes))) => lower.post_packet(target, class, label, front, bytes),
            Some(State::Queued(Data::Gather(gatherer))) => {
                let len = gatherer.len() as usize;
                let mut body = Gathered { gatherer: &mut **gatherer, offset: 0, len };
                lower.post_packet(target, class, label, front, &mut body)
            }
            _ => lower.post_packet(target, class, label, front, &mut nothing),
        }
    }
}
