//! Data transfers: every operation, with sizes around the limits, over each device.

use super::*;
use am_via_vipl::{AddressSegment, Posted, Queue};

/// Sends, writes and reads between two connected sides, from and to both kinds of memory.
fn moves_everything<D: Device>(a: &mut End<D>, b: &mut End<D>) {
    let slot = a.agent.limits().native_mtu_bytes;
    for private in [false, true] {
        for len in [0, 1, 39, 40, 41, slot - 17, slot - 16, slot, slot + 1, 5 * slot + 7] {
            let make = if private { End::private_region } else { End::region };
            let from = make(a, len as usize + 64);
            let to = make(b, len as usize + 64);
            let bytes = from.fill(u8::try_from(len % 251).unwrap());
            sends(a, b, (&from, &to), &bytes, len);
            writes(a, b, (&from, &to), &bytes, len);
            reads(a, b, (&from, &to), &bytes, len);
            for (end, region) in [(&mut *a, from), (&mut *b, to)] {
                assert_eq!(end.agent.deregister_mem(region.handle).unwrap(), Posted::Done);
            }
        }
    }
}

fn gathered(descriptor: Box<Descriptor>, region: &Region, len: u32) -> Box<Descriptor> {
    let third = len / 3;
    descriptor
        .with_segment(region.segment(5, third))
        .with_segment(region.segment(5 + u64::from(third), 0))
        .with_segment(region.segment(5 + u64::from(third), len - third))
}

fn sends<D: Device>(a: &mut End<D>, b: &mut End<D>, (from, to): (&Region, &Region), bytes: &[u8], len: u32) {
    let half = len / 2;
    let receive = || {
        Descriptor::receive()
            .with_segment(to.segment(9, half))
            .with_segment(to.segment(9 + u64::from(half), len - half + 3))
    };
    b.post_recv(receive());
    b.post_recv(receive());
    a.post_send(gathered(Descriptor::send(), from, len).with_immediate(0xfeed));
    a.post_send(gathered(Descriptor::send(), from, len));
    for immediate in [Some(0xfeed), None] {
        let done = received(a, b);
        let flag = if immediate.is_some() { Status::IMMEDIATE } else { Status::default() };
        assert_eq!(done.status(), success(Status::OP_RECEIVE) | flag, "{len} bytes");
        assert_eq!((done.immediate(), done.length()), (immediate, len));
        let done = sent(a, b);
        assert_eq!((done.status(), done.length()), (success(Status::OP_SEND), len));
    }
    assert!(to.bytes(9, len as usize) == bytes[5..5 + len as usize], "{len} bytes differ");
}

fn writes<D: Device>(a: &mut End<D>, b: &mut End<D>, (from, to): (&Region, &Region), bytes: &[u8], len: u32) {
    let place = AddressSegment { handle: to.handle, offset: 3 };
    to.memory.write(0, &vec![0; to.memory.len()]).unwrap();
    a.post_send(gathered(Descriptor::rdma_write(place), from, len));
    let done = sent(a, b);
    assert_eq!((done.status(), done.length()), (success(Status::OP_RDMA_WRITE), len));
    b.post_recv(Descriptor::receive());
    let place = AddressSegment { offset: 11, ..place };
    a.post_send(gathered(Descriptor::rdma_write(place), from, len).with_immediate(77));
    assert!(b.agent.recv_done(b.vi).unwrap().is_none_or(|done| done.status().is_success()), "one receive");
    let mut done = None;
    until(a, b, |_, b| {
        done = done.take().or(b.agent.recv_done(b.vi).unwrap());
        done.is_some() || b.agent.query_vi(b.vi).unwrap().receive_queue_empty
    });
    if let Some(done) = done {
        assert_eq!(done.status(), success(Status::OP_REMOTE_RDMA_WRITE) | Status::IMMEDIATE);
        assert_eq!((done.immediate(), done.length()), (Some(77), len));
    }
    assert_eq!(sent(a, b).status(), success(Status::OP_RDMA_WRITE));
    assert!(to.bytes(11, len as usize) == bytes[5..5 + len as usize], "{len} bytes differ");
    assert_eq!(to.bytes(11 + len as usize, 8), [0; 8], "nothing beyond the end");
}

fn reads<D: Device>(a: &mut End<D>, b: &mut End<D>, (from, to): (&Region, &Region), bytes: &[u8], len: u32) {
    to.memory.write(0, &vec![0; to.memory.len()]).unwrap();
    let place = AddressSegment { handle: from.handle, offset: 5 };
    b.post_send(gathered(Descriptor::rdma_read(place), to, len));
    let done = sent(b, a);
    assert_eq!((done.status(), done.length()), (success(Status::OP_RDMA_READ), len));
    assert!(to.bytes(5, len as usize) == bytes[5..5 + len as usize], "{len} bytes differ");
}

