//! Collective operations: fences, barriers, and the exchange of addresses.
//!
//! The barrier is the dissemination barrier (Hensgen, Finkel, Manber 1988): in round r, task i notifies task i + 2^r and waits for task
//! i - 2^r, modulo the number of tasks. The exchange is Bruck's all-gather with the same steps in the opposite direction.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use super::answers::refusal;
use super::outstanding::{End, Op, State};
use super::packet::{self, FIRST, Fields, Kind, SECOND, pack};
use super::{Engine, FRONT_BYTES_MAX, FollowUp, Packet, malformed};
use crate::buffer::InlineBytes;
use crate::error::{Refusal, Result};
use crate::fabric::{Fabric, Peer};
use crate::task::TaskId;
use crate::transfer::Class;
use crate::user_code::UserCode;

/// Maximum number of rounds of a barrier: the bits of a task number.
const ROUNDS_MAX: usize = 32;

/// Maximum bytes that a task contributes to an exchange.
pub const CONTRIBUTION_BYTES_MAX: usize = 32;

/// Maximum bytes of one contribution on the wire: task, length, bytes.
const ENTRY_BYTES: usize = 5 + CONTRIBUTION_BYTES_MAX;

/// What a fence waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceKind {
    /// The data of earlier messages are stored.
    Data,
    /// The handlers of earlier messages have run, too.
    Operations,
}

/// Barriers of one context.
#[derive(Debug, Default)]
pub(crate) struct Barriers {
    /// Number of barriers that this task has entered.
    entered: u64,
    /// Number of notices received, for each round.
    noticed: [u64; ROUNDS_MAX],
}

/// The contribution of one task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contribution {
    len: u8,
    bytes: [u8; CONTRIBUTION_BYTES_MAX],
}

/// Exchanges of one context.
#[derive(Debug, Default)]
pub(crate) struct Exchanges {
    /// Number of exchanges that this task has entered.
    entered: u32,
    /// The contributions received for the exchange under way, and for the next one, which other tasks may have entered.
    tables: BTreeMap<u32, Vec<Option<Contribution>>>,
}

/// A peer's fence that waits until everything that the peer sent before has finished.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FenceWaiting {
    origin: Peer,
    op: u32,
}

impl FenceWaiting {
    /// The peer that waits.
    pub(crate) fn origin(self) -> Peer {
        self.origin
    }
}

impl<U: UserCode> Engine<U> {
    /// Handles a fence of a peer, which asks whether everything that the peer sent before is done. Packets arrive in order, so earlier
    /// packets have been handled, and a fence of data is answered at once. A fence of operations waits for messages that are still
    /// arriving, and for handlers on the handler thread.
    pub(crate) fn handle_fence(&mut self, packet: Packet<'_>) -> Result<()> {
        let op = packet.fields()?.u32();
        let Some(op) = op.filter(|_| packet.class == Class::Request) else {
            return Err(malformed(packet.from, "a fence without its number, or that may not be answered"));
        };
        let fence = FenceWaiting { origin: packet.from, op };
        if packet::handler_of(packet.label) == SECOND && self.unfinished_from.has(packet.from) {
            self.check_asks(packet.from)?;
            self.asked_by.add(packet.from);
            self.fences.push(fence);
            self.busy = true;
            return Ok(());
        }
        let (label, bytes) = self.answer_of_fence(fence);
        self.later(FollowUp::Answer(packet.from, label, bytes));
        Ok(())
    }

    /// Rejects a get or fence of a peer that already has the maximum number of unanswered ones. A correct peer never exceeds it.
    ///
    /// # Errors
    /// `Protocol`: the peer exceeds it.
    #[inline]
    pub(super) fn check_asks(&self, origin: Peer) -> Result<()> {
        if self.asked_by.of(origin) < self.limits.requests_max {
            return Ok(());
        }
        Err(malformed(origin, "more gets and fences than it may have unanswered"))
    }

    /// Notes that a one-way message of `origin` was refused. The answer to the origin's next fence reports the refusal.
    pub(super) fn tell_by_fence(&mut self, origin: Peer, why: Refusal) {
        if !self.untold.iter().any(|&(peer, _)| peer == origin) {
            self.untold.push((origin, why));
        }
    }

    fn answer_of_fence(&mut self, FenceWaiting { origin, op }: FenceWaiting) -> (u16, InlineBytes) {
        match self.untold.iter().position(|&(peer, _)| peer == origin) {
            None => (packet::label(Kind::Fenced, FIRST), pack([&op.to_le_bytes()])),
            Some(at) => (packet::label(Kind::Refused, FIRST), refusal(op, self.untold.swap_remove(at).1)),
        }
    }

