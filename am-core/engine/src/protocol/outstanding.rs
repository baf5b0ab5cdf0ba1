//! Operations of this task that have not ended, one record each, under a number that is sent in packets.
//!
//! A record keeps the user's memory in use until the operation ends. The operation ends exactly once: when its packet is sent, by an answer
//! of the peer, by the fabric's completion, or by an error, such as the peer's death or a purge. If a caller waits for the operation, the
//! record stays until the result is taken.

use super::Engine;
use super::packet::{self, FIRST, Kind, pack};
use super::per_peer::Tally;
use super::reassembly::Ranges;
use super::slab::Slab;
use super::statistics::Statistics;
use crate::buffer::{Grant, InlineBytes, JobBuffer, PacketWriter, RawBuffer, RawBytes, RemoteAddress};
use crate::counter::{Counter, CounterName};
use crate::error::{Error, Refusal, Result};
use crate::fabric::{Fabric, Peer};
use crate::handler::{Delivered, HandlerSet};
use crate::transfer::{AtomicOp, Body, Class, Part, Parts, Posted, Width};
use crate::user_code::UserCode;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The source of a message's user data.
#[derive(Debug)]
pub enum Data {
    /// One range.
    Bytes(RawBytes),
    /// Several ranges, or a gatherer.
    Parts(Box<dyn Parts>),
}

impl Data {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Parts(parts) => parts.size(),
        }
    }

    /// Like [`post_part`](Self::post_part), with all of the data.
    pub(crate) fn post<F: Fabric>(
        &mut self,
        fabric: &mut F,
        to: Peer,
        class: Class,
        label: u16,
        head: &[u8],
    ) -> Result<Posted> {
        self.post_part(fabric, to, class, label, head, (0, self.len() as usize))
    }

    /// Posts a packet with the `len` bytes from `offset` on after `head`; inside its entry if the data are one range and everything fits.
    pub(crate) fn post_part<F: Fabric>(
        &mut self,
        fabric: &mut F,
        to: Peer,
        class: Class,
        label: u16,
        head: &[u8],
        (offset, len): (u64, usize),
    ) -> Result<Posted> {
        match self {
            Self::Bytes(bytes) => {
                let part = bytes.part(offset as usize, len).unwrap_or(RawBytes::EMPTY);
                let mut inline = InlineBytes::new();
                if inline.push(head) && inline.push_raw(part) {
                    return fabric.post_inline(to.index, class, label, &inline);
                }
                post_packet(fabric, to, class, label, head, part)
            }
            Self::Parts(parts) => {
                post_packet(fabric, to, class, label, head, Part { of: &mut **parts, offset, len })
            }
        }
    }
}

/// Posts a packet whose head goes into the entry, or before the body if the head is too long for the entry.
fn post_packet<F: Fabric>(
    fabric: &mut F,
    to: Peer,
    class: Class,
    label: u16,
    head: &[u8],
    mut body: impl Body,
) -> Result<Posted> {
    let mut entry = InlineBytes::new();
    if entry.push(head) {
        fabric.post_packet(to.index, class, label, &entry, &mut body)
    } else {
        fabric.post_packet(to.index, class, label, &entry, &mut Headed { head, body })
    }
}

/// A body preceded by a long head.
struct Headed<'a, B> {
    head: &'a [u8],
    body: B,
}

impl<B: Body> Body for Headed<'_, B> {
    fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }

    fn write(&mut self, writer: &mut PacketWriter<'_>) -> Result<()> {
        writer.put_slice(self.head);
        self.body.write(writer)
    }
}

