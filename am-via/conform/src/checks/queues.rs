//! Completion queues, and waiting.

use std::time::{Duration, Instant};

use crate::pair::{Outcome, Pair, ensure, fail, refused, same};
use crate::suite::table;
use am_via_nic::Device;
use am_via_vipl::{AsyncCode, CqEntry, CqHandle, Descriptor, Queue, Resource, Status, ViHandle, VipReturn};

table! {
    EarlyAdopter {
        cq_is_created_and_destroyed: "VipCreateCQ, VipDestroyCQ";
        cq_of_no_entries_is_refused: "VipCreateCQ: VIP_INVALID_PARAMETER";
        cq_has_a_limit_of_entries: "MaxCQEntries, and one beyond";
        cqs_have_a_limit: "MaxCQ, and one beyond";
        cq_in_use_is_not_destroyed: "VipDestroyCQ: VIP_ERROR_RESOURCE";
        cq_destroyed_is_unknown: "VipCQDone: VIP_INVALID_PARAMETER";
        cq_of_another_nic_is_refused: "VIP_INVALID_PARAMETER: a foreign CQ handle";
        cq_names_vi_and_queue: "VipCQDone: VI and queue only";
        cq_entries_come_in_the_order_of_completion: "CQ entry order and queue order";
        cq_is_shared_by_vis: "VipCreateVi: one CQ for several queues";
        cq_of_one_queue_gets_no_entry_of_the_other: "VipCreateVi: SendCQ, RecvCQ";
        cq_gets_flushed_descriptors: "VipCQDone after VipDisconnect";
        cq_loses_the_entries_of_a_destroyed_vi: "VipDestroyVi: CQ entries";
        wait_with_timeout_0_polls: "VipRecvWait, VipSendWait, VipCQWait: timeout 0";
        wait_ends_after_its_timeout: "VipRecvWait, VipSendWait, VipCQWait: VIP_TIMEOUT";
        wait_without_end_ends_with_a_completion: "VipSendWait, VipRecvWait, VipCQWait: VIP_INFINITE";
        wait_ends_when_the_connection_does: "VipRecvWait: a flush ends it";
    }
    Functional {
        cq_overrun_is_an_asynchronous_error: "CQ overrun";
        cq_grows: "VipResizeCQ";
        cq_does_not_shrink_below_what_waits: "VipResizeCQ: VIP_ERROR_RESOURCE";
        cq_is_resized_within_limits: "VipResizeCQ: VIP_INVALID_PARAMETER";
    }
}

fn cq_is_created_and_destroyed<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let cq = pair.cq(16)?;
    same(pair.nic.cq_done(cq)?, None, "an entry of a new queue")?;
    Ok(pair.nic.destroy_cq(cq)?)
}

fn cq_of_no_entries_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    refused(pair.nic.create_cq(0), VipReturn::InvalidParameter)
}

fn cq_has_a_limit_of_entries<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let limit = pair.nic.limits().cq_entries_max;
    pair.cq(limit)?;
    refused(pair.nic.create_cq(limit + 1), VipReturn::InvalidParameter)
}

fn cqs_have_a_limit<D: Device>(pair: &mut Pair<D>) -> Outcome {
    for _ in 0..pair.nic.limits().cqs_max {
        pair.cq(1)?;
    }
    refused(pair.nic.create_cq(1), VipReturn::ErrorResource)
}

fn cq_in_use_is_not_destroyed<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let cq = pair.cq(4)?;
    let vi = pair.vi_with(pair.delivery(), Some(cq), None)?;
    refused(pair.nic.destroy_cq(cq), VipReturn::ErrorResource)?;
    pair.nic.destroy_vi(vi)?;
    Ok(pair.nic.destroy_cq(cq)?)
}

fn cq_destroyed_is_unknown<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let cq = pair.cq(4)?;
    pair.nic.destroy_cq(cq)?;
    refused(pair.nic.cq_done(cq), VipReturn::InvalidParameter)?;
    refused(pair.nic.cq_wait(cq, None), VipReturn::InvalidParameter)?;
    refused(pair.nic.resize_cq(cq, 2), VipReturn::InvalidParameter)?;
    refused(pair.nic.destroy_cq(cq), VipReturn::InvalidParameter)?;
    refused(pair.nic.cq_notify(cq, Box::new(|_, _| {})), VipReturn::InvalidParameter)
}

fn cq_of_another_nic_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let mut other = pair.open(14)?;
    let foreign = other.create_cq(4)?;
    pair.cq(4)?;
    refused(pair.nic.cq_done(foreign), VipReturn::InvalidParameter)?;
    refused(pair.nic.create_vi(pair.delivery(), Some(foreign), None), VipReturn::InvalidParameter)
}

