//! The exact semantics of the three reliability levels.

use std::time::Instant;

use crate::pair::{DIES_AFTER, Outcome, Pair, ensure, same};
use crate::suite::{Needs, table};
use am_via_nic::Device;
use am_via_vipl::{AddressSegment, AsyncCode, Control, Descriptor, Status, ViAttributes, ViState};

table! {
    EarlyAdopter {
        delivery_is_done_when_the_data_have_left: "Reliable Delivery: completion";
        delivery_without_a_receive_breaks: "Reliable Delivery: VIP_ERROR_RECVQ_EMPTY";
    }
    Functional {
        delivery_keeps_the_order_of_all_operations: "Reliable Delivery: order";
        reception_is_done_when_the_data_are_received: "Reliable Reception: completion";
        reception_of_a_write_is_done_when_it_is_in_place: "Reliable Reception: RDMA Write";
        reception_without_a_receive_tells_the_sender: "Reliable Reception: VIP_STATUS_REMOTE_DESC_ERROR";
        reception_of_too_much_tells_the_sender: "Reliable Reception: VIP_STATUS_REMOTE_DESC_ERROR";
        reception_begins_nothing_after_an_error: "Reliable Reception: later descriptors";
        unreliable_without_a_receive_loses_one_message: "Unreliable Delivery: VIP_ERROR_RECVQ_EMPTY";
        unreliable_of_too_much_loses_one_message: "Unreliable Delivery: VIP_STATUS_LENGTH_ERROR";
        unreliable_is_done_when_the_data_have_left: "Unreliable Delivery: completion";
        unreliable_survives_a_wrong_descriptor: "Unreliable Delivery: errors";
        levels_do_not_disturb_each_other: "VIs of different levels between two NICs";
        death_of_the_peer_is_an_asynchronous_error: "VIP_ERROR_CONN_LOST: remote process death" [Needs::Death];
        death_of_the_peer_ends_a_wait: "VipRecvWait, VipSendWait: remote process death" [Needs::Death];
        death_of_the_peer_ends_a_request: "VipConnectRequest: remote process death" [Needs::Death];
        death_of_the_peer_in_a_copy_gives_memory_back: "VipDeregisterMem: remote process death" [Needs::Death];
    }
}

fn delivery_is_done_when_the_data_have_left<D: Device>(pair: &mut Pair<D>) -> Outcome {
    done_when_left(pair, pair.delivery())
}

fn unreliable_is_done_when_the_data_have_left<D: Device>(pair: &mut Pair<D>) -> Outcome {
    done_when_left(pair, pair.unreliable())
}

fn done_when_left<D: Device>(pair: &mut Pair<D>, attributes: ViAttributes) -> Outcome {
    let vi = pair.connected(attributes)?;
    pair.post_recv(vi, Descriptor::receive())?;
    pair.sync_still()?;
    if pair.is_a() {
        pair.post_send(vi, Descriptor::send())?;
        // Side B does not poll.
        pair.sent_well(vi)?;
    }
    pair.sync_still()?;
    if !pair.is_a() {
        pair.received_well(vi)?;
    }
    pair.sync()
}

fn delivery_without_a_receive_breaks<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    if pair.is_a() {
        pair.post_send(vi, Descriptor::send().with_immediate(1))?;
        pair.sent(vi)?;
        pair.until_state(vi, ViState::Error)?;
        pair.async_error(AsyncCode::ConnectionLost)?;
    } else {
        pair.async_error(AsyncCode::ReceiveQueueEmpty)?;
        pair.async_error(AsyncCode::ConnectionLost)?;
        same(pair.state(vi)?, ViState::Error, "the state")?;
    }
    Ok(())
}

fn delivery_keeps_the_order_of_all_operations<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    let region = pair.region(30_000)?;
    let theirs = pair.swap_handle(region.handle)?;
    for _ in 0..100 {
        pair.post_recv(vi, Descriptor::receive().with_segment(region.segment(10_000, 10_000)))?;
    }
    pair.sync()?;
    for number in 0..100_u32 {
        let place = AddressSegment { handle: theirs, offset: 20_000 };
        let len = (number * 97) % 10_000;
        let own = region.segment(0, len);
        let descriptor = match number % 3 {
            0 => Descriptor::send().with_segment(own),
            1 => Descriptor::rdma_write(place).with_segment(own),
            _ => Descriptor::send(),
        };
        pair.post_send(vi, descriptor.with_immediate(number))?;
    }
    for number in 0..100 {
        same(pair.received_well(vi)?.immediate(), Some(number), "the next message")?;
    }
    Ok(())
}

