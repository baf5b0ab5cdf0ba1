//! Errors of a descriptor, and their effect on the connection at each level.

use super::*;
use am_via_vipl::{AddressSegment, AsyncCode, Control, Posted, VipError};

fn code<D: Device>(end: &mut End<D>) -> Option<AsyncCode> {
    end.agent.next_error().map(|error| error.code)
}

#[test]
fn a_receive_that_is_too_short_breaks_a_reliable_connection() {
    for (attributes, is_told) in [(delivery as fn(PTag) -> ViAttributes, false), (reception, true)] {
        for len in [30, 1000] {
            let (mut a, mut b) = connected(attributes);
            let (from, to) = (a.region(1000), b.region(1001));
            b.post_recv(Descriptor::receive().with_segment(to.segment(0, len - 1)));
            b.post_recv(Descriptor::receive());
            a.post_send(Descriptor::send().with_segment(from.segment(0, len)));
            let done = received(&mut a, &mut b);
            assert!(done.status().contains(Status::LENGTH_ERROR), "{:?}", done.status());
            assert_eq!(received(&mut a, &mut b).status().errors(), Status::DESC_FLUSHED_ERROR);
            let done = sent(&mut a, &mut b);
            assert_eq!(done.status().contains(Status::REMOTE_DESC_ERROR), is_told, "{:?}", done.status());
            until(&mut a, &mut b, |a, b| a.state() == ViState::Error && b.state() == ViState::Error);
            assert_eq!(to.bytes(len as usize, 1), [0], "nothing was written beyond the segment");
        }
    }
}

#[test]
fn an_unreliable_connection_survives_a_receive_that_is_too_short_or_missing() {
    for len in [30, 1000] {
        let (mut a, mut b) = connected(unreliable);
        let (from, to) = (a.region(1000), b.region(1000));
        let bytes = from.fill(1);
        a.post_send(Descriptor::send().with_segment(from.segment(0, len)));
        assert!(sent(&mut a, &mut b).status().is_success(), "the sender gets no error");
        until(&mut a, &mut b, |_, b| code(b) == Some(AsyncCode::ReceiveQueueEmpty));
        b.post_recv(Descriptor::receive().with_segment(to.segment(0, len - 1)));
        b.post_recv(Descriptor::receive().with_segment(to.segment(0, len)));
        a.post_send(Descriptor::send().with_segment(from.segment(0, len)));
        a.post_send(Descriptor::send().with_segment(from.segment(0, len)));
        assert!(received(&mut a, &mut b).status().contains(Status::LENGTH_ERROR));
        let done = received(&mut a, &mut b);
        assert!(done.status().is_success(), "{:?}", done.status());
        assert_eq!(to.bytes(0, len as usize), bytes[..len as usize]);
        assert_eq!((a.state(), b.state()), (ViState::Connected, ViState::Connected));
    }
}

#[test]
fn an_empty_receive_queue_breaks_a_reliable_connection() {
    for (attributes, is_told) in [(delivery as fn(PTag) -> ViAttributes, false), (reception, true)] {
        for rdma in [false, true] {
            let (mut a, mut b) = connected(attributes);
            let to = b.region(8);
            let place = AddressSegment { handle: to.handle, offset: 0 };
            let descriptor = if rdma { Descriptor::rdma_write(place) } else { Descriptor::send() };
            a.post_send(descriptor.with_immediate(1));
            let done = sent(&mut a, &mut b);
            assert_eq!(done.status().contains(Status::REMOTE_DESC_ERROR), is_told, "{:?}", done.status());
            until(&mut a, &mut b, |a, b| a.state() == ViState::Error && b.state() == ViState::Error);
            assert_eq!(code(&mut b), Some(AsyncCode::ReceiveQueueEmpty));
        }
    }
}

#[test]
fn access_to_memory_is_refused_for_every_wrong_part_of_a_claim() {
    for reach in [Reach::Direct, Reach::Posted, Reach::Staged] {
        for case in 0..6 {
            let options = WireOptions { slot_bytes: 256, ..WireOptions::new(2) }.with_reach(reach);
            let (_network, mut a, mut b) = on_wire(options, delivery);
            connect(&mut a, &mut b);
            let (from, to) = (a.region(64), b.region(64));
            let mut place = AddressSegment { handle: to.handle, offset: 0 };
            let rights = MemAttributes { ptag: 0, rdma_write: true, rdma_read: true };
            match case {
                0 => place.offset = 1,
                1 => place.offset = u64::MAX,
                2 => place.handle.generation += 1,
                3 => place.handle.region = u32::MAX,
                4 => {
                    let other = b.agent.create_ptag().unwrap();
                    b.agent.set_mem_attributes(to.handle, other, rights).unwrap();
                }
                _ => {
                    let none = MemAttributes { rdma_write: false, rdma_read: false, ..rights };
                    b.agent.set_mem_attributes(to.handle, b.tag, none).unwrap();
                }
            }
            let bytes = from.fill(7);
            let descriptor =
                if case % 2 == 0 { Descriptor::rdma_write(place) } else { Descriptor::rdma_read(place) };
            a.post_send(descriptor.with_segment(from.segment(0, 64)));
            let done = sent(&mut a, &mut b);
            assert!(done.status().contains(Status::RDMA_PROT_ERROR), "case {case}, {reach:?}");
            until(&mut a, &mut b, |a, b| a.state() == ViState::Error && b.state() == ViState::Error);
            assert_eq!((from.bytes(0, 64), to.bytes(0, 64)), (bytes, vec![0; 64]), "nothing moved");
            assert!(code(&mut b).is_some(), "the owner gets an error");
        }
    }
}

