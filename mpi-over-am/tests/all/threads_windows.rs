//! Windows of several threads, with each method of memory access.

#![allow(clippy::unwrap_used, reason = "a thread of a test says by its panic what was wrong")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};

use am_core_conform::Random;
use am_double::{Config, Reach};
use mpi_over_am::op::PredefinedOp;
use mpi_over_am::window::{Assertion, Flavor, Lock};
use mpi_over_am::{Error, ErrorClass, Info, LockPolicy, Threads};

use crate::threads::{Communicator, Environment, THREADS, Window, job};

/// Runs jobs in which the tasks below `shared` have several threads, with each method of memory access.
fn everywhere(
    tasks: u32,
    shared: u32,
    many: impl Fn(&Environment<Threads>) + Sync,
    single: impl Fn(&Environment) + Sync,
) {
    for reach in [Reach::Direct, Reach::Posted, Reach::Staged] {
        for config in [Config::new(tasks), Config::hostile(tasks, 31)] {
            job(Config { reach, atomics: reach, ..config }, shared, &many, &single);
        }
    }
}

fn all_shared(tasks: u32, many: impl Fn(&Communicator<Threads>) + Sync) {
    everywhere(tasks, tasks, |environment| many(&environment.world()), |_| {});
}

fn class<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorClass {
    result.unwrap_err().class()
}

fn allocate(world: &Communicator<Threads>, words: usize) -> Window<Threads> {
    world.allocate_window(words * 8, 8, &Info::new()).unwrap()
}

/// Runs all threads, each with its number.
fn team(thread: impl Fn(usize) + Sync) {
    std::thread::scope(|threads| {
        for number in 0..THREADS as usize {
            let thread = &thread;
            threads.spawn(move || thread(number));
        }
    });
}

const STRIPE: usize = 700;

#[test]
fn between_fences_all_threads_put_and_get() {
    all_shared(3, |world| {
        let (rank, size) = (world.rank(), world.size());
        let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
        let threads = THREADS as usize;
        let window = allocate(world, STRIPE * threads);
        assert_eq!((window.flavor(), window.rank()), (Flavor::Allocated, rank));
        assert_eq!((window.size(), window.unit()), ((STRIPE * threads * 8) as u64, 8));
        assert_eq!(class(window.put(&[1u64], right, 0)), ErrorClass::RmaSync);
        let together = Barrier::new(threads);
        let word = |rank: u32, thread: usize, round: u64, at: usize| {
            u64::from(rank) << 48 | (thread as u64) << 32 | round << 24 | at as u64
        };
        window.fence(Assertion::NO_PRECEDE).unwrap();
        team(|thread| {
            let mut random = Random::new(50 + thread as u64);
            for round in 0..3 {
                let mine: Vec<u64> = (0..STRIPE).map(|at| word(rank, thread, round, at)).collect();
                let at = i64::try_from(thread * STRIPE).unwrap();
                // Transfers pieces of any length.
                let mut done = 0;
                while done < STRIPE {
                    let len = (1 + random.below(300)).min(STRIPE - done);
                    window.put(&mine[done..done + len], right, at + i64::try_from(done).unwrap()).unwrap();
                    done += len;
                }
                if together.wait().is_leader() {
                    window.fence(Assertion::NONE).unwrap();
                }
                together.wait();
                let mut own = vec![0u64; STRIPE];
                window.read(at.cast_unsigned() * 8, &mut own).unwrap();
                assert!(own.iter().zip(0..).all(|(&got, at)| got == word(left, thread, round, at)));
                let mut theirs = vec![0u64; STRIPE];
                window.get(&mut theirs, right, at).unwrap();
                assert_eq!(theirs, mine);
                if together.wait().is_leader() {
                    window.fence(Assertion::NONE).unwrap();
                }
                together.wait();
            }
        });
        let memory = window.free().unwrap().unwrap();
        // The window's lock word is stored after the data.
        assert!(memory.len() >= STRIPE * threads * 8, "{}", memory.len());
    });
}

