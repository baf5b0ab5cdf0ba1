//! The death of a task, over a network in one process in one thread: operations in flight end with an error that names the task.

#![expect(
    clippy::cast_possible_truncation,
    clippy::unwrap_used,
    reason = "a test: numbers are cut on purpose, and a failed test panics"
)]

use std::sync::{Arc, Mutex};

use am_core::buffer::{Access, JobBuffer};
use am_core::error::{Error, Fault};
use am_core::fabric::{AtomicOp, Width};
use am_core::handler::{Answer, Completion, Destination, HandlerId, Ticket};
use am_core::task::TaskId;
use am_core::{AmOptions, Amsend, Context, Get, GetOptions, Put, PutOptions};
use am_core_conform::watchdog::Watchdog;
use am_double::{Config, Double, Network, Reach, network};

type Node = Context<Double>;

fn job(config: Config) -> (Network, Vec<Node>, Watchdog) {
    let (network, endpoints) = network(config);
    let watchdog = Watchdog::new("a failure test".to_owned(), std::time::Duration::from_secs(60));
    (network, endpoints.into_iter().map(Context::new).collect(), watchdog)
}

/// Makes progress until nothing more happens; returns the errors.
fn settle(nodes: &mut [Node]) -> Vec<Error> {
    let mut errors = Vec::new();
    let mut quiet = 0;
    while quiet < 20 {
        quiet += 1;
        for node in &mut *nodes {
            match node.probe() {
                Ok(true) => quiet = 0,
                Ok(false) => {}
                Err(error) => errors.push(error),
            }
        }
    }
    errors
}

