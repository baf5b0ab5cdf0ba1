//! The handler thread: runs completion handlers that may take long, or communicate, beside the context's owner.
//!
//! It has no way to the engine. What a handler asks for is written down, and carried out by the owner at its next progress
//! (`LAPI`'s default place for completion handlers; the seed paper measures its cost against the two others).

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use am_core_engine::protocol::{End, Outgoing, ThreadJob};

use crate::context::Context;
use crate::counter::{Counter, CounterName};
use crate::error::{Error, Result};
use crate::fabric::{Fabric, Waker};
use crate::handler::{Deferred, HandlerId, HandlerSet};
use crate::task::Endpoint;
use crate::user_code::{self, Panicked};

/// Something that a handler on the thread has asked for.
#[derive(Debug)]
enum Asked {
    Amsend { target: Endpoint, handler: HandlerId, uhdr: Vec<u8>, udata: Vec<u8> },
    Bump(Counter),
}

/// A handler that has run.
#[derive(Debug)]
struct Ran {
    key: u32,
    asked: Vec<Asked>,
    /// Its panic, if it did.
    panicked: Option<Error>,
}

/// The thread of one context. Started at first use, joined when the context ends.
#[derive(Debug)]
pub(crate) struct HandlerThread {
    jobs: Option<Sender<ThreadJob>>,
    ran: Receiver<Ran>,
    thread: Option<JoinHandle<()>>,
}

impl HandlerThread {
    fn start(waker: Waker) -> Result<Self> {
        let (jobs, to_run) = channel::<ThreadJob>();
        let (report, ran) = channel();
        let run = move || {
            for job in to_run {
                let ran = run_job(job);
                if report.send(ran).is_err() {
                    return;
                }
                waker();
            }
        };
        let thread = std::thread::Builder::new().name("completion handlers".to_owned()).spawn(run).map_err(
            |source| Error::System { doing: "starting the handler thread", source: source.into() },
        )?;
        Ok(Self { jobs: Some(jobs), ran, thread: Some(thread) })
    }
}

impl Drop for HandlerThread {
    fn drop(&mut self) {
        // No more jobs: the thread finishes those it has, and ends.
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // It catches the handlers' panics, and has no other.
            let _ = thread.join();
        }
    }
}

fn run_job(ThreadJob { key, handler, delivered }: ThreadJob) -> Ran {
    let origin = delivered.source;
    let mut asked = Vec::new();
    let ran = user_code::caught(|| handler(delivered, &mut Recorder(&mut asked)));
    let panicked =
        ran.err().map(|Panicked { message }| Error::HandlerPanicked { kind: "completion", origin, message });
    Ran { key, asked, panicked }
}

/// Writes down what a handler asks for.
struct Recorder<'a>(&'a mut Vec<Asked>);

impl Deferred for Recorder<'_> {
    fn amsend(&mut self, target: Endpoint, handler: HandlerId, uhdr: &[u8], udata: Vec<u8>) {
        self.0.push(Asked::Amsend { target, handler, uhdr: uhdr.to_vec(), udata });
    }

    fn bump(&mut self, counter: Counter) {
        self.0.push(Asked::Bump(counter));
    }
}

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Hands jobs to the thread and carries out what handlers asked for; whether there was anything.
    ///
    /// # Errors
    /// A handler's panic, or a call of it that can't be carried out.
    pub(crate) fn work_on_thread(&mut self) -> Result<bool> {
        let mut moved = false;
        while let Some(job) = self.engine.take_thread_job() {
            moved = true;
            if self.thread.is_none() {
                self.thread = Some(HandlerThread::start(self.fabric.waker())?);
            }
            let jobs = self.thread.as_ref().and_then(|thread| thread.jobs.as_ref());
            // The thread lives as long as its sender.
            let _ = jobs.map(|jobs| jobs.send(job));
        }
        while let Some(ran) = self.thread.as_ref().and_then(|thread| thread.ran.try_recv().ok()) {
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
                let end = End { keep: Some(kept), ..End::default() };
                self.engine.send(&mut self.fabric, outgoing, source, end).map(|_| ())
            }
        }
    }
}
