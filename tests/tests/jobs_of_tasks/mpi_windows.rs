//! Locks and updates of windows between processes: the order in which locks are granted, and the state after a death.

use std::process::Command;

use am_tests::harness::job;
use am_via::Task;
use mpi_over_am::op::PredefinedOp;
use mpi_over_am::window::{Assertion, Lock, Window};
use mpi_over_am::{Communicator, Environment, ErrorClass, Info, Source, Tag};

const TASKS: u32 = 8;
/// The words of the target: the number of tasks that have had the lock, the number that hold it, whether the target may go on, and the
/// order in which tasks got the lock.
const GRANTS: i64 = 0;
const INSIDE: i64 = 1;
const OVER: i64 = 2;
const LOG: i64 = 8;
const WORDS: usize = 64;

/// Number of messages: more than a call of `lock` could handle before it has drawn its ticket, because each message begins after the
/// previous one has ended.
const MESSAGES: usize = 20;
const MESSAGE_BYTES: usize = 200_000;

fn window(world: &Communicator) -> Window {
    world.allocate_window(WORDS * 8, 8, &Info::new()).expect("the job has memory")
}

fn add(window: &Window, target: u32, word: i64, value: u64) -> u64 {
    window.fetch_and_op(value, target, word, PredefinedOp::Sum).expect("the target's memory is mapped")
}

/// Waits until rank 0 tells this task to ask for the lock, then takes it while messages arrive that need this task's progress.
fn lock_when_told(world: &Communicator, window: &Window, lock: Lock, target: u32) {
    let mut leave = [0u8];
    world.recv(&mut leave, Source::Rank(0), Tag::Is(0)).expect("the message arrives");
    let mut messages = vec![vec![0u8; MESSAGE_BYTES]; MESSAGES];
    world
        .scope(|scope| {
            let receives: Vec<_> = messages
                .iter_mut()
                .map(|message| scope.irecv(message, Source::Rank(0), Tag::Is(1)))
                .collect::<Result<_, _>>()?;
            window.lock(lock, target, Assertion::NONE)?;
            receives.into_iter().try_for_each(|receive| scope.wait(receive).map(drop))
        })
        .expect("the lock is granted");
    assert!(messages.iter().all(|message| message.iter().all(|&byte| byte == 7)));
}

/// Tells a task to ask for the lock, and returns when the task is in the queue of the lock: only there does it handle all these messages.
fn let_it_queue(world: &Communicator, rank: u32) {
    world.send(&[0u8], rank, 0).expect("the message is sent");
    let message = vec![7u8; MESSAGE_BYTES];
    for _ in 0..MESSAGES {
        world.ssend(&message, rank, 1).expect("the receiver makes progress while it waits");
    }
}

/// The action of a task that has the lock: it records that it has the lock. A task that shares the lock waits until `together` tasks have
/// got it; 0 means that the task has the lock alone.
fn note(window: &Window, target: u32, own: u32, together: u64) {
    let place = add(window, target, GRANTS, 1);
    window.put(&[u64::from(own)], target, LOG + i64::try_from(place).expect("few")).expect("put");
    add(window, target, INSIDE, 1);
    if together == 0 {
        assert_eq!(add(window, target, INSIDE, 0), 1, "no other task is inside");
    } else {
        while add(window, target, GRANTS, 0) < together {
            std::thread::yield_now();
        }
    }
    add(window, target, INSIDE, u64::MAX);
}

#[test]
fn locks_are_granted_in_order_of_arrival_to_tasks_that_sleep_and_make_progress() {
    job("locks_are_granted_in_order_of_arrival_to_tasks_that_sleep_and_make_progress").tasks(TASKS).run(
        || {
            let environment = Environment::init().expect("a job");
            let world = environment.world();
            let window = window(&world);
            let own = world.rank();
            // Rank 7 is the target and computes. The other ranks, in the order in which they ask for the lock, each with the kind of its
            // lock and, for a shared lock, the number of tasks that have got the lock once all that share it have.
            let (exclusive, shared) = (Lock::Exclusive, Lock::Shared);
            let order = [
                (4, exclusive, 0),
                (2, shared, 4),
                (6, shared, 4),
                (1, shared, 4),
                (3, exclusive, 0),
                (5, shared, 6),
            ];
            let target = 7;
            if own == target {
                let mut over = [0u64];
                while over[0] == 0 {
                    window.read(OVER as u64 * 8, &mut over).expect("its own part");
                    std::thread::yield_now();
                }
                let mut log = [0u64; 6];
                window.read(LOG as u64 * 8, &mut log).expect("its own part");
                log[1..4].sort_unstable();
                assert_eq!(log, [4, 1, 2, 6, 3, 5]);
            } else if own == 0 {
                window.lock(exclusive, target, Assertion::NONE).expect("the lock is granted");
                for (rank, ..) in order {
                    let_it_queue(&world, rank);
                }
                assert_eq!(add(&window, target, GRANTS, 0), 0, "the lock is held");
                window.unlock(target).expect("the task has the lock");
                window.lock(exclusive, target, Assertion::NONE).expect("the lock is granted");
                assert_eq!(add(&window, target, GRANTS, 0), 6);
                add(&window, target, OVER, 1);
                window.unlock(target).expect("the task has the lock");
            } else {
                let &(_, lock, together) =
                    order.iter().find(|(rank, ..)| *rank == own).expect("each has a place");
                lock_when_told(&world, &window, lock, target);
                // Rank 5 is the last, and has the lock alone.
                note(&window, target, own, if lock == exclusive { 0 } else { together });
                window.unlock(target).expect("the task has the lock");
            }
            window.free().expect("all tasks free the window");
            environment.finalize().expect("all tasks finalize");
        },
    );
}

