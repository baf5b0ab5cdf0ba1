//! The device's knowledge of the job.

use std::time::Duration;

use am_via_job::Carrier;

use super::{Shm, files};
use crate::device::{Endpoint, SystemError, TaskId, WaitFacts, Waker, World};

impl World for Shm {
    #[inline(always)]
    fn endpoint(&self) -> Endpoint {
        self.address
    }

    #[inline(always)]
    fn num_tasks(&self) -> u32 {
        self.job.num_tasks()
    }

    fn first_task(&self) -> TaskId {
        TaskId(self.job.first_task())
    }

    fn tasks_end(&self) -> u32 {
        self.job.tasks_end()
    }

    fn tasks_at_start(&self) -> u32 {
        self.job.began_with()
    }

    fn world(&self) -> u32 {
        self.job.world()
    }

    fn hold(&self, TaskId(task): TaskId) -> bool {
        self.job.hold(task)
    }

    fn held_and_ended(&self) -> Vec<TaskId> {
        self.job.held_and_ended().into_iter().map(TaskId).collect()
    }

    fn set_connected(&self, is_connected: bool) {
        self.job.set_connected(is_connected);
    }

    #[inline(always)]
    fn wait(&mut self, polls: u32, limit: Duration) -> bool {
        polls >= self.eager_polls && self.wait_longer(polls, limit)
    }

    fn note_wait(&mut self, facts: WaitFacts) {
        self.note_long_wait(facts);
    }

    fn failure(&self, TaskId(task): TaskId) -> Option<String> {
        self.job.failure_of(task)
    }

    fn end_of_job(&self) -> Option<String> {
        self.files.end_of_job()
    }

    fn job_is_about_to_end(&self) -> bool {
        self.files.job_is_about_to_end()
    }

    fn has_closed(&mut self, nic: Endpoint) -> bool {
        self.files.is_closed(nic).unwrap_or(false)
    }

    fn cause_of_death(&self, TaskId(task): TaskId) -> Option<String> {
        self.files.cause_of_death(task)
    }

    fn has_ended(&self, TaskId(task): TaskId) -> bool {
        self.files.has_certainly_ended(task)
    }

    fn host(&self, TaskId(task): TaskId) -> u32 {
        self.job.host(task)
    }

    fn ring(&mut self, to: Endpoint) -> Result<(), SystemError> {
        // A task on another host waits for entries, which wake it.
        let is_far = self.far.is_some() && self.job.is_far(to.task.0);
        if is_far { Ok(()) } else { self.files.ring(to, self.barrier) }
    }

    fn fail(&mut self, why: &str) {
        self.files.fail(why);
    }

    fn waker(&self) -> Waker {
        files::waker(self.doorbell.clone())
    }
}
