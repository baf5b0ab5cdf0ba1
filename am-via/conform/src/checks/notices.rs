//! Notification and asynchronous errors.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use crate::pair::{Outcome, Pair, ensure, flushed, refused, same, success};
use crate::suite::table;
use am_via_nic::Device;
use am_via_vipl::{
    AsyncCode, CqEntry, CqHandle, Descriptor, Queue, Resource, Status, UserAgent, ViHandle, ViState,
    VipReturn,
};

table! {
    Functional {
        error_handler_is_called: "VipErrorCallback";
        error_handler_gets_earlier_errors: "VipErrorCallback";
        error_handler_is_taken_away: "VipErrorCallback: NULL";
        error_handler_may_remove_itself: "VipErrorCallback: NULL, from the handler";
        error_handler_may_use_the_nic: "VipErrorCallback";
        error_of_a_lost_connection_names_the_vi: "VIP_ERROR_CONN_LOST: resource VI";
        error_of_an_empty_queue_names_the_vi: "VIP_ERROR_RECVQ_EMPTY: resource VI";
        error_of_a_refused_write_is_reported: "VIP_ERROR_RDMAW_PROT";
        disconnect_by_the_peer_is_reported: "remote disconnect notice";
    }
    Full {
        send_notification_comes_once: "VipSendNotify";
        receive_notification_comes_once: "VipRecvNotify";
        receive_notification_arms_itself_again: "VipRecvNotify: re-arm";
        send_notification_arms_itself_again: "VipSendNotify: re-arm";
        cq_notification_comes_once: "VipCQNotify";
        cq_notification_arms_itself_again: "VipCQNotify: re-arm";
        notification_is_armed_once: "VipSendNotify, VipRecvNotify, VipCQNotify: VIP_ERROR_RESOURCE";
        notification_comes_for_an_earlier_completion: "VipRecvNotify after completion";
        notification_comes_of_a_flush: "VipRecvNotify, VipDisconnect";
        notification_comes_in_own_calls_only: "VipRecvNotify: no thread";
        notification_of_a_vi_that_is_gone_does_not_come: "VipDestroyVi, VipSendNotify";
        notification_of_an_unknown_vi_is_refused: "VipSendNotify, VipRecvNotify: VIP_INVALID_PARAMETER";
    }
}

fn error_handler_is_called<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.unreliable())?;
    let (tell, told) = mpsc::channel();
    pair.nic.error_callback(Some(Box::new(move |_, error| tell.send(error).unwrap_or(()))));
    pair.sync()?;
    for _ in 0..3 {
        pair.post_send(vi, Descriptor::send())?;
    }
    for _ in 0..3 {
        let error = pair.until("a call of the handler", |_| Ok(told.try_recv().ok()))?;
        same((error.code, error.vi), (AsyncCode::ReceiveQueueEmpty, vi), "the error")?;
    }
    same(pair.nic.next_error(), None, "an error that the handler has already got")
}

fn error_handler_gets_earlier_errors<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    if pair.is_a() {
        pair.nic.disconnect(vi)?;
    } else {
        pair.until_state(vi, ViState::Error)?;
        let (tell, told) = mpsc::channel();
        pair.nic.error_callback(Some(Box::new(move |_, error| tell.send(error.code).unwrap_or(()))));
        let code = pair.until("a call of the handler", |_| Ok(told.try_recv().ok()))?;
        same(code, AsyncCode::ConnectionLost, "the error")?;
    }
    Ok(())
}

fn error_handler_is_taken_away<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.unreliable())?;
    let (tell, told) = mpsc::channel();
    pair.nic.error_callback(Some(Box::new(move |_, error| tell.send(error.code).unwrap_or(()))));
    pair.nic.error_callback(None);
    pair.sync()?;
    pair.post_send(vi, Descriptor::send())?;
    pair.async_error(AsyncCode::ReceiveQueueEmpty)?;
    ensure(told.try_recv().is_err(), "a handler was called after it was removed")
}

fn error_handler_may_remove_itself<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.unreliable())?;
    let (tell, told) = mpsc::channel();
    pair.nic.error_callback(Some(Box::new(move |nic: &mut UserAgent<D>, error| {
        nic.error_callback(None);
        tell.send(error.code).unwrap_or(());
    })));
    pair.sync()?;
    pair.post_send(vi, Descriptor::send())?;
    pair.post_send(vi, Descriptor::send())?;
    let first = pair.until("a call of the handler", |_| Ok(told.try_recv().ok()))?;
    same(first, AsyncCode::ReceiveQueueEmpty, "the first error")?;
    pair.async_error(AsyncCode::ReceiveQueueEmpty)?;
    ensure(told.try_recv().is_err(), "a handler was called after it removed itself")
}

