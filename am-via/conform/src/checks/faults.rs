//! A faulty wire: the reliable levels repair its faults, and the unreliable level exposes them as VIA specifies.

use crate::pair::{Outcome, Pair, ensure, refused, same};
use crate::suite::{Needs, table};
use am_double::wire::{Kill, Reach, WireFaults, WireOptions, WireStatistics};
use am_via_nic::Device;
use am_via_vipl::{AddressSegment, AsyncCode, Descriptor, Status, ViAttributes, ViState, VipReturn};

table! {
    Functional {
        lost_frames_are_sent_again: "Reliable Delivery: loss" [Needs::Faults(|seed| faulty(WireFaults { drop: 150, ..at(seed) }))];
        duplicated_frames_are_dropped: "Reliable Delivery: duplication" [Needs::Faults(|seed| faulty(WireFaults { duplicate: 200, ..at(seed) }))];
        frames_out_of_order_are_put_in_order: "Reliable Delivery: order" [Needs::Faults(|seed| faulty(WireFaults { reorder: 250, ..at(seed) }))];
        late_frames_are_waited_for: "Reliable Delivery: delay" [Needs::Faults(|seed| faulty(WireFaults { delay: 150, ..at(seed) }))];
        refused_descriptors_are_posted_again: "Reliable Delivery: a NIC that refuses" [Needs::Faults(|seed| faulty(WireFaults { refuse: 300, ..at(seed) }))];
        frames_lost_to_overruns_are_sent_again: "Reliable Delivery: a completion ring that overruns" [Needs::Faults(|seed| faulty(WireFaults { overrun: 150, ..at(seed) }))];
        all_faults_are_repaired_at_delivery: "Reliable Delivery" [Needs::Faults(all_faults)];
        all_faults_are_repaired_at_reception: "Reliable Reception" [Needs::Faults(all_faults)];
        all_faults_are_repaired_without_rdma: "Reliable Reception, RDMA in pieces" [Needs::Faults(|seed| all_faults(seed).with_reach(Reach::Staged))];
        rdma_survives_all_faults: "Reliable Delivery: RDMA" [Needs::Faults(all_faults)];
        unreliable_messages_come_whole_or_not_at_all: "Unreliable Delivery: at most once" [Needs::Faults(all_faults)];
        broken_connections_are_reported_and_made_again: "VIP_ERROR_CONN_LOST: a transport error" [Needs::Faults(|seed| faulty(WireFaults { cut: 40, ..at(seed) }))];
        killed_peers_are_reported: "VIP_ERROR_CONN_LOST: remote process death" [Needs::Faults(|seed| {
            faulty(WireFaults { kill: Some(Kill { task: 1, at_poll: 5000 }), ..at(seed) })
        })];
    }
}

fn at(seed: u64) -> WireFaults {
    WireFaults { seed, ..WireFaults::default() }
}

/// Small slots and rings, so that a message needs several frames and rings fill up.
fn faulty(faults: WireFaults) -> WireOptions {
    WireOptions { slot_bytes: 512, ring_lines: 16, faults, ..WireOptions::new(2) }
}

fn all_faults(seed: u64) -> WireOptions {
    let faults = WireFaults {
        drop: 40,
        duplicate: 40,
        reorder: 80,
        delay: 30,
        refuse: 80,
        overrun: 30,
        apart: 100,
        ..at(seed)
    };
    faulty(faults)
}

const ROUNDS: u32 = 60;

