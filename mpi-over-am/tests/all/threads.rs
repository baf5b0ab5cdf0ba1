//! Several threads in one environment, in jobs that also have tasks with one thread; and the progress thread.

#![allow(clippy::unwrap_used, reason = "a thread of a test says by its panic what was wrong")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use am_core_conform::watchdog::Watchdog;
use am_double::{Config, Double, network};
use mpi_over_am::{Error, LockPolicy, Mode, OneThread, Settings, Source, Tag, ThreadLevel, Threads, op};

pub(crate) type Environment<L = OneThread> = mpi_over_am::Environment<Double, L>;
pub(crate) type Communicator<L = OneThread> = mpi_over_am::Communicator<Double, L>;
pub(crate) type Window<L = OneThread> = mpi_over_am::window::Window<Double, L>;

/// Runs a job in which the tasks below `shared` have an environment for many threads, and the others an environment for one thread. Calls
/// that the former make after they have finalized must fail.
pub(crate) fn job(
    config: Config,
    shared: u32,
    many: impl Fn(&Environment<Threads>) + Sync,
    single: impl Fn(&Environment) + Sync,
) {
    let _watchdog = Watchdog::new(format!("{config:?}"), Duration::from_secs(120));
    let (_network, fabrics) = network(config);
    std::thread::scope(|tasks| {
        for (number, fabric) in (0..).zip(fabrics) {
            let (many, single) = (&many, &single);
            tasks.spawn(move || {
                if number < shared {
                    let environment =
                        Environment::<Threads>::on_fabric(fabric, &Settings::default()).unwrap();
                    many(&environment);
                    let world = environment.world();
                    environment.finalize().unwrap();
                    assert!(matches!(world.barrier(), Err(Error::Finalized)));
                } else {
                    let environment = Environment::with_fabric(fabric, &Settings::default()).unwrap();
                    single(&environment);
                    environment.finalize().unwrap();
                }
            });
        }
    });
}

/// Runs jobs of tasks that all have an environment for many threads.
pub(crate) fn of_threads(tasks: u32, many: impl Fn(&Environment<Threads>) + Sync) {
    configs(tasks).into_iter().for_each(|config| job(config, tasks, &many, |_| {}));
}

/// Runs jobs in which each task calls for each of [`THREADS`] duplicates of its world: the tasks below `shared` call `many` in a thread for
/// each duplicate, the others call `single` for one after the other.
pub(crate) fn for_duplicates(
    tasks: u32,
    shared: &[u32],
    many: impl Fn(&Communicator<Threads>) + Sync,
    single: impl Fn(&Communicator) + Sync,
) {
    let many = |environment: &Environment<Threads>| {
        let world = environment.world();
        let own: Vec<_> = (0..THREADS).map(|_| world.dup().unwrap()).collect();
        std::thread::scope(|threads| {
            for communicator in &own {
                threads.spawn(|| many(communicator));
            }
        });
    };
    let single = |environment: &Environment| {
        let world = environment.world();
        let own: Vec<_> = (0..THREADS).map(|_| world.dup().unwrap()).collect();
        own.iter().for_each(&single);
    };
    for &shared in shared {
        configs(tasks).into_iter().for_each(|config| job(config, shared, many, single));
    }
}

pub(crate) fn configs(tasks: u32) -> [Config; 3] {
    [Config::new(tasks), Config::hostile(tasks, 21), Config::hostile(tasks, 22)]
}

pub(crate) const THREADS: u32 = 4;
const MESSAGES: u64 = 60;

/// Sends messages of many lengths to the thread of this number in the next task, and receives those of the thread of the same number in the
/// previous task.
fn talk(world: &Communicator<Threads>, thread: u32) {
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
        let (out, _) = sending.wait().unwrap();
        assert_eq!(out[0], word(rank));
    }
}

#[test]
fn threads_talk_at_the_same_time() {
    of_threads(3, |environment| {
        assert_eq!(environment.thread_level(), ThreadLevel::Multiple);
        let world = environment.world();
        std::thread::scope(|threads| {
            for thread in 0..THREADS {
                let world = world.clone();
                threads.spawn(move || talk(&world, thread));
            }
        });
    });
}

#[test]
fn a_thread_that_waits_holds_nobody_up() {
    // In each task one thread waits for the last message of another thread of its own task.
    of_threads(2, |environment| {
        let alone = environment.alone();
        let world = environment.world();
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
    });
}

/// Collectives of both kinds of environments.
fn collectives<L: LockPolicy>(world: &Communicator<L>) {
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
        let mut total = [rank];
        world.allreduce_in_place(&mut total, op::Max).unwrap();
        assert_eq!(total, [size - 1]);
        let mut before = [7u64];
        world.exscan(&[rank + 1], &mut before, op::Sum).unwrap();
        assert_eq!(before[0], if rank == 0 { 7 } else { rank * (rank + 1) / 2 });
        world.reduce_scatter_block(&vec![rank; all.len()], &mut before, op::Sum).unwrap();
        assert_eq!(before[0], size * (size - 1) / 2);
    }
}