#[test]
fn each_task_gets_its_share_of_a_lock() {
    const GRANTS_MAX: u64 = 4000;
    job("each_task_gets_its_share_of_a_lock").tasks(TASKS).run(|| {
        let environment = Environment::init().expect("a job");
        let world = environment.world();
        let window = window(&world);
        let (mut had, mut taken) = (0u32, 0);
        world.barrier().expect("all tasks reach the barrier");
        while taken < GRANTS_MAX {
            window.lock(Lock::Exclusive, 0, Assertion::NONE).expect("the lock is granted");
            let mut grants = [0u64];
            window.get(&mut grants, 0, GRANTS).expect("get");
            taken = grants[0];
            window.put(&[taken + 1], 0, GRANTS).expect("put");
            window.unlock(0).expect("the task has the lock");
            had += 1;
        }
        // A fair share is about 500. A task that the system suspends outside the queue misses turns.
        assert!(had > 25, "this task has had the lock {had} times");
        let mut all = [u64::from(had)];
        world.allreduce_in_place(&mut all, mpi_over_am::op::Sum).expect("all tasks take part");
        let mut grants = [0u64];
        window.lock(Lock::Shared, 0, Assertion::NONE).expect("lock");
        window.get(&mut grants, 0, GRANTS).expect("get");
        window.unlock(0).expect("unlock");
        assert_eq!(grants[0], all[0], "each lock was exclusive");
        window.free().expect("all tasks free the window");
        environment.finalize().expect("all tasks finalize");
    });
}

/// An environment in which tasks go on when another one has died.
pub(crate) fn go_on() -> Environment {
    Task::join().expect("a job").job().set_continue_on_failure(true);
    let environment = Environment::init().expect("a job");
    environment.set_go_on(true).expect("no call is under way");
    environment
}

pub(crate) fn kill(pid: u64) {
    let sent = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    assert!(sent.expect("kill runs").success(), "SIGKILL to {pid}");
}

/// Ends a task of a job in which other tasks have died: the survivors wait for each other, but not for the dead tasks.
pub(crate) fn end(environment: Environment, world: &Communicator, survivors: &[u32]) {
    // No task ends while other tasks still need its memory.
    if world.rank() == survivors[0] {
        for &rank in &survivors[1..] {
            world.recv(&mut [0u8], Source::Rank(rank), Tag::Is(9)).expect("the message arrives");
        }
        survivors[1..].iter().for_each(|&rank| world.send(&[0u8], rank, 9).expect("the message is sent"));
    } else {
        world.send(&[0u8], survivors[0], 9).expect("the message is sent");
        world.recv(&mut [0u8], Source::Rank(survivors[0]), Tag::Is(9)).expect("the message arrives");
    }
    // Another task may already have left.
    let _ = environment.leave();
}