fn reception_is_done_when_the_data_are_received<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.reception())?;
    for _ in 0..2 {
        pair.post_recv(vi, Descriptor::receive())?;
    }
    pair.sync_still()?;
    if pair.is_a() {
        pair.post_send(vi, Descriptor::send().with_immediate(1))?;
        pair.post_send(vi, Descriptor::send().with_immediate(2))?;
        for _ in 0..200 {
            ensure(pair.nic.send_done(vi)?.is_none(), "done while the peer has not looked")?;
        }
        pair.sync_still()?;
        pair.sent_well(vi)?;
        pair.sent_well(vi)?;
    } else {
        pair.sync_still()?;
        for number in 1..=2 {
            same(pair.received_well(vi)?.immediate(), Some(number), "the next message")?;
        }
    }
    Ok(())
}

fn reception_of_a_write_is_done_when_it_is_in_place<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.reception())?;
    let region = pair.region(100_000)?;
    let theirs = pair.swap_handle(region.handle)?;
    for round in 0..10 {
        if pair.is_a() {
            region.fill(round)?;
            let place = AddressSegment { handle: theirs, offset: 0 };
            pair.post_send(vi, Descriptor::rdma_write(place).with_segment(region.segment(0, 100_000)))?;
            pair.sent_well(vi)?;
        }
        pair.sync()?;
        if !pair.is_a() {
            region.must_hold(0, 100_000, round, 0)?;
        }
        pair.sync()?;
    }
    Ok(())
}

fn reception_without_a_receive_tells_the_sender<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.reception())?;
    if pair.is_a() {
        pair.post_send(vi, Descriptor::send())?;
        same(pair.sent(vi)?.status().errors(), Status::REMOTE_DESC_ERROR, "the error")?;
    }
    pair.until_state(vi, ViState::Error)
}

fn reception_of_too_much_tells_the_sender<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.reception())?;
    let region = pair.region(100)?;
    pair.post_recv(vi, Descriptor::receive().with_segment(region.segment(0, 10)))?;
    pair.sync()?;
    if pair.is_a() {
        pair.post_send(vi, Descriptor::send().with_segment(region.segment(0, 11)))?;
        ensure(pair.sent(vi)?.status().contains(Status::REMOTE_DESC_ERROR), "the sender got no error")?;
    } else {
        ensure(pair.received(vi)?.status().contains(Status::LENGTH_ERROR), "no length error")?;
    }
    pair.until_state(vi, ViState::Error)
}

fn reception_begins_nothing_after_an_error<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.reception())?;
    let region = pair.region(64)?;
    let theirs = pair.swap_handle(region.handle)?;
    if pair.is_a() {
        region.fill(1)?;
        pair.post_send(vi, Descriptor::send().with_control(Control::IMMEDIATE))?;
        let place = AddressSegment { handle: theirs, offset: 0 };
        pair.post_send(vi, Descriptor::rdma_write(place).with_segment(region.segment(0, 64)))?;
        same(pair.sent(vi)?.status().errors(), Status::REMOTE_DESC_ERROR, "the first")?;
        same(pair.sent(vi)?.status().errors(), Status::DESC_FLUSHED_ERROR, "the second")?;
        pair.sync()
    } else {
        pair.until_state(vi, ViState::Error)?;
        pair.sync()?;
        region.must_be_untouched()
    }
}

fn unreliable_without_a_receive_loses_one_message<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.unreliable())?;
    for len in [0, 8, 30_000] {
        let region = pair.region(30_000)?;
        if pair.is_a() {
            pair.post_send(vi, Descriptor::send().with_segment(region.segment(0, len)))?;
            pair.sent_well(vi)?;
            pair.sync()?;
            pair.post_send(vi, Descriptor::send().with_immediate(len))?;
            pair.sent_well(vi)?;
        } else {
            pair.async_error(AsyncCode::ReceiveQueueEmpty)?;
            pair.post_recv(vi, Descriptor::receive())?;
            pair.sync()?;
            same(pair.received_well(vi)?.immediate(), Some(len), "the next message")?;
        }
        same(pair.state(vi)?, ViState::Connected, "the state")?;
        pair.sync()?;
    }
    Ok(())
}

fn unreliable_of_too_much_loses_one_message<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.unreliable())?;
    for len in [9, 30_000] {
        let region = pair.region(30_000)?;
        for size in [len - 1, len] {
            pair.post_recv(vi, Descriptor::receive().with_segment(region.segment(0, size)))?;
        }
        pair.sync()?;
        if pair.is_a() {
            for _ in 0..2 {
                pair.post_send(vi, Descriptor::send().with_segment(region.segment(0, len)))?;
                pair.sent_well(vi)?;
            }
        } else {
            ensure(pair.received(vi)?.status().contains(Status::LENGTH_ERROR), "no length error")?;
            same(pair.received_well(vi)?.length(), len, "the next message")?;
        }
        same(pair.state(vi)?, ViState::Connected, "the state")?;
        pair.sync()?;
    }
    Ok(())
}