#[test]
fn a_vi_that_grants_no_rdma_is_not_reached() {
    fn closed(tag: PTag) -> ViAttributes {
        ViAttributes { rdma_write: false, rdma_read: false, ..ViAttributes::new(tag) }
    }
    let (mut a, mut b) = connected(closed);
    let (from, to) = (a.region(8), b.region(8));
    let place = AddressSegment { handle: to.handle, offset: 0 };
    a.post_send(Descriptor::rdma_write(place).with_segment(from.segment(0, 8)));
    assert_eq!(sent(&mut a, &mut b).status().errors(), Status::RDMA_PROT_ERROR);
}

#[test]
fn a_bad_descriptor_fails_at_its_turn() {
    let (mut a, mut b) = connected(unreliable);
    let from = a.region(64);
    let other_tag = a.agent.create_ptag().unwrap();
    let memory = a.agent.alloc(8).unwrap();
    let foreign = a.agent.register_mem(&memory, (0, 8), other_tag, MemAttributes::default()).unwrap();
    b.post_recv(Descriptor::receive());
    a.post_send(Descriptor::send().with_immediate(1));
    a.post_send(Descriptor::send().with_control(Control(0x40)));
    a.post_send(Descriptor::send().with_segment(from.segment(0, 8)).with_length(9));
    a.post_send(Descriptor::send().with_segment(from.segment(60, 5)));
    a.post_send(Descriptor::send().with_segment(DataSegment { handle: foreign, offset: 0, length: 8 }));
    let statuses: Vec<_> = (0..5).map(|_| sent(&mut a, &mut b).status().errors()).collect();
    let expected = [
        0,
        Status::FORMAT_ERROR.0,
        Status::LENGTH_ERROR.0,
        Status::PROTECTION_ERROR.0,
        Status::PROTECTION_ERROR.0,
    ];
    assert_eq!(statuses, expected.map(Status));
    assert_eq!(a.state(), ViState::Connected, "an unreliable connection survives errors");
}

#[test]
fn memory_and_tags_end_only_when_nobody_needs_them() {
    let (mut a, _b) = connected(delivery);
    let region = a.region(8);
    assert!(a.agent.destroy_ptag(a.tag).is_err(), "a VI and a registration use it");
    let info = a.agent.query_mem(region.handle).unwrap();
    assert_eq!((info.0.ptag, info.1), (a.tag.number(), 8));
    for range in [(0, 0), (0, 9), (8, 1), (usize::MAX, 1)] {
        let refused = a.agent.register_mem(&region.memory, range, a.tag, MemAttributes::default());
        assert!(matches!(refused, Err(VipError::Registration(_))), "{range:?}");
    }
    assert_eq!(a.agent.deregister_mem(region.handle).unwrap(), Posted::Done);
    assert!(a.agent.deregister_mem(region.handle).is_err() && a.agent.query_mem(region.handle).is_err());
    let tag = a.agent.create_ptag().unwrap();
    a.agent.destroy_ptag(tag).unwrap();
    assert!(a.agent.destroy_ptag(tag).is_err());
    let dead = a.agent.register_mem(&region.memory, (0, 8), tag, MemAttributes::default());
    assert!(dead.is_err());
}

#[test]
fn a_read_under_way_keeps_its_memory() {
    let (mut a, mut b) = connected(delivery);
    let (to, from) = (a.region(64), b.region(64));
    let bytes = from.fill(9);
    let place = AddressSegment { handle: from.handle, offset: 0 };
    a.post_send(Descriptor::rdma_read(place).with_segment(to.segment(0, 64)));
    assert_eq!(a.agent.deregister_mem(to.handle).unwrap(), Posted::Retry);
    a.agent.disconnect(a.vi).unwrap();
    assert_eq!(a.agent.deregister_mem(to.handle).unwrap(), Posted::Retry, "the wire still writes there");
    until(&mut a, &mut b, |a, _| a.agent.deregister_mem(to.handle).unwrap() == Posted::Done);
    assert_eq!(to.bytes(0, 64), bytes);
}

#[test]
fn a_full_work_queue_gives_the_descriptor_back() {
    let (mut a, _b) = connected(delivery);
    for _ in 0..a.agent.limits().descriptors_per_queue_max {
        a.post_recv(Descriptor::receive());
    }
    let refused = a.agent.post_recv(a.vi, Descriptor::receive().with_length(0)).unwrap_err();
    assert!(matches!(refused.error, VipError::ErrorResource { .. }));
    assert_eq!(refused.descriptor.status(), Status::default());
}
