//! Connections of clients to a server. Side B is the server.

use std::time::Duration;

use crate::pair::{Outcome, Pair, ensure, refused, same};
use crate::suite::table;
use am_via_nic::Device;
use am_via_nic::device::{ContextNumber, Endpoint, TaskId};
use am_via_vipl::{
    AsyncCode, ConnectionRequest, Descriptor, Discriminator, NetAddress, PeerAttributes, ViAttributes,
    ViHandle, ViState, VipError, VipReturn,
};

table! {
    EarlyAdopter {
        server_accepts_a_client: "VipConnectRequest, VipConnectWait, VipConnectAccept";
        server_rejects_a_client: "VipConnectReject: VIP_REJECT";
        server_gets_address_and_attributes: "VipConnectWait: remote address and attributes";
        client_gets_the_servers_attributes: "VipConnectRequest: remote attributes";
        client_without_a_server_has_no_match: "VipConnectRequest: VIP_NO_MATCH";
        client_of_another_discriminator_has_no_match: "VipConnectRequest: VIP_NO_MATCH";
        client_of_a_silent_server_times_out: "VipConnectRequest: VIP_TIMEOUT";
        client_of_an_unknown_host_is_refused: "VipConnectRequest: VIP_INVALID_PARAMETER";
        client_must_be_idle: "VipConnectRequest: VIP_INVALID_STATE";
        server_without_clients_times_out: "VipConnectWait: VIP_TIMEOUT";
        server_may_poll_for_a_client: "VipConnectWait: timeout 0";
        server_accepts_with_an_idle_vi_only: "VipConnectAccept: VIP_INVALID_STATE";
        server_answers_once: "VipConnectAccept, VipConnectReject: VIP_INVALID_PARAMETER";
        server_answers_at_its_own_nic_only: "VipConnectAccept, VipConnectReject: VIP_INVALID_PARAMETER, a foreign connection handle";
        discriminator_has_a_limit: "MaxDiscriminatorLen, and one beyond";
        discriminators_differ_by_every_byte: "VIP_NET_ADDRESS: discriminator";
        reliability_must_match: "VipConnectAccept: VIP_INVALID_RELIABILITY_LEVEL";
        transfer_size_must_match: "VipConnectAccept: VIP_INVALID_MTU";
        quality_of_service_must_match: "VipConnectAccept: VIP_INVALID_QOS";
    }
    Functional {
        server_does_not_accept_a_client_that_gave_up: "VipConnectAccept after the client's timeout";
        server_serves_many_clients: "VipConnectWait, again and again";
    }
}

const SOON: Option<Duration> = Some(Duration::from_millis(30));

fn service() -> Outcome<Discriminator> {
    Ok(Discriminator::new(b"service")?)
}

/// Side A requests a connection of `vi`; returns the call's result, whatever it is.
fn ask<D: Device>(pair: &mut Pair<D>, vi: ViHandle) -> Result<PeerAttributes, VipError> {
    let to = NetAddress::new(pair.other(), Discriminator::new(b"service")?);
    pair.nic.connect_request(vi, Discriminator::new(b"client")?, to, None)
}

/// Side B waits for the next client.
fn client<D: Device>(pair: &mut Pair<D>) -> Outcome<ConnectionRequest> {
    Ok(pair.nic.connect_wait(service()?, Some(pair.patience()))?)
}

fn server_accepts_a_client<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    pair.post_recv(vi, Descriptor::receive())?;
    pair.sync_still()?;
    if pair.is_a() {
        ask(pair, vi)?;
    } else {
        let request = client(pair)?;
        pair.nic.connect_accept(&request, vi)?;
    }
    same(pair.state(vi)?, ViState::Connected, "the state")?;
    pair.post_send(vi, Descriptor::send().with_immediate(8))?;
    same(pair.received_well(vi)?.immediate(), Some(8), "the immediate data")
}

