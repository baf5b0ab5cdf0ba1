//! Communicators and windows between processes, with each method of memory access; error handlers that end the job. Tests that need no
//! processes are in mpi-over-am, over a simulated network.

#![allow(clippy::unwrap_used, reason = "a task of a test says by its panic what was wrong")]

use am_core_conform::Random;
use am_tests::harness::{job, jobs};
use mpi_over_am::datatype::{Datatype, Predefined};
use mpi_over_am::op::{self, PredefinedOp};
use mpi_over_am::window::{Assertion, Lock, TargetData};
use mpi_over_am::{Communicator, Environment, ErrorHandler, Info};

/// Runs `body` with several numbers of tasks and each method of memory access; in long runs also over each network.
fn everywhere(test: &'static str, body: fn(&Communicator)) {
    for job in jobs(test, &[1, 2, 3, 4]) {
        job.run(|| {
            let environment = Environment::init().expect("the launcher made a job");
            body(&environment.world());
            environment.finalize().expect("all tasks finalize");
        });
    }
}

fn next(world: &Communicator) -> u32 {
    (world.rank() + 1) % world.size()
}

fn previous(world: &Communicator) -> u32 {
    (world.rank() + world.size() - 1) % world.size()
}

#[test]
fn communicators_are_made_and_talk() {
    everywhere("communicators_are_made_and_talk", |world| {
        let pending = world.idup().unwrap();
        let half = world.split(Some((world.rank() % 2).cast_signed()), 0).unwrap().unwrap();
        let dup = pending.wait().unwrap();
        for communicator in [&dup, &half] {
            let (rank, size) = (communicator.rank(), communicator.size());
            let mut got = [0u32];
            let status = communicator
                .sendrecv(&[rank], (rank + 1) % size, 0, &mut got, (rank + size - 1) % size, 0)
                .unwrap();
            assert_eq!((got[0], status.source()), ((rank + size - 1) % size, got[0]));
            let mut sum = [1u32];
            communicator.allreduce_in_place(&mut sum, op::Sum).unwrap();
            assert_eq!(sum, [size]);
        }
        if world.size() > 1 {
            let other = u32::from(world.rank() % 2 == 0);
            let inter = half.create_inter_with(0, Some(world), other, 3).unwrap();
            // Of three tasks, the last one has no peer.
            let peer = half.rank();
            if peer < inter.remote_size().unwrap() {
                let mut got = [0u32];
                inter.sendrecv(&[world.rank()], peer, 0, &mut got, peer, 0).unwrap();
                assert_eq!(got[0] % 2, other);
            }
            assert_eq!(inter.merge(false).unwrap().size(), world.size());
        }
    });
}

#[test]
fn windows_are_reached_by_every_way() {
    everywhere("windows_are_reached_by_every_way", |world| {
        let (next, previous) = (next(world), previous(world));
        let mine: Vec<u64> = (0..40_000).map(|i| u64::from(world.rank()) << 32 | i).collect();
        let theirs: Vec<u64> = (0..40_000).map(|i| u64::from(previous) << 32 | i).collect();
        // Memory of the library, and memory of the program.
        let allocated = world.allocate_window(8 * 50_000, 8, &Info::new()).unwrap();
        let created = world.create_window(vec![0; 8 * 50_000], 8, &Info::new()).unwrap();
        for window in [&allocated, &created] {
            window.fence(Assertion::NONE).unwrap();
            window.put(&mine, next, 7).unwrap();
            window.fence(Assertion::NONE).unwrap();
            let mut own = vec![0u64; 40_000];
            window.read(56, &mut own).unwrap();
            assert!(own == theirs, "the put has not arrived whole");
            window.get(&mut own, next, 7).unwrap();
            assert!(own == mine, "the get differs from the data that were put");
            // Gets a column, and updates every fourth word.
            let column = Datatype::vector(100, 1, 4, &Datatype::predefined(Predefined::Uint64)).unwrap();
            let target = TargetData { rank: next, displacement: 45_000, count: 1, datatype: &column };
            let elements = (100, &Datatype::predefined(Predefined::Uint64));
            window.accumulate_layout(&mine[..100], elements, target, &PredefinedOp::Sum.into()).unwrap();
            window.fence(Assertion::NO_SUCCEED).unwrap();
            let mut sums = vec![0u64; 397];
            window.read(8 * 45_000, &mut sums).unwrap();
            assert!(sums.iter().step_by(4).eq(theirs[..100].iter()), "{sums:?}");
            // Three counters: one under a lock, one updated by atomic operations, and one of bytes.
            world.barrier().unwrap();
            for _ in 0..10 {
                window.lock(Lock::Exclusive, 0, Assertion::NONE).unwrap();
                let mut value = [0u64];
                window.get(&mut value, 0, 0).unwrap();
                window.put(&[value[0] + 1], 0, 0).unwrap();
                window.unlock(0).unwrap();
                window.lock(Lock::Shared, 0, Assertion::NONE).unwrap();
                window.fetch_and_op(1.5f64, 0, 1, PredefinedOp::Sum).unwrap();
                window.fetch_and_op(1u8, 0, 2, PredefinedOp::Sum).unwrap();
                window.unlock(0).unwrap();
            }
            world.barrier().unwrap();
            if world.rank() == 0 {
                let mut counts = [0u64; 3];
                window.read(0, &mut counts).unwrap();
                let tasks = u64::from(world.size());
                let floats = 15.0 * f64::from(world.size());
                assert_eq!(counts, [10 * tasks, floats.to_bits(), 10 * tasks]);
            }
            world.barrier().unwrap();
        }
        allocated.free().unwrap();
        created.free().unwrap();
        let dynamic = world.create_dynamic_window(&Info::new()).unwrap();
        let at = dynamic.attach(vec![world.rank().to_le_bytes()[0]; 10_000]).unwrap();
        let mut there = [0u64];
        world.sendrecv(&[at], previous, 0, &mut there, next, 0).unwrap();
        dynamic.lock_all(Assertion::NONE).unwrap();
        let mut got = vec![0u8; 9000];
        dynamic.get(&mut got, next, there[0].cast_signed() + 1000).unwrap();
        assert!(got.iter().all(|&byte| u32::from(byte) == next));
        dynamic.unlock_all().unwrap();
        world.barrier().unwrap();
        dynamic.free().unwrap();
    });
}

