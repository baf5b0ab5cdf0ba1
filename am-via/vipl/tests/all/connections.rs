//! Connections: how they are made, refused and ended, and what a VI allows in each state.

use std::thread;
use std::time::Duration;

use super::*;
use am_double::wire::{Kill, WireFaults};
use am_via_os::test_aids::guarded;
use am_via_vipl::{AsyncCode, ContextNumber, Endpoint, Fault, NetAddress, TaskId, VipReturn};

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
    assert_eq!(a.agent.next_error(), None, "this side disconnected, so it gets no error");
    b.post_recv(Descriptor::receive());
    assert_eq!(b.agent.recv_done(b.vi).unwrap().unwrap().status(), flushed(Status::OP_RECEIVE));
    assert!(b.agent.destroy_vi(b.vi).is_err(), "only an idle VI can be destroyed");
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
    fn better(tag: PTag) -> ViAttributes {
        ViAttributes { qos: 1, ..ViAttributes::new(tag) }
    }
    for (attributes, code) in [
        (reception as fn(PTag) -> ViAttributes, VipReturn::InvalidReliabilityLevel),
        (small, VipReturn::InvalidMtu),
        (better, VipReturn::InvalidQos),
    ] {
        let network = WireNetwork::new(WireOptions::new(2));
        let mut a = End::new(network.open(task(0)).unwrap(), delivery);
        let mut b = End::new(network.open(task(1)).unwrap(), attributes);
        a.ask(a.vi, task(1)).unwrap();
        b.ask(b.vi, task(0)).unwrap();
        let mut errors = Vec::new();
        for _ in 0..1000 {
            for end in [&mut a, &mut b] {
                if end.state() != ViState::Idle {
                    match end.agent.connect_peer_done(end.vi) {
                        Ok(connected) => assert!(connected.is_none()),
                        Err(error) => errors.push(error),
                    }
                }
            }
        }
        assert_eq!(errors.len(), 2, "{errors:?}");
        assert!(errors.iter().all(|error| error.vip_return() == code), "{errors:?}");
        if code == VipReturn::InvalidReliabilityLevel {
            let text = "this VI has the level Reliable Delivery, the peer's has Reliable Reception: create both with the same level";
            assert!(errors.iter().any(|error| error.to_string() == text), "{errors:?}");
        }
    }
}

#[test]
fn one_side_alone_times_out_and_may_ask_again() {
    guarded(|| {
        let (_network, mut a, mut b) = on_wire(WireOptions::new(2), delivery);
        let soon = Some(Duration::from_millis(5));
        for (end, to) in [(&mut a, task(1)), (&mut b, task(0))] {
            end.agent.connect_peer_request(end.vi, Discriminator::default(), to, soon).unwrap();
            assert!(end.ask(end.vi, to).is_err(), "the request is still open");
            let waited = end.agent.connect_peer_wait(end.vi);
            assert!(matches!(waited, Err(VipError::Timeout(_))), "{waited:?}");
            assert_eq!(end.state(), ViState::Idle);
        }
        connect(&mut a, &mut b);
        assert!(matches!(a.agent.recv_wait(a.vi, Some(Duration::ZERO)), Err(VipError::Timeout(_))));
    });
}

#[test]
fn who_asked_and_gave_up_is_not_connected_to() {
    let (mut a, mut b) = on_shm(Ways { mapped: true, kernel: true }, delivery);
    for _ in 0..2 {
        let (here, there) = (a.agent.address(), b.agent.address());
        a.ask(a.vi, there).unwrap();
        a.agent.disconnect(a.vi).unwrap();
        b.ask(b.vi, here).unwrap();
        let mut refused = false;
        for _ in 0..20 {
            assert!(a.agent.connect_peer_done(a.vi).is_err());
            match b.agent.connect_peer_done(b.vi) {
                Ok(connected) => assert!(connected.is_none()),
                Err(error) => {
                    assert!(matches!(error, VipError::Reject { peer } if peer == here), "{error}");
                    refused = true;
                    break;
                }
            }
        }
        if refused {
            b.ask(b.vi, here).unwrap();
        }
        a.ask(a.vi, there).unwrap();
        until(&mut a, &mut b, |a, b| a.state() == ViState::Connected && b.state() == ViState::Connected);
        a.agent.disconnect(a.vi).unwrap();
        until(&mut a, &mut b, |_, b| b.state() == ViState::Error);
        b.agent.disconnect(b.vi).unwrap();
        (a, b) = (b, a);
    }
}