/// Both sides send messages of many sizes and check those they receive. Returns the statistics of the wire.
fn traffic<D: Device>(pair: &mut Pair<D>, attributes: ViAttributes) -> Outcome<WireStatistics> {
    let vi = pair.connected(attributes)?;
    let (from, to) = (pair.region(4000)?, pair.region(4000)?);
    from.fill(u64::from(pair.is_a()))?;
    let theirs = u64::from(!pair.is_a());
    for _ in 0..8 {
        pair.post_recv(vi, Descriptor::receive().with_segment(to.segment(0, 4000)))?;
    }
    pair.sync()?;
    for round in 0..ROUNDS {
        let len = (round * 61) % 4000;
        pair.post_send(vi, Descriptor::send().with_segment(from.segment(0, len)).with_immediate(round))?;
        let done = pair.received_well(vi)?;
        same((done.immediate(), done.length()), (Some(round), len), "the next message")?;
        to.must_hold(0, len as usize, theirs, 0)?;
        pair.post_recv(vi, done.again())?;
        // Limits how far a side is ahead of the other side's receives.
        pair.sent_well(vi)?;
        if round % 4 == 3 {
            pair.sync()?;
        }
    }
    pair.sync()?;
    ensure(pair.nic.recv_done(vi)?.is_none(), "a message came twice")?;
    same(pair.state(vi)?, ViState::Connected, "the state")?;
    pair.sync()?;
    Ok(pair.statistics.as_ref().map(|statistics| statistics()).unwrap_or_default())
}

/// Traffic on a reliable VI, after which `count` must not be 0.
fn repaired<D: Device>(pair: &mut Pair<D>, what: &str, count: fn(&WireStatistics) -> u64) -> Outcome {
    let statistics = traffic(pair, pair.delivery())?;
    ensure(count(&statistics) > 0, &format!("no frame was {what}: {statistics:?}"))
}

fn lost_frames_are_sent_again<D: Device>(pair: &mut Pair<D>) -> Outcome {
    repaired(pair, "lost and sent again", |counts| counts.dropped.min(counts.retransmitted))
}

fn duplicated_frames_are_dropped<D: Device>(pair: &mut Pair<D>) -> Outcome {
    repaired(pair, "duplicated and dropped", |counts| counts.duplicated.min(counts.duplicates_suppressed))
}

fn frames_out_of_order_are_put_in_order<D: Device>(pair: &mut Pair<D>) -> Outcome {
    repaired(pair, "out of order", |counts| counts.reordered)
}

fn late_frames_are_waited_for<D: Device>(pair: &mut Pair<D>) -> Outcome {
    repaired(pair, "late", |counts| counts.delayed)
}

fn refused_descriptors_are_posted_again<D: Device>(pair: &mut Pair<D>) -> Outcome {
    repaired(pair, "refused", |counts| counts.refused)
}

fn frames_lost_to_overruns_are_sent_again<D: Device>(pair: &mut Pair<D>) -> Outcome {
    repaired(pair, "lost to an overrun and sent again", |counts| counts.overruns.min(counts.retransmitted))
}

fn all_faults_are_repaired_at_delivery<D: Device>(pair: &mut Pair<D>) -> Outcome {
    repaired(pair, "repaired", |counts| counts.retransmitted)
}

fn all_faults_are_repaired_at_reception<D: Device>(pair: &mut Pair<D>) -> Outcome {
    traffic(pair, pair.reception()).map(drop)
}

fn all_faults_are_repaired_without_rdma<D: Device>(pair: &mut Pair<D>) -> Outcome {
    rdma(pair, pair.reception())
}

fn rdma_survives_all_faults<D: Device>(pair: &mut Pair<D>) -> Outcome {
    rdma(pair, pair.delivery())
}

fn rdma<D: Device>(pair: &mut Pair<D>, attributes: ViAttributes) -> Outcome {
    let vi = pair.connected(attributes)?;
    let region = pair.region(6000)?;
    let place = AddressSegment { handle: pair.swap_handle(region.handle)?, offset: 3000 };
    for round in 0..20 {
        if pair.is_a() {
            region.fill(round)?;
            pair.sync()?;
            let own = region.segment(0, 3000);
            pair.post_send(vi, Descriptor::rdma_write(place).with_segment(own).with_immediate(9))?;
            pair.sent_well(vi)?;
            pair.post_send(vi, Descriptor::rdma_read(place).with_segment(region.segment(3000, 3000)))?;
            pair.sent_well(vi)?;
            region.must_hold(3000, 3000, round, 0)?;
        } else {
            pair.post_recv(vi, Descriptor::receive())?;
            pair.sync()?;
            same(pair.received_well(vi)?.immediate(), Some(9), "the immediate data")?;
            region.must_hold(3000, 3000, round, 0)?;
        }
        pair.sync()?;
    }
    Ok(())
}

