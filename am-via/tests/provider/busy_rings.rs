//! A device whose rings never run empty looks at everything else, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use am_core::handler::{Answer, Completion};
use am_core::task::{ContextNumber, Endpoint, TaskId};
use am_core::{AmOptions, Context};
use am_via::device::shm::{OwnHeap, Shm, ShmOptions};
use am_via::{ShmFabric, Task};
use am_via_nic::{Device, Entry, News, Payload, ViNumber};
use am_via_shm::WaitPolicy;
use am_via_shm::regions::Ways;
use am_via_vipl::Posted;

use crate::hostile_support::alone;

/// The contexts of the busy device, of the peer that keeps it busy, and of the one that connects later.
const BUSY: u8 = 2;
const FIRST: u8 = 3;
const LATER: u8 = 4;
/// Number of polls within which the device must look. It looks each 16 entries.
const POLLS: u32 = 64;

fn open(task: &Task, context: u8) -> Shm {
    let job = task.job();
    let options = ShmOptions {
        context: ContextNumber(context),
        packet_bytes: job.settings().packet_bytes,
        ways: Ways { mapped: true, kernel: true },
        wait: WaitPolicy { spin_max: Duration::ZERO, yield_polls_max: 10 },
        pipe_bytes_min: usize::MAX,
    };
    let heap = OwnHeap::open(job).expect("the job has memory");
    Shm::open(Arc::clone(job), heap, options).expect("the context is free")
}

fn connect(device: &mut Shm, number: u32, context: u8) {
    let to = Endpoint::new(TaskId(0), ContextNumber(context));
    while device.connect(ViNumber(number), to).expect("both are open").is_none() {}
}

fn send(device: &mut Shm) {
    let posted = device.post(ViNumber(0), Entry { operation: 1, ..Entry::default() }, &Payload::default());
    assert_eq!(posted.expect("it is connected"), Posted::Done);
}

#[test]
fn a_device_with_entries_at_each_poll_reports_a_new_connection_and_its_entries() {
    let _alone = alone();
    let task = Task::join().expect("alone");
    let [mut busy, mut first] = [BUSY, FIRST].map(|context| open(&task, context));
    connect(&mut first, 0, BUSY);
    // A ring without entries comes after the one that has entries at each poll.
    connect(&mut busy, 0, FIRST);
    connect(&mut busy, 1, BUSY);
    let mut payload = Payload::default();
    while busy.poll(&mut payload).is_some() {}
    let mut later = open(&task, LATER);
    connect(&mut later, 0, BUSY);
    send(&mut later);
    let (mut is_connected, mut polls) = (false, 0);
    let came = loop {
        send(&mut first);
        polls += 1;
        assert!(polls <= POLLS, "nothing but entries of the first peer; connected: {is_connected}");
        match busy.poll(&mut payload).expect("an entry was sent before each poll") {
            News::Entry(completion) if completion.vi == ViNumber(2) => break completion,
            News::Entry(_) => {}
            News::Connected(peer) => {
                assert_eq!(peer.context, ContextNumber(LATER));
                is_connected = true;
                connect(&mut busy, 2, LATER);
            }
            other => panic!("{other:?}"),
        }
    };
    assert!(is_connected);
    assert_eq!(came.entry.operation, 1);
}

/// Messages taken in line before the message of the other peer must have been handled: one turn, and one more if the device had polled
/// another ring last.
const TAKEN_MAX: u32 = 2 * 64;

/// Each message is followed by another one before the receiver takes it in line.
#[test]
fn a_source_whose_ring_never_runs_empty_and_is_taken_in_line_starves_nobody() {
    let _alone = alone();
    let task = Task::join().expect("alone");
    let open = |context| Context::new(task.fabric(context).expect("the context is free"));
    let mut contexts: [Context<ShmFabric>; 3] = [0, 1, 2].map(open);
    let of = |context| Endpoint::new(TaskId(0), ContextNumber(context));
    let other_came = Arc::new(AtomicBool::new(false));
    let handlers = contexts.each_mut().map(|context| {
        let came = Arc::clone(&other_came);
        context.register_handler(move |message| {
            came.fetch_or(message.source == of(2), Ordering::Relaxed);
            Answer::consumed(Completion::None)
        })
    });
    let [handler, ..] = handlers.map(|handler| handler.expect("there are few handlers"));
    let [mut receiver, mut busy, mut other] = contexts;
    let send = |from: &mut Context<ShmFabric>| {
        from.amsend(of(0), handler, &[], &[], AmOptions::default()).expect("the receiver lives");
    };
    send(&mut other);
    // Both are connected, and the ring of the busy source is the one that was polled last.
    while !other_came.swap(false, Ordering::Relaxed) {
        receiver.probe().expect("progress");
    }
    for _ in 0..2 {
        send(&mut busy);
    }
    while !receiver.probe().expect("progress") {}
    send(&mut other);
    let source = receiver.peer(of(1)).expect("a peer fits in the tables").index;
    let (mut taken, mut in_turn) = (0, 0);
    while !other_came.load(Ordering::Relaxed) {
        send(&mut busy);
        if let Some((mut messages, _)) = receiver.in_line(source)
            && messages.look(handler).is_some()
        {
            messages.take();
            (taken, in_turn) = (taken + 1, in_turn + 1);
            assert!(taken <= TAKEN_MAX, "only messages of the busy source are taken");
            assert!(in_turn <= 64, "one source has no longer turn");
        } else {
            let is_over =
                receiver.in_line(source).is_none_or(|(mut messages, _)| messages.look(handler).is_none());
            assert!(is_over, "the next turn begins after a round of progress");
            receiver.probe().expect("progress");
            in_turn = 0;
        }
    }
    assert!(
        receiver.in_line(source).is_some(),
        "after a round of progress, messages are taken in line again"
    );
}
