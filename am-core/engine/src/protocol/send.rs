//! Begins operations. Nothing here blocks: a packet without a credit is queued, and sent later.

use super::outgoing::{FrontBytes, Issued, Outgoing};
use super::outstanding::{Data, End, Op, State};
use super::owner_operations::{atomic_code, has_operation, operands};
use super::packet::{self, Announcement, FIRST, Kind, MessageHead, PUT_BY_PIECES, pack};
use super::pending::Queued;
use super::statistics::Statistics;
use super::{Engine, FRONT_BYTES_MAX};
use crate::buffer::{Executor, InlineBytes, RawBuffer, RawBytes, RawPieces, RemoteAddress};
use crate::counter::Counter;
use crate::error::{Error, Result};
use crate::fabric::{Fabric, Peer};
use crate::handler::{HandlerId, HandlerSet};
use crate::task::{Endpoint, TaskId};
use crate::transfer::{AtomicOp, Body, Class, Gather, Gatherer, OpId, Posted, Transfer, Width};
use crate::user_code::UserCode;
use alloc::boxed::Box;

impl<U: UserCode> Engine<U> {
    /// Sends a message.
    ///
    /// # Errors
    /// `UnknownTask`, `PeerFailed`, `UserHeaderTooLong`, `HandlerPanicked` (a gatherer), or `Exhausted` (too many operations).
    #[inline]
    pub fn send<F: Fabric>(
        &mut self,
        fabric: &mut F,
        outgoing: Outgoing<'_>,
        mut source: impl Source,
        end: End,
    ) -> Result<Issued> {
        if self.post_whole(fabric, &outgoing, &mut source)? == Some(Posted::Done) {
            self.bump_own(end.origin);
            return Ok(Issued::Done);
        }
        self.send_later(fabric, outgoing, source.into_data(), end)
    }

    /// Sends a message that was not posted as one packet: it is announced, has a long user header, or waits for a credit.
    ///
    /// # Errors
    /// Those of [`send`](Self::send).
    #[inline(never)]
    pub fn send_later<F: Fabric>(
        &mut self,
        fabric: &mut F,
        outgoing: Outgoing<'_>,
        mut data: Data,
        end: End,
    ) -> Result<Issued> {
        let target = self.target(fabric, outgoing.target)?;
        let len = data.len();
        if !self.is_whole(&outgoing, usize::try_from(len).unwrap_or(usize::MAX)) {
            return self.announce(fabric, target, outgoing, data, end);
        }
        let class = outgoing.class();
        let label = packet::label(Kind::Message, outgoing.handler);
        let mut front = FrontBytes::default();
        front.fill(outgoing.head(), None, outgoing.uhdr, self.uhdr_bytes_max())?;
        self.touched.mark(target);
        if !self.pending.has(target)
            && data.post(fabric, target, class, label, front.as_slice())? == Posted::Done
        {
            self.bump_own(end.origin);
            return Ok(Issued::Done);
        }
        let op = self.ops.insert(Op { peer: target, len, end, state: State::Queued(data) })?;
        let front = front.as_slice().into();
        self.queue(target, Queued { class, label, front, op, piece_bytes: 0 });
        Ok(Issued::Ongoing(op))
    }

    /// Announces a message: the target fetches its data, or asks for them.
    fn announce<F: Fabric>(
        &mut self,
        fabric: &mut F,
        target: Peer,
        outgoing: Outgoing<'_>,
        data: Data,
        end: End,
    ) -> Result<Issued> {
        let len = data.len();
        if outgoing.uhdr.len() > self.uhdr_bytes_max() {
            return Err(Error::UserHeaderTooLong { len: outgoing.uhdr.len(), max: self.uhdr_bytes_max() });
        }
        let grant = match &data {
            Data::Bytes(bytes) if len > 0 => super::grant_for_reading(fabric, bytes, target)?,
            _ => None,
        };
        let state = State::Announced { data, grant, in_pieces: false };
        let op = self.ops.insert(Op { peer: target, len, end, state });
        let sent = op
            .and_then(|op| self.send_announcement(fabric, target, outgoing, Announcement { len, op, grant }));
        if let (Err(_), Some(grant)) = (&sent, grant) {
            let _ = fabric.revoke(grant)?;
        }
        sent.map(Issued::Ongoing)
    }

