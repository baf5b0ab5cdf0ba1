//! The send or the receive queue of a VI: pending descriptors, and descriptors that are done.

use std::collections::VecDeque;
use std::time::Duration;

use crate::descriptor::{Descriptor, Status};
use crate::error::{PostError, VipError};
use crate::handle::ViHandle;
use crate::user_agent::UserAgent;
use am_via_nic::ViState;
use am_via_nic::device::Device;

/// One of a VI's two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Queue {
    /// Sends, RDMA writes and RDMA reads.
    Send,
    /// Receives.
    Receive,
}

/// A pending descriptor, and the error found when it was posted, which is reported in the order of the queue.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) descriptor: Box<Descriptor>,
    pub(crate) flaw: Option<Status>,
}

#[derive(Debug, Default)]
pub(crate) struct WorkQueue {
    pending: VecDeque<Pending>,
    done: VecDeque<Box<Descriptor>>,
}

impl WorkQueue {
    /// Number of the queue's descriptors, including those that are done and not dequeued.
    pub(crate) fn len(&self) -> usize {
        self.pending.len() + self.done.len()
    }

    pub(crate) fn post(&mut self, descriptor: Box<Descriptor>, flaw: Option<Status>) {
        self.pending.push_back(Pending { descriptor, flaw });
    }

    /// The first descriptor that is not done.
    pub(crate) fn head(&self) -> Option<&Pending> {
        self.pending.front()
    }

    /// Ends the first descriptor that is not done; `change` stores the result in it.
    pub(crate) fn complete(&mut self, change: impl FnOnce(&mut Descriptor)) {
        if let Some(Pending { mut descriptor, .. }) = self.pending.pop_front() {
            change(&mut descriptor);
            descriptor.status = descriptor.status | Status::DONE;
            self.done.push_back(descriptor);
        }
    }

    /// The oldest descriptor that is done.
    pub(crate) fn dequeue(&mut self) -> Option<Box<Descriptor>> {
        self.done.pop_front()
    }

    /// Whether a descriptor is done and not dequeued.
    pub(crate) fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// Whether no descriptor is pending.
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether the queue holds no descriptor at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.done.is_empty()
    }
}

impl<D: Device> UserAgent<D> {
    /// Posts a send, an RDMA write or an RDMA read (`VipPostSend`). A VI that is not connected flushes the descriptor at once.
    ///
    /// # Errors
    /// No such VI, or a full queue; the error contains the descriptor.
    pub fn post_send(&mut self, vi: ViHandle, descriptor: Box<Descriptor>) -> Result<(), PostError> {
        self.post(vi, Queue::Send, descriptor)?;
        self.carry_on(vi);
        Ok(())
    }

    /// Posts a receive (`VipPostRecv`). An idle VI keeps the descriptor until a connection is made; a VI in error flushes the descriptor at
    /// once.
    ///
    /// # Errors
    /// No such VI, or a full queue; the error contains the descriptor.
    pub fn post_recv(&mut self, vi: ViHandle, descriptor: Box<Descriptor>) -> Result<(), PostError> {
        self.post(vi, Queue::Receive, descriptor)
    }

    fn post(&mut self, vi: ViHandle, queue: Queue, mut descriptor: Box<Descriptor>) -> Result<(), PostError> {
        let limits = self.limits();
        let Some(found) = self.nic.vis.get_mut(vi.0) else {
            return Err(PostError { error: VipError::UnknownHandle { what: "VI" }, descriptor });
        };
        if found.work.queue(queue).len() >= limits.descriptors_per_queue_max as usize {
            let error = VipError::ErrorResource {
                resource: "descriptors of a work queue",
                available: u64::from(limits.descriptors_per_queue_max),
                remedy: "dequeue those that are done",
            };
            return Err(PostError { error, descriptor });
        }
        let mut flaw = descriptor.flaw(queue == Queue::Send, limits.segments_per_descriptor_max);
        if queue == Queue::Send && descriptor.length > found.work.attributes.transfer_bytes_max {
            flaw = flaw.or(Some(Status::LENGTH_ERROR));
        }
        descriptor.status = Status::default();
        found.work.queue_mut(queue).post(descriptor, flaw);
        let flushes = match queue {
            Queue::Send => !found.is_open(),
            Queue::Receive => found.state() == ViState::Error,
        };
        if flushes {
            self.flush_queue(vi, queue);
        }
        Ok(())
    }

    /// The next send that is done (`VipSendDone`); `None`: not yet. Makes progress, never blocks.
    ///
    /// # Errors
    /// No such VI.
    pub fn send_done(&mut self, vi: ViHandle) -> Result<Option<Box<Descriptor>>, VipError> {
        self.done(vi, Queue::Send)
    }

    /// The next receive that is done (`VipRecvDone`); `None`: not yet. Makes progress, never blocks.
    ///
    /// # Errors
    /// No such VI.
    pub fn recv_done(&mut self, vi: ViHandle) -> Result<Option<Box<Descriptor>>, VipError> {
        self.done(vi, Queue::Receive)
    }

    fn done(&mut self, vi: ViHandle, queue: Queue) -> Result<Option<Box<Descriptor>>, VipError> {
        if let Some(done) = self.vi(vi)?.work.queue_mut(queue).dequeue() {
            return Ok(Some(done));
        }
        self.progress();
        Ok(self.vi(vi)?.work.queue_mut(queue).dequeue())
    }

    /// Waits for the next send that is done (`VipSendWait`), without a limit if `timeout` is `None`.
    ///
    /// # Errors
    /// No such VI, or the time limit has passed.
    pub fn send_wait(
        &mut self,
        vi: ViHandle,
        timeout: Option<Duration>,
    ) -> Result<Box<Descriptor>, VipError> {
        self.wait_for(timeout, |agent| Ok(agent.vi(vi)?.work.sends.dequeue()))
    }

    /// Waits for the next receive that is done (`VipRecvWait`), without a limit if `timeout` is `None`.
    ///
    /// # Errors
    /// No such VI, or the time limit has passed.
    pub fn recv_wait(
        &mut self,
        vi: ViHandle,
        timeout: Option<Duration>,
    ) -> Result<Box<Descriptor>, VipError> {
        self.wait_for(timeout, |agent| Ok(agent.vi(vi)?.work.receives.dequeue()))
    }
}