/// The blocks of a random layout in `len` bytes, without overlaps: offset and length, in any order, whole words.
fn blocks(random: &mut Random, len: usize) -> Vec<(usize, usize)> {
    let (block_max, gap_max) =
        [(8, 8), (8, 64), (40, 8), (8, 6000), (4000, 16), (4000, 4000)][random.below(6)];
    let mut blocks = Vec::new();
    let mut at = 8 * random.below(100);
    while at < len && blocks.len() < 3000 {
        let here = 8 * (1 + random.below(block_max / 8));
        if at + here <= len {
            blocks.push((at, here));
        }
        at += here + 8 * random.below(gap_max / 8 + 1);
    }
    match random.below(3) {
        0 => blocks.reverse(),
        1 => (1..blocks.len()).for_each(|place| blocks.swap(place, random.below(place))),
        _ => {}
    }
    blocks
}

/// Every task writes to the part of the next one only, and knows what it must contain (MPI 5.0 section 12.3).
#[test]
fn layouts_of_every_kind_are_put_got_and_updated_by_every_way() {
    everywhere("layouts_of_every_kind_are_put_got_and_updated_by_every_way", |world| {
        const BYTES: usize = 200_000;
        let rank = next(world);
        let mut random = Random::new(29 + u64::from(world.rank()));
        let created = world.create_window(vec![0; BYTES], 1, &Info::new()).unwrap();
        let allocated = world.allocate_window(BYTES, 1, &Info::new()).unwrap();
        for window in [created, allocated] {
            let mut wanted = vec![0u8; BYTES];
            window.lock_all(Assertion::NONE).unwrap();
            for round in 0..10 {
                let blocks = blocks(&mut random, BYTES);
                let words = Datatype::predefined(Predefined::Uint64);
                let lens = blocks.iter().map(|&(_, len)| (len / 8) as u64).collect::<Vec<_>>();
                let offsets = blocks.iter().map(|&(at, _)| (at as u64).cast_signed()).collect::<Vec<_>>();
                let datatype = Datatype::hindexed(&lens, &offsets, &words).unwrap();
                let count = lens.iter().sum::<u64>();
                let target = TargetData { rank, displacement: 0, count: 1, datatype: &datatype };
                let values = (0..count).map(|_| random.bits()).collect::<Vec<_>>();
                let bytes = values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<_>>();
                let elements = (count, &words);
                let how = random.below(3);
                match how {
                    0 => window.put_layout(&values, elements, target).unwrap(),
                    1 => window
                        .accumulate_layout(&values, elements, target, &PredefinedOp::Sum.into())
                        .unwrap(),
                    _ => {}
                }
                window.flush(rank).unwrap();
                let mut packed = bytes.as_slice();
                for &(at, len) in &blocks {
                    for word in wanted[at..at + len].chunks_exact_mut(8) {
                        let (value, rest) = packed.split_first_chunk::<8>().unwrap();
                        packed = rest;
                        let old = u64::from_ne_bytes(word.try_into().unwrap());
                        let value = u64::from_ne_bytes(*value);
                        let new = [value, old.wrapping_add(value), old][how];
                        word.copy_from_slice(&new.to_ne_bytes());
                    }
                }
                let mut got = vec![0u64; values.len()];
                window.get_layout(&mut got, elements, target).unwrap();
                let got = got.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<_>>();
                let there =
                    blocks.iter().flat_map(|&(at, len)| &wanted[at..at + len]).copied().collect::<Vec<_>>();
                assert!(
                    got == there,
                    "round {round}: the elements differ after operation {how}: {} blocks",
                    blocks.len()
                );
                let mut all = vec![0u8; BYTES];
                window.get(&mut all, rank, 0).unwrap();
                assert!(all == wanted, "round {round}: other bytes have changed in operation {how}");
            }
            world.barrier().unwrap();
            window.unlock_all().unwrap();
            window.free().unwrap();
        }
    });
}

