//! Completions: when the data of a message are stored, its completion runs, and then its origin gets a notice.
//!
//! Predefined completions, and closures for the polling context, run here. The context owns the handler thread, and gets the closures for
//! this thread; the engine keeps what remains to be done after a closure has run.

use core::sync::atomic::Ordering;

use super::Engine;
use super::packet::{self, FIRST, Kind, MessageHead, pack};
use super::reassembly::Tail;
use crate::buffer::InlineBytes;
use crate::counter::CounterName;
use crate::error::{Error, Refusal, Result};
use crate::fabric::{Fabric, Peer};
use crate::handler::{Completion, Delivered, HandlerSet, Reply, ThreadHandler};
use crate::transfer::Class;
use crate::user_code::{self, UserCode};

/// A completion handler for the handler thread.
pub struct ThreadJob {
    /// The argument for [`Engine::thread_done`].
    pub key: u32,
    /// The handler.
    pub handler: ThreadHandler,
    /// The handler's argument.
    pub delivered: Delivered,
}

impl core::fmt::Debug for ThreadJob {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ThreadJob").field("key", &self.key).field("delivered", &self.delivered).finish()
    }
}

/// What remains to be done after a handler has run on the handler thread.
#[derive(Debug)]
pub(crate) struct AfterThread {
    source: Peer,
    tail: Tail,
}

/// What a completion sends to the source, besides the answer that is owed anyway.
enum CompletionOutput {
    Nothing,
    Counter(CounterName),
    Reply(Reply),
}