    fn send_announcement<F: Fabric>(
        &mut self,
        fabric: &mut F,
        target: Peer,
        outgoing: Outgoing<'_>,
        announcement: Announcement,
    ) -> Result<u32> {
        let op = announcement.op;
        let label = packet::label(Kind::Request, outgoing.handler);
        let uhdr_max = FRONT_BYTES_MAX;
        let mut front = FrontBytes::default();
        front.fill(outgoing.head(), Some(announcement), outgoing.uhdr, uhdr_max)?;
        match self.send_front(fabric, target, Class::Request, label, front.as_slice()) {
            Ok(()) => Ok(op),
            Err(error) => {
                drop(self.ops.forget(op));
                Err(error)
            }
        }
    }

    /// Writes to exposed memory of a peer. `notify` is the counter to bump there, and `completion_counter` the counter to bump here if the
    /// target has to confirm.
    ///
    /// # Errors
    /// `RemoteRange`: not exposed for writing. `PeerFailed`, or `Exhausted` (too many operations).
    pub fn write<F: Fabric>(
        &mut self,
        fabric: &mut F,
        to: RemoteAddress,
        bytes: RawBytes,
        notify: u32,
        completion_counter: u32,
        end: End,
    ) -> Result<Issued> {
        let (peer, len) = (self.target(fabric, to.owner())?, bytes.len() as u64);
        refuse_operation_grant(to, len)?;
        let key = self.ops.reserve()?;
        let transfer = fabric.write(to, bytes, OpId(key))?;
        if transfer == Transfer::Done(()) {
            self.notify(fabric, peer, notify)?;
            self.bump_own(end.origin);
            self.bump_own(end.completion);
            self.counters.note_received(end.completion.map(Counter::name), peer.endpoint.task);
            return Ok(Issued::Done);
        }
        let state = State::Write { bytes, to, notify, completion_counter, posted: false };
        let mut op = Op { peer, len, end, state };
        let started = self.written(fabric, key, &mut op, transfer)?;
        self.begun(op, started)
    }

    /// Reads exposed memory of a peer. `notify` is the counter to bump there.
    ///
    /// # Errors
    /// `RemoteRange`: not exposed for reading. `PeerFailed`, or `Exhausted` (too many operations).
    pub fn read<F: Fabric>(
        &mut self,
        fabric: &mut F,
        from: RemoteAddress,
        to: RawBuffer,
        notify: u32,
        end: End,
    ) -> Result<Issued> {
        let (peer, len) = (self.target(fabric, from.owner())?, to.len() as u64);
        refuse_operation_grant(from, len)?;
        self.begin(fabric, Op { peer, len, end, state: State::Read { from, to, notify, posted: false } })
    }

    /// Operates atomically on a word of exposed memory of a peer. The result is the old value.
    ///
    /// # Errors
    /// `RemoteRange`: not exposed for writing. `NoSuchOperation`, `Misaligned`, `PeerFailed`, or `Exhausted` (too many operations).
    pub fn atomic<F: Fabric>(
        &mut self,
        fabric: &mut F,
        at: RemoteAddress,
        width: Width,
        operation: AtomicOp,
        end: End,
    ) -> Result<Issued> {
        let (peer, size) = (self.target(fabric, at.owner())?, width.bytes());
        refuse_operation_grant(at, size)?;
        if !has_operation(width, operation) {
            return Err(Error::NoSuchOperation {
                operation: "a floating-point operation",
                element: "a word of 8 or 16 bits",
            });
        }
        let state = State::Atomic { at, width, operation, posted: false };
        self.begin(fabric, Op { peer, len: size, end, state })
    }

