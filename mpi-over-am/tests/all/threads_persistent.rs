//! Persistent and partitioned operations of several threads.

#![allow(clippy::unwrap_used, reason = "a thread of a test says by its panic what was wrong")]

use std::sync::Barrier;

use am_core_conform::Random;
use mpi_over_am::{Error, ErrorClass, LockPolicy, Mode, PROC_NULL, Persistent, Threads, collective, op};

use crate::one_thread::alike::common::pattern;
use crate::threads::{Communicator, THREADS, configs, for_duplicates, job, of_threads};

/// Rounds of a persistent send and receive in every mode, with the thread of the same number in the next task.
fn rounds(world: &Communicator<Threads>, thread: u32) {
    let (rank, size) = (world.rank(), world.size());
    let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
    let tag = i32::try_from(thread).unwrap();
    for (mode, len) in
        [(Mode::Standard, 8), (Mode::Synchronous, 900), (Mode::Buffered, 900), (Mode::Standard, 20_000)]
    {
        let mut receive = world.recv_init(vec![0u8; len], left, tag).unwrap();
        let mut send = world.send_init(mode, vec![0u8; len], right, tag).unwrap();
        // A request that was not started is complete at once, with an empty status.
        assert_eq!(receive.wait().unwrap().len(), 0);
        for round in 0..5 {
            send.buffer().unwrap().copy_from_slice(&pattern(round + u64::from(rank), len));
            receive.start().unwrap();
            if round == 0 {
                assert!(matches!(receive.start(), Err(Error::NotStartable { is_persistent: true, .. })));
                assert!(receive.buffer().is_err());
            }
            send.start().unwrap();
            let status = if round % 2 == 0 {
                receive.wait().unwrap()
            } else {
                loop {
                    if let Some(status) = receive.test().unwrap() {
                        break status;
                    }
                    std::thread::yield_now();
                }
            };
            assert_eq!((status.source(), status.tag(), status.len()), (left, tag, len as u64));
            assert_eq!(receive.buffer().unwrap()[..], pattern(round + u64::from(left), len));
            send.wait().unwrap();
        }
    }
    // A ready send, whose receive is posted before the other side learns of it.
    let mut receive = world.recv_init(vec![0u8; 100], left, tag).unwrap();
    let mut send = world.send_init(Mode::Ready, vec![1u8; 100], right, tag).unwrap();
    receive.start().unwrap();
    world.sendrecv(&[0u8], left, tag + 100, &mut [0u8], right, tag + 100).unwrap();
    send.start().unwrap();
    Persistent::wait_all([&mut receive, &mut send]).unwrap();
    // An operation completes even if its active request is dropped.
    let mut send = world.send_init(Mode::Synchronous, vec![rank; 5000], right, tag).unwrap();
    send.start().unwrap();
    drop(send);
    let mut got = vec![9u32; 5000];
    world.recv(&mut got, left, tag).unwrap();
    assert_eq!(got, vec![left; 5000]);
}

#[test]
fn threads_start_persistent_operations_as_often_as_wanted() {
    of_threads(3, |environment| {
        let world = environment.world();
        environment.attach_buffer(vec![0; 1 << 20]).unwrap();
        std::thread::scope(|threads| {
            for thread in 0..THREADS {
                let world = world.clone();
                threads.spawn(move || rounds(&world, thread));
            }
        });
        let mut to_proc_null = world.send_init(Mode::Standard, vec![1u8], PROC_NULL, 0).unwrap();
        to_proc_null.start().unwrap();
        to_proc_null.wait().unwrap();
        assert_eq!(world.recv_init(vec![1u8], 77, 0).unwrap_err().class(), ErrorClass::Rank);
    });
}

#[test]
fn an_operation_goes_from_thread_to_thread() {
    of_threads(2, |environment| {
        let world = environment.world();
        let other = 1 - world.rank();
        let mut receives: Vec<_> =
            (0..6).map(|tag| world.recv_init(vec![0i32; 50], other, tag).unwrap()).collect();
        let mut sends: Vec<_> =
            (0..6).map(|tag| world.send_init(Mode::Standard, vec![tag; 50], other, tag).unwrap()).collect();
        for _ in 0..3 {
            Persistent::start_all(&mut receives).unwrap();
            let halves = sends.split_at_mut(3);
            std::thread::scope(|threads| {
                for half in [halves.0, halves.1] {
                    threads.spawn(move || Persistent::start_all(half).unwrap());
                }
            });
            // This thread starts the request, and another thread waits for it.
            std::thread::scope(|threads| {
                threads.spawn(|| Persistent::wait_all(&mut receives).unwrap());
                threads.spawn(|| Persistent::wait_all(&mut sends).unwrap());
            });
            for (receive, tag) in receives.iter_mut().zip(0..) {
                assert_eq!(receive.buffer().unwrap(), [tag; 50]);
            }
        }
    });
}

