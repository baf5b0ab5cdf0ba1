//! Jobs that another project's launcher starts. The launcher of these tests is a small one that speaks PMI-1, like Hydra and Slurm; its
//! tasks are this test's binary.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Barrier, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use am_core_conform::watchdog::Watchdog;
use am_via::Task;
use am_via_job::{Carrier, Job};
use am_via_os::process::{BeforeExec, before_exec};
use mpi_over_am::{Environment, op};

/// Environment variable that marks the processes of one job, including the watchers, which are copies of tasks.
const MARK: &str = "TEST_PMI_MARK";
/// Environment variable that marks a program started by a task. The program is not a task of the launcher's job.
const STARTED_BY_TASK: &str = "TEST_PMI_STARTED_BY_TASK";

/// The values that the launcher stores, and the requests that it gets.
#[derive(Debug, Default)]
struct Heard {
    values: HashMap<String, String>,
    finalized: usize,
    aborted: Option<String>,
}

/// Answers one task at the launcher's end of the task's socket until the task closes its end, and notes in `heard` what the task says.
fn serve(link: UnixStream, heard: &Mutex<Heard>, barrier: &Barrier) {
    let mut link = BufReader::new(link);
    loop {
        let mut line = String::new();
        if link.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let words: HashMap<&str, &str> =
            line.split_ascii_whitespace().filter_map(|word| word.split_once('=')).collect();
        let mut heard = heard.lock().expect("no thread of the launcher panics");
        let answer = match words["cmd"] {
            "init" => "response_to_init pmi_version=1 pmi_subversion=1 rc=0".to_owned(),
            "get_maxes" => "maxes kvsname_max=256 keylen_max=64 vallen_max=1024".to_owned(),
            "get_my_kvsname" => "my_kvsname kvsname=kvs".to_owned(),
            "put" => {
                assert!(words["key"].len() < 64 && words["value"].len() < 1024, "{line}");
                heard.values.insert(words["key"].to_owned(), words["value"].to_owned());
                "put_result rc=0 msg=success".to_owned()
            }
            "get" => match heard.values.get(words["key"]) {
                Some(value) => format!("get_result rc=0 msg=success value={value}"),
                None => "get_result rc=-1 msg=key_not_found value=unknown".to_owned(),
            },
            "barrier_in" => {
                drop(heard);
                barrier.wait();
                "barrier_out".to_owned()
            }
            "finalize" => {
                heard.finalized += 1;
                "finalize_ack".to_owned()
            }
            "abort" => {
                heard.aborted = Some(words["exitcode"].to_owned());
                continue;
            }
            other => panic!("the task says {other}"),
        };
        if writeln!(link.get_mut(), "cmd={answer}").is_err() {
            return;
        }
    }
}

/// The end of a job: each task's end and output, and the requests to its launcher.
struct Ended {
    tasks: Vec<(ExitStatus, String)>,
    heard: Heard,
}

/// The host of a task that has this host's name, and may not open the files of tasks outside its user namespace.
const APART: &str = "(apart)";

/// Runs `body` in tasks on the hosts of these names, waits until no process of the job is left, and returns how the tasks ended. In a task,
/// this function does not return. The empty name stands for this host's name.
fn launched(test: &str, hosts: &[&str], body: fn()) -> Ended {
    launched_with(&[], test, hosts, body)
}

