use std::thread;

use super::*;
use am_contract::task::ContextNumber;
use am_via_nic::Operation;
use am_via_os::test_aids::guarded;

const ALL_FAULTS: WireFaults = WireFaults {
    seed: 0,
    drop: 80,
    duplicate: 80,
    reorder: 120,
    delay: 60,
    refuse: 50,
    hold_back: 50,
    overrun: 40,
    apart: 300,
    cut: 0,
    kill: None,
};

fn at(task: u32) -> Endpoint {
    Endpoint::new(TaskId(task), ContextNumber(0))
}

fn pair(options: WireOptions) -> (WireNetwork, Wire, Wire, ViNumber, ViNumber) {
    let network = WireNetwork::new(options);
    let (mut a, mut b) = (network.open(at(0)).unwrap(), network.open(at(1)).unwrap());
    let mut payload = Payload::default();
    let there = loop {
        if let Some(vi) = a.connect(ViNumber(3), at(1)).unwrap() {
            break vi;
        }
        assert!(!matches!(a.poll(&mut payload), Some(News::Entry(_))));
    };
    let here = b.connect(ViNumber(7), at(0)).unwrap().expect("one side's connection is the other's too");
    let again = a.connect(ViNumber(5), at(1)).unwrap();
    assert_eq!(
        (there, here, again),
        (ViNumber(3), ViNumber(7), Some(there)),
        "each side numbers its end, once"
    );
    (network, a, b, there, here)
}

fn entry(immediate: u32) -> Entry {
    Entry { immediate, operation: Operation::Inline as u32, ..Entry::default() }
}

/// Returns the next entry, and keeps its slot.
fn next(nic: &mut Wire, polls: u32) -> Option<(Completion, Payload)> {
    let mut payload = Payload::default();
    for _ in 0..polls {
        if let Some(News::Entry(completion)) = nic.poll(&mut payload) {
            return Some((completion, payload));
        }
    }
    None
}

fn ended(nic: &mut Wire) -> (u64, Result<u64, ClaimFault>) {
    let mut payload = Payload::default();
    for _ in 0..10_000 {
        if let Some(News::Ended { id, result }) = nic.poll(&mut payload) {
            return (id, result);
        }
    }
    panic!("the transfer never ended");
}

fn word(range: CheckedRange<'_>) -> u64 {
    let mut bytes = [0; 8];
    range.copy_to_slice(&mut bytes);
    u64::from_le_bytes(bytes)
}

#[test]
fn every_fault_together_loses_doubles_and_swaps_nothing() {
    let mut total = WireStatistics::default();
    for seed in 0..40 {
        let options = WireOptions {
            slot_bytes: 64,
            ring_lines: 16,
            faults: WireFaults { seed, ..ALL_FAULTS },
            ..WireOptions::new(2)
        };
        let (network, mut a, mut b, there, _) = pair(options);
        let (mut sent, mut received) = (0_u32, 0_u32);
        for _ in 0..400_000 {
            if received == 300 {
                break;
            }
            if sent < 300 {
                let posted = if sent % 3 == 0 {
                    let fill = |area: CheckedRange<'_>, _| {
                        area.copy_from_slice(&sent.to_le_bytes());
                        Some(4)
                    };
                    let area = Entry { operation: Operation::Area as u32, ..entry(sent) };
                    a.post_area(there, area, &[u64::from(sent); 5], 64, fill)
                } else {
                    a.post(there, entry(sent), &[u64::from(sent); 5])
                };
                sent += u32::from(posted.unwrap() == Posted::Done);
            }
            assert!(next(&mut a, 1).is_none());
            if let Some((completion, payload)) = next(&mut b, 1) {
                assert_eq!(completion.entry.immediate, received, "seed {seed}");
                if received % 3 == 0 {
                    let mut bytes = [0; 4];
                    // SAFETY: the entry has just arrived, and its slot is released below.
                    unsafe { b.area(completion.vi, completion.slot, 4) }.copy_to_slice(&mut bytes);
                    assert_eq!(u32::from_le_bytes(bytes), received, "seed {seed}");
                }
                assert_eq!(payload, [u64::from(received); 5], "seed {seed}");
                received += 1;
                if completion.keeps_slot() {
                    b.release(completion.vi);
                }
            }
        }
        assert_eq!((sent, received), (300, 300), "seed {seed}");
        let counts = network.statistics();
        total.dropped += counts.dropped;
        total.duplicates_suppressed += counts.duplicates_suppressed;
        total.retransmitted += counts.retransmitted;
        total.reordered += counts.reordered;
        total.delayed += counts.delayed;
        total.refused += counts.refused;
        total.overruns += counts.overruns;
        total.area_first += counts.area_first;
        total.line_first += counts.line_first;
    }
    let WireStatistics { dropped, duplicates_suppressed, retransmitted, reordered, delayed, .. } = total;
    for count in [
        dropped,
        duplicates_suppressed,
        retransmitted,
        reordered,
        delayed,
        total.refused,
        total.overruns,
        total.area_first,
        total.line_first,
    ] {
        assert!(count > 0, "a fault never happened: {total:?}");
    }
}