/// Persistent collectives of both kinds of communicators.
fn persistent_collectives<L: LockPolicy>(world: &Communicator<L>) {
    let (rank, size) = (u64::from(world.rank()), u64::from(world.size()));
    let all = usize::try_from(size).unwrap();
    let mut barrier = collective::barrier().keep(world).unwrap();
    let mut told = collective::broadcast(vec![0u64; 40], 1).keep(world).unwrap();
    let mut gathered = collective::allgather_in_place(vec![0u64; 2 * all]).keep(world).unwrap();
    let mut turned = collective::alltoall_in_place(vec![0u64; all]).keep(world).unwrap();
    let mut summed = collective::allreduce_in_place(vec![0u64; 3], op::Sum).keep(world).unwrap();
    let mut scanned = collective::scan_in_place(vec![0u64; 3], op::Sum).keep(world).unwrap();
    for round in 0..4u64 {
        told.buffer().unwrap().fill(rank + round);
        gathered.buffer().unwrap()[2 * usize::try_from(rank).unwrap()..][..2].fill(rank + round);
        turned.buffer().unwrap().copy_from_slice(&(0..size).map(|to| rank * 10 + to).collect::<Vec<_>>());
        summed.buffer().unwrap().fill(rank + round);
        scanned.buffer().unwrap().fill(1);
        // The order differs from round to round.
        barrier.start().unwrap();
        if round % 2 == 0 {
            told.start().unwrap();
            summed.start().unwrap();
        } else {
            summed.start().unwrap();
            told.start().unwrap();
        }
        gathered.start().unwrap();
        turned.start().unwrap();
        scanned.start().unwrap();
        scanned.wait().unwrap();
        turned.wait().unwrap();
        gathered.wait().unwrap();
        told.wait().unwrap();
        summed.wait().unwrap();
        barrier.wait().unwrap();
        assert_eq!(told.buffer().unwrap(), [1 + round; 40]);
        let expected: Vec<_> = (0..size).flat_map(|rank| [rank + round; 2]).collect();
        assert_eq!(gathered.buffer().unwrap(), expected);
        let expected: Vec<_> = (0..size).map(|from| from * 10 + rank).collect();
        assert_eq!(turned.buffer().unwrap(), expected);
        assert_eq!(summed.buffer().unwrap(), [size * (size - 1) / 2 + size * round; 3]);
        assert_eq!(scanned.buffer().unwrap(), [rank + 1; 3]);
    }
}

#[test]
fn persistent_collectives_of_threads_meet_those_of_tasks_of_one() {
    for_duplicates(3, &[1, 3], persistent_collectives, persistent_collectives);
}

const ROUNDS: u64 = 4;

