//! VIs: their lifetime, their states, and what may be posted in each state.

use crate::pair::{Outcome, Pair, ensure, flushed, refused, same, success};
use crate::suite::table;
use am_via_nic::Device;
use am_via_vipl::{AddressSegment, Descriptor, Discriminator, Status, ViAttributes, ViState, VipReturn};

table! {
    EarlyAdopter {
        vi_is_created_idle: "VipCreateVi, VipQueryVi";
        vi_tells_its_attributes: "VipQueryVi: VIP_VI_ATTRIBUTES";
        vi_tells_whether_its_queues_are_empty: "VipQueryVi: SendQEmpty, RecvQEmpty";
        vi_destroyed_is_unknown: "VipDestroyVi: VIP_INVALID_PARAMETER";
        vi_destroyed_must_be_idle: "VipDestroyVi: VIP_INVALID_STATE";
        vi_destroyed_must_have_empty_queues: "VipDestroyVi: VIP_ERROR_RESOURCE or VIP_INVALID_STATE";
        vi_of_an_unknown_queue_is_refused: "VipCreateVi: VIP_INVALID_PARAMETER";
        vi_of_no_transfer_size_is_refused: "VIP_VI_ATTRIBUTES: MaxTransferSize";
        vi_idle_flushes_sends: "VI state Idle: VipPostSend";
        vi_idle_keeps_receives: "VI state Idle: VipPostRecv";
        vi_pending_flushes_sends: "VI state ConnectPending: VipPostSend";
        vi_pending_keeps_receives: "VI state ConnectPending: VipPostRecv";
        vi_broken_flushes_both: "VI state Error";
        vi_broken_is_idle_after_a_disconnect: "VI state Error: VipDisconnect";
        vi_idle_is_not_disconnected: "VipDisconnect: VIP_INVALID_STATE";
        disconnect_flushes_in_order: "VipDisconnect: VIP_STATUS_DESC_FLUSHED_ERROR";
        disconnect_breaks_the_other_side_in_order: "VipDisconnect: the remote end";
        vi_connects_again_after_a_disconnect: "VI states: Idle to Connected again";
        queue_has_a_limit_of_sends: "MaxDescriptorsPerQueue, and one beyond";
        queue_has_a_limit_of_receives: "MaxDescriptorsPerQueue, and one beyond";
    }
    Functional {
        vis_have_a_limit: "VIP_NIC_ATTRIBUTES: MaxVI, and one beyond";
        vi_of_another_nic_is_refused: "VIP_INVALID_PARAMETER: a foreign VI handle";
        vi_of_a_slot_used_again_is_another: "VIP_INVALID_PARAMETER: a stale VI handle";
        vi_changes_its_attributes_when_idle: "VipSetViAttributes";
        vi_keeps_its_attributes_when_not_idle: "VipSetViAttributes: VIP_INVALID_STATE";
        vi_keeps_its_attributes_when_new_ones_are_wrong: "VipSetViAttributes: VIP_INVALID_PTAG, VIP_INVALID_RDMAREAD";
        vis_between_two_nics_are_many: "VipCreateVi: several connections to one peer";
    }
    Full {
        vi_unreliable_has_no_reads: "VipCreateVi: VIP_INVALID_RDMAREAD";
    }
}

fn vi_is_created_idle<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    same(pair.state(vi)?, ViState::Idle, "the state")?;
    pair.nic.destroy_vi(vi)?;
    Ok(())
}

fn vi_tells_its_attributes<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let odd = ViAttributes { transfer_bytes_max: 12_345, qos: 7, rdma_write: false, ..pair.reception() };
    for attributes in [pair.delivery(), pair.unreliable(), odd] {
        let vi = pair.vi(attributes)?;
        same(pair.nic.query_vi(vi)?.attributes, attributes, "the attributes")?;
    }
    Ok(())
}

fn vi_tells_whether_its_queues_are_empty<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    let empty = |pair: &mut Pair<D>| -> Outcome<(bool, bool)> {
        let info = pair.nic.query_vi(vi)?;
        Ok((info.send_queue_empty, info.receive_queue_empty))
    };
    same(empty(pair)?, (true, true), "a new VI")?;
    pair.post_recv(vi, Descriptor::receive())?;
    same(empty(pair)?, (true, false), "with a receive")?;
    pair.post_send(vi, Descriptor::send())?;
    same(empty(pair)?, (false, false), "with a flushed send that was not dequeued")?;
    pair.sent(vi)?;
    same(empty(pair)?, (true, false), "after that was dequeued")
}

