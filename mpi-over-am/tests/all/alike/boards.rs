//! Collectives on a board.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::common::{Communicator, Environment, FIRST, get_board, job, job_with_board, numbers, packets};
use am_double::{Config, Reach};
use mpi_over_am::{BoardKind, Error, Selection, Settings, collective, op};

fn settings(tasks_max: u32) -> Settings {
    let collectives = Selection { board_tasks_max: Some(tasks_max), ..Selection::default() };
    Settings { collectives, ..Settings::default() }
}

/// Runs `task` after the world has got a board.
fn with_board(config: Config, task: impl Fn(&Environment, &Communicator) + Sync) {
    job_with_board(config, settings(1024), task);
}

/// A network with all faults that leave the tasks a board: memory is mapped.
fn hostile(tasks: u32) -> Config {
    Config { reach: Reach::Direct, atomics: Reach::Direct, ..Config::hostile(tasks, 5) }
}

/// Collectives with results that depend on every task.
fn check_collectives(world: &Communicator, count: usize) {
    let (rank, size) = (world.rank() as usize, world.size() as usize);
    let first = |from: usize, to: usize| (from as u64 * 1000 + to as u64) * 1000;
    let part = |from: usize, to: usize| numbers(first(from, to), 1, count);
    let own = part(rank, 0);
    let sum = numbers((0..size).map(|from| first(from, 0)).sum(), size as u64, count);
    let mut got = vec![0; count];
    world.allreduce(&own, &mut got, op::Sum).expect("all tasks are there");
    assert_eq!(got, sum, "the sum of {count}");
    got.copy_from_slice(&own);
    world.allreduce_in_place(&mut got, op::Sum).expect("all tasks are there");
    assert_eq!(got, sum, "the sum of {count} in place");
    // Maps x -> a x + b modulo 2^32: composition does not commute.
    let after = |first: &[u32; 2], second: &[u32; 2]| {
        let a = first[0].wrapping_mul(second[0]);
        [a, second[0].wrapping_mul(first[1]).wrapping_add(second[1])]
    };
    let map = |rank: u32| [2 * rank + 3, rank + 7];
    let (maps, mut composed) = (vec![map(world.rank()); count], vec![[0; 2]; count]);
    world.allreduce(&maps, &mut composed, op::from_ordered_fn(after)).expect("all tasks are there");
    let all = (0..world.size()).map(map).reduce(|a, b| after(&a, &b)).expect("there are tasks");
    assert_eq!(composed, vec![all; count], "{count} in order");

    let all = (0..size).map(|from| part(from, 0)).collect::<Vec<_>>().concat();
    let mut got = vec![0; count * size];
    world.allgather(&own, &mut got).expect("all tasks are there");
    assert_eq!(got, all, "allgather of {count}");
    got.fill(0);
    got[rank * count..][..count].copy_from_slice(&own);
    world.allgather_in_place(&mut got).expect("all tasks are there");
    assert_eq!(got, all, "allgather of {count} in place");

    let out = (0..size).map(|to| part(rank, to)).collect::<Vec<_>>().concat();
    let to_this = (0..size).map(|from| part(from, rank)).collect::<Vec<_>>().concat();
    world.alltoall(&out, &mut got).expect("all tasks are there");
    assert_eq!(got, to_this, "alltoall of {count}");
    got.copy_from_slice(&out);
    world.alltoall_in_place(&mut got).expect("all tasks are there");
    assert_eq!(got, to_this, "alltoall of {count} in place");
    world.barrier().expect("all tasks are there");
}

#[test]
fn collectives_on_a_board_give_the_right_results() {
    for tasks in [3, 4, 7, 20] {
        // The last length is too long for the board.
        with_board(hostile(tasks), |_, world| {
            for count in [0, 1, 3, 100, 1, 20_000, 2] {
                check_collectives(world, count);
            }
        });
    }
}