#[test]
fn tasks_of_many_threads_and_of_one_meet_in_collectives() {
    for shared in 0..4 {
        for config in configs(3) {
            job(
                config,
                shared,
                |environment| collectives(&environment.world().dup().unwrap()),
                |environment| collectives(&environment.world().dup().unwrap()),
            );
        }
    }
}

#[test]
fn each_thread_has_collectives_in_a_duplicate_of_its_own() {
    of_threads(3, |environment| {
        let world = environment.world();
        let own: Vec<_> = (0..THREADS).map(|_| world.dup().unwrap()).collect();
        std::thread::scope(|threads| {
            for communicator in &own {
                threads.spawn(move || collectives(communicator));
            }
        });
    });
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
                let world = environment.world();
                assert!(!environment.has_progress_thread());
                if world.rank() == 0 {
                    environment.set_progress_thread(true).unwrap();
                    environment.set_progress_thread(true).unwrap();
                    assert!(environment.has_progress_thread());
                    let receiving = world.irecv_owned(vec![0u64; 100_000], 1, 1).unwrap();
                    world.barrier().unwrap();
                    // Makes no call until the sender reports, by other means than MPI, that the whole message has been received.
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

#[test]
fn threads_split_communicators_while_others_wait() {
    of_threads(3, |environment| {
        let own: Vec<_> = (0..THREADS).map(|_| environment.world().dup().unwrap()).collect();
        let alone = environment.alone();
        std::thread::scope(|threads| {
            // A thread whose message arrives after all other threads have finished.
            let waiting = alone.clone();
            threads.spawn(move || waiting.recv(&mut [0u8], 0, 9).unwrap());
            let splitting: Vec<_> = own
                .iter()
                .zip(0..)
                .map(|(communicator, thread)| {
                    threads.spawn(move || {
                        let color = i32::try_from(communicator.rank()).unwrap() % 2;
                        let part = communicator.split(Some(color), thread).unwrap().unwrap();
                        let mut sum = [1u32];
                        part.allreduce_in_place(&mut sum, op::Sum).unwrap();
                        assert_eq!(sum, [2 - color.cast_unsigned()]);
                    })
                })
                .collect();
            splitting.into_iter().for_each(|thread| thread.join().unwrap());
            alone.send(&[1u8], 0, 9).unwrap();
        });
    });
}

#[test]
fn every_mode_and_every_way_to_receive() {
    of_threads(2, |environment| {
        let world = environment.world();
        environment.attach_buffer(vec![0; 400_000]).unwrap();
        std::thread::scope(|threads| {
            for tag in 0..4 {
                let world = world.clone();
                threads.spawn(move || modes(&world, tag));
            }
        });
        environment.flush_buffer().unwrap();
        assert_eq!(environment.detach_buffer().unwrap().map(|memory| memory.len()), Some(400_000));
    });
}

/// Messages of each mode, short and long, to the thread of this number in the other task.
fn modes(world: &Communicator<Threads>, tag: i32) {
    let other = 1 - world.rank();
    for len in [0, 1, 500, 10_000] {
        // The receive of the ready mode is posted before the other side learns of it.
        let receiving = world.irecv_owned(vec![0u32; len], other, tag).unwrap();
        world.sendrecv(&[0u8; 0], other, tag + 100, &mut [0u8; 0], other, tag + 100).unwrap();
        world.rsend(&vec![1u32; len], other, tag).unwrap();
        assert_eq!(receiving.wait().unwrap().0, vec![1; len]);

        world.bsend(&vec![2u32; len], other, tag).unwrap();
        let sending = world.isend_owned_in_mode(Mode::Synchronous, vec![3u32; len], other, tag).unwrap();
        let buffered = world.isend_owned_in_mode(Mode::Buffered, vec![4u32; len], other, tag).unwrap();
        assert!(buffered.is_over().unwrap());
        buffered.wait().unwrap();
        for expected in 2..5 {
            let (message, status) = match expected {
                2 => world.mprobe(other, tag).unwrap(),
                _ => loop {
                    if let Some(found) = world.improbe(Source::Any, tag).unwrap() {
                        break found;
                    }
                    std::thread::yield_now();
                },
            };
            assert_eq!((status.source(), status.len()), (other, len as u64 * 4));
            let mut got = vec![0u32; len];
            world.mrecv(&mut got, message).unwrap();
            assert_eq!(got, vec![expected; len]);
            let again = world.mrecv(&mut got, message).unwrap_err();
            assert!(matches!(again, Error::UnknownMessage { .. }), "{again}");
        }
        sending.wait().unwrap();
    }
}
