//! Jobs of several hosts. Each host is an agent of its own on this machine, started by a plain command instead of ssh: its tasks share
//! memory files with each other, and none with those of another agent.

use std::process::Command;

use am_core::GetOptions;
use am_core::buffer::Access;
use am_core::error::{Error, RangeFault};
use am_core::testing::conformance;
use am_tests::programs::{self, Scratch, amrun_on_hosts, run};
use am_via::Task;
use mpi_over_am::attribute::PredefinedAttribute;
use mpi_over_am::op::PredefinedOp;
use mpi_over_am::window::Assertion;
use mpi_over_am::{Communicator, Environment, Info, SplitType, op};

/// Runs `body` as each task of a job on these hosts.
fn on_hosts(test: &str, (tasks, hosts): (u32, &str), body: fn()) {
    let Some((good, said)) = said_on_hosts(test, (tasks, hosts), body) else { return };
    assert!(good, "{said}");
    let ended = said.matches("the body has ended").count();
    assert_eq!(ended, tasks as usize, "{said}");
}

/// Like [`on_hosts`], and returns whether the job succeeded, with its output. `None` in a task.
fn said_on_hosts(test: &str, (tasks, hosts): (u32, &str), body: fn()) -> Option<(bool, String)> {
    if std::env::var_os("AM_JOB").is_some() {
        body();
        println!("the body has ended");
        return None;
    }
    if !am_via_ofi::is_there_for_tests() {
        return None;
    }
    programs::build();
    let scratch = Scratch::new(&format!("hosts-{test}"));
    let mut command = amrun_on_hosts(&scratch, tasks, hosts);
    command.arg(std::env::current_exe().expect("a test has a path"));
    command.args(["--exact", &format!("hosts::{test}"), "--nocapture", "--test-threads=1"]);
    Some(run(&mut command))
}

/// A program in C about several hosts, and those that start MPI again.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn programs_in_c_run_on_hosts() {
    if !am_via_ofi::is_there_for_tests() {
        return;
    }
    programs::build();
    let scratch = Scratch::new("hosts-c");
    for name in ["h_hosts", "c_sessions", "c_sessions_late"] {
        let program = scratch.path().join(name);
        let source = format!("{}/c/{name}.c", env!("CARGO_MANIFEST_DIR"));
        let mut compile = Command::new(programs::folder().join("mpicc"));
        compile.args(["-O1", "-Wall", "-Wextra", "-Werror"]).args(programs::compiler_options());
        let (good, said) = run(compile.arg(source).arg("-o").arg(&program));
        assert!(good, "{name}: {said}");
        let (good, said) = run(amrun_on_hosts(&scratch, 3, "a:2,b").arg(&program));
        assert!(good && said.contains("all good"), "{name}: {said}");
    }
}

#[test]
fn mpi_opens_again_on_hosts() {
    on_hosts("mpi_opens_again_on_hosts", (3, "a:2,b"), || {
        for round in 0..3_u32 {
            let environment = Environment::init().expect("an agent made a job");
            let world = environment.world();
            let mut sum = [0];
            world.allreduce(&[round + world.rank()], &mut sum, op::Sum).expect("all tasks reduce");
            assert_eq!(sum, [3 * round + 3]);
            environment.finalize().expect("all tasks finalize");
        }
    });
}

/// Tasks 0 and 1 share memory, and so do 2 and 3. The pairs reach each other by the network.
#[test]
fn the_suite_is_right_within_and_between_hosts() {
    on_hosts("the_suite_is_right_within_and_between_hosts", (4, "a:2,b:2"), || {
        let task = Task::join().expect("an agent made a job");
        let mut context = task.context().expect("libfabric is there (Debian: libfabric1)");
        for (name, check) in conformance::checks() {
            conformance::run(name, check, &mut context);
        }
    });
}