#[test]
fn a_task_that_dies_with_a_lock_or_in_its_queue_holds_nobody_up() {
    job("a_task_that_dies_with_a_lock_or_in_its_queue_holds_nobody_up").tasks(6).run_and_judge(
        || {
            let environment = go_on();
            let world = environment.world();
            let window = window(&world);
            let own = world.rank();
            let mut pids = [0u64; 6];
            world.allgather(&[u64::from(std::process::id())], &mut pids).expect("all tasks take part");
            let target = 5;
            match own {
                0 => {
                    // Rank 1 holds the lock. Rank 2 (exclusive), rank 3 (shared) and rank 4 (exclusive) wait in the queue, in this order.
                    for rank in 1..=4 {
                        let_it_queue(&world, rank);
                    }
                    kill(pids[2]);
                    kill(pids[1]);
                }
                1 => {
                    window.lock(Lock::Exclusive, target, Assertion::NONE).expect("the lock is granted");
                    // Rank 1 waits in receives, in which it makes progress and takes the messages of `let_it_queue`.
                    let mut leave = [0u8];
                    world.recv(&mut leave, Source::Rank(0), Tag::Is(0)).expect("the message arrives");
                    let mut message = vec![0u8; MESSAGE_BYTES];
                    loop {
                        let _ = world.recv(&mut message, Source::Rank(0), Tag::Is(1));
                    }
                }
                2 => lock_when_told(&world, &window, Lock::Exclusive, target),
                3 | 4 => {
                    let lock = if own == 3 { Lock::Shared } else { Lock::Exclusive };
                    lock_when_told(&world, &window, lock, target);
                    assert_eq!(add(&window, target, GRANTS, 1), u64::from(own) - 3);
                    window.unlock(target).expect("the task has the lock");
                }
                // The other tasks do nothing.
                _ => {}
            }
            end(environment, &world, &[0, 3, 4, 5]);
            drop(window);
        },
        |outcome| {
            let well = [0, 3, 4, 5].map(|rank: usize| outcome.tasks[rank].is_success());
            assert_eq!(well, [true; 4], "the tasks that live go on");
        },
    );
}

/// All kinds of updates of one element, at the same time as updates of all elements. There are more tasks than processors, so that some
/// tasks are interrupted in an update.
#[test]
fn updates_of_one_element_and_of_many_lose_nothing() {
    const ELEMENTS: usize = 1000;
    const ROUNDS: u64 = 300;
    job("updates_of_one_element_and_of_many_lose_nothing").tasks(5).run(|| {
        let environment = Environment::init().expect("in a job");
        let world = environment.world();
        let window = world.allocate_window(8 * ELEMENTS, 8, &Info::new()).expect("the job has memory");
        window.lock_all(Assertion::NONE).expect("the lock is granted");
        world.barrier().expect("all tasks reach the barrier");
        let ones = vec![1u64; ELEMENTS];
        let mut last = 0;
        for round in 0..ROUNDS {
            let at = i64::try_from(round % 7).expect("small");
            match world.rank() {
                // The values rise, since each update sees all earlier ones of its own task.
                0 => {
                    let old = window.get_accumulate(&ones, 0, 0, PredefinedOp::Sum).expect("inside");
                    assert!(old[0] >= last && old[6] >= round, "{} after {last}", old[0]);
                    last = old[0] + 1;
                }
                1 => window.accumulate(&ones, 0, 0, PredefinedOp::Sum).expect("inside"),
                2 => {
                    let mut seen = window.fetch_and_op(0, 0, at, PredefinedOp::NoOp).expect("inside");
                    loop {
                        match window.compare_and_swap(seen, seen + 1, 0, at).expect("inside") {
                            found if found == seen => break,
                            found => seen = found,
                        }
                    }
                }
                3 => drop(add(&window, 0, at, 1)),
                _ => window.accumulate(&[1u64], 0, at, PredefinedOp::Sum).expect("inside"),
            }
        }
        world.barrier().expect("all tasks reach the barrier");
        let all = window.get_accumulate(&ones, 0, 0, PredefinedOp::NoOp).expect("inside");
        // How often tasks 2, 3 and 4 together have updated an element on its own.
        let single = |at: u64| if at < 7 { 3 * (ROUNDS / 7 + u64::from(at < ROUNDS % 7)) } else { 0 };
        for (at, got) in (0..).zip(all) {
            assert_eq!(got, 2 * ROUNDS + single(at), "element {at}");
        }
        world.barrier().expect("all tasks reach the barrier");
        window.unlock_all().expect("locked above");
        window.free().expect("all tasks free the window");
        environment.finalize().expect("all tasks finalize");
    });
}

