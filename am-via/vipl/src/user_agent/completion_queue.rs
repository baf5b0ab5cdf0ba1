//! Completion queues: the completions of several work queues in one queue. An entry only names a VI and a queue, from which the descriptor
//! is then dequeued (`VipCQDone`).

use std::collections::VecDeque;
use std::time::Duration;

use crate::error::VipError;
use crate::handle::{CqHandle, ViHandle};
use crate::user_agent::UserAgent;
use crate::user_agent::work_queue::Queue;
use am_via_nic::device::Device;

/// Entry of a completion queue: a descriptor is done on this queue of this VI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CqEntry {
    /// The VI.
    pub vi: ViHandle,
    /// The work queue of that VI.
    pub queue: Queue,
}

#[derive(Debug)]
pub(crate) struct CompletionQueue {
    entries: VecDeque<CqEntry>,
    entries_max: usize,
    /// Number of work queues whose completions are reported here.
    pub(crate) work_queues: u32,
}

impl CompletionQueue {
    /// Adds an entry; `false`: the queue is full, and the entry is lost (the descriptor is not).
    pub(crate) fn push(&mut self, entry: CqEntry) -> bool {
        let is_below_max = self.entries.len() < self.entries_max;
        if is_below_max {
            self.entries.push_back(entry);
        }
        is_below_max
    }

    /// The oldest entry.
    pub(crate) fn pop(&mut self) -> Option<CqEntry> {
        self.entries.pop_front()
    }

    /// Removes the entries of a VI that is destroyed.
    pub(crate) fn forget(&mut self, vi: ViHandle) {
        self.entries.retain(|entry| entry.vi != vi);
    }
}

impl<D: Device> UserAgent<D> {
    /// Makes a completion queue of `entries_max` entries (`VipCreateCQ`).
    ///
    /// # Errors
    /// `entries_max` is 0 or more than the NIC allows, or no queue is left.
    pub fn create_cq(&mut self, entries_max: u32) -> Result<CqHandle, VipError> {
        let limits = self.limits();
        check_entries(entries_max, limits.cq_entries_max)?;
        if self.cqs.count() >= limits.cqs_max {
            return Err(VipError::ErrorResource {
                resource: "completion queues",
                available: u64::from(limits.cqs_max),
                remedy: "destroy one first",
            });
        }
        let queue =
            CompletionQueue { entries: VecDeque::new(), entries_max: entries_max as usize, work_queues: 0 };
        Ok(CqHandle(self.cqs.insert(queue)))
    }

    /// Changes the capacity of a completion queue (`VipResizeCQ`). Its entries stay.
    ///
    /// # Errors
    /// No such queue, or `entries_max` is 0, more than the NIC allows, or less than the number of the queue's entries. The queue is then
    /// unchanged.
    pub fn resize_cq(&mut self, cq: CqHandle, entries_max: u32) -> Result<(), VipError> {
        let limit = self.limits().cq_entries_max;
        let found = self.cq(cq)?;
        check_entries(entries_max, limit)?;
        if found.entries.len() > entries_max as usize {
            return Err(VipError::ErrorResource {
                resource: "entries of the resized completion queue",
                available: u64::from(entries_max),
                remedy: "take its entries first",
            });
        }
        found.entries_max = entries_max as usize;
        Ok(())
    }

    /// Destroys a completion queue (`VipDestroyCQ`).
    ///
    /// # Errors
    /// No such queue, or a work queue is still associated with it.
    pub fn destroy_cq(&mut self, cq: CqHandle) -> Result<(), VipError> {
        let work_queues = self.cq(cq)?.work_queues;
        if work_queues > 0 {
            return Err(VipError::InUse { what: "completion queue", users: work_queues });
        }
        self.cqs.remove(cq.0);
        self.forget_cq_notice(cq);
        Ok(())
    }

    /// The next completion (`VipCQDone`); `None`: not yet. Makes progress, never blocks.
    ///
    /// # Errors
    /// No such queue.
    pub fn cq_done(&mut self, cq: CqHandle) -> Result<Option<CqEntry>, VipError> {
        if let Some(entry) = self.cq(cq)?.pop() {
            return Ok(Some(entry));
        }
        self.progress();
        Ok(self.cq(cq)?.pop())
    }

    /// Waits for the next completion (`VipCQWait`), without a limit if `timeout` is `None`.
    ///
    /// # Errors
    /// No such queue, or the time limit has passed.
    pub fn cq_wait(&mut self, cq: CqHandle, timeout: Option<Duration>) -> Result<CqEntry, VipError> {
        self.wait_for(timeout, |agent| Ok(agent.cq(cq)?.pop()))
    }

    pub(crate) fn cq(&mut self, cq: CqHandle) -> Result<&mut CompletionQueue, VipError> {
        self.cqs.get_mut(cq.0).ok_or(VipError::UnknownHandle { what: "completion queue" })
    }
}

fn check_entries(entries_max: u32, limit: u32) -> Result<(), VipError> {
    if entries_max == 0 || entries_max > limit {
        return Err(VipError::InvalidParameter {
            what: "the number of entries of a completion queue",
            given: u64::from(entries_max),
            least: 1,
            most: u64::from(limit),
        });
    }
    Ok(())
}