/// [`launched`] with these variables.
#[expect(
    clippy::exit,
    reason = "a task has to end with its body; otherwise it would run the rest of the test"
)]
fn launched_with(variables: &[(&str, &str)], test: &str, hosts: &[&str], body: fn()) -> Ended {
    if std::env::var_os("PMI_FD").is_some() {
        body();
        println!("the body has ended");
        std::process::exit(0);
    }
    let _watchdog = Watchdog::new(test.to_owned(), Duration::from_secs(180));
    let mark = format!("{test}-{}", std::process::id());
    let heard = Arc::new(Mutex::new(Heard::default()));
    let barrier = Arc::new(Barrier::new(hosts.len()));
    let started: Vec<(Child, JoinHandle<()>)> = (0..hosts.len())
        .map(|task| {
            let (ours, theirs) = UnixStream::pair().expect("sockets");
            let mut command = Command::new(if hosts[task].is_empty() { "env" } else { "unshare" });
            match hosts[task] {
                "" => {}
                APART => drop(command.args(["--user", "--map-root-user"])),
                host => drop(command.args(["--uts", "sh", "-c", "hostname \"$0\"; exec \"$@\"", host])),
            }
            command.arg(std::env::current_exe().expect("a test has a path"));
            command.args(["--exact", &format!("pmi::{test}"), "--nocapture", "--test-threads=1"]);
            command.env("PMI_FD", theirs.as_raw_fd().to_string()).env_remove("AM_JOB");
            command.env("PMI_RANK", task.to_string()).env("PMI_SIZE", hosts.len().to_string());
            command
                .envs(variables.iter().copied())
                .env(MARK, &mark)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            before_exec(
                &mut command,
                BeforeExec { inherit: vec![theirs.as_raw_fd()], ..BeforeExec::default() },
            );
            let child = command.spawn().expect("the test's binary starts");
            let (heard, barrier) = (Arc::clone(&heard), Arc::clone(&barrier));
            (child, std::thread::spawn(move || serve(ours, &heard, &barrier)))
        })
        .collect();
    let mut tasks = Vec::new();
    let mut threads = Vec::new();
    for (child, thread) in started {
        let output = child.wait_with_output().expect("a child");
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        tasks.push((output.status, said.into_owned()));
        threads.push(thread);
    }
    // Nothing of the job is left: the watchers end with the tasks.
    let wanted = format!("{MARK}={mark}");
    let end = Instant::now() + Duration::from_secs(60);
    while is_any_marked(&wanted) {
        assert!(Instant::now() < end, "processes are left: {tasks:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    threads.into_iter().for_each(|thread| thread.join().expect("the launcher's thread"));
    let heard = std::mem::take(&mut *heard.lock().expect("no thread is left"));
    Ended { tasks, heard }
}

/// The watcher on this task's host, which this task, the first one there, has started: a copy of this process.
fn own_watcher() -> u32 {
    let own = std::fs::read("/proc/self/environ").expect("a task can read its own variables");
    let is_ours = |pid: &u32| {
        let read = |what: &str| std::fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
        read("comm") == b"am-watcher\n" && read("environ") == own
    };
    let processes = std::fs::read_dir("/proc").expect("a system with /proc").filter_map(Result::ok);
    let mut pids = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    pids.find(is_ours).expect("the watcher runs as long as this task does")
}

/// The host of task 1 is lost, because its watcher gets this signal. Task 0 waits until it knows that, and prints the cause.
fn lose_a_host(name: &str) {
    let task = Task::join().expect("the launcher tells of the job");
    let job: &Arc<Job> = task.job();
    job.set_continue_on_failure(true);
    let signal = |name: &str, pid: u32| {
        let sent = Command::new("kill").args([name, &pid.to_string()]).status();
        assert!(sent.expect("a shell's kill").success());
    };
    if task.number() == 1 {
        let watcher = own_watcher();
        signal(name, watcher);
        if name == "-STOP" {
            std::thread::sleep(Duration::from_secs(5));
            signal("-CONT", watcher);
        }
        return;
    }
    while !job.is_failed(1) {
        std::thread::sleep(Duration::from_millis(1));
    }
    println!("{}", job.failure().expect("one has failed"));
}

#[test]
#[cfg_attr(not(may_unshare), ignore = "namespaces may not be made here (unshare)")]
fn a_host_whose_watcher_is_killed_is_lost() {
    let ended = launched("a_host_whose_watcher_is_killed_is_lost", &["a", "b", "a"], || lose_a_host("-KILL"));
    all_well_but_lost(&ended, "task 1 is lost with its host: its watcher has ended");
}

#[test]
#[cfg_attr(not(may_unshare), ignore = "namespaces may not be made here (unshare)")]
fn a_host_whose_watcher_is_silent_is_lost() {
    let soon = [("AM_HOST_SILENCE_SECONDS_MAX", "3")];
    let test = "a_host_whose_watcher_is_silent_is_lost";
    let ended = launched_with(&soon, test, &["a", "b", "a"], || lose_a_host("-STOP"));
    all_well_but_lost(&ended, "task 1 is lost with its host: nothing was heard from it for 3 seconds");
}

fn all_well_but_lost(ended: &Ended, words: &str) {
    for (task, (status, said)) in ended.tasks.iter().enumerate() {
        assert!(status.success() && (task == 1 || said.contains(words)), "task {task}: {status}: {said}");
    }
}

fn is_any_marked(wanted: &str) -> bool {
    let processes = std::fs::read_dir("/proc").expect("a system with /proc");
    processes.filter_map(Result::ok).any(|process| {
        let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
    })
}

fn all_well(ended: &Ended) {
    for (status, said) in &ended.tasks {
        assert!(status.success() && said.contains("the body has ended"), "{status}: {said}");
    }
    assert_eq!(ended.heard.finalized, ended.tasks.len());
    assert_eq!(ended.heard.aborted, None);
}

/// All tasks are one job, which a task may leave and join again.
fn add_ranks() {
    let environment = Environment::init().expect("the launcher tells of the job");
    let world = environment.world();
    let mut sum = [0_u64];
    world.allreduce(&[u64::from(world.rank())], &mut sum, op::Sum).expect("all tasks reduce");
    let expected: u32 = std::env::var("PMI_SIZE").ok().and_then(|size| size.parse().ok()).expect("a size");
    assert_eq!((world.size(), sum), (expected, [u64::from(expected * (expected - 1) / 2)]));
    assert_eq!(world.rank().to_string(), std::env::var("PMI_RANK").expect("a rank"));
    environment.finalize().expect("all tasks finalize");
    assert_eq!(Task::join().expect("the job is still there").job().num_tasks(), expected);
}

#[test]
fn tasks_of_another_launcher_are_one_job() {
    all_well(&launched("tasks_of_another_launcher_are_one_job", &["", "", "", ""], add_ranks));
}

#[test]
#[cfg_attr(not(has_libfabric), ignore = "libfabric.so.1 was not found")]
#[cfg_attr(all(has_libfabric, not(may_unshare)), ignore = "namespaces may not be made here (unshare)")]
fn tasks_of_another_launcher_on_two_hosts_are_one_job() {
    let hosts = ["a", "b", "a", "b"];
    all_well(&launched("tasks_of_another_launcher_on_two_hosts_are_one_job", &hosts, add_ranks));
}

/// Names do not decide: tasks of one name whose memory cannot be shared are tasks of several hosts, as in containers.
#[test]
#[cfg_attr(not(has_libfabric), ignore = "libfabric.so.1 was not found")]
#[cfg_attr(all(has_libfabric, not(may_unshare)), ignore = "namespaces may not be made here (unshare)")]
fn tasks_that_cannot_share_memory_are_on_several_hosts() {
    let hosts = ["", APART, "", APART];
    all_well(&launched("tasks_that_cannot_share_memory_are_on_several_hosts", &hosts, || {
        let task = Task::join().expect("the launcher tells of the job");
        // A user namespace has one task.
        let is_near = |other: u32| other == task.number() || (task.number() % 2, other % 2) == (0, 0);
        let near: Vec<bool> = (0..4).map(|other| !task.job().is_far(other)).collect();
        assert_eq!(near, (0..4).map(is_near).collect::<Vec<_>>());
        drop(task);
        add_ranks();
    }));
}

/// A program that goes on when a task fails: task 1 is killed, and the other tasks wait until they know that, and print the cause.
fn see_a_death() {
    let task = Task::join().expect("the launcher tells of the job");
    let job: &Arc<Job> = task.job();
    job.set_continue_on_failure(true);
    let context = task.context().expect("the files are there");
    if task.number() == 1 {
        let own = std::process::id().to_string();
        Command::new("kill").args(["-KILL", &own]).status().expect("a shell's kill");
    }
    while !job.is_failed(1) {
        std::thread::sleep(Duration::from_millis(1));
    }
    println!("it {}", job.failure().expect("one has failed").cause);
    drop(context);
}

fn tells_of_the_death(ended: &Ended) {
    for (task, (status, said)) in ended.tasks.iter().enumerate() {
        assert_eq!(status.success(), task != 1, "{status}: {said}");
        // Before Linux 6.15 the watcher cannot learn how the task ended.
        let causes = ["it was killed by signal 9", "it ended behind its wrapper program"];
        assert!(task == 1 || causes.iter().any(|cause| said.contains(cause)), "{said}");
    }
}

#[test]
fn the_death_of_a_task_is_told_to_the_others() {
    tells_of_the_death(&launched("the_death_of_a_task_is_told_to_the_others", &["", "", ""], see_a_death));
}

#[test]
#[cfg_attr(not(has_libfabric), ignore = "libfabric.so.1 was not found")]
#[cfg_attr(all(has_libfabric, not(may_unshare)), ignore = "namespaces may not be made here (unshare)")]
fn the_death_of_a_task_is_told_to_other_hosts() {
    let hosts = ["a", "b", "c"];
    tells_of_the_death(&launched("the_death_of_a_task_is_told_to_other_hosts", &hosts, see_a_death));
}

#[test]
fn an_abort_is_the_launchers_to_carry_out() {
    let ended = launched("an_abort_is_the_launchers_to_carry_out", &["", ""], || {
        let environment = Environment::init().expect("the launcher tells of the job");
        if environment.world().rank() == 1 {
            environment.world().abort(7);
        }
        // Ends with an error when task 1 fails, or when the launcher ends this task.
        let _ = environment.world().barrier();
    });
    assert_eq!(ended.heard.aborted.as_deref(), Some("7"));
    assert_eq!(ended.tasks[1].0.code(), Some(7), "{}", ended.tasks[1].1);
}

/// A program that a task starts inherits the launcher's variables, but not its socket.
#[test]
fn a_program_that_a_task_starts_is_a_job_of_its_own() {
    let ended = launched("a_program_that_a_task_starts_is_a_job_of_its_own", &["", ""], || {
        let task = Task::join().expect("a job");
        if std::env::var_os(STARTED_BY_TASK).is_some() {
            assert_eq!(task.job().num_tasks(), 1);
            return;
        }
        let mut helper = Command::new(std::env::current_exe().expect("a path"));
        helper.args(std::env::args_os().skip(1)).env(STARTED_BY_TASK, "yes");
        assert!(helper.status().expect("it starts").success());
        assert_eq!(task.job().num_tasks(), 2);
    });
    all_well(&ended);
}

/// Real launchers: `AM_LAUNCHERS` has the commands (of MPICH, Intel, Open MPI, Slurm), with `;` between them.
#[test]
#[ignore = "needs a launcher of another project: .ci/run long other_mpi installs some"]
fn real_launchers_start_one_job() {
    const TEST: &str = "real_launchers_start_one_job";
    if std::env::var_os("PMI_FD").is_some() || std::env::var_os("PMIX_NAMESPACE").is_some() {
        let environment = Environment::init().expect("the launcher tells of the job");
        let world = environment.world();
        let mut sum = [0_u32];
        world.allreduce(&[world.rank()], &mut sum, op::Sum).expect("all tasks reduce");
        assert_eq!((world.size(), sum), (4, [6]));
        if std::env::args_os().any(|word| word == "abort") && world.rank() == 2 {
            world.abort(7);
        }
        environment.finalize().expect("all tasks finalize");
        println!("the body has ended");
        return;
    }
    let _watchdog = Watchdog::new(TEST.to_owned(), Duration::from_secs(180));
    let launchers = std::env::var("AM_LAUNCHERS").expect("AM_LAUNCHERS names launchers");
    for launcher in launchers.split(';') {
        let run = |more: &[&str]| {
            let mut words = launcher.split_whitespace();
            let mut command = Command::new(words.next().expect("a command"));
            command.args(words).args(["-n", "4"]).arg(std::env::current_exe().expect("a test has a path"));
            command.args([
                "--exact",
                &format!("pmi::{TEST}"),
                "--ignored",
                "--nocapture",
                "--test-threads=1",
            ]);
            let output = command.args(more).env_remove("AM_JOB").output().expect("the launcher starts");
            let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
            (output.status, said.into_owned())
        };
        let (status, said) = run(&[]);
        assert!(status.success() && said.matches("the body has ended").count() == 4, "{launcher}: {said}");
        // Slurm returns the highest exit code of all tasks.
        let (status, said) = run(&["abort"]);
        let is_slurm = launcher.contains("srun");
        assert!(status.code() == Some(7) || is_slurm && !status.success(), "{launcher}: {status} {said}");
    }
}
