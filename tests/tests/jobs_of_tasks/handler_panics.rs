//! A panic in a handler ends the handler's operation with an error at the origin and the target, and the job with a report.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use am_core::error::{Error, Refusal};
use am_core::handler::{Answer, Completion, HandlerId};
use am_core::task::TaskId;
use am_core::{AmOptions, Context};
use am_tests::harness::{Outcome, job};
use am_via::Task;
use am_via::start::ShmFabric;

/// The handlers of task 1 that panic.
const PLACES: [&str; 3] = ["header", "completion", "thread"];
const LENGTHS: [usize; 3] = [0, 100, 1 << 20];

fn panicking(context: &mut Context<ShmFabric>, place: &'static str) -> HandlerId {
    let handler = context.register_handler(move |_| match place {
        "header" => panic!("planned panic"),
        "completion" => Answer::consumed(Completion::Call(Box::new(|_| panic!("planned panic")))),
        _ => Answer::consumed(Completion::Thread(Box::new(|_, _| panic!("planned panic")))),
    });
    handler.expect("the first handler")
}

fn open(place: &'static str) -> (Context<ShmFabric>, HandlerId) {
    let task = Task::join().expect("the launcher made a job");
    let mut context = task.context().expect("the job has memory");
    let handler = panicking(&mut context, place);
    context.gfence().expect("all tasks reach the fence");
    (context, handler)
}

fn send(context: &mut Context<ShmFabric>, handler: HandlerId, len: usize) -> Result<(), Error> {
    context.amsend(TaskId(1), handler, &[], &vec![1; len], AmOptions::default())?;
    context.fence_ops(None)
}

/// A program that does not handle the error ends, and the report names the task, the source line and the message.
#[test]
fn a_panic_in_a_handler_ends_the_job_with_a_report() {
    let test = "a_panic_in_a_handler_ends_the_job_with_a_report";
    for place in PLACES {
        for len in LENGTHS {
            let body = || {
                let (mut context, handler) = open(place);
                let ended = match context.task().0 {
                    0 => {
                        let sent = send(&mut context, handler, len);
                        sent.and(context.gfence())
                    }
                    _ => context.gfence(),
                };
                if context.task().0 == 1 {
                    // Ends as a program does whose `main` returns the error: the text of the panic is the text of the launcher's report.
                    let error = ended.expect_err("its handler panicked");
                    println!("\nmet: {error}");
                    panic!("{error}");
                }
                match ended.expect_err("the handler of the message panicked") {
                    Error::Refused { target, why: Refusal::HandlerPanicked } => {
                        assert_eq!(target.task, TaskId(1))
                    }
                    Error::PeerFailed { task: TaskId(1), .. } => {}
                    other => panic!("the error does not name the handler: {other}"),
                }
                println!("\ntold");
            };
            job(test).tasks(2).run_and_judge(body, |outcome: &Outcome| {
                assert!(!outcome.is_success);
                let failure = outcome.failure.as_ref().expect("task 1 failed");
                assert_eq!(failure.task, 1);
                assert!(failure.last_words.contains("planned panic"), "last words: {}", failure.last_words);
                let kind = if place == "header" { "header" } else { "completion" };
                let said = &outcome.tasks[1].stdout;
                let met = said.lines().find(|line| line.starts_with("met: ")).expect("an error");
                for word in [kind, "task 0", "planned panic"] {
                    assert!(met.contains(word), "no {word:?} in {met:?}");
                }
                assert!(outcome.tasks[0].stdout.contains("told"), "{}", outcome.tasks[0].stdout);
            });
        }
    }
}

/// A program that makes no further call after the panic has failed nevertheless.
#[test]
fn a_panic_in_a_handler_is_not_lost_where_nobody_asks() {
    let test = "a_panic_in_a_handler_is_not_lost_where_nobody_asks";
    let body = || {
        let task = Task::join().expect("the launcher made a job");
        let mut context = task.context().expect("the job has memory");
        let came = Arc::new(AtomicBool::new(false));
        let note = Arc::clone(&came);
        let handler = context.register_handler(move |_| {
            note.store(true, Ordering::SeqCst);
            panic!("planned panic");
        });
        let handler = handler.expect("the first handler");
        let counter = context.counter().expect("counter");
        context.gfence().expect("all tasks reach the fence");
        if context.task().0 == 0 {
            let options = AmOptions::default();
            context.amsend(TaskId(1), handler, &[], &[], options).expect("it is one way");
            // Waits until the other task has ended.
            let _ = context.wait_counter(counter, 1);
            return;
        }
        // The panic is reported by calls that have results of their own.
        let region = context.alloc(8).expect("alloc");
        let region = context.expose(region, am_core::buffer::Access::READ_WRITE).expect("expose");
        while !came.load(Ordering::SeqCst) {
            context
                .rmw(
                    region.address(0),
                    am_core::fabric::Width::Bits64,
                    am_core::fabric::AtomicOp::FetchAdd(1),
                )
                .expect("its own memory");
        }
    };
    job(test).tasks(2).run_and_judge(body, |outcome: &Outcome| {
        assert!(!outcome.is_success);
        let failure = outcome.failure.as_ref().expect("task 1 failed");
        assert_eq!(failure.task, 1);
        assert!(failure.to_string().contains("planned panic"), "{failure}");
    });
}
