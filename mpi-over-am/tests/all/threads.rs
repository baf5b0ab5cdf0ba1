//! Several threads in one environment, beside tasks that have one; and the thread that makes progress.

#![allow(clippy::unwrap_used, reason = "a thread of a test says by its panic what was wrong")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use am_core::testing::loopback::{Config, Loopback, network};
use am_core::testing::watchdog::Watchdog;
use mpi_over_am::datatype::{Datatype, Predefined};
use mpi_over_am::{
    Equivalence, Error, ErrorClass, Info, Mode, OneThread, OwnedRequest, PROC_NULL, Placement, Settings,
    Source, SplitType, Tag, ThreadLevel, Threads, View, ViewMut, collective, op,
};

pub(crate) type Environment<L = OneThread> = mpi_over_am::Environment<Loopback, L>;
pub(crate) type Communicator<L = OneThread> = mpi_over_am::Communicator<Loopback, L>;
pub(crate) type Window<L = OneThread> = mpi_over_am::window::Window<Loopback, L>;

/// Runs a job whose tasks up to `shared` have an environment for many threads, and the others one for a single thread.
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

pub(crate) fn configs(tasks: u32) -> [Config; 3] {
    [Config::new(tasks), Config::hostile(tasks, 21), Config::hostile(tasks, 22)]
}

pub(crate) const THREADS: u32 = 4;
const MESSAGES: u64 = 60;

/// Each thread talks with the thread of its number in the next task, by messages of many lengths.
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
    for config in configs(3) {
        job(
            config,
            3,
            |environment| {
                assert_eq!(environment.thread_level(), ThreadLevel::Multiple);
                let world = environment.world();
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
            let mut total = [rank];
            world.allreduce_in_place(&mut total, op::Max).unwrap();
            assert_eq!(total, [size - 1]);
            let mut before = [7u64];
            world.exscan(&[rank + 1], &mut before, op::Sum).unwrap();
            assert_eq!(before[0], if rank == 0 { 7 } else { rank * (rank + 1) / 2 });
            world.reduce_scatter_block(&vec![rank; all.len()], &mut before, op::Sum).unwrap();
            assert_eq!(before[0], size * (size - 1) / 2);
            // Rank r has r + 1 elements, all r.
            let counts: Vec<usize> = (1..=all.len()).collect();
            let displacements: Vec<usize> = (0..all.len()).map(|rank| rank * (rank + 1) / 2).collect();
            let placement = Placement { counts: &counts, displacements: &displacements };
            let parts: Vec<u64> = (0..size).zip(1..).flat_map(|(rank, count)| vec![rank; count]).collect();
            let mine = vec![rank; counts[world.rank() as usize]];
            let mut got = vec![9; parts.len()];
            world.allgatherv(&mine, (&mut got, placement)).unwrap();
            assert_eq!(got, parts);
            let mut got = vec![9; if world.rank() == root { parts.len() } else { 0 }];
            world.gatherv(&mine, (&mut got, placement), root).unwrap();
            assert_eq!(got, if world.rank() == root { parts.clone() } else { Vec::new() });
            let mut got = vec![9; mine.len()];
            world.scatterv((&parts, placement), &mut got, root).unwrap();
            assert_eq!(got, mine);
            let same = vec![mine.len(); all.len()];
            let places: Vec<usize> = (0..all.len()).map(|rank| rank * mine.len()).collect();
            let from = Placement { counts: &counts, displacements: &displacements };
            let to = Placement { counts: &same, displacements: &places };
            let mut got = vec![9; mine.len() * all.len()];
            world.alltoallv((&parts, from), (&mut got, to)).unwrap();
            assert_eq!(got, vec![rank; got.len()]);
        }
    }};
}