/// Gets are reads by the network: no byte of them comes as a packet. No read uses a registration that has ended.
#[test]
fn the_network_reads_memory_of_other_hosts_until_its_registration_ends() {
    let test = "the_network_reads_memory_of_other_hosts_until_its_registration_ends";
    on_hosts(test, (3, "a:2,b"), || {
        const LEN: usize = (3 << 20) + 5;
        let task = Task::join().expect("an agent made a job");
        let mut context = task.context().expect("libfabric is there (Debian: libfabric1)");
        let own = task.number();
        let mut block = context.alloc(LEN).expect("3 MiB of job memory");
        block.copy_from_slice(&am_core::testing::pattern(own.into(), LEN));
        let exposed = context.expose(block, Access::READ_WRITE).expect("a registration is free");
        let addresses = context.address_init(exposed.address(0)).expect("all tasks exchange addresses");
        for (peer, address) in (0_u64..).zip(&addresses) {
            let whole = am_core::testing::pattern(peer, LEN);
            for (offset, len) in [(0, 1), (7, 4096), (0, LEN), (LEN - 1, 1)] {
                let mut got = vec![0; len];
                context
                    .get(address.plus(offset as u64), &mut got, GetOptions::default())
                    .expect("the get completes");
                assert!(got == whole[offset..][..len], "{len} bytes from {offset} of task {peer}");
            }
            let beyond = context.get(address.plus(1), &mut vec![0; LEN], GetOptions::default());
            let is_told = |why: &RangeFault| matches!(why, RangeFault::Bounds { region_len } if *region_len == LEN as u64);
            assert!(matches!(&beyond, Err(Error::RemoteRange { why, .. }) if is_told(why)), "{beyond:?}");
        }
        assert_eq!(context.statistics().pieces_received, 0);
        context.gfence().expect("all tasks reach the fence");
        let block = context.unexpose(exposed).expect("no read is under way");
        context.gfence().expect("all tasks reach the fence");
        drop(block);
        for address in &addresses {
            let stale = context.get(*address, &mut [0; 64], GetOptions::default());
            assert!(matches!(stale, Err(Error::RemoteRange { why: RangeFault::Stale, .. })), "{stale:?}");
        }
        context.gfence().expect("all tasks reach the fence");
    });
}

#[test]
fn collectives_and_long_messages_cross_three_hosts() {
    on_hosts("collectives_and_long_messages_cross_three_hosts", (4, "a,b:2,c"), || {
        let environment = Environment::init().expect("an agent made a job");
        let world = environment.world();
        let (rank, size) = (world.rank(), world.size());
        let mut sum = [0_u64];
        world.allreduce(&[u64::from(rank)], &mut sum, op::Sum).expect("all tasks reduce");
        assert_eq!(sum, [u64::from(size * (size - 1) / 2)]);
        let sent = am_core::testing::pattern(rank.into(), (1 << 20) + 3);
        let mut got = vec![0_u8; sent.len()];
        let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
        world.sendrecv(&sent, next, 1, &mut got, previous, 1).expect("the message fits");
        assert!(got == am_core::testing::pattern(previous.into(), got.len()));
        environment.finalize().expect("all tasks finalize");
    });
}

/// Task 0 owns the element, task 1 shares memory with it, and task 2 reaches it by the network.
#[test]
fn the_owner_and_near_and_far_tasks_update_one_element() {
    on_hosts("the_owner_and_near_and_far_tasks_update_one_element", (3, "a:2,b"), || {
        const ROUNDS: u64 = 200;
        let environment = Environment::init().expect("an agent made a job");
        let world = environment.world();
        let rank = world.rank();
        // Memory of the library, and memory of the program.
        let allocated = world.allocate_window(16, 8, &Info::new()).expect("16 bytes");
        let created = world.create_window(vec![0; 16], 8, &Info::new()).expect("a window of 16 bytes");
        for window in [&allocated, &created] {
            window.lock_all(Assertion::NONE).expect("the lock is granted");
            let mut seen = Vec::new();
            for _ in 0..ROUNDS {
                seen.push(window.fetch_and_op(1_u64, 0, 0, PredefinedOp::Sum).expect("a word"));
                window.accumulate(&[1, u64::from(rank)], 0, 0, PredefinedOp::Sum).expect("two words");
            }
            window.flush_all().expect("the transfers complete");
            assert!(seen.is_sorted_by(|before, after| before + 2 <= *after), "{seen:?}");
            world.barrier().expect("all tasks reach the barrier");
            let read = |at| window.fetch_and_op(0_u64, 0, at, PredefinedOp::NoOp).expect("a word");
            assert_eq!((read(0), read(1)), (3 * 2 * ROUNDS, ROUNDS * (1 + 2)));
            window.unlock_all().expect("locked above");
        }
        allocated.free().expect("all tasks free the window");
        created.free().expect("all tasks free the window");
        environment.finalize().expect("all tasks finalize");
    });
}