#[test]
fn a_full_ring_takes_nothing_until_a_slot_comes_back() {
    let options = WireOptions { ring_lines: 4, ..WireOptions::new(2) };
    let (_network, mut a, mut b, there, _) = pair(options);
    let area = Entry { operation: Operation::Area as u32, ..entry(0) };
    assert_eq!(a.post_area(there, area, &[0; 5], 4, |_, _| Some(4)).unwrap(), Posted::Done);
    for number in 1..4 {
        assert_eq!(a.post(there, entry(number), &[0; 5]).unwrap(), Posted::Done);
    }
    assert_eq!(a.post(there, entry(4), &[0; 5]).unwrap(), Posted::Retry);
    let (first, _) = next(&mut b, 10).unwrap();
    assert_eq!(a.post(there, entry(4), &[0; 5]).unwrap(), Posted::Retry, "a polled entry keeps its line");
    b.release(first.vi);
    assert_eq!(a.post(there, entry(4), &[0; 5]).unwrap(), Posted::Done);
    assert_eq!(a.post(there, entry(5), &[0; 5]).unwrap(), Posted::Retry);
    assert!(!next(&mut b, 10).unwrap().0.keeps_slot());
    assert_eq!(a.post(there, entry(5), &[0; 5]).unwrap(), Posted::Done, "an inline entry keeps no slot");
}

fn register(nic: &mut Wire, memory: &HeapBlock, registration: Registration) -> MemHandle {
    // SAFETY: the tests keep the memory while it is registered, and copy to and from it only.
    unsafe { nic.register(memory.range(), registration) }.unwrap()
}

/// The claim to 8 bytes of a registration of task 1.
fn place(MemHandle { region, generation }: MemHandle, offset: u64, ptag: u32) -> (TaskId, Claim) {
    (TaskId(1), Claim { region, generation, offset, len: 8, ptag })
}

/// An RDMA write, or a read.
fn transfer(
    nic: &mut Wire,
    is_write: bool,
    at: (TaskId, Claim),
    own: CheckedRange<'_>,
    id: u64,
) -> Result<Transfer, DeviceError> {
    // SAFETY: the tests keep the memory until the end of the transfer, and do not use it before.
    unsafe { if is_write { nic.rdma_write(at, own, id) } else { nic.rdma_read(at, own, id) } }
}

#[test]
fn memory_is_served_whether_its_owner_polls_or_not() {
    for drop in [0, 300] {
        let faults = WireFaults { seed: 5, drop, ..WireFaults::default() };
        let network = WireNetwork::new(WireOptions { faults, ..WireOptions::new(2) });
        let (mut a, mut b) = (network.open(at(0)).unwrap(), network.open(at(1)).unwrap());
        let (local, remote) = (a.alloc(64).unwrap(), b.alloc(64).unwrap());
        let registration = Registration { access: ACCESS_READ | ACCESS_WRITE, ptag: 3 };
        let handle = register(&mut b, &remote, registration);
        let place = place(handle, 8, 3);
        local.range().copy_from_slice(&77_u64.to_le_bytes());
        let first = local.range().part(0, 8).unwrap();
        assert_eq!(transfer(&mut a, true, place, first, 1).unwrap(), Transfer::Posted);
        local.range().zero();
        assert_eq!(ended(&mut a), (1, Ok(0)));
        let word_there = remote.range().part(8, 8).unwrap();
        assert_eq!(word(word_there), 77, "the bytes were taken at the post");
        assert_eq!(a.atomic(place, AtomicOp::FetchAdd(5), 2).unwrap(), Transfer::Posted);
        assert_eq!(ended(&mut a), (2, Ok(77)));
        assert_eq!(transfer(&mut a, false, place, first, 3).unwrap(), Transfer::Posted);
        assert_eq!(ended(&mut a), (3, Ok(0)));
        assert_eq!(word(first), 82);
        let (owner, claim) = place;
        for (wrong, fault) in [
            (Claim { ptag: 4, ..claim }, ClaimFault::Tag),
            (Claim { offset: 57, ..claim }, ClaimFault::Bounds { len: 64 }),
            (Claim { generation: 9, ..claim }, ClaimFault::Stale),
        ] {
            assert_eq!(transfer(&mut a, true, (owner, wrong), first, 4).unwrap(), Transfer::Posted);
            assert_eq!(ended(&mut a), (4, Err(fault)));
        }
        b.set_registration(handle, Registration { access: ACCESS_READ, ..registration }).unwrap();
        assert_eq!(transfer(&mut a, true, place, first, 5).unwrap(), Transfer::Posted);
        assert_eq!(ended(&mut a), (5, Err(ClaimFault::NotWritable)));
        assert_eq!(b.deregister(handle, false).unwrap(), Posted::Done);
        assert_eq!(transfer(&mut a, false, place, first, 6).unwrap(), Transfer::Posted);
        assert_eq!(ended(&mut a), (6, Err(ClaimFault::Stale)));
    }
}

