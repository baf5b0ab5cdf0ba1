//! Jobs of several hosts. Each host is an agent of its own on this machine, started by a plain command instead of ssh: the tasks of an
//! agent share memory files with each other, and not with tasks of another agent.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use am_core::buffer::Access;
use am_core::error::{Error, RangeFault};
use am_core::handler::{Answer, Completion};
use am_core::task::TaskId;
use am_core::{AmOptions, GetOptions};
use am_core_conform::{conformance, is_long};
use am_tests::programs::{self, Scratch, amrun_on_hosts, run};
use am_via::Task;
use am_via_job::Carrier as _;
use am_via_ofi::Endpoint;
use am_via_os::fork::run_in_copy;
use am_via_os::process::Ended;
use mpi_over_am::attribute::PredefinedAttribute;
use mpi_over_am::op::PredefinedOp;
use mpi_over_am::window::{Assertion, Lock};
use mpi_over_am::{Communicator, Environment, Info, SplitType, op};

/// Runs `body` as each task of a job on these hosts.
fn on_hosts(test: &str, (tasks, hosts): (u32, &str), body: fn()) {
    let Some((good, said)) = said_on_hosts(test, (tasks, hosts), body) else { return };
    assert!(good, "{said}");
    println!("{said}");
    let ended = said.matches("the body has ended").count();
    assert_eq!(ended, tasks as usize, "{said}");
}

/// Like [`on_hosts`], but returns whether the job succeeded, with its output, instead of checking them. `None` in a task.
fn said_on_hosts(test: &str, (tasks, hosts): (u32, &str), body: fn()) -> Option<(bool, String)> {
    if std::env::var_os("AM_JOB").is_some() {
        body();
        println!("the body has ended");
        return None;
    }
    programs::build();
    let scratch = Scratch::new(&format!("hosts-{test}"));
    let mut command = amrun_on_hosts(&scratch, tasks, hosts);
    command.arg(std::env::current_exe().expect("a test has a path"));
    command.args(["--exact", &format!("hosts::{test}"), "--nocapture", "--test-threads=1"]);
    command.env(FOLDER, scratch.path());
    Some(run(&mut command))
}

/// The variable that names the test's folder to its tasks.
const FOLDER: &str = "TEST_FOLDER";