#[test]
fn updates_of_all_threads_come_one_after_the_other() {
    const TIMES: u64 = 40;
    all_shared(3, |world| {
        let window = allocate(world, 4);
        window.lock_all(Assertion::NONE).unwrap();
        assert_eq!(class(window.lock_all(Assertion::NONE)), ErrorClass::RmaSync);
        let tickets = Mutex::new(Vec::new());
        team(|thread| {
            for _ in 0..TIMES {
                let ticket = window.fetch_and_op(1u64, 0, 0, PredefinedOp::Sum).unwrap();
                tickets.lock().unwrap().push(ticket);
                window.accumulate(&[1u64, 2], 1, 0, PredefinedOp::Sum).unwrap();
                // Repeats until no other thread has changed the word in between.
                let mut seen = 0u64;
                loop {
                    let found = window.compare_and_swap(seen, seen + 1, 2, 3).unwrap();
                    if found == seen {
                        break;
                    }
                    seen = found;
                }
                // These updates of bytes use the window's own lock.
                window.accumulate(&[1u8], 0, 1, PredefinedOp::Sum).unwrap();
            }
            let before = window.get_accumulate(&[thread as u64; 2], 1, 2, PredefinedOp::Max).unwrap();
            assert!(before.iter().all(|&most| most < u64::from(THREADS)));
            let over = window.raccumulate_owned(vec![0u64], 1, 2, PredefinedOp::Sum).unwrap();
            over.wait().unwrap();
            let kept = window.rget_accumulate_owned(&[0u64], 1, 3, PredefinedOp::NoOp).unwrap();
            assert!(kept.wait().unwrap().0[0] >= thread as u64);
        });
        let mut mine = tickets.into_inner().unwrap();
        mine.sort_unstable();
        mine.dedup();
        assert_eq!(mine.len() as u64, TIMES * u64::from(THREADS), "each ticket was given once");
        window.flush_all().unwrap();
        world.barrier().unwrap();
        let all = TIMES * u64::from(THREADS * world.size());
        let mut words = [0u64; 4];
        for rank in 0..3 {
            window.get(&mut words, rank, 0).unwrap();
            let expected = match rank {
                0 => [all, all % 256, 0, 0],
                1 => [all, 2 * all, u64::from(THREADS) - 1, u64::from(THREADS) - 1],
                _ => [0, 0, 0, all],
            };
            assert_eq!(words, expected);
        }
        window.unlock_all().unwrap();
        window.free().unwrap();
    });
}

#[test]
fn whoever_waits_for_a_lock_holds_no_other_thread_up() {
    all_shared(2, |world| {
        let window = allocate(world, 1);
        let is_locked = AtomicBool::new(false);
        if world.rank() == 0 {
            window.lock(Lock::Exclusive, 1, Assertion::NONE).unwrap();
            world.send(&[1u8], 1, 1).unwrap();
            // A thread of the other task waits for the lock; another thread of that task sends the message that this thread waits for.
            world.recv(&mut [0u8], 1, 2).unwrap();
            window.put(&[7u64], 1, 0).unwrap();
            window.unlock(1).unwrap();
            world.barrier().unwrap();
        } else {
            world.recv(&mut [0u8], 0, 1).unwrap();
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    // The call is refused while the other thread checks whether this thread waits.
                    while let Err(error) = window.lock(Lock::Shared, 1, Assertion::NONE) {
                        assert_eq!(error.class(), ErrorClass::RmaSync, "{error}");
                        std::thread::yield_now();
                    }
                    is_locked.store(true, Ordering::Release);
                    let mut found = [0u64];
                    window.get(&mut found, 1, 0).unwrap();
                    assert_eq!(found, [7]);
                    window.unlock(1).unwrap();
                });
                threads.spawn(|| {
                    // Repeats until the first thread waits; after that no other thread may lock the rank or use it.
                    while window.lock(Lock::Shared, 1, Assertion::NO_CHECK).is_ok() {
                        window.unlock(1).unwrap();
                        std::thread::yield_now();
                    }
                    assert_eq!(class(window.put(&[1u64], 1, 0)), ErrorClass::RmaSync);
                    assert!(!is_locked.load(Ordering::Acquire));
                    world.send(&[1u8], 0, 2).unwrap();
                });
            });
            world.barrier().unwrap();
        }
        window.free().unwrap();
    });
}

