//! The handler thread: runs completion handlers that take long or communicate, concurrently with the context's owner.
//!
//! The thread has no access to the engine. A handler's requests are recorded, and the owner carries them out when it next makes progress.
//! This is LAPI's default for completion handlers.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use am_core_engine::protocol::ThreadJob;

use crate::counter::Counter;
use crate::error::{Error, Result};
use crate::fabric::Waker;
use crate::handler::{Deferred, HandlerId};
use crate::task::Endpoint;
use crate::user_code::{self, Panicked};

/// A request of a handler on the thread.
#[derive(Debug)]
pub(crate) enum Asked {
    Amsend { target: Endpoint, handler: HandlerId, uhdr: Vec<u8>, udata: Vec<u8> },
    Bump(Counter),
}

/// A handler that has finished.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) key: u32,
    pub(crate) asked: Vec<Asked>,
    /// The panic of the handler, if it panicked.
    pub(crate) panicked: Option<Error>,
}

/// The thread of one context. Started at first use, joined when the context ends.
#[derive(Debug)]
pub(crate) struct HandlerThread {
    jobs: Option<Sender<ThreadJob>>,
    ran: Receiver<Ran>,
    thread: Option<JoinHandle<()>>,
}

impl HandlerThread {
    pub(crate) fn start(waker: Waker) -> Result<Self> {
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

    /// Passes a job to the thread.
    pub(crate) fn hand_over(&self, job: ThreadJob) {
        // The thread lives as long as its sender, so the send does not fail.
        let _ = self.jobs.as_ref().map(|jobs| jobs.send(job));
    }

    /// The earliest finished handler that was not taken yet.
    pub(crate) fn take_ran(&self) -> Option<Ran> {
        self.ran.try_recv().ok()
    }
}

impl Drop for HandlerThread {
    fn drop(&mut self) {
        // Without a sender the thread finishes its jobs and ends.
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // The thread catches the panics of handlers, and does not panic otherwise.
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

/// Records a handler's requests.
struct Recorder<'a>(&'a mut Vec<Asked>);

impl Deferred for Recorder<'_> {
    fn amsend(&mut self, target: Endpoint, handler: HandlerId, uhdr: &[u8], udata: Vec<u8>) {
        self.0.push(Asked::Amsend { target, handler, uhdr: uhdr.to_vec(), udata });
    }

    fn bump(&mut self, counter: Counter) {
        self.0.push(Asked::Bump(counter));
    }
}
