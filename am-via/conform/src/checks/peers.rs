//! Connections between peers: both sides request.

use std::time::Duration;

use crate::pair::{Outcome, Pair, ensure, refused, same};
use crate::suite::table;
use am_via_nic::Device;
use am_via_nic::device::{ContextNumber, Endpoint, TaskId};
use am_via_vipl::{Descriptor, Discriminator, NetAddress, ViAttributes, ViState, VipReturn};

table! {
    Functional {
        peers_connect: "VipConnectPeerRequest, VipConnectPeerWait";
        peers_connect_by_polling: "VipConnectPeerDone";
        peers_ask_in_either_order: "VipConnectPeerRequest does not block";
        peers_ask_at_once_again_and_again: "simultaneous peer requests";
        peers_get_each_others_attributes: "VipConnectPeerWait: remote attributes";
        peers_meet_by_their_discriminators: "VIP_NET_ADDRESS: discriminators";
        peers_of_one_discriminator_are_joined_in_order: "discriminator collisions";
        peer_alone_times_out: "VipConnectPeerWait: VIP_TIMEOUT";
        peer_that_gave_up_is_not_connected: "VipDisconnect of a pending VI";
        peers_of_different_levels_both_hear_it: "VIP_INVALID_RELIABILITY_LEVEL";
        peers_of_different_sizes_both_hear_it: "VIP_INVALID_MTU";
        peers_of_different_qualities_both_hear_it: "VIP_INVALID_QOS";
        peer_asks_once: "VipConnectPeerRequest: VIP_INVALID_STATE";
        peer_that_has_not_asked_has_no_outcome: "VipConnectPeerDone: VIP_INVALID_STATE";
        peer_of_an_unknown_host_is_refused: "VipConnectPeerRequest: VIP_INVALID_PARAMETER";
        peers_may_be_at_one_nic: "VipConnectPeerRequest to the own address";
    }
}

const NONE: &[u8] = b"";

fn ask<D: Device>(pair: &mut Pair<D>, vi: am_via_vipl::ViHandle, local: &[u8], remote: &[u8]) -> Outcome {
    let to = NetAddress::new(pair.other(), Discriminator::new(remote)?);
    Ok(pair.nic.connect_peer_request(vi, Discriminator::new(local)?, to, Some(pair.patience()))?)
}

fn peers_connect<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    same(pair.state(vi)?, ViState::Connected, "the state")
}

fn peers_connect_by_polling<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    ask(pair, vi, NONE, NONE)?;
    pair.until("the connection", |pair| Ok(pair.nic.connect_peer_done(vi)?))?;
    ensure(pair.nic.connect_peer_done(vi)?.is_some(), "a finished connection is not reported again")
}

fn peers_ask_in_either_order<D: Device>(pair: &mut Pair<D>) -> Outcome {
    for a_is_first in [false, true] {
        let vi = pair.vi(pair.delivery())?;
        if pair.is_a() == a_is_first {
            ask(pair, vi, NONE, NONE)?;
            ensure(pair.nic.connect_peer_done(vi)?.is_none(), "connected without a peer")?;
            pair.sync()?;
        } else {
            pair.sync()?;
            ask(pair, vi, NONE, NONE)?;
        }
        pair.nic.connect_peer_wait(vi)?;
        pair.sync()?;
    }
    Ok(())
}

fn peers_ask_at_once_again_and_again<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    for round in 0..50 {
        pair.post_recv(vi, Descriptor::receive())?;
        pair.sync_still()?;
        ask(pair, vi, NONE, NONE)?;
        pair.nic.connect_peer_wait(vi)?;
        pair.post_send(vi, Descriptor::send().with_immediate(round))?;
        same(pair.received_well(vi)?.immediate(), Some(round), "the immediate data")?;
        pair.sent_well(vi)?;
        pair.sync()?;
        pair.nic.disconnect(vi)?;
        pair.sync()?;
    }
    Ok(())
}

fn peers_get_each_others_attributes<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let attributes = ViAttributes { rdma_read: pair.is_a(), rdma_write: !pair.is_a(), ..pair.delivery() };
    let vi = pair.vi(attributes)?;
    ask(pair, vi, NONE, NONE)?;
    let theirs = pair.nic.connect_peer_wait(vi)?;
    same((theirs.rdma_read, theirs.rdma_write), (!pair.is_a(), pair.is_a()), "what the peer allows")?;
    same(theirs.reliability, Some(attributes.reliability), "its level")
}

fn peers_meet_by_their_discriminators<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let names: [&[u8]; 4] = [b"a", b"b", b"ab", b""];
    let mut vis = Vec::new();
    for name in names {
        let vi = pair.vi(pair.delivery())?;
        pair.post_recv(vi, Descriptor::receive())?;
        vis.push((name, vi));
    }
    if pair.is_a() {
        vis.reverse();
    }
    for &(name, vi) in &vis {
        ask(pair, vi, name, name)?;
    }
    for &(name, vi) in &vis {
        pair.nic.connect_peer_wait(vi)?;
        let number = name.iter().map(|&byte| u32::from(byte)).sum();
        pair.post_send(vi, Descriptor::send().with_immediate(number))?;
    }
    for &(name, vi) in &vis {
        let number = name.iter().map(|&byte| u32::from(byte)).sum();
        same(pair.received_well(vi)?.immediate(), Some(number), "the number of the other end")?;
    }
    Ok(())
}

