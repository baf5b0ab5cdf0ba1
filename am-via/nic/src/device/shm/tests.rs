use std::process::Command;

use am_via_os::atomics::Ordering;

use super::*;
use crate::device::World;

#[test]
fn nobody_may_copy_by_the_kernel_where_that_way_is_not_used() {
    for mapped in [true, false] {
        let launcher = Some(4711);
        assert_eq!(copier_by_kernel(Ways { mapped, kernel: true }, launcher), launcher);
        assert_eq!(copier_by_kernel(Ways { mapped, kernel: false }, launcher), None);
        assert_eq!(
            copier_by_kernel(Ways { mapped, kernel: true }, None),
            None,
            "alone, or in another namespace"
        );
    }
}

/// Runs `body` with two contexts of a task, in a process of its own: what it does to the job would disturb other tests.
#[expect(
    clippy::disallowed_methods,
    reason = "a test starts its own program again, and tells it so by a variable"
)]
fn alone(test: &str, body: fn(Shm, Shm)) {
    const IS_ALONE: &str = "TEST_IS_ALONE";
    if std::env::var_os(IS_ALONE).is_some() {
        let job = Job::attach().expect("a job of one task");
        let heap = OwnHeap::open(&job).expect("its heap is there");
        let open = |context| {
            let options = ShmOptions {
                context,
                packet_bytes: job.settings().packet_bytes,
                ways: Ways { mapped: true, kernel: false },
                wait: WaitPolicy { spin_max: Duration::ZERO, yield_polls_max: 10 },
                pipe_bytes_min: 0,
            };
            Shm::open(Arc::clone(&job), Arc::clone(&heap), options).expect("each context is opened once")
        };
        return body(open(ContextNumber(0)), open(ContextNumber(1)));
    }
    let mut command = Command::new(std::env::current_exe().expect("a test has a path"));
    command.args(["--exact", &format!("device::shm::tests::{test}"), "--test-threads=1"]).env(IS_ALONE, "1");
    let ran = command.output().expect("the test's own program starts");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}

/// The next event, which is there.
fn next(device: &mut Shm) -> News {
    (0..1_000_000).find_map(|_| device.poll(&mut Payload::default())).expect("there is an event")
}

fn connected(a: &mut Shm, b: &mut Shm) {
    let number = a.connect(ViNumber(0), b.endpoint()).expect("a slot is free");
    assert_eq!(number, Some(ViNumber(0)));
    assert!(matches!(next(b), News::Connected(peer) if peer == a.endpoint()));
    let number = b.connect(ViNumber(0), a.endpoint()).expect("the connection is there");
    assert_eq!(number, Some(ViNumber(0)));
}

const ENTRY: Entry = Entry { immediate: 7, length: 0, operation: Operation::Inline as u32, extra: 0 };

fn post(device: &mut Shm) {
    let posted = device.post(ViNumber(0), ENTRY, &Payload::default()).expect("connected");
    assert_eq!(posted, Posted::Done);
}

/// The ring of a task that has died is parked, and the task may have died before it could report the line.
#[test]
fn what_a_task_has_sent_before_its_death_arrives_before_the_death_is_told() {
    alone("what_a_task_has_sent_before_its_death_arrives_before_the_death_is_told", |mut a, mut b| {
        connected(&mut a, &mut b);
        for is_reported in [true, false] {
            let ring = &a.vis[0].as_ref().expect("connected").connection;
            ring.set_parked(is_reported);
            a.polled.clear();
            post(&mut b);
            a.failures_due.push(a.address.task.0);
            a.looks_further = true;
            assert!(matches!(next(&mut a), News::Entry(completion) if completion.entry.immediate == 7));
            assert!(matches!(next(&mut a), News::TaskFailed(TaskId(0))));
            assert!(a.poll(&mut Payload::default()).is_none());
        }
    });
}

/// Number of VI slots in use.
fn slots_used(device: &mut Shm) -> u32 {
    device.files.header(0).expect("its own file is there").vis_used.load(Ordering::Relaxed)
}

#[test]
fn slots_are_given_back_if_a_connection_cannot_be_made() {
    alone("slots_are_given_back_if_a_connection_cannot_be_made", |mut a, mut b| {
        let right = a.files.layout;
        // The slots would lie beyond the end of the file.
        a.files.layout.packet_bytes *= 1 << 16;
        for _ in 0..3 {
            assert!(matches!(a.connect(ViNumber(0), b.endpoint()), Err(DeviceError::System { .. })));
            assert_eq!(slots_used(&mut a), 0);
            assert!(matches!(a.connect(ViNumber(0), a.endpoint()), Err(DeviceError::System { .. })));
            assert_eq!(slots_used(&mut a), 0);
            let made = a.files.make_far(b.address, SleepBarrier::SenderFence);
            assert!(matches!(made, Err(DeviceError::System { .. })), "{made:?}");
            assert_eq!(slots_used(&mut a), 0);
        }
        a.files.layout = right;
        // One slot is left, and a connection needs two.
        let header = a.files.header(0).expect("its own file is there");
        let left = right.vis - 1;
        header.vis_used.store(left, Ordering::Relaxed);
        for _ in 0..3 {
            assert!(matches!(a.connect(ViNumber(0), b.endpoint()), Err(DeviceError::Exhausted { .. })));
            assert_eq!(slots_used(&mut a), left);
        }
        header.vis_used.store(0, Ordering::Relaxed);
        connected(&mut a, &mut b);
        assert_eq!(slots_used(&mut a), 2);
    });
}

#[test]
fn a_task_that_cannot_open_a_peers_connection_fails() {
    alone("a_task_that_cannot_open_a_peers_connection_fails", |mut a, mut b| {
        a.files.layout.packet_bytes *= 1 << 16;
        assert_eq!(b.connect(ViNumber(0), a.endpoint()).expect("a slot is free"), Some(ViNumber(0)));
        post(&mut b);
        assert!(matches!(next(&mut a), News::TaskFailed(TaskId(0))));
        let why = a.failure(TaskId(0)).expect("it has failed");
        assert!(why.contains("a connection that a peer made cannot be opened: mapping a VI"), "{why}");
    });
}