fn server_rejects_a_client<D: Device>(pair: &mut Pair<D>) -> Outcome {
    pair.sync_still()?;
    if pair.is_a() {
        let vi = pair.vi(pair.delivery())?;
        refused(ask(pair, vi), VipReturn::Reject)?;
        same(pair.state(vi)?, ViState::Idle, "the state")?;
    } else {
        let request = client(pair)?;
        pair.nic.connect_reject(&request)?;
    }
    Ok(())
}

fn server_gets_address_and_attributes<D: Device>(pair: &mut Pair<D>) -> Outcome {
    pair.sync_still()?;
    if pair.is_a() {
        let attributes =
            ViAttributes { transfer_bytes_max: 5000, qos: 9, rdma_write: false, ..pair.reception() };
        let vi = pair.vi(attributes)?;
        refused(ask(pair, vi), VipReturn::Reject)?;
    } else {
        let request = client(pair)?;
        same(
            request.from,
            NetAddress::new(pair.other(), Discriminator::new(b"client")?),
            "the address of the client",
        )?;
        let PeerAttributes { reliability, transfer_bytes_max, qos, rdma_write, rdma_read, .. } =
            request.attributes;
        let level = Some(pair.reception().reliability);
        same((reliability, transfer_bytes_max, qos), (level, 5000, 9), "level, transfer size and quality")?;
        same((rdma_write, rdma_read), (false, true), "what the client allows")?;
        pair.nic.connect_reject(&request)?;
    }
    Ok(())
}

fn client_gets_the_servers_attributes<D: Device>(pair: &mut Pair<D>) -> Outcome {
    pair.sync_still()?;
    if pair.is_a() {
        let vi = pair.vi(pair.delivery())?;
        let theirs = ask(pair, vi)?;
        same((theirs.rdma_write, theirs.rdma_read), (true, false), "what the server allows")?;
    } else {
        let vi = pair.vi(ViAttributes { rdma_read: false, ..pair.delivery() })?;
        let request = client(pair)?;
        pair.nic.connect_accept(&request, vi)?;
    }
    Ok(())
}

fn client_without_a_server_has_no_match<D: Device>(pair: &mut Pair<D>) -> Outcome {
    if pair.is_a() {
        let vi = pair.vi(pair.delivery())?;
        refused(ask(pair, vi), VipReturn::NoMatch)?;
        same(pair.state(vi)?, ViState::Idle, "the state")?;
    }
    // Side B calls nothing: at the end of the check, it only makes progress.
    Ok(())
}

fn client_of_another_discriminator_has_no_match<D: Device>(pair: &mut Pair<D>) -> Outcome {
    pair.sync_still()?;
    if pair.is_a() {
        let vi = pair.vi(pair.delivery())?;
        refused(ask(pair, vi), VipReturn::NoMatch)?;
    } else {
        let waited = pair.nic.connect_wait(Discriminator::new(b"servic")?, Some(Duration::from_millis(300)));
        refused(waited, VipReturn::Timeout)?;
    }
    Ok(())
}

fn client_of_a_silent_server_times_out<D: Device>(pair: &mut Pair<D>) -> Outcome {
    // A server that is still in its previous call would answer the request.
    pair.sync_still()?;
    if pair.is_a() {
        let vi = pair.vi(pair.delivery())?;
        let to = NetAddress::new(pair.other(), service()?);
        refused(pair.nic.connect_request(vi, service()?, to, SOON), VipReturn::Timeout)?;
        same(pair.state(vi)?, ViState::Idle, "the state")?;
    }
    pair.sync_still()?;
    // The withdrawn request must not be delivered.
    if !pair.is_a() {
        refused(pair.nic.connect_wait(service()?, SOON), VipReturn::Timeout)?;
    }
    Ok(())
}

fn client_of_an_unknown_host_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    for task in [2, u32::MAX] {
        let to = Endpoint::new(TaskId(task), ContextNumber(0));
        refused(pair.nic.connect_request(vi, service()?, to, SOON), VipReturn::InvalidParameter)?;
    }
    same(pair.state(vi)?, ViState::Idle, "the state")
}

