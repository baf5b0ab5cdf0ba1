//! Collectives against a serial reference, for 1 to 9 tasks.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{Communicator, Environment, job, networks};
use am_core::testing::loopback::Config;
use mpi_over_am::{Error, ErrorClass, Selection, Settings, op};

/// Counts of elements around every choice of algorithm.
const COUNTS: [usize; 6] = [0, 1, 5, 16, 300, 9000];

fn with_1_to_9_tasks(task: impl Fn(&Environment, &Communicator) + Sync) {
    for tasks in 1..10 {
        job(Config::new(tasks), Settings::default(), &task);
        job(Config::hostile(tasks, u64::from(tasks)), Settings::default(), &task);
    }
    let mean = Settings { eager_limit_bytes: 100, early_arrival_bytes_max: 3000, ..Settings::default() };
    for tasks in [2, 3, 6] {
        job(Config::hostile(tasks, 77), mean, &task);
    }
    let announced = Settings { early_arrival_bytes_max: 0, ..Settings::default() };
    job(Config::hostile(5, 78), announced, &task);
}

#[test]
fn nobody_leaves_a_barrier_before_all_have_come() {
    for tasks in (1..10).chain([16, 23]) {
        for settings in [Settings::default(), Settings { early_arrival_bytes_max: 0, ..Settings::default() }]
        {
            let came = AtomicUsize::new(0);
            job(Config::hostile(tasks, 3), settings, |_, world| {
                for round in 1..=10 {
                    came.fetch_add(1, Ordering::SeqCst);
                    world.barrier().unwrap();
                    assert!(came.load(Ordering::SeqCst) >= round * tasks as usize);
                    world.barrier().unwrap();
                }
            });
        }
    }
}

#[test]
fn a_broadcast_gives_everybody_what_the_root_has() {
    with_1_to_9_tasks(|_, world| {
        for root in 0..world.size() {
            for count in COUNTS.into_iter().chain([70_000]) {
                let expected: Vec<u32> = (0..).map(|i| i * 3 + root).take(count).collect();
                let mut buffer = if world.rank() == root { expected.clone() } else { vec![u32::MAX; count] };
                world.broadcast(&mut buffer, root).unwrap();
                assert_eq!(buffer, expected, "{count} elements from {root}");
            }
        }
    });
}

#[test]
fn an_allreduce_is_what_one_task_would_get() {
    with_1_to_9_tasks(|_, world| {
        let of = |rank: u32, i: usize| u64::from(rank + 1) * (i as u64 + 1);
        for count in COUNTS {
            let own: Vec<u64> = (0..count).map(|i| of(world.rank(), i)).collect();
            let reference = |combine: fn(u64, u64) -> u64| -> Vec<u64> {
                let fold = |i| (0..world.size()).map(|rank| of(rank, i)).reduce(combine);
                (0..count).map(|i| fold(i).expect("there are tasks")).collect()
            };
            let mut result = vec![0; count];
            world.allreduce(&own, &mut result, op::Sum).unwrap();
            assert_eq!(result, reference(|a, b| a + b), "the sum of {count}");
            world.allreduce(&own, &mut result, op::Max).unwrap();
            assert_eq!(result, reference(u64::max), "the maximum of {count}");
            world.allreduce(&own, &mut result, op::BitwiseXor).unwrap();
            assert_eq!(result, reference(|a, b| a ^ b), "the exclusive or of {count}");
            let mut in_place = own.clone();
            world.allreduce_in_place(&mut in_place, op::Min).unwrap();
            assert_eq!(in_place, reference(u64::min), "the minimum of {count}");
        }
    });
}

#[test]
fn an_allreduce_keeps_the_order_of_ranks_where_it_matters() {
    // Affine maps x -> a x + b modulo 2^32: composition is associative and does not commute.
    let after = |first: &[u32; 2], second: &[u32; 2]| {
        let a = first[0].wrapping_mul(second[0]);
        [a, second[0].wrapping_mul(first[1]).wrapping_add(second[1])]
    };
    let of = |rank: u32, i: usize| [rank * 2 + 3, u32::try_from(i).expect("few elements") + rank];
    with_1_to_9_tasks(|_, world| {
        for count in COUNTS {
            let own: Vec<[u32; 2]> = (0..count).map(|i| of(world.rank(), i)).collect();
            let mut result = vec![[0; 2]; count];
            world.allreduce(&own, &mut result, op::from_ordered_fn(after)).unwrap();
            for (i, &got) in result.iter().enumerate() {
                let maps = (0..world.size()).map(|rank| of(rank, i));
                assert_eq!(Some(got), maps.reduce(|a, b| after(&a, &b)), "element {i} of {count}");
            }
        }
    });
}

