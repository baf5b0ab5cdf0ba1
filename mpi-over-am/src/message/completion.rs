//! How a receive learns that its message has arrived: the three variants of the MPI-LAPI paper's section 5, so that the gain of completion
//! in context can be measured.
//!
//! * *In context* (5.3): am-core marks the request when the last byte is stored.
//! * *Thread* (5.1): a completion handler on am-core's handler thread tells the context's owner, which marks the request. Each message
//!   costs two switches between threads.
//! * *Counter* (5.2): each task has a counter for each sender, with the same name in all tasks. Each eager message names the sender's
//!   counter at the receiver, and the n-th message of a sender is complete when that counter is at n. Announced messages use the thread, as
//!   in the paper.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};

use am_core::Context;
use am_core::counter::{Counter, CounterName};
use am_core::fabric::Fabric;
use am_core::handler::{Completion, Delivered, HandlerSet};
use am_core::task::TaskId;

use crate::error::Result;
use crate::events;
use crate::message::request_id::RequestId;
use crate::settings::CompletionVariant;

/// The state of the variants *thread* and *counter*; *in context* needs none.
#[derive(Debug, Default)]
pub(crate) struct Completions {
    /// Whether a message that meets its receive needs nothing but completion in context: no other variant is chosen, and no event is
    /// watched.
    is_plain: bool,
    /// Whether a wait has to look at its operation itself: a variant other than *in context*, or a task has failed.
    needs_look: bool,
    by_thread: Option<ByThread>,
    by_counter: Option<ByCounter>,
}

#[derive(Debug)]
struct ByThread {
    sender: Sender<(RequestId, Delivered)>,
    receiver: Receiver<(RequestId, Delivered)>,
}

#[derive(Debug)]
struct ByCounter {
    /// One counter for each sender.
    counters: Box<[Counter]>,
    /// Number of eager messages received from each sender.
    arrived: Box<[u64]>,
    /// Receives whose counter has not been checked yet.
    awaited: VecDeque<Awaited>,
}

/// A receive that has matched a message. The receive is complete when the sender's counter is at `number`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited {
    pub(crate) request: RequestId,
    pub(crate) task: TaskId,
    pub(crate) number: u64,
    pub(crate) len: u64,
    pub(crate) placed: u64,
}

impl Completions {
    /// The state for `variant`, and the counter that this task names in its eager messages.
    ///
    /// # Errors
    /// Too many tasks for one counter each.
    pub(crate) fn new<F: Fabric, H: HandlerSet>(
        variant: CompletionVariant,
        context: &mut Context<F, H>,
    ) -> Result<(Self, Option<CounterName>)> {
        let mut completions = Self::default();
        if variant != CompletionVariant::InContext {
            let (sender, receiver) = channel();
            completions.by_thread = Some(ByThread { sender, receiver });
            completions.needs_look = true;
        }
        completions.look_at_watched();
        if variant != CompletionVariant::Counter {
            return Ok((completions, None));
        }
        // Made before any other counter and in the order of the tasks, so that the names are the same in every task.
        let counters =
            (0..context.num_tasks()).map(|_| Ok(context.counter()?)).collect::<Result<Box<[_]>>>()?;
        let own = counters[(context.task().0 - context.first_task().0) as usize].name();
        let arrived = vec![0; counters.len()].into_boxed_slice();
        completions.by_counter = Some(ByCounter { counters, arrived, awaited: VecDeque::new() });
        Ok((completions, Some(own)))
    }

    /// Updates `is_plain` after a change of the watched events.
    pub(crate) fn look_at_watched(&mut self) {
        self.is_plain = self.are_in_context() && !events::is_watching();
    }

    /// Whether a message that meets its receive needs nothing but completion in context.
    #[inline(always)]
    pub(crate) fn are_plain(&self) -> bool {
        self.is_plain
    }

    /// Whether all completions are in context.
    #[inline(always)]
    pub(crate) fn are_in_context(&self) -> bool {
        self.by_thread.is_none()
    }

    /// From now on, each wait looks at its operation itself.
    pub(crate) fn look_at_each(&mut self) {
        self.needs_look = true;
    }

    /// Whether a wait has to look at its operation itself.
    #[inline(always)]
    pub(crate) fn needs_look(&self) -> bool {
        self.needs_look
    }

    /// Counts an eager message from `task`.
    #[inline(always)]
    pub(crate) fn eager_arrived(&mut self, task: TaskId) {
        if let Some(by_counter) = &mut self.by_counter {
            by_counter.arrived[task.index()] += 1;
        }
    }

    /// The completion of a message of `len` bytes that has met its receive, which has `capacity` bytes of memory. `is_eager`: the sender
    /// has named its counter in the message.
    #[inline(always)]
    pub(crate) fn completion(
        &mut self,
        request: RequestId,
        (task, is_eager): (TaskId, bool),
        (len, capacity): (u64, u64),
    ) -> Completion {
        if self.are_in_context() {
            Completion::MarkRequest(request.number())
        } else {
            self.older_completion(request, (task, is_eager), (len, capacity))
        }
    }

    #[cold]
    #[inline(never)]
    fn older_completion(
        &mut self,
        request: RequestId,
        (task, is_eager): (TaskId, bool),
        (len, capacity): (u64, u64),
    ) -> Completion {
        match (&mut self.by_counter, &self.by_thread) {
            (Some(by_counter), _) if is_eager => {
                let number = by_counter.arrived[task.index()];
                by_counter.awaited.push_back(Awaited {
                    request,
                    task,
                    number,
                    len,
                    placed: len.min(capacity),
                });
                Completion::None
            }
            (_, Some(by_thread)) => {
                let sender = by_thread.sender.clone();
                Completion::Thread(Box::new(move |delivered, _| {
                    // If the environment has ended, nothing waits for the request.
                    let _ = sender.send((request, delivered));
                }))
            }
            _ => Completion::MarkRequest(request.number()),
        }
    }
}

impl Completions {
    /// The next message that the handler thread has completed.
    pub(crate) fn next_by_thread(&self) -> Option<(RequestId, Delivered)> {
        self.by_thread.as_ref()?.receiver.try_recv().ok()
    }

    pub(crate) fn counter(&self, task: TaskId) -> Option<Counter> {
        self.by_counter.as_ref().map(|by_counter| by_counter.counters[task.index()])
    }

    pub(crate) fn take_awaited(&mut self) -> Option<VecDeque<Awaited>> {
        self.by_counter.as_mut().map(|by_counter| std::mem::take(&mut by_counter.awaited))
    }

    pub(crate) fn put_awaited(&mut self, awaited: VecDeque<Awaited>) {
        if let Some(by_counter) = &mut self.by_counter {
            by_counter.awaited = awaited;
        }
    }
}

#[cfg(test)]
mod tests {
    use am_double::{Config, network};

    use super::*;
    use crate::message::state::State;
    use crate::settings::Settings;

    /// A receive that completes in context takes a fast path, on which the other variants would not work.
    #[test]
    fn the_older_variants_are_not_plain() {
        for completion in [CompletionVariant::Thread, CompletionVariant::Counter] {
            let (_network, mut fabrics) = network(Config::new(1));
            let settings = Settings { completion, ..Settings::default() };
            let mut state = State::new(fabrics.pop().unwrap(), &settings).unwrap();
            assert!(!state.context.handlers_mut().completions.are_plain(), "{completion:?}");
        }
    }
}