#[test]
fn vis_of_the_same_two_nics_are_joined_in_the_order_of_asking_and_by_their_endpoints() {
    for turned in [false, true] {
        let (mut a, mut b) = connected(delivery);
        if turned {
            (a, b) = (b, a);
        }
        let (here, there) = (a.agent.address(), b.agent.address());
        let mut vis = Vec::new();
        for (number, name) in ["", "", "x", "y", ""].into_iter().enumerate() {
            let endpoint = Discriminator::new(name.as_bytes()).unwrap();
            let ours = a.agent.create_vi(ViAttributes::new(a.tag), None, None).unwrap();
            let theirs = b.agent.create_vi(ViAttributes::new(b.tag), None, None).unwrap();
            vis.push((number, endpoint, ours, theirs));
        }
        for (_, endpoint, ours, _) in &vis {
            a.agent.connect_peer_request(*ours, *endpoint, NetAddress::new(there, *endpoint), None).unwrap();
        }
        let others_first = vis.iter().filter(|vi| !vi.1.bytes().is_empty());
        for (_, endpoint, _, theirs) in others_first.chain(vis.iter().filter(|vi| vi.1.bytes().is_empty())) {
            b.agent.connect_peer_request(*theirs, *endpoint, NetAddress::new(here, *endpoint), None).unwrap();
        }
        for (number, _, ours, theirs) in vis {
            let immediate = u32::try_from(number).unwrap();
            until(&mut a, &mut b, |a, b| {
                a.agent.connect_peer_done(ours).unwrap().is_some()
                    && b.agent.connect_peer_done(theirs).unwrap().is_some()
            });
            b.agent.post_recv(theirs, Descriptor::receive()).unwrap();
            a.agent.post_send(ours, Descriptor::send().with_immediate(immediate)).unwrap();
            until(&mut a, &mut b, |_, b| {
                let done = b.agent.recv_done(theirs).unwrap();
                done.is_some_and(|done| done.immediate() == Some(immediate))
            });
        }
    }
}

#[test]
fn two_vis_of_one_nic_are_each_others_peers() {
    let network = WireNetwork::new(WireOptions::new(1));
    let mut a = End::new(network.open(task(0)).unwrap(), delivery);
    let other = a.agent.create_vi(ViAttributes::new(a.tag), None, None).unwrap();
    for rounds in [0, 20] {
        a.ask(a.vi, task(0)).unwrap();
        for _ in 0..rounds {
            assert!(a.agent.connect_peer_done(a.vi).unwrap().is_none());
        }
        a.ask(other, task(0)).unwrap();
        for _ in 0..100 {
            a.agent.progress();
        }
        assert!(a.agent.connect_peer_done(a.vi).unwrap().is_some());
        a.agent.post_recv(other, Descriptor::receive()).unwrap();
        a.post_send(Descriptor::send().with_immediate(4));
        a.agent.progress();
        assert_eq!(a.agent.recv_done(other).unwrap().unwrap().immediate(), Some(4));
        assert!(a.agent.send_done(a.vi).unwrap().is_some());
        a.agent.disconnect(a.vi).unwrap();
        a.agent.progress();
        a.agent.disconnect(other).unwrap();
    }
}

#[test]
fn a_server_takes_refuses_and_misses_clients() {
    let (mut client, mut server) = on_shm(Ways { mapped: true, kernel: true }, delivery);
    let endpoint = Discriminator::new(b"service").unwrap();
    let to = NetAddress::new(server.agent.address(), endpoint);
    let local = Discriminator::new(b"me").unwrap();
    let ask = |client: &mut End<Shm>| client.agent.begin_connect_request(client.vi, local, to, None).unwrap();
    let outcome = |client: &mut End<Shm>| client.agent.connect_peer_done(client.vi);
    ask(&mut client);
    for _ in 0..20 {
        assert!(outcome(&mut client).unwrap().is_none());
    }
    server.agent.progress();
    let missed = (0..20).find_map(|_| outcome(&mut client).err()).map(|error| error.vip_return());
    assert_eq!((missed, client.state()), (Some(VipReturn::NoMatch), ViState::Idle));
    for accepts in [false, true] {
        ask(&mut client);
        let waiting = server.agent.connect_wait(endpoint, Some(Duration::ZERO)).unwrap();
        assert_eq!((waiting.from.host, waiting.from.discriminator), (client.agent.address(), local));
        let (agent, vi) = (&mut server.agent, server.vi);
        if accepts {
            let other = ViAttributes { qos: 3, ..ViAttributes::new(server.tag) };
            let wrong = agent.create_vi(other, None, None).unwrap();
            let refused = agent.connect_accept(&waiting, wrong).unwrap_err();
            assert_eq!(refused.vip_return(), VipReturn::InvalidQos, "the request stays");
            agent.connect_accept(&waiting, vi).unwrap();
            assert!(agent.connect_reject(&waiting).is_err(), "it is answered");
            assert!(outcome(&mut client).unwrap().is_some());
        } else {
            agent.connect_reject(&waiting).unwrap();
            assert!(agent.connect_accept(&waiting, vi).is_err(), "it is answered");
            let refused = (0..20).find_map(|_| outcome(&mut client).err());
            assert_eq!(refused.map(|error| error.vip_return()), Some(VipReturn::Reject));
        }
    }
    server.post_recv(Descriptor::receive());
    client.post_send(Descriptor::send().with_immediate(2));
    assert_eq!(received(&mut client, &mut server).immediate(), Some(2));
}

