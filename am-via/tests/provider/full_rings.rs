//! A peer that closes is noticed although its ring is full.

use std::time::Duration;

use am_core_conform::watchdog::Watchdog;
use am_via::Task;
use am_via_vipl::{
    ContextNumber, Descriptor, Discriminator, Endpoint, Posted, TaskId, ViAttributes, ViState, open_nic,
};

use crate::hostile_support::alone;

/// Number of receives, more than a ring has lines.
const RECEIVES: u32 = 300;

/// If the peer's disconnect found no line, and the receiver does not note that the peer has closed, the receiver waits for ever.
#[test]
fn a_nic_that_closes_while_its_ring_is_full_ends_its_connections() {
    let _alone = alone();
    let _watchdog = Watchdog::new("a full ring".to_owned(), Duration::from_secs(60));
    let task = Task::join().expect("alone");
    let mut ends = [2, 3].map(|context| {
        let mut nic = open_nic(&task, &format!("shm{context}")).expect("a context is free");
        let tag = nic.create_ptag().expect("a few");
        let vi = nic.create_vi(ViAttributes::new(tag), None, None).expect("a few");
        let to = Endpoint::new(TaskId(0), ContextNumber(5 - context));
        nic.connect_peer_request(vi, Discriminator::default(), to, None).expect("the VI is idle");
        (nic, vi)
    });
    while {
        let [a, b] = ends.each_mut().map(|(nic, vi)| nic.connect_peer_done(*vi).expect("the peer lives"));
        a.is_none() || b.is_none()
    } {}
    let [(mut sender, from), (mut receiver, to)] = ends;
    for _ in 0..RECEIVES {
        receiver.post_recv(to, Descriptor::receive()).expect("the queue is longer");
    }
    let mut sent = 0;
    while sender.post_inline(from, Some(sent), &[]).expect("it is connected") == Posted::Done {
        sent += 1;
    }
    assert!(sent < RECEIVES, "the ring is full");
    sender.disconnect(from).expect("it was connected");
    drop(sender);
    let patience = Some(Duration::from_secs(60));
    for number in 0..sent {
        let received = receiver.recv_wait(to, patience).expect("it was sent");
        assert_eq!(received.immediate(), Some(number));
    }
    let flushed = receiver.recv_wait(to, patience).expect("the connection has ended");
    assert!(!flushed.status().is_success(), "{:?}", flushed.status());
    assert_eq!(receiver.query_vi(to).expect("it exists").state, ViState::Error);
}