    /// Starts an operation of the fabric. Records it unless it ends at once; an rmw whose caller takes the old value is always recorded.
    fn begin<F: Fabric>(&mut self, fabric: &mut F, mut op: Op) -> Result<Issued> {
        let key = self.ops.reserve()?;
        let started = self.start(fabric, key, &mut op)?;
        self.begun(op, started)
    }

    fn begun(&mut self, op: Op, started: Started) -> Result<Issued> {
        match started {
            Started::Over(value) => {
                self.bump_own(op.end.origin);
                self.bump_own(op.end.completion);
                self.counters.note_received(op.end.completion.map(Counter::name), op.peer.endpoint.task);
                // Only an rmw has a value to return.
                match op.state {
                    State::Atomic { .. } if op.end.held => {
                        self.ops.insert_ended(op.peer, Ok(value)).map(Issued::Ongoing)
                    }
                    _ => Ok(Issued::Done),
                }
            }
            Started::Ongoing => self.ops.insert(op).map(Issued::Ongoing),
            Started::NoCredit => {
                let key = self.ops.insert(op)?;
                self.retry_later(key);
                Ok(Issued::Ongoing(key))
            }
        }
    }

    /// Asks the fabric to carry out an operation, or sends it to the owner.
    fn start<F: Fabric>(&mut self, fabric: &mut F, key: u32, op: &mut Op) -> Result<Started> {
        let peer = op.peer;
        match op.state {
            State::Write { bytes, to, .. } => {
                let transfer = fabric.write(to, bytes, OpId(key))?;
                self.written(fabric, key, op, transfer)
            }
            State::Read { from, to, notify, ref mut posted } => match fabric.read(from, to, OpId(key))? {
                Transfer::Done(()) => {
                    self.notify(fabric, peer, notify)?;
                    Ok(Started::Over(0))
                }
                Transfer::Posted => {
                    *posted = true;
                    Ok(Started::Ongoing)
                }
                Transfer::Retry => Ok(Started::NoCredit),
                Transfer::Unreachable => {
                    op.state = State::Asked { to, received: Box::default() };
                    let len = to.len() as u64;
                    let ask = pack([
                        &from.grant.region.to_le_bytes(),
                        &from.grant.generation.to_le_bytes(),
                        &from.offset.to_le_bytes(),
                        &len.to_le_bytes(),
                        &key.to_le_bytes(),
                        &notify.to_le_bytes(),
                    ]);
                    self.ask(fabric, peer, FIRST, ask)
                }
            },
            State::Atomic { at, width, operation, ref mut posted } => {
                let started = match at.executor {
                    Executor::Anyone => fabric.atomic(at, width, operation, OpId(key))?,
                    Executor::Owner => Transfer::Unreachable,
                };
                match started {
                    Transfer::Done(value) => Ok(Started::Over(value)),
                    Transfer::Posted => {
                        *posted = true;
                        Ok(Started::Ongoing)
                    }
                    Transfer::Retry => Ok(Started::NoCredit),
                    Transfer::Unreachable => {
                        let (first, second) = operands(operation);
                        let ask = pack([
                            &at.grant.region.to_le_bytes(),
                            &at.grant.generation.to_le_bytes(),
                            &at.offset.to_le_bytes(),
                            &key.to_le_bytes(),
                            &first.to_le_bytes(),
                            &second.to_le_bytes(),
                        ]);
                        self.ask(fabric, peer, HandlerId(atomic_code(width, operation)), ask)
                    }
                }
            }
            _ => Ok(Started::Ongoing),
        }
    }

