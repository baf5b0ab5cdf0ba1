//! Recovery without corruption of memory: a task is stopped in the middle of a copy, and its peer gives up the operation. The peer gets its
//! buffer back only when no task copies from the buffer any more.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use am_core::buffer::{Access, JobBuffer};
use am_core::error::Error;
use am_core::handler::{Answer, Completion, Delivered};
use am_core::task::TaskId;
use am_core::{AmOptions, Amsend, Context};
use am_tests::harness::job;
use am_via::Task;
use am_via::start::ShmFabric;

const BYTES: usize = 96 << 20;
const OLD: u8 = 0x11;
const NEW: u8 = 0xEE;
const ROUNDS: u32 = 8;
/// On a busy machine the peer may begin its copies late; then there are more rounds, up to this number, until a stop has met a copy.
const ROUNDS_MAX: u32 = 80;

fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    assert!(sent.expect("kill runs").success(), "SIG{name} to {pid}");
}

/// Whether all threads of the process are stopped.
fn is_stopped(pid: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the folder can be read");
    tasks.flatten().all(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
    })
}

fn run() {
    let task = Task::join().expect("the launcher made a job");
    let mut context = task.context().expect("the job has memory");
    let done = context.counter().expect("counter");
    let (send, receive) = std::sync::mpsc::channel();
    // The destination of the messages: its pages are touched, so that a copy begins at once.
    let mut place = context.alloc(BYTES).expect("alloc");
    place.fill(0);
    let place = context.expose(place, Access::READ).expect("expose");
    let range = place.range(0, BYTES as u64).expect("inside");
    let handler = context
        .register_handler(move |_| {
            let send = send.clone();
            let delivered = move |delivered: Delivered| drop(send.send(delivered));
            Answer::exposed(range, Completion::Call(Box::new(delivered)))
        })
        .expect("register");
    let next_round =
        context.register_handler(move |_| Answer::consumed(Completion::Bump(done))).expect("register");
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_over);
    let last_round = context.register_handler(move |_| {
        ends.store(true, Ordering::Relaxed);
        Answer::consumed(Completion::Bump(done))
    });
    let last_round = last_round.expect("register");
    let pids = context.exchange(&std::process::id().to_le_bytes()).expect("exchange");
    if context.task() == TaskId(1) {
        let mut round = 0;
        while !is_over.load(Ordering::Relaxed) {
            // The end of the message is reported separately; this error says that the origin has withdrawn the message.
            while let Err(error) = context.wait_counter(done, 1) {
                let is_withdrawn = matches!(error, Error::Purged { .. } | Error::Refused { .. });
                assert!(is_withdrawn, "round {round}: {error}");
            }
            let delivered = receive.try_recv().expect("the message has ended, with or without an error");
            let mut bytes = vec![0; BYTES];
            place.read(0, &mut bytes).expect("inside");
            // The standard library's search is optimised even in a debug build; a loop would take a second for each round.
            assert!(
                !bytes.contains(&NEW),
                "round {round}: the peer has bytes that were written after the buffer was returned"
            );
            println!("round {round}: {:?}", delivered.outcome.map_err(|error| error.to_string()));
            round += 1;
        }
        return context.gfence().expect("gfence");
    }
    let peer = u32::from_le_bytes(pids[1][..].try_into().expect("four bytes"));
    let (mut held_back, mut round) = (0, 0);
    while round < ROUNDS || held_back == 0 && round < ROUNDS_MAX {
        let mut buffer = context.alloc(BYTES).expect("alloc");
        buffer.fill(OLD);
        let sent = context
            .start(Amsend { target: TaskId(1), handler, uhdr: &[], options: AmOptions::default() }, buffer)
            .expect("amsend");
        // Each further series of rounds waits longer.
        let delay = (1000 + round % ROUNDS * 2700) * (1 + round / ROUNDS);
        std::thread::sleep(Duration::from_micros(delay.into()));
        signal("STOP", peer);
        while !is_stopped(peer) {
            std::thread::yield_now();
        }
        context.purge_totask(TaskId(1)).expect("purge");
        let (buffer, was_held_back) = take_back(&mut context, sent, peer);
        held_back += u32::from(was_held_back);
        // The buffer belongs to this task again: no peer may see the bytes that are written now.
        let mut buffer = buffer;
        buffer.fill(NEW);
        signal("CONT", peer);
        context.resume_totask(TaskId(1)).expect("resume");
        round += 1;
        let is_last = round >= ROUNDS && held_back > 0 || round == ROUNDS_MAX;
        let then = if is_last { last_round } else { next_round };
        context.amsend(TaskId(1), then, &[], &[], AmOptions::default()).expect("allowed again");
        // The peer has checked the bytes that it received.
        context.fence_ops(None).expect("fence");
    }
    println!("held back {held_back} of {round} buffers");
    context.gfence().expect("gfence");
}

/// Waits until the buffer of a send can be taken back, and returns it. If the stopped peer holds the buffer back for 200 ms, continues the
/// peer, and returns `true` with the buffer.
fn take_back(context: &mut Context<ShmFabric>, sent: am_core::OwnedHandle, peer: u32) -> (JobBuffer, bool) {
    let mut handle = sent;
    let begun = Instant::now();
    let mut was_held_back = false;
    loop {
        context.probe().expect("nothing else is wrong");
        handle = match context.try_owned(handle).expect("a handle of this context") {
            Ok((buffer, ended)) => {
                assert!(matches!(ended, Ok(()) | Err(Error::Purged { .. })), "{ended:?}");
                return (buffer, was_held_back);
            }
            Err(handle) => handle,
        };
        if begun.elapsed() > Duration::from_millis(200) && !was_held_back {
            // The peer was stopped in the middle of a copy: the buffer must not be returned before the peer goes on.
            was_held_back = true;
            signal("CONT", peer);
        }
    }
}

#[test]
fn a_buffer_comes_back_when_nobody_copies_from_it_any_more() {
    job("a_buffer_comes_back_when_nobody_copies_from_it_any_more").tasks(2).run_and_judge(run, |outcome| {
        assert!(outcome.is_success, "{}", outcome.line);
        // Some of the stops must have occurred in the middle of a copy; otherwise nothing was tested.
        let told = &outcome.tasks[0].stdout;
        println!("{told}");
        assert!(told.contains("held back") && !told.contains("held back 0 "), "{told}");
    });
}
