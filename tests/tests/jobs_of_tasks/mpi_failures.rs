//! Collectives of MPI after a death, in a job that goes on: they end at every task that knows of the death, also if no task revokes the
//! communicator.

use am_tests::harness::job;
use mpi_over_am::{Communicator, Environment, ErrorClass, PROC_NULL, ROOT, Source, Tag};

use crate::mpi_windows::{end, go_on, kill};

/// The processes of all tasks, for [`lose`] at rank 0.
fn pids(world: &Communicator) -> Vec<u64> {
    let mut pids = vec![0u64; world.size() as usize];
    world.allgather(&[u64::from(std::process::id())], &mut pids).expect("all tasks take part");
    pids
}

/// Rank 0 kills a rank, and every task that calls this returns when it knows of the death. Others call [`pids`].
fn lose(world: &Communicator, victim: u32) {
    let pids = pids(world);
    if world.rank() == 0 {
        kill(pids[victim as usize]);
    }
    let lost = world.recv(&mut [0u8], Source::Rank(victim), Tag::Is(1));
    assert!(lost.is_err(), "rank {victim} sends nothing");
}

/// Rank 1 waits for the context ids of rank 0, which lives, knows of the death, and sends none.
#[test]
fn a_duplicate_is_an_error_at_a_task_that_learns_of_a_death_while_it_waits() {
    job("a_duplicate_is_an_error_at_a_task_that_learns_of_a_death_while_it_waits").tasks(3).run_and_judge(
        || {
            let environment = go_on();
            let world = environment.world();
            if world.rank() == 1 {
                let _ = pids(&world);
            } else {
                lose(&world, 2);
            }
            assert!(world.dup().is_err(), "a task of the communicator has died");
            end(environment, &world, &[0, 1]);
        },
        |outcome| assert!([0, 1].iter().all(|&rank: &usize| outcome.tasks[rank].is_success())),
    );
}

/// The dead task is one of the local group at rank 0, and one of the remote group at ranks 2 and 3. In the broadcast, rank 0 waits for rank
/// 2, which lives and sends nothing, because a task of its remote group has died. (The check of collectives would fail before.)
#[test]
fn collectives_between_two_groups_end_in_both_after_a_death_in_one() {
    let test = "collectives_between_two_groups_end_in_both_after_a_death_in_one";
    job(test).tasks(4).env("AM_CHECK_COLLECTIVES", "off").run_and_judge(
        || {
            let environment = go_on();
            let world = environment.world();
            let side = world.rank() / 2;
            let half = world.split(Some(side as i32), 0).expect("all tasks split").expect("all have a color");
            let inter =
                half.create_inter_with(0, Some(&world), 2 * (1 - side), 7).expect("all tasks take part");
            let mut theirs = [0u64; 2];
            inter.allgather(&[1], &mut theirs).expect("all tasks live");
            lose(&world, 1);
            let root = [0, 0, ROOT, PROC_NULL][world.rank() as usize];
            assert!(inter.broadcast(&mut theirs, root).is_err(), "a task of one of the groups has died");
            let after = inter.allgather(&[1], &mut theirs);
            assert!(after.is_err(), "a task of one of the groups has died");
            end(environment, &world, &[0, 2, 3]);
        },
        |outcome| assert!([0, 2, 3].iter().all(|&rank: &usize| outcome.tasks[rank].is_success())),
    );
}

/// Only one task goes on after failures, of which there are none: all tasks end in the same way.
#[test]
fn a_task_that_alone_would_go_on_ends_with_the_others() {
    job("a_task_that_alone_would_go_on_ends_with_the_others").tasks(3).run(|| {
        let environment = Environment::init().expect("a job");
        if environment.world().rank() == 0 {
            environment.set_go_on(true).expect("no call is under way");
        }
        environment.finalize().expect("all tasks finalize");
    });
}