    /// Handles the outcome of a write. If the fabric cannot access the memory, a message carries the bytes.
    fn written<F: Fabric>(
        &mut self,
        fabric: &mut F,
        key: u32,
        op: &mut Op,
        transfer: Transfer,
    ) -> Result<Started> {
        let peer = op.peer;
        let State::Write { bytes, to, notify, completion_counter, ref mut posted } = op.state else {
            return Ok(Started::Ongoing);
        };
        match transfer {
            Transfer::Done(()) => {
                self.notify(fabric, peer, notify)?;
                Ok(Started::Over(0))
            }
            // The bytes are stored before any later packet is seen, so the notice need not wait. A fence learns from the end of the
            // operation that they are stored.
            Transfer::Posted => {
                *posted = true;
                self.notify(fabric, peer, notify)?;
                Ok(Started::Ongoing)
            }
            Transfer::Retry => Ok(Started::NoCredit),
            Transfer::Unreachable => {
                let destination = pack([
                    &to.grant.region.to_le_bytes(),
                    &to.grant.generation.to_le_bytes(),
                    &to.offset.to_le_bytes(),
                ]);
                let counters = (notify, completion_counter);
                self.announce_put(fabric, key, op, Data::Bytes(bytes), destination.as_slice(), counters)
            }
        }
    }

    fn ask<F: Fabric>(
        &mut self,
        fabric: &mut F,
        owner: Peer,
        what: HandlerId,
        ask: InlineBytes,
    ) -> Result<Started> {
        self.send_control(fabric, owner, Class::Request, packet::label(Kind::Ask, what), ask)?;
        Ok(Started::Ongoing)
    }

    /// Sends a put to inaccessible memory, or an accumulation for the owner, as a message that the engine at the target stores at
    /// `destination`.
    pub(super) fn announce_put<F: Fabric>(
        &mut self,
        fabric: &mut F,
        key: u32,
        op: &mut Op,
        data: Data,
        destination: &[u8],
        (target_counter, completion_counter): (u32, u32),
    ) -> Result<Started> {
        let grant = match &data {
            Data::Bytes(bytes) if !bytes.is_empty() => super::grant_for_reading(fabric, bytes, op.peer)?,
            _ => None,
        };
        let head = MessageHead { uhdr_len: destination.len() as u16, target_counter, completion_counter };
        let announcement = Announcement { len: data.len(), op: key, grant };
        let mut front = FrontBytes::default();
        front.fill(head, Some(announcement), destination, FRONT_BYTES_MAX)?;
        let label = packet::label(Kind::Request, PUT_BY_PIECES);
        // The target's answer bumps the completion counter when the bytes are stored.
        op.end.completion = None;
        op.state = State::Announced { data, grant, in_pieces: false };
        let front = front.as_slice().into();
        self.touched.mark(op.peer);
        self.queue(op.peer, Queued { class: Class::Request, label, front, op: 0, piece_bytes: 0 });
        Ok(Started::Ongoing)
    }

    /// Queues an operation that found no credit, for a retry.
    pub(super) fn retry_later(&mut self, key: u32) {
        Statistics::add(&mut self.statistics.retries, 1);
        self.retries.push_back(key);
        self.busy = true;
    }

    pub(super) fn notify<F: Fabric>(&mut self, fabric: &mut F, target: Peer, counter: u32) -> Result<()> {
        if counter == 0 {
            return Ok(());
        }
        let label = packet::label(Kind::Notify, FIRST);
        self.touched.mark_notice(target);
        self.send_unmarked(fabric, target, Class::OneWay, label, &counter.to_le_bytes())
    }

