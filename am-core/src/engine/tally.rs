//! How many of something each endpoint has; endpoints with none cost nothing.

use std::collections::HashMap;

use crate::task::Endpoint;

/// A count for each endpoint.
#[derive(Debug, Default)]
pub(crate) struct Tally(HashMap<Endpoint, usize>);

impl Tally {
    pub(crate) fn add(&mut self, endpoint: Endpoint) {
        *self.0.entry(endpoint).or_insert(0) += 1;
    }

    pub(crate) fn subtract(&mut self, endpoint: Endpoint) {
        if let Some(count) = self.0.get_mut(&endpoint) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&endpoint);
            }
        }
    }

    pub(crate) fn of(&self, endpoint: Endpoint) -> usize {
        self.0.get(&endpoint).copied().unwrap_or(0)
    }

    pub(crate) fn has(&self, endpoint: Endpoint) -> bool {
        self.0.contains_key(&endpoint)
    }
}

/// The endpoints that packets were sent to since the last fence.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// For each task, one bit a context.
    contexts: Vec<u16>,
}

impl Touched {
    pub(crate) fn new(num_tasks: u32) -> Self {
        Self { contexts: vec![0; num_tasks as usize] }
    }

    /// A few instructions: the message path calls this for each packet.
    #[inline(always)]
    pub(crate) fn mark(&mut self, endpoint: Endpoint) {
        if let Some(contexts) = self.contexts.get_mut(endpoint.task.index()) {
            *contexts |= 1 << (endpoint.context.0 & 15);
        }
    }

    /// The endpoints marked so far.
    pub(crate) fn list(&self) -> Vec<Endpoint> {
        let mut list = Vec::new();
        for (task, contexts) in (0..).zip(&self.contexts) {
            for context in (0..16).filter(|bit| contexts & 1 << bit != 0) {
                list.push(Endpoint::new(crate::task::TaskId(task), crate::task::ContextNumber(context)));
            }
        }
        list
    }

    /// Takes the mark off one endpoint.
    pub(crate) fn clear(&mut self, endpoint: Endpoint) {
        if let Some(contexts) = self.contexts.get_mut(endpoint.task.index()) {
            *contexts &= !(1 << (endpoint.context.0 & 15));
        }
    }
}