/// The host of task 2 is gone with its agent. The other tasks get an error, and go on.
#[test]
fn a_host_that_is_lost_is_an_error_at_the_others() {
    let said = said_on_hosts("a_host_that_is_lost_is_an_error_at_the_others", (3, "a,b,c"), || {
        Task::join().expect("an agent made a job").job().set_continue_on_failure(true);
        let environment = Environment::init().expect("an agent made a job");
        environment.set_go_on(true).expect("no call is under way");
        let world = environment.world();
        world.barrier().expect("all tasks reach the barrier");
        if world.rank() == 2 {
            let agent = std::os::unix::process::parent_id().to_string();
            Command::new("kill").args(["-KILL", &agent]).status().expect("kill runs");
            loop {
                std::thread::park();
            }
        }
        let error = world.recv(&mut 0_u8, 2, 0).expect_err("task 2 sends nothing");
        println!("task {}: {error}", world.rank());
        let other = 1 - world.rank();
        let mut got = 0_u32;
        world.sendrecv(&world.rank(), other, 1, &mut got, other, 1).expect("both live");
        assert_eq!(got, other);
        let _ = environment.leave();
    });
    let Some((_, said)) = said else { return };
    for task in 0..2 {
        let line = said.lines().find(|line| line.contains(&format!("task {task}: ")));
        assert!(
            line.is_some_and(|line| line.contains("task 2") && line.contains("host c is lost")),
            "{said}"
        );
    }
    assert_eq!(said.matches("the body has ended").count(), 2, "{said}");
}

/// Tasks 0 and 1 share memory; the shared windows of a communicator of such tasks lie in one file; the world's tasks have a file each.
#[test]
fn tasks_of_one_host_are_a_communicator_with_shared_memory() {
    on_hosts("tasks_of_one_host_are_a_communicator_with_shared_memory", (3, "a:2,b"), || {
        let environment = Environment::init().expect("an agent made a job");
        let world = environment.world();
        let rank = world.rank();
        let near = world.split_type(Some(SplitType::Shared), 0, &Info::new());
        let near = near.expect("all tasks take part").expect("each task has a host");
        assert_eq!((near.size(), near.rank()), if rank < 2 { (2, rank) } else { (1, 0) });
        let global = |of: &Communicator| of.predefined_attribute(PredefinedAttribute::WtimeIsGlobal);
        assert_eq!((global(&near), global(&world)), (Some(1), Some(0)));
        let window = near.allocate_shared_window::<u64>(1, &Info::new()).expect("one host's memory");
        let next = (near.rank() + 1) % near.size();
        window.store(next, 0, 7 + u64::from(next)).expect("a rank");
        window.barrier().expect("all tasks reach the barrier");
        assert_eq!(window.load(near.rank(), 0).expect("a rank"), 7 + u64::from(near.rank()));
        let is_one_file = window.window().mapped_part(near.size() - 1).expect("a rank").is_some();
        assert!(is_one_file, "tasks of one host share memory");
        window.free().expect("all tasks free the window");
        environment.finalize().expect("all tasks finalize");
    });
}