#[test]
fn windows_that_follow_each_other_are_reached_at_their_own_memory() {
    everywhere("windows_that_follow_each_other_are_reached_at_their_own_memory", |world| {
        let next = next(world);
        for (round, count) in [(1u64, 100u16), (2, 200), (3, 300), (4, 400)] {
            // These windows reuse regions that earlier windows have freed, at other addresses.
            let allocated = world.allocate_window(8 * usize::from(count), 8, &Info::new()).unwrap();
            let shared = world.allocate_shared_bytes(8 * usize::from(count), 8, &Info::new()).unwrap();
            for window in [&allocated, &shared] {
                window.lock_all(Assertion::NONE).unwrap();
                for i in 0..count {
                    window.put(&[round << 32 | u64::from(i)], next, i64::from(i)).unwrap();
                }
                window.flush(next).unwrap();
                // `NoOp` changes nothing, whatever the operand is.
                let found = window.fetch_and_op(1u64 << 48, next, 0, PredefinedOp::NoOp).unwrap();
                assert_eq!(found, round << 32);
                let expected = round << 32 | 1;
                assert_eq!(window.compare_and_swap(expected, 7, next, 1).unwrap(), expected);
                assert_eq!(window.compare_and_swap(expected, 8, next, 1).unwrap(), 7);
                assert_eq!(window.fetch_and_op(2u64, next, 1, PredefinedOp::Sum).unwrap(), 7);
                let mut got = [0u64];
                window.get(&mut got, next, 1).unwrap();
                assert_eq!(got, [9]);
                window.put(&got, next, i64::from(count)).unwrap_err();
                window.put(&got, next, -1).unwrap_err();
                window.unlock_all().unwrap();
                window.put(&got, next, 0).unwrap_err();
                world.barrier().unwrap();
                let mut own = vec![0u64; usize::from(count)];
                window.read(0, &mut own).unwrap();
                let wanted = (0..count).map(|i| if i == 1 { 9 } else { round << 32 | u64::from(i) });
                assert!(own.into_iter().eq(wanted), "round {round}");
            }
            allocated.free().unwrap();
            shared.free().unwrap();
        }
    });
}

/// Checks that `call` in task 1 ends the job, and that task 1 prints `words`.
fn ends_the_job(test: &'static str, call: fn(&Communicator), words: &'static str) {
    let body = || {
        let environment = Environment::init().expect("the launcher made a job");
        let world = environment.world();
        if world.rank() == 1 {
            call(&world);
            println!("the call has come back");
        } else {
            // No task sends: the receive ends with the other task's death.
            assert!(world.recv(&mut [0u8], 1, 0).is_err());
        }
    };
    job(test).tasks(2).run_and_judge(body, |outcome| {
        assert!(!outcome.is_success, "the job has failed");
        let task = &outcome.tasks[1];
        assert!(task.stderr.contains(words), "{}", task.stderr);
        assert!(!task.stdout.contains("the call has come back"), "{}", task.stdout);
    });
}

#[test]
fn a_fatal_error_ends_the_job() {
    ends_the_job(
        "a_fatal_error_ends_the_job",
        |world| {
            world.properties().set_error_handler(ErrorHandler::Fatal);
            let _ = world.handled(world.send(&[1u8], 99, 0));
        },
        "rank 99 does not exist",
    );
}

#[test]
fn an_abort_ends_the_job() {
    ends_the_job("an_abort_ends_the_job", |world| world.abort(3), "called abort with code 3");
}