/// The first calls use messages, and the later ones a board, which must round in the same way.
#[test]
fn an_allreduce_gives_the_same_bits_by_messages_and_on_a_board() {
    let few = Selection { board_tasks_max: Some(1024), ..Selection::default() };
    let in_rounds = Selection { rounds_tasks_max: Some(64), ..few };
    // Longer vectors are reduced in parts, in an order that a board does not have.
    let in_parts = Selection { allreduce_doubling_bytes_max: 512, ..few };
    let settings = [(3, few), (4, few), (7, few), (20, few), (5, in_rounds), (12, in_rounds), (5, in_parts)];
    for (tasks, collectives) in settings {
        let settings = Settings { collectives, ..Settings::default() };
        job(Config::new(tasks), settings, |environment, world| {
            let rank = f64::from(world.rank());
            let in_order = || op::from_ordered_fn(|a: &f64, b: &f64| a + b);
            for count in [1, 100, 200] {
                let own: Vec<f64> =
                    (0..count).map(|index| 1e3 / (f64::from(index) + 3.7 * rank + 0.3)).collect();
                let communicator = world.dup().expect("all tasks are there");
                let mut first = None;
                for call in 0..FIRST {
                    let before = packets(environment);
                    let (mut sum, mut ordered) = (vec![0.0; own.len()], vec![0.0; own.len()]);
                    communicator.allreduce(&own, &mut sum, op::Sum).expect("all tasks are there");
                    communicator.allreduce(&own, &mut ordered, in_order()).expect("all tasks are there");
                    let started =
                        collective::allreduce_in_place(own.clone(), op::Sum).start_owned(&communicator);
                    let (sum_started, _) = started.expect("it starts").wait().expect("all tasks are there");
                    let started =
                        collective::allreduce_in_place(own.clone(), in_order()).start_owned(&communicator);
                    let (ordered_started, _) =
                        started.expect("it starts").wait().expect("all tasks are there");
                    let bits = [sum, ordered, sum_started, ordered_started]
                        .map(|vector| vector.into_iter().map(f64::to_bits).collect::<Vec<_>>());
                    assert_eq!(&bits, first.get_or_insert(bits.clone()), "{count}, call {call}");
                    let [sum, ordered, sum_started, ordered_started] = bits;
                    assert!(sum == sum_started && ordered == ordered_started);
                    let has_board = own.len() as u64 * 8 <= collectives.allreduce_doubling_bytes_max;
                    assert!(
                        call + 1 < FIRST || (packets(environment) == before) == has_board,
                        "there is a board for short vectors"
                    );
                }
            }
        });
    }
}

#[test]
fn short_collectives_on_a_board_send_no_packet() {
    with_board(Config::new(5), |environment, world| {
        let before = packets(environment);
        (0..5).for_each(|_| check_collectives(world, 3));
        assert_eq!(packets(environment), before);
        // Longer collectives use messages, and short collectives after them use the board again, in step.
        check_collectives(world, 20_000);
        assert!(packets(environment) > before);
        check_collectives(world, 3);
    });
}

/// There is no board without mapped memory, or if the setting forbids it, or for tasks of several hosts, or between two groups.
#[test]
fn tasks_that_cannot_have_a_board_use_messages() {
    let staged = Config { reach: Reach::Staged, ..Config::new(3) };
    let on_hosts = Config { hosts: &[0, 1, 2], ..Config::new(3) };
    for (config, tasks_max) in [(staged, 1024), (Config::new(3), 2), (on_hosts, 1024)] {
        job(config, settings(tasks_max), |environment, world| {
            get_board(world);
            let before = packets(environment);
            check_collectives(world, 3);
            assert!(packets(environment) > before);
        });
    }
    job(Config::new(6), settings(1024), |environment, world| {
        let side = world.rank() % 2;
        let half = world.split(Some(side.cast_signed()), 0).expect("all tasks are there").expect("in a half");
        let between = half.create_inter_with(0, Some(world), 1 - side, 5).expect("all tasks are there");
        for _ in 0..2 * FIRST {
            let (before, mut others) = (packets(environment), [0; 3]);
            between.allgather(&[world.rank()], &mut others).expect("all tasks are there");
            assert!(others.into_iter().eq((0..3).map(|number| 2 * number + 1 - side)));
            assert!(packets(environment) > before);
        }
    });
}

#[test]
fn nobody_leaves_a_barrier_on_a_board_before_all_have_come() {
    for tasks in [3, 16, 70] {
        let came = AtomicUsize::new(0);
        with_board(Config::new(tasks), |_, world| {
            for round in 1..=20 {
                came.fetch_add(1, Ordering::SeqCst);
                world.barrier().unwrap();
                assert!(came.load(Ordering::SeqCst) >= round * tasks as usize);
                world.barrier().unwrap();
            }
        });
    }
}

