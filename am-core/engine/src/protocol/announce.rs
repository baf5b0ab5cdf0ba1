//! Announced messages at the target. The header handler runs on the announcement; then the data are fetched from the origin's memory, or
//! arrive as pieces if this task cannot access it. Messages that wait for their destination are handled here as well.

use super::arrival::{Packet, run_header, unknown_handler};
use super::outstanding::{End, Op, State};
use super::packet::{self, Announcement, FIRST, Fields, Kind, MessageHead, PIECE_HEAD_BYTES, pack};
use super::reassembly::{Incoming, Stage, Tail, capacity_of};
use super::slow_path::FollowUp;
use super::statistics::Statistics;
use super::{Engine, granted, malformed};
use crate::buffer::{Access, Arrived, Executor, ExposedRange, Grant, JobBuffer, RemoteAddress};
use crate::error::{Error, RangeFault, Refusal, Result};
use crate::fabric::{Fabric, Peer};
use crate::handler::{Answer, Completion, Delivered, Destination, HandlerSet, Message, Scatter, Ticket};
use crate::transfer::{Class, OpId, Transfer};
use crate::user_code::UserCode;
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::vec;

/// Maximum bytes fetched in one call, to bound its time.
pub(crate) const FETCH_BYTES_A_CALL: u64 = 4 << 20;
/// Size of the buffer between a direct read and a sink or a scattered destination, in bytes.
const BOUNCE_BYTES: usize = 256 << 10;
/// Length of the largest word of an accumulation.
const WORD_BYTES_MAX: u64 = 8;
/// Maximum number of bounce buffers kept for later messages.
const BOUNCES_KEPT: usize = 4;
/// Maximum number of reads in flight for one message.
const READS_AT_ONCE: u32 = 4;

impl<U: UserCode> Engine<U> {
    /// Handles an announcement: runs the message's header handler, or checks the destination of a put or accumulation.
    pub(crate) fn handle_request<F: Fabric, H: HandlerSet>(
        &mut self,
        fabric: &F,
        handlers: &mut H,
        packet: Packet<'_>,
    ) -> Result<()> {
        let parsed = MessageHead::parse_short(packet.front).and_then(|(head, rest)| {
            let announcement = Announcement::parse(rest)?;
            let uhdr = rest.get(Announcement::BYTES..)?.get(..usize::from(head.uhdr_len))?;
            Some((head, announcement, uhdr))
        });
        let Some((head, announcement, uhdr)) = parsed.filter(|_| packet.class == Class::Request) else {
            return Err(malformed(
                packet.from,
                "an announcement that is too short, or that may not be answered",
            ));
        };
        let mut tail = Tail {
            target_counter: head.target_counter,
            completion_counter: head.completion_counter,
            op: announcement.op,
            answerable: true,
            reserved: true,
        };
        let len = announcement.len;
        let id = packet::handler_of(packet.label);
        let answer = if id == packet::PUT_BY_PIECES {
            destination_of_put(fabric, packet, uhdr, len)
        } else {
            let here = (len == 0).then_some(Arrived::private(&[]));
            let ticket = self.next_ticket;
            let message = Message { source: packet.from.endpoint, uhdr, len, here, ticket };
            let mut answer = None;
            run_header(self.user, handlers, packet.label, &message, &mut answer)
                .and_then(|()| answer.ok_or_else(|| unknown_handler(packet.label, &message, handlers)))
        };
        let (destination, completion) = match answer {
            Ok(answer) => answer.into_parts(),
            Err(error) => {
                self.refuse_later(packet.from, packet.class, announcement.op, error);
                return Ok(());
            }
        };
        let waits = matches!(destination, Destination::Later);
        // A message that waits for its destination gives up the credit reserved for its answer, so that it does not delay other messages.
        tail.reserved = !waits;
        let incoming = Incoming {
            source: packet.from,
            len,
            capacity: capacity_of(&destination, len),
            destination,
            completion,
            stage: if waits {
                Stage::Waiting { kept: None }
            } else {
                Stage::Fetching { issued: 0, in_flight: 0 }
            },
            grant: announcement.grant,
            bounce: None,
            tail,
            failed: None,
        };
        self.later(FollowUp::New(Box::new(incoming)));
        Ok(())
    }

