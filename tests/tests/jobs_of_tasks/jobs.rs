//! Whole jobs: more tasks than processors, waits without processor time, tasks that die, limits that are too small.

use std::process::Command;
use std::time::{Duration, Instant};

use am_core::AmOptions;
use am_core::error::Error as CoreError;
use am_core::handler::{Answer, Completion};
use am_core::task::TaskId;
use am_tests::harness::{Outcome, job};
use am_via::Task;
use am_via::job::Cause;
use mpi_over_am::{BoardKind, Check, Communicator, Environment, Error, Source, Tag, collective, op};

#[test]
fn sixteen_tasks_make_progress() {
    job("sixteen_tasks_make_progress").tasks(16).run(|| {
        let mpi = Environment::init().expect("the launcher made a job");
        let world = mpi.world();
        for round in 0..30 {
            world.barrier().expect("barrier");
            let mut sum = [world.rank() + round];
            world.allreduce_in_place(&mut sum, op::Sum).expect("allreduce");
            assert_eq!(sum, [120 + 16 * round]);
        }
        drop(world);
        mpi.finalize().expect("all tasks finalize");
    });
}

/// Many more tasks than processors: a short ring, and collectives that are trees.
#[test]
fn a_hundred_and_twenty_eight_tasks_come_through() {
    job("a_hundred_and_twenty_eight_tasks_come_through").tasks(128).run(|| {
        let mpi = Environment::init().expect("the launcher made a job");
        let world = mpi.world();
        let (own, size) = (world.rank(), world.size());
        let mut got = [u32::MAX];
        world
            .sendrecv(&[own], (own + 1) % size, 0, &mut got, (own + size - 1) % size, 0)
            .expect("both messages arrive");
        assert_eq!(got, [(own + size - 1) % size]);
        let mut sum = [own];
        world.allreduce_in_place(&mut sum, op::Sum).expect("allreduce");
        assert_eq!(sum, [127 * 64]);
        drop(world);
        mpi.finalize().expect("all tasks finalize");
    });
}

/// All tasks send their first messages to all others at once: a message may be polled before the notice of its connection.
#[test]
fn first_messages_of_all_to_all_arrive() {
    for _ in 0..5 {
        job("first_messages_of_all_to_all_arrive").tasks(16).run(|| {
            let mpi = Environment::init().expect("the launcher made a job");
            let world = mpi.world();
            let (own, size) = ([world.rank()], world.size());
            let mut seen = vec![false; size as usize];
            world
                .scope(|s| {
                    // Each task begins with a different peer, so that no two tasks connect in the same order.
                    let targets = (1..size).map(|distance| (world.rank() + distance) % size);
                    let sends: Result<Vec<_>, Error> = targets.map(|rank| s.isend(&own, rank, 5)).collect();
                    for _ in 1..size {
                        let mut got = [u32::MAX];
                        let status = world.recv(&mut got, Source::Any, Tag::Any)?;
                        assert_eq!(got, [status.source()]);
                        let before = std::mem::replace(&mut seen[got[0] as usize], true);
                        assert!(!before, "a second message of rank {}", got[0]);
                    }
                    s.wait_all(sends?).map(|_| ())
                })
                .expect("all arrive");
            mpi.finalize().expect("all tasks finalize");
        });
    }
}

/// Tasks that wait 1.5 s for a message are on a processor for less than a fifth of this time.
#[test]
fn a_blocked_task_burns_almost_no_processor() {
    for tasks in [2, 5] {
        job("a_blocked_task_burns_almost_no_processor").tasks(tasks).run(|| {
            let mpi = Environment::init().expect("the launcher made a job");
            let world = mpi.world();
            world.barrier().expect("barrier");
            if world.rank() == 0 {
                std::thread::sleep(Duration::from_millis(1500));
                (1..world.size()).for_each(|rank| world.send(&[1_u8], rank, 0).expect("the message is sent"));
            } else {
                let (begun, burnt_before) = (Instant::now(), processor_time());
                world.recv(&mut [0_u8], 0, 0).expect("the message arrives");
                let (waited, burnt) = (begun.elapsed(), processor_time() - burnt_before);
                println!("waited {waited:?}, of these {burnt:?} on a processor");
                assert!(burnt * 5 < waited, "waited {waited:?}, of these {burnt:?} on a processor");
            }
            drop(world);
            mpi.finalize().expect("all tasks finalize");
        });
    }
}