/// The memory of a board is reused after all tasks have dropped its communicator: a task has memory for 16 boards.
#[test]
fn communicators_that_come_and_go_share_the_memory_of_their_boards() {
    with_board(Config::new(3), |environment, world| {
        for round in 0..50 {
            let communicator = world.dup().unwrap();
            get_board(&communicator);
            let before = packets(environment);
            check_collectives(&communicator, 3);
            assert_eq!(packets(environment), before, "communicator {round} has a board");
            drop(communicator);
            world.barrier().unwrap();
        }
    });
}

#[test]
fn a_vector_of_another_length_is_told() {
    with_board(Config::new(3), |_, world| {
        let len = if world.rank() == 1 { 5 } else { 4 };
        let result = world.allreduce(&vec![1_u64; len], &mut vec![0; len], op::Sum);
        assert!(matches!(result, Err(Error::UnequalParts { .. })), "{result:?}");
        check_collectives(world, 2);
    });
}

/// The last task to arrive combines for all tasks. If its operator fails, every task calls the operator itself and gets the error. The
/// board can be used after that.
#[test]
fn an_operator_that_panics_ends_the_reduction_at_all_tasks() {
    with_board(Config::new(3), |_, world| {
        let reduce = || {
            let fails = op::from_ordered_fn(|_: &u64, _: &u64| -> u64 { panic!("an operator that fails") });
            world.allreduce(&[1_u64], &mut [0_u64], fails)
        };
        assert!(catch_unwind(AssertUnwindSafe(reduce)).is_err());
        check_collectives(world, 2);
    });
}

#[test]
fn a_task_that_waits_at_a_board_takes_part_in_a_long_message() {
    with_board(Config::new(4), |_, world| {
        let (out, mut got) = (vec![7u8; 100_000], vec![0u8; 100_000]);
        match world.rank() {
            0 => {
                world.send(&out, 1, 5).unwrap();
                world.barrier().unwrap();
            }
            1 => world
                .scope(|s| {
                    let request = s.irecv(&mut got, 0, 5)?;
                    world.barrier()?;
                    s.wait(request).map(drop)
                })
                .unwrap(),
            _ => world.barrier().unwrap(),
        }
        assert!(world.rank() != 1 || got == out);
    });
}

/// Runs `task` with a board of each kind.
fn with_each_board(tasks: u32, task: impl Fn(&Environment, &Communicator) + Sync) {
    with_board(Config::new(tasks), &task);
    with_lines(Config::new(tasks), &task);
}

/// The collectives that are started are those of boards with a counter and of boards with lines.
#[test]
fn started_collectives_on_a_board_send_no_packet() {
    with_each_board(5, |environment, world| {
        let (rank, size) = (world.rank(), world.size());
        let before = packets(environment);
        for _ in 0..20 {
            let (mut gathered, mut exchanged) = (vec![0; size as usize], vec![0; size as usize]);
            let (own, out) = ([rank], (0..size).map(|to| 10 * rank + to).collect::<Vec<_>>());
            let scope = world.scope(|s| {
                let gathers = collective::allgather(&own, &mut gathered).start(s)?;
                let exchanges = collective::alltoall(&out, &mut exchanged).start(s)?;
                s.wait(exchanges)?;
                s.wait(gathers).map(drop)
            });
            scope.expect("all tasks are there");
            assert!(gathered.into_iter().eq(0..size));
            assert!(exchanged.into_iter().eq((0..size).map(|from| 10 * from + rank)));
        }
        assert_eq!(packets(environment), before);
    });
}

/// Task 0 starts two collectives before the others have started the first, which they do when a message of task 0 arrives.
#[test]
fn a_collective_starts_behind_an_unfinished_one_and_returns_at_once() {
    with_each_board(3, |_, world| {
        let rank = world.rank();
        let (own, later, terms) = ([rank], [rank + 10], [u64::from(rank); 3]);
        let (mut first, mut second, mut sums) = ([0; 3], [0; 3], [0; 3]);
        if world.rank() > 0 {
            world.recv(&mut [0_u8], 0, 1).expect("it is sent");
        }
        let scope = world.scope(|s| {
            let started = [
                collective::allgather(&own, &mut first).start(s)?,
                collective::allreduce(&terms, &mut sums, op::Sum).start(s)?,
                collective::barrier().start(s)?,
                collective::allgather(&later, &mut second).start(s)?,
            ];
            if world.rank() == 0 {
                (1..3).try_for_each(|other| world.send(&[0_u8], other, 1))?;
            }
            started.into_iter().rev().try_for_each(|request| s.wait(request).map(drop))
        });
        scope.expect("all tasks are there");
        assert_eq!((first, sums, second), ([0, 1, 2], [3; 3], [10, 11, 12]));
    });
}