/// A connected VI with a completion queue of `entries` for both its queues.
fn with_cq<D: Device>(pair: &mut Pair<D>, entries: u32) -> Outcome<(ViHandle, CqHandle)> {
    let cq = pair.cq(entries)?;
    let vi = pair.vi_with(pair.delivery(), Some(cq), Some(cq))?;
    pair.connect(vi)?;
    Ok((vi, cq))
}

fn entry<D: Device>(pair: &mut Pair<D>, cq: CqHandle) -> Outcome<CqEntry> {
    Ok(pair.nic.cq_wait(cq, Some(pair.patience()))?)
}

fn cq_names_vi_and_queue<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let (vi, cq) = with_cq(pair, 8)?;
    pair.post_recv(vi, Descriptor::receive())?;
    pair.sync_still()?;
    pair.post_send(vi, Descriptor::send())?;
    same(entry(pair, cq)?, CqEntry { vi, queue: Queue::Send }, "the entry of the send")?;
    ensure(pair.nic.send_done(vi)?.is_some_and(|done| done.status().is_success()), "no send was done")?;
    same(entry(pair, cq)?, CqEntry { vi, queue: Queue::Receive }, "the entry of the receive")?;
    ensure(pair.nic.recv_done(vi)?.is_some_and(|done| done.status().is_success()), "no receive was done")?;
    same(pair.nic.cq_done(cq)?, None, "a third entry")
}

fn cq_entries_come_in_the_order_of_completion<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let (vi, cq) = with_cq(pair, 64)?;
    for _ in 0..20 {
        pair.post_recv(vi, Descriptor::receive())?;
    }
    pair.sync()?;
    for number in 0..20 {
        pair.post_send(vi, Descriptor::send().with_immediate(number))?;
    }
    let mut received = 0;
    let mut sent = 0;
    for _ in 0..40 {
        let (queue, number) = match entry(pair, cq)?.queue {
            Queue::Send => (pair.nic.send_done(vi)?, &mut sent),
            Queue::Receive => (pair.nic.recv_done(vi)?, &mut received),
        };
        same(queue.and_then(|done| done.immediate()), Some(*number), "the descriptor of the entry")?;
        *number += 1;
    }
    same((sent, received), (20, 20), "sends and receives")
}

fn cq_is_shared_by_vis<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let cq = pair.cq(64)?;
    let mut vis = Vec::new();
    for _ in 0..5 {
        let vi = pair.vi_with(pair.delivery(), None, Some(cq))?;
        pair.connect(vi)?;
        pair.post_recv(vi, Descriptor::receive())?;
        vis.push(vi);
    }
    pair.sync()?;
    for &vi in vis.iter().rev() {
        pair.post_send(vi, Descriptor::send())?;
    }
    for &vi in vis.iter().rev() {
        same(entry(pair, cq)?, CqEntry { vi, queue: Queue::Receive }, "the entry")?;
    }
    Ok(())
}

fn cq_of_one_queue_gets_no_entry_of_the_other<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let cq = pair.cq(8)?;
    let vi = pair.vi_with(pair.delivery(), Some(cq), None)?;
    pair.connect(vi)?;
    pair.post_recv(vi, Descriptor::receive())?;
    pair.sync()?;
    pair.post_send(vi, Descriptor::send())?;
    pair.received_well(vi)?;
    same(entry(pair, cq)?.queue, Queue::Send, "the queue")?;
    same(pair.nic.cq_done(cq)?, None, "a second entry")
}

fn cq_gets_flushed_descriptors<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let (vi, cq) = with_cq(pair, 8)?;
    for _ in 0..3 {
        pair.post_recv(vi, Descriptor::receive())?;
    }
    pair.sync()?;
    if pair.is_a() {
        pair.nic.disconnect(vi)?;
    }
    for _ in 0..3 {
        same(entry(pair, cq)?, CqEntry { vi, queue: Queue::Receive }, "the entry")?;
        let errors = pair.nic.recv_done(vi)?.map(|done| done.status().errors());
        same(errors, Some(Status::DESC_FLUSHED_ERROR), "the receive")?;
    }
    Ok(())
}

fn cq_loses_the_entries_of_a_destroyed_vi<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let cq = pair.cq(8)?;
    let vi = pair.vi_with(pair.delivery(), Some(cq), None)?;
    pair.post_send(vi, Descriptor::send())?;
    pair.sent(vi)?;
    pair.nic.destroy_vi(vi)?;
    same(pair.nic.cq_done(cq)?, None, "an entry of a VI that is gone")
}