fn client_must_be_idle<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    refused(ask(pair, vi), VipReturn::InvalidState)?;
    same(pair.state(vi)?, ViState::Connected, "the state")
}

fn server_without_clients_times_out<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let start = std::time::Instant::now();
    refused(pair.nic.connect_wait(service()?, SOON), VipReturn::Timeout)?;
    ensure(start.elapsed() >= Duration::from_millis(30), "the wait ended before its timeout")
}

fn server_may_poll_for_a_client<D: Device>(pair: &mut Pair<D>) -> Outcome {
    if pair.is_a() {
        let vi = pair.vi(pair.delivery())?;
        pair.sync_still()?;
        refused(ask(pair, vi), VipReturn::Reject)?;
        return pair.sync();
    }
    refused(pair.nic.connect_wait(service()?, Some(Duration::ZERO)), VipReturn::Timeout)?;
    pair.sync_still()?;
    for _ in 0..1_000_000 {
        match pair.nic.connect_wait(service()?, Some(Duration::ZERO)) {
            Ok(request) => {
                pair.nic.connect_reject(&request)?;
                return pair.sync();
            }
            Err(VipError::Timeout(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    crate::pair::fail("the client never asked")
}

fn server_accepts_with_an_idle_vi_only<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let busy = pair.connected(pair.delivery())?;
    pair.sync_still()?;
    if pair.is_a() {
        let vi = pair.vi(pair.delivery())?;
        ask(pair, vi)?;
    } else {
        let request = client(pair)?;
        refused(pair.nic.connect_accept(&request, busy), VipReturn::InvalidState)?;
        let vi = pair.vi(pair.delivery())?;
        pair.nic.connect_accept(&request, vi)?;
    }
    same(pair.state(busy)?, ViState::Connected, "the state of the other VI")
}

fn server_answers_once<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    pair.sync_still()?;
    if pair.is_a() {
        ask(pair, vi)?;
    } else {
        let request = client(pair)?;
        pair.nic.connect_accept(&request, vi)?;
        let second = pair.vi(pair.delivery())?;
        refused(pair.nic.connect_accept(&request, second), VipReturn::InvalidParameter)?;
        refused(pair.nic.connect_reject(&request), VipReturn::InvalidParameter)?;
        same(pair.state(second)?, ViState::Idle, "the state of the second VI")?;
    }
    pair.sync()?;
    same(pair.state(vi)?, ViState::Connected, "the state")
}

fn server_answers_at_its_own_nic_only<D: Device>(pair: &mut Pair<D>) -> Outcome {
    pair.sync_still()?;
    if pair.is_a() {
        let vi = pair.vi(pair.delivery())?;
        refused(ask(pair, vi), VipReturn::Reject)?;
    } else {
        let request = client(pair)?;
        let mut other = pair.open(4)?;
        let tag = other.create_ptag()?;
        let vi = other.create_vi(ViAttributes::new(tag), None, None)?;
        refused(other.connect_accept(&request, vi), VipReturn::InvalidParameter)?;
        refused(other.connect_reject(&request), VipReturn::InvalidParameter)?;
        // A VI of the other NIC is invalid here too.
        refused(pair.nic.connect_accept(&request, vi), VipReturn::InvalidParameter)?;
        pair.nic.connect_reject(&request)?;
    }
    pair.sync()
}

fn discriminator_has_a_limit<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let limit = pair.nic.limits().discriminator_bytes_max as usize;
    refused(Discriminator::new(&vec![1; limit + 1]), VipReturn::InvalidParameter)?;
    let longest = Discriminator::new(&vec![0xff; limit])?;
    let vi = pair.vi(pair.delivery())?;
    pair.sync_still()?;
    if pair.is_a() {
        pair.nic.connect_request(vi, longest, NetAddress::new(pair.other(), longest), None)?;
    } else {
        let request = pair.nic.connect_wait(longest, None)?;
        same(request.from.discriminator, longest, "the client's discriminator")?;
        pair.nic.connect_accept(&request, vi)?;
    }
    Ok(())
}

fn discriminators_differ_by_every_byte<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let own = Discriminator::new(b"\0\0")?;
    for other in [&b""[..], b"\0", b"\0\0\0", b"\0\x01"] {
        pair.sync_still()?;
        if pair.is_a() {
            let vi = pair.vi(pair.delivery())?;
            let to = NetAddress::new(pair.other(), Discriminator::new(other)?);
            refused(pair.nic.connect_request(vi, own, to, None), VipReturn::NoMatch)?;
        } else {
            refused(pair.nic.connect_wait(own, Some(Duration::from_millis(60))), VipReturn::Timeout)?;
        }
        pair.sync()?;
    }
    Ok(())
}