/// A receive from any source that may be from the dead task stays posted (ULFM: `MPIX_ERR_PROC_FAILED_PENDING`), and the program keeps its
/// request: after it has acknowledged the failure, it waits again and gets the message, in a call and in a future.
#[test]
fn a_wait_in_doubt_returns_the_request_of_an_owned_buffer() {
    job("a_wait_in_doubt_returns_the_request_of_an_owned_buffer").tasks(3).run_and_judge(
        || {
            let environment = go_on();
            let world = environment.world();
            let receive = |tag| world.irecv_owned(vec![0u32], Source::Any, Tag::Is(tag)).expect("any source");
            let (in_call, in_future) = (receive(3), receive(4));
            lose(&world, 2);
            let waited = in_call.wait().expect_err("the dead task may be the source");
            let awaited = world.block_on(in_future).expect("no error of progress");
            let awaited = awaited.expect_err("the dead task may be the source");
            let requests = [waited, awaited].map(|returned| {
                assert_eq!(returned.error.class(), ErrorClass::TaskFailedPending, "{returned}");
                assert!(returned.buffer.is_none(), "the receive is posted");
                returned.request.expect("the receive is posted")
            });
            world.acknowledge_failures(None).expect("no error of progress");
            let other = 1 - world.rank();
            // Both have waited before one of them sends.
            world.send(&[0u8], other, 5).expect("the other task lives");
            world.recv(&mut [0u8], Source::Rank(other), Tag::Is(5)).expect("the other task lives");
            [3, 4].iter().for_each(|&tag| world.send(&[7u32], other, tag).expect("the other task lives"));
            let [in_call, in_future] = requests;
            let (got, status) = in_call.wait().expect("a message has come");
            assert_eq!((&*got, status.source()), (&[7][..], other));
            let (got, status) =
                world.block_on(in_future).expect("no error of progress").expect("a message has come");
            assert_eq!((&*got, status.source()), (&[7][..], other));
            end(environment, &world, &[0, 1]);
        },
        |outcome| assert!([0, 1].iter().all(|&rank: &usize| outcome.tasks[rank].is_success())),
    );
}

/// Rank 1 waits for the context ids of rank 0, which lives, and does not make the grid because it knows of the death.
#[test]
fn a_grid_is_an_error_at_a_task_that_learns_of_a_death_while_it_waits() {
    job("a_grid_is_an_error_at_a_task_that_learns_of_a_death_while_it_waits").tasks(3).run_and_judge(
        || {
            let environment = go_on();
            let world = environment.world();
            if world.rank() == 1 {
                let _ = pids(&world);
                assert!(
                    world.create_cartesian(&[3], &[false]).is_err(),
                    "a task of the communicator has died"
                );
            } else {
                lose(&world, 2);
            }
            end(environment, &world, &[0, 1]);
        },
        |outcome| assert!([0, 1].iter().all(|&rank: &usize| outcome.tasks[rank].is_success())),
    );
}

/// In calls that make a communicator of two groups, the first ranks of both meet, and the others wait for theirs. The dead task is a first
/// rank, or another one of its group, because of which its first rank does not come.
#[test]
fn communicators_of_two_groups_are_errors_in_both_after_a_death_in_one() {
    job("communicators_of_two_groups_are_errors_in_both_after_a_death_in_one").tasks(4).run_and_judge(
        || {
            let environment = go_on();
            let world = environment.world();
            let halves: Vec<_> = [[0, 1], [1, 0]]
                .map(|keys| {
                    let (side, key) = (world.rank() / 2, keys[world.rank() as usize % 2]);
                    let half = world
                        .split(Some(side as i32), key)
                        .expect("all tasks split")
                        .expect("all have a color");
                    // The leaders are ranks 0 and 2 of the world in the first, and ranks 1 and 3 in the second pair of groups.
                    let first = if keys[0] == 0 { 0 } else { 1 };
                    half.create_inter_with(0, Some(&world), 2 * (1 - side) + first, 7)
                        .expect("all tasks take part")
                })
                .into();
            if world.rank() == 0 {
                lose(&world, 1);
            } else {
                let _ = pids(&world);
            }
            while world.rank() == 1 {
                std::thread::park();
            }
            for inter in halves {
                assert!(inter.split(Some(0), 0).is_err(), "a task of one of the groups has died");
                assert!(inter.merge(false).is_err(), "a task of one of the groups has died");
            }
            end(environment, &world, &[0, 2, 3]);
        },
        |outcome| assert!([0, 2, 3].iter().all(|&rank: &usize| outcome.tasks[rank].is_success())),
    );
}