fn peers_of_one_discriminator_are_joined_in_order<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let mut vis = Vec::new();
    for _ in 0..8 {
        let vi = pair.vi(pair.delivery())?;
        pair.post_recv(vi, Descriptor::receive())?;
        ask(pair, vi, b"same", b"same")?;
        vis.push(vi);
    }
    for (number, vi) in (0..).zip(vis) {
        pair.nic.connect_peer_wait(vi)?;
        pair.post_send(vi, Descriptor::send().with_immediate(number))?;
        same(pair.received_well(vi)?.immediate(), Some(number), "the number of the other end")?;
    }
    Ok(())
}

fn peer_alone_times_out<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    let to = NetAddress::new(pair.other(), Discriminator::new(b"nobody")?);
    let soon = Some(Duration::from_millis(20));
    pair.nic.connect_peer_request(vi, Discriminator::default(), to, soon)?;
    refused(pair.nic.connect_peer_wait(vi), VipReturn::Timeout)?;
    same(pair.state(vi)?, ViState::Idle, "the state")?;
    pair.sync()?;
    pair.connect(vi)?;
    Ok(())
}

fn peer_that_gave_up_is_not_connected<D: Device>(pair: &mut Pair<D>) -> Outcome {
    for a_gives_up in [false, true] {
        let vi = pair.vi(pair.delivery())?;
        if pair.is_a() == a_gives_up {
            ask(pair, vi, b"gone", b"gone")?;
            pair.nic.disconnect(vi)?;
            same(pair.state(vi)?, ViState::Idle, "the state")?;
            pair.sync()?;
        } else {
            pair.sync()?;
            let to = NetAddress::new(pair.other(), Discriminator::new(b"gone")?);
            let soon = Some(Duration::from_millis(30));
            pair.nic.connect_peer_request(vi, Discriminator::new(b"gone")?, to, soon)?;
            refused(pair.nic.connect_peer_wait(vi), VipReturn::Timeout)?;
        }
        pair.sync()?;
    }
    Ok(())
}

fn mismatch<D: Device>(pair: &mut Pair<D>, own: ViAttributes, code: VipReturn) -> Outcome {
    let vi = pair.vi(own)?;
    ask(pair, vi, NONE, NONE)?;
    refused(pair.nic.connect_peer_wait(vi), code)?;
    same(pair.state(vi)?, ViState::Idle, "the state")?;
    pair.sync()
}

fn peers_of_different_levels_both_hear_it<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let own = if pair.is_a() { pair.reception() } else { pair.delivery() };
    mismatch(pair, own, VipReturn::InvalidReliabilityLevel)
}

fn peers_of_different_sizes_both_hear_it<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let transfer_bytes_max = if pair.is_a() { 100 } else { 101 };
    mismatch(pair, ViAttributes { transfer_bytes_max, ..pair.delivery() }, VipReturn::InvalidMtu)
}

fn peers_of_different_qualities_both_hear_it<D: Device>(pair: &mut Pair<D>) -> Outcome {
    mismatch(pair, ViAttributes { qos: u16::from(pair.is_a()), ..pair.delivery() }, VipReturn::InvalidQos)
}

fn peer_asks_once<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    ask(pair, vi, b"x", b"y")?;
    let to = pair.other();
    refused(pair.nic.connect_peer_request(vi, Discriminator::default(), to, None), VipReturn::InvalidState)?;
    same(pair.state(vi)?, ViState::ConnectPending, "the state")
}

fn peer_that_has_not_asked_has_no_outcome<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    refused(pair.nic.connect_peer_done(vi), VipReturn::InvalidState)?;
    refused(pair.nic.connect_peer_wait(vi), VipReturn::InvalidState)
}

fn peer_of_an_unknown_host_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    let nowhere = Endpoint::new(TaskId(2), ContextNumber(0));
    let asked = pair.nic.connect_peer_request(vi, Discriminator::default(), nowhere, None);
    refused(asked, VipReturn::InvalidParameter)?;
    same(pair.state(vi)?, ViState::Idle, "the state")
}

fn peers_may_be_at_one_nic<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let own = pair.nic.address();
    let (first, second) = (pair.vi(pair.delivery())?, pair.vi(pair.delivery())?);
    for vi in [first, second] {
        pair.nic.connect_peer_request(vi, Discriminator::default(), own, None)?;
    }
    for vi in [first, second] {
        pair.nic.connect_peer_wait(vi)?;
    }
    pair.post_recv(second, Descriptor::receive())?;
    pair.post_send(first, Descriptor::send().with_immediate(6))?;
    same(pair.received_well(second)?.immediate(), Some(6), "the immediate data")?;
    pair.sent_well(first)?;
    Ok(())
}
