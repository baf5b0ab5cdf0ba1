//! Connections: how they are made, refused and ended, and what a VI allows in each state.

use std::thread;
use std::time::Duration;

use super::*;
use crate::device::wire::{Kill, WireFaults};
use crate::test_aids::guarded;
use crate::vipl::{AsyncCode, VipError};

fn flushed(operation: Status) -> Status {
    Status::DONE | operation | Status::DESC_FLUSHED_ERROR
}

#[test]
fn sends_are_flushed_unless_connected_and_receives_wait_while_idle() {
    let (_network, mut a, mut b) = on_wire(WireOptions::new(2), delivery);
    a.post_send(Descriptor::send());
    assert_eq!(a.agent.send_done(a.vi).unwrap().unwrap().status(), flushed(Status::OP_SEND));
    b.post_recv(Descriptor::receive());
    assert!(b.agent.recv_done(b.vi).unwrap().is_none());
    connect(&mut a, &mut b);
    a.post_send(Descriptor::send().with_immediate(9));
    assert_eq!(received(&mut a, &mut b).immediate(), Some(9), "posted before the connection");
}

#[test]
fn a_disconnect_flushes_both_sides_in_order() {
    let (mut a, mut b) = connected(delivery);
    for end in [&mut a, &mut b] {
        for length in 1..=3 {
            let region = end.region(8);
            end.post_recv(Descriptor::receive().with_segment(region.segment(0, length)));
        }
    }
    a.agent.disconnect(a.vi).unwrap();
    assert_eq!(a.state(), ViState::Idle);
    until(&mut a, &mut b, |_, b| b.state() == ViState::Error);
    for end in [&mut a, &mut b] {
        for length in 1..=3 {
            let done = end.agent.recv_done(end.vi).unwrap().unwrap();
            assert_eq!(done.status(), flushed(Status::OP_RECEIVE));
            assert_eq!(done.segments()[0].length, length, "in the order of the posts");
        }
    }
    assert_eq!(b.agent.next_error().map(|error| error.code), Some(AsyncCode::ConnectionLost));
    assert_eq!(a.agent.next_error(), None, "it asked for the disconnect itself");
    b.post_recv(Descriptor::receive());
    assert_eq!(b.agent.recv_done(b.vi).unwrap().unwrap().status(), flushed(Status::OP_RECEIVE));
    assert!(b.agent.destroy_vi(b.vi).is_err(), "only an idle VI goes");
    b.agent.disconnect(b.vi).unwrap();
    b.agent.destroy_vi(b.vi).unwrap();
    assert!(matches!(b.agent.disconnect(b.vi), Err(VipError::UnknownHandle { .. })));
}

#[test]
fn idle_again_a_vi_connects_again() {
    let (mut a, mut b) = connected(delivery);
    for round in 0..3 {
        b.post_recv(Descriptor::receive());
        a.post_send(Descriptor::send().with_immediate(round));
        assert_eq!(received(&mut a, &mut b).immediate(), Some(round));
        a.agent.disconnect(a.vi).unwrap();
        until(&mut a, &mut b, |_, b| b.state() == ViState::Error);
        b.agent.disconnect(b.vi).unwrap();
        connect(&mut a, &mut b);
        assert!(sent(&mut a, &mut b).status().is_success());
    }
}

#[test]
fn attributes_that_do_not_match_connect_nobody() {
    fn small(tag: PTag) -> ViAttributes {
        ViAttributes { transfer_bytes_max: 100, ..ViAttributes::new(tag) }
    }
    for (attributes, is_level) in [(reception as fn(PTag) -> ViAttributes, true), (small, false)] {
        let network = WireNetwork::new(WireOptions::new(2));
        let mut a = End::new(network.open(task(0)).unwrap(), delivery);
        let mut b = End::new(network.open(task(1)).unwrap(), attributes);
        a.agent.connect_peer_request(a.vi, task(1)).unwrap();
        b.agent.connect_peer_request(b.vi, task(0)).unwrap();
        let mut errors = Vec::new();
        for _ in 0..1000 {
            for end in [&mut a, &mut b] {
                if end.state() != ViState::Idle {
                    match end.agent.connect_peer_done(end.vi) {
                        Ok(connected) => assert!(!connected),
                        Err(error) => errors.push(error),
                    }
                }
            }
        }
        assert_eq!(errors.len(), 2, "{errors:?}");
        assert!(errors.iter().all(|error| match error {
            VipError::InvalidReliabilityLevel { .. } => is_level,
            VipError::InvalidMtu { .. } => !is_level,
            _ => false,
        }));
    }
}

