//! Several threads in one environment, beside tasks that have one; and the thread that makes progress.

#![allow(clippy::unwrap_used, reason = "a thread of a test says by its panic what was wrong")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use am_core::testing::loopback::{Config, Loopback, network};
use am_core::testing::watchdog::Watchdog;
use mpi_over_am::{Error, ErrorClass, Settings, Source, Tag, ThreadLevel, op};

type SharedEnvironment = mpi_over_am::SharedEnvironment<Loopback>;
type SharedCommunicator = mpi_over_am::SharedCommunicator<Loopback>;
type Environment = mpi_over_am::Environment<Loopback>;

/// Runs a job whose tasks up to `shared` have an environment for many threads, and the others one for a single thread.
fn job(
    config: Config,
    shared: u32,
    many: impl Fn(&SharedEnvironment) + Sync,
    single: impl Fn(&Environment) + Sync,
) {
    let _watchdog = Watchdog::new(format!("{config:?}"), Duration::from_secs(120));
    let (_network, fabrics) = network(config);
    std::thread::scope(|tasks| {
        for (number, fabric) in (0..).zip(fabrics) {
            let (many, single) = (&many, &single);
            tasks.spawn(move || {
                if number < shared {
                    let environment = SharedEnvironment::with_fabric(fabric, &Settings::default()).unwrap();
                    many(&environment);
                    environment.finalize().unwrap();
                    assert!(matches!(environment.finalize(), Err(Error::Finalized)));
                    assert!(matches!(environment.world().unwrap().barrier(), Err(Error::Finalized)));
                } else {
                    let environment = Environment::with_fabric(fabric, &Settings::default()).unwrap();
                    single(&environment);
                    environment.finalize().unwrap();
                }
            });
        }
    });
}

fn configs(tasks: u32) -> [Config; 3] {
    [Config::new(tasks), Config::hostile(tasks, 21), Config::hostile(tasks, 22)]
}

const THREADS: u32 = 4;
const MESSAGES: u64 = 60;

/// Each thread talks with the thread of its number in the next task, by messages of many lengths.
fn talk(world: &SharedCommunicator, thread: u32) {
    let (rank, size) = (world.rank(), world.size());
    let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
    let tag = i32::try_from(thread).unwrap();
    for (number, len) in (0..MESSAGES).zip([1, 7, 300, 5000].into_iter().cycle()) {
        let word = |rank: u32| u64::from(rank) << 40 | u64::from(thread) << 32 | number;
        let sending = world.isend_owned(vec![word(rank); len], right, tag).unwrap();
        let mut got = vec![0u64; len];
        match number % 3 {
            0 => {
                let status = world.recv(&mut got, left, tag).unwrap();
                assert_eq!((status.source(), status.tag()), (left, tag));
            }
            1 => {
                assert_eq!(world.probe(Source::Any, tag).unwrap().len(), len as u64 * 8);
                world.recv(&mut got, Source::Any, tag).unwrap();
            }
            _ => {
                let receiving = world.irecv_owned(got, left, tag).unwrap();
                got = receiving.wait().unwrap().0;
            }
        }
        assert!(got.iter().all(|&value| value == word(left)));
        let (out, ended) = sending.wait().unwrap();
        ended.unwrap();
        assert_eq!(out[0], word(rank));
    }
}

#[test]
fn threads_talk_at_the_same_time() {
    for config in configs(3) {
        job(
            config,
            3,
            |environment| {
                assert_eq!(environment.thread_level(), ThreadLevel::Multiple);
                let world = environment.world().unwrap();
                std::thread::scope(|threads| {
                    for thread in 0..THREADS {
                        let world = world.clone();
                        threads.spawn(move || talk(&world, thread));
                    }
                });
            },
            |_| {},
        );
    }
}

#[test]
fn a_thread_that_waits_holds_nobody_up() {
    // In each task one thread waits for what another thread of its own task sends last.
    for config in configs(2) {
        job(
            config,
            2,
            |environment| {
                let alone = environment.alone().unwrap();
                let world = environment.world().unwrap();
                std::thread::scope(|threads| {
                    let waiting = alone.clone();
                    threads.spawn(move || {
                        let mut got = [0u8; 100];
                        waiting.recv(&mut got, 0, Tag::Any).unwrap();
                        assert_eq!(got, [9; 100]);
                    });
                    world.barrier().unwrap();
                    alone.ssend(&[9u8; 100], 0, 1).unwrap();
                });
            },
            |_| {},
        );
    }
}