fn register_everywhere(
    nodes: &mut [Node],
    handler: impl Fn(&am_core::handler::Message<'_>) -> Answer + Clone + Send + 'static,
) -> HandlerId {
    nodes.iter_mut().map(|node| node.register_handler(handler.clone()).unwrap()).last().unwrap()
}

fn assert_names(error: &Error, dead: TaskId) {
    assert!(matches!(error, Error::PeerFailed { task, .. } if *task == dead), "{error}");
    assert_eq!(error.fault(), Fault::Peer);
    assert!(error.to_string().contains("task 1 has failed (it was killed): operations"), "{error}");
}

#[test]
fn a_blocked_wait_ends_with_the_failure() {
    let (network, mut nodes, _watchdog) = job(Config::new(2));
    let counter = nodes[0].counter().unwrap();
    network.kill(TaskId(1));
    let error = nodes[0].wait_counter(counter, 1).unwrap_err();
    assert_names(&error, TaskId(1));
    // Every later wait fails in the same way.
    assert_names(&nodes[0].wait_counter(counter, 1).unwrap_err(), TaskId(1));
    assert_names(&nodes[0].gfence().unwrap_err(), TaskId(1));
}

#[test]
fn a_long_message_ends_though_its_completion_counter_is_gone() {
    let (_network, mut nodes, _watchdog) = job(Config::new(2));
    let handler = register_everywhere(&mut nodes, |message| {
        let into = JobBuffer::zeroed(usize::try_from(message.len).unwrap());
        Answer::owned(into, Completion::None)
    });
    let gone = nodes[0].counter().unwrap();
    let options = AmOptions { completion: Some(gone), ..AmOptions::default() };
    let bytes = JobBuffer::zeroed(1 << 20);
    let handle = nodes[0].start(Amsend { target: TaskId(1), handler, uhdr: &[], options }, bytes).unwrap();
    nodes[0].remove_counter(gone);
    let errors = settle(&mut nodes);
    assert!(matches!(errors[..], [Error::UnknownCounter { .. }]), "{errors:?}");
    let (buffer, result) = nodes[0].wait_owned(handle).unwrap();
    result.unwrap();
    assert_eq!(buffer.len(), 1 << 20);
}

#[test]
fn a_program_that_goes_on_is_refused_only_operations_with_the_dead() {
    let (network, mut nodes, _watchdog) = job(Config::new(3));
    let handler = register_everywhere(&mut nodes, |_| Answer::discard());
    let region = {
        let buffer = nodes[1].alloc(64).unwrap();
        nodes[1].expose(buffer, Access::READ_WRITE).unwrap()
    };
    for node in &mut nodes {
        node.set_go_on(true);
    }
    network.kill(TaskId(1));
    settle(&mut nodes[..1]);
    let node = &mut nodes[0];
    let at = region.address(0);
    let long = vec![0; 100_000];
    let results = [
        node.amsend(TaskId(1), handler, &[], &[], AmOptions::default()),
        node.amsend(TaskId(1), handler, &[], &long, AmOptions::default()),
        node.put(at, &[0; 8], PutOptions::default()),
        node.get(at, &mut [0; 8], GetOptions::default()),
        node.rmw(at, Width::Bits64, AtomicOp::FetchAdd(1)).map(|_| ()),
    ];
    for result in results {
        assert_names(&result.unwrap_err(), TaskId(1));
    }
    let (node, others) = nodes.split_first_mut().unwrap();
    let done = others[1].counter().unwrap();
    let options = AmOptions { target: Some(done.name()), ..AmOptions::default() };
    node.amsend(TaskId(2), handler, &[], &[1; 500], options).unwrap();
    others[1].wait_counter(done, 1).unwrap();
    drop(nodes[1].unexpose(region));
}

#[test]
fn operations_under_way_end_and_hand_their_memory_back() {
    for reach in [Reach::Direct, Reach::Posted, Reach::Staged] {
        let config = Config { reach, atomics: reach, credits: 1, ..Config::new(2) };
        let (network, mut nodes, _watchdog) = job(config);
        let handler = register_everywhere(&mut nodes, |_| Answer::later());
        let buffer = nodes[1].alloc(1 << 16).unwrap();
        let region = nodes[1].expose(buffer, Access::READ_WRITE).unwrap();
        let node = &mut nodes[0];
        node.set_go_on(true);
        // The first message is announced. The next two are queued, since there is one credit and nothing is polled. Then follow a put, a
        // get and an rmw.
        let mut handles = Vec::new();
        for len in [100_000, 10, 20] {
            let options = AmOptions::default();
            let bytes = JobBuffer::from(vec![7; len]);
            handles.push((
                len,
                node.start(Amsend { target: TaskId(1), handler, uhdr: &[], options }, bytes).unwrap(),
            ));
        }
        let at = region.address(0);
        let bytes = JobBuffer::from(vec![8; 5000]);
        handles.push((5000, node.start(Put { to: at, options: PutOptions::default() }, bytes).unwrap()));
        let bytes = JobBuffer::from(vec![9; 6000]);
        handles.push((6000, node.start(Get { from: at, options: GetOptions::default() }, bytes).unwrap()));
        let rmw = node.rmw_nonblocking(at, Width::Bits64, AtomicOp::FetchAdd(1), None).unwrap();
        network.kill(TaskId(1));
        let mut failed = 0;
        for (len, handle) in handles {
            let (buffer, result) = node.wait_owned(handle).unwrap();
            assert_eq!(buffer.len(), len);
            if let Err(error) = result {
                assert_names(&error, TaskId(1));
                failed += 1;
            }
        }
        assert!(failed >= 3, "the three messages can end only with the failure ({reach:?})");
        settle(&mut nodes[..1]);
        match nodes[0].rmw_result(rmw) {
            Ok(value) => assert_eq!((value.unwrap(), reach), (0x0808_0808_0808_0808, Reach::Direct)),
            Err(error) => assert_names(&error, TaskId(1)),
        }
        drop(nodes[1].unexpose(region));
    }
}

#[test]
fn a_message_that_was_coming_ends_with_an_outcome() {
    for reach in [Reach::Posted, Reach::Staged] {
        let (network, mut nodes, _watchdog) = job(Config { reach, credits: 2, ..Config::new(2) });
        let told = Arc::new(Mutex::new(Vec::new()));
        let in_handler = Arc::clone(&told);
        let handler = register_everywhere(&mut nodes, move |message| {
            let told = Arc::clone(&in_handler);
            let place = JobBuffer::zeroed(message.len as usize);
            Answer::owned(
                place,
                Completion::Call(Box::new(move |delivered| {
                    let error = delivered.outcome.err().map(|error| *error);
                    told.lock().unwrap().push((delivered.placed, delivered.buffer.is_some(), error));
                })),
            )
        });
        let bytes = JobBuffer::from(vec![7; 6 << 20]);
        let handle = nodes[1]
            .start(Amsend { target: TaskId(0), handler, uhdr: &[], options: AmOptions::default() }, bytes)
            .unwrap();
        // The announcement has arrived; the fetch or the pieces have begun.
        while !nodes[0].probe().unwrap() {}
        if reach == Reach::Staged {
            nodes[1].probe().unwrap();
        }
        network.kill(TaskId(1));
        nodes[0].set_go_on(true);
        settle(&mut nodes[..1]);
        let told = std::mem::take(&mut *told.lock().unwrap());
        assert_eq!(told.len(), 1, "the completion runs once");
        let (placed, has_buffer, error) = &told[0];
        assert_eq!((*placed, *has_buffer), (0, true));
        assert_names(error.as_ref().expect("it did not come whole"), TaskId(1));
        drop(handle);
    }
}

#[test]
fn what_waits_for_its_place_goes_with_its_sender_unless_it_is_here() {
    let (network, mut nodes, _watchdog) = job(Config::new(2));
    let tickets: Arc<Mutex<Vec<Ticket>>> = Arc::default();
    let in_handler = Arc::clone(&tickets);
    let handler = register_everywhere(&mut nodes, move |message| {
        in_handler.lock().unwrap().push(message.ticket);
        Answer::later()
    });
    let options = AmOptions::default();
    nodes[1].amsend(TaskId(0), handler, &[], &[5; 100], options).unwrap();
    let long = JobBuffer::from(vec![6; 100_000]);
    let handle = nodes[1].start(Amsend { target: TaskId(0), handler, uhdr: &[], options }, long).unwrap();
    settle(&mut nodes[..1]);
    network.kill(TaskId(1));
    nodes[0].set_go_on(true);
    settle(&mut nodes[..1]);
    let tickets = std::mem::take(&mut *tickets.lock().unwrap());
    let error = nodes[0].accept(tickets[1], Destination::Nowhere, Completion::None).unwrap_err();
    assert!(matches!(error, Error::UnknownTicket { .. }), "{error}");
    let done = nodes[0].counter().unwrap();
    let place = Destination::Owned(JobBuffer::zeroed(100));
    nodes[0].accept(tickets[0], place, Completion::Bump(done)).unwrap();
    nodes[0].wait_counter(done, 1).unwrap();
    drop(handle);
}

/// A panic unwinds out of a scope: messages that are not accepted yet are withdrawn, and the peers see that the task has failed.
#[test]
fn a_scope_that_unwinds_withdraws_and_fails_the_task() {
    let (network, mut nodes, _watchdog) = job(Config::new(2));
    let handler = register_everywhere(&mut nodes, |_| Answer::later());
    let mut second = nodes.pop().unwrap();
    let mut first = nodes.pop().unwrap();
    std::thread::scope(|threads| {
        threads.spawn(move || {
            let udata = vec![1; 100_000];
            let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                first.scope(|scope| {
                    scope
                        .start(
                            Amsend { target: TaskId(1), handler, uhdr: &[], options: AmOptions::default() },
                            &udata,
                        )
                        .unwrap();
                    scope
                        .start(
                            Amsend { target: TaskId(1), handler, uhdr: &[], options: AmOptions::default() },
                            &udata[..10],
                        )
                        .unwrap();
                    panic!("as the test wants it");
                })
            }));
            assert!(unwound.is_err());
        });
        let error = second.wait_until(|_| Ok(false)).unwrap_err();
        assert!(matches!(error, Error::PeerFailed { task: TaskId(0), .. }), "{error}");
    });
    drop(network);
}

