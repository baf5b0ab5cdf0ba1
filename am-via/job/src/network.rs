//! Which tasks of a job run on which host, and where they are reached by the network.
//!
//! Each host of a job has all its memory files, those of the tasks of other hosts too: what a task writes there goes over the network. Such
//! files are sparse, so they cost what is written to them. The hosts' launchers tell each other the addresses and the deaths.

use am_via_os::atomics::Ordering;
use am_via_shm::Shared;
use am_via_shm::layout_job::TaskEntry;

use crate::settings::Device;
use crate::{Cause, JobOwner};

/// The host of a task, as far as shared memory goes: by the setting `device` each task is one of its own. That of a task that there is
/// not is nobody's.
pub(super) fn host(entries: &[Shared<TaskEntry>], device: Device, task: u32) -> u32 {
    match device {
        Device::Shm => {
            entries.get(task as usize).map_or(u32::MAX, |entry| entry.host.load(Ordering::Relaxed))
        }
        Device::Ofi => task,
    }
}

impl JobOwner {
    /// Where a context of a task is reached by the network, once that is known. A claim of the task.
    #[must_use]
    pub fn network_address(&self, task: u32, context: u32) -> Option<Vec<u8>> {
        self.entries.get(task as usize)?.network.get(context as usize)?.read()
    }

    /// How a task has failed, if it has, and what it said last. A claim.
    #[must_use]
    pub fn failure_of(&self, task: u32) -> Option<(Cause, String)> {
        let entry = self.entries.get(task as usize).filter(|_| self.header.is_failed(task))?;
        let cause = entry.cause().map_or(Cause::Vanished, |(kind, value)| Cause::decode(kind, value));
        Some((cause, entry.last_words.read()))
    }

    /// Says for the program, which has said so on another host, that the job goes on when a task fails.
    pub fn set_continue_on_failure(&self, goes_on: bool) {
        self.header.continue_on_failure.store(u32::from(goes_on), Ordering::Relaxed);
    }

    /// Says where a context of a task of another host is reached.
    pub fn set_network_address(&self, task: u32, context: u32, address: &[u8]) {
        let place = self.entries.get(task as usize).and_then(|entry| entry.network.get(context as usize));
        if !place.is_some_and(|place| place.write(address)) {
            tracing::warn!(task, context, "a network address that cannot be kept");
        }
    }
}
