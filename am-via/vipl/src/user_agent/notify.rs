//! Handlers for completions (`VipSendNotify`, `VipRecvNotify`, `VipCQNotify`) and for asynchronous errors
//! (`VipErrorCallback`). Handlers run inside the program's calls that make progress; no thread is started.

use std::collections::HashMap;
use std::fmt;

use crate::descriptor::Descriptor;
use crate::error::{AsyncError, VipError};
use crate::handle::{CqHandle, ViHandle};
use crate::user_agent::UserAgent;
use crate::user_agent::completion_queue::CqEntry;
use crate::user_agent::work_queue::Queue;
use am_via_nic::device::Device;

/// Called once, with a descriptor that is done. The handler may post, and set a handler again.
pub type DescriptorHandler<D> = Box<dyn FnOnce(&mut UserAgent<D>, ViHandle, Box<Descriptor>) + Send>;
/// Called once, with an entry of a completion queue.
pub type CqHandler<D> = Box<dyn FnOnce(&mut UserAgent<D>, CqEntry) + Send>;
/// Called for every asynchronous error.
pub type ErrorHandler<D> = Box<dyn FnMut(&mut UserAgent<D>, AsyncError) + Send>;

/// The handlers of a NIC.
pub(crate) struct Notices<D: Device> {
    queues: HashMap<(ViHandle, Queue), DescriptorHandler<D>>,
    cqs: HashMap<CqHandle, CqHandler<D>>,
    errors: Option<ErrorHandler<D>>,
    /// Whether the running error handler has set or removed the error handler.
    errors_changed: bool,
    /// Whether a handler is running: handlers that become due meanwhile run after it.
    running: bool,
}

impl<D: Device> Default for Notices<D> {
    fn default() -> Self {
        Self {
            queues: HashMap::new(),
            cqs: HashMap::new(),
            errors: None,
            errors_changed: false,
            running: false,
        }
    }
}

impl<D: Device> fmt::Debug for Notices<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notices")
            .field("queues", &self.queues.keys())
            .field("cqs", &self.cqs.keys())
            .field("errors", &self.errors.is_some())
            .finish_non_exhaustive()
    }
}

impl<D: Device> UserAgent<D> {
    /// Calls `handler` once, with the next send of this VI that is done (`VipSendNotify`).
    ///
    /// # Errors
    /// No such VI, or a handler is already set.
    pub fn send_notify(&mut self, vi: ViHandle, handler: DescriptorHandler<D>) -> Result<(), VipError> {
        self.notify(vi, Queue::Send, handler)
    }

    /// Calls `handler` once, with the next receive of this VI that is done (`VipRecvNotify`).
    ///
    /// # Errors
    /// No such VI, or a handler is already set.
    pub fn recv_notify(&mut self, vi: ViHandle, handler: DescriptorHandler<D>) -> Result<(), VipError> {
        self.notify(vi, Queue::Receive, handler)
    }

    fn notify(&mut self, vi: ViHandle, queue: Queue, handler: DescriptorHandler<D>) -> Result<(), VipError> {
        self.vi(vi)?;
        match self.notices.queues.entry((vi, queue)) {
            std::collections::hash_map::Entry::Occupied(_) => {
                Err(VipError::InUse { what: "notification of the work queue", users: 1 })
            }
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(handler);
                Ok(())
            }
        }
    }

    /// Calls `handler` once, with the next entry of this completion queue (`VipCQNotify`).
    ///
    /// # Errors
    /// No such queue, or a handler is already set.
    pub fn cq_notify(&mut self, cq: CqHandle, handler: CqHandler<D>) -> Result<(), VipError> {
        self.cq(cq)?;
        match self.notices.cqs.entry(cq) {
            std::collections::hash_map::Entry::Occupied(_) => {
                Err(VipError::InUse { what: "notification of the completion queue", users: 1 })
            }
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(handler);
                Ok(())
            }
        }
    }

    /// Calls `handler` for every asynchronous error from now on (`VipErrorCallback`), including earlier errors that were not taken. `None`:
    /// removes the handler, and [`next_error`](Self::next_error) returns the errors.
    pub fn error_callback(&mut self, handler: Option<ErrorHandler<D>>) {
        self.notices.errors = handler;
        self.notices.errors_changed = true;
    }

    /// Runs the handlers that are due.
    pub(crate) fn run_notices(&mut self) {
        let Notices { queues, cqs, errors, running, .. } = &self.notices;
        if *running || queues.is_empty() && cqs.is_empty() && errors.is_none() {
            return;
        }
        self.notices.running = true;
        self.run_error_handler();
        let armed: Vec<_> = self.notices.queues.keys().copied().collect();
        for (vi, queue) in armed {
            let ready = self.nic.vis.get(vi.0).is_some_and(|found| found.work.queue(queue).has_done());
            let handler = if ready { self.notices.queues.remove(&(vi, queue)) } else { None };
            let Some(handler) = handler else { continue };
            if let Some(done) =
                self.nic.vis.get_mut(vi.0).and_then(|found| found.work.queue_mut(queue).dequeue())
            {
                handler(self, vi, done);
            }
        }
        let armed: Vec<_> = self.notices.cqs.keys().copied().collect();
        for cq in armed {
            let Some(entry) = self.cqs.get_mut(cq.0).and_then(|found| found.pop()) else { continue };
            if let Some(handler) = self.notices.cqs.remove(&cq) {
                handler(self, entry);
            }
        }
        self.notices.running = false;
    }

    fn run_error_handler(&mut self) {
        while let Some(mut handler) = self.notices.errors.take() {
            let Some(error) = self.next_error() else {
                self.notices.errors = Some(handler);
                return;
            };
            self.notices.errors_changed = false;
            handler(self, error);
            if !self.notices.errors_changed {
                self.notices.errors = Some(handler);
            }
        }
    }

    pub(crate) fn forget_notices(&mut self, vi: ViHandle) {
        self.notices.queues.retain(|(of, _), _| *of != vi);
    }

    pub(crate) fn forget_cq_notice(&mut self, cq: CqHandle) {
        self.notices.cqs.remove(&cq);
    }
}
