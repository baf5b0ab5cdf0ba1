//! A context that several threads share, in polling mode and in interrupt mode.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use am_core::buffer::{Access, JobBuffer};
use am_core::error::Error;
use am_core::handler::{Answer, Completion};
use am_core::shared::SharedContext;
use am_core::task::TaskId;
use am_core::transfer::{AtomicOp, Width};
use am_core::{AmOptions, Amsend, Context, Get, GetOptions, PollReason};
use am_core_conform::watchdog::Watchdog;
use am_double::{Config, Double, Reach, network};

const THREADS: u64 = 4;

/// Two tasks in this process, and the number of messages that their handlers have handled.
fn pair(config: Config) -> (Vec<SharedContext<Double>>, Arc<AtomicU64>) {
    let handled = Arc::new(AtomicU64::new(0));
    let (_, endpoints) = network(config);
    let shared = endpoints.into_iter().map(|endpoint| {
        let mut context = Context::new(endpoint);
        let handled = Arc::clone(&handled);
        context
            .register_handler(move |_| {
                handled.fetch_add(1, Ordering::Relaxed);
                Answer::consumed(Completion::None)
            })
            .unwrap();
        SharedContext::new(context)
    });
    (shared.collect(), handled)
}

#[test]
fn threads_share_a_context_and_wait_beside_each_other() {
    let _watchdog = Watchdog::new("threads share a context".to_owned(), Duration::from_secs(100));
    for (interrupts, config) in [
        (false, Config::new(2)),
        (false, Config::hostile(2, 5)),
        (true, Config::new(2)),
        (true, Config::hostile(2, 6)),
    ] {
        let (shared, handled) = pair(config);
        let handler = am_core::handler::HandlerId(0);
        let regions: Vec<_> = shared
            .iter()
            .map(|shared| {
                shared.with(|context| context.expose(JobBuffer::zeroed(64), Access::READ_WRITE)).unwrap()
            })
            .collect();
        shared.iter().for_each(|shared| shared.set_interrupts(interrupts).unwrap());
        std::thread::scope(|scope| {
            for (own, shared) in (0..).zip(&shared) {
                for thread in 0..THREADS {
                    let at = regions[1 - own].address(0);
                    scope.spawn(move || {
                        let other = TaskId(u32::from(own == 0));
                        let done = shared.with(|context| context.counter()).unwrap();
                        for round in 0..25_usize {
                            let options = AmOptions { completion: Some(done), ..AmOptions::default() };
                            let len = [8, 5000][round % 2];
                            let sent = shared
                                .with(|context| {
                                    let udata = JobBuffer::zeroed(len);
                                    context
                                        .start(Amsend { target: other, handler, uhdr: &[], options }, udata)
                                        .map_err(|e| e.error)
                                })
                                .unwrap();
                            if thread == 0 && interrupts {
                                shared.wait_counter_without_polling(done, 1).unwrap();
                            } else {
                                shared.wait_counter(done, 1).unwrap();
                            }
                            let (_, ended) = shared.wait_owned(sent).unwrap();
                            ended.unwrap();
                            shared.rmw(at, Width::Bits64, AtomicOp::FetchAdd(1)).unwrap();
                        }
                    });
                }
            }
            // In polling mode some thread must answer the last operations of the other task.
            if !interrupts {
                for (own, shared) in shared.iter().enumerate() {
                    let word = &regions[own];
                    scope.spawn(move || {
                        shared.wait_for(|_| Ok((word.load_u64(0)? == 25 * THREADS).then_some(()))).unwrap();
                    });
                }
            }
        });
        assert_eq!(handled.load(Ordering::Relaxed), 2 * THREADS * 25);
        for (shared, region) in shared.iter().zip(regions) {
            assert_eq!(region.load_u64(0).unwrap(), 25 * THREADS);
            shared.set_interrupts(false).unwrap();
            drop(shared.with(|context| context.unexpose(region)).unwrap());
        }
    }
}

#[test]
fn handlers_run_while_the_program_computes_only_with_interrupts() {
    let _watchdog = Watchdog::new("interrupts".to_owned(), Duration::from_secs(60));
    let (shared, handled) = pair(Config::new(2));
    let handler = am_core::handler::HandlerId(0);
    let send =
        || shared[0].with(|context| context.amsend(TaskId(1), handler, &[], &[1; 8], AmOptions::default()));
    send().unwrap();
    std::thread::sleep(Duration::from_millis(30));
    assert_eq!(handled.load(Ordering::Relaxed), 0, "no thread polls");
    for round in 1..4 {
        shared[1].set_interrupts(true).unwrap();
        assert!(shared[1].has_interrupts());
        send().unwrap();
        let wanted = 2 * round;
        while handled.load(Ordering::Relaxed) < wanted {
            std::hint::spin_loop();
        }
        shared[1].set_interrupts(false).unwrap();
        assert!(!shared[1].has_interrupts());
        send().unwrap();
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(handled.load(Ordering::Relaxed), wanted, "polling has ended");
    }
}