fn unreliable_messages_come_whole_or_not_at_all<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.unreliable())?;
    let region = pair.region(2000)?;
    if pair.is_a() {
        region.fill(7)?;
        for number in 0..300 {
            let len = if number % 2 == 0 { 30 } else { 1800 };
            pair.post_send(
                vi,
                Descriptor::send().with_segment(region.segment(0, len)).with_immediate(number),
            )?;
            pair.sent_well(vi)?;
        }
        pair.sync()?;
    } else {
        for _ in 0..400 {
            pair.post_recv(vi, Descriptor::receive().with_segment(region.segment(0, 2000)))?;
        }
        pair.sync()?;
        let mut seen = vec![false; 300];
        let mut quiet = 0;
        while quiet < 2000 {
            let Some(done) = pair.nic.recv_done(vi)? else {
                quiet += 1;
                continue;
            };
            quiet = 0;
            ensure(done.status().is_success(), "a message with an error")?;
            let number = done.immediate().unwrap_or(u32::MAX);
            let len = if number % 2 == 0 { 30 } else { 1800 };
            same(done.length(), len, "the length of a message")?;
            let Some(seen) = seen.get_mut(number as usize) else {
                return crate::pair::fail("a message that was never sent");
            };
            ensure(!std::mem::replace(seen, true), "a message came twice")?;
        }
        let arrived = seen.iter().filter(|seen| **seen).count();
        ensure(arrived > 0 && arrived < 300, &format!("{arrived} of 300 messages arrived"))?;
        region.must_hold(0, 30, 7, 0)?;
    }
    same(pair.state(vi)?, ViState::Connected, "the state")
}

fn broken_connections_are_reported_and_made_again<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let mut broken = 0;
    for _ in 0..20 {
        let vi = pair.vi(pair.delivery())?;
        // The wire may break the connection at any time, so several requests may be needed.
        loop {
            let other = pair.other();
            let soon = Some(std::time::Duration::from_millis(200));
            pair.nic.connect_peer_request(vi, am_via_vipl::Discriminator::default(), other, soon)?;
            let connected = pair.nic.connect_peer_wait(vi).is_ok();
            let theirs = pair.swap(&[u64::from(connected)])?;
            if connected && theirs == [1] {
                break;
            }
            if pair.state(vi)? != ViState::Idle {
                pair.nic.disconnect(vi)?;
            }
            pair.sync()?;
        }
        for _ in 0..20 {
            pair.post_recv(vi, Descriptor::receive())?;
        }
        pair.sync()?;
        for number in 0..20 {
            pair.post_send(vi, Descriptor::send().with_immediate(number))?;
        }
        for number in 0..20 {
            let done = pair.received(vi)?;
            if !done.status().is_success() {
                same(done.status().errors(), Status::DESC_FLUSHED_ERROR, "a receive")?;
                broken += 1;
                pair.until_state(vi, ViState::Error)?;
                break;
            }
            same(done.immediate(), Some(number), "the next message")?;
        }
        pair.sync()?;
        if pair.state(vi)? != ViState::Idle {
            pair.nic.disconnect(vi)?;
        }
        pair.sync()?;
    }
    let theirs = pair.swap(&[broken])?;
    let counted = pair.statistics.as_ref().map_or(0, |statistics| statistics().cuts);
    ensure(counted > 0 && broken + theirs.first().copied().unwrap_or(0) > 0, "no connection was broken")
}

fn killed_peers_are_reported<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    pair.post_recv(vi, Descriptor::receive())?;
    let other = pair.other();
    let patience = Some(pair.patience());
    pair.nic.connect_peer_request(vi, am_via_vipl::Discriminator::default(), other, patience)?;
    let connected = pair.nic.connect_peer_wait(vi);
    if !pair.is_a() {
        return Ok(());
    }
    match connected {
        Ok(_) => {
            pair.until_state(vi, ViState::Error)?;
            pair.async_error(AsyncCode::ConnectionLost)?;
        }
        // Side B was killed before the connection was made.
        Err(error) => refused::<(), _>(Err(error), VipReturn::Reject)?,
    }
    same(pair.received(vi)?.status().errors(), Status::DESC_FLUSHED_ERROR, "the receive")
}
