//! A device whose rings never run empty looks at everything else, too.

use std::sync::Arc;
use std::time::Duration;

use am_via::Task;
use am_via::device::shm::{OwnHeap, Shm, ShmOptions};
use am_via_shm::WaitPolicy;
use am_via_shm::regions::Ways;
use am_via_vipl::below::{Device, Entry, News, Payload, ViNumber};
use am_via_vipl::{NodeAddress, Posted};

use crate::hostile_support::alone;

/// The contexts of the busy device, of the peer that keeps it busy, and of the one that connects later.
const BUSY: u32 = 2;
const FIRST: u32 = 3;
const LATER: u32 = 4;
/// Number of polls within which the device must look. It looks each 16 entries.
const POLLS: u32 = 64;

fn open(task: &Task, context: u32) -> Shm {
    let job = task.job();
    let options = ShmOptions {
        context,
        packet_bytes: job.settings().packet_bytes,
        ways: Ways { mapped: true, kernel: true },
        wait: WaitPolicy { spin_max: Duration::ZERO, yield_polls_max: 10 },
        pipe_bytes_min: usize::MAX,
    };
    let heap = OwnHeap::open(job).expect("the job has memory");
    Shm::open(Arc::clone(job), heap, options).expect("the context is free")
}

fn connect(device: &mut Shm, number: u32, context: u32) {
    let to = NodeAddress { task: 0, context };
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
                assert_eq!(peer.context, LATER);
                is_connected = true;
                connect(&mut busy, 2, LATER);
            }
            other => panic!("{other:?}"),
        }
    };
    assert!(is_connected);
    assert_eq!(came.entry.operation, 1);
}