/// Recurring long waits. If each wait spun for the maximum time, a fifth of the time would be processor time.
#[test]
fn long_waits_that_recur_burn_almost_no_processor() {
    const WAITS: u32 = 40;
    job("long_waits_that_recur_burn_almost_no_processor").tasks(2).run(|| {
        let mpi = Environment::init().expect("the launcher made a job");
        let world = mpi.world();
        world.barrier().expect("barrier");
        let (begun, burnt_before) = (Instant::now(), processor_time());
        for wait in 0..WAITS {
            if world.rank() == 0 {
                std::thread::sleep(Duration::from_millis(20));
                world.send(&[wait], 1, 0).expect("the message is sent");
            } else {
                let mut got = [u32::MAX];
                world.recv(&mut got, 0, 0).expect("the message arrives");
                assert_eq!(got, [wait]);
            }
        }
        let (waited, burnt) = (begun.elapsed(), processor_time() - burnt_before);
        println!("waited {waited:?}, of these {burnt:?} on a processor");
        assert!(burnt * 7 < waited, "waited {waited:?}, of these {burnt:?} on a processor");
        drop(world);
        mpi.finalize().expect("all tasks finalize");
    });
}

/// Processor time of this process, in the kernel's ticks of 10 ms.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux has /proc");
    let after_name = &stat[stat.rfind(')').expect("the name is in brackets") + 1..];
    let ticks: u64 = after_name
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|field| field.parse::<u64>().expect("a number"))
        .sum();
    Duration::from_millis(ticks * 10)
}

/// The ways in which task 1 dies, with the cause and the words that the launcher's report has for each.
const DEATHS: [(&str, Cause, &str); 3] = [
    ("killed", Cause::Signalled(9), "out of paper"),
    ("exit 3", Cause::Exited(3), "out of paper"),
    ("panic", Cause::Exited(101), "panicked at"),
];

#[expect(clippy::exit, reason = "a task that ends early is what is tested")]
fn die(how: &str) -> ! {
    eprintln!("out of paper");
    match how {
        "killed" => {
            let own = std::process::id().to_string();
            let _ = Command::new("kill").args(["-KILL", &own]).status();
            unreachable!("the signal ends the process");
        }
        "exit 3" => std::process::exit(3),
        _ => panic!("planned panic"),
    }
}

fn is_failure_of_task_1(error: &CoreError) {
    match error {
        CoreError::PeerFailed { task: TaskId(1), .. } => println!("\nsaw: {error}"),
        other => panic!("the error does not name the death of task 1: {other}"),
    }
}

/// Checks that the death of task 1 failed the job, that the outcome names task 1, `cause` and `words`, and that all other tasks have
/// learned of it.
fn judge_death(outcome: &Outcome, cause: Cause, words: &str) {
    assert!(!outcome.is_success);
    let failure = outcome.failure.as_ref().expect("task 1 failed");
    assert_eq!((failure.task, failure.cause), (1, cause));
    assert!(failure.last_words.contains(words), "last words: {}", failure.last_words);
    for (number, task) in outcome.tasks.iter().enumerate().filter(|(number, _)| *number != 1) {
        assert!(task.stdout.contains("saw: task 1 has failed"), "task {number}: {}", task.stdout);
    }
}

/// For each kind of death: task 1 dies while the others are in `wait`, which needs a message of task 1. They get the error that task 1 has
/// failed.
fn others_are_told(test: &'static str, wait: fn(&Environment) -> Result<(), Error>) {
    for (how, cause, words) in DEATHS {
        let body = || {
            let mpi = Environment::init().expect("the launcher made a job");
            let world = mpi.world();
            world.barrier().expect("all tasks reach the barrier");
            // The other tasks must have left the barrier: a task's death ends the barrier for tasks that are still in it.
            if world.rank() == 1 {
                for other in [0, 2] {
                    world.recv(&mut [0_u8], other, 7).expect("the message arrives");
                }
                die(how);
            }
            world.send(&[0_u8], 1, 7).expect("the message is sent");
            match wait(&mpi) {
                Err(Error::Core(error)) => is_failure_of_task_1(&error),
                other => panic!("the wait for the dead task ended with: {other:?}"),
            }
        };
        job(test).tasks(3).run_and_judge(body, |outcome| judge_death(outcome, cause, words));
    }
}