#[test]
fn one_side_alone_times_out_and_may_ask_again() {
    guarded(|| {
        let (_network, mut a, mut b) = on_wire(WireOptions::new(2), delivery);
        a.agent.connect_peer_request(a.vi, task(1)).unwrap();
        let waited = a.agent.connect_peer_wait(a.vi, Some(Duration::from_millis(5)));
        assert!(matches!(waited, Err(VipError::Timeout(_))), "{waited:?}");
        assert!(a.agent.connect_peer_request(a.vi, task(1)).is_err(), "the request still stands");
        b.agent.connect_peer_request(b.vi, task(0)).unwrap();
        until(&mut a, &mut b, |a, b| {
            a.agent.connect_peer_done(a.vi).unwrap() & b.agent.connect_peer_done(b.vi).unwrap()
        });
        assert!(matches!(a.agent.recv_wait(a.vi, Some(Duration::ZERO)), Err(VipError::Timeout(_))));
    });
}

#[test]
fn a_peer_that_gives_up_is_a_rejection() {
    let (mut a, mut b) = on_shm(Ways { mapped: true, kernel: true }, delivery);
    let (here, there) = (a.agent.address(), b.agent.address());
    a.agent.connect_peer_request(a.vi, there).unwrap();
    a.agent.disconnect(a.vi).unwrap();
    for _ in 0..20 {
        b.agent.progress();
    }
    b.agent.connect_peer_request(b.vi, here).unwrap();
    assert!(matches!(b.agent.connect_peer_done(b.vi), Err(VipError::Reject { peer }) if peer == here));
    assert_eq!(b.state(), ViState::Idle);
    a.agent.connect_peer_request(a.vi, there).unwrap();
    let again = a.agent.connect_peer_done(a.vi);
    assert!(matches!(again, Err(VipError::ErrorResource { .. })), "shared memory joins two NICs once");
}

#[test]
fn who_does_not_exist_and_who_is_connected_already() {
    let (mut a, mut b) = connected(delivery);
    let second = a.agent.create_vi(ViAttributes::new(a.tag), None, None).unwrap();
    assert!(matches!(
        a.agent.connect_peer_request(second, task(2)),
        Err(VipError::InvalidParameter { given: 2, most: 1, .. })
    ));
    a.agent.connect_peer_request(second, task(1)).unwrap();
    assert!(matches!(a.agent.connect_peer_done(second), Err(VipError::ErrorResource { .. })));
    b.post_recv(Descriptor::receive());
    a.post_send(Descriptor::send().with_immediate(5));
    assert_eq!(received(&mut a, &mut b).immediate(), Some(5), "the first connection is untouched");
    assert_eq!(a.agent.host_by_name("task1").unwrap(), task(1));
    assert!(matches!(a.agent.host_by_name("task2"), Err(VipError::NameService { last: 1, .. })));
}

#[test]
fn the_death_of_the_peer_breaks_the_connection() {
    let faults = WireFaults { kill: Some(Kill { task: 1, at_poll: 200 }), ..WireFaults::default() };
    let (_network, mut a, mut b) = on_wire(WireOptions { faults, ..WireOptions::new(2) }, delivery);
    connect(&mut a, &mut b);
    a.post_recv(Descriptor::receive());
    until(&mut a, &mut b, |a, _| a.state() == ViState::Error);
    assert_eq!(a.agent.recv_done(a.vi).unwrap().unwrap().status(), flushed(Status::OP_RECEIVE));
    assert_eq!(a.agent.next_error().map(|error| error.code), Some(AsyncCode::ConnectionLost));
    a.agent.disconnect(a.vi).unwrap();
    a.agent.connect_peer_request(a.vi, task(1)).unwrap();
    assert!(matches!(a.agent.connect_peer_done(a.vi), Err(VipError::PeerFailed { task: 1, .. })));
}

#[test]
fn two_threads_connect_send_and_sleep() {
    guarded(|| {
        let network = WireNetwork::new(WireOptions::new(2));
        let [a, b] = [0, 1].map(|number| {
            let device = network.open(task(number)).unwrap();
            thread::spawn(move || {
                let mut end = End::new(device, reception);
                let region = end.region(4096);
                end.agent.connect_peer_request(end.vi, task(1 - number)).unwrap();
                for _ in 0..100 {
                    end.post_recv(Descriptor::receive().with_segment(region.segment(0, 64)));
                }
                end.agent.connect_peer_wait(end.vi, None).unwrap();
                for round in 0..100_u32 {
                    if number == 0 {
                        end.post_send(Descriptor::send().with_immediate(round));
                        assert!(end.agent.send_wait(end.vi, None).unwrap().status().is_success());
                    }
                    assert_eq!(end.agent.recv_wait(end.vi, None).unwrap().immediate(), Some(round));
                    if number == 1 {
                        end.post_send(Descriptor::send().with_immediate(round));
                        assert!(end.agent.send_wait(end.vi, None).unwrap().status().is_success());
                    }
                }
            })
        });
        a.join().unwrap();
        b.join().unwrap();
    });
}