/// One task starts a collective before a blocking one, and the other tasks start it after the blocking one. They do so before, in and after
/// the blocking call in which the communicator gets its boards.
#[test]
fn started_collectives_never_match_blocking_ones() {
    with_each_board(3, |environment, world| {
        let rank = world.rank();
        for blocking_before in 0..FIRST {
            let communicator = world.dup().expect("all tasks are there");
            let block = || communicator.allgather(&[9_u32], &mut [0; 3]).expect("all tasks are there");
            let start = |blocks_meanwhile: bool| {
                let mut all = vec![0; 3];
                all[rank as usize] = rank + 1;
                let started = collective::allgather_in_place(all).start_owned(&communicator);
                if blocks_meanwhile {
                    block();
                }
                let (all, _) = started.expect("it starts").wait().expect("all tasks are there");
                assert_eq!(all, [1, 2, 3]);
            };
            (0..blocking_before).for_each(|_| block());
            for first in 0..3 {
                if rank != first {
                    block();
                }
                start(rank == first);
            }
            (0..FIRST).for_each(|_| block());
            let before = packets(environment);
            start(true);
            assert_eq!(packets(environment), before);
        }
    });
}

/// Task 1 takes part in the second collective while it waits for a message, which task 0 sends after that collective.
#[test]
fn a_task_that_waits_for_a_message_takes_part_in_started_collectives() {
    with_each_board(3, |_, world| {
        let own = [world.rank()];
        let (mut first, mut second) = ([0; 3], [0; 3]);
        let scope = world.scope(|s| {
            let started = [
                collective::allgather(&own, &mut first).start(s)?,
                collective::allgather(&own, &mut second).start(s)?,
            ];
            if world.rank() == 1 {
                world.recv(&mut [0_u8], 0, 1)?;
            }
            started.into_iter().try_for_each(|request| s.wait(request).map(drop))?;
            if world.rank() == 0 { world.send(&[0_u8], 1, 1) } else { Ok(()) }
        });
        scope.expect("all tasks are there");
        assert_eq!((first, second), ([0, 1, 2], [0, 1, 2]));
    });
}

/// A communicator's board is in use until the collectives that were started on it have ended.
#[test]
fn a_communicator_can_end_before_the_collectives_on_its_board() {
    with_each_board(3, |_, world| {
        for round in 0..40 {
            let communicator = world.dup().expect("all tasks are there");
            for _ in 0..FIRST {
                communicator.allgather(&[0_u8], &mut [0; 3]).expect("all tasks are there");
            }
            let start = |value: u32| {
                let mut all = vec![0; 3];
                all[world.rank() as usize] = value;
                collective::allgather_in_place(all).start_owned(&communicator)
            };
            let own = world.rank() + round;
            let started = [start(own), start(own + 1)];
            drop(communicator);
            for (request, more) in started.into_iter().zip([0, 1]) {
                let (all, _) = request.expect("it starts").wait().expect("all tasks are there");
                assert!(all.into_iter().eq((0..3).map(|rank| rank + round + more)));
            }
        }
    });
}

/// Runs `task` after the world has got a board with lines.
fn with_lines(config: Config, task: impl Fn(&Environment, &Communicator) + Sync) {
    let collectives =
        Selection { board: BoardKind::Lines, board_tasks_max: Some(1024), ..Selection::default() };
    job_with_board(config, Settings { collectives, ..Settings::default() }, task);
}

/// A broadcast from each root and a gather to each, of data that depend on the round.
fn check_rooted(world: &Communicator, count: usize, round: u64) {
    let value = |rank: u32, index: usize| round << 40 | u64::from(rank) << 32 | index as u64;
    let vector = |rank: u32| (0..count).map(move |index| value(rank, index));
    for root in 0..world.size() {
        let mut data: Vec<u64> = if world.rank() == root { vector(root).collect() } else { vec![0; count] };
        world.broadcast(&mut data, root).expect("all tasks are there");
        assert!(data.iter().copied().eq(vector(root)), "broadcast of {count} from {root}, round {round}");
        let own: Vec<u64> = vector(world.rank()).collect();
        let mut all = vec![0; if world.rank() == root { count * world.size() as usize } else { 0 }];
        world.gather(&own, &mut all, root).expect("all tasks are there");
        let expected = (0..world.size()).flat_map(vector);
        assert!(world.rank() != root || all.into_iter().eq(expected), "gather of {count} to {root}");
    }
}