#[test]
fn everybody_gets_the_same_bits_of_a_floating_point_sum() {
    with_1_to_9_tasks(|_, world| {
        for count in [3, 9000] {
            let own: Vec<f64> = (0..count).map(|i| 1.0 / f64::from(i + 7 * world.rank() + 1)).collect();
            let mut sums = vec![0.0; own.len()];
            world.allreduce(&own, &mut sums, op::Sum).unwrap();
            let mut of_root: Vec<u64> = sums.iter().map(|sum: &f64| sum.to_bits()).collect();
            let own_bits = of_root.clone();
            world.broadcast(&mut of_root, 0).unwrap();
            assert_eq!(own_bits, of_root);
        }
    });
}

#[test]
fn collectives_and_messages_of_the_program_do_not_take_each_others() {
    with_1_to_9_tasks(|_, world| {
        let right = (world.rank() + 1) % world.size();
        let left = (world.rank() + world.size() - 1) % world.size();
        let mut got = [0u32; 2];
        let own = [world.rank(); 2];
        world
            .scope(|s| {
                let receive = s.irecv(&mut got, mpi_over_am::Source::Any, mpi_over_am::Tag::Any)?;
                world.barrier()?;
                let mut sum = [1u32];
                world.allreduce_in_place(&mut sum, op::Sum)?;
                assert_eq!(sum, [world.size()]);
                let send = s.isend(&own, right, 0)?;
                world.barrier()?;
                s.wait(send)?;
                s.wait(receive)
            })
            .unwrap();
        assert_eq!(got, [left; 2]);
    });
}

#[test]
fn buffers_that_do_not_fit_are_named() {
    job(Config::new(1), Settings::default(), |_, world| {
        let error = world.allreduce(&[1, 2], &mut [0], op::Sum).unwrap_err();
        assert!(matches!(error, Error::Count { given: 1, expected: 2, .. }), "{error:?}");
    });
    job(Config::new(2), Settings::default(), |_, world| {
        let mut buffer = vec![0u8; if world.rank() == 0 { 3 } else { 5 }];
        let result = world.broadcast(&mut buffer, 0);
        match world.rank() {
            0 => result.unwrap(),
            _ => assert!(matches!(result, Err(Error::Count { given: 3, expected: 5, .. }))),
        }
    });
}

#[test]
fn an_operator_may_not_communicate_into_the_middle_of_a_call_but_between_calls() {
    // The operator runs between the calls of the collective: it may ask for the rank, and even send.
    job(Config::new(2), Settings::default(), |_, world| {
        let combine = |a: &u32, b: &u32| {
            assert!(world.iprobe(0, 5).unwrap().is_none());
            a + b
        };
        let mut sum = [world.rank() + 1];
        world.allreduce_in_place(&mut sum, op::from_fn(combine)).unwrap();
        assert_eq!(sum, [3]);
    });
}

#[test]
fn tasks_that_disagree_about_the_way_of_a_collective_end_with_an_error() {
    // On both sides of the bound.
    let (short, long) = (100, 5000);
    let puts = Selection { puts_bytes_max: 16 << 10, ..Selection::default() };
    for (tasks, collectives) in
        [2, 3, 5].into_iter().flat_map(|tasks| [(tasks, Selection::default()), (tasks, puts)])
    {
        for config in networks(tasks) {
            job(config, Settings { collectives, ..Settings::default() }, |_, world| {
                let (rank, size) = (world.rank(), world.size());
                let is_long: [fn(u32, u32) -> bool; 3] =
                    [|rank, _| rank == 0, |rank, size| rank == size - 1, |rank, _| rank % 2 == 1];
                for (which, is_long) in (0..5).flat_map(|which| is_long.map(|is_long| (which, is_long))) {
                    let own = world.dup().unwrap();
                    // So many collectives until there are places to put to.
                    (0..6).for_each(|_| own.barrier().unwrap());
                    let len = if is_long(rank, size) { long } else { short };
                    let (mut out, mut got) = (vec![1u64; len], vec![0u64; len * size as usize]);
                    let result = match which {
                        0 => own.broadcast(&mut out, 0),
                        1 => own.reduce(&out, &mut got[..len], op::Sum, size - 1),
                        2 => own.allreduce(&out, &mut got[..len], op::Sum),
                        3 => own.scan(&out, &mut got[..len], op::Sum),
                        _ => own.allgather(&out, &mut got),
                    };
                    if let Err(error) = &result {
                        let text = error.to_string();
                        let class = error.class();
                        assert!(matches!(class, ErrorClass::Truncate | ErrorClass::Count), "{text}");
                    }
                    // Nobody waits for ever, somebody knows, and other communicators are as good as before.
                    let mut failed = [u32::from(result.is_err())];
                    world.allreduce_in_place(&mut failed, op::Sum).unwrap();
                    assert!(failed[0] > 0, "collective {which}");
                    // What nobody waits for any more disturbs nobody: the same number, on another communicator.
                    let next = world.dup().unwrap();
                    (0..7).for_each(|_| next.barrier().unwrap());
                }
            });
        }
    }
}