/// When task 1 dies, the other tasks sleep in a barrier or an allgather on a board, or wait for one that they have started. With `goes_on`,
/// a death is an error only of calls that need the dead task.
#[test]
fn a_barrier_on_a_board_that_a_dead_task_cannot_reach_ends() {
    let blocking_first = [true, false];
    let kinds = [BoardKind::Counter, BoardKind::Lines];
    for (goes_on, board, is_blocking) in [false, true].into_iter().flat_map(|goes_on| {
        kinds.into_iter().flat_map(move |board| blocking_first.map(|blocking| (goes_on, board, blocking)))
    }) {
        let body = || {
            Task::join().expect("a job").job().set_continue_on_failure(goes_on);
            // The check of collectives, which debug builds turn on, exchanges messages first: a call would wait for those of the dead task.
            let mpi = Environment::init_with(|settings| {
                settings.collectives.board = board;
                settings.collectives.check = Check::Off;
            });
            let mpi = mpi.expect("a job");
            let meet = |world: &Communicator| match board {
                BoardKind::Lines => world.allgather(&[0_u8], &mut [0; 3]),
                _ => world.barrier(),
            };
            let start_and_wait = |world: &Communicator| match board {
                BoardKind::Lines => {
                    collective::allgather_in_place(vec![0_u8; 3]).start_owned(world)?.wait()?;
                    Ok(())
                }
                _ => world.scope(|s| s.wait(collective::barrier().start(s)?).map(drop)),
            };
            mpi.set_go_on(goes_on).expect("no call is under way");
            let world = mpi.world();
            (0..10).for_each(|_| meet(&world).expect("all are alive"));
            if world.rank() == 1 {
                for other in [0, 2] {
                    world.recv(&mut [0_u8], other, 7).expect("it is alive");
                }
                std::thread::sleep(Duration::from_millis(50));
                die("killed");
            }
            let mut last = [std::process::id()];
            match world.rank() {
                0 => drop(world.recv(&mut last, 2, 7).expect("it is alive")),
                _ => world.send(&last, 0, 7).expect("it is alive"),
            }
            world.send(&[0_u8], 1, 7).expect("it is alive");
            // The failed step never ends, so on a board with a counter the next call waits for it again.
            for blocks in [is_blocking, is_blocking, !is_blocking, !is_blocking] {
                match if blocks { meet(&world) } else { start_and_wait(&world) } {
                    Err(Error::Core(error)) => is_failure_of_task_1(&error),
                    other => panic!("the wait for the dead task ended with: {other:?}"),
                }
            }
            // The board is in the memory of task 0, which stays until task 2 has made its calls.
            let done = std::env::temp_dir().join(format!("am-tests-done-{}", last[0]));
            if world.rank() == 2 {
                std::fs::write(done, "").expect("the file is written");
            } else {
                let start = Instant::now();
                while std::fs::remove_file(&done).is_err() {
                    assert!(start.elapsed() < Duration::from_secs(60), "task 2 has made its calls");
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            let _ = mpi.leave();
        };
        job("a_barrier_on_a_board_that_a_dead_task_cannot_reach_ends").tasks(3).run_and_judge(
            body,
            |outcome| {
                judge_death(outcome, Cause::Signalled(9), "out of paper");
                for survivor in [0, 2] {
                    let told = outcome.tasks[survivor].stdout.matches("saw: task 1 has failed").count();
                    assert_eq!(told, 4, "each call of task {survivor} ends with the error");
                }
            },
        );
    }
}

#[test]
fn a_receive_from_a_task_that_dies_ends() {
    others_are_told("a_receive_from_a_task_that_dies_ends", |mpi| {
        mpi.world().recv(&mut [0_u8], 1, 0).map(|_| ())
    });
}

#[test]
fn a_receive_from_anybody_ends_when_a_task_dies() {
    others_are_told("a_receive_from_anybody_ends_when_a_task_dies", |mpi| {
        mpi.world().recv(&mut [0_u8], Source::Any, Tag::Any).map(|_| ())
    });
}

#[test]
fn a_barrier_that_a_dead_task_cannot_reach_ends() {
    others_are_told("a_barrier_that_a_dead_task_cannot_reach_ends", |mpi| mpi.world().barrier());
}

#[test]
fn a_long_send_to_a_task_that_dies_ends() {
    others_are_told("a_long_send_to_a_task_that_dies_ends", |mpi| {
        mpi.world().send(&vec![0_u8; 1 << 20], 1, 0)
    });
}

#[test]
fn a_counter_that_nobody_raises_any_more_ends_its_wait() {
    let test = "a_counter_that_nobody_raises_any_more_ends_its_wait";
    for (how, cause, words) in DEATHS {
        let body = || {
            let task = Task::join().expect("the launcher made a job");
            let mut context = task.context().expect("the job has memory");
            let counter = context.counter().expect("the first counter");
            let through = context.counter().expect("the second counter");
            let tell = context.register_handler(move |_| Answer::consumed(Completion::Bump(through)));
            let tell = tell.expect("the first handler");
            context.gfence().expect("all tasks reach the fence");
            // The other tasks must have left the fence: a task's death ends the fence for tasks that are still in it.
            if task.number() == 1 {
                context.wait_counter(through, 2).expect("the counter reaches its value");
                die(how);
            }
            context.amsend(TaskId(1), tell, &[], &[], AmOptions::default()).expect("the message is sent");
            is_failure_of_task_1(&context.wait_counter(counter, 1).expect_err("the counter is never raised"));
        };
        job(test).tasks(3).run_and_judge(body, |outcome| judge_death(outcome, cause, words));
    }
}

/// Starts one task by a shell `command` that sets a limit. The error that the task gets names the limit and what to do (`remedy`); the
/// library does not panic.
fn a_limit_is_named(test: &'static str, command: &str, limit: &str, remedy: &str) {
    let body = || match Task::join().and_then(|task| task.context().map(|_| ())) {
        Ok(()) => println!("\nit was enough"),
        Err(error) => println!("\nsaid: {error}"),
    };
    job(test).without_launcher().after(command).run_and_judge(body, |outcome| {
        let said = &outcome.tasks[0].stdout;
        assert!(outcome.is_success, "the task ends by itself");
        let line = said.lines().find(|line| line.starts_with("said: ")).expect("an error");
        assert!(line.contains(limit) && line.contains(remedy), "{line}");
    });
}

#[test]
fn files_that_may_not_be_large_enough_are_named() {
    a_limit_is_named(
        "files_that_may_not_be_large_enough_are_named",
        "ulimit -f 8",
        "RLIMIT_FSIZE",
        "ulimit -f",
    );
}

#[test]
fn an_address_space_that_is_too_small_is_named() {
    // 4 GiB would suffice for the job, but not for the heap that the setting requests.
    let command = "export AM_HEAP_BYTES=8g; ulimit -v 4194304";
    a_limit_is_named("an_address_space_that_is_too_small_is_named", command, "RLIMIT_AS", "AM_HEAP_BYTES");
}

/// Limits the memory of the two tasks but not of the launcher, which thus cannot know the limit. Checks that each task says all words of
/// `expected`.
fn says_under_a_limit_of_its_own(test: &'static str, kibibytes: u32, expected: &'static [&'static str]) {
    let body = || match Task::join().and_then(|task| task.context().map(|_| ())) {
        Ok(()) => println!("\nsaid: it was enough"),
        Err(error) => println!("\nsaid: {error}"),
    };
    job(test).tasks(2).after(format!("ulimit -v {kibibytes}")).run_and_judge(body, |outcome| {
        for task in &outcome.tasks {
            let line = task.stdout.lines().find(|line| line.starts_with("said: ")).expect("a line");
            assert!(expected.iter().all(|words| line.contains(words)), "{line}");
        }
    });
}

#[test]
fn an_address_space_that_is_too_small_in_a_task_is_named() {
    let test = "an_address_space_that_is_too_small_in_a_task_is_named";
    says_under_a_limit_of_its_own(test, 200 << 10, &["RLIMIT_AS"]);
}

/// The limit is less than the heaps that the launcher has made: the task maps a part of each heap.
#[test]
fn an_address_space_that_holds_a_part_of_the_heaps_is_enough() {
    let test = "an_address_space_that_holds_a_part_of_the_heaps_is_enough";
    says_under_a_limit_of_its_own(test, 2 << 20, &["it was enough"]);
}

#[test]
fn a_limit_that_leaves_enough_makes_the_heap_smaller() {
    let test = "a_limit_that_leaves_enough_makes_the_heap_smaller";
    job(test).without_launcher().after("ulimit -v 4194304").run(|| {
        let task = Task::join().expect("4 GiB are enough");
        let mut context = task.context().expect("4 GiB are enough");
        assert_eq!(context.alloc(1 << 20).expect("a quarter of the limit is for heaps").len(), 1 << 20);
    });
}

#[test]
fn a_job_of_one_needs_no_launcher() {
    job("a_job_of_one_needs_no_launcher").without_launcher().run(|| {
        let mpi = Environment::init().expect("a job of one");
        let world = mpi.world();
        assert_eq!((world.rank(), world.size()), (0, 1));
        let mut got = [0_u64; 2];
        world.sendrecv(&[7_u64, 8], 0, 1, &mut got, Source::Any, Tag::Any).expect("both messages arrive");
        assert_eq!(got, [7, 8]);
        world.barrier().expect("all tasks reach the barrier");
        drop(world);
        mpi.finalize().expect("all tasks finalize");
    });
}
