//! What stays off the fast path: rare kinds of packets, the work that they cause, and waiting work.

use super::arrival::{Origin, Packet};
use super::reassembly::{Incoming, Tail};
use super::{Engine, ThreadJob, malformed, packet};
use crate::buffer::{Arrived, InlineBytes};
use crate::error::{Error, Refusal, Result};
use crate::fabric::{Fabric, Peer};
use crate::handler::{Completion, Delivered, HandlerSet};
use crate::transfer::Class;
use crate::user_code::UserCode;
use alloc::boxed::Box;

use packet::Kind;

/// The work that remains after a packet, except a plain completion of a whole message. The engine keeps it, so that the result of
/// [`Engine::receive`] stays in registers.
#[derive(Debug)]
pub(super) enum FollowUp {
    /// A message is complete, and its completion is not a plain one.
    Complete { source: Peer, completion: Completion, delivered: Delivered, tail: Tail },
    /// A message was announced, or arrived whole and waits for its destination.
    New(Box<Incoming>),
    /// The last piece of a message has arrived, or its origin sends no more.
    Whole(u32),
    /// A peer has ended an operation.
    EndOp { op: u32, result: Result<u64> },
    /// A peer has ended an operation, by a packet with an error that concerns the caller, not the operation.
    EndOpWith { op: u32, met: Box<Error> },
    /// An answer to a peer: its label and its bytes.
    Answer(Peer, u16, InlineBytes),
    /// A packet had an error. The origin gets the error if the packet may be answered. The caller gets it too, unless it is a misalignment
    /// of which the origin was told.
    Refuse { origin: Peer, answered: bool, op: u32, error: Box<Error> },
    /// A peer has purged all operations with this task.
    Purged(Peer),
    /// The origin withdraws an announcement.
    Withdraw { origin: Peer, op: u32 },
}

impl<U: UserCode> Engine<U> {
    /// Handles the kinds of packets that stay off the fast path.
    #[inline(never)]
    pub(super) fn receive_other<F: Fabric, H: HandlerSet>(
        &mut self,
        fabric: &F,
        handlers: &mut H,
        Origin { from, class, label }: Origin,
        front: &[u8],
        rest: Arrived<'_>,
    ) {
        let packet = Packet { from, class, label, front, rest };
        if let Err(error) = self.handle_other(Kind::of(label), fabric, handlers, packet) {
            self.refuse_packet(packet.origin(), error);
        }
    }

    fn handle_other<F: Fabric, H: HandlerSet>(
        &mut self,
        kind: Kind,
        fabric: &F,
        handlers: &mut H,
        packet: Packet<'_>,
    ) -> Result<()> {
        match (kind, packet::handler_of(packet.label)) {
            (Kind::CounterAck, _) => self.handle_acks(packet),
            (Kind::Request, _) => self.handle_request(fabric, handlers, packet),
            (Kind::Fetched, _) => self.handle_fetched(packet),
            (Kind::Accepted, _) => self.handle_accepted(packet),
            (Kind::Refused, _) => self.handle_refused(packet),
            (Kind::Piece, packet::FIRST) => self.handle_piece(fabric, packet),
            (Kind::Piece, packet::SECOND) => self.handle_get_piece(packet),
            (Kind::Ask, _) => self.handle_ask(fabric, packet),
            (Kind::Told, _) => self.handle_told(packet),
            (Kind::Fence, _) => self.handle_fence(packet),
            (Kind::Fenced, _) => self.handle_fenced(packet),
            (Kind::Barrier, _) => self.handle_barrier(packet),
            (Kind::Exchange, _) => self.handle_exchange(packet),
            (Kind::Withdraw, packet::SECOND | packet::THIRD) => self.handle_purge(packet),
            (Kind::Withdraw, packet::FOURTH) => self.handle_broken_off(packet),
            (Kind::Withdraw, _) => match packet.fields()?.u32() {
                Some(op) if packet.class == Class::Request => {
                    self.later(FollowUp::Withdraw { origin: packet.from, op });
                    Ok(())
                }
                _ => Err(malformed(packet.from, "a withdrawal without its number")),
            },
            _ => Err(malformed(packet.from, "a packet of an unknown kind")),
        }
    }

