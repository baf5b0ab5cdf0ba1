//! Completions: what is done when the bytes of a message are in place, and what its origin hears of it.
//!
//! Predefined completions run here. A closure for the handler thread is handed out to the context, which owns the thread;
//! the engine keeps what remains to be done when it has run.

use std::sync::atomic::Ordering;

use super::packet::{self, FIRST, Kind, MessageHead, pack};
use super::reassembly::Tail;
use super::{Engine, Lower};
use crate::buffer::InlineBytes;
use crate::counter::CounterName;
use crate::error::{Error, Refusal, Result};
use crate::handler::{Completion, Delivered, HandlerSet, Reply, ThreadHandler};
use crate::task::Endpoint;
use crate::transfer::Class;

/// A completion handler for the handler thread.
pub(crate) struct ThreadJob {
    /// To be given back with [`Engine::thread_done`].
    pub(crate) key: u32,
    pub(crate) handler: ThreadHandler,
    pub(crate) delivered: Delivered,
}

impl std::fmt::Debug for ThreadJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThreadJob").field("key", &self.key).field("delivered", &self.delivered).finish()
    }
}

/// What remains to be done after a handler has run on the thread.
#[derive(Debug)]
pub(crate) struct AfterThread {
    source: Endpoint,
    tail: Tail,
}

/// What a completion sends to the source, beside what is owed anyway.
enum Told {
    Nothing,
    Counter(CounterName),
    Reply(Reply),
}

impl Engine {
    /// The end of a message: its completion, then its counters and the answer to its origin.
    ///
    /// # Errors
    /// What the message ended with, if the completion does not take it; a completion that may not be used; a counter that
    /// does not exist.
    #[cold]
    #[inline(never)]
    pub(crate) fn deliver<L: Lower, H: HandlerSet>(
        &mut self,
        completion: Completion,
        mut delivered: Delivered,
        mut tail: Tail,
        lower: &mut L,
        handlers: &mut H,
    ) -> Result<()> {
        let source = delivered.source;
        let mut refusal = delivered.outcome.as_ref().err().map(|error| Refusal::of(error));
        let mut told = Told::Nothing;
        let mut result = Ok(());
        match completion {
            Completion::MarkRequest(request) => handlers.complete_request(request, delivered),
            Completion::Call(call) => {
                result = super::user_code(source, "completion", || call(delivered));
                // Nobody is to count a message as handled whose handler panicked.
                refusal = refusal.or(result.as_ref().err().map(Refusal::of));
            }
            Completion::Thread(handler) => {
                return self.hand_to_thread(handler, delivered, tail, lower);
            }
            _ if refusal.is_some() => {
                let outcome = std::mem::replace(&mut delivered.outcome, Ok(()));
                result = outcome.map_err(|error| *error);
            }
            Completion::None => {}
            Completion::Bump(counter) => {
                result = self.bump_claimed(CounterName::to_wire(Some(counter.name())))
            }
            Completion::SetFlag(flag) => {
                // Release: whoever sees the flag (on any thread) sees the bytes of the message.
                flag.store(true, Ordering::Release);
            }
            Completion::BumpAtSource(_) | Completion::Reply(_) if !tail.answerable => {
                result = Err(Error::NotAnswerable { origin: source });
            }
            Completion::BumpAtSource(counter) => told = Told::Counter(counter),
            Completion::Reply(reply) => told = Told::Reply(reply),
        }
        let ended = match refusal {
            None => self.finish(source, &mut tail, told, lower),
            Some(_) if self.is_gone(source) => Ok(()),
            Some(why) => self.finish_refused(source, tail, why, lower),
        };
        result.and(ended)
    }

    /// The origin's memory is free again at once; its completion counter waits for the handler.
    fn hand_to_thread<L: Lower>(
        &mut self,
        handler: ThreadHandler,
        delivered: Delivered,
        mut tail: Tail,
        lower: &mut L,
    ) -> Result<()> {
        let source = delivered.source;
        let mut result = Ok(());
        match &delivered.outcome {
            Ok(()) if tail.op != 0 => {
                let class = answer_class(&mut tail);
                let none = 0u32.to_le_bytes();
                let fetched = pack([&tail.op.to_le_bytes(), &none, &none]);
                tail.op = 0;
                let label = packet::label(Kind::Fetched, FIRST);
                result = self.send_control(lower, source, class, label, fetched);
            }
            Ok(()) => {}
            Err(_) if self.is_gone(source) => tail = Tail { op: 0, reserved: false, ..tail },
            Err(error) => {
                let why = Refusal::of(error);
                result = self.finish_refused(source, tail, why, lower);
                tail = Tail::NOTHING;
            }
        }
        let key = self.after_thread.insert(AfterThread { source, tail })?;
        self.unfinished_from.add(source);
        self.thread_jobs.push_back(ThreadJob { key, handler, delivered });
        self.busy = true;
        result
    }