fn cq_overrun_is_an_asynchronous_error<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let (vi, cq) = with_cq(pair, 2)?;
    for _ in 0..4 {
        pair.post_recv(vi, Descriptor::receive())?;
    }
    pair.sync_still()?;
    if pair.is_a() {
        for number in 0..4 {
            pair.post_send(vi, Descriptor::send().with_immediate(number))?;
        }
        for _ in 0..2 {
            pair.async_error(AsyncCode::CompletionOverrun)?;
        }
    } else {
        for _ in 0..2 {
            let error = pair.async_error(AsyncCode::CompletionOverrun)?;
            same(error.resource, Resource::CompletionQueue(cq), "the object of the error")?;
        }
        for number in 0..4 {
            same(pair.received_well(vi)?.immediate(), Some(number), "a descriptor whose entry was lost")?;
        }
        same(
            (pair.nic.cq_done(cq)?.is_some(), pair.nic.cq_done(cq)?.is_some()),
            (true, true),
            "two entries",
        )?;
        same(pair.nic.cq_done(cq)?, None, "a third entry")?;
    }
    Ok(())
}

fn cq_grows<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let cq = pair.cq(1)?;
    let vi = pair.vi_with(pair.delivery(), Some(cq), None)?;
    pair.post_send(vi, Descriptor::send())?;
    pair.nic.resize_cq(cq, 4)?;
    for _ in 0..3 {
        pair.post_send(vi, Descriptor::send())?;
    }
    for _ in 0..4 {
        ensure(pair.nic.cq_done(cq)?.is_some(), "an entry is missing")?;
    }
    same(pair.nic.next_error(), None, "an error")
}

fn cq_does_not_shrink_below_what_waits<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let cq = pair.cq(4)?;
    let vi = pair.vi_with(pair.delivery(), Some(cq), None)?;
    for _ in 0..3 {
        pair.post_send(vi, Descriptor::send())?;
    }
    refused(pair.nic.resize_cq(cq, 2), VipReturn::ErrorResource)?;
    pair.nic.resize_cq(cq, 3)?;
    for _ in 0..3 {
        ensure(pair.nic.cq_done(cq)?.is_some(), "an entry is missing")?;
    }
    pair.nic.resize_cq(cq, 1)?;
    Ok(())
}

fn cq_is_resized_within_limits<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let cq = pair.cq(4)?;
    let limit = pair.nic.limits().cq_entries_max;
    refused(pair.nic.resize_cq(cq, 0), VipReturn::InvalidParameter)?;
    refused(pair.nic.resize_cq(cq, limit + 1), VipReturn::InvalidParameter)?;
    pair.nic.resize_cq(cq, limit)?;
    Ok(())
}

fn waits<D: Device>(pair: &mut Pair<D>, timeout: Duration) -> Outcome {
    let (vi, cq) = with_cq(pair, 4)?;
    pair.post_recv(vi, Descriptor::receive())?;
    let started = Instant::now();
    refused(pair.nic.recv_wait(vi, Some(timeout)), VipReturn::Timeout)?;
    refused(pair.nic.send_wait(vi, Some(timeout)), VipReturn::Timeout)?;
    refused(pair.nic.cq_wait(cq, Some(timeout)), VipReturn::Timeout)?;
    ensure(started.elapsed() >= timeout * 3, "a wait returned before its timeout")?;
    pair.sync()
}

fn wait_with_timeout_0_polls<D: Device>(pair: &mut Pair<D>) -> Outcome {
    waits(pair, Duration::ZERO)?;
    // An existing completion is found at once.
    let vi = pair.vi(pair.delivery())?;
    pair.post_send(vi, Descriptor::send())?;
    pair.nic.send_wait(vi, Some(Duration::ZERO))?;
    Ok(())
}

fn wait_ends_after_its_timeout<D: Device>(pair: &mut Pair<D>) -> Outcome {
    waits(pair, Duration::from_millis(20))
}

fn wait_without_end_ends_with_a_completion<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let (vi, cq) = with_cq(pair, 8)?;
    for _ in 0..2 {
        pair.post_recv(vi, Descriptor::receive())?;
    }
    pair.sync()?;
    if pair.is_a() {
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(30));
            pair.post_send(vi, Descriptor::send())?;
            pair.nic.send_wait(vi, None)?;
        }
    } else {
        pair.nic.recv_wait(vi, None)?;
        pair.nic.cq_wait(cq, None)?;
        pair.nic.cq_wait(cq, None)?;
        if pair.nic.recv_done(vi)?.is_none() {
            return fail("an entry without a descriptor");
        }
    }
    Ok(())
}

fn wait_ends_when_the_connection_does<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    pair.post_recv(vi, Descriptor::receive())?;
    pair.sync()?;
    if pair.is_a() {
        std::thread::sleep(Duration::from_millis(30));
        pair.nic.disconnect(vi)?;
    } else {
        let done = pair.nic.recv_wait(vi, None)?;
        same(done.status().errors(), Status::DESC_FLUSHED_ERROR, "the receive")?;
    }
    Ok(())
}