fn error_handler_may_use_the_nic<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.unreliable())?;
    // The handler posts the missing receive.
    pair.nic.error_callback(Some(Box::new(|nic: &mut UserAgent<D>, error| {
        // If the queue is full, a receive is posted already.
        let _ = nic.post_recv(error.vi, Descriptor::receive());
    })));
    pair.sync()?;
    if pair.is_a() {
        pair.post_send(vi, Descriptor::send().with_immediate(1))?;
        pair.sync()?;
        pair.post_send(vi, Descriptor::send().with_immediate(2))?;
    } else {
        pair.until("a receive", |pair| Ok((!pair.nic.query_vi(vi)?.receive_queue_empty).then_some(())))?;
        pair.sync()?;
        same(pair.received_well(vi)?.immediate(), Some(2), "the second message")?;
    }
    Ok(())
}

fn error_of_a_lost_connection_names_the_vi<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let (first, second) = (pair.connected(pair.delivery())?, pair.connected(pair.delivery())?);
    if pair.is_a() {
        pair.nic.disconnect(second)?;
    } else {
        let error = pair.async_error(AsyncCode::ConnectionLost)?;
        same((error.vi, error.resource), (second, Resource::Vi), "the object of the error")?;
    }
    same(pair.state(first)?, ViState::Connected, "the other VI")
}

fn error_of_an_empty_queue_names_the_vi<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let (first, second) = (pair.connected(pair.unreliable())?, pair.connected(pair.unreliable())?);
    pair.post_recv(first, Descriptor::receive())?;
    pair.sync()?;
    pair.post_send(second, Descriptor::send())?;
    same(pair.async_error(AsyncCode::ReceiveQueueEmpty)?.vi, second, "the VI")
}

fn error_of_a_refused_write_is_reported<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    let none = am_via_nic::device::MemAttributes::default();
    let region = pair.region_with(8, pair.tag, none)?;
    let theirs = pair.swap_handle(region.handle)?;
    if pair.is_a() {
        let place = am_via_vipl::AddressSegment { handle: theirs, offset: 0 };
        pair.post_send(vi, Descriptor::rdma_write(place).with_segment(region.segment(0, 8)))?;
        ensure(pair.sent(vi)?.status().contains(Status::RDMA_PROT_ERROR), "the origin got no error")?;
        pair.async_error(AsyncCode::ConnectionLost)?;
    } else {
        same(pair.async_error(AsyncCode::RdmaWriteProtection)?.vi, vi, "the VI")?;
        pair.async_error(AsyncCode::ConnectionLost)?;
    }
    Ok(())
}

fn disconnect_by_the_peer_is_reported<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    if pair.is_a() {
        pair.async_error(AsyncCode::ConnectionLost)?;
        same(pair.state(vi)?, ViState::Error, "the state")?;
    } else {
        pair.nic.disconnect(vi)?;
        same(pair.nic.next_error(), None, "an error at the side that disconnects")?;
    }
    Ok(())
}

type Heard = Arc<Mutex<Vec<(ViHandle, Status, Option<u32>)>>>;

fn heard(list: &Heard) -> Vec<(ViHandle, Status, Option<u32>)> {
    std::mem::take(&mut list.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
}

fn writer<D: Device>(list: &Heard) -> am_via_vipl::DescriptorHandler<D> {
    let list = Arc::clone(list);
    Box::new(move |_, vi, done| {
        let mut list = list.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        list.push((vi, done.status(), done.immediate()));
    })
}

fn send_notification_comes_once<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    for _ in 0..2 {
        pair.post_recv(vi, Descriptor::receive())?;
    }
    pair.sync()?;
    let list = Heard::default();
    pair.nic.send_notify(vi, writer(&list))?;
    pair.post_send(vi, Descriptor::send().with_immediate(1))?;
    pair.post_send(vi, Descriptor::send().with_immediate(2))?;
    let told = pair.until("a notification", |_| Ok(Some(heard(&list)).filter(|told| !told.is_empty())))?;
    same(told, vec![(vi, success(Status::OP_SEND), Some(1))], "the notifications")?;
    same(pair.sent_well(vi)?.immediate(), Some(2), "the second send")?;
    same(heard(&list), vec![], "a second notification")
}