    /// Refuses a packet that could not be handled. The origin of a request gets the error at once; the origin of a one-way message gets it
    /// with the answer to its next fence.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse_packet(&mut self, Origin { from, class, label }: Origin, error: Error) {
        if Kind::of(label) == Kind::Message && class == Class::OneWay {
            self.tell_by_fence(from, Refusal::of(&error));
        }
        self.refuse_later(from, class, 0, error);
    }

    /// Notes what [`carry_out_cold`](Self::carry_out_cold) has to do for the packet.
    pub(super) fn later(&mut self, due: FollowUp) {
        self.due = Some(due);
    }

    #[cold]
    #[inline(never)]
    pub(super) fn carry_out_cold<F: Fabric, H: HandlerSet>(
        &mut self,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<()> {
        match self.due.take() {
            None => Ok(()),
            Some(FollowUp::Complete { source, completion, delivered, tail }) => {
                self.deliver(completion, source, delivered, tail, fabric, handlers)
            }
            Some(FollowUp::New(incoming)) => self.begin_incoming(*incoming, fabric, handlers),
            Some(FollowUp::Whole(key)) => self.end_incoming(key, fabric, handlers),
            Some(FollowUp::EndOp { op, result }) => self.end_op(op, result, fabric, handlers),
            Some(FollowUp::EndOpWith { op, met }) => {
                self.end_op(op, Ok(0), fabric, handlers)?;
                Err(*met)
            }
            Some(FollowUp::Answer(origin, label, bytes)) => {
                self.send_control(fabric, origin, Class::Answer, label, bytes)
            }
            Some(FollowUp::Refuse { origin, answered, op, error }) => {
                if answered {
                    self.refuse(fabric, origin, Class::Answer, op, Refusal::of(&error))?;
                }
                match *error {
                    // Only this task knows the alignment of its words, and the misalignment is an error of the origin's program.
                    Error::Misaligned { .. } if answered => Ok(()),
                    error => Err(error),
                }
            }
            Some(FollowUp::Purged(peer)) => self.be_purged(peer, fabric, handlers),
            Some(FollowUp::Withdraw { origin, op }) => self.withdraw(origin, op, fabric, handlers),
        }
    }

    /// Whether [`work`](Self::work) has something to do.
    #[inline(always)]
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// Whether something waits for a credit or for its turn, so that more work may be possible soon even if nothing arrives.
    pub fn is_eager(&self) -> bool {
        !(self.pending.is_empty()
            && self.streams.is_empty()
            && self.retries.is_empty()
            && self.fetching.is_empty()
            && !self.has_thread_jobs()
            && !self.purges.is_closing())
    }

    /// Does a bounded part of the waiting work; returns whether anything was done.
    ///
    /// # Errors
    /// The error of an operation, if it is reported nowhere else.
    #[cold]
    pub fn work<F: Fabric, H: HandlerSet>(&mut self, fabric: &mut F, handlers: &mut H) -> Result<bool> {
        let moved = self.work_on_pending(fabric, handlers)?
            | self.work_on_retries(fabric, handlers)?
            | self.work_on_fetching(fabric, handlers)?
            | self.work_on_streams(fabric, handlers)?
            | self.work_on_fences(fabric)?
            | self.work_on_closing(fabric, handlers)?;
        self.busy = self.is_eager() || !self.fences.is_empty() || self.has_handlers_on_thread();
        Ok(moved)
    }

    /// Notes that the context has something to do: jobs for the handler thread, or messages of the handler set.
    pub(super) fn note_calls(&mut self) {
        self.has_calls = true;
        self.busy = true;
    }

    /// Whether the context may have something to do: jobs for the handler thread, or messages of the handler set.
    #[inline(always)]
    pub fn has_calls(&self) -> bool {
        self.has_calls
    }

    /// Notes that the context has done it.
    pub fn calls_are_made(&mut self) {
        self.has_calls = false;
    }

    /// Whether completion handlers wait for the handler thread.
    pub fn has_thread_jobs(&self) -> bool {
        !self.thread_jobs.is_empty()
    }

    /// The next completion handler for the handler thread.
    pub fn take_thread_job(&mut self) -> Option<ThreadJob> {
        self.thread_jobs.pop_front()
    }

    /// Whether handlers are still on the handler thread.
    pub(crate) fn has_handlers_on_thread(&self) -> bool {
        !self.after_thread.is_empty()
    }
}