fn vi_destroyed_is_unknown<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    pair.nic.destroy_vi(vi)?;
    refused(pair.nic.destroy_vi(vi), VipReturn::InvalidParameter)?;
    refused(pair.nic.query_vi(vi), VipReturn::InvalidParameter)?;
    refused(pair.nic.disconnect(vi), VipReturn::InvalidParameter)?;
    refused(pair.nic.send_done(vi), VipReturn::InvalidParameter)?;
    refused(pair.nic.recv_done(vi), VipReturn::InvalidParameter)?;
    refused(
        pair.nic.post_send(vi, Descriptor::send()).map_err(|error| error.error),
        VipReturn::InvalidParameter,
    )?;
    refused(
        pair.nic.post_recv(vi, Descriptor::receive()).map_err(|error| error.error),
        VipReturn::InvalidParameter,
    )
}

fn vi_destroyed_must_be_idle<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    refused(pair.nic.destroy_vi(vi), VipReturn::InvalidState)
}

fn vi_destroyed_must_have_empty_queues<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    pair.post_send(vi, Descriptor::send())?;
    refused(pair.nic.destroy_vi(vi), VipReturn::InvalidState)?;
    pair.sent(vi)?;
    pair.nic.destroy_vi(vi)?;
    Ok(())
}

fn vi_of_an_unknown_queue_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let cq = pair.cq(4)?;
    pair.nic.destroy_cq(cq)?;
    refused(pair.nic.create_vi(pair.delivery(), Some(cq), None), VipReturn::InvalidParameter)?;
    refused(pair.nic.create_vi(pair.delivery(), None, Some(cq)), VipReturn::InvalidParameter)
}

fn vi_of_no_transfer_size_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let none = ViAttributes { transfer_bytes_max: 0, ..pair.delivery() };
    refused(pair.nic.create_vi(none, None, None), VipReturn::InvalidParameter)
}

fn vi_unreliable_has_no_reads<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let reads = ViAttributes { rdma_read: true, ..pair.unreliable() };
    refused(pair.nic.create_vi(reads, None, None), VipReturn::InvalidRdmaRead)
}

/// Checks that all descriptors posted to the send queue are flushed at once, and that inline posts are refused.
fn flushes_sends<D: Device>(pair: &mut Pair<D>, vi: am_via_vipl::ViHandle) -> Outcome {
    let region = pair.region(8)?;
    let place = AddressSegment { handle: region.handle, offset: 0 };
    for (descriptor, operation) in [
        (Descriptor::send(), Status::OP_SEND),
        (Descriptor::send().with_immediate(1), Status::OP_SEND),
        (Descriptor::rdma_write(place), Status::OP_RDMA_WRITE),
        (Descriptor::rdma_write(place).with_immediate(1), Status::OP_RDMA_WRITE),
        (Descriptor::rdma_read(place), Status::OP_RDMA_READ),
    ] {
        pair.post_send(vi, descriptor.with_segment(region.segment(0, 8)))?;
        same(pair.sent(vi)?.status(), flushed(operation), "what was posted")?;
    }
    refused(pair.nic.post_inline(vi, None, &[1]), VipReturn::InvalidState)
}

fn vi_idle_flushes_sends<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    flushes_sends(pair, vi)?;
    same(pair.state(vi)?, ViState::Idle, "the state")
}

fn vi_idle_keeps_receives<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    pair.post_recv(vi, Descriptor::receive())?;
    ensure(pair.nic.recv_done(vi)?.is_none(), "the receive ended before a connection")?;
    pair.connect(vi)?;
    pair.post_send(vi, Descriptor::send().with_immediate(3))?;
    same(pair.received_well(vi)?.immediate(), Some(3), "the immediate data")
}

fn pending<D: Device>(pair: &mut Pair<D>) -> Outcome<am_via_vipl::ViHandle> {
    let vi = pair.vi(pair.delivery())?;
    let other = pair.other();
    pair.nic.connect_peer_request(vi, Discriminator::new(b"nobody")?, other, None)?;
    same(pair.state(vi)?, ViState::ConnectPending, "the state")?;
    Ok(vi)
}

fn vi_pending_flushes_sends<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pending(pair)?;
    flushes_sends(pair, vi)?;
    same(pair.state(vi)?, ViState::ConnectPending, "the state")
}

