//! The send or the receive queue of a VI: descriptors that wait for their turn, and descriptors that are done.

use std::collections::VecDeque;

use crate::vipl::descriptor::{Descriptor, Status};

/// Which of a VI's two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Queue {
    /// Sends, RDMA writes and RDMA reads.
    Send,
    /// Receives.
    Receive,
}

/// A descriptor that waits, with what was seen to be wrong with it at the post: the error shows at its turn, in order.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) descriptor: Box<Descriptor>,
    pub(super) flaw: Option<Status>,
}

/// The queue.
#[derive(Debug)]
pub(super) struct WorkQueue {
    pending: VecDeque<Pending>,
    done: VecDeque<Box<Descriptor>>,
    descriptors_max: usize,
}

impl WorkQueue {
    pub(super) fn new(descriptors_max: u32) -> Self {
        Self { pending: VecDeque::new(), done: VecDeque::new(), descriptors_max: descriptors_max as usize }
    }

    /// Whether one more descriptor fits.
    pub(super) fn has_room(&self) -> bool {
        self.pending.len() + self.done.len() < self.descriptors_max
    }

    pub(super) fn post(&mut self, descriptor: Box<Descriptor>, flaw: Option<Status>) {
        self.pending.push_back(Pending { descriptor, flaw });
    }

    /// The descriptor whose turn it is.
    pub(super) fn head(&self) -> Option<&Pending> {
        self.pending.front()
    }

    /// Ends the descriptor whose turn it is: `change` writes the outcome into it.
    pub(super) fn complete(&mut self, change: impl FnOnce(&mut Descriptor)) {
        if let Some(Pending { mut descriptor, .. }) = self.pending.pop_front() {
            change(&mut descriptor);
            descriptor.status = descriptor.status | Status::DONE;
            self.done.push_back(descriptor);
        }
    }

    /// The oldest descriptor that is done.
    pub(super) fn dequeue(&mut self) -> Option<Box<Descriptor>> {
        self.done.pop_front()
    }

    /// Whether a descriptor is done and not dequeued.
    pub(super) fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// Whether nothing waits.
    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether it holds no descriptor at all.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.done.is_empty()
    }
}