    /// Retries operations that found no credit; returns whether any was started.
    ///
    /// # Errors
    /// The error of an operation, if it is reported nowhere else.
    pub(crate) fn work_on_retries<F: Fabric, H: HandlerSet>(
        &mut self,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<bool> {
        let mut moved = false;
        while let Some(key) = self.retries.pop_front() {
            let Some(op) = self.ops.get_mut(key) else { continue };
            // The record is moved out of the slab during the call; its number stays.
            let mut taken = Op {
                peer: op.peer,
                len: op.len,
                end: core::mem::take(&mut op.end),
                state: core::mem::replace(&mut op.state, State::Fence),
            };
            let started = self.start(fabric, key, &mut taken);
            if let Some(op) = self.ops.get_mut(key) {
                op.state = taken.state;
                op.end = taken.end;
            }
            match started {
                Ok(Started::NoCredit) => {
                    self.retries.push_front(key);
                    break;
                }
                Ok(Started::Ongoing) => {}
                Ok(Started::Over(value)) => self.end_op(key, Ok(value), fabric, handlers)?,
                Err(error) => self.end_op(key, Err(error), fabric, handlers)?,
            }
            moved = true;
        }
        Ok(moved)
    }

    /// Ends an operation that the fabric has completed.
    pub(crate) fn handle_completed<F: Fabric, H: HandlerSet>(
        &mut self,
        op: OpId,
        result: Result<u64>,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<()> {
        let Some(record) = self.ops.get(op.0) else { return Ok(()) };
        match record.state {
            State::Fetch { incoming, len } => {
                drop(self.ops.forget(op.0));
                self.handle_fetched_part(&*fabric, incoming, len, result);
                Ok(())
            }
            State::Read { notify, .. } => {
                let peer = record.peer;
                let left = if result.is_ok() { self.notify(fabric, peer, notify) } else { Ok(()) };
                self.end_op(op.0, result, fabric, handlers).and(left)
            }
            _ => self.end_op(op.0, result, fabric, handlers),
        }
    }

    /// The endpoint of `task` with this context's number.
    #[inline(always)]
    pub fn endpoint_of(&self, task: TaskId) -> Endpoint {
        Endpoint::new(task, self.own.context)
    }

    /// Maximum bytes of a user header.
    pub fn uhdr_bytes_max(&self) -> usize {
        super::UHDR_BYTES_MAX.min(self.limits.packet_bytes_max - Announcement::BYTES - MessageHead::BYTES_MAX)
    }

    /// The peer of a new operation.
    ///
    /// # Errors
    /// `UnknownTask`, `UnknownContext`, `PeerFailed`, or `Purged`.
    pub fn target<F: Fabric>(&self, fabric: &mut F, target: Endpoint) -> Result<Peer> {
        let peer = fabric.peer(target)?;
        if self.purges.refuses(peer) {
            return Err(Error::Purged { task: target.task, by: self.own.task });
        }
        self.gone(target).map_or(Ok(peer), Err)
    }
}

impl<U: UserCode> Engine<U> {
    /// Whether [`check_target`](Self::check_target) allows every target. It may still refuse a range.
    #[inline(always)]
    pub fn allows_all_targets(&self) -> bool {
        self.has_lost_nobody
    }

    /// Refuses a target with which operations are not possible, or a range that programs may not name.
    ///
    /// # Errors
    /// Those of [`target`](Self::target). `RemoteRange`: the grant is for one operation.
    #[inline(always)]
    pub fn check_target<F: Fabric>(&self, fabric: &mut F, at: RemoteAddress, len: u64) -> Result<()> {
        if self.has_lost_nobody && !at.grant.is_for_operation() {
            return Ok(());
        }
        self.target(fabric, at.owner())?;
        refuse_operation_grant(at, len)
    }
}

pub(super) enum Started {
    Over(u64),
    Ongoing,
    NoCredit,
}

/// User data of an operation that is not recorded yet.
pub trait Source: Body {
    /// The data in the form that an operation keeps.
    fn into_data(self) -> Data;
}

impl Source for RawBytes {
    #[inline(always)]
    fn into_data(self) -> Data {
        Data::Bytes(self)
    }
}

impl Source for RawBuffer {
    #[inline(always)]
    fn into_data(self) -> Data {
        Data::Bytes(self.as_bytes())
    }
}

impl Source for RawPieces<RawBytes> {
    fn into_data(self) -> Data {
        Data::Parts(Box::new(self))
    }
}

impl<G: Gatherer + 'static, U: UserCode + Send + 'static> Source for Gather<G, U> {
    fn into_data(self) -> Data {
        Data::Parts(Box::new(self))
    }
}

/// Refuses a grant that was made for one operation.
pub(super) fn refuse_operation_grant(at: RemoteAddress, len: u64) -> Result<()> {
    if at.grant.is_for_operation() { Err(super::stale(at.task, at.grant, at.offset, len)) } else { Ok(()) }
}