/// Waits until another task has made a file of the test's folder.
fn wait_for_file(name: &str) {
    let path = Path::new(&std::env::var_os(FOLDER).expect("the test sets it")).join(name);
    let end = Instant::now() + Duration::from_secs(60);
    while !path.exists() {
        assert!(Instant::now() < end, "no task says {name}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Makes a file of the test's folder.
fn make_file(name: &str) {
    let folder = std::env::var_os(FOLDER).expect("the test sets it");
    fs::write(Path::new(&folder).join(name), []).expect("a test can write to its folder");
}

/// The C programs that run on several hosts: one about hosts, those that start MPI again, one with every collective, and those with files.
#[test]
#[cfg_attr(not(has_libfabric), ignore = "libfabric.so.1 was not found")]
#[cfg_attr(all(has_libfabric, not(has_cc)), ignore = "no C compiler (cc) was found")]
fn programs_in_c_run_on_hosts() {
    programs::build();
    let scratch = Scratch::new("hosts-c");
    for name in
        ["h_hosts", "c_sessions", "c_sessions_late", "d_collectives", "o_files", "c_files", "c_datareps"]
    {
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
#[cfg_attr(not(has_libfabric), ignore = "libfabric.so.1 was not found")]
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

/// Tasks 0 and 1 share memory, and reach task 2 by the network. In the long form, tasks 2 and 3 share memory, too.
#[test]
#[cfg_attr(not(has_libfabric), ignore = "libfabric.so.1 was not found")]
fn the_suite_is_right_within_and_between_hosts() {
    let hosts = if is_long() { (4, "a:2,b:2") } else { (3, "a:2,b:1") };
    on_hosts("the_suite_is_right_within_and_between_hosts", hosts, || {
        let task = Task::join().expect("an agent made a job");
        let mut context = task.context().expect("libfabric is there (Debian: libfabric1)");
        for (name, check) in conformance::checks() {
            conformance::run(name, check, &mut context);
        }
    });
}

/// The first message between two hosts has to wait until they are connected, for which both tasks must make progress. The message leaves
/// although its sender makes no call after it.
#[test]
#[cfg_attr(not(has_libfabric), ignore = "libfabric.so.1 was not found")]
fn a_first_message_leaves_while_its_sender_computes() {
    on_hosts("a_first_message_leaves_while_its_sender_computes", (2, "a,b"), || {
        let task = Task::join().expect("an agent made a job");
        let mut context = task.context().expect("libfabric is there (Debian: libfabric1)");
        let came = context.counter().expect("a counter");
        let handler = context.register_handler(move |_| Answer::consumed(Completion::Bump(came)));
        let handler = handler.expect("the first handler");
        if task.number() == 0 {
            // No call connects the two before the message.
            wait_for_file("ready");
            context.amsend(TaskId(1), handler, &[], b"first", AmOptions::default()).expect("it is posted");
            wait_for_file("received");
        } else {
            make_file("ready");
            context.wait_counter(came, 1).expect("the message arrives");
            make_file("received");
        }
        context.gfence().expect("all tasks reach the fence");
    });
}

/// A copy of a task, made by fork, leaves the network to its task: while messages wait, while they are sent, and afterwards.
#[test]
#[cfg_attr(not(has_libfabric), ignore = "libfabric.so.1 was not found")]
fn a_copy_leaves_the_network_to_its_task() {
    on_hosts("a_copy_leaves_the_network_to_its_task", (2, "a,b"), || makes_copies(false));
}

/// In a job that goes on after failures, the end of the copy, which peers would take for the end of its task, does not end the job.
#[test]
#[cfg_attr(not(has_libfabric), ignore = "libfabric.so.1 was not found")]
fn a_copy_leaves_the_network_to_its_task_in_jobs_that_go_on_after_failures() {
    let test = "a_copy_leaves_the_network_to_its_task_in_jobs_that_go_on_after_failures";
    on_hosts(test, (2, "a,b"), || makes_copies(true));
}

fn makes_copies(goes_on: bool) {
    let task = Task::join().expect("an agent made a job");
    task.job().set_continue_on_failure(goes_on);
    let mut context = task.context().expect("libfabric is there (Debian: libfabric1)");
    let came = context.counter().expect("a counter");
    let handler = context.register_handler(move |_| Answer::consumed(Completion::Bump(came)));
    let handler = handler.expect("the first handler");
    if task.number() == 0 {
        wait_for_file("ready");
        context.amsend(TaskId(1), handler, &[], b"first", AmOptions::default()).expect("it is posted");
        for _ in 0..20 {
            let mut in_copy = Some(context);
            let ended = run_in_copy(|| {
                let mut context = in_copy.take().expect("present");
                let refused = context.amsend(TaskId(1), handler, &[], &[], AmOptions::default());
                assert!(matches!(refused, Err(Error::CopiedProcess { .. })), "{refused:?}");
                drop(context);
                0
            });
            assert_eq!(ended.expect("fork"), Ended::Exited(0));
            context = in_copy.expect("the copy took its own");
            let sent = context.amsend(TaskId(1), handler, &[], &[1; 100], AmOptions::default());
            sent.expect("the task goes on");
        }
    } else {
        make_file("ready");
        context.wait_counter(came, 21).expect("the messages arrive");
    }
    context.gfence().expect("all tasks reach the fence");
}

/// The network carries out gets as reads: no byte of a get arrives as a packet. No read uses a registration that has ended.
#[test]
#[cfg_attr(not(has_libfabric), ignore = "libfabric.so.1 was not found")]
fn the_network_reads_memory_of_other_hosts_until_its_registration_ends() {
    let test = "the_network_reads_memory_of_other_hosts_until_its_registration_ends";
    on_hosts(test, (3, "a:2,b"), || {
        const LEN: usize = (3 << 20) + 5;
        let task = Task::join().expect("an agent made a job");
        let mut context = task.context().expect("libfabric is there (Debian: libfabric1)");
        let own = task.number();
        let mut block = context.alloc(LEN).expect("3 MiB of job memory");
        block.copy_from_slice(&am_core_conform::pattern(own.into(), LEN));
        let exposed = context.expose(block, Access::READ_WRITE).expect("a registration is free");
        let addresses = context.address_init(exposed.address(0)).expect("all tasks exchange addresses");
        for (peer, address) in (0_u64..).zip(&addresses) {
            let whole = am_core_conform::pattern(peer, LEN);
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
#[cfg_attr(not(has_libfabric), ignore = "libfabric.so.1 was not found")]
fn collectives_and_long_messages_cross_three_hosts() {
    on_hosts("collectives_and_long_messages_cross_three_hosts", (4, "a,b:2,c"), || {
        let environment = Environment::init().expect("an agent made a job");
        let world = environment.world();
        let (rank, size) = (world.rank(), world.size());
        let mut sum = [0_u64];
        world.allreduce(&[u64::from(rank)], &mut sum, op::Sum).expect("all tasks reduce");
        assert_eq!(sum, [u64::from(size * (size - 1) / 2)]);
        let sent = am_core_conform::pattern(rank.into(), (1 << 20) + 3);
        let mut got = vec![0_u8; sent.len()];
        let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
        world.sendrecv(&sent, next, 1, &mut got, previous, 1).expect("the message fits");
        assert!(got == am_core_conform::pattern(previous.into(), got.len()));
        environment.finalize().expect("all tasks finalize");
    });
}

#[test]
#[cfg_attr(not(has_libfabric), ignore = "libfabric.so.1 was not found")]
fn a_port_connects_two_hosts() {
    on_hosts("a_port_connects_two_hosts", (2, "a,b"), || {
        let environment = Environment::init().expect("an agent made a job");
        crate::mpi_ports::connects(&environment);
        environment.finalize().expect("all tasks finalize");
    });
}

/// Task 2 is the second task of its host.
#[test]
#[cfg_attr(not(has_libfabric), ignore = "libfabric.so.1 was not found")]
fn only_one_task_of_a_host_sends_to_other_hosts_in_collectives() {
    on_hosts("only_one_task_of_a_host_sends_to_other_hosts_in_collectives", (4, "a,b:2,c"), || {
        let environment = Environment::init().expect("an agent made a job");
        let world = environment.world();
        let (rank, size) = (world.rank(), world.size() as usize);
        let sent = || {
            let sent = environment.counts().expect("no call is under way").packets_sent;
            sent[0] + sent[3]
        };
        let before = sent();
        for round in 0..20_u32 {
            world.barrier().expect("all tasks reach the barrier");
            let root = [0, 1, 3][round as usize % 3];
            let mut data = if rank == root { vec![round; 10_000] } else { vec![0; 10_000] };
            world.broadcast(&mut data, root).expect("all tasks broadcast");
            assert!(data.iter().all(|&value| value == round));
            let mut sums = vec![0; 10_000];
            world.allreduce(&data, &mut sums, op::Sum).expect("all tasks reduce");
            assert!(sums.iter().all(|&sum| sum == 4 * round));
            let mut all = vec![0; 5 * size];
            world.allgather(&[rank; 5], &mut all).expect("all tasks gather");
            assert!((0..).zip(all.chunks(5)).all(|(rank, block)| block == [rank; 5]));
            let (out, mut got): (Vec<u32>, _) = ((0..4).map(|to| 10 * rank + to).collect(), [0; 4]);
            world.alltoall(&out, &mut got).expect("all tasks exchange");
            assert_eq!(got, [0, 1, 2, 3].map(|from| 10 * from + rank));
        }
        if rank == 2 {
            assert_eq!(sent(), before, "packets to tasks 0 and 3");
        }
        environment.finalize().expect("all tasks finalize");
    });
}

/// Task 0 owns the element, task 1 shares memory with it, and task 2 reaches it by the network.
#[test]
#[cfg_attr(not(has_libfabric), ignore = "libfabric.so.1 was not found")]
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

/// The host of task 2 is lost, because its agent ends. The other tasks get an error, and go on.
#[test]
#[cfg_attr(not(has_libfabric), ignore = "libfabric.so.1 was not found")]
fn a_host_that_is_lost_is_an_error_at_the_others() {
    let said = said_on_hosts("a_host_that_is_lost_is_an_error_at_the_others", (3, "a,b,c"), || {
        Task::join().expect("an agent made a job").job().set_continue_on_failure(true);
        let environment = Environment::init().expect("an agent made a job");
        environment.set_go_on(true).expect("no call is under way");
        let world = environment.world();
        world.barrier().expect("all tasks reach the barrier");
        // The barrier may end in task 2 before the messages that task 2 sends in the barrier have left.
        if world.rank() < 2 {
            world.send(&1_u8, 2, 2).expect("all live");
        } else {
            for peer in 0..2 {
                world.recv(&mut 0_u8, peer, 2).expect("all live");
            }
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

/// Task 0 ends without joining the job, when task 1 has joined. Task 2 joins later. The launcher ends the job a second after task 0's end.
/// If a busy machine did not run task 2 until then, the job is run again.
#[test]
#[cfg_attr(not(has_libfabric), ignore = "libfabric.so.1 was not found")]
fn a_task_that_never_joins_is_told_to_other_hosts() {
    let run = || {
        said_on_hosts("a_task_that_never_joins_is_told_to_other_hosts", (3, "a,b,c"), || {
            let number = std::env::var("AM_TASK").expect("a task has a number");
            match &*number {
                "0" => return wait_for_file("joined"),
                "2" => wait_for_file("told"),
                _ => {}
            }
            let task = Task::join().expect("an agent made a job");
            let mut context = task.context().expect("libfabric is there (Debian: libfabric1)");
            make_file("joined");
            let error = context.gfence().expect_err("task 0 joins no fence");
            println!("task {number}: {error}");
            make_file("told");
        })
    };
    let mut last = String::new();
    for _ in 0..10 {
        let Some((good, said)) = run() else { return };
        assert!(!good, "{said}");
        let words = |task| said.lines().find(|line| line.contains(&format!("task {task}: ")));
        let is_told = |line: &str| line.contains("task 0") && line.contains("without joining the job");
        match (words(1), words(2)) {
            (Some(one), Some(two)) => return assert!(is_told(one) && is_told(two), "{said}"),
            _ => last = said,
        }
    }
    panic!("in no run were both tasks told: {last}");
}

/// The files of a job have no names, so that nothing is left of it when all of its processes are gone.
#[test]
#[cfg_attr(not(has_libfabric), ignore = "libfabric.so.1 was not found")]
fn no_process_and_no_file_is_left_whichever_process_is_killed() {
    let test = "no_process_and_no_file_is_left_whichever_process_is_killed";
    if std::env::var_os("AM_JOB").is_some() {
        let environment = Environment::init().expect("an agent made a job");
        environment.world().barrier().expect("all tasks are there");
        let maps = fs::read_to_string("/proc/self/maps").expect("a process sees its maps");
        let files = fs::read_dir("/proc/self/fd").expect("a process sees its files");
        let files = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        let names: Vec<String> = files.map(|path| path.display().to_string()).collect();
        assert!(maps.contains("/memfd:am-control") && !maps.contains("/dev/shm/"), "{maps}");
        assert!(!names.iter().any(|name| name.starts_with("/dev/shm/")), "{names:?}");
        println!("task {}", std::process::id());
        let _ = environment.world().recv(&mut 0_u8, environment.world().rank(), 0);
        return;
    }
    programs::build();
    let scratch = Scratch::new(&format!("hosts-{test}"));
    let end_of_wait = Instant::now() + Duration::from_secs(120);
    // Kills the first process; in further rounds the launcher, an agent, and a task.
    for depth in 0..4 {
        let mut command = amrun_on_hosts(&scratch, 3, "a:2,b");
        command.arg(std::env::current_exe().expect("a test has a path"));
        command.args(["--exact", &format!("hosts::{test}"), "--nocapture", "--test-threads=1"]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("amrun can be started");
        let out = BufReader::new(child.stdout.take().expect("it is piped"));
        let said = out.lines().map(|line| line.expect("the test prints text"));
        let mut processes: Vec<u32> =
            said.filter_map(|line| line.rsplit_once("task ")?.1.parse().ok()).take(3).collect();
        assert_eq!(processes.len(), 3, "a task has failed");
        let mut chain = vec![processes[2]];
        while chain[0] != child.id() {
            chain.insert(0, parent_of(chain[0]).expect("a task is a descendant of amrun"));
        }
        processes.extend(&chain);
        let killed = Command::new("kill").args(["-KILL", &chain[depth].to_string()]).status();
        assert!(killed.is_ok_and(|status| status.success()));
        assert!(!child.wait().expect("amrun is our child").success());
        while processes.iter().any(|&process| parent_of(process).is_some()) {
            assert!(
                Instant::now() < end_of_wait,
                "something is left of {processes:?}, of which {} was killed",
                chain[depth]
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The parent of a live process. Returns `None` if the process has ended, also while it is a zombie.
fn parent_of(process: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    field("State:").filter(|state| !state.starts_with(['Z', 'X']))?;
    field("PPid:")?.parse().ok()
}

/// A task that waits for a window lock sleeps until the lock is released, and reads the lock's words once, not repeatedly. The task that
/// releases the lock wakes it, on whichever hosts the two tasks and the target are. Tasks 0 and 1 share a host, and so do tasks 2 and 3.
///
/// The two tasks try again if the waiter found the lock free without a wake (it also looks at intervals, or was late), or if it had to poll
/// because the provider could not announce what arrives.
#[test]
#[cfg_attr(not(has_libfabric), ignore = "libfabric.so.1 was not found")]
fn a_window_lock_is_handed_over_between_hosts_without_polling() {
    on_hosts("a_window_lock_is_handed_over_between_hosts_without_polling", (4, "a:2,b:2"), || {
        let environment = Environment::init().expect("an agent made a job");
        let world = environment.world();
        let rank = world.rank();
        let window = world.allocate_window(8, 8, &Info::new()).expect("8 bytes");
        for (holder, waiter) in [(2, 1), (1, 2), (2, 3), (2, 0), (0, 2)] {
            world.barrier().expect("all tasks are there");
            let was_woken = (0..10).any(|_| {
                let mut word = [0_u64];
                let mut was_woken = 0_u8;
                if rank == holder {
                    window.lock(Lock::Exclusive, 0, Assertion::NONE).expect("the lock is granted");
                    world.send(&1_u8, waiter, 1).expect("it is received");
                    // Makes progress meanwhile: a waiter polls while one of its messages waits for a connection.
                    let begun = Instant::now();
                    while begun.elapsed() < Duration::from_millis(200) {
                        world.iprobe(waiter, 9).expect("the waiter lives");
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    window.put(&[u64::from(holder) + 7], 0, 0).expect("one word");
                    window.unlock(0).expect("locked above");
                    // After the message that wakes the waiter, if there is one.
                    world.send(&2_u8, waiter, 2).expect("it is received");
                    world.recv(&mut was_woken, waiter, 3).expect("it is sent");
                } else if rank == waiter {
                    world.recv(&mut 0_u8, holder, 1).expect("it is sent");
                    let counts = || environment.counts().expect("an environment counts");
                    let (before, switches) = (counts(), context_switches());
                    window.lock(Lock::Exclusive, 0, Assertion::NONE).expect("the lock is granted");
                    let (after, switches) = (counts(), context_switches() - switches);
                    window.get(&mut word, 0, 0).expect("one word");
                    window.unlock(0).expect("locked above");
                    assert_eq!(word, [u64::from(holder) + 7]);
                    let total = |packets: &[u64]| packets.iter().sum::<u64>();
                    let sent = total(&after.packets_sent) - total(&before.packets_sent);
                    let between = format!("{holder} -> {waiter}: {sent} packets sent, {switches} switches");
                    world.recv(&mut 0_u8, holder, 2).expect("it is sent");
                    let from = holder as usize;
                    let received = counts().packets_received[from] - before.packets_received[from];
                    println!("{between}, {received} received");
                    was_woken = u8::from(received > 1 && sent < 20 && switches < 50);
                    world.send(&was_woken, holder, 3).expect("it is received");
                }
                was_woken == 1 || rank != holder && rank != waiter
            });
            assert!(was_woken, "{holder} -> {waiter}: the waiter is not woken, or it polls");
        }
        window.free().expect("all tasks free the window");
        environment.finalize().expect("all tasks finalize");
    });
}

/// A task sleeps until it is woken, whether it waits for a near or a far task: it does not poll near and far tasks in turn. Task 0 has near
/// peers, task 2 has none.
#[test]
#[cfg_attr(not(has_libfabric), ignore = "libfabric.so.1 was not found")]
fn a_task_that_waits_for_another_host_sleeps_until_it_is_woken() {
    on_hosts("a_task_that_waits_for_another_host_sleeps_until_it_is_woken", (3, "a:2,b"), || {
        let environment = Environment::init().expect("an agent made a job");
        let world = environment.world();
        let rank = world.rank();
        for (receiver, sender) in [(0, 2), (2, 0), (0, 1)] {
            // After the barrier all tasks are connected, and the task without a part in this round sleeps, too.
            world.barrier().expect("all tasks are there");
            if rank == sender {
                std::thread::sleep(Duration::from_millis(600));
                world.send(&7_u8, receiver, 1).expect("it is received");
            } else if rank == receiver {
                let (mut got, before) = (0_u8, context_switches());
                world.recv(&mut got, sender, 1).expect("it is sent");
                let switches = context_switches() - before;
                assert_eq!(got, 7);
                assert!(
                    switches < 100,
                    "{switches} switches in 600 milliseconds: rank {rank} polls instead of sleeping"
                );
            }
        }
        environment.finalize().expect("all tasks finalize");
    });
}

/// Number of voluntary context switches of this thread.
fn context_switches() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").expect("a thread sees its state");
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.and_then(|count| count.trim().parse().ok()).expect("Linux counts switches")
}

/// Tasks 0 and 1 share memory: a shared window of a communicator of these tasks is in one file.
#[test]
#[cfg_attr(not(has_libfabric), ignore = "libfabric.so.1 was not found")]
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

/// Task 2 plays a process outside the job: its endpoint knows the address of task 0 without the key. Tasks 0 and 1 exchange messages
/// meanwhile. The stranger sends lines, in the name of task 1, with the numbers that task 1 is about to use, and useless messages.
#[test]
#[cfg_attr(not(has_libfabric), ignore = "libfabric.so.1 was not found")]
fn strangers_take_no_tasks_place_and_no_memory() {
    const FORGED: u32 = 20_000;
    const USELESS: u32 = 60_000;
    let test = "strangers_take_no_tasks_place_and_no_memory";
    let said = said_on_hosts(test, (3, "a,b,c"), || {
        let task = Task::join().expect("an agent made a job");
        let mut context = task.context().expect("libfabric is there (Debian: libfabric1)");
        // The number of the peer's last message, which is odd: task 0 decides about the last round.
        let last = Arc::new(AtomicU64::new(0));
        let came = context.counter().expect("a counter");
        let (told, mut expected) = (Arc::clone(&last), 0);
        let handler = context.register_handler(move |message| {
            let number = message.uhdr.try_into().map(u64::from_le_bytes).expect("8 bytes");
            expected += 2;
            assert_eq!(number & !1, expected, "the peer's messages, in order");
            if number % 2 == 1 {
                told.store(number, Ordering::Relaxed);
            }
            Answer::consumed(Completion::Bump(came))
        });
        let handler = handler.expect("the first handler");
        context.gfence().expect("all tasks have the handler");
        let own = task.number();
        if own == 2 {
            wait_for_file("begun");
            be_a_stranger(&task, FORGED, USELESS);
            make_file("done");
        } else {
            let path = Path::new(&std::env::var_os(FOLDER).expect("the test sets it")).join("done");
            let (before, mut round, mut is_last) = (resident_mb(), 0_u64, false);
            while !is_last {
                round += 2;
                is_last = own == 0 && path.exists();
                let number = (round + u64::from(is_last)).to_le_bytes();
                let sent = context.amsend(TaskId(1 - own), handler, &number, &[], AmOptions::default());
                sent.expect("it is sent");
                context.wait_counter(came, 1).expect("the other task answers");
                is_last |= last.load(Ordering::Relaxed) == round + 1;
                if (own, round) == (0, 20) {
                    make_file("begun");
                }
            }
            let grown = resident_mb().saturating_sub(before);
            println!("task {own}: {} messages, {grown} MB", round / 2);
            assert!(grown < 100, "the stranger's messages take {grown} MB");
        }
        context.gfence().expect("all tasks reach the fence");
    });
    let Some((good, said)) = said else { return };
    println!("{said}");
    assert!(good, "{said}");
    let line = said.lines().find(|line| line.contains("belong to no task of this job were dropped"));
    let line = line.expect("a line names the strangers");
    let count = line.split_once("task 0: ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    assert!(count.is_some_and(|count: u32| (1000..=FORGED + USELESS).contains(&count)), "{line}");
}

fn be_a_stranger(task: &Task, forged: u32, useless: u32) {
    let mut stranger = Endpoint::open().expect("libfabric is there");
    let mut address = task.job().network_address(0, 0).expect("the fence has used it");
    let key = address.len() - 8;
    address[key] ^= 1;
    let to = stranger.add_peer(&address).expect("an address");
    // The word of a line: kind 0, context 0, task 1.
    let word = 1 << 8;
    let mut broken = Vec::new();
    for number in 0..forged + useless {
        let mut bytes = [0; 64];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        let is_forged = number < forged;
        while !stranger
            .send(to, if is_forged { word } else { 15 }, 64, |buffer| buffer.copy_from_slice(&bytes))
            .expect("task 0 lives")
        {
            stranger.poll(&mut broken, |_, _| ()).expect("the network is there");
            std::thread::yield_now();
        }
    }
    while !stranger.is_idle() {
        stranger.poll(&mut broken, |_, _| ()).expect("the network is there");
    }
}

/// Resident memory of this process in MB.
fn resident_mb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a process sees its state");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kb = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kb.expect("Linux counts memory") / 1024
}
