//! A copy of a task, made by a fork without exec: the copy's calls are refused with an error that names the copy, its memory is private,
//! and the task goes on.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

use am_core::buffer::{Access, JobBuffer};
use am_core::error::{Error, Fault};
use am_core::handler::{Answer, Completion, Delivered, Destination, HandlerId};
use am_core::task::TaskId;
use am_core::transfer::{AtomicOp, Width};
use am_core::{AmOptions, Amsend, Context, GetOptions, Put, PutOptions};
use am_tests::harness::job;
use am_via::Task;
use am_via::start::ShmFabric;
use am_via_os::fork::{end, run_in_copy, split};
use am_via_os::process::Ended;

const BYTES: usize = 2 << 20;

/// Tries each way to communicate in a copy, and checks its error.
fn is_refused(context: &mut Context<ShmFabric>, at: am_core::buffer::RemoteAddress, handler: HandlerId) {
    let results = [
        ("amsend", context.amsend(TaskId(1), handler, &[], &[1], AmOptions::default())),
        ("put", context.put(at, &[1], PutOptions::default())),
        ("get", context.get(at, &mut [0], GetOptions::default())),
        ("rmw", context.rmw(at, Width::Bits64, AtomicOp::FetchAdd(1)).map(|_| ())),
        ("fence_data", context.fence_data(None)),
        ("gfence", context.gfence()),
        ("probe", context.probe().map(|_| ())),
        ("alloc", context.alloc(1).map(|_| ())),
    ];
    for (name, result) in results {
        let error = result.expect_err("it is a copy");
        assert_eq!(error.fault(), Fault::Caller, "{error}");
        assert!(matches!(error, Error::CopiedProcess { call } if call == name), "{error}");
        assert!(error.to_string().contains("made by fork"), "{error}");
    }
    // `wait_until` serves libraries above am-core: it reports the task as failed, instead of naming a call.
    let error = context.wait_until(|_| Ok(false)).expect_err("the wait cannot succeed");
    assert!(
        matches!(&error, Error::PeerFailed { task: TaskId(0), what } if what.contains("fork")),
        "{error}"
    );
    let error = Task::join().expect_err("another process is this task");
    assert!(matches!(&error, Error::Job { fault: Fault::Caller, .. }), "{error}");
}

fn run() {
    let task = Task::join().expect("the launcher made a job");
    let mut context = task.context().expect("the job has memory");
    let counter = context.counter().expect("counter");
    let handler = context.register_handler(move |_| Answer::consumed(Completion::Bump(counter)));
    let handler = handler.expect("the first handler");
    let memory = context.alloc(64).expect("alloc");
    let region = context.expose(memory, Access::READ_WRITE).expect("expose");
    let addresses = context.address_init(region.address(0)).expect("all tasks exchange addresses");
    let at = addresses[1];
    if task.number() == 0 {
        let mut held: JobBuffer = context.alloc(BYTES).expect("alloc");
        held.fill(7);
        // Connects both tasks, so that the copy has every mapping of its task.
        context.amsend(TaskId(1), handler, &[], &[1], AmOptions::default()).expect("amsend");
        context.put(at, &[1; 8], PutOptions::default()).expect("put");
        let (mut in_copy, mut buffer) = (Some(context), Some(held));
        let ended = run_in_copy(|| {
            let (mut context, mut held) = (in_copy.take().expect("present"), buffer.take().expect("present"));
            assert!(held.iter().all(|&byte| byte == 7), "as it was at the fork");
            held.fill(9);
            is_refused(&mut context, at, handler);
            // A thread that the copy starts belongs to the copy.
            std::thread::scope(|threads| {
                threads.spawn(|| is_refused(&mut context, at, handler)).join().expect("it is refused there");
            });
            // The drop does not free the buffer's pages, and does not close the task's files.
            drop(held);
            drop(context);
            0
        });
        assert_eq!(ended.expect("fork"), Ended::Exited(0));
        let held = buffer.expect("the copy took its own");
        assert!(held.iter().all(|&byte| byte == 7), "the copy wrote to its own");
        context = in_copy.expect("the copy took its own");
        for round in 0..100u64 {
            context.amsend(TaskId(1), handler, &[], &[1; 100], AmOptions::default()).expect("amsend");
            let before = context.rmw(at, Width::Bits64, AtomicOp::FetchAdd(1)).expect("rmw");
            assert_eq!(before, 0x0101_0101_0101_0101 + round);
        }
        context.gfence().expect("gfence");
    } else {
        context.wait_counter(counter, 101).expect("the counter reaches its value");
        context.gfence().expect("gfence");
        assert_eq!(region.load_u64(0).expect("load"), 0x0101_0101_0101_0101 + 100);
    }
}