#[test]
fn a_client_that_gave_up_is_not_accepted() {
    let (_network, mut client, mut server) = on_wire(WireOptions::new(2), delivery);
    let endpoint = Discriminator::new(b"service").unwrap();
    for crossing in [false, true] {
        let to = NetAddress::new(task(1), endpoint);
        client.agent.begin_connect_request(client.vi, endpoint, to, None).unwrap();
        let mut waiting = None;
        for _ in 0..ROUNDS_MAX {
            client.agent.progress();
            // Between its waits the server must not make progress, because that would reject the client.
            waiting = server.agent.connect_wait(endpoint, Some(Duration::ZERO)).ok();
            if waiting.is_some() {
                break;
            }
        }
        let waiting = waiting.unwrap();
        if crossing {
            server.agent.connect_accept(&waiting, server.vi).unwrap();
            assert_eq!(server.state(), ViState::Connected);
        }
        client.agent.disconnect(client.vi).unwrap();
        if crossing {
            until(&mut client, &mut server, |_, server| server.state() == ViState::Error);
            server.agent.disconnect(server.vi).unwrap();
        } else {
            assert!(server.agent.connect_accept(&waiting, server.vi).is_err());
            assert_eq!(server.state(), ViState::Idle);
        }
    }
}

#[test]
fn handles_of_another_nic_or_of_nothing_are_refused() {
    let (mut a, mut b) = connected(delivery);
    let cq = b.agent.create_cq(1).unwrap();
    let ours = a.agent.create_cq(1).unwrap();
    assert!(a.agent.query_vi(b.vi).is_err() && a.agent.cq_done(cq).is_err());
    let made = a.agent.create_vi(ViAttributes::new(b.tag), None, None).map_err(|error| error.vip_return());
    assert_eq!(made, Err(VipReturn::InvalidPtag));
    assert!(a.agent.create_vi(ViAttributes::new(a.tag), Some(cq), None).is_err());
    assert!(a.agent.destroy_ptag(b.tag).is_err());
    a.agent.destroy_cq(ours).unwrap();
    assert!(a.agent.resize_cq(ours, 2).is_err());
    assert!(matches!(a.ask(a.vi, task(2)), Err(VipError::InvalidState { .. })));
    let second = a.agent.create_vi(ViAttributes::new(a.tag), None, None).unwrap();
    for host in [
        task(2),
        Endpoint::new(TaskId(1), ContextNumber(16)),
        Endpoint::new(TaskId(1), ContextNumber(u8::MAX)),
    ] {
        let asked = a.ask(second, host).expect_err("no task has this NIC");
        assert_eq!(
            (asked.vip_return(), asked.fault()),
            (VipReturn::InvalidParameter, Fault::Caller),
            "{asked}"
        );
        let asked = a.agent.connect_request(second, Discriminator::default(), host, None);
        assert_eq!(asked.expect_err("no task has this NIC").vip_return(), VipReturn::InvalidParameter);
    }
    assert!(a.agent.host_by_name("task1", 0).is_err(), "the service is not started");
    a.agent.ns_init().unwrap();
    assert_eq!(a.agent.host_by_name("task1", 0).unwrap(), task(1));
    assert!(matches!(a.agent.host_by_name("task2", 0), Err(VipError::NameService { last: 1, .. })));
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
    a.ask(a.vi, task(1)).unwrap();
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
                end.ask(end.vi, task(1 - number)).unwrap();
                for _ in 0..100 {
                    end.post_recv(Descriptor::receive().with_segment(region.segment(0, 64)));
                }
                end.agent.connect_peer_wait(end.vi).unwrap();
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