    /// Answers the fences of origins that have nothing unfinished here; returns whether there were any.
    ///
    /// # Errors
    /// The first error of an answer, after all fences were answered. `PeerFailed`: an origin is dead.
    pub(crate) fn work_on_fences<F: Fabric>(&mut self, fabric: &mut F) -> Result<bool> {
        let waiting = core::mem::take(&mut self.fences);
        let before = waiting.len();
        let (unfinished, done): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|fence| self.unfinished_from.has(fence.origin));
        self.fences = unfinished;
        let mut result = Ok(self.fences.len() < before);
        for fence in done {
            self.asked_by.subtract(fence.origin);
            if !self.is_gone(fence.origin.endpoint) {
                let (label, bytes) = self.answer_of_fence(fence);
                let sent = self.send_control(fabric, fence.origin, Class::Answer, label, bytes);
                // The other origins get their answers even so.
                result = result.and_then(|moved| sent.map(|()| moved));
            }
        }
        result
    }

    /// Handles the answer to a fence of this task: everything sent before the fence is done, so the fence ends.
    pub(crate) fn handle_fenced(&mut self, packet: Packet<'_>) -> Result<()> {
        let op = packet.fields()?.u32();
        let record = op.and_then(|op| self.ops.with_peer(op, packet.from));
        match (op, record.map(|record| &record.state)) {
            (Some(op), Some(State::Fence)) => {
                self.later(FollowUp::EndOp { op, result: Ok(0) });
                Ok(())
            }
            _ => Err(malformed(packet.from, "the answer to a fence that this task did not ask for")),
        }
    }

    /// Begins a fence at `target`. Returns the number of the operation, whose result is kept.
    ///
    /// # Errors
    /// `PeerFailed`: the target is dead. `Exhausted`: too many operations.
    pub fn begin_fence<F: Fabric>(&mut self, fabric: &mut F, target: Peer, kind: FenceKind) -> Result<u32> {
        let op = self.ops.insert(Op { peer: target, len: 0, end: End::held(), state: State::Fence })?;
        let what = match kind {
            FenceKind::Data => FIRST,
            FenceKind::Operations => SECOND,
        };
        let label = packet::label(Kind::Fence, what);
        match self.send_control(fabric, target, Class::Request, label, pack([&op.to_le_bytes()])) {
            Ok(()) => Ok(op),
            Err(error) => {
                drop(self.ops.forget(op));
                Err(error)
            }
        }
    }

    /// Whether packets to `target` are queued, or operations with `target` are under way.
    pub fn is_busy_with(&self, target: Peer) -> bool {
        self.pending.has(target) || self.ops.is_busy(target)
    }

    /// Enters a barrier; returns its number.
    pub fn enter_barrier(&mut self) -> u64 {
        self.barriers.entered += 1;
        self.barriers.entered
    }

    /// Notifies `target` that this task has reached `round` of its barrier.
    ///
    /// # Errors
    /// `PeerFailed`: the target is dead.
    pub fn notify_barrier<F: Fabric>(&mut self, fabric: &mut F, target: Peer, round: u32) -> Result<()> {
        let label = packet::label(Kind::Barrier, FIRST);
        self.send_control(fabric, target, Class::OneWay, label, pack([&round.to_le_bytes()]))
    }

    /// Whether the notice of `round` has arrived for barrier `number`.
    pub fn barrier_noticed(&self, number: u64, round: u32) -> bool {
        self.barriers.noticed.get(round as usize).is_some_and(|&noticed| noticed >= number)
    }

    /// Counts the notice of a task that has reached a round of its barrier. Each round has one sender.
    pub(crate) fn handle_barrier(&mut self, packet: Packet<'_>) -> Result<()> {
        let round = packet.fields()?.u32();
        match round.and_then(|round| self.barriers.noticed.get_mut(round as usize)) {
            Some(noticed) => {
                *noticed += 1;
                Ok(())
            }
            None => Err(malformed(packet.from, "a barrier with more rounds than tasks allow")),
        }
    }

    /// Enters an exchange with this task's bytes, which must be at most [`CONTRIBUTION_BYTES_MAX`]; returns its number. In an exchange
    /// tasks are named by their places in their world, from 0 on.
    pub fn enter_exchange(&mut self, own: TaskId, contributed: &[u8]) -> u32 {
        let epoch = self.exchanges.entered;
        self.exchanges.entered = epoch.wrapping_add(1);
        // An exchange that ended with an error has left its table.
        self.exchanges.tables.retain(|&of, _| of == epoch || of == epoch.wrapping_add(1));
        let mut bytes = [0; CONTRIBUTION_BYTES_MAX];
        bytes[..contributed.len()].copy_from_slice(contributed);
        let table = self.exchanges.table(epoch, self.num_tasks);
        table[own.index()] = Some(Contribution { len: contributed.len() as u8, bytes });
        epoch
    }

    /// Whether the contributions of all `tasks` have arrived.
    pub fn exchange_has(&self, epoch: u32, mut tasks: impl Iterator<Item = TaskId>) -> bool {
        let table = self.exchanges.tables.get(&epoch);
        tasks.all(|task| table.is_some_and(|table| table[task.index()].is_some()))
    }

    /// Sends `target` the contributions of `tasks` that this task has.
    ///
    /// # Errors
    /// `PeerFailed`: the target is dead.
    pub fn send_exchange<F: Fabric>(
        &mut self,
        fabric: &mut F,
        target: Peer,
        epoch: u32,
        tasks: &[TaskId],
    ) -> Result<()> {
        for front in self.exchange_packets(epoch, tasks) {
            let label = packet::label(Kind::Exchange, FIRST);
            self.send_front(fabric, target, Class::OneWay, label, &front)?;
        }
        Ok(())
    }

    fn exchange_packets(&self, epoch: u32, tasks: &[TaskId]) -> Vec<Vec<u8>> {
        let Some(table) = self.exchanges.tables.get(&epoch) else { return Vec::new() };
        let a_packet = ((self.limits.packet_bytes_max.min(FRONT_BYTES_MAX) - 4) / ENTRY_BYTES).max(1);
        tasks
            .chunks(a_packet)
            .map(|tasks| {
                let mut packet = epoch.to_le_bytes().to_vec();
                for (task, known) in tasks.iter().filter_map(|task| Some((task, table[task.index()]?))) {
                    packet.extend_from_slice(&task.0.to_le_bytes());
                    packet.push(known.len);
                    packet.extend_from_slice(&known.bytes[..usize::from(known.len)]);
                }
                packet
            })
            .collect()
    }

    /// Leaves an exchange; returns the contribution of each task.
    pub fn leave_exchange(&mut self, epoch: u32) -> Vec<Vec<u8>> {
        let table = self.exchanges.tables.remove(&epoch).unwrap_or_default();
        table
            .into_iter()
            .map(|known| known.map_or_else(Vec::new, |known| known.bytes[..usize::from(known.len)].to_vec()))
            .collect()
    }

    /// Stores received contributions to an exchange.
    pub(crate) fn handle_exchange(&mut self, packet: Packet<'_>) -> Result<()> {
        let mut fields = packet.fields()?;
        let epoch = fields.u32();
        // A task enters the next exchange only after it has seen this task enter the present one, so no task is further ahead.
        let ahead = epoch.map(|epoch| epoch.wrapping_sub(self.exchanges.entered).wrapping_add(1));
        let Some(epoch) = epoch.filter(|_| ahead.is_some_and(|ahead| ahead <= 1)) else {
            return Err(malformed(packet.from, "a contribution to an exchange that is not under way"));
        };
        let num_tasks = self.num_tasks;
        while !fields.0.is_empty() {
            let table = self.exchanges.table(epoch, num_tasks);
            let known = entry(&mut fields);
            match known.and_then(|(task, known)| Some((table.get_mut(task as usize)?, known))) {
                Some((slot, known)) => *slot = Some(known),
                None => {
                    return Err(malformed(
                        packet.from,
                        "a contribution that is too short, or of a task that does not exist",
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Exchanges {
    fn table(&mut self, epoch: u32, num_tasks: u32) -> &mut Vec<Option<Contribution>> {
        self.tables.entry(epoch).or_insert_with(|| vec![None; num_tasks as usize])
    }
}

fn entry(fields: &mut Fields<'_>) -> Option<(u32, Contribution)> {
    let task = fields.u32()?;
    let (&len, rest) = fields.0.split_first()?;
    let (given, rest) = rest.split_at_checked(usize::from(len))?;
    let mut bytes = [0; CONTRIBUTION_BYTES_MAX];
    bytes.get_mut(..given.len())?.copy_from_slice(given);
    fields.0 = rest;
    Some((task, Contribution { len, bytes }))
}
