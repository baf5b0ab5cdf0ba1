//! The messages between the hosts of a job about their tasks: network addresses of contexts, failures, tasks that have ended without
//! joining, and whether the program continues after a failure.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use am_via_shm::layout::CONTEXTS_MAX;

use crate::{Cause, JobOwner};

/// A fact that the tasks of all hosts must know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobNotice {
    /// The network address of a context of a task.
    Address {
        /// The task.
        task: u32,
        /// The number of the context.
        context: u32,
        /// The address, as the network device writes it.
        address: Vec<u8>,
    },
    /// A task has failed.
    Failed {
        /// The task.
        task: u32,
        /// The [`Cause`] of the failure, encoded.
        kind: u32,
        /// The cause's value.
        value: i32,
        /// The task's last words.
        words: String,
    },
    /// A task has ended with code 0 without joining the job. This is a failure if other tasks have joined.
    NeverJoined {
        /// The task.
        task: u32,
    },
    /// Whether the program wants the job to continue when a task fails.
    GoesOn(bool),
}

impl JobNotice {
    /// The failure of a task, with its cause.
    #[must_use]
    pub fn failed(task: u32, cause: Cause, words: String) -> Self {
        let (kind, value) = cause.encode();
        Self::Failed { task, kind, value, words }
    }

    /// The task that this is about; `None` if it is about the whole job.
    pub(crate) fn task(&self) -> Option<u32> {
        match self {
            Self::Address { task, .. } | Self::Failed { task, .. } | Self::NeverJoined { task } => {
                Some(*task)
            }
            Self::GoesOn(_) => None,
        }
    }
}

impl JobOwner {
    /// Writes a message of another host into this host's files.
    pub(crate) fn apply(&self, notice: &JobNotice) {
        match notice {
            JobNotice::Address { task, context, address } => {
                self.set_network_address(*task, *context, address)
            }
            JobNotice::Failed { task, kind, value, words } => {
                self.mark_dead(*task, Cause::decode(*kind, *value), words);
            }
            JobNotice::NeverJoined { task } => self.note_never_joined(*task),
            JobNotice::GoesOn(goes_on) => self.set_continue_on_failure(*goes_on),
        }
    }
}

/// Finds the notices about one host's tasks.
#[derive(Debug)]
pub(crate) struct OwnNotices {
    job: Arc<JobOwner>,
    tasks: Vec<u32>,
    addresses: Vec<Option<Vec<u8>>>,
    failed: Vec<bool>,
    never_joined: Vec<bool>,
    goes_on: bool,
}

impl OwnNotices {
    /// For notices about the tasks of `job` on host number `host`; `hosts` has the host of each task.
    pub(crate) fn new(job: &Arc<JobOwner>, hosts: &[u32], host: u32) -> Self {
        let tasks: Vec<u32> = (0..).zip(hosts).filter(|&(_, &at)| at == host).map(|(task, _)| task).collect();
        Self {
            job: Arc::clone(job),
            addresses: vec![None; tasks.len() * CONTEXTS_MAX as usize],
            failed: vec![false; tasks.len()],
            never_joined: vec![false; tasks.len()],
            tasks,
            // The launcher has told all hosts the same, before any of them looks.
            goes_on: job.continues_on_failure(),
        }
    }

    /// The notices since the last call.
    pub(crate) fn take(&mut self) -> Vec<JobNotice> {
        let mut notices = Vec::new();
        for (index, &task) in self.tasks.iter().enumerate() {
            for context in 0..CONTEXTS_MAX {
                let address = self.job.network_address(task, context);
                let known = &mut self.addresses[index * CONTEXTS_MAX as usize + context as usize];
                if let Some(address) = address.filter(|address| known.as_ref() != Some(address)) {
                    *known = Some(address.clone());
                    notices.push(JobNotice::Address { task, context, address });
                }
            }
            if !self.failed[index]
                && let Some((cause, words)) = self.job.failure_of(task)
            {
                self.failed[index] = true;
                notices.push(JobNotice::failed(task, cause, words));
            }
            if !self.never_joined[index] && self.job.has_never_joined(task) {
                self.never_joined[index] = true;
                notices.push(JobNotice::NeverJoined { task });
            }
        }
        // Read after the failures, and sent before them: a task that ends the job first takes back that the job goes on, and then fails.
        let goes_on = self.job.continues_on_failure();
        if goes_on != std::mem::replace(&mut self.goes_on, goes_on) {
            notices.insert(0, JobNotice::GoesOn(goes_on));
        }
        notices
    }
}