/// The parts of a communicator, and the parts of a part.
macro_rules! splits {
    ($world:expr) => {{
        let world = $world;
        let rank = world.rank();
        for round in 0..4 {
            // The last rank of each round belongs to nobody; the others are in the opposite order.
            let color = if rank == round % world.size() { None } else { Some(3) };
            let key = -i32::try_from(rank).unwrap();
            let part = world.split(color, key).unwrap();
            assert_eq!(part.is_some(), color.is_some());
            if let Some(part) = part {
                assert_eq!(part.size(), world.size() - 1);
                let mut first = [rank];
                part.broadcast(&mut first, 0).unwrap();
                assert_eq!(
                    first[0],
                    if round % world.size() == world.size() - 1 {
                        world.size() - 2
                    } else {
                        world.size() - 1
                    }
                );
                collectives!(&part);
            }
            let all = world.split_type(Some(SplitType::Shared), 0, &Info::new()).unwrap().unwrap();
            assert_eq!((all.rank(), all.size()), (rank, world.size()));
            all.barrier().unwrap();
            assert!(world.split_type(Some(SplitType::HardwareUnguided), 0, &Info::new()).unwrap().is_none());
        }
        // A colour that cannot be one is refused before anybody is told.
        assert_eq!(world.split(Some(-1), 0).unwrap_err().class(), ErrorClass::Argument);
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
                    let world = environment.world();
                    collectives!(&world);
                    collectives!(&world.dup().unwrap());
                    splits!(&world);
                },
                |environment| {
                    let world = environment.world();
                    collectives!(&world);
                    collectives!(&world.dup().unwrap());
                    splits!(&world);
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
                let world = environment.world();
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
            let world = environment.world();
            let class = |result: Result<(), Error>| result.unwrap_err().class();
            assert_eq!(class(world.send(&[0u8], 1, 0)), ErrorClass::Rank);
            assert_eq!(class(world.send(&[0u8], 0, -5)), ErrorClass::Tag);
            assert_eq!(class(world.broadcast(&mut [0u8], 3)), ErrorClass::Root);
            assert_eq!(class(world.allreduce(&[0u8], &mut [], op::Sum)), ErrorClass::Count);
            world.isend_owned(vec![1u8; 9], 0, 2).unwrap().wait().unwrap();
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
                let world = environment.world();
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

#[test]
fn threads_split_communicators_while_others_wait() {
    for config in configs(3) {
        job(
            config,
            3,
            |environment| {
                let own: Vec<_> = (0..THREADS).map(|_| environment.world().dup().unwrap()).collect();
                let alone = environment.alone();
                std::thread::scope(|threads| {
                    // A thread whose message comes when all the others are through.
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
            },
            |_| {},
        );
    }
}

#[derive(Equivalence, Clone, Debug, Default, PartialEq)]
#[repr(C)]
struct Reading {
    place: u8,
    value: f64,
}

#[test]
fn every_mode_and_every_way_to_receive() {
    for config in configs(2) {
        job(
            config,
            2,
            |environment| {
                let world = environment.world();
                let (rank, other) = (world.rank(), 1 - world.rank());
                assert!(matches!(world.bsend(&[0u8], other, 0), Err(Error::NoBuffer { .. })));
                environment.attach_buffer(vec![0; 400_000]).unwrap();
                let again = environment.attach_buffer(Vec::new());
                assert!(matches!(again, Err(Error::BufferAttached { .. })));
                std::thread::scope(|threads| {
                    for tag in 0..4 {
                        let world = world.clone();
                        threads.spawn(move || modes(&world, tag));
                    }
                });
                environment.flush_buffer().unwrap();
                assert_eq!(environment.detach_buffer().unwrap().map(|memory| memory.len()), Some(400_000));
                assert_eq!(environment.detach_buffer().unwrap(), None);

                let mut got = [0u64; 2];
                let status = world.sendrecv(&[u64::from(rank); 2], other, 1, &mut got, other, 1).unwrap();
                assert_eq!((status.len(), got), (16, [u64::from(other); 2]));
                let mut both = [u64::from(rank); 700];
                assert_eq!(world.sendrecv_replace(&mut both, other, 1, other, 1).unwrap().source(), other);
                assert_eq!(both, [u64::from(other); 700]);
                let every_other =
                    Datatype::vector(3, 1, 2, &Datatype::predefined(Predefined::Uint64)).unwrap();
                let mut spread = [9u64; 5];
                if rank == 0 {
                    let words = [1u64, 0, 2, 0, 3];
                    world.ssend(&View::new(&words, 1, &every_other).unwrap(), 1, 1).unwrap();
                } else {
                    let mut view = ViewMut::new(&mut spread, 1, &every_other).unwrap();
                    assert_eq!(world.recv(&mut view, 0, 1).unwrap().len(), 24);
                    assert_eq!(spread, [1, 9, 2, 9, 3]);
                }
                let never = world.irecv_owned(vec![0u8], other, 77).unwrap();
                assert!(never.cancel().unwrap());
                assert!(matches!(never.wait().unwrap_err().error, Error::Cancelled));
                let out = world.isend_owned(vec![rank; 3], other, 78).unwrap();
                let into = world.irecv_owned(vec![0; 3], other, 78).unwrap();
                let both = OwnedRequest::wait_all([out, into]).unwrap();
                assert_eq!((&both[0].0, &both[1].0), (&vec![rank; 3], &vec![other; 3]));
                // At the edge of a grid there is nobody.
                let status = world.sendrecv(&[1u64], PROC_NULL, 1, &mut got, PROC_NULL, 1).unwrap();
                assert_eq!((status.len(), got), (0, [u64::from(other); 2]));
                world.isend_owned(vec![1u8], PROC_NULL, 0).unwrap().wait().unwrap();
                let (kept, status) = world.irecv_owned(vec![5u8], PROC_NULL, 0).unwrap().wait().unwrap();
                assert_eq!((kept, status.len()), (vec![5], 0));

                let sent = [Reading { place: 3, value: 0.5 }, Reading { place: 4, value: f64::from(rank) }];
                let mut readings = [Reading::default(), Reading::default()];
                if rank == 0 {
                    world.send(&sent, other, 2).unwrap();
                } else {
                    assert_eq!(world.recv(&mut readings, other, 2).unwrap().len(), 18);
                    assert_eq!(readings[1], Reading { place: 4, value: 0.0 });
                }
            },
            |_| {},
        );
    }
}

/// Messages of each mode, short and long, to this thread's fellow in the other task.
fn modes(world: &Communicator<Threads>, tag: i32) {
    let other = 1 - world.rank();
    for len in [0, 1, 500, 10_000] {
        // The receive of the ready mode is there before the other side is told so.
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

#[test]
fn collectives_and_receives_that_do_not_wait_are_over_in_any_order() {
    for config in configs(3) {
        job(
            config,
            3,
            |environment| {
                let world = environment.world();
                let rank = u64::from(world.rank());
                let barrier = collective::barrier().start_owned(&world).unwrap();
                let told = collective::broadcast(vec![rank; 300], 1).start_owned(&world).unwrap();
                let sum = collective::allreduce_in_place(vec![rank, 1], op::Sum).start_owned(&world).unwrap();
                assert_eq!(sum.wait().unwrap().0, [3, 3]);
                assert_eq!(told.wait().unwrap().0, [1; 300]);
                barrier.wait().unwrap();

                let next = (world.rank() + 1) % 3;
                let mut receiving: Vec<_> =
                    (0..5).map(|tag| world.irecv_owned(vec![0u8], Source::Any, tag).unwrap()).collect();
                let mut tags: Vec<u8> = (0..5).collect();
                for tag in [3u8, 0, 4, 1, 2] {
                    world.isend_owned(vec![tag], next, i32::from(tag)).unwrap().wait().unwrap();
                }
                while let Some(first) = OwnedRequest::wait_any(&receiving).unwrap() {
                    let (got, _) = receiving.remove(first).wait().unwrap();
                    assert_eq!(got, [tags.remove(first)]);
                }
                assert!(tags.is_empty());
            },
            |_| {},
        );
    }
}
