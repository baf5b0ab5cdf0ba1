//! The hosts of a job's tasks, and their network addresses.
//!
//! Each host of a job has all memory files, including those for the tasks of other hosts, since a task's stores into them are sent over the
//! network. The files are sparse, so only pages in use need memory. The hosts' launchers exchange addresses and deaths.

use am_via_os::atomics::Ordering;

use crate::entries::Entries;
use crate::settings::Device;
use crate::{Cause, JobOwner};

/// The number of the group of tasks with which a task shares memory: its host (`u32::MAX` for a task outside the job), or the task itself
/// if the setting `device` is `ofi`.
pub(super) fn host(table: &Entries, device: Device, task: u32) -> u32 {
    match device {
        Device::Shm => table.get(task).map_or(u32::MAX, |entry| entry.host.load(Ordering::Relaxed)),
        Device::Ofi => task,
    }
}

impl JobOwner {
    /// The network address of a context of a task, once it is known. Written by the task, so not to be trusted.
    #[must_use]
    pub fn network_address(&self, task: u32, context: u32) -> Option<Vec<u8>> {
        self.table.get(task)?.network.get(context as usize)?.read()
    }

    /// The cause of a task's failure, and its last words; `None` if it has not failed. Written by the task, so not to be trusted.
    #[must_use]
    pub fn failure_of(&self, task: u32) -> Option<(Cause, String)> {
        let entry = self.table.get(task).filter(|_| self.header.is_failed(task))?;
        let cause = entry.cause().map_or(Cause::Vanished, |(kind, value)| Cause::decode(kind, value));
        Some((cause, entry.last_words.read()))
    }

    /// Whether `task` is known to run on another host than the tasks that have joined the job through these files.
    #[must_use]
    pub fn is_elsewhere(&self, task: u32) -> bool {
        let host = |task: u32| self.table.get(task).map(|entry| entry.host.load(Ordering::Relaxed));
        let here = self.table.tasks().find(|&task| self.has_joined(task));
        here.is_some_and(|here| host(here) != host(task))
    }

    /// Sets whether the job continues when a task fails, as the program has requested on another host.
    pub fn set_continue_on_failure(&self, goes_on: bool) {
        self.header.continue_on_failure.store(u32::from(goes_on), Ordering::Relaxed);
    }

    /// Stores the network address of a context of a task of another host.
    pub fn set_network_address(&self, task: u32, context: u32, address: &[u8]) {
        let place = self.table.get(task).and_then(|entry| entry.network.get(context as usize));
        if !place.is_some_and(|place| place.write(address)) {
            tracing::warn!(task, context, "a network address does not fit and is dropped");
        }
    }
}
