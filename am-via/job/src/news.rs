//! What hosts of one job tell each other of their tasks: where contexts are reached by the network, which tasks have failed, and whether the
//! program goes on after a failure.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use am_via_shm::layout::CONTEXTS_MAX;

use crate::{Cause, JobOwner};

/// What the tasks of all hosts must know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum News {
    /// Where a context of a task is reached by the network.
    Address {
        /// The task.
        task: u32,
        /// Its context.
        context: u32,
        /// The address, as the network device writes it.
        address: Vec<u8>,
    },
    /// A task has failed.
    Failed {
        /// The task.
        task: u32,
        /// Its [`Cause`], encoded.
        kind: u32,
        /// The cause's value.
        value: i32,
        /// What the task said last.
        words: String,
    },
    /// The program wants the job to go on when a task fails, or no longer.
    GoesOn(bool),
}

impl News {
    /// A task has failed for this cause.
    #[must_use]
    pub fn failed(task: u32, cause: Cause, words: String) -> Self {
        let (kind, value) = cause.encode();
        Self::Failed { task, kind, value, words }
    }
}

impl JobOwner {
    /// Writes news of another host into the files of this one.
    pub fn hear(&self, news: &News) {
        match news {
            News::Address { task, context, address } => self.set_network_address(*task, *context, address),
            News::Failed { task, kind, value, words } => {
                self.mark_dead(*task, Cause::decode(*kind, *value), words);
            }
            News::GoesOn(goes_on) => self.set_continue_on_failure(*goes_on),
        }
    }
}

/// Finds what is new of one host's tasks.
#[derive(Debug)]
pub struct OwnNews {
    job: Arc<JobOwner>,
    tasks: Vec<u32>,
    addresses: Vec<Option<Vec<u8>>>,
    failed: Vec<bool>,
    goes_on: bool,
}

impl OwnNews {
    /// Of the tasks of `job` that run on host number `host`, where `hosts` gives the host of each task.
    #[must_use]
    pub fn new(job: &Arc<JobOwner>, hosts: &[u32], host: u32) -> Self {
        let tasks: Vec<u32> = (0..).zip(hosts).filter(|&(_, &at)| at == host).map(|(task, _)| task).collect();
        Self {
            job: Arc::clone(job),
            addresses: vec![None; tasks.len() * CONTEXTS_MAX as usize],
            failed: vec![false; tasks.len()],
            tasks,
            goes_on: false,
        }
    }

    /// What is new since the last call.
    pub fn take(&mut self) -> Vec<News> {
        let mut news = Vec::new();
        let goes_on = self.job.continues_on_failure();
        if goes_on != std::mem::replace(&mut self.goes_on, goes_on) {
            news.push(News::GoesOn(goes_on));
        }
        for (index, &task) in self.tasks.iter().enumerate() {
            for context in 0..CONTEXTS_MAX {
                let address = self.job.network_address(task, context);
                let known = &mut self.addresses[index * CONTEXTS_MAX as usize + context as usize];
                if let Some(address) = address.filter(|address| known.as_ref() != Some(address)) {
                    *known = Some(address.clone());
                    news.push(News::Address { task, context, address });
                }
            }
            if !self.failed[index]
                && let Some((cause, words)) = self.job.failure_of(task)
            {
                self.failed[index] = true;
                news.push(News::failed(task, cause, words));
            }
        }
        news
    }
}
