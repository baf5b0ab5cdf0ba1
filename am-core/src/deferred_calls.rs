//! Carries out what completion handlers on the handler thread have requested, and sends what the handler set wants.

use am_core_engine::protocol::{End, Outgoing};

use crate::context::Context;
use crate::counter::CounterName;
use crate::error::{Error, Result};
use crate::fabric::{Fabric, World};
use crate::handler::{HandlerSet, Wanted};
use crate::handler_thread::{Asked, HandlerThread};
use crate::task::Target as _;

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Sends the messages of the handler set, gives jobs to the handler thread, and carries out requests of its handlers; returns whether
    /// there were any.
    ///
    /// # Errors
    /// The thread cannot be started; the panic of a handler; the error of a request or of an answer.
    pub(crate) fn work_on_thread(&mut self) -> Result<bool> {
        let mut moved = self.engine.has_calls() && self.make_calls()?;
        while let Some(ran) = self.thread.as_ref().and_then(HandlerThread::take_ran) {
            moved = true;
            let has_panicked = ran.panicked.is_some();
            let mut result = ran.panicked.map_or(Ok(()), Err);
            for asked in ran.asked {
                result = result.and(self.carry_out_asked(asked));
            }
            let done = self.engine.thread_done(ran.key, has_panicked, &mut self.fabric);
            result.and(done)?;
        }
        Ok(moved)
    }

    /// Sends the messages that the handler set wants, and gives jobs to the handler thread; returns whether there were any.
    #[cold]
    fn make_calls(&mut self) -> Result<bool> {
        let mut moved = self.send_wanted()?;
        while self.engine.has_thread_jobs() {
            // If the thread cannot be started now, the jobs stay queued.
            let thread = match &self.thread {
                Some(thread) => thread,
                None => self.thread.insert(HandlerThread::start(self.fabric.world().waker())?),
            };
            if let Some(job) = self.engine.take_thread_job() {
                moved = true;
                thread.hand_over(job);
            }
        }
        self.engine.calls_are_made();
        Ok(moved)
    }

    /// Sends the messages that the handler set wants; returns whether there were any. Never waits. Messages to a task that has failed or
    /// has closed its context are dropped. A layer above calls this after it has changed its set outside a handler.
    ///
    /// # Errors
    /// The first error of a message to another task, after all were tried: a user header that is too long; too many operations.
    pub fn send_wanted(&mut self) -> Result<bool> {
        let (mut moved, mut result) = (false, Ok(()));
        while let Some(Wanted { to, handler, uhdr, udata }) = self.handlers.next_wanted() {
            moved = true;
            let target = to.seen_from(self.endpoint().context);
            match self.carry_out_asked(Asked::Amsend { target, handler, uhdr, udata }) {
                Ok(()) | Err(Error::PeerFailed { .. } | Error::ContextClosed { .. }) => {}
                Err(error) => result = result.and(Err(error)),
            }
        }
        result.map(|()| moved)
    }

    fn carry_out_asked(&mut self, asked: Asked) -> Result<()> {
        match asked {
            Asked::Bump(counter) => self.engine.bump_claimed(CounterName::to_wire(Some(counter.name()))),
            Asked::Amsend { target, handler, uhdr, udata } => {
                let outgoing = Outgoing {
                    target,
                    handler,
                    uhdr: &uhdr,
                    target_counter: 0,
                    completion_counter: 0,
                    answerable: true,
                    announce: false,
                };
                let kept = crate::buffer::JobBuffer::from(udata);
                let source = crate::buffer::memory_of(&kept).as_bytes();
                let end = End { keep: Some(Box::new(kept)), ..End::default() };
                self.engine.send(&mut self.fabric, outgoing, source, end).map(|_| ())
            }
        }
    }
}