/// Side A requests a connection of a VI with reliable delivery. Side B's accept with a VI of the attributes `wrong` is refused, and the
/// request stays open for a VI that matches.
fn must_match<D: Device>(pair: &mut Pair<D>, wrong: ViAttributes, code: VipReturn) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    pair.sync_still()?;
    if pair.is_a() {
        ask(pair, vi)?;
    } else {
        let request = client(pair)?;
        let other = pair.vi(wrong)?;
        refused(pair.nic.connect_accept(&request, other), code)?;
        same(pair.state(other)?, ViState::Idle, "the state of the VI that does not match")?;
        pair.nic.connect_accept(&request, vi)?;
    }
    pair.sync()
}

fn reliability_must_match<D: Device>(pair: &mut Pair<D>) -> Outcome {
    must_match(pair, pair.unreliable(), VipReturn::InvalidReliabilityLevel)?;
    must_match(pair, pair.reception(), VipReturn::InvalidReliabilityLevel)
}

fn transfer_size_must_match<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let wrong = ViAttributes { transfer_bytes_max: 1000, ..pair.delivery() };
    must_match(pair, wrong, VipReturn::InvalidMtu)
}

fn quality_of_service_must_match<D: Device>(pair: &mut Pair<D>) -> Outcome {
    must_match(pair, ViAttributes { qos: 1, ..pair.delivery() }, VipReturn::InvalidQos)
}

fn server_does_not_accept_a_client_that_gave_up<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    pair.sync_still()?;
    if pair.is_a() {
        let to = NetAddress::new(pair.other(), service()?);
        refused(
            pair.nic.connect_request(vi, service()?, to, Some(Duration::from_millis(300))),
            VipReturn::Timeout,
        )?;
        pair.sync_still()?;
    } else {
        let request = client(pair)?;
        pair.sync_still()?;
        // If the client's withdrawal has arrived, the accept is refused; otherwise the connection ends at once.
        match pair.nic.connect_accept(&request, vi) {
            Err(error) => refused::<(), _>(Err(error), VipReturn::InvalidParameter)?,
            Ok(()) => {
                pair.until_state(vi, ViState::Error)?;
                pair.async_error(AsyncCode::ConnectionLost)?;
            }
        }
    }
    Ok(())
}

fn server_serves_many_clients<D: Device>(pair: &mut Pair<D>) -> Outcome {
    for round in 0..30 {
        let vi = pair.vi(pair.delivery())?;
        pair.post_recv(vi, Descriptor::receive())?;
        pair.sync_still()?;
        if pair.is_a() {
            ask(pair, vi)?;
            pair.post_send(vi, Descriptor::send().with_immediate(round))?;
            pair.sent_well(vi)?;
        } else {
            let request = client(pair)?;
            pair.nic.connect_accept(&request, vi)?;
            same(pair.received_well(vi)?.immediate(), Some(round), "the immediate data")?;
        }
    }
    Ok(())
}
