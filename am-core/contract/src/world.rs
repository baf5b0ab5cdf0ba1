//! The job, as a device knows it: its tasks, their deaths, and how to wait.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::error::Error;
use core::time::Duration;

use crate::task::{Endpoint, TaskId};
use crate::wait::{WaitFacts, Waker};

/// Number of empty polls that means "sleep at once" ([`World::wait`]).
pub const NO_SPIN: u32 = u32::MAX / 2;

/// A call of the operating system, or of a library below, that failed.
#[derive(Debug, thiserror::Error)]
#[error("{doing}: {source}")]
pub struct SystemError {
    /// The operation that failed.
    pub doing: &'static str,
    /// Why.
    pub source: Box<dyn Error + Send + Sync>,
}

/// The job: its tasks, their deaths, and how to wait. A device implements it, and the layers above ask the device itself.
pub trait World {
    /// The endpoint that this device was opened as.
    fn endpoint(&self) -> Endpoint;

    /// Number of tasks that were started together with this one, and so have consecutive numbers: its *world*. A job has one world, unless
    /// tasks have started others.
    fn num_tasks(&self) -> u32;

    /// The first of these tasks.
    fn first_task(&self) -> TaskId {
        TaskId(0)
    }

    /// The numbers of all tasks of the job, also of those that tasks have started so far, are lower than this.
    fn tasks_end(&self) -> u32 {
        self.num_tasks()
    }

    /// Number of tasks that the job began with.
    fn tasks_at_start(&self) -> u32 {
        self.num_tasks()
    }

    /// A number that no other world of the job has.
    fn world(&self) -> u32 {
        0
    }

    /// Notes that this task may name `task` as a target, so that no other task gets that number, until the fabric's `forget`. Returns
    /// whether the job has such a task, which may have ended.
    fn hold(&self, task: TaskId) -> bool {
        task.0 < self.num_tasks()
    }

    /// The tasks that this task holds and that have ended.
    fn held_and_ended(&self) -> Vec<TaskId> {
        Vec::new()
    }

    /// Says whether this task shares anything with tasks of other worlds, which its failure then concerns.
    fn set_connected(&self, _is_connected: bool) {}

    /// Called in a blocking wait after a poll without an event: spins, yields or sleeps, depending on the machine's load. `polls` is the
    /// number of consecutive polls without an event ([`NO_SPIN`]: sleep at once), and `limit` the longest sleep. An event ends the call
    /// early. Returns whether the wait has lasted so long (a second or more) that it should be noted by [`note_wait`](Self::note_wait).
    fn wait(&mut self, polls: u32, limit: Duration) -> bool;

    /// Notes what this task waits for, where the launcher can read it. If a task in [`WaitFacts::needed`] is known to have closed its
    /// context of the same number, a poll reports this, even if there was no connection to that context. The default, for devices without
    /// a launcher that report every closed context, does nothing.
    fn note_wait(&mut self, _facts: WaitFacts) {}

    /// Whether `task` is known to have died, and how.
    fn failure(&self, task: TaskId) -> Option<String>;

    /// How a task died whose memory a transfer has found to be gone. If the launcher has not reported the death yet, waits briefly for the
    /// report, which names the cause.
    fn cause_of_death(&self, task: TaskId) -> Option<String> {
        self.failure(task)
    }

    /// Whether the process of `task` has certainly ended and can no longer change memory. A failed task may still run. `false` if this is
    /// not known.
    fn has_ended(&self, task: TaskId) -> bool;

    /// Whether a context is known to have been closed by its task.
    fn has_closed(&mut self, _endpoint: Endpoint) -> bool {
        false
    }

    /// Why the job is about to end: its first failure, unless the program has asked the job to continue.
    fn end_of_job(&self) -> Option<String> {
        None
    }

    /// Whether the job ends now or shortly. The call waits briefly for the end, because a failing task takes its memory back before its
    /// failure is known.
    fn job_is_about_to_end(&self) -> bool {
        self.end_of_job().is_some()
    }

    /// The number of the host of `task`. Tasks on one host can share memory.
    fn host(&self, _task: TaskId) -> u32 {
        0
    }

    /// Ends the current or next wait of `to`, after a change in memory such as a released lock. The call carries no data and takes no
    /// credit; several calls before `to` looks count as one. In a device that writes memory by packets, these end the wait, and the call
    /// does nothing.
    ///
    /// # Errors
    /// The doorbell of `to` cannot be opened. [`Endpoint::check`] has accepted `to`.
    fn ring(&mut self, _to: Endpoint) -> Result<(), SystemError> {
        Ok(())
    }

    /// Marks this task as failed, for all peers to see; for example when it unwinds out of an operation.
    fn fail(&mut self, why: &str);

    /// A function that wakes this device's owner, from any thread.
    fn waker(&self) -> Waker;
}