fn vi_pending_keeps_receives<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pending(pair)?;
    pair.post_recv(vi, Descriptor::receive())?;
    ensure(pair.nic.recv_done(vi)?.is_none(), "the receive ended before a connection")?;
    pair.nic.disconnect(vi)?;
    same(pair.received(vi)?.status(), flushed(Status::OP_RECEIVE), "the receive, when the request ends")
}

/// A VI that side A has disconnected: side B's VI is in the state Error.
fn broken<D: Device>(pair: &mut Pair<D>) -> Outcome<am_via_vipl::ViHandle> {
    let vi = pair.connected(pair.delivery())?;
    if pair.is_a() {
        pair.nic.disconnect(vi)?;
        same(pair.state(vi)?, ViState::Idle, "the state of the VI that disconnects")?;
    } else {
        pair.until_state(vi, ViState::Error)?;
    }
    pair.sync()?;
    Ok(vi)
}

fn vi_broken_flushes_both<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = broken(pair)?;
    if !pair.is_a() {
        flushes_sends(pair, vi)?;
        pair.post_recv(vi, Descriptor::receive())?;
        same(pair.received(vi)?.status(), flushed(Status::OP_RECEIVE), "the receive")?;
        same(pair.state(vi)?, ViState::Error, "the state")?;
    }
    Ok(())
}

fn vi_broken_is_idle_after_a_disconnect<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = broken(pair)?;
    if !pair.is_a() {
        let other = pair.other();
        let asked = pair.nic.connect_peer_request(vi, Discriminator::default(), other, None);
        refused(asked, VipReturn::InvalidState)?;
        pair.nic.disconnect(vi)?;
    }
    same(pair.state(vi)?, ViState::Idle, "the state")?;
    pair.nic.destroy_vi(vi)?;
    Ok(())
}

fn vi_idle_is_not_disconnected<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    refused(pair.nic.disconnect(vi), VipReturn::InvalidState)
}

/// Posts receives of 1 to 5 bytes.
fn post_five<D: Device>(pair: &mut Pair<D>, vi: am_via_vipl::ViHandle) -> Outcome {
    let region = pair.region(8)?;
    for length in 1..=5 {
        pair.post_recv(vi, Descriptor::receive().with_segment(region.segment(0, length)))?;
    }
    Ok(())
}

fn five_flushed<D: Device>(pair: &mut Pair<D>, vi: am_via_vipl::ViHandle) -> Outcome {
    for length in 1..=5 {
        let done = pair.received(vi)?;
        same(done.status(), flushed(Status::OP_RECEIVE), "the receive")?;
        same(done.segments().first().map(|segment| segment.length), Some(length), "the next receive")?;
        same(done.length(), 0, "the bytes received")?;
    }
    Ok(())
}

fn disconnect_flushes_in_order<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    post_five(pair, vi)?;
    pair.sync()?;
    if pair.is_a() {
        pair.nic.disconnect(vi)?;
        five_flushed(pair, vi)?;
        same(pair.nic.next_error(), None, "an error at the side that disconnected")?;
    }
    Ok(())
}

fn disconnect_breaks_the_other_side_in_order<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    post_five(pair, vi)?;
    pair.sync()?;
    if pair.is_a() {
        pair.nic.disconnect(vi)?;
    } else {
        pair.until_state(vi, ViState::Error)?;
        five_flushed(pair, vi)?;
    }
    Ok(())
}

fn vi_connects_again_after_a_disconnect<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    for round in 0..5 {
        pair.connect(vi)?;
        pair.post_recv(vi, Descriptor::receive())?;
        pair.sync()?;
        pair.post_send(vi, Descriptor::send().with_immediate(round))?;
        same(pair.received_well(vi)?.immediate(), Some(round), "the immediate data")?;
        same(pair.sent(vi)?.status(), success(Status::OP_SEND), "the send")?;
        pair.sync()?;
        pair.nic.disconnect(vi)?;
        pair.sync()?;
    }
    Ok(())
}

fn queue_has_a_limit_of_sends<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    let limit = pair.nic.limits().descriptors_per_queue_max;
    for _ in 0..limit {
        pair.post_send(vi, Descriptor::send())?;
    }
    let beyond = pair.nic.post_send(vi, Descriptor::send().with_immediate(5));
    let Err(error) = beyond else { return crate::pair::fail("a descriptor beyond the limit was accepted") };
    same(error.descriptor.immediate(), Some(5), "the descriptor that is returned")?;
    refused::<(), _>(Err(error.error), VipReturn::ErrorResource)?;
    for _ in 0..limit {
        pair.sent(vi)?;
    }
    pair.post_send(vi, Descriptor::send())
}