impl<U: UserCode> Engine<U> {
    /// Ends a message: its completion, its counters, and the answer to its origin.
    ///
    /// # Errors
    /// The error of the message, unless its completion gets it. `HandlerPanicked`, `UnknownCounter`. `NotAnswerable`: the completion may
    /// not answer. `Exhausted`: too many handlers for the thread. `PeerFailed`: the answer could not be sent.
    #[cold]
    #[inline(never)]
    pub(crate) fn deliver<F: Fabric, H: HandlerSet>(
        &mut self,
        completion: Completion,
        source: Peer,
        mut delivered: Delivered,
        mut tail: Tail,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<()> {
        let mut refusal = delivered.outcome.as_ref().err().map(|error| Refusal::of(error));
        let mut told = CompletionOutput::Nothing;
        let mut result = Ok(());
        match completion {
            Completion::MarkRequest(request) => handlers.complete_request(request, delivered),
            Completion::Call(call) => {
                result = user_code::run(self.user, source.endpoint, "completion", || call(delivered));
                // A message whose handler panicked does not count as handled.
                refusal = refusal.or(result.as_ref().err().map(Refusal::of));
            }
            Completion::Thread(handler) => {
                return self.hand_to_thread(handler, source, delivered, tail, fabric);
            }
            _ if refusal.is_some() => {
                let outcome = core::mem::replace(&mut delivered.outcome, Ok(()));
                result = outcome.map_err(|error| *error);
            }
            Completion::None => {}
            Completion::Wants => self.note_calls(),
            Completion::Bump(counter) => {
                result = self.bump_claimed(CounterName::to_wire(Some(counter.name())))
            }
            Completion::SetFlag(flag) => {
                // Release, for the program's Acquire load of the flag: a thread that sees the flag also sees the bytes of the message.
                flag.store(true, Ordering::Release);
            }
            Completion::BumpAtSource(_) | Completion::Reply(_) if !tail.answerable => {
                result = Err(Error::NotAnswerable { origin: source.endpoint });
            }
            Completion::BumpAtSource(counter) => told = CompletionOutput::Counter(counter),
            Completion::Reply(reply) => told = CompletionOutput::Reply(reply),
        }
        let ended = match refusal {
            None => self.finish(source, &mut tail, told, fabric),
            Some(_) if self.is_gone(source.endpoint) => Ok(()),
            Some(why) => self.finish_refused(source, tail, why, fabric),
        };
        result.and(ended)
    }

    /// Hands a completion to the handler thread. The origin may reuse its memory at once; the origin's completion counter is bumped after
    /// the handler.
    fn hand_to_thread<F: Fabric>(
        &mut self,
        handler: ThreadHandler,
        source: Peer,
        delivered: Delivered,
        mut tail: Tail,
        fabric: &mut F,
    ) -> Result<()> {
        let mut result = Ok(());
        match &delivered.outcome {
            Ok(()) if tail.op != 0 => {
                let class = answer_class(&mut tail);
                let none = 0u32.to_le_bytes();
                let fetched = pack([&tail.op.to_le_bytes(), &none, &none]);
                tail.op = 0;
                let label = packet::label(Kind::Fetched, FIRST);
                result = self.send_control(fabric, source, class, label, fetched);
            }
            Ok(()) => {}
            Err(_) if self.is_gone(source.endpoint) => tail = Tail { op: 0, reserved: false, ..tail },
            Err(error) => {
                let why = Refusal::of(error);
                result = self.finish_refused(source, tail, why, fabric);
                tail = Tail::NOTHING;
            }
        }
        let key = self.after_thread.insert(AfterThread { source, tail })?;
        self.unfinished_from.add(source);
        self.thread_jobs.push_back(ThreadJob { key, handler, delivered });
        self.note_calls();
        result
    }

    /// Finishes a handler that ran, or panicked, on the handler thread: sends what the origin is owed.
    ///
    /// # Errors
    /// `UnknownCounter`: a counter does not exist. `PeerFailed`: the origin is dead.
    pub fn thread_done<F: Fabric>(&mut self, key: u32, has_panicked: bool, fabric: &mut F) -> Result<()> {
        let Some(AfterThread { source, mut tail }) = self.after_thread.remove(key) else { return Ok(()) };
        self.unfinished_from.subtract(source);
        match has_panicked {
            false => self.finish(source, &mut tail, CompletionOutput::Nothing, fabric),
            true if self.is_gone(source.endpoint) => Ok(()),
            true => self.finish_refused(source, tail, Refusal::HandlerPanicked, fabric),
        }
    }

    /// Forgets what `peer` is owed for handlers on the handler thread, except its reserved slots.
    pub(super) fn forget_owed(&mut self, peer: Peer) {
        for after in self.after_thread.values_mut().filter(|after| after.source == peer) {
            let Tail { reserved, .. } = after.tail;
            after.tail = Tail { reserved, ..Tail::NOTHING };
        }
    }

    /// Bumps the counters and answers the origin of a message that was handled without an error.
    fn finish<F: Fabric>(
        &mut self,
        source: Peer,
        tail: &mut Tail,
        told: CompletionOutput,
        fabric: &mut F,
    ) -> Result<()> {
        let bumped = self.bump_claimed(tail.target_counter);
        if self.is_gone(source.endpoint) {
            return bumped;
        }
        let counter = match told {
            CompletionOutput::Counter(counter) => CounterName::to_wire(Some(counter)),
            _ => 0,
        };
        let owed = tail.completion_counter;
        let sent = if tail.op != 0 {
            let class = answer_class(tail);
            let fetched = pack([&tail.op.to_le_bytes(), &owed.to_le_bytes(), &counter.to_le_bytes()]);
            let label = packet::label(Kind::Fetched, FIRST);
            self.send_control(fabric, source, class, label, fetched).and_then(|()| match told {
                CompletionOutput::Reply(reply) => self.send_reply(source, Class::OneWay, reply, 0, fabric),
                _ => Ok(()),
            })
        } else if let CompletionOutput::Reply(reply) = told {
            let class = answer_class(tail);
            self.send_reply(source, class, reply, owed, fabric)
        } else if owed | counter != 0 {
            let class = answer_class(tail);
            let acks = pack([&owed.to_le_bytes(), &counter.to_le_bytes()]);
            self.send_control(fabric, source, class, packet::label(Kind::CounterAck, FIRST), acks)
        } else {
            if tail.reserved {
                fabric.waive(source.index);
            }
            Ok(())
        };
        bumped.and(sent)
    }

    /// Answers the origin of a message that ended with an error.
    fn finish_refused<F: Fabric>(
        &mut self,
        source: Peer,
        mut tail: Tail,
        why: Refusal,
        fabric: &mut F,
    ) -> Result<()> {
        if tail.op == 0 && tail.completion_counter == 0 && !tail.answerable {
            // The answer to the origin's next fence reports a panic, but no other reason.
            if matches!(why, Refusal::HandlerPanicked) {
                self.tell_by_fence(source, why);
            }
            return Ok(());
        }
        let class = answer_class(&mut tail);
        self.refuse(fabric, source, class, tail.op, why)
    }

    /// Sends a reply: a whole message, which uses the slot of an answer if `class` is [`Class::Answer`]. Its target counter is `counter`:
    /// the completion counter of the message that is answered, or 0.
    fn send_reply<F: Fabric>(
        &mut self,
        source: Peer,
        class: Class,
        reply: Reply,
        counter: u32,
        fabric: &mut F,
    ) -> Result<()> {
        let uhdr_len = reply.uhdr().len() as u16;
        let head = MessageHead { uhdr_len, target_counter: counter, completion_counter: 0 };
        let mut bytes = InlineBytes::new();
        let fitted = head.push_to(&mut bytes) && bytes.push(reply.uhdr());
        debug_assert!(fitted, "a reply fits into an entry");
        self.send_control(fabric, source, class, packet::label(Kind::Message, reply.handler), bytes)
    }
}

/// The class of an answer: the first packet to the origin uses the slot that the origin reserved, if it has reserved one.
fn answer_class(tail: &mut Tail) -> Class {
    if core::mem::take(&mut tail.reserved) { Class::Answer } else { Class::OneWay }
}