/// What happens when an operation ends, and which caller learns of it.
#[derive(Debug, Default)]
pub struct End {
    /// Bumped on success: the program may reuse the local memory.
    pub origin: Option<Counter>,
    /// Bumped on success. `None` for messages and announced puts, whose completion counters the target's answer bumps.
    pub completion: Option<Counter>,
    /// The request that is reported to `HandlerSet::complete_request`, on success or failure.
    pub request: Option<u64>,
    /// The group of operations that counts this operation until this operation ends.
    pub part_of: Option<u32>,
    /// Whether a caller will take the result.
    pub held: bool,
    /// Memory that belongs to the operation until it ends. In a box, since most operations have none and programs may begin millions.
    pub keep: Option<Box<JobBuffer>>,
}

impl End {
    /// The operation only keeps its result for a caller.
    pub fn held() -> Self {
        Self { held: true, ..Self::default() }
    }
}

/// An operation under way, or one that has ended and whose result a caller will take.
#[derive(Debug)]
pub struct Op {
    /// The peer at the other end.
    pub peer: Peer,
    pub(crate) len: u64,
    /// What follows the end of the operation.
    pub end: End,
    pub(crate) state: State,
}

/// A program may have millions of operations under way.
const _: () = assert!(size_of::<Op>() <= 128);

/// The progress of an operation.
#[derive(Debug)]
pub(crate) enum State {
    /// A whole message that waits for a credit.
    Queued(Data),
    /// A message whose data the target will fetch, or ask for.
    Announced {
        data: Data,
        grant: Option<Grant>,
        /// Whether the target asked for pieces, which are being sent or were sent.
        in_pieces: bool,
    },
    /// A put carried by the fabric.
    Write { bytes: RawBytes, to: RemoteAddress, notify: u32, completion_counter: u32, posted: bool },
    /// A get carried by the fabric.
    Read { from: RemoteAddress, to: RawBuffer, notify: u32, posted: bool },
    /// A get whose bytes the owner sends.
    Asked { to: RawBuffer, received: Box<Ranges> },
    /// An rmw, carried by the fabric or carried out by the owner.
    Atomic { at: RemoteAddress, width: Width, operation: AtomicOp, posted: bool },
    /// Operations that end together: the number still under way, the first error, and the target's counter, which is bumped if all succeed.
    Group { left: u64, failed: Option<Box<Error>>, notify: u32 },
    /// A fence.
    Fence,
    /// A read for an incoming message of this task.
    Fetch { incoming: u32, len: u64 },
    /// Ended; a caller will take the result.
    Ended(Result<u64, Box<Error>>),
}

/// An operation that has ended: its result, and the memory that the operation kept.
#[derive(Debug)]
pub struct Ended {
    /// The operation's result; for an rmw the old value.
    pub result: Result<u64, Box<Error>>,
    /// The memory that the operation kept.
    pub kept: Option<JobBuffer>,
}

/// The operations of one context.
#[derive(Debug)]
pub struct Outstanding {
    ops: Slab<Op>,
    /// For each peer, the number of operations that a fence waits for.
    unfinished: Tally,
}

impl Default for Outstanding {
    fn default() -> Self {
        Self { ops: Slab::new("outstanding operations"), unfinished: Tally::default() }
    }
}