    /// A handler has run on the thread, or panicked: what was owed for its message is done now.
    ///
    /// # Errors
    /// A counter that does not exist, or an origin that is dead.
    pub(crate) fn thread_done<L: Lower>(
        &mut self,
        key: u32,
        has_panicked: bool,
        lower: &mut L,
    ) -> Result<()> {
        let Some(AfterThread { source, mut tail }) = self.after_thread.remove(key) else { return Ok(()) };
        self.unfinished_from.subtract(source);
        match has_panicked {
            false => self.finish(source, &mut tail, Told::Nothing, lower),
            true if self.is_gone(source) => Ok(()),
            true => self.finish_refused(source, tail, Refusal::HandlerPanicked, lower),
        }
    }

    /// What is owed to `peer` for handlers on the thread is owed no more, but its reserved places.
    pub(super) fn forget_owed(&mut self, peer: Endpoint) {
        for after in self.after_thread.values_mut().filter(|after| after.source == peer) {
            let Tail { reserved, .. } = after.tail;
            after.tail = Tail { reserved, ..Tail::NOTHING };
        }
    }

    /// Counters and the answer of a message that went well.
    fn finish<L: Lower>(
        &mut self,
        source: Endpoint,
        tail: &mut Tail,
        told: Told,
        lower: &mut L,
    ) -> Result<()> {
        let bumped = self.bump_claimed(tail.target_counter);
        if self.is_gone(source) {
            return bumped;
        }
        let counter = match told {
            Told::Counter(counter) => CounterName::to_wire(Some(counter)),
            _ => 0,
        };
        let owed = tail.completion_counter;
        let sent = if tail.op != 0 {
            let class = answer_class(tail);
            let fetched = pack([&tail.op.to_le_bytes(), &owed.to_le_bytes(), &counter.to_le_bytes()]);
            let label = packet::label(Kind::Fetched, FIRST);
            self.send_control(lower, source, class, label, fetched).and_then(|()| match told {
                Told::Reply(reply) => self.send_reply(source, Class::OneWay, reply, 0, lower),
                _ => Ok(()),
            })
        } else if let Told::Reply(reply) = told {
            let class = answer_class(tail);
            self.send_reply(source, class, reply, owed, lower)
        } else if owed | counter != 0 {
            let class = answer_class(tail);
            let acks = pack([&owed.to_le_bytes(), &counter.to_le_bytes()]);
            self.send_control(lower, source, class, packet::label(Kind::CounterAck, FIRST), acks)
        } else {
            if tail.reserved {
                lower.waive(source);
            }
            Ok(())
        };
        bumped.and(sent)
    }

    /// The answer of a message that did not go well.
    fn finish_refused<L: Lower>(
        &mut self,
        source: Endpoint,
        mut tail: Tail,
        why: Refusal,
        lower: &mut L,
    ) -> Result<()> {
        // Who waits for nothing is told all the same, unless it has said that it wants no answer.
        if tail.op == 0 && tail.completion_counter == 0 && !tail.answerable {
            return Ok(());
        }
        let class = answer_class(&mut tail);
        self.refuse(lower, source, class, tail.op, why)
    }

    /// A reply is a whole message in the place of an answer; its target counter is the completion counter that the source
    /// waits for.
    fn send_reply<L: Lower>(
        &mut self,
        source: Endpoint,
        class: Class,
        reply: Reply,
        counter: u32,
        lower: &mut L,
    ) -> Result<()> {
        let uhdr_len = reply.uhdr().len() as u16;
        let head = MessageHead { uhdr_len, target_counter: counter, completion_counter: 0 };
        let mut bytes = InlineBytes::new();
        let fitted = head.push_to(&mut bytes) && bytes.push(reply.uhdr());
        debug_assert!(fitted, "a reply is as long as an entry leaves room for");
        self.send_control(lower, source, class, packet::label(Kind::Message, reply.handler), bytes)
    }
}

/// The first packet to the origin takes the place that it has reserved, if it has.
fn answer_class(tail: &mut Tail) -> Class {
    if std::mem::take(&mut tail.reserved) { Class::Answer } else { Class::OneWay }
}