type Call = fn(&Communicator) -> Result<(), Error>;

const WORDS: usize = 4;

/// Those in which every task waits for every other one.
const SYMMETRIC: [Call; 3] = [
    |own| own.barrier(),
    |own| own.allreduce(&[1u64; WORDS], &mut [0; WORDS], op::Sum),
    |own| own.allgather(&[1u64; WORDS], &mut vec![0; WORDS * own.size() as usize]),
];
/// Those in which all wait but the root, with data and without.
const BROADCASTS: [Call; 2] =
    [|own| own.broadcast(&mut [1u64; WORDS], 0), |own| own.broadcast(&mut [0u64; 0], 0)];
/// One in which some tasks do not wait: where the others call it, a wrong message may go to one that never looks.
const REDUCE: Call = |own| own.reduce(&[1u64; WORDS], &mut [0; WORDS], op::Sum, own.size() - 1);

/// What one task calls, and all others, so that somebody must see it.
fn pairs() -> Vec<(Call, Call)> {
    let mut pairs = Vec::new();
    for (place, &call) in SYMMETRIC.iter().enumerate() {
        let others =
            SYMMETRIC.iter().enumerate().filter(|&(other, _)| other != place).map(|(_, other)| other);
        pairs.extend(others.chain(&BROADCASTS).map(|&other| (other, call)));
        pairs.extend(BROADCASTS.map(|other| (call, other)));
        pairs.push((REDUCE, call));
    }
    pairs
}

#[test]
fn tasks_in_different_collectives_end_with_an_error() {
    let puts = Selection { puts_bytes_max: 16 << 10, ..Selection::default() };
    for tasks in 2..5 {
        // Messages that lie there, of collectives and others, hide nothing.
        for (collectives, ahead) in [(Selection::default(), 0), (Selection::default(), 20), (puts, 0)] {
            for config in networks(tasks) {
                job(config, Settings { collectives, ..Settings::default() }, |_, world| {
                    let others = world.dup().unwrap();
                    (0..6).for_each(|_| others.barrier().unwrap());
                    for (odd, (of_odd, of_others)) in
                        (0..tasks).flat_map(|odd| pairs().into_iter().map(move |calls| (odd, calls)))
                    {
                        let call = if world.rank() == odd { of_odd } else { of_others };
                        disagree(world, (&others, ahead), call, odd).unwrap();
                    }
                });
            }
        }
    }
}

/// One task makes another call than the others, on a communicator that has its lanes, while so many messages lie there.
fn disagree(
    world: &Communicator,
    (others, ahead): (&Communicator, u64),
    call: Call,
    odd: u32,
) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let own = world.dup()?;
    (0..6).try_for_each(|_| own.barrier())?;
    // Rank 0 is ahead of the others.
    let send = |number: u64| {
        others.broadcast(&mut [number], 0)?;
        (1..size).try_for_each(|rank| world.send(&[number], rank, 1))
    };
    if rank == 0 {
        (0..ahead).try_for_each(send)?;
    }
    let result = call(&own);
    let mut failed = [u32::from(result.is_err())];
    if rank != 0 {
        for number in 0..ahead {
            let (mut got, mut received) = ([0], [0]);
            others.broadcast(&mut got, 0)?;
            world.recv(&mut received, 0, 1)?;
            assert_eq!((got, received), ([number], [number]));
        }
    }
    if let Err(error) = &result {
        let class = error.class();
        let classes = [ErrorClass::Other, ErrorClass::Truncate, ErrorClass::Count];
        assert!(classes.contains(&class), "{class:?}: {error}");
    }
    world.allreduce_in_place(&mut failed, op::Sum)?;
    assert!(failed[0] > 0, "rank {odd} of {size} in another collective");
    // What a task has put for the one that failed has come before the communicator goes.
    world.alltoall(&vec![0u8; size as usize], &mut vec![0; size as usize])?;
    Ok(())
}