#[test]
fn memory_of_a_closed_nic_is_out_of_reach() {
    let network = WireNetwork::new(WireOptions::new(2));
    let (mut a, mut b) = (network.open(at(0)).unwrap(), network.open(at(1)).unwrap());
    let (local, remote) = (a.alloc(8).unwrap(), b.alloc(8).unwrap());
    let registration = Registration { access: ACCESS_READ, ptag: 0 };
    let handle = register(&mut b, &remote, registration);
    drop(b);
    drop(remote);
    let place = place(handle, 0, 0);
    assert_eq!(transfer(&mut a, false, place, local.range(), 1).unwrap(), Transfer::Posted);
    assert_eq!(ended(&mut a), (1, Err(ClaimFault::Stale)));
}

#[test]
fn an_unreliable_vi_loses_some_and_doubles_none() {
    let mut lost = 0;
    for seed in 0..20 {
        let faults = WireFaults { seed, refuse: 0, ..ALL_FAULTS };
        let options = WireOptions { faults, ..WireOptions::new(2) };
        let (_network, mut a, mut b, there, _) = pair(options);
        a.allow_loss(there, true);
        let mut seen = [false; 200];
        for number in 0..200 {
            assert_eq!(a.post(there, entry(number), &[0; 5]).unwrap(), Posted::Done);
            while let Some((completion, _)) = next(&mut b, 1) {
                let number = completion.entry.immediate as usize;
                assert!(!std::mem::replace(&mut seen[number], true), "seed {seed}: {number} came twice");
            }
        }
        lost += seen.iter().filter(|seen| !**seen).count();
    }
    assert!(lost > 0);
}

#[test]
fn a_killed_task_is_reported_once_to_everybody_and_takes_no_posts() {
    let faults = WireFaults { kill: Some(Kill { task: 1, at_poll: 20 }), ..WireFaults::default() };
    let (_network, mut a, mut b, there, here) = pair(WireOptions { faults, ..WireOptions::new(2) });
    assert_eq!(a.post(there, entry(0), &[0; 5]).unwrap(), Posted::Done);
    let mut payload = Payload::default();
    let mut deaths = 0;
    for _ in 0..100 {
        deaths += u32::from(matches!(a.poll(&mut payload), Some(News::TaskFailed(TaskId(1)))));
    }
    assert_eq!(deaths, 1);
    assert!(matches!(a.post(there, entry(1), &[0; 5]), Err(DeviceError::Closed(_))));
    assert!(matches!(b.post(here, entry(1), &[0; 5]), Err(DeviceError::Closed(_))));
    assert!(
        matches!(b.poll(&mut payload), Some(News::TaskFailed(TaskId(1)))),
        "the dead task's own thread ends"
    );
    assert!(a.failure(TaskId(1)).is_some() && a.failure(TaskId(0)).is_none());
    let local = a.alloc(8).unwrap();
    let handle = MemHandle { region: 0, generation: 1 };
    let place = place(handle, 0, 0);
    let refused = transfer(&mut a, false, place, local.range(), 1);
    assert!(matches!(refused, Err(DeviceError::Refused(ClaimFault::PeerDead))));
}

#[test]
fn a_disconnect_comes_behind_what_was_posted_and_a_new_connection_may_follow() {
    let faults = WireFaults { seed: 3, refuse: 0, ..ALL_FAULTS };
    let (_network, mut a, mut b, there, here) = pair(WireOptions { faults, ..WireOptions::new(2) });
    assert_eq!(a.post(there, entry(1), &[0; 5]).unwrap(), Posted::Done);
    a.disconnect(there).unwrap();
    assert!(matches!(a.post(there, entry(2), &[0; 5]), Err(DeviceError::Closed(_))));
    assert!(matches!(b.post(here, entry(2), &[0; 5]), Err(DeviceError::Closed(_))));
    let operations: Vec<_> = (0..2)
        .map(|_| Operation::of(next(&mut b, 10_000).expect("both entries come").0.entry.operation))
        .collect();
    assert_eq!(operations, [Some(Operation::Inline), Some(Operation::Disconnect)]);
    let again = (0..100).find_map(|_| {
        next(&mut a, 1);
        a.connect(ViNumber(4), at(1)).unwrap()
    });
    assert!(again.is_some_and(|vi| vi != there));
}

