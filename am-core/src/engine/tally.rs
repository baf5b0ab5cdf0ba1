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
    contexts_max: u8,
}

/// Contexts of a task that have a bit.
const BITS: u8 = 16;

impl Touched {
    pub(crate) fn new(num_tasks: u32, contexts_max: u8) -> Self {
        assert!(contexts_max <= BITS, "a fabric has at most {BITS} contexts a task (`Limits::contexts_max`)");
        Self { contexts: vec![0; num_tasks as usize], contexts_max }
    }

    /// A few instructions: the message path calls this for each packet, before the fabric refuses an endpoint that the job cannot
    /// have. Such a one leaves no mark.
    #[inline(always)]
    pub(crate) fn mark(&mut self, endpoint: Endpoint) {
        if let Some((contexts, bit)) = self.bit(endpoint) {
            *contexts |= bit;
        }
    }

    /// The endpoints marked so far.
    pub(crate) fn list(&self) -> Vec<Endpoint> {
        let mut list = Vec::new();
        for (task, contexts) in (0..).zip(&self.contexts) {
            for context in (0..BITS).filter(|bit| contexts & 1 << bit != 0) {
                list.push(Endpoint::new(crate::task::TaskId(task), crate::task::ContextNumber(context)));
            }
        }
        list
    }

    /// Takes the mark off one endpoint.
    pub(crate) fn clear(&mut self, endpoint: Endpoint) {
        if let Some((contexts, bit)) = self.bit(endpoint) {
            *contexts &= !bit;
        }
    }

    #[inline(always)]
    fn bit(&mut self, endpoint: Endpoint) -> Option<(&mut u16, u16)> {
        let context = endpoint.context.0;
        let contexts = self.contexts.get_mut(endpoint.task.index())?;
        (context < self.contexts_max).then_some((contexts, 1 << (context % BITS)))
    }
}
