//! Collectives against a serial reference, for each of [`numbers_of_tasks`].

use std::sync::atomic::{AtomicUsize, Ordering};

use super::common::{
    Communicator, Environment, combined, job, jobs_on_hosts, networks, numbers, numbers_of_tasks,
};
use am_double::{Config, Reach};
use mpi_over_am::{
    Check, Difference, Error, ErrorClass, Fault, Neighbours, Selection, Settings, collective, op,
};

/// Numbers of elements around every threshold of the algorithms.
const COUNTS: [usize; 6] = [0, 1, 5, 16, 300, 9000];

fn with_each_number_of_tasks(task: impl Fn(&Environment, &Communicator) + Sync) {
    for tasks in numbers_of_tasks() {
        job(Config::new(tasks), Settings::default(), &task);
        job(Config::hostile(tasks, u64::from(tasks)), Settings::default(), &task);
    }
    let mean = Settings { eager_limit_bytes: 100, early_arrival_bytes_max: 3000, ..Settings::default() };
    for tasks in [2, 3, 6] {
        job(Config::hostile(tasks, 77), mean, &task);
    }
    let announced = Settings { early_arrival_bytes_max: 0, ..Settings::default() };
    job(Config::hostile(5, 78), announced, &task);
    jobs_on_hosts().for_each(|config| job(config, Settings::default(), &task));
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
fn a_task_that_sleeps_in_a_collective_takes_part_in_a_long_message() {
    // Task 0's send needs progress of task 1, which task 1 makes only inside the collective; task 0 begins the collective after the send.
    let collectives: [fn(&Communicator); 3] = [
        |world| world.barrier().unwrap(),
        |world| world.allreduce(&[1u64], &mut [0], op::Sum).unwrap(),
        |world| world.broadcast(&mut [world.rank()], 0).unwrap(),
    ];
    for (reach, tasks) in
        [Reach::Direct, Reach::Posted, Reach::Staged].into_iter().flat_map(|reach| [(reach, 2), (reach, 5)])
    {
        job(Config { reach, ..Config::new(tasks) }, Settings::default(), |_, world| {
            let (out, mut got) = (vec![7u8; 100_000], vec![0u8; 100_000]);
            for collective in collectives {
                got.fill(0);
                match world.rank() {
                    0 => {
                        world.send(&out, 1, 5).unwrap();
                        collective(world);
                    }
                    1 => world
                        .scope(|s| {
                            let request = s.irecv(&mut got, 0, 5)?;
                            collective(world);
                            s.wait(request).map(drop)
                        })
                        .unwrap(),
                    _ => collective(world),
                }
                assert!(world.rank() != 1 || got == out);
            }
        });
    }
}

#[test]
fn a_broadcast_gives_everybody_what_the_root_has() {
    let all: Vec<u32> = (0..80_000).map(|i| i * 3).collect();
    with_each_number_of_tasks(|_, world| {
        for root in 0..world.size() {
            for count in COUNTS.into_iter().chain([70_000]) {
                let expected = &all[root as usize..][..count];
                let mut buffer = if world.rank() == root { expected.to_vec() } else { vec![u32::MAX; count] };
                world.broadcast(&mut buffer, root).unwrap();
                assert_eq!(buffer, expected, "{count} elements from {root}");
            }
        }
    });
}

#[test]
fn an_allreduce_is_what_one_task_would_get() {
    with_each_number_of_tasks(|_, world| {
        for count in COUNTS {
            let of = |rank: u32| numbers(u64::from(rank + 1), u64::from(rank + 1), count);
            let own = of(world.rank());
            let reference = |combine: fn(u64, u64) -> u64| combined((0..world.size()).map(of), combine);
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
    let task = |_: &Environment, world: &Communicator| {
        for count in COUNTS {
            let own: Vec<[u32; 2]> = (0..count).map(|i| of(world.rank(), i)).collect();
            let mut result = vec![[0; 2]; count];
            world.allreduce(&own, &mut result, op::from_ordered_fn(after)).unwrap();
            for (i, &got) in result.iter().enumerate() {
                let maps = (0..world.size()).map(|rank| of(rank, i));
                assert_eq!(Some(got), maps.reduce(|a, b| after(&a, &b)), "element {i} of {count}");
            }
        }
    };
    with_each_number_of_tasks(task);
    // Among 20 tasks, some tasks other than the root have children.
    job(Config::hostile(20, 4), Settings::default(), task);
}

#[test]
fn everybody_gets_the_same_bits_of_a_floating_point_sum() {
    with_each_number_of_tasks(|_, world| {
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
    with_each_number_of_tasks(|_, world| {
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
        let one = mpi_over_am::Placement { counts: &[1], displacements: &[0] };
        let error = world.allgatherv(&[1u32, 2], (&mut [0u32], one)).unwrap_err();
        let said = error.to_string();
        assert_eq!(said, "allgather: this task's part: 8 bytes instead of 4", "{error:?}");
    });
    job(Config::new(2), Settings::default(), |_, world| {
        let mut buffer = vec![0u8; if world.rank() == 0 { 3 } else { 5 }];
        let result = world.broadcast(&mut buffer, 0);
        match world.rank() {
            0 => result.unwrap(),
            _ => {
                let error = result.unwrap_err();
                assert_eq!(error.class(), ErrorClass::Count);
                assert!(matches!(error, Error::UnequalParts { sent: 3, expected: 5, .. }), "{error:?}");
                // The text says how to learn what the tasks call.
                assert!(error.to_string().contains("AM_CHECK_COLLECTIVES=on"), "{error}");
            }
        }
    });
}

#[test]
fn an_operator_may_not_communicate_into_the_middle_of_a_call_but_between_calls() {
    // The operator runs inside the collective. It may make calls of its own; here it probes.
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

/// Settings with which tasks compare their collectives.
fn checking() -> Settings {
    Settings { collectives: Selection { check: Check::On, ..Selection::default() }, ..Settings::default() }
}

type Call = fn(&Communicator) -> Result<(), Error>;

const WORDS: usize = 4;

/// Collectives that one task can call while the others call different ones.
const CALLS: [Call; 9] = [
    |own| own.barrier(),
    |own| own.broadcast(&mut [1u64; WORDS], 0),
    |own| own.gather(&[1u64], &mut vec![0; own.size() as usize], 0),
    |own| own.allgather(&[1u64; WORDS], &mut vec![0; WORDS * own.size() as usize]),
    |own| own.alltoall(&vec![1u64; own.size() as usize], &mut vec![0; own.size() as usize]),
    |own| own.reduce(&[1u64; WORDS], &mut [0; WORDS], op::Sum, 0),
    |own| own.allreduce(&[1u64; WORDS], &mut [0; WORDS], op::Sum),
    |own| own.scan(&[1u64; WORDS], &mut [0; WORDS], op::Sum),
    |own| own.neighbor_allgather(&[1u64], &mut [0u64; 0], &Neighbours::default()),
];

#[test]
fn tasks_in_different_collectives_are_all_told_and_stay_in_step() {
    for tasks in 2..5 {
        for config in networks(tasks) {
            job(config, checking(), |_, world| {
                let pairs = (0..CALLS.len()).flat_map(|one| (0..CALLS.len()).map(move |other| (one, other)));
                for (odd, (of_odd, of_others)) in
                    (0..tasks).flat_map(|odd| pairs.clone().map(move |pair| (odd, pair)))
                {
                    let result = CALLS[if world.rank() == odd { of_odd } else { of_others }](world);
                    if of_odd == of_others {
                        result.unwrap();
                        continue;
                    }
                    let error = result.unwrap_err();
                    assert_eq!(error.class(), ErrorClass::Other);
                    assert!(
                        matches!(error, Error::Mismatched { difference: Difference::Call, .. }),
                        "{error}"
                    );
                    let rank = format!("rank {odd} in MPI_");
                    assert!(error.to_string().contains(&rank), "{error}");
                }
            });
        }
    }
}

#[test]
fn roots_operators_types_and_lengths_that_differ_are_seen() {
    // In a job of three tasks: the call of the first task, the call of the others, and the difference in the error's text.
    let word = |own: &Communicator| own.allreduce(&[1u64], &mut [0], op::Sum);
    let cases: [(Call, Call, ErrorClass, &str); 9] = [
        (
            |own| own.broadcast(&mut [1u64], 0),
            |own| own.broadcast(&mut [1u64], 1),
            ErrorClass::Root,
            "root 1",
        ),
        (
            |own| own.gather(&[1u64], &mut [0; 3], 0),
            |own| own.gather(&[1u64], &mut [0; 3], 2),
            ErrorClass::Root,
            "MPI_Gather",
        ),
        (
            word,
            |own| own.allreduce(&[1u64], &mut [0], op::Max),
            ErrorClass::Operation,
            "rank 0 in MPI_Allreduce of 8 bytes of MPI_UINT64_T with MPI_SUM; ranks 1, 2 in",
        ),
        (
            word,
            |own| own.allreduce(&[1u64], &mut [0], op::from_fn(|a, b| a + b)),
            ErrorClass::Operation,
            "a user-defined operator",
        ),
        (word, |own| own.allreduce(&[1i64], &mut [0], op::Sum), ErrorClass::Type, "of MPI_INT64_T"),
        (
            |own| own.broadcast(&mut [1.0f64], 0),
            |own| own.broadcast(&mut [0u64], 0),
            ErrorClass::Type,
            "of MPI_DOUBLE",
        ),
        (word, |own| own.allreduce(&[1u64; 2], &mut [0; 2], op::Sum), ErrorClass::Count, "of 16 bytes"),
        (
            |own| own.allgather(&[1u8], &mut [0; 3]),
            |own| own.allgather(&[1u8; 9000], &mut vec![0; 27000]),
            ErrorClass::Count,
            "of 9000 bytes",
        ),
        (
            |own| own.reduce_scatter(&[1u64; 4], &mut [0; 2], &[2, 1, 1], op::Sum),
            |own| own.reduce_scatter(&[1u64; 5], &mut [0; 1], &[3, 1, 1], op::Sum),
            ErrorClass::Count,
            "MPI_Reduce_scatter",
        ),
    ];
    job(Config::new(3), checking(), |_, world| {
        for (of_first, of_others, class, text) in cases {
            let error = (if world.rank() == 0 { of_first } else { of_others })(world).unwrap_err();
            assert_eq!(error.class(), class, "{error}");
            assert_eq!(error.fault(), Fault::Caller);
            assert!(error.to_string().contains(text), "{error}");
            // All tasks get the error, so all go on together.
            word(world).unwrap();
        }
    });
}

#[test]
fn started_and_kept_collectives_are_compared_when_they_begin() {
    for config in networks(3) {
        job(config, checking(), |_, world| {
            let mut sums = [1u64; 2];
            let error = world
                .scope(|s| match world.rank() {
                    1 => s.wait(collective::broadcast(&mut sums, 0).start(s)?),
                    _ => s.wait(collective::allreduce_in_place(&mut sums, op::Sum).start(s)?),
                })
                .unwrap_err();
            assert!(error.to_string().contains("rank 1 in MPI_Bcast of 16 bytes"), "{error}");
            let mut kept = collective::allreduce_in_place(vec![1u64; 1 + world.rank() as usize], op::Sum)
                .keep(world)
                .unwrap();
            for _ in 0..3 {
                kept.start().unwrap();
                let error = kept.wait().unwrap_err();
                assert!(matches!(error, Error::Mismatched { difference: Difference::Length, .. }), "{error}");
            }
        });
    }
}