#[test]
fn a_sleeper_wakes_for_an_entry_and_for_its_waker() {
    guarded(wake_a_sleeper);
}

fn wake_a_sleeper() {
    for faults in [WireFaults::default(), WireFaults { seed: 9, ..ALL_FAULTS }] {
        let (_network, mut a, mut b, there, _) = pair(WireOptions { faults, ..WireOptions::new(2) });
        let waker = b.waker();
        let sleeper = thread::spawn(move || {
            let (mut payload, mut polls, mut entries) = (Payload::default(), 0, 0);
            while entries < 50 {
                match b.poll(&mut payload) {
                    Some(News::Entry(_)) => {
                        entries += 1;
                        polls = 0;
                    }
                    _ => polls += 1,
                }
                b.wait(polls, Duration::from_secs(600));
            }
            b.wait(1000, Duration::from_secs(600));
        });
        let mut sent = 0;
        while sent < 50 {
            sent += u32::from(a.post(there, entry(sent), &[0; 5]).unwrap() == Posted::Done);
            a.poll(&mut Payload::default());
        }
        while !sleeper.is_finished() {
            waker();
            a.poll(&mut Payload::default());
            thread::yield_now();
        }
        sleeper.join().unwrap();
    }
}

#[test]
fn a_ring_wakes_a_sleeper() {
    guarded(|| {
        let (_network, mut a, mut b, ..) = pair(WireOptions::new(2));
        while next(&mut b, 100).is_some() {}
        let sleeper = thread::spawn(move || b.wait(1000, Duration::from_secs(600)));
        while !sleeper.is_finished() {
            a.ring(at(1)).unwrap();
            thread::yield_now();
        }
        sleeper.join().unwrap();
    });
}

#[test]
fn a_task_talks_to_itself() {
    let network = WireNetwork::new(WireOptions::new(1));
    let mut nic = network.open(at(0)).unwrap();
    let vi = (0..100)
        .find_map(|_| {
            next(&mut nic, 1);
            nic.connect(ViNumber(0), at(0)).unwrap()
        })
        .unwrap();
    assert_eq!(nic.post(vi, entry(6), &[1; 5]).unwrap(), Posted::Done);
    let (completion, payload) = next(&mut nic, 10).unwrap();
    assert_eq!((completion.vi, completion.entry.immediate, payload), (vi, 6, [1; 5]));
}

#[test]
fn a_nic_opens_once_and_only_for_tasks_that_exist() {
    let network = WireNetwork::new(WireOptions::new(2));
    let first = network.open(at(1)).unwrap();
    assert!(matches!(network.open(at(1)), Err(DeviceError::Exhausted { .. })));
    assert!(matches!(
        network.open(at(2)),
        Err(DeviceError::NoSuchEndpoint(NoSuchEndpoint::Task { num_tasks: 2, .. }))
    ));
    drop(first);
    assert!(network.open(at(1)).is_ok());
}

/// Entries that are late when their sender dies are lost, and the sender's own NIC hears of its death.
#[test]
fn nothing_of_a_task_arrives_after_the_news_of_its_death() {
    for hold_back in [0, 300] {
        let faults = WireFaults { seed: 3, delay: 1000, hold_back, ..WireFaults::default() };
        let (network, mut a, mut b, there, _) = pair(WireOptions { faults, ..WireOptions::new(2) });
        for number in 0..20 {
            assert_eq!(a.post(there, entry(number), &Payload::default()).unwrap(), Posted::Done);
        }
        network.fail_task(0, "killed");
        let mut payload = Payload::default();
        let heard: Vec<_> = (0..2000).filter_map(|_| b.poll(&mut payload)).collect();
        assert!(matches!(heard.last(), Some(News::TaskFailed(TaskId(0)))), "{heard:?}");
        let own: Vec<_> = (0..2000).filter_map(|_| a.poll(&mut payload)).collect();
        assert!(matches!(own[..], [News::TaskFailed(TaskId(0))]), "{own:?}");
        drop(a);
        assert!((0..100).all(|_| b.poll(&mut payload).is_none()), "it has died, and does not leave");
    }
}

#[test]
fn a_dead_task_connects_to_nobody_and_a_connected_nic_is_not_opened_again() {
    let network = WireNetwork::new(WireOptions { connect_polls: 0, ..WireOptions::new(3) });
    let (mut a, mut b) = (network.open(at(0)).unwrap(), network.open(at(1)).unwrap());
    assert_eq!(a.connect(ViNumber(0), at(1)).unwrap(), Some(ViNumber(0)));
    drop(a);
    assert!(matches!(network.open(at(0)), Err(DeviceError::ContextUsed { context: ContextNumber(0) })));
    network.fail_task(1, "killed");
    assert!(matches!(b.connect(ViNumber(4), at(2)), Err(DeviceError::Refused(ClaimFault::PeerDead))));
}