fn receive_notification_comes_once<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    for _ in 0..2 {
        pair.post_recv(vi, Descriptor::receive())?;
    }
    let list = Heard::default();
    pair.nic.recv_notify(vi, writer(&list))?;
    pair.sync()?;
    pair.post_send(vi, Descriptor::send().with_immediate(1))?;
    pair.post_send(vi, Descriptor::send().with_immediate(2))?;
    let told = pair.until("a notification", |_| Ok(Some(heard(&list)).filter(|told| !told.is_empty())))?;
    let status = success(Status::OP_RECEIVE) | Status::IMMEDIATE;
    same(told, vec![(vi, status, Some(1))], "the notifications")?;
    same(pair.received_well(vi)?.immediate(), Some(2), "the second receive")?;
    same(heard(&list), vec![], "a second notification")
}

/// Counts a message, posts its receive again, and waits for the next message.
fn again<D: Device>(count: Arc<AtomicU32>) -> am_via_vipl::DescriptorHandler<D> {
    Box::new(move |nic, vi, done| {
        if done.status().is_success() {
            count.fetch_add(1, Ordering::Relaxed);
            // Neither call fails for a VI that exists.
            let _ = nic.post_recv(vi, done.again());
            let _ = nic.recv_notify(vi, again(count));
        }
    })
}

fn receive_notification_arms_itself_again<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.reception())?;
    let count = Arc::new(AtomicU32::new(0));
    pair.post_recv(vi, Descriptor::receive())?;
    pair.post_recv(vi, Descriptor::receive())?;
    pair.nic.recv_notify(vi, again(Arc::clone(&count)))?;
    pair.sync()?;
    for sent in 1..=100 {
        pair.post_send(vi, Descriptor::send())?;
        pair.sent_well(vi)?;
        // The completion of a send says nothing about the other side's handler, but the other side's message does: it was sent after that
        // side's handler had posted all but one of the receives again, so a receive is ready for the next send.
        pair.until(
            "the other side's message",
            |_| Ok((count.load(Ordering::Relaxed) >= sent).then_some(())),
        )?;
    }
    same(count.load(Ordering::Relaxed), 100, "messages counted")
}

/// Counts a send, and waits for the next one.
fn again_sent<D: Device>(count: Arc<AtomicU32>) -> am_via_vipl::DescriptorHandler<D> {
    Box::new(move |nic, vi, done| {
        count.fetch_add(u32::from(done.status().is_success()), Ordering::Relaxed);
        // The call does not fail for a VI that exists.
        let _ = nic.send_notify(vi, again_sent(count));
    })
}

fn send_notification_arms_itself_again<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    for _ in 0..20 {
        pair.post_recv(vi, Descriptor::receive())?;
    }
    pair.sync()?;
    let count = Arc::new(AtomicU32::new(0));
    pair.nic.send_notify(vi, again_sent(Arc::clone(&count)))?;
    for _ in 0..20 {
        pair.post_send(vi, Descriptor::send())?;
    }
    pair.until("20 notifications", |_| Ok((count.load(Ordering::Relaxed) == 20).then_some(())))?;
    ensure(pair.nic.send_done(vi)?.is_none(), "a send was reported but left in its queue")
}

/// Forwards an entry, and waits for the next one.
fn again_entry<D: Device>(tell: mpsc::Sender<CqEntry>, cq: CqHandle) -> am_via_vipl::CqHandler<D> {
    Box::new(move |nic, entry| {
        // Neither call fails: the check receives all entries, and the queue exists as long as the check.
        let _ = tell.send(entry);
        let _ = nic.cq_notify(cq, again_entry(tell, cq));
    })
}

fn cq_notification_arms_itself_again<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let cq = pair.cq(64)?;
    let vi = pair.vi_with(pair.delivery(), Some(cq), Some(cq))?;
    pair.connect(vi)?;
    for _ in 0..20 {
        pair.post_recv(vi, Descriptor::receive())?;
    }
    pair.sync()?;
    let (tell, told) = mpsc::channel();
    pair.nic.cq_notify(cq, again_entry(tell, cq))?;
    for _ in 0..20 {
        pair.post_send(vi, Descriptor::send())?;
    }
    let mut counts = [0, 0];
    for _ in 0..40 {
        let entry = pair.until("a notification", |_| Ok(told.try_recv().ok()))?;
        same(entry.vi, vi, "the VI")?;
        counts[usize::from(entry.queue == Queue::Receive)] += 1;
    }
    same(counts, [20, 20], "entries of the send and the receive queue")?;
    for _ in 0..20 {
        pair.sent_well(vi)?;
        pair.received_well(vi)?;
    }
    ensure(told.try_recv().is_err() && pair.nic.cq_done(cq)?.is_none(), "one entry too many")
}