/// What both kinds of environment can do, as one thread after the other does it.
macro_rules! collectives {
    ($world:expr) => {{
        let world = $world;
        let (rank, size) = (u64::from(world.rank()), u64::from(world.size()));
        for round in 0..12u64 {
            world.barrier().unwrap();
            let mut sum = [0u64; 3];
            world.allreduce(&[rank + round, 1, rank], &mut sum, op::Sum).unwrap();
            assert_eq!(sum, [size * (size - 1) / 2 + size * round, size, size * (size - 1) / 2]);
            let root = u32::try_from(round % size).unwrap();
            let mut told = if world.rank() == root { vec![round; 700] } else { vec![0; 700] };
            world.broadcast(&mut told, root).unwrap();
            assert_eq!(told, [round; 700]);
            let mut all = vec![0u64; usize::try_from(size).unwrap()];
            world.allgather(&[rank * round], &mut all).unwrap();
            assert!(all.iter().zip(0..).all(|(&value, rank): (_, u64)| value == rank * round));
            let mut got = vec![0u64; all.len()];
            world.alltoall(&(0..size).map(|to| rank * 100 + to).collect::<Vec<_>>(), &mut got).unwrap();
            assert!(got.iter().zip(0..).all(|(&value, from): (_, u64)| value == from * 100 + rank));
            let mut scanned = [0u64];
            world.scan(&[rank + 1], &mut scanned, op::Sum).unwrap();
            assert_eq!(scanned[0], (rank + 1) * (rank + 2) / 2);
            let mut most = [0u64];
            world.reduce(&[rank], &mut most, op::Max, root).unwrap();
            assert!(world.rank() != root || most[0] == size - 1);
            let mut gathered = vec![0u64; if world.rank() == root { all.len() } else { 0 }];
            world.gather(&[rank], &mut gathered, root).unwrap();
            let mut own = [0u64];
            world.scatter(&gathered, &mut own, root).unwrap();
            assert_eq!(own[0], rank);
        }
    }};
}

#[test]
fn tasks_of_many_threads_and_of_one_meet_in_collectives() {
    for shared in 0..4 {
        for config in configs(3) {
            job(
                config,
                shared,
                |environment| {
                    let world = environment.world().unwrap();
                    collectives!(&world);
                    collectives!(&world.dup().unwrap());
                },
                |environment| {
                    let world = environment.world();
                    collectives!(&world);
                    collectives!(&world.dup().unwrap());
                },
            );
        }
    }
}

#[test]
fn each_thread_has_collectives_in_a_duplicate_of_its_own() {
    for config in configs(3) {
        job(
            config,
            3,
            |environment| {
                let world = environment.world().unwrap();
                let own: Vec<_> = (0..THREADS).map(|_| world.dup().unwrap()).collect();
                std::thread::scope(|threads| {
                    for communicator in &own {
                        threads.spawn(move || collectives!(communicator));
                    }
                });
            },
            |_| {},
        );
    }
}

#[test]
fn wrong_arguments_are_refused_and_end_nothing_else() {
    job(
        Config::new(1),
        1,
        |environment| {
            let world = environment.world().unwrap();
            let class = |result: Result<(), Error>| result.unwrap_err().class();
            assert_eq!(class(world.send(&[0u8], 1, 0)), ErrorClass::Rank);
            assert_eq!(class(world.send(&[0u8], 0, -5)), ErrorClass::Tag);
            assert_eq!(class(world.broadcast(&mut [0u8], 3)), ErrorClass::Root);
            assert_eq!(class(world.allreduce(&[0u8], &mut [], op::Sum)), ErrorClass::Count);
            world.isend_owned(vec![1u8; 9], 0, 2).unwrap().wait().unwrap().1.unwrap();
            assert_eq!(class(world.recv(&mut [0u8; 3], 0, 2).map(|_| ())), ErrorClass::Truncate);
            // An operator runs inside a call, and can make none.
            let inside = world.clone();
            let op = op::from_fn(move |a: &u8, b: &u8| {
                assert!(matches!(inside.barrier(), Err(Error::Nested)));
                a | b
            });
            world.allreduce(&[1u8], &mut [0u8], op).unwrap();
            // What is not waited for goes on by itself.
            drop(world.isend_owned(vec![1u8; 9], 0, 3).unwrap());
            assert_eq!(world.recv(&mut [0u8; 9], 0, 3).unwrap().len(), 9);
            drop(world.irecv_owned(vec![0u8; 9], 0, 4).unwrap());
        },
        |_| {},
    );
}

#[test]
fn a_thread_makes_progress_while_the_program_computes() {
    for config in configs(2) {
        let is_through = AtomicBool::new(false);
        let is_through = &is_through;
        job(
            config,
            2,
            |environment| {
                let world = environment.world().unwrap();
                assert!(!environment.has_progress_thread());
                if world.rank() == 0 {
                    environment.set_progress_thread(true).unwrap();
                    environment.set_progress_thread(true).unwrap();
                    assert!(environment.has_progress_thread());
                    let receiving = world.irecv_owned(vec![0u64; 100_000], 1, 1).unwrap();
                    world.barrier().unwrap();
                    // No call until the sender says, other than by MPI, that all of it has been taken.
                    while !is_through.load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                    assert_eq!(receiving.wait().unwrap().0[99_999], 77);
                    environment.set_progress_thread(false).unwrap();
                    assert!(!environment.has_progress_thread());
                } else {
                    world.barrier().unwrap();
                    world.ssend(&vec![77u64; 100_000], 0, 1).unwrap();
                    is_through.store(true, Ordering::Release);
                }
            },
            |_| {},
        );
    }
}