    /// Enters a new message in the table, and starts to receive its data if its destination is known.
    pub(crate) fn begin_incoming<F: Fabric, H: HandlerSet>(
        &mut self,
        incoming: Incoming,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<()> {
        let (source, tail) = (incoming.source, incoming.tail);
        let waits = matches!(incoming.stage, Stage::Waiting { .. });
        let key = match self.incoming.insert(incoming) {
            Ok(key) => key,
            Err(error) => {
                let class = if tail.reserved { Class::Answer } else { Class::OneWay };
                self.refuse(fabric, source, class, tail.op, Refusal::of(&error))?;
                return Err(error);
            }
        };
        self.next_ticket = Ticket(self.incoming.next_key());
        self.unfinished_from.add(source);
        if !waits {
            return self.start_fetching(key, fabric, handlers);
        }
        // The credit reserved for the answer is returned; the later answer will need a credit, like any packet.
        if tail.answerable {
            fabric.waive(source.index);
        }
        Ok(())
    }

    /// Gives a waiting message its destination. [`Destination::Later`] changes nothing.
    ///
    /// # Errors
    /// `UnknownTicket`: the ticket names no waiting message. Any error that ends the message.
    pub fn accept<F: Fabric, H: HandlerSet>(
        &mut self,
        ticket: Ticket,
        destination: Destination,
        completion: Completion,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<()> {
        let user = self.user;
        let incoming = self.waiting(ticket)?;
        if matches!(destination, Destination::Later) {
            return Ok(());
        }
        incoming.capacity = capacity_of(&destination, incoming.len);
        incoming.destination = destination;
        incoming.completion = completion;
        let fetching = Stage::Fetching { issued: 0, in_flight: 0 };
        if let Stage::Waiting { kept: Some(kept) } = core::mem::replace(&mut incoming.stage, fetching) {
            let put = incoming.put(user, &*fabric, 0, Arrived::private(&kept));
            incoming.failed = put.err().map(Box::new);
            return self.end_incoming(ticket.0, fabric, handlers);
        }
        self.start_fetching(ticket.0, fabric, handlers)
    }

    /// Drops a waiting message. If its origin waits for an answer, the origin gets a refusal.
    ///
    /// # Errors
    /// `UnknownTicket`: the ticket names no waiting message. `PeerFailed`: its origin is dead.
    pub fn refuse_ticket<F: Fabric>(&mut self, ticket: Ticket, fabric: &mut F) -> Result<()> {
        self.waiting(ticket)?;
        let Some(incoming) = self.take_incoming(ticket.0) else { return Ok(()) };
        if incoming.tail.op != 0 || incoming.tail.completion_counter != 0 {
            self.refuse(fabric, incoming.source, Class::OneWay, incoming.tail.op, Refusal::ByProgram)?;
        }
        Ok(())
    }

    fn waiting(&mut self, ticket: Ticket) -> Result<&mut Incoming> {
        self.incoming
            .get_mut(ticket.0)
            .filter(|incoming| matches!(incoming.stage, Stage::Waiting { .. }))
            .ok_or(Error::UnknownTicket { ticket: ticket.0 })
    }

    fn start_fetching<F: Fabric, H: HandlerSet>(
        &mut self,
        key: u32,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<()> {
        let Some(incoming) = self.incoming.get(key) else { return Ok(()) };
        if incoming.capacity == 0 {
            return self.end_incoming(key, fabric, handlers);
        }
        if incoming.grant.is_none() {
            return self.ask_for_pieces(key, fabric);
        }
        if !self.fetching.is_empty() {
            self.fetching.push_back(key);
            return Ok(());
        }
        let mut budget = FETCH_BYTES_A_CALL;
        self.fetch(key, &mut budget, fabric, handlers).map(|_| ())
    }

    /// Fetches data of the messages in the queue, in order; returns whether any data were fetched.
    ///
    /// # Errors
    /// The error that ended a message, if it is reported nowhere else.
    pub(crate) fn work_on_fetching<F: Fabric, H: HandlerSet>(
        &mut self,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<bool> {
        let mut budget = FETCH_BYTES_A_CALL;
        while budget > 0 {
            let Some(key) = self.fetching.pop_front() else { break };
            if !self.fetch(key, &mut budget, fabric, handlers)? {
                break;
            }
        }
        Ok(budget < FETCH_BYTES_A_CALL)
    }

    /// Fetches data of one message, as much as the budget allows. Returns whether the next message may be fetched. If this message can
    /// continue before a read ends, it goes back to the front of the queue. Otherwise the end of a read puts it back.
    fn fetch<F: Fabric, H: HandlerSet>(
        &mut self,
        key: u32,
        budget: &mut u64,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<bool> {
        let user = self.user;
        loop {
            let next = self.ops.next_key();
            let Some(incoming) = self.incoming.get_mut(key) else { return Ok(true) };
            let Stage::Fetching { issued, in_flight } = incoming.stage else { return Ok(true) };
            let left = incoming.capacity - issued;
            if incoming.failed.is_some() || left == 0 {
                if in_flight == 0 {
                    match self.end_incoming(key, fabric, handlers) {
                        // The reads were in flight when a purge ended the message. This task or the peer asked for the purge, so no error
                        // is reported.
                        Ok(()) | Err(Error::Purged { .. }) => {}
                        Err(error) => return Err(error),
                    }
                }
                return Ok(true);
            }
            let through_sink = matches!(incoming.destination, Destination::Sink(_) | Destination::Scatter(_));
            if in_flight >= if through_sink { 1 } else { READS_AT_ONCE } {
                return Ok(true);
            }
            // Without a record of the read, its end would find nothing: the message waits until an operation ends.
            if *budget == 0 || next == 0 {
                self.fetch_again(key);
                return Ok(false);
            }
            let mut len = left.min(*budget);
            if through_sink {
                len = len.min(BOUNCE_BYTES as u64);
                if len < left {
                    // Whole words: the owner of the memory combines each word in one step.
                    len &= !(WORD_BYTES_MAX - 1);
                }
                if len == 0 {
                    self.fetch_again(key);
                    return Ok(false);
                }
                let bounces = &mut self.bounces;
                incoming.bounce.get_or_insert_with(|| {
                    Box::new(bounces.pop().unwrap_or_else(|| JobBuffer::from(vec![0; BOUNCE_BYTES])))
                });
            }
            let (Some(grant), source) = (incoming.grant, incoming.source) else { return Ok(true) };
            let from = RemoteAddress {
                task: source.endpoint.task,
                context: source.endpoint.context,
                executor: Executor::Anyone,
                grant,
                offset: issued,
            };
            let started = match incoming.part(&*fabric, issued, len) {
                Ok(Some(to)) => fabric.read(from, to, OpId(next)),
                Ok(None) => Err(Error::LocalRange { offset: issued, len, region_len: incoming.capacity }),
                Err(error) => Err(error),
            };
            match started {
                Ok(Transfer::Done(())) => {
                    incoming.stage = Stage::Fetching { issued: issued + len, in_flight };
                    if through_sink {
                        incoming.failed =
                            through_bounce(user, &*fabric, incoming, issued, len).err().map(Box::new);
                    }
                    *budget -= len;
                }
                Ok(Transfer::Posted) => {
                    incoming.stage = Stage::Fetching { issued: issued + len, in_flight: in_flight + 1 };
                    *budget -= len;
                    let state = State::Fetch { incoming: key, len };
                    self.ops.insert(Op { peer: source, len, end: End::default(), state })?;
                }
                Ok(Transfer::Retry) => {
                    Statistics::add(&mut self.statistics.retries, 1);
                    self.fetch_again(key);
                    return Ok(false);
                }
                Ok(Transfer::Unreachable) if issued == 0 => {
                    self.ask_for_pieces(key, fabric)?;
                    return Ok(true);
                }
                Ok(Transfer::Unreachable) => {
                    let what = "its memory became inaccessible during a transfer".to_owned();
                    incoming.failed = Some(Box::new(Error::Protocol { peer: source.endpoint, what }));
                }
                Err(error) => incoming.failed = Some(why_not_fetched(source, error)),
            }
        }
    }

    fn fetch_again(&mut self, key: u32) {
        self.fetching.push_front(key);
        self.busy = true;
    }

    /// Handles the end of a read that was posted for a message.
    pub(crate) fn handle_fetched_part<F: Fabric>(
        &mut self,
        fabric: &F,
        key: u32,
        len: u64,
        result: Result<u64>,
    ) {
        let Some(incoming) = self.incoming.get_mut(key) else { return };
        if let Stage::Fetching { issued, in_flight } = &mut incoming.stage {
            *in_flight -= 1;
            let offset = *issued - len;
            let taken = match result {
                Ok(_) if matches!(incoming.destination, Destination::Sink(_) | Destination::Scatter(_)) => {
                    through_bounce(self.user, fabric, incoming, offset, len)
                }
                result => result.map(|_| ()),
            };
            if let Err(error) = taken {
                let source = incoming.source;
                incoming.failed.get_or_insert_with(|| why_not_fetched(source, error));
            }
            self.fetch_again(key);
        }
    }

    fn ask_for_pieces<F: Fabric>(&mut self, key: u32, fabric: &mut F) -> Result<()> {
        let Some(incoming) = self.incoming.get_mut(key) else { return Ok(()) };
        incoming.stage = Stage::Pieces { received: Box::default() };
        let class = if incoming.tail.reserved { Class::Answer } else { Class::OneWay };
        incoming.tail.reserved = false;
        let (op, capacity, source) = (incoming.tail.op, incoming.capacity, incoming.source);
        let accepted = pack([&op.to_le_bytes(), &key.to_le_bytes(), &capacity.to_le_bytes()]);
        self.send_control(fabric, source, class, packet::label(Kind::Accepted, FIRST), accepted)
    }

    /// Stores a piece of an announced message.
    pub(crate) fn handle_piece<F: Fabric>(&mut self, fabric: &F, packet: Packet<'_>) -> Result<()> {
        let Some((key, offset, bytes)) = piece_of(packet) else {
            return Err(malformed(packet.from, "a piece shorter than its head"));
        };
        Statistics::add(&mut self.statistics.pieces_received, 1);
        let incoming = self.incoming.get_mut(key).filter(|incoming| incoming.source == packet.from);
        let Some(incoming) = incoming else {
            return Err(malformed(packet.from, "a piece of a message that this task does not expect"));
        };
        let capacity = incoming.capacity;
        let Stage::Pieces { received } = &mut incoming.stage else {
            return Err(malformed(packet.from, "a piece of a message that was not to be sent in pieces"));
        };
        let len = bytes.len() as u64;
        let inside = offset.checked_add(len).is_some_and(|end| end <= capacity);
        if len == 0 || !inside || !received.insert(offset, len) {
            return Err(malformed(
                packet.from,
                "a piece that is empty, out of bounds, repeated, or too far out of order",
            ));
        }
        let whole = received.covered() == capacity;
        incoming.tail.reserved |= packet.class == Class::Request;
        if let Err(error) = incoming.put(self.user, fabric, offset, bytes) {
            incoming.failed.get_or_insert_with(|| Box::new(error));
        }
        if whole {
            self.later(FollowUp::Whole(key));
        }
        Ok(())
    }

    /// Ends a message whose origin has stopped sending pieces and has ended its operation.
    pub(crate) fn handle_broken_off(&mut self, packet: Packet<'_>) -> Result<()> {
        let found = packet.fields()?.u32().and_then(|key| Some((key, self.incoming.get_mut(key)?)));
        let is_meant = |incoming: &Incoming| {
            incoming.source == packet.from && matches!(incoming.stage, Stage::Pieces { .. })
        };
        let Some((key, incoming)) = found.filter(|(_, incoming)| is_meant(incoming)) else {
            return Err(malformed(packet.from, "the end of a message that this task does not expect"));
        };
        let why = Refusal::Withdrawn;
        incoming.failed.get_or_insert_with(|| Box::new(Error::Refused { target: packet.from.endpoint, why }));
        // The origin expects no answer.
        incoming.tail = Tail::NOTHING;
        self.later(FollowUp::Whole(key));
        Ok(())
    }

    /// Removes a message from the table.
    pub(crate) fn take_incoming(&mut self, key: u32) -> Option<Incoming> {
        let mut incoming = self.incoming.remove(key)?;
        self.next_ticket = Ticket(self.incoming.next_key());
        self.unfinished_from.subtract(incoming.source);
        if let Some(bounce) = incoming.bounce.take().filter(|_| self.bounces.len() < BOUNCES_KEPT) {
            self.bounces.push(*bounce);
        }
        Some(incoming)
    }

    /// Ends a message that is complete, or that will never be complete: runs its completion, and answers its origin.
    ///
    /// # Errors
    /// The error that ended the message, unless its completion gets it; an error of the completion or of the answer.
    pub(crate) fn end_incoming<F: Fabric, H: HandlerSet>(
        &mut self,
        key: u32,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<()> {
        let Some(incoming) = self.take_incoming(key) else { return Ok(()) };
        let Incoming { source, len, capacity, destination, completion, tail, failed, .. } = incoming;
        let buffer = match destination {
            Destination::Owned(buffer) => Some(buffer),
            Destination::Scatter(scatter) => scatter.into_buffer(),
            _ => None,
        };
        let (placed, outcome) = match failed {
            None => (capacity, Ok(())),
            Some(error) => (0, Err(error)),
        };
        Statistics::add(&mut self.statistics.messages_received, 1);
        Statistics::add(&mut self.statistics.bytes_received, placed);
        let delivered = Delivered { source: source.endpoint, len, placed, buffer, outcome };
        self.deliver(completion, source, delivered, tail, fabric, handlers)
    }

    /// Whether this task is fetching data into the memory of its own grant `own`.
    pub fn is_receiving_into(&self, own: Grant) -> bool {
        self.incoming.iter().any(|(_, incoming)| {
            matches!(incoming.stage, Stage::Fetching { in_flight: 1.., .. }) && incoming.is_into(own)
        })
    }

    /// Withdraws an announcement for its origin. The announcement is dropped if it still waits for its destination and the handler set
    /// agrees.
    pub(crate) fn withdraw<F: Fabric, H: HandlerSet>(
        &mut self,
        origin: Peer,
        op: u32,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<()> {
        let found = self.incoming.iter().find(|(_, incoming)| {
            incoming.source == origin
                && incoming.tail.op == op
                && matches!(incoming.stage, Stage::Waiting { .. })
        });
        match found.map(|(key, _)| key).filter(|&key| handlers.withdraw(Ticket(key))) {
            Some(key) => {
                drop(self.take_incoming(key));
                self.refuse(fabric, origin, Class::Answer, op, Refusal::Withdrawn)
            }
            // The announcement stays: the message ends with its usual answer, and the withdrawal gets none.
            None => {
                fabric.waive(origin.index);
                Ok(())
            }
        }
    }
}

/// Keeps a private copy of a whole message that waits for its destination.
#[cold]
#[inline(never)]
pub(crate) fn keep_whole(
    source: Peer,
    class: Class,
    head: MessageHead,
    here: Arrived<'_>,
    completion: Completion,
) -> FollowUp {
    let len = here.len() as u64;
    let tail = Tail { reserved: false, ..Tail::of_whole(class, head) };
    FollowUp::New(Box::new(Incoming {
        source,
        len,
        capacity: len,
        destination: Destination::Later,
        completion,
        stage: Stage::Waiting { kept: Some(here.to_vec().into_boxed_slice()) },
        grant: None,
        bounce: None,
        tail,
        failed: None,
    }))
}

/// The error of a message whose data cannot be fetched from `source`.
#[cold]
fn why_not_fetched(source: Peer, error: Error) -> Box<Error> {
    Box::new(match error {
        // The origin took the grant back before this task reported the end.
        Error::RemoteRange { why: RangeFault::Stale, .. } => {
            Error::Refused { target: source.endpoint, why: Refusal::Withdrawn }
        }
        error => error,
    })
}

/// Moves a part from the bounce buffer to the destination.
fn through_bounce<F: Fabric>(
    user: impl UserCode,
    fabric: &F,
    incoming: &mut Incoming,
    offset: u64,
    len: u64,
) -> Result<()> {
    let Some(bounce) = incoming.bounce.take() else { return Ok(()) };
    let bytes = bounce.get(..len as usize).unwrap_or(&[]);
    let put = incoming.put(user, fabric, offset, Arrived::private(bytes));
    incoming.bounce = Some(bounce);
    put
}

/// The destination of an announced put or accumulation, if it is exposed for writing.
fn destination_of_put<F: Fabric>(fabric: &F, packet: Packet<'_>, uhdr: &[u8], len: u64) -> Result<Answer> {
    let mut fields = Fields(uhdr);
    let (Some(region), Some(generation), Some(offset)) = (fields.u32(), fields.u32(), fields.u64()) else {
        return Err(malformed(packet.from, "a put without its destination"));
    };
    let grant = Grant { region, generation };
    super::for_programs(fabric, grant, offset, len)?;
    let range = ExposedRange { grant, offset, len };
    let destination = match fields.u64() {
        None => {
            granted(fabric, grant, offset, len, Access::WRITE)?;
            Destination::Exposed(range)
        }
        Some(code) if packet::scattered_layout(code, fields).is_none() => {
            let words = granted(fabric, grant, offset, len, Access::WRITE)?;
            let operation =
                u16::try_from(code).ok().and_then(|code| super::owner_operations::atomic_of(code, 0, 0));
            let Some((width, operation)) = operation else {
                return Err(malformed(packet.from, "an accumulation with an unknown operation"));
            };
            let size = width.bytes();
            if !len.is_multiple_of(size) {
                return Err(malformed(packet.from, "an accumulation of cut words"));
            }
            if !(words.at().addr().get() as u64).is_multiple_of(size) {
                return Err(Error::Misaligned { offset, size });
            }
            Destination::Scatter(Box::new(Scatter::words(range, width, operation)?))
        }
        Some(code) => {
            let Some(layout) = packet::scattered_layout(code, fields).filter(|layout| layout.len() == len)
            else {
                return Err(malformed(packet.from, "a put whose layout is not as long as its data"));
            };
            let span = layout.span();
            granted(fabric, grant, offset, span, Access::WRITE)?;
            Destination::Scatter(Box::new(Scatter::exposed(ExposedRange { len: span, ..range }, layout)?))
        }
    };
    Ok(Answer::new(destination, Completion::None))
}

/// The parts of a piece: the number of its message or get, its offset, its bytes.
pub(crate) fn piece_of<'a>(packet: Packet<'a>) -> Option<(u32, u64, Arrived<'a>)> {
    let mut fields = Fields(packet.front.get(..PIECE_HEAD_BYTES)?);
    Some((fields.u32()?, fields.u64()?, packet.behind(PIECE_HEAD_BYTES)?))
}