#[test]
fn threads_of_all_tasks_lock_in_turns() {
    const TIMES: u64 = 6;
    all_shared(3, |world| {
        let window = allocate(world, 300);
        // A task may hold only one lock of a rank, so its threads exclude each other by a mutex.
        let own = Mutex::new(());
        team(|_| {
            for _ in 0..TIMES {
                let _mine = own.lock().unwrap();
                window.lock(Lock::Exclusive, 0, Assertion::NONE).unwrap();
                let mut words = [0u64; 300];
                window.get(&mut words, 0, 0).unwrap();
                assert!(words.iter().all(|&word| word == words[0]), "no other update has interfered");
                window.put(&words.map(|word| word + 1), 0, 0).unwrap();
                window.flush(0).unwrap();
                window.unlock(0).unwrap();
            }
        });
        world.barrier().unwrap();
        window.lock(Lock::Shared, 0, Assertion::NONE).unwrap();
        let mut words = [0u64; 300];
        window.get(&mut words, 0, 0).unwrap();
        assert_eq!(words, [TIMES * u64::from(THREADS * world.size()); 300]);
        assert_eq!(class(window.begin_free()), ErrorClass::RmaSync);
        window.unlock(0).unwrap();
        assert_eq!(class(window.unlock(0)), ErrorClass::RmaSync);
        window.free().unwrap();
    });
}

#[test]
fn a_flush_waits_for_what_was_put_before_while_others_go_on() {
    all_shared(2, |world| {
        let other = 1 - world.rank();
        let window = allocate(world, 5000);
        window.lock_all(Assertion::NONE).unwrap();
        let is_through = AtomicBool::new(false);
        std::thread::scope(|threads| {
            for thread in 1..3 {
                let (window, is_through) = (&window, &is_through);
                threads.spawn(move || {
                    let mut number = 0u64;
                    while !is_through.load(Ordering::Acquire) {
                        number += 1;
                        window.put(&[number; 900], other, thread * 1000).unwrap();
                    }
                });
            }
            for round in 1..6u64 {
                let sent: Vec<_> = (0..4)
                    .map(|part| {
                        window
                            .rput_owned(vec![round + part; 200], other, 3000 + part.cast_signed() * 200)
                            .unwrap()
                    })
                    .collect();
                window.flush(other).unwrap();
                for (part, sent) in (0..4).zip(sent) {
                    // After the flush the data have arrived, whichever thread reads them.
                    let got = window.rget_owned(vec![0u64; 200], other, 3000 + part * 200).unwrap();
                    let (got, _) = got.wait().unwrap();
                    assert_eq!(got, vec![round + part.cast_unsigned(); 200]);
                    assert_eq!(sent.wait().unwrap().0, got);
                }
            }
            is_through.store(true, Ordering::Release);
        });
        // Dropped requests complete by themselves.
        drop(window.rput_owned(vec![1u64; 900], other, 0).unwrap());
        drop(window.rget_owned(vec![1u64; 900], other, 0).unwrap());
        window.unlock_all().unwrap();
        window.free().unwrap();
    });
}

#[test]
fn posts_and_starts_of_different_threads_at_once() {
    all_shared(3, |world| {
        let (rank, size) = (world.rank(), world.size());
        let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
        let window = allocate(world, 100);
        let group = |rank: u32| window.group().incl(&[rank]).unwrap();
        for round in 0..5u64 {
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    window.post(&group(left), Assertion::NONE).unwrap();
                    if round % 2 == 0 {
                        window.wait().unwrap();
                    } else {
                        while !window.test().unwrap() {
                            std::thread::yield_now();
                        }
                    }
                    let mut got = [0u64; 100];
                    window.read(0, &mut got).unwrap();
                    assert_eq!(got, [u64::from(left) + round; 100]);
                });
                threads.spawn(|| {
                    window.start(&group(right), Assertion::NONE).unwrap();
                    window.put(&[u64::from(rank) + round; 100], right, 0).unwrap();
                    window.complete().unwrap();
                });
                threads.spawn(|| {
                    let sending = world.isend_owned(vec![round; 50], right, 9).unwrap();
                    world.recv(&mut [0u64; 50], left, 9).unwrap();
                    sending.wait().unwrap();
                });
            });
        }
        assert_eq!(class(window.complete()), ErrorClass::RmaSync);
        assert_eq!(class(window.wait()), ErrorClass::RmaSync);
        window.free().unwrap();
    });
}