#[test]
fn a_task_that_dies_while_it_updates_holds_nobody_up() {
    const ELEMENTS: usize = 100_000;
    job("a_task_that_dies_while_it_updates_holds_nobody_up").tasks(4).run_and_judge(
        || {
            let environment = go_on();
            let world = environment.world();
            let bytes = 8 * ELEMENTS + 8;
            let window = world.allocate_window(bytes, 1, &Info::new()).expect("the job has memory");
            let mut pids = [0u64; 4];
            world.allgather(&[u64::from(std::process::id())], &mut pids).expect("all tasks take part");
            window.lock_all(Assertion::NONE).expect("the lock is granted");
            let ones = vec![1u64; ELEMENTS];
            if world.rank() == 1 {
                loop {
                    window.accumulate(&ones, 0, 1, PredefinedOp::Sum).expect("they lie inside");
                }
            }
            if world.rank() == 0 {
                let mut first = [0u64];
                while first[0] < 3 {
                    window.read(1, &mut first).expect("its own part");
                }
                kill(pids[1]);
            }
            for _ in 0..3 {
                window.accumulate(&ones, 0, 1, PredefinedOp::Sum).expect("they lie inside");
            }
            end(environment, &world, &[0, 2, 3]);
            drop(window);
        },
        |outcome| {
            let well = [0, 2, 3].map(|rank: usize| outcome.tasks[rank].is_success());
            assert_eq!(well, [true; 3], "the tasks that live go on");
        },
    );
}

/// A window's memory starts as zeros, without pages, however often windows of this size were made and freed before.
#[test]
fn a_window_costs_no_more_than_the_first_of_its_size() {
    const BYTES: usize = 256 << 20;
    job("a_window_costs_no_more_than_the_first_of_its_size").env("AM_HEAP_BYTES", "512M").run(|| {
        let environment = Environment::init().expect("a job");
        let world = environment.world();
        let resident = || {
            let status = std::fs::read_to_string("/proc/self/status").expect("Linux, with /proc");
            let line = status.lines().find_map(|line| line.strip_prefix("RssShmem:")).expect("Linux 4.5");
            line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
        };
        let before = resident();
        for round in 0..5 {
            let window = world.allocate_window(BYTES, 1, &Info::new()).expect("the job has memory");
            let more = resident().saturating_sub(before);
            assert!(more < BYTES / 8, "window {round}: {more} bytes are resident before a byte is written");
            let mut bytes = [1u8; 3];
            for at in [0, BYTES as u64 / 2, BYTES as u64 - 3] {
                window.read(at, &mut bytes).expect("inside");
                assert_eq!(bytes, [0; 3]);
                window.write(at, &[7u8; 3]).expect("inside");
            }
            window.free().expect("no epoch is open");
        }
        environment.finalize().expect("all tasks finalize");
    });
}

/// MPI limits the pieces of a dynamic window by memory only (MPI 5.0 section 12.2.4).
#[test]
fn a_hundred_thousand_pieces_are_attached_found_and_detached() {
    const PIECES: usize = 100_000;
    const EVERY: usize = 37;
    job("a_hundred_thousand_pieces_are_attached_found_and_detached").tasks(2).run(|| {
        let environment = Environment::init().expect("a job");
        let world = environment.world();
        let window = world.create_dynamic_window(&Info::new()).expect("the job has memory");
        let other = 1 - world.rank();
        let byte = |piece: usize| piece.to_le_bytes()[0] ^ piece.to_le_bytes()[1];
        let own: Vec<u64> =
            (0..PIECES).map(|piece| window.attach(vec![byte(piece); 16]).expect("there is memory")).collect();
        let mut theirs = vec![0u64; PIECES];
        world.sendrecv(&own, other, 0, &mut theirs, Source::Rank(other), Tag::Is(0)).expect("both take part");
        window.lock_all(Assertion::NONE).expect("the lock is granted");
        let get = |piece: usize| {
            let mut got = [0u8; 16];
            window.get(&mut got, other, theirs[piece].cast_signed()).map(|()| got)
        };
        for piece in (0..PIECES).step_by(EVERY) {
            assert_eq!(get(piece).expect("it is attached"), [byte(piece); 16], "piece {piece}");
        }
        world.barrier().expect("both take part");
        // First every second piece, from the end on, then the rest.
        let (even, odd) = ((0..PIECES).step_by(2).rev(), (1..PIECES).step_by(2));
        for piece in even {
            assert_eq!(window.detach(own[piece]).expect("it is attached")[..], [byte(piece); 16]);
        }
        world.barrier().expect("both take part");
        for piece in (0..PIECES).step_by(EVERY) {
            match get(piece) {
                Ok(got) => assert_eq!((piece % 2, got), (1, [byte(piece); 16]), "piece {piece}"),
                Err(error) => assert_eq!((piece % 2, error.class()), (0, ErrorClass::RmaRange), "{error}"),
            }
        }
        world.barrier().expect("both take part");
        for piece in odd {
            window.detach(own[piece]).expect("it is attached");
        }
        window.unlock_all().expect("locked above");
        window.free().expect("no epoch is open");
        environment.finalize().expect("all tasks finalize");
    });
}
