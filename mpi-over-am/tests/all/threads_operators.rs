//! No lock is held while an operator of the program runs, in any call of a collective: the operator may make calls, and may wait for a call
//! of another thread of its task. `tests/c/c_threads_callbacks.c` tests the same for all callbacks in C.

#![allow(clippy::unwrap_used, reason = "a thread of a test says by its panic what was wrong")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mpi_over_am::attribute::{Keyval, ObjectKind};
use mpi_over_am::{Info, Threads, collective, op};

use crate::threads::{Communicator, configs, job};

/// Counts the operators that wait for an answer, and the answers.
#[derive(Default)]
struct Questions {
    asked: AtomicU32,
    answered: AtomicU32,
}

impl Questions {
    /// Waits until another thread has made a call.
    fn ask(&self) {
        let number = self.asked.fetch_add(1, Ordering::AcqRel);
        while self.answered.load(Ordering::Acquire) <= number {
            std::thread::yield_now();
        }
    }

    /// Makes a call for each operator that waits, until `last` operators have waited.
    fn answer(&self, alone: &Communicator<Threads>, last: u32) {
        for number in 0..last {
            while self.asked.load(Ordering::Acquire) <= number {
                std::thread::yield_now();
            }
            talk(alone, 1);
            self.answered.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// A message of a task to itself.
fn talk(alone: &Communicator<Threads>, tag: i32) {
    let sending = alone.isend_owned(vec![7u8; 5], 0, tag).unwrap();
    let mut got = [0u8; 5];
    alone.recv(&mut got, 0, tag).unwrap();
    sending.wait().unwrap();
    assert_eq!(got, [7; 5]);
}

/// Runs `call` with an operator that adds, waits for a call of another thread, and makes a call itself.
fn with_asking_sum(
    runs: u32,
    call: impl Fn(&Communicator<Threads>, Arc<dyn Fn(&u64, &u64) -> u64 + Send + Sync>) + Sync,
) {
    for config in configs(2) {
        let task = |environment: &crate::threads::Environment<Threads>| {
            let (world, alone) = (environment.world(), environment.alone());
            let questions = Arc::new(Questions::default());
            let (asking, own) = (Arc::clone(&questions), alone.clone());
            let sum = Arc::new(move |a: &u64, b: &u64| {
                asking.ask();
                talk(&own, 2);
                a + b
            });
            std::thread::scope(|threads| {
                threads.spawn(|| questions.answer(&alone, runs));
                call(&world, sum);
            });
            assert_eq!(questions.asked.load(Ordering::Acquire), runs);
        };
        job(config, 2, task, |_| {});
    }
}

#[test]
fn an_operator_waits_for_a_thread_that_makes_a_call() {
    // With two tasks, each combines once in an allreduce of one element.
    with_asking_sum(1, |world, sum| {
        let (own, mut all) = ([u64::from(world.rank()) + 1], [0]);
        world.allreduce(&own, &mut all, op::from_fn(move |a, b| sum(a, b))).unwrap();
        assert_eq!(all, [3]);
    });
}

#[test]
fn an_operator_of_a_collective_that_does_not_wait_waits_for_a_thread_that_makes_a_call() {
    with_asking_sum(1, |world, sum| {
        let buffer = vec![u64::from(world.rank()) + 1];
        let sum = op::from_fn(move |a: &u64, b: &u64| sum(a, b));
        let request = collective::allreduce_in_place(buffer, sum).start_owned(world).unwrap();
        assert_eq!(request.wait().unwrap().0, [3]);
    });
}

#[test]
fn a_test_runs_operators_too_and_one_of_the_library_runs_beside_them() {
    with_asking_sum(3, |world, sum| {
        let mut kept = collective::allreduce_in_place(vec![1u64], op::from_fn(move |a, b| sum(a, b)))
            .keep(world)
            .unwrap();
        for round in 1..=3 {
            kept.buffer().unwrap()[0] = round;
            kept.start().unwrap();
            let beside = collective::allreduce_in_place(vec![round], op::Sum).start_owned(world).unwrap();
            while kept.test().unwrap().is_none() {
                std::thread::yield_now();
            }
            assert_eq!(kept.buffer().unwrap(), [2 * round]);
            assert_eq!(beside.wait().unwrap().0, [2 * round]);
        }
    });
}

/// If an operator unwinds out of one thread's wait, the next call completes the collective.
#[test]
fn an_operator_that_unwinds_runs_again() {
    for config in configs(2) {
        let task = |environment: &crate::threads::Environment<Threads>| {
            let world = environment.world();
            let runs = Arc::new(AtomicU32::new(0));
            let counted = Arc::clone(&runs);
            let sum = op::from_fn(move |a: &u64, b: &u64| {
                assert!(counted.fetch_add(1, Ordering::AcqRel) > 0, "the first run is meant to unwind");
                a + b
            });
            let request = collective::allreduce_in_place(vec![1u64], sum).start_owned(&world).unwrap();
            let waited = catch_unwind(AssertUnwindSafe(|| while !request.is_over().unwrap() {}));
            assert!(waited.is_err());
            assert_eq!(request.wait().unwrap().0, [2]);
            assert_eq!(runs.load(Ordering::Acquire), 2);
        };
        job(config, 2, task, |_| {});
    }
}

/// Callbacks of attributes: each makes a call, and waits for a call of another thread.
#[test]
fn a_callback_of_an_attribute_waits_for_a_thread_that_makes_a_call() {
    let task = |environment: &crate::threads::Environment<Threads>| {
        let world = environment.world();
        let key = |kind| {
            let (copying, deleting) = (world.clone(), world.clone());
            let probe = |from: &Communicator<Threads>| {
                let other = from.clone();
                let found = std::thread::spawn(move || other.iprobe(0, 1)).join().unwrap();
                assert_eq!((found.unwrap(), from.iprobe(0, 1).unwrap()), (None, None));
            };
            let copy = move |_: u64, _: &Keyval, value: u64| {
                probe(&copying);
                Ok(Some(value + 1))
            };
            let delete = move |_: u64, _: &Keyval, _: u64| {
                probe(&deleting);
                Ok(())
            };
            Keyval::new(kind, copy, delete)
        };
        let (of_communicator, of_window) = (key(ObjectKind::Communicator), key(ObjectKind::Window));
        world.properties().set_attribute(&of_communicator, 5).unwrap();
        let copy = world.dup().unwrap();
        assert_eq!(copy.properties().attribute(&of_communicator).unwrap(), Some(6));
        copy.close().unwrap();
        world.properties().delete_attribute(&of_communicator).unwrap();
        let window = world.allocate_window(8, 8, &Info::new()).unwrap();
        window.properties().set_attribute(&of_window, 5).unwrap();
        window.properties().set_attribute(&of_window, 6).unwrap();
        assert_eq!(window.properties().attribute(&of_window).unwrap(), Some(6));
        window.free().unwrap();
    };
    job(configs(1)[0], 1, task, |_| {});
}