/// Threads fill the parts of one message, in an order that depends on the seed, and check the parts of another message as they arrive.
fn parts(world: &Communicator<Threads>, seed: u64, (parts, of_receiver, len): (usize, usize, usize)) {
    let (rank, size) = (world.rank(), world.size());
    let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut receive = world.precv_init(vec![0u8; len], of_receiver, left, 3).unwrap();
    let send = world.psend_init(vec![0u8; len], parts, right, 3).unwrap();
    assert_eq!((send.partitions(), receive.partitions()), (parts, of_receiver));
    let (out_len, in_len) = (len / parts, len / of_receiver);
    let threads = THREADS as usize;
    let together = Barrier::new(threads);
    std::thread::scope(|team| {
        for thread in 0..threads {
            let (send, receive, together) = (&send, &receive, &together);
            team.spawn(move || {
                let mut random = Random::new(seed + thread as u64);
                for round in 0..ROUNDS {
                    let data = pattern(round + u64::from(rank), len);
                    let expected = pattern(round + u64::from(left), len);
                    if together.wait().is_leader() {
                        receive.start().unwrap();
                        send.start().unwrap();
                        assert!(matches!(send.start(), Err(Error::NotStartable { .. })) || parts == 0);
                    }
                    together.wait();
                    let mut mine: Vec<usize> = (thread..parts).step_by(threads).collect();
                    while !mine.is_empty() {
                        let number = mine.swap_remove(random.below(mine.len()));
                        let mut part = send.part(number).unwrap();
                        assert!(matches!(send.part(number), Err(Error::Partition { .. })));
                        part.copy_from_slice(&data[number * out_len..][..out_len]);
                        part.ready().unwrap();
                    }
                    for number in (0..of_receiver).filter(|number| number % threads == thread) {
                        let part = if random.below(2) == 0 {
                            receive.wait_for(number).unwrap()
                        } else {
                            loop {
                                if let Some(part) = receive.arrived(number).unwrap() {
                                    break part;
                                }
                                std::thread::yield_now();
                            }
                        };
                        assert_eq!(part[..], expected[number * in_len..][..in_len], "round {round}");
                    }
                    if together.wait().is_leader() {
                        send.wait().unwrap();
                        let status = receive.wait().unwrap();
                        assert_eq!((status.source(), status.tag(), status.len()), (left, 3, len as u64));
                        let part = receive.arrived(0).unwrap().unwrap();
                        let error = receive.start().unwrap_err();
                        assert!(
                            matches!(error, Error::NotStartable { .. }),
                            "a thread still reads a part: {error}"
                        );
                        drop(part);
                    }
                }
            });
        }
    });
    assert_eq!(receive.buffer().unwrap()[..], pattern(ROUNDS - 1 + u64::from(left), len));
    assert!(matches!(receive.arrived(of_receiver), Err(Error::Partition { .. })));
    assert!(matches!(send.part(parts), Err(Error::Partition { .. })));
    // No round is active.
    assert_eq!(send.ready(0).unwrap_err().class(), ErrorClass::Argument);
}

#[test]
fn threads_mark_parts_of_one_message_ready() {
    for (config, seed) in configs(3).into_iter().zip(40..) {
        println!("seed {seed}");
        job(
            config,
            3,
            |environment| {
                let world = environment.world();
                for shape in
                    [(1, 1, 24), (8, 8, 64), (6, 4, 1200), (8, 16, 24_000), (16, 8, 40_000), (3, 3, 0)]
                {
                    parts(&world, seed, shape);
                }
            },
            |_| {},
        );
    }
}

#[test]
fn a_partitioned_send_of_threads_meets_a_receive_of_a_task_of_one() {
    for config in configs(2) {
        job(
            config,
            1,
            |environment| {
                let world = environment.world();
                let send = world.psend_init(vec![0u32; 4000], 4, 1, 3).unwrap();
                for round in 0..4 {
                    send.start().unwrap();
                    std::thread::scope(|threads| {
                        for thread in 0..4 {
                            let send = &send;
                            threads.spawn(move || {
                                let mut part = send.part(thread).unwrap();
                                part.fill(round);
                                part.ready().unwrap();
                            });
                        }
                        // Another thread waits at the same time.
                        send.wait().unwrap();
                    });
                }
                let to_proc_null = world.psend_init(vec![0u32; 4], 2, PROC_NULL, 3).unwrap();
                to_proc_null.start().unwrap();
                to_proc_null.ready(0).unwrap();
                to_proc_null.ready(1).unwrap();
                to_proc_null.wait().unwrap();
                assert!(
                    world.precv_init(vec![0u8; 4], 2, PROC_NULL, 3).unwrap().arrived(1).unwrap().is_some()
                );
                assert_eq!(world.psend_init(vec![0u32; 5], 2, 1, 3).unwrap_err().class(), ErrorClass::Count);
                // This receive, and the send of the other task, are dropped while a round is active.
                let receive = world.precv_init(vec![0u32; 4], 2, 1, 9).unwrap();
                receive.start().unwrap();
                // Part 1 is never marked as ready.
                assert!(receive.arrived(1).unwrap().is_none());
                drop(receive);
            },
            |environment| {
                let world = environment.world();
                let mut receive = world.precv_init(vec![0u32; 4000], 8, 0, 3).unwrap();
                for round in 0..4 {
                    receive.start().unwrap();
                    receive.wait().unwrap();
                    assert_eq!(receive.buffer().unwrap(), [round; 4000]);
                }
                let send = world.psend_init(vec![0u32; 4], 2, 0, 9).unwrap();
                send.start().unwrap();
                send.ready(0).unwrap();
            },
        );
    }
}