fn unreliable_survives_a_wrong_descriptor<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.unreliable())?;
    let region = pair.region(8)?;
    pair.post_recv(vi, Descriptor::receive())?;
    pair.sync()?;
    for (wrong, error) in [
        (Descriptor::send().with_control(Control(3)), Status::FORMAT_ERROR),
        (Descriptor::send().with_length(1), Status::LENGTH_ERROR),
        (Descriptor::send().with_segment(region.segment(1, 8)), Status::PROTECTION_ERROR),
        (Descriptor::send().with_immediate(1), Status::default()),
    ] {
        pair.post_send(vi, wrong)?;
        same(pair.sent(vi)?.status().errors(), error, "the error")?;
    }
    same(pair.received_well(vi)?.immediate(), Some(1), "the message after them")?;
    same(pair.state(vi)?, ViState::Connected, "the state")
}

fn levels_do_not_disturb_each_other<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vis = [
        pair.connected(pair.unreliable())?,
        pair.connected(pair.delivery())?,
        pair.connected(pair.reception())?,
        pair.connected(pair.delivery())?,
    ];
    let [loses, breaks, told, stays] = vis;
    pair.post_recv(stays, Descriptor::receive())?;
    pair.sync()?;
    if pair.is_a() {
        for vi in [loses, breaks, told] {
            pair.post_send(vi, Descriptor::send())?;
            pair.sent(vi)?;
        }
    }
    for vi in [breaks, told] {
        pair.until_state(vi, ViState::Error)?;
    }
    pair.sync()?;
    pair.post_send(stays, Descriptor::send().with_immediate(1))?;
    same(pair.received_well(stays)?.immediate(), Some(1), "the message on the last VI")?;
    same((pair.state(loses)?, pair.state(stays)?), (ViState::Connected, ViState::Connected), "the states")
}

fn death_of_the_peer_is_an_asynchronous_error<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    for _ in 0..3 {
        pair.post_recv(vi, Descriptor::receive())?;
    }
    pair.sync()?;
    if !pair.is_a() {
        (pair.die)();
        return Ok(());
    }
    pair.until_state(vi, ViState::Error)?;
    pair.async_error(AsyncCode::ConnectionLost)?;
    for _ in 0..3 {
        same(pair.received(vi)?.status().errors(), Status::DESC_FLUSHED_ERROR, "a receive")?;
    }
    pair.post_send(vi, Descriptor::send())?;
    same(pair.sent(vi)?.status().errors(), Status::DESC_FLUSHED_ERROR, "a send")?;
    pair.nic.disconnect(vi)?;
    same(pair.state(vi)?, ViState::Idle, "the state")
}

fn death_of_the_peer_ends_a_wait<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.reception())?;
    pair.post_recv(vi, Descriptor::receive())?;
    pair.sync_still()?;
    if !pair.is_a() {
        // Long enough that side A sleeps.
        std::thread::sleep(std::time::Duration::from_millis(100));
        (pair.die)();
        return Ok(());
    }
    pair.post_send(vi, Descriptor::send())?;
    same(pair.nic.recv_wait(vi, None)?.status().errors(), Status::DESC_FLUSHED_ERROR, "the receive")?;
    ensure(!pair.nic.send_wait(vi, None)?.status().is_success(), "a send to a dead peer was received")
}

fn death_of_the_peer_ends_a_request<D: Device>(pair: &mut Pair<D>) -> Outcome {
    pair.sync_still()?;
    if !pair.is_a() {
        std::thread::sleep(std::time::Duration::from_millis(100));
        (pair.die)();
        return Ok(());
    }
    let vi = pair.vi(pair.delivery())?;
    let other = pair.other();
    let asked = pair.nic.connect_request(vi, am_via_vipl::Discriminator::default(), other, None);
    crate::pair::refused(asked, am_via_vipl::VipReturn::Reject)?;
    same(pair.state(vi)?, ViState::Idle, "the state")
}

fn death_of_the_peer_in_a_copy_gives_memory_back<D: Device>(pair: &mut Pair<D>) -> Outcome {
    const BYTES: u32 = 32 << 20;
    let vi = pair.connected(pair.delivery())?;
    let region = pair.region(BYTES as usize)?;
    let handle = pair.swap_handle(region.handle)?;
    if !pair.is_a() {
        (pair.die_soon)();
        let place = AddressSegment { handle, offset: 0 };
        let start = Instant::now();
        while start.elapsed() < 10 * DIES_AFTER {
            pair.post_send(vi, Descriptor::rdma_write(place).with_segment(region.segment(0, BYTES)))?;
            // If only the task dies, not its process, no further message arrives, and the loop ends at its time limit.
            while pair.nic.send_done(vi)?.is_none() && start.elapsed() < 10 * DIES_AFTER {}
        }
        return Ok(());
    }
    pair.until_state(vi, ViState::Error)?;
    pair.deregister(region.handle)?;
    // The new region reuses the slot of the table.
    let next = pair.region(64)?;
    pair.deregister(next.handle)
}