impl Outstanding {
    /// The operations under way, and those with a result to be taken.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Op> {
        self.ops.iter().map(|(_, op)| op)
    }

    pub(crate) fn next_key(&self) -> u32 {
        self.ops.next_key()
    }

    /// The number of the operation that is about to start.
    ///
    /// # Errors
    /// `Exhausted`: too many operations.
    pub(crate) fn reserve(&self) -> Result<u32> {
        self.ops.reserve()
    }

    pub(crate) fn insert(&mut self, op: Op) -> Result<u32> {
        let (peer, counts) = (op.peer, op.counts());
        let key = self.ops.insert(op)?;
        if counts {
            self.unfinished.add(peer);
        }
        Ok(key)
    }

    /// Records an operation that has already ended and whose result a caller will take.
    ///
    /// # Errors
    /// `Exhausted`: too many operations.
    pub fn insert_ended(&mut self, peer: Peer, result: Result<u64>) -> Result<u32> {
        let state = State::Ended(result.map_err(Box::new));
        self.insert(Op { peer, len: 0, end: End::held(), state })
    }

    /// Gives a held operation memory to keep until its result is taken.
    pub fn keep(&mut self, key: u32, memory: JobBuffer) {
        if let Some(op) = self.ops.get_mut(key) {
            // Memory that the operation already had is leaked, because it may be in use.
            core::mem::forget(op.end.keep.replace(Box::new(memory)));
        }
    }

    /// The operation with this number, until its result is taken.
    #[must_use]
    pub fn get(&self, key: u32) -> Option<&Op> {
        self.ops.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: u32) -> Option<&mut Op> {
        self.ops.get_mut(key)
    }

    /// The operation `key`, if its peer is `peer`. For numbers from packets: a packet may name only operations with its sender.
    pub(crate) fn with_peer(&mut self, key: u32, peer: Peer) -> Option<&mut Op> {
        self.ops.get_mut(key).filter(|op| op.peer == peer)
    }

    /// Whether a fence with `peer` has operations to wait for.
    pub fn is_busy(&self, peer: Peer) -> bool {
        self.unfinished.has(peer)
    }

    /// Takes the result of an operation that has ended, and the memory that it kept. `None` if the operation has not ended.
    pub fn take_ended(&mut self, key: u32) -> Option<Ended> {
        match self.ops.get(key) {
            Some(Op { state: State::Ended(_), .. }) => {}
            _ => return None,
        }
        match self.ops.remove(key)? {
            Op { state: State::Ended(result), end, .. } => {
                Some(Ended { result, kept: end.keep.map(|kept| *kept) })
            }
            _ => None,
        }
    }

    /// Removes the record of an operation. No result is kept.
    pub(crate) fn forget(&mut self, key: u32) -> Option<Op> {
        let op = self.ops.remove(key)?;
        self.uncount(&op);
        Some(op)
    }

    /// Ends an operation. Returns its record, and its result unless the slab keeps it for a caller.
    fn end(&mut self, key: u32, result: Result<u64>) -> Option<(Op, Option<Result<u64>>)> {
        if !self.ops.get(key)?.end.held {
            return Some((self.forget(key)?, Some(result)));
        }
        let op = self.ops.get_mut(key).filter(|op| !matches!(op.state, State::Ended(_)))?;
        let ended = State::Ended(result.map_err(Box::new));
        let End { origin, completion, request, part_of, held, .. } = op.end;
        let was = Op {
            peer: op.peer,
            len: op.len,
            end: End { origin, completion, request, part_of, held, keep: None },
            state: core::mem::replace(&mut op.state, ended),
        };
        self.uncount(&was);
        Some((was, None))
    }

    fn uncount(&mut self, op: &Op) {
        if op.counts() {
            self.unfinished.subtract(op.peer);
        }
    }

    /// The numbers of the operations for which `wanted` holds.
    pub fn keys(&self, wanted: impl Fn(&Op) -> bool) -> Vec<u32> {
        self.ops.iter().filter(|(_, op)| wanted(op)).map(|(key, _)| key).collect()
    }

    /// Leaks the memory of live operations: peers may still be reading it.
    pub(crate) fn leak_kept(&mut self) {
        for op in self.ops.values_mut() {
            if !matches!(op.state, State::Ended(_)) {
                core::mem::forget(op.end.keep.take());
            }
        }
    }
}

impl Op {
    /// Whether fences wait for the operation.
    fn counts(&self) -> bool {
        !matches!(self.state, State::Fence | State::Fetch { .. } | State::Ended(_))
    }

    /// Whether the fabric uses the local memory until its completion event.
    pub(crate) fn is_posted(&self) -> bool {
        match self.state {
            State::Write { posted, .. } | State::Read { posted, .. } | State::Atomic { posted, .. } => posted,
            // The parts of a group use its memory.
            State::Fetch { .. } | State::Group { .. } => true,
            _ => false,
        }
    }
}