fn cq_notification_comes_once<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let cq = pair.cq(8)?;
    let vi = pair.vi_with(pair.delivery(), None, Some(cq))?;
    pair.connect(vi)?;
    for _ in 0..2 {
        pair.post_recv(vi, Descriptor::receive())?;
    }
    let (tell, told) = mpsc::channel();
    pair.nic.cq_notify(cq, Box::new(move |_, entry| tell.send(entry).unwrap_or(())))?;
    pair.sync()?;
    for _ in 0..2 {
        pair.post_send(vi, Descriptor::send())?;
    }
    let entry = pair.until("a notification", |_| Ok(told.try_recv().ok()))?;
    same((entry.vi, entry.queue), (vi, Queue::Receive), "the entry")?;
    pair.received_well(vi)?;
    pair.received_well(vi)?;
    ensure(told.try_recv().is_err(), "a second notification")?;
    ensure(pair.nic.cq_done(cq)?.is_some(), "the second entry is missing")
}

fn notification_is_armed_once<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    let cq = pair.cq(1)?;
    let list = Heard::default();
    pair.nic.send_notify(vi, writer(&list))?;
    pair.nic.recv_notify(vi, writer(&list))?;
    pair.nic.cq_notify(cq, Box::new(|_, _| {}))?;
    refused(pair.nic.send_notify(vi, writer(&list)), VipReturn::ErrorResource)?;
    refused(pair.nic.recv_notify(vi, writer(&list)), VipReturn::ErrorResource)?;
    refused(pair.nic.cq_notify(cq, Box::new(|_, _| {})), VipReturn::ErrorResource)
}

fn notification_comes_for_an_earlier_completion<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    pair.post_send(vi, Descriptor::send())?;
    let list = Heard::default();
    pair.nic.send_notify(vi, writer(&list))?;
    let told = pair.until("a notification", |_| Ok(Some(heard(&list)).filter(|told| !told.is_empty())))?;
    same(told, vec![(vi, flushed(Status::OP_SEND), None)], "the notifications")
}

fn notification_comes_of_a_flush<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    pair.post_recv(vi, Descriptor::receive())?;
    let list = Heard::default();
    pair.nic.recv_notify(vi, writer(&list))?;
    pair.sync()?;
    if pair.is_a() {
        pair.nic.disconnect(vi)?;
    }
    let told = pair.until("a notification", |_| Ok(Some(heard(&list)).filter(|told| !told.is_empty())))?;
    same(told, vec![(vi, flushed(Status::OP_RECEIVE), None)], "the notifications")
}

fn notification_comes_in_own_calls_only<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    pair.post_recv(vi, Descriptor::receive())?;
    let list = Heard::default();
    pair.nic.recv_notify(vi, writer(&list))?;
    pair.sync_still()?;
    if pair.is_a() {
        pair.post_send(vi, Descriptor::send())?;
        pair.sent_well(vi)?;
    }
    pair.sync_still()?;
    if !pair.is_a() {
        same(heard(&list), vec![], "a notification without a call")?;
        pair.until("a notification", |_| Ok(Some(heard(&list)).filter(|told| !told.is_empty())))?;
    }
    Ok(())
}

fn notification_of_a_vi_that_is_gone_does_not_come<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    let list = Heard::default();
    pair.nic.send_notify(vi, writer(&list))?;
    pair.nic.destroy_vi(vi)?;
    let next = pair.vi(pair.delivery())?;
    pair.post_send(next, Descriptor::send())?;
    pair.nic.progress();
    same(heard(&list), vec![], "a notification")
}

fn notification_of_an_unknown_vi_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    pair.nic.destroy_vi(vi)?;
    let list = Heard::default();
    refused(pair.nic.send_notify(vi, writer(&list)), VipReturn::InvalidParameter)?;
    refused(pair.nic.recv_notify(vi, writer(&list)), VipReturn::InvalidParameter)
}
