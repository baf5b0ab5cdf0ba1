//! What a poll does besides taking messages from rings: it removes quiet rings, and finds new connections of peers, failed tasks, peers
//! that close, and network events.

use std::time::Instant;

use am_contract::task::TaskId;
use am_contract::wait::WaitFacts;

use super::{Shm, TIME_TO_FAIL, Vi};
use crate::device::{DeviceError, Endpoint, News};

impl Shm {
    /// Removes rings without recent entries from the poll set.
    #[cold]
    #[inline(never)]
    pub(super) fn park_quiet(&mut self) {
        self.quiet_polls = 0;
        let mut parked = Vec::new();
        let vis = &mut self.vis;
        self.polled.retain(|&number| {
            let Some(Some(vi)) = vis.get_mut(number as usize) else { return false };
            let consumed = vi.connection.consumed();
            let quiet = consumed == vi.consumed_when_last_counted;
            vi.consumed_when_last_counted = consumed;
            if quiet {
                vi.connection.set_parked(true);
                parked.push(number);
            }
            !quiet
        });
        if parked.is_empty() {
            return;
        }
        self.barrier.before_look();
        for number in parked {
            if let Some(Some(vi)) = self.vis.get(number as usize)
                && vi.connection.is_ready()
            {
                vi.connection.set_parked(false);
                self.polled.push(number);
            }
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn poll_rare(&mut self) -> Option<Box<News>> {
        // Some of what is found here may have to wait for the next poll.
        self.looks_further = true;
        let epoch = self.job.failure_epoch();
        if epoch != self.failure_epoch {
            self.failure_epoch = epoch;
            for task in self.job.tasks() {
                if self.job.is_failed(task) && self.job.is_concerned(task) && self.failures_told.insert(task)
                {
                    self.failures_due.push(task);
                    if let Some(far) = &self.far {
                        far.lose_task(task);
                    }
                }
            }
        }
        let mut named = Vec::new();
        self.attention.take(|slot| named.push(slot));
        let is_rung = self.attention.take_ring();
        for slot in named {
            let is_it = |vi: &Vi| vi.slot == slot;
            let found = self.vis.iter().position(|vi| vi.as_ref().is_some_and(is_it));
            let peer = match found.and_then(|number| Some((number as u32, self.vis[number].as_ref()?))) {
                Some((number, vi)) => {
                    vi.connection.set_parked(false);
                    if !self.polled.contains(&number) {
                        self.polled.push(number);
                    }
                    Some(vi.peer)
                }
                None => match self.accepted.iter().find(|vi| is_it(vi)) {
                    Some(vi) => Some(vi.peer),
                    None => self.accept(slot),
                },
            };
            if let Some(peer) = peer
                && self.files.is_closed(peer).is_ok_and(|closed| closed)
            {
                self.note_closing(peer);
            }
        }
        // `Rung` is returned first, because nothing else records it; the next poll finds the other events.
        if is_rung { Some(Box::new(News::Rung)) } else { self.next_rare() }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn next_rare(&mut self) -> Option<Box<News>> {
        self.look_at_network();
        let ended = self.reads_ended.pop().map(|(id, result)| News::Ended { id, result });
        let news = ended.or_else(|| self.connected.pop().map(News::Connected));
        let news = news.map(Box::new).or_else(|| self.next_failed()).or_else(|| self.next_closed());
        self.looks_further = self.far.is_some()
            || !(self.connected.is_empty() && self.failures_due.is_empty() && self.closing.is_empty());
        news
    }

    /// The next failed task whose rings are empty: what it has sent before its failure is received first.
    fn next_failed(&mut self) -> Option<Box<News>> {
        let at = (0..self.failures_due.len()).find(|&at| !self.has_unread(self.failures_due[at]))?;
        Some(Box::new(News::TaskFailed(TaskId(self.failures_due.swap_remove(at)))))
    }

    /// Whether a ring that a failed task has filled has a line. The next poll checks such a ring, even if it was parked and its writer died
    /// before it raised the attention bit.
    fn has_unread(&mut self, task: u32) -> bool {
        let mut has_unread = false;
        for (number, vi) in (0..).zip(&self.vis) {
            if let Some(vi) = vi.as_ref().filter(|vi| vi.peer.task.0 == task && vi.connection.is_ready()) {
                has_unread = true;
                vi.connection.set_parked(false);
                if !self.polled.contains(&number) {
                    self.polled.push(number);
                }
            }
        }
        has_unread
    }

    /// Notes what the task waits for, and which of the NICs that it needs are closed: a NIC that closes tells only those that it is
    /// connected to.
    #[cold]
    pub(super) fn note_long_wait(&mut self, mut facts: WaitFacts) {
        let needed = std::mem::take(&mut facts.needed);
        self.job.note_wait(self.quiet.duration(), facts);
        for task in needed {
            let peer = Endpoint { task, ..self.address };
            // Another host's task has no file here, which is an error.
            if self.files.is_closed(peer).is_ok_and(|closed| closed) {
                self.note_closing(peer);
                // The next poll first finds a connection that the peer may have made before it closed.
                self.looks_further = true;
            }
        }
    }

    pub(super) fn note_closing(&mut self, peer: Endpoint) {
        if !self.closing.iter().any(|&(closing, _)| closing == peer) {
            self.closing.push((peer, Instant::now() + TIME_TO_FAIL));
        }
    }

    /// The next closed peer whose ring is empty, once a failure of its task would have been reported.
    fn next_closed(&mut self) -> Option<Box<News>> {
        if self.closing.is_empty() {
            return None;
        }
        let now = Instant::now();
        let is_over = |&(peer, due): &(Endpoint, Instant)| {
            now >= due && !self.connection_to(peer).is_some_and(|(_, connection)| connection.is_ready())
        };
        let at = self.closing.iter().position(is_over)?;
        let (peer, _) = self.closing.swap_remove(at);
        (!self.job.is_failed(peer.task.0)).then(|| Box::new(News::PeerClosed(peer)))
    }

    /// Tells the peers that nothing more will come from here.
    pub(super) fn close(&mut self) {
        if let Some(far) = &self.far {
            far.leave(|| self.files.end_of_job().is_some());
            far.say_strangers();
        }
        self.end_network();
        let was_connected = !(self.vis.is_empty() && self.accepted.is_empty());
        if self.files.set_closed(self.address, was_connected).is_err() {
            return;
        }
        self.barrier.before_look();
        // Also finds peers whose new connections were not handled yet.
        let _ = self.poll_rare();
        let all = self.vis.iter().flatten().chain(&self.accepted);
        for vi in all.filter(|vi| vi.peer != self.address) {
            vi.connection.raise_attention();
        }
    }

    /// Forgets all that this NIC holds of a task that has ended; see [`Device::forget`](crate::device::Device::forget).
    pub(super) fn forget_ended(&mut self, task: u32) -> Result<(), DeviceError> {
        let mut slots: Vec<u32> =
            self.accepted.extract_if(.., |vi| vi.peer.task.0 == task).map(|vi| vi.slot).collect();
        for (number, place) in (0..).zip(&mut self.vis) {
            if let Some(vi) = place.take_if(|vi| vi.peer.task.0 == task) {
                slots.push(vi.slot);
                self.polled.retain(|&polled| polled != number);
            }
        }
        self.connected.retain(|peer| peer.task.0 != task);
        self.closing.retain(|(peer, _)| peer.task.0 != task);
        self.failures_due.retain(|&failed| failed != task);
        self.failures_told.remove(&task);
        self.mapped.clear();
        self.files.forget(self.address, task, &slots)
    }

    /// Accepts the connection that a peer made in this slot; returns the peer. A slot with invalid contents is ignored: its maker is at
    /// fault, and gets no answer. If the system refuses, this task fails: the peer waits for it, and may never raise the slot's attention
    /// bit again.
    fn accept(&mut self, slot: u32) -> Option<Endpoint> {
        match self.files.open_accepted(self.address, slot, self.barrier) {
            Ok(accepted) => {
                let (connection, peer) = accepted?;
                self.accepted.push(Vi { connection, slot, peer, consumed_when_last_counted: 0 });
                self.connected.push(peer);
                Some(peer)
            }
            Err(error) => {
                self.note_unopened(&error);
                None
            }
        }
    }
}

impl Shm {
    /// Notes that a connection which a peer has made cannot be opened.
    pub(super) fn note_unopened(&mut self, error: &DeviceError) {
        let what = format!("a connection that a peer made cannot be opened: {error}");
        if matches!(error, DeviceError::System { .. } | DeviceError::Exhausted { .. }) {
            self.files.fail(&what);
        } else {
            tracing::warn!("{what}");
        }
    }
}

impl Drop for Shm {
    fn drop(&mut self) {
        // A panicking task is about to fail, which the end of its process reports.
        if !std::thread::panicking() {
            self.close();
        }
        self.end_network();
    }
}