impl<U: UserCode> Engine<U> {
    /// Ends an operation: returns its memory to the program, bumps counters, reports the request.
    ///
    /// # Errors
    /// The error of the operation, if it is reported nowhere else.
    pub(crate) fn end_op<F: Fabric, H: HandlerSet>(
        &mut self,
        key: u32,
        result: Result<u64>,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<()> {
        let ended_well = result.is_ok();
        let Some((mut op, result)) = self.ops.end(key, result) else { return Ok(()) };
        if let State::Announced { grant: Some(grant), .. } = op.state {
            // The only user of this grant is done with it or gone, so the outcome is Done.
            let _ = fabric.revoke(grant)?;
        }
        Statistics::add(&mut self.statistics.operations_ended, 1);
        if ended_well {
            self.bump_own(op.end.origin);
            self.bump_own(op.end.completion);
            self.counters.note_received(op.end.completion.map(Counter::name), op.peer.endpoint.task);
        }
        if let Some(group) = op.end.part_of {
            return self.end_part(group, result.unwrap_or(Ok(0)), fabric, handlers);
        }
        match (op.end.request, result) {
            (_, None) => Ok(()),
            (None, Some(result)) => result.map(|_| ()),
            (Some(request), Some(result)) => {
                let delivered = Delivered {
                    source: op.peer.endpoint,
                    len: op.len,
                    placed: if ended_well { op.len } else { 0 },
                    buffer: op.end.keep.take().map(|kept| *kept),
                    outcome: result.map(|_| ()).map_err(Box::new),
                };
                handlers.complete_request(request, delivered);
                Ok(())
            }
        }
    }

    /// Withdraws an operation on borrowed memory whose caller unwinds. A queued message, or a put or get that waits for a credit, ends now.
    /// An announced message is withdrawn, and ends by the target's answer. A copy under way completes.
    pub fn give_up<F: Fabric, H: HandlerSet>(&mut self, key: u32, fabric: &mut F, handlers: &mut H) {
        let Some(op) = self.ops.get(key) else { return };
        let peer = op.peer;
        if let State::Group { .. } = op.state {
            for part in self.ops.keys(|op| op.end.part_of == Some(key)) {
                self.give_up(part, fabric, handlers);
            }
            return;
        }
        let withdrawn = || Err(Error::Refused { target: peer.endpoint, why: Refusal::Withdrawn });
        match op.state {
            State::Queued(_) => {
                self.pending.forget(peer, key);
                // A waiting caller gets the error of the operation.
                let _ = self.end_op(key, withdrawn(), fabric, handlers);
            }
            State::Write { posted: false, .. } | State::Read { posted: false, .. } => {
                self.retries.retain(|&retried| retried != key);
                let _ = self.end_op(key, withdrawn(), fabric, handlers);
            }
            State::Announced { in_pieces: false, .. } => {
                let label = packet::label(Kind::Withdraw, FIRST);
                // An error means that the target is dead, so the operation has already ended.
                let _ = self.send_control(fabric, peer, Class::Request, label, pack([&key.to_le_bytes()]));
            }
            _ => {}
        }
    }

    /// Adds 1 to a counter of this context. Removed counters are ignored.
    #[inline(always)]
    pub fn bump_own(&mut self, counter: Option<Counter>) {
        if let Some(counter) = counter {
            let _ = self.counters.bump(counter.name());
        }
    }

    /// Adds 1 to a counter that a peer names; 0 names none.
    ///
    /// # Errors
    /// `UnknownCounter`: the counter does not exist.
    pub fn bump_claimed(&mut self, counter: u32) -> Result<()> {
        match CounterName::from_wire(counter) {
            Some(name) if !self.counters.bump(name) => Err(super::unknown_counter(name)),
            _ => Ok(()),
        }
    }
}
