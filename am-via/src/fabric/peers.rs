//! The number of each endpoint that was named or has sent, found by one indexed load. The number is the index of the endpoint's VI in the
//! NIC's table. A hash on the message path would be a large part of a send's cost.

use am_core::fabric::{Peer, PeerIndex};
use am_core::task::{ContextNumber, Endpoint, TaskId};
use am_via_shm::layout::CONTEXTS_MAX;

/// Indices in the NIC's table of VIs, by task and context.
#[derive(Debug)]
pub(super) struct Peers(Vec<[u32; CONTEXTS_MAX as usize]>);

/// This endpoint has no number yet.
const NONE: u32 = u32::MAX;

impl Peers {
    /// Room for the tasks that the job begins with; grows with the tasks that are started later.
    pub(super) fn new(num_tasks: u32) -> Self {
        Self((0..num_tasks).map(|_| [NONE; CONTEXTS_MAX as usize]).collect())
    }

    /// The number of an endpoint, if it has one.
    #[inline(always)]
    pub(super) fn number(&self, endpoint: Endpoint) -> Option<PeerIndex> {
        let number = *self.0.get(endpoint.task.index())?.get(usize::from(endpoint.context.0))?;
        if number == NONE { None } else { Some(PeerIndex(number)) }
    }

    /// Stores the number of an endpoint that exists in the job.
    pub(super) fn add(&mut self, Endpoint { task, context }: Endpoint, number: u32) {
        if self.0.len() <= task.index() {
            self.0.resize(task.index() + 1, [NONE; CONTEXTS_MAX as usize]);
        }
        if let Some(place) = self.0[task.index()].get_mut(usize::from(context.0)) {
            *place = number;
        }
    }

    /// The numbers of a task's endpoints.
    pub(super) fn of(&self, task: TaskId) -> impl Iterator<Item = Peer> + '_ {
        let contexts = (0..).map(ContextNumber).zip(self.0.get(task.index()).into_iter().flatten());
        let known = contexts.filter(|&(_, &number)| number != NONE);
        known.map(move |(context, &number)| Peer {
            endpoint: Endpoint::new(task, context),
            index: PeerIndex(number),
        })
    }
}