/// The lengths lie around those of a line and of an area, and one needs several areas.
#[test]
fn collectives_on_lines_give_the_right_results() {
    for tasks in [3, 8, 20] {
        with_lines(hostile(tasks), |_, world| {
            for (round, count) in (0..).zip([6, 7, 0, 1, 2048, 100, 2049, 9000, 3]) {
                check_rooted(world, count, round);
                check_collectives(world, count);
            }
        });
    }
}

#[test]
fn collectives_on_lines_send_no_packet() {
    with_lines(Config::new(8), |environment, world| {
        check_rooted(world, 1, 0);
        let before = packets(environment);
        for (count, root) in (1..20).zip([1, 4, 2].into_iter().cycle()) {
            world.broadcast(&mut vec![0_u64; 40 * count], root).expect("all tasks are there");
            let mut all = vec![0; if world.rank() == 7 { 8 * count } else { 0 }];
            world.gather(&vec![1_u64; count], &mut all, 7).expect("all tasks are there");
        }
        (0..20).for_each(|_| {
            world.alltoall(&[1_u64; 8], &mut [0; 8]).expect("all tasks are there");
        });
        // Only broadcasts of up to 256 bytes are sent.
        let sent = packets(environment) - before;
        assert!(sent <= 8, "{sent} packets");
        world.barrier().expect("all tasks are there");
        assert!(packets(environment) > before + sent);
    });
}

/// If the root changes from gather to gather, the gathers use messages: the senders then run ahead of the roots.
#[test]
fn a_gather_to_another_root_than_the_last_sends_messages() {
    with_lines(Config::new(8), |environment, world| {
        let gather_to = |root: u32| {
            let before = packets(environment);
            let mut all = vec![0; if world.rank() == root { 32 } else { 0 }];
            world.gather(&[world.rank(); 4], &mut all, root).expect("all tasks are there");
            let expected = (0..8).flat_map(|rank| [rank; 4]);
            assert!(world.rank() != root || all.into_iter().eq(expected));
            packets(environment) - before
        };
        gather_to(0);
        assert!((1..=3).all(|_| gather_to(0) == 0));
        for root in (1..8).chain([3, 5, 3]) {
            assert_eq!(gather_to(root), u64::from(world.rank() != root));
        }
        assert_eq!(gather_to(3), 0);
        assert_eq!(gather_to(3), 0);
    });
}

/// The data of a task stay on the board until all tasks have read them, however late a task is. Roots change, so each task is ahead at
/// times.
#[test]
fn tasks_that_are_late_read_what_was_written_for_them() {
    with_lines(Config::new(9), |_, world| {
        for round in 0..40u64 {
            let root = (round / 7 % 9) as u32;
            if u64::from(world.rank()) == round % 9 {
                std::thread::sleep(std::time::Duration::from_millis(round % 3));
            }
            let mut data = vec![if world.rank() == root { round } else { 0 }; 100];
            world.broadcast(&mut data, root).expect("all tasks are there");
            assert_eq!(data, [round; 100]);
        }
    });
}

#[test]
fn a_part_of_another_length_on_lines_is_told() {
    with_lines(Config::new(3), |_, world| {
        let len = if world.rank() == 1 { 5 } else { 4 };
        let result = world.allgather(&vec![1_u64; len], &mut vec![0; 3 * len]);
        assert!(matches!(result, Err(Error::UnequalParts { .. })), "{result:?}");
        check_collectives(world, 2);
    });
}

#[test]
fn a_task_that_waits_on_lines_takes_part_in_a_long_message() {
    with_lines(Config::new(4), |_, world| {
        let (out, mut got) = (vec![7u8; 100_000], vec![0u8; 100_000]);
        let exchange = || world.allgather(&[world.rank()], &mut [0; 4]);
        match world.rank() {
            0 => {
                world.send(&out, 1, 5).unwrap();
                exchange().unwrap();
            }
            1 => world
                .scope(|s| {
                    let request = s.irecv(&mut got, 0, 5)?;
                    exchange()?;
                    s.wait(request).map(drop)
                })
                .unwrap(),
            _ => exchange().unwrap(),
        }
        assert!(world.rank() != 1 || got == out);
    });
}
