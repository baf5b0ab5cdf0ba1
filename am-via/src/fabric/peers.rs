//! The number of each endpoint that this one has named or heard from, which is the place of its VI in the NIC's table, by one indexed load: a hash on the message path costs as much as the rest of a
//! send (measured with the second context of a task: 90 ns of 350).

use am_core::fabric::PeerIndex;
use am_core::task::Endpoint;

/// Places in the NIC's table of VIs, by context and task.
#[derive(Debug)]
pub(super) struct Peers {
    by_endpoint: Vec<u32>,
    num_tasks: usize,
}

/// This endpoint has no number yet.
const NONE: u32 = u32::MAX;

impl Peers {
    pub(super) fn new(num_tasks: u32, contexts_max: u8) -> Self {
        let num_tasks = num_tasks as usize;
        Self { by_endpoint: vec![NONE; num_tasks * usize::from(contexts_max)], num_tasks }
    }

    /// The number of an endpoint, if it has one. A task beyond the last one would land in the next context's row, so it gets an index
    /// that no table has. So has a context beyond the last one: both are refused when they would get a number.
    #[inline(always)]
    pub(super) fn number(&self, endpoint: Endpoint) -> Option<PeerIndex> {
        let index = if endpoint.task.index() < self.num_tasks { self.index(endpoint) } else { usize::MAX };
        self.by_endpoint.get(index).filter(|&&number| number != NONE).map(|&number| PeerIndex(number))
    }

    fn index(&self, endpoint: Endpoint) -> usize {
        usize::from(endpoint.context.0) * self.num_tasks + endpoint.task.index()
    }

    /// Notes the number of an endpoint that the job can have.
    pub(super) fn add(&mut self, endpoint: Endpoint, number: u32) {
        let index = self.index(endpoint);
        if let Some(place) = self.by_endpoint.get_mut(index) {
            *place = number;
        }
    }
}
