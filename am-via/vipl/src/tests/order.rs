//! The order in which VIs of the same endpoints are joined, at a NIC whose channel comes up at any moment between two looks.

use std::ptr::NonNull;
use std::time::Duration;

use am_via_job::WaitFacts;

use super::*;
use crate::device::{
    AtomicTransfer, ClaimFault, DeviceAttributes, DeviceError, Entry, HeapBlock, News, Payload, Posted,
    RemoteMemory, Transfer, ViNumber, Waker, WordUpdate,
};
use am_via_shm::copy::CheckedRange;

/// A device that says "not yet" to the first requests to connect.
#[derive(Debug)]
struct Late {
    inner: Wire,
    not_yet: u32,
}

impl Device for Late {
    fn connect(&mut self, to: NodeAddress) -> Result<Option<ViNumber>, DeviceError> {
        let connected = self.inner.connect(to)?;
        if self.not_yet > 0 {
            self.not_yet -= 1;
            return Ok(None);
        }
        Ok(connected)
    }

    fn poll(&mut self, payload: &mut Payload) -> Option<News> {
        // What the channel brings is not to be told before the channel is.
        self.inner.poll(payload).filter(|news| self.not_yet == 0 || !matches!(news, News::Connected(..)))
    }

    fn address(&self) -> NodeAddress {
        self.inner.address()
    }

    fn attributes(&self) -> DeviceAttributes {
        self.inner.attributes()
    }

    fn disconnect(&mut self, vi: ViNumber) -> Result<(), DeviceError> {
        self.inner.disconnect(vi)
    }

    fn post(&mut self, vi: ViNumber, entry: Entry, payload: &Payload) -> Result<Posted, DeviceError> {
        self.inner.post(vi, entry, payload)
    }

    fn post_area(
        &mut self,
        vi: ViNumber,
        entry: Entry,
        len: usize,
        fill: impl FnOnce(CheckedRange<'_>) -> usize,
    ) -> Result<Posted, DeviceError> {
        self.inner.post_area(vi, entry, len, fill)
    }

    fn area(&self, vi: ViNumber, slot: u32, len: u32) -> CheckedRange<'_> {
        self.inner.area(vi, slot, len)
    }

    fn release(&mut self, vi: ViNumber) {
        self.inner.release(vi);
    }

    fn alloc(&mut self, len: usize) -> Result<HeapBlock, DeviceError> {
        self.inner.alloc(len)
    }

    fn is_job_memory(&self, at: NonNull<u8>, len: usize) -> bool {
        self.inner.is_job_memory(at, len)
    }

    fn register(
        &mut self,
        memory: CheckedRange<'_>,
        attributes: MemAttributes,
        only: Option<u32>,
    ) -> Result<MemHandle, DeviceError> {
        self.inner.register(memory, attributes, only)
    }

    fn set_mem_attributes(
        &mut self,
        handle: MemHandle,
        attributes: MemAttributes,
    ) -> Result<(), DeviceError> {
        self.inner.set_mem_attributes(handle, attributes)
    }

    fn deregister(&mut self, handle: MemHandle, finished: bool) -> Result<Posted, DeviceError> {
        self.inner.deregister(handle, finished)
    }

    fn registered(
        &self,
        handle: MemHandle,
        offset: u64,
        len: u64,
        need: MemAttributes,
    ) -> Result<CheckedRange<'_>, ClaimFault> {
        self.inner.registered(handle, offset, len, need)
    }

    fn rdma_write(
        &mut self,
        to: RemoteMemory,
        from: CheckedRange<'_>,
        id: u64,
    ) -> Result<Transfer, DeviceError> {
        self.inner.rdma_write(to, from, id)
    }

    fn rdma_read(
        &mut self,
        from: RemoteMemory,
        to: CheckedRange<'_>,
        id: u64,
    ) -> Result<Transfer, DeviceError> {
        self.inner.rdma_read(from, to, id)
    }

    fn atomic(
        &mut self,
        at: RemoteMemory,
        bytes: u64,
        update: WordUpdate,
        id: u64,
    ) -> Result<AtomicTransfer, DeviceError> {
        self.inner.atomic(at, bytes, update, id)
    }

    fn wait(&mut self, polls: u32, limit: Duration) -> bool {
        self.inner.wait(polls, limit)
    }

    fn note_wait(&mut self, facts: WaitFacts) {
        self.inner.note_wait(facts);
    }

    fn failure(&self, task: u32) -> Option<String> {
        self.inner.failure(task)
    }

    fn has_ended(&self, task: u32) -> bool {
        self.inner.has_ended(task)
    }

    fn fail(&mut self, why: &str) {
        self.inner.fail(why);
    }

    fn waker(&self) -> Waker {
        self.inner.waker()
    }
}

/// Both sides ask with three VIs; the channel of the side that asks, `late`, is there after `not_yet` looks.
fn joined_in_order(not_yet: u32) {
    let network = WireNetwork::new(WireOptions::new(2));
    let open = |at, not_yet| Late { inner: network.open(at).unwrap(), not_yet };
    let (mut a, mut b) = (End::new(open(task(0), 0), delivery), End::new(open(task(1), not_yet), delivery));
    let more =
        |end: &mut End<Late>| [(); 2].map(|()| end.agent.create_vi(delivery(end.tag), None, None).unwrap());
    let [a_vis, b_vis] = [&mut a, &mut b].map(|end| {
        let [second, third] = more(end);
        // Not the order in which they were made.
        [third, end.vi, second]
    });
    let (to_a, to_b) = (a.agent.address(), b.agent.address());
    for number in 0..3 {
        b.ask(b_vis[number], to_a).unwrap();
        a.ask(a_vis[number], to_b).unwrap();
    }
    until(&mut a, &mut b, |a, b| {
        let all = |end: &mut End<Late>, vis: [ViHandle; 3]| {
            end.agent.progress();
            vis.iter().all(|&vi| end.agent.query_vi(vi).unwrap().state == ViState::Connected)
        };
        all(a, a_vis) & all(b, b_vis)
    });
    for (number, (&at_a, &at_b)) in (0..).zip(a_vis.iter().zip(&b_vis)) {
        a.agent.post_recv(at_a, Descriptor::receive()).unwrap();
        b.agent.post_send(at_b, Descriptor::send().with_immediate(number)).unwrap();
        let mut came = None;
        until(&mut a, &mut b, |a, b| {
            b.agent.progress();
            came = a.agent.recv_done(at_a).unwrap();
            came.is_some()
        });
        assert_eq!(came.unwrap().immediate(), Some(number), "channel after {not_yet} looks");
    }
}

#[test]
fn vis_of_the_same_endpoints_are_joined_in_the_order_in_which_they_ask() {
    guarded(|| (0..24).for_each(joined_in_order));
}