/// Each task fails in the end: task 7 never enters the barrier, and all others wait for it, most of them through others.
#[test]
fn a_death_ends_the_collectives_of_all_survivors_that_go_on() {
    for exchanges in [false, true] {
        let (network, mut nodes, _watchdog) = job(Config::new(8));
        network.kill(TaskId(7));
        std::thread::scope(|scope| {
            for node in &mut nodes[..7] {
                scope.spawn(move || {
                    node.set_go_on(true);
                    let ended = if exchanges { node.exchange(&[1]).map(|_| ()) } else { node.gfence() };
                    let error = ended.unwrap_err();
                    assert!(matches!(error, Error::PeerFailed { task: TaskId(7), .. }), "{error}");
                });
            }
        });
    }
}

/// Tasks 2 and 3 wait in fences for messages that task 0 accepts late. Tasks 1 and 3 are dead by then, and task 0 has heard only of task 1.
#[test]
fn an_answer_that_cannot_be_sent_does_not_keep_others_from_theirs() {
    let (network, mut nodes, _watchdog) = job(Config::new(4));
    let tickets: Arc<Mutex<Vec<Ticket>>> = Arc::default();
    let in_handler = Arc::clone(&tickets);
    let handler = register_everywhere(&mut nodes, move |message| {
        in_handler.lock().unwrap().push(message.ticket);
        Answer::later()
    });
    let mut node = nodes.remove(0);
    let target = node.endpoint();
    node.set_go_on(true);
    std::thread::scope(|scope| {
        let mut fencing = Vec::new();
        for mut other in nodes.drain(1..).rev() {
            let own = other.endpoint();
            other.set_go_on(true);
            fencing.push(scope.spawn(move || {
                other.amsend(TaskId(0), handler, &[], &[5; 10], AmOptions::default()).unwrap();
                other.fence_ops(Some(target))
            }));
            // The message and the fence.
            while node.peer_statistics(own).unwrap().packets_received < 2 {
                node.probe().unwrap();
            }
        }
        network.kill(TaskId(1));
        network.kill(TaskId(3));
        for ticket in tickets.lock().unwrap().drain(..) {
            node.accept(ticket, Destination::Nowhere, Completion::None).unwrap();
        }
        let [of_3, of_2] = <[_; 2]>::try_from(fencing).unwrap();
        let mut failures = 0;
        while !of_2.is_finished() {
            failures += u32::from(node.probe().is_err());
        }
        assert!(failures > 0, "the answer to task 3 cannot be sent");
        of_2.join().unwrap().unwrap();
        // The dead task, a thread of this process, still waits.
        network.kill(TaskId(0));
        of_3.join().unwrap().unwrap_err();
    });
}

#[test]
fn a_purged_operation_ends_though_its_grant_could_not_be_ended_at_once() {
    let (network, endpoints) = network(Config::new(2));
    network.fail_next_revoke(TaskId(0));
    let mut nodes: Vec<_> = endpoints.into_iter().map(Context::new).collect();
    let handler = register_everywhere(&mut nodes, |_| Answer::discard());
    let options = AmOptions::default();
    let bytes = JobBuffer::zeroed(100_000);
    let sent = nodes[0].start(Amsend { target: TaskId(1), handler, uhdr: &[], options }, bytes).unwrap();
    let error = nodes[0].purge_totask(TaskId(1)).unwrap_err();
    assert!(matches!(error, Error::System { .. }), "{error}");
    let (mut left, mut handle) = (100, Some(sent));
    let (buffer, result) = loop {
        match nodes[0].try_owned(handle.take().unwrap()).unwrap() {
            Ok(ended) => break ended,
            Err(again) => handle = Some(again),
        }
        nodes[0].probe().unwrap();
        left -= 1;
        assert!(left > 0, "the operation does not end");
    };
    assert_eq!(buffer.len(), 100_000);
    assert!(matches!(result, Err(Error::Purged { .. })), "{result:?}");
}