#[test]
fn a_copy_is_refused_and_its_task_goes_on() {
    for memory in ["auto", "kernel", "staged"] {
        job("a_copy_is_refused_and_its_task_goes_on").tasks(2).env("AM_MEMORY", memory).run(run);
    }
}

/// A copy of the only task of a job, which runs without a launcher.
#[test]
fn a_copy_of_a_job_of_one_is_refused() {
    job("a_copy_of_a_job_of_one_is_refused").without_launcher().run(|| {
        let task = Task::join().expect("a job of one");
        let mut context = task.context().expect("it has memory");
        let ended = run_in_copy(|| {
            let error = context.gfence().expect_err("it is a copy");
            i32::from(!matches!(error, Error::CopiedProcess { call: "gfence" }))
        });
        assert_eq!(ended.expect("fork"), Ended::Exited(0));
        context.gfence().expect("the task goes on");
    });
}

/// A fork within a scope: operations in flight belong to the task alone. The copy's scope ends at once with an error. It withdraws and ends
/// no operation, and the copy's borrowed memory is unchanged.
fn split_in_a_scope(unwinds: bool) {
    let task = Task::join().expect("the launcher made a job");
    let mut context = task.context().expect("the job has memory");
    let (waiting, go, came) = (
        Arc::new(Mutex::new(Vec::new())),
        context.counter().expect("counter"),
        context.counter().expect("counter"),
    );
    let in_handler = Arc::clone(&waiting);
    let later = context.register_handler(move |message| {
        in_handler.lock().expect("no thread panics with the lock").push(message.ticket);
        Answer::later()
    });
    let later = later.expect("the first handler");
    let told = context.register_handler(move |_| Answer::consumed(Completion::Bump(go)));
    let told = told.expect("the second handler");
    let memory = context.alloc(64).expect("alloc");
    let region = context.expose(memory, Access::READ_WRITE).expect("expose");
    let addresses = context.address_init(region.address(0)).expect("all tasks exchange addresses");
    if task.number() == 1 {
        context.wait_counter(go, 1).expect("the counter reaches its value");
        let ticket =
            waiting.lock().expect("no thread panics with the lock").pop().expect("the message has arrived");
        let place = JobBuffer::zeroed(BYTES);
        let check = move |delivered: Delivered| {
            delivered.outcome.expect("the copy of the process does not withdraw the message");
            assert!(
                delivered.buffer.expect("the buffer of the destination").iter().all(|&byte| byte == 7),
                "not the copy's bytes"
            );
        };
        context.accept(ticket, Destination::Owned(place), Completion::Call(Box::new(check))).expect("accept");
        context.wait_counter(came, 1).expect("the target counter");
        return context.gfence().expect("gfence");
    }
    let mut message = vec![7; BYTES];
    let mut is_copy = false;
    let options = AmOptions { announce: true, target: Some(came.name()), ..AmOptions::default() };
    let body = AssertUnwindSafe(|| {
        context.scope(|scope| {
            scope
                .start(Amsend { target: TaskId(1), handler: later, uhdr: &[], options }, &message)
                .expect("it begins");
            let Some(child) = split().expect("fork") else {
                is_copy = true;
                let refused = scope
                    .start(Put { to: addresses[1], options: PutOptions::default() }, &[9; 8])
                    .expect_err("it is a copy");
                assert!(matches!(refused, Error::CopiedProcess { call: "put" }), "{refused}");
                assert!(!unwinds, "as the test wants it");
                return;
            };
            assert_eq!(child.wait().expect("it is ours"), Ended::Exited(0));
            scope
                .start(
                    Amsend { target: TaskId(1), handler: told, uhdr: &[], options: AmOptions::default() },
                    &[],
                )
                .expect("the task goes on");
        })
    });
    let ended = std::panic::catch_unwind(body);
    if is_copy {
        let is_right = match &ended {
            Ok(Err(Error::CopiedProcess { .. })) => !unwinds,
            Ok(_) => false,
            Err(_) => unwinds,
        };
        println!("the copy's scope: {ended:?}");
        message.fill(9);
        drop(context);
        end(i32::from(!is_right));
    }
    ended.expect("only the copy unwinds").expect("the message went");
    assert!(message.iter().all(|&byte| byte == 7), "the copy wrote to its own");
    context.gfence().expect("gfence");
}

#[test]
fn a_copy_made_in_a_scope_leaves_what_is_under_way_to_its_task() {
    for memory in ["auto", "kernel", "staged"] {
        for unwinds in [false, true] {
            job("a_copy_made_in_a_scope_leaves_what_is_under_way_to_its_task")
                .tasks(2)
                .env("AM_MEMORY", memory)
                .run(|| split_in_a_scope(unwinds));
        }
    }
}