/// The operations of windows on given memory, on dynamic memory, and on shared memory.
fn epochs<L: LockPolicy>(world: &Communicator<L>) {
    let (rank, size) = (world.rank(), world.size());
    let right = (rank + 1) % size;
    let window = world.create_window(vec![0u8; 800], 8, &Info::new()).unwrap();
    window.fence(Assertion::NONE).unwrap();
    window.put(&[u64::from(rank) + 1; 20], right, 10).unwrap();
    window.fence(Assertion::NONE).unwrap();
    let mut got = [0u64; 20];
    window.get(&mut got, right, 10).unwrap();
    assert_eq!(got, [u64::from(rank) + 1; 20]);
    window.fence(Assertion::NO_SUCCEED).unwrap();
    window.lock(Lock::Exclusive, 0, Assertion::NONE).unwrap();
    window.fetch_and_op(1u64, 0, 0, PredefinedOp::Sum).unwrap();
    window.unlock(0).unwrap();
    world.barrier().unwrap();
    window.lock_all(Assertion::NO_CHECK).unwrap();
    window.get(&mut got[..1], 0, 0).unwrap();
    assert_eq!(got[0], u64::from(size));
    window.flush_local(0).unwrap();
    window.flush_local_all().unwrap();
    window.sync().unwrap();
    window.unlock_all().unwrap();
    assert_eq!(window.free().unwrap().unwrap().len(), 800);
    // Attaches and detaches memory; the tasks exchange the addresses.
    let dynamic = world.create_dynamic_window(&Info::new()).unwrap();
    let at = dynamic.attach(vec![3u8; 64]).unwrap();
    let mut places = vec![0u64; size as usize];
    world.allgather(&[at], &mut places).unwrap();
    dynamic.fence(Assertion::NONE).unwrap();
    dynamic.put(&[9u8; 8], right, places[right as usize].cast_signed() + 8).unwrap();
    dynamic.fence(Assertion::NONE).unwrap();
    assert_eq!(dynamic.detach(at).unwrap()[..20], [[3; 8], [9; 8], [3; 8]].concat()[..20]);
    dynamic.free().unwrap();
    let array = world.allocate_shared_window::<u32>(if rank == 0 { 10 } else { 5 }, &Info::new()).unwrap();
    assert_eq!((array.count(0).unwrap(), array.count(right.max(1) % size).unwrap() >= 5), (10, true));
    array.store(right, 3, rank + 100).unwrap();
    array.barrier().unwrap();
    assert_eq!(array.load(right, 3).unwrap(), rank + 100);
    assert_eq!(array.load(rank, 3).unwrap(), (rank + size - 1) % size + 100);
    array.update(0, 0, 2, PredefinedOp::Sum).unwrap();
    array.barrier().unwrap();
    assert_eq!(array.load(0, 0).unwrap(), 2 * size);
    array.free().unwrap();
    // An invalid call is refused before it sends anything to another task.
    assert_eq!(class(world.create_window(vec![1], 0, &Info::new()).map(drop)), ErrorClass::Displacement);
}

#[test]
fn tasks_of_many_threads_and_of_one_share_windows() {
    for shared in [1, 2, 3] {
        everywhere(
            3,
            shared,
            |environment| {
                let world = environment.world();
                let own: Vec<_> = (0..2).map(|_| world.dup().unwrap()).collect();
                std::thread::scope(|threads| {
                    for communicator in &own {
                        threads.spawn(move || epochs(communicator));
                    }
                });
            },
            |environment| {
                let world = environment.world();
                let own: Vec<_> = (0..2).map(|_| world.dup().unwrap()).collect();
                own.iter().for_each(epochs);
            },
        );
    }
}

#[test]
fn an_array_is_every_threads() {
    all_shared(2, |world| {
        let threads = THREADS as usize;
        let array = world.allocate_shared_window::<u64>(threads * 10, &Info::new()).unwrap();
        team(|thread| {
            for rank in 0..world.size() {
                for at in 0..10 {
                    array.update(rank, (thread * 10 + at) as u64, 1, PredefinedOp::Sum).unwrap();
                }
            }
        });
        array.barrier().unwrap();
        let mut all = vec![0u64; threads * 10];
        for rank in 0..world.size() {
            array.read(rank, 0, &mut all).unwrap();
            assert_eq!(all, vec![u64::from(world.size()); threads * 10]);
        }
        assert_eq!(array.window().flavor(), Flavor::Shared);
        array.barrier().unwrap();
        array.free().unwrap();
    });
}