fn queue_has_a_limit_of_receives<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    for _ in 0..pair.nic.limits().descriptors_per_queue_max {
        pair.post_recv(vi, Descriptor::receive())?;
    }
    let beyond = pair.nic.post_recv(vi, Descriptor::receive()).map_err(|error| error.error);
    refused(beyond, VipReturn::ErrorResource)
}

fn vis_have_a_limit<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let limit = pair.nic.limits().vis_max as usize;
    let (mut made, mut refusal) = (0, None);
    while made <= limit && refusal.is_none() {
        let attributes = pair.delivery();
        match pair.nic.create_vi(attributes, None, None) {
            Ok(vi) => {
                made += 1;
                pair.adopt(vi);
            }
            Err(error) => refusal = Some(error.vip_return()),
        }
    }
    same(
        (made, refusal),
        (limit, Some(VipReturn::ErrorResource)),
        "number of VIs, and the refusal of one more",
    )
}

fn vi_of_another_nic_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let mut other = pair.open(13)?;
    let tag = other.create_ptag()?;
    pair.vi(pair.delivery())?;
    let foreign = other.create_vi(ViAttributes::new(tag), None, None)?;
    refused(pair.nic.query_vi(foreign), VipReturn::InvalidParameter)?;
    refused(pair.nic.destroy_vi(foreign), VipReturn::InvalidParameter)?;
    let posted = pair.nic.post_recv(foreign, Descriptor::receive()).map_err(|error| error.error);
    refused(posted, VipReturn::InvalidParameter)
}

fn vi_of_a_slot_used_again_is_another<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let gone = pair.vi(pair.delivery())?;
    pair.nic.destroy_vi(gone)?;
    let next = pair.vi(pair.delivery())?;
    ensure(gone != next, "the handle was reused")?;
    refused(pair.nic.query_vi(gone), VipReturn::InvalidParameter)
}

fn vi_changes_its_attributes_when_idle<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    let tag = pair.nic.create_ptag()?;
    let new = ViAttributes { transfer_bytes_max: 100, qos: 2, ..ViAttributes::new(tag) };
    pair.nic.set_vi_attributes(vi, new)?;
    same(pair.nic.query_vi(vi)?.attributes, new, "the attributes")?;
    refused(pair.nic.destroy_ptag(tag), VipReturn::ErrorResource)?;
    pair.nic.destroy_vi(vi)?;
    Ok(pair.nic.destroy_ptag(tag)?)
}

fn vi_keeps_its_attributes_when_not_idle<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    refused(pair.nic.set_vi_attributes(vi, pair.reception()), VipReturn::InvalidState)?;
    same(pair.nic.query_vi(vi)?.attributes, pair.delivery(), "the attributes")?;
    let waits = pending(pair)?;
    refused(pair.nic.set_vi_attributes(waits, pair.reception()), VipReturn::InvalidState)
}

fn vi_keeps_its_attributes_when_new_ones_are_wrong<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    let gone = pair.nic.create_ptag()?;
    pair.nic.destroy_ptag(gone)?;
    let wrong = ViAttributes { rdma_read: true, ..pair.unreliable() };
    refused(pair.nic.set_vi_attributes(vi, wrong), VipReturn::InvalidRdmaRead)?;
    refused(pair.nic.set_vi_attributes(vi, ViAttributes::new(gone)), VipReturn::InvalidPtag)?;
    same(pair.nic.query_vi(vi)?.attributes, pair.delivery(), "the attributes")
}

fn vis_between_two_nics_are_many<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let mut vis = Vec::new();
    for _ in 0..40 {
        let vi = pair.connected(pair.delivery())?;
        pair.post_recv(vi, Descriptor::receive())?;
        vis.push(vi);
    }
    pair.sync()?;
    for (number, &vi) in (0..).zip(&vis) {
        pair.post_send(vi, Descriptor::send().with_immediate(number))?;
    }
    for (number, &vi) in (0..).zip(&vis) {
        same(pair.received_well(vi)?.immediate(), Some(number), "the immediate data")?;
    }
    Ok(())
}