#[test]
fn one_thread_at_a_time_waits_for_a_counter_without_polling() {
    let _watchdog = Watchdog::new("waits without polling".to_owned(), Duration::from_secs(60));
    let (shared, _) = pair(Config::new(2));
    let shared = &shared[0];
    let counter = shared
        .with(|context| {
            let counter = context.counter()?;
            context.set_counter_watched(counter, &[TaskId(1)]).map(|()| counter)
        })
        .unwrap();
    std::thread::scope(|scope| {
        let wait = || shared.wait_counter_without_polling(counter, 1);
        let mut waiters = vec![scope.spawn(wait)];
        // The second thread is refused; either thread may be the second.
        while !waiters.iter().any(std::thread::ScopedJoinHandle::is_finished) {
            waiters.push(scope.spawn(wait));
            std::thread::sleep(Duration::from_millis(20));
        }
        // A purge of the destination ends the wait of the thread that was not refused.
        while waiters.iter().filter(|waiter| !waiter.is_finished()).count() > 1 {
            std::thread::yield_now();
        }
        shared.with(|context| context.purge_totask(TaskId(1))).unwrap();
        let errors: Vec<_> = waiters.into_iter().map(|waiter| waiter.join().unwrap().unwrap_err()).collect();
        let purged =
            errors.iter().filter(|error| matches!(error, Error::Purged { task: TaskId(1), .. })).count();
        let refused = errors.iter().filter(|error| matches!(error, Error::MultipleWaiters { .. })).count();
        assert_eq!((purged, refused), (1, errors.len() - 1), "{errors:?}");
    });
}

#[test]
fn a_bounded_poll_says_that_another_thread_is_at_it() {
    let _watchdog = Watchdog::new("a bounded poll".to_owned(), Duration::from_secs(60));
    let (shared, _) = pair(Config::new(2));
    let shared = &shared;
    assert_eq!(shared[0].msgpoll(3).unwrap(), PollReason::GaveUp);
    let (begun, is_inside) = std::sync::mpsc::channel();
    let (leave, left) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let inside = |_: &mut _| {
                begun.send(()).unwrap();
                left.recv().unwrap();
                Ok(())
            };
            shared[0].with(inside).unwrap();
        });
        is_inside.recv().unwrap();
        assert_eq!(shared[0].msgpoll(3).unwrap(), PollReason::OtherThread);
        leave.send(()).unwrap();
    });
    let handler = am_core::handler::HandlerId(0);
    shared[1].with(|context| context.amsend(TaskId(0), handler, &[], &[1; 8], AmOptions::default())).unwrap();
    assert_eq!(shared[0].msgpoll(3).unwrap(), PollReason::ReceiveComplete);
}

#[test]
fn an_error_of_another_task_does_not_lose_the_operation_that_a_thread_waits_for() {
    let _watchdog = Watchdog::new("an unrelated error".to_owned(), Duration::from_secs(60));
    let (shared, _) = pair(Config { reach: Reach::Staged, atomics: Reach::Staged, ..Config::new(2) });
    let region = shared[1].with(|context| context.expose(JobBuffer::zeroed(64), Access::READ_WRITE)).unwrap();
    let at = region.address(0);
    let disturb = || {
        let unknown = am_core::handler::HandlerId(77);
        shared[1].with(|context| context.amsend(TaskId(0), unknown, &[], &[], AmOptions::default())).unwrap();
    };
    let is_reported = || shared[0].wait_for(|_| Ok::<Option<()>, _>(None)).unwrap_err();
    disturb();
    let get = Get { from: at, options: GetOptions::default() };
    let handle = shared[0].with(|context| Ok(context.start(get, JobBuffer::zeroed(8)).unwrap())).unwrap();
    shared[1].set_interrupts(true).unwrap();
    let (buffer, result) = shared[0].wait_owned(handle).unwrap();
    assert_eq!((buffer.len(), result.is_ok()), (8, true));
    is_reported();
    disturb();
    assert_eq!(shared[0].rmw(at, Width::Bits64, AtomicOp::FetchAdd(1)).unwrap(), 0);
    is_reported();
}

#[test]
fn the_last_clone_ends_a_context_with_interrupts() {
    let _watchdog = Watchdog::new("the last clone".to_owned(), Duration::from_secs(60));
    for _ in 0..3 {
        let (_, endpoints) = network(Config::new(1));
        let mut context = Context::new(endpoints.into_iter().next().unwrap());
        let held = Arc::new(());
        let by_context = Arc::clone(&held);
        context
            .register_handler(move |_| {
                let _ = &by_context;
                Answer::consumed(Completion::None)
            })
            .unwrap();
        let shared = SharedContext::new(context);
        shared.set_interrupts(true).unwrap();
        // The thread is asleep, with the context.
        std::thread::sleep(Duration::from_millis(10));
        drop(shared);
        assert_eq!(Arc::strong_count(&held), 1, "the context has not ended");
    }
}