#[test]
fn over_a_wire_with_rdma() {
    for attributes in [delivery, reception] {
        let (mut a, mut b) = connected(attributes);
        moves_everything(&mut a, &mut b);
    }
}

#[test]
fn over_a_wire_whose_nics_reach_no_memory() {
    for attributes in [delivery, reception] {
        let options =
            WireOptions { slot_bytes: 256, ring_lines: 8, ..WireOptions::new(2) }.with_reach(Reach::Staged);
        let (_network, mut a, mut b) = on_wire(options, attributes);
        connect(&mut a, &mut b);
        moves_everything(&mut a, &mut b);
    }
}

#[test]
fn over_shared_memory_by_every_way() {
    for (mapped, kernel) in [(true, true), (false, true), (false, false)] {
        let (mut a, mut b) = on_shm(Ways { mapped, kernel }, delivery);
        connect(&mut a, &mut b);
        moves_everything(&mut a, &mut b);
    }
}

#[test]
fn inline_posts_need_no_descriptor_and_keep_their_order() {
    let (mut a, mut b) = connected(delivery);
    let (from, to) = (a.region(1000), b.region(1000));
    let bytes = from.fill(3);
    for at in 0..3 {
        b.post_recv(Descriptor::receive().with_segment(to.segment(at * 300, 300)));
    }
    assert_eq!(a.agent.post_inline(a.vi, Some(1), &[7; 40]).unwrap(), Posted::Done);
    a.post_send(Descriptor::send().with_segment(from.segment(0, 300)));
    assert_eq!(a.agent.post_inline(a.vi, None, &[]).unwrap(), Posted::Done);
    assert!(a.agent.post_inline(a.vi, None, &[0; 41]).is_err());
    let lengths: Vec<_> =
        (0..3).map(|_| received(&mut a, &mut b)).map(|done| (done.length(), done.immediate())).collect();
    assert_eq!(lengths, [(40, Some(1)), (300, None), (0, None)]);
    assert_eq!((to.bytes(0, 40), to.bytes(300, 300)), (vec![7; 40], bytes[..300].to_vec()));
}

#[test]
fn a_completion_queue_names_vi_and_queue_in_the_order_of_completion() {
    let network = WireNetwork::new(WireOptions::new(2));
    let mut cq = None;
    let mut a = End::new(network.open(task(0)).unwrap(), delivery);
    let mut b = End::with_cqs(network.open(task(1)).unwrap(), delivery, |agent| {
        cq = Some(agent.create_cq(2).unwrap());
        (cq, cq)
    });
    let cq = cq.unwrap();
    connect(&mut a, &mut b);
    assert_eq!(b.agent.cq_done(cq).unwrap(), None);
    b.post_recv(Descriptor::receive());
    a.post_recv(Descriptor::receive());
    a.post_send(Descriptor::send());
    until(&mut a, &mut b, |_, b| {
        b.agent.progress();
        true
    });
    b.post_send(Descriptor::send());
    let entries: Vec<_> = (0..2).map(|_| b.agent.cq_done(cq).unwrap().unwrap()).collect();
    assert_eq!(entries.iter().map(|entry| entry.queue).collect::<Vec<_>>(), [Queue::Receive, Queue::Send]);
    assert!(entries.iter().all(|entry| entry.vi == b.vi));
    assert!(b.agent.recv_done(b.vi).unwrap().is_some() && b.agent.send_done(b.vi).unwrap().is_some());
    assert!(b.agent.destroy_cq(cq).is_err(), "a VI completes there");
}

#[test]
fn a_reliable_reception_is_done_only_when_it_is_received() {
    let (mut a, mut b) = connected(reception);
    b.post_recv(Descriptor::receive());
    b.post_recv(Descriptor::receive());
    a.post_send(Descriptor::send().with_immediate(1));
    a.post_send(Descriptor::send().with_immediate(2));
    for _ in 0..1000 {
        assert!(a.agent.send_done(a.vi).unwrap().is_none(), "the peer has not looked yet");
    }
    for immediate in [1, 2] {
        assert_eq!(received(&mut a, &mut b).immediate(), Some(immediate));
        assert_eq!(sent(&mut a, &mut b).status(), success(Status::OP_SEND));
    }
}
