//! Programs that hang: the launcher reports what each task does, and which task waits for which. Each program is ended from outside.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use am_core::shared::SharedContext;
use am_tests::programs::{self, Scratch};
use am_via::Task;

/// Compiles the program with this build's wrapper, once, and returns its path.
fn program() -> &'static PathBuf {
    static PROGRAM: OnceLock<(Scratch, PathBuf)> = OnceLock::new();
    let (_, path) = PROGRAM.get_or_init(|| {
        programs::build();
        let scratch = Scratch::new("hangs");
        let path = compile(&programs::folder(), &scratch);
        (scratch, path)
    });
    path
}

/// Compiles the program with the wrapper in the folder `built`.
fn compile(built: &Path, scratch: &Scratch) -> PathBuf {
    let path = scratch.path().join("k_hangs");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/c/k_hangs.c");
    let mut compiler = Command::new(built.join("mpicc"));
    let compiled = compiler.args(["-g", "-O0", "-Wall", "-Wextra", "-Werror", source, "-o"]).arg(&path);
    assert!(compiled.status().is_ok_and(|status| status.success()), "{compiled:?}");
    path
}

fn amrun(tasks: u32, options: &[&str], shape: &str) -> Command {
    let path = program();
    let mut command = Command::new(programs::folder().join("amrun"));
    command.arg("-n").arg(tasks.to_string()).args(options).arg(path).arg(shape);
    command
}

/// A job on this machine with a time limit, which is a number of seconds.
fn job_of(tasks: u32, shape: &str) -> impl Fn(&str) -> Command {
    move |limit| amrun(tasks, &["--timeout", limit], shape)
}

/// Runs a job that its time limit ends, and returns the launcher's output, which has the `expected` words. On a busy machine the tasks may
/// not wait yet when the limit is reached; so the job is repeated with longer limits.
#[track_caller]
pub(super) fn said_before_the_limit(job: impl Fn(&str) -> Command, expected: &[&str]) -> String {
    for limit in ["4", "10", "25"] {
        let said = said_before(limit, &job);
        if expected.iter().all(|words| said.contains(words)) {
            return said;
        }
    }
    let said = said_before("60", &job);
    must_say(&said, expected);
    said
}

fn said_before(limit: &str, job: &impl Fn(&str) -> Command) -> String {
    let (well, said) = programs::run(&mut job(limit));
    assert!(!well, "it must hang: {said}");
    said
}

#[track_caller]
fn must_say(said: &str, expected: &[&str]) {
    for words in expected {
        assert!(said.contains(words), "\"{words}\" is not in:\n{said}");
    }
}

/// One test for all jobs that only wait, which run at once: as tests of their own they would keep all test threads of a small machine
/// waiting.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn jobs_that_hang_are_reported_with_the_reason() {
    at_once(&[
        two_tasks_that_receive_from_each_other_are_named_with_their_lines,
        ranks_of_another_communicator_are_told_as_tasks,
        two_long_sends_that_nobody_receives_are_a_dead_lock,
        the_task_that_does_not_come_to_a_barrier_is_found,
        a_message_with_another_tag_is_told,
        messages_of_a_barrier_are_not_told_as_the_programs,
        the_task_that_has_a_window_s_lock_is_named,
        a_receive_from_a_task_that_has_left_is_told,
        a_wait_for_a_connection_names_the_port,
        a_wait_that_ends_is_reported_where_that_is_asked_for,
        a_dead_lock_is_reported_once_without_being_asked_for_and_as_json_where_that_is_wanted,
        a_dead_lock_of_tasks_with_threads_is_reported_without_being_asked_for,
        a_dead_lock_of_several_threads_of_each_task_is_reported_without_being_asked_for,
        a_dead_lock_beside_progress_threads_is_reported_without_being_asked_for,
        a_task_whose_threads_wait_for_each_other_is_reported_without_being_asked_for,
        a_thread_that_may_still_send_is_no_dead_lock,
    ]);
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
#[cfg_attr(all(has_cc, not(has_libfabric)), ignore = "libfabric.so.1 was not found")]
fn jobs_of_several_hosts_that_hang_are_reported() {
    at_once(&[
        a_task_on_another_host_that_does_not_come_to_a_barrier_is_found,
        a_dead_lock_between_hosts_is_reported_with_the_hosts,
    ]);
}

/// The optimiser lets some calls jump to other functions, which then stand for the calls in a stack.
#[test]
#[ignore = "long"]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn each_call_that_waits_is_named_in_an_optimised_library() {
    const AT_ONCE: usize = 9;
    let scratch = Scratch::new("optimised");
    let built = &programs::build_optimised();
    let program = compile(built, &scratch);
    let run = |tasks: &str, arguments: &[&str]| {
        let mut command = Command::new(built.join("amrun"));
        programs::run(command.args(["-n", tasks]).args(arguments))
    };
    let path = program.to_str().expect("a name of ours");
    let (well, names) = run("1", &[path, "names"]);
    assert!(well, "{names}");
    let names: Vec<&str> = names.lines().collect();
    assert!(names.len() > 20, "{names:?}");
    for some in names.chunks(AT_ONCE) {
        std::thread::scope(|scope| {
            for name in some {
                scope.spawn(move || {
                    let job = |limit: &str| {
                        let mut command = Command::new(built.join("amrun"));
                        command.args(["-n", "2", "--timeout", limit, path, "call", name]);
                        command
                    };
                    said_before_the_limit(
                        job,
                        &[&format!("task 0: waits in {name}, called by call at k_hangs.c:")],
                    );
                });
            }
        });
    }
}

/// A thread that panics prints its message, and the scope then panics, too.
fn at_once(jobs: &[fn()]) {
    std::thread::scope(|scope| jobs.iter().for_each(|job| drop(scope.spawn(job))));
}

fn two_tasks_that_receive_from_each_other_are_named_with_their_lines() {
    let said = said_before_the_limit(
        job_of(2, "cycle"),
        &[
            "task 0: waits in MPI_Recv, called by receive_from at k_hangs.c:",
            "receive from task 1, tag 7",
            "receive from task 0, tag 7",
            "a deadlock: task 0 waits for task 1, which waits for task 0",
        ],
    );
    assert!(!said.contains("has failed"), "no task has failed:\n{said}");
}

fn ranks_of_another_communicator_are_told_as_tasks() {
    // Rank r of the communicator is task 1 - r, so task 0 is rank 1.
    said_before_the_limit(job_of(2, "reversed"), &["tag 3", "a deadlock"]);
}

fn two_long_sends_that_nobody_receives_are_a_dead_lock() {
    let expected = ["MPI_Send", "4194304 bytes", "to task 1", "to task 0", "a deadlock"];
    said_before_the_limit(job_of(2, "sends"), &expected);
}

fn the_task_that_does_not_come_to_a_barrier_is_found() {
    let expected = ["waits in MPI_Barrier", "task 1: does not wait for a message: it runs"];
    let said = said_before_the_limit(job_of(3, "barrier"), &expected);
    assert!(!said.contains("a deadlock"), "task 1 may still come:\n{said}");
}

fn messages_of_a_barrier_are_not_told_as_the_programs() {
    let said =
        said_before_the_limit(job_of(3, "not_barrier"), &["receive from task 1, tag 16", "MPI_Barrier"]);
    assert!(!said.contains("for a receive"), "{said}");
}

fn a_message_with_another_tag_is_told() {
    let expected = ["receive from task 1, tag 12", "1 message waits for a receive", "tag 11"];
    said_before_the_limit(job_of(2, "wrong_tag"), &expected);
}

fn a_wait_that_ends_is_reported_where_that_is_asked_for() {
    // Both jobs only wait, so they run at once.
    let not_asked = std::thread::spawn(|| programs::run(amrun(2, &[], "slow").arg("3")));
    // On a busy machine a wait of 3 seconds may be too short for a report.
    for (seconds, is_last) in [("3", false), ("9", false), ("30", true)] {
        let (well, said) = programs::run(amrun(2, &["--hang-report", "1"], "slow").arg(seconds));
        assert!(well, "{said}");
        let is_reported = said.contains("receive from task 1, tag 2");
        assert!(is_reported || !is_last, "{said}");
        if is_reported {
            break;
        }
    }
    let (well, said) = not_asked.join().expect("the thread only runs a job");
    assert!(well && said.is_empty(), "no report is printed for a job that goes on: {said}");
}

fn the_task_that_has_a_window_s_lock_is_named() {
    said_before_the_limit(
        job_of(2, "lock"),
        &[
            "task 1: waits in MPI_Win_lock, called by lock at k_hangs.c:",
            "window lock of task 0",
            "a deadlock: task 0 waits for task 1, which waits for task 0",
        ],
    );
}

fn a_receive_from_a_task_that_has_left_is_told() {
    // Task 1 waits in `MPI_Finalize` for task 0.
    said_before_the_limit(
        job_of(2, "ended"),
        &["receive from task 1, tag 9", "task 1: waits in MPI_Finalize"],
    );
}

fn a_wait_for_a_connection_names_the_port() {
    let expected = ["task 0: waits in MPI_Comm_accept", "a connection to port 0 of this task"];
    said_before_the_limit(job_of(2, "port"), &expected);
}

/// Reads the launcher's standard error until a line contains `words`.
fn read_until(child: &mut Child, words: &str) -> String {
    let mut said = String::new();
    let mut lines = BufReader::new(child.stderr.take().expect("the output is piped"));
    while !said.contains(words) {
        let read = lines.read_line(&mut said).expect("what a launcher says is text");
        assert!(read > 0, "the launcher never printed \"{words}\":\n{said}");
    }
    said
}

fn a_dead_lock_is_reported_once_without_being_asked_for_and_as_json_where_that_is_wanted() {
    let mut job = amrun(2, &["--hang-format", "json", "--timeout", "60"], "cycle")
        .stderr(Stdio::piped())
        .spawn()
        .expect("amrun can be started");
    let said = read_until(&mut job, "\n");
    let report: serde_json::Value =
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!(report["tasks"][1]["waits"]["call"], "MPI_Recv", "{said}");
    assert_eq!(report["tasks"][1]["waits"]["facts"]["operations"][0]["partner"], 0, "{said}");
    assert!(report["verdict"].as_str().is_some_and(|verdict| verdict.starts_with("a deadlock")), "{said}");
    end(job);
}

fn a_dead_lock_of_tasks_with_threads_is_reported_without_being_asked_for() {
    let mut job = amrun(2, &["--timeout", "60"], "probes")
        .stderr(Stdio::piped())
        .spawn()
        .expect("amrun can be started");
    let said = read_until(&mut job, "a deadlock");
    must_say(&said, &["waits in MPI_Mprobe", "receive from task 1, tag 5", "receive from task 0, tag 5"]);
    end(job);
}

/// One of the threads waits for both, and they use almost no processor time, so that the task counts as one that waits.
fn a_dead_lock_of_several_threads_of_each_task_is_reported_without_being_asked_for() {
    let mut job = amrun(2, &["--timeout", "60"], "two_threads")
        .stderr(Stdio::piped())
        .spawn()
        .expect("amrun can be started");
    let said = read_until(&mut job, "a deadlock");
    must_say(&said, &["waits in MPI_Recv", "receive from task 1, tag 13", "receive from task 1, tag 14"]);
    end(job);
}

/// The thread of the program, and not the progress thread, notes the wait.
fn a_dead_lock_beside_progress_threads_is_reported_without_being_asked_for() {
    let mut job = amrun(2, &["--timeout", "60"], "cycle")
        .env("AM_PROGRESS_THREAD", "on")
        .stderr(Stdio::piped())
        .spawn()
        .expect("amrun can be started");
    let said = read_until(&mut job, "a deadlock");
    must_say(&said, &["task 0: waits in MPI_Recv, called by receive_from at k_hangs.c:", "tag 7"]);
    end(job);
}

/// The job's task runs this test, too, and then has two threads that wait for counters. Nobody increments them. The task has one test
/// thread, so the test runs in the process's first thread, which would otherwise wait with a time limit.
#[test]
fn threads_that_share_a_context_and_hang_are_reported_without_being_asked_for() {
    const IS_TASK: &str = "TEST_IS_TASK";
    if std::env::var_os(IS_TASK).is_some() {
        let mut context = Task::join().and_then(|task| task.context()).expect("the launcher made a job");
        let counters = [context.counter().expect("the first"), context.counter().expect("the second")];
        let shared = SharedContext::new(context);
        std::thread::scope(|scope| {
            let wait = |counter| shared.wait_counter(counter, 1).expect("until the job ends");
            for counter in counters {
                scope.spawn(move || wait(counter));
            }
        });
    }
    programs::build();
    let own = std::env::current_exe().expect("a test knows its binary");
    let name = "hangs::threads_that_share_a_context_and_hang_are_reported_without_being_asked_for";
    let mut job = Command::new(programs::folder().join("amrun"))
        .args(["-n", "2", "--timeout", "60"])
        .arg(own)
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(IS_TASK, "1")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("amrun can be started");
    let said = read_until(&mut job, "no operation is under way");
    must_say(&said, &["waits in SharedContext::wait_counter"]);
    end(job);
}

fn a_task_whose_threads_wait_for_each_other_is_reported_without_being_asked_for() {
    let mut job = amrun(2, &["--timeout", "60"], "lost_work")
        .stderr(Stdio::piped())
        .spawn()
        .expect("amrun can be started");
    let said = read_until(&mut job, "no message will come");
    let expected = [
        "the program \"worker\" is neither in the directories of PATH",
        "task 0: does not wait for a message: each of its threads waits for another one",
        "receive from task 0, tag 15",
        "task 1 waits for task 0, whose threads wait for each other",
    ];
    must_say(&said, &expected);
    end(job);
}

fn a_thread_that_may_still_send_is_no_dead_lock() {
    let expected =
        ["receive from task 1, tag 6", "a time limit or another thread of the task may end each wait"];
    let said = said_before_the_limit(job_of(2, "sleeper"), &expected);
    assert!(!said.contains("a deadlock"), "{said}");
    for shape in ["computer", "poller"] {
        let said = said_before("9", &job_of(2, shape));
        assert!(!said.contains("a deadlock"), "{shape}: {said}");
    }
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn a_signal_asks_for_a_report_and_a_stopped_task_is_in_it() {
    let mut job = amrun(2, &["--timeout", "60", "--verbose"], "barrier")
        .stderr(Stdio::piped())
        .spawn()
        .expect("amrun can be started");
    let stderr = BufReader::new(job.stderr.take().expect("the output is piped"));
    let mut lines = stderr.lines().map(|line| line.expect("what a launcher says is text"));
    // "amrun: 2 tasks (processes 12 13) on 2 processors".
    let first = lines.next().expect("a verbose launcher says something");
    let pids = first.split(['(', ')']).nth(1).and_then(|words| words.strip_prefix("processes "));
    let pids: Vec<i32> = pids
        .unwrap_or_else(|| panic!("{first}"))
        .split(' ')
        .map(|pid| pid.parse().unwrap_or_else(|error| panic!("{error}: {first}")))
        .collect();
    let launcher = i32::try_from(job.id()).expect("a process id");
    // Asks for reports until one has these words about task 0: it takes a while until task 0 is in the barrier and has noted its wait.
    let mut ask_until = |words: &str| loop {
        signal(launcher, "USR2");
        // The line begins with "tasks 0-1:" if both tasks do the same.
        let is_of_task_0 = |line: &String| line.contains("task 0:") || line.contains("tasks 0");
        let line = lines.find(is_of_task_0).expect("each report has a line of task 0");
        if line.contains(words) {
            return line;
        }
    };
    // A stopped task does not renew its note: on a busy machine the note may be too old when the launcher makes its report.
    loop {
        ask_until("MPI_Barrier");
        signal(pids[0], "STOP");
        if ask_until("is stopped by a signal or a debugger").contains("MPI_Barrier") {
            break;
        }
        signal(pids[0], "CONT");
    }
    // `amrun report PROCESS`, which also serves jobs that another launcher has started.
    let ask = |of: &str| {
        let answer = Command::new(programs::folder().join("amrun")).args(["report", of]).output();
        let answer = answer.expect("amrun can be started");
        let said = [answer.stdout, answer.stderr].concat();
        (answer.status.code(), String::from_utf8_lossy(&said).into_owned())
    };
    let (code, said) = ask(&pids[1].to_string());
    assert_eq!(code, Some(0), "{said}");
    must_say(&said, &["task 0: is stopped by a signal or a debugger; waited in MPI_Barrier", "task 1: "]);
    let (code, said) = ask(&std::process::id().to_string());
    assert!(code == Some(2) && said.contains("is in no job"), "{said}");
    signal(pids[0], "CONT");
    end(job);
}

/// The output of `amrun report` for a process.
fn report(of: u32) -> String {
    let answer = Command::new(programs::folder().join("amrun")).args(["report", &of.to_string()]).output();
    let answer = answer.expect("amrun can be started");
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    String::from_utf8_lossy(&answer.stdout).into_owned()
}

fn children(pid: u32) -> Vec<u32> {
    let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let listed = listed.expect("the process lives");
    listed.split_whitespace().map(|pid| pid.parse().expect("a number")).collect()
}

/// A job of two tasks on two hosts, which its time limit ends.
fn on_hosts(scratch: &Scratch, limit: &str, shape: &str) -> Command {
    let mut command = programs::amrun_on_hosts(scratch, 2, "a,b");
    command.args(["--timeout", limit]).arg(program()).arg(shape);
    command
}

fn a_task_on_another_host_that_does_not_come_to_a_barrier_is_found() {
    let scratch = Scratch::new("hangs-hosts-barrier");
    // The report comes before the limit ends the job. Without the limit there is no report, since one task computes.
    said_before_the_limit(
        |limit| on_hosts(&scratch, limit, "barrier"),
        &["task 0 on host a: waits in MPI_Barrier", "task 1 on host b: does not wait for a message: it runs"],
    );
}

fn a_dead_lock_between_hosts_is_reported_with_the_hosts() {
    let dead_lock = [
        "task 0 on host a: waits in MPI_Recv, called by receive_from at k_hangs.c:",
        "receive from task 1, tag 7",
        "task 1 on host b: waits in MPI_Recv",
        "a deadlock: task 0 waits for task 1, which waits for task 0",
    ];
    let scratch = Scratch::new("hangs-hosts");
    let mut child =
        on_hosts(&scratch, "60", "cycle").stderr(Stdio::piped()).spawn().expect("amrun can be started");
    let stderr = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut lines = stderr.lines().map(|line| line.expect("what a launcher says is text"));
    let mut next_report = || {
        let mut said = String::new();
        while !said.contains("a deadlock") {
            said += &lines.next().expect("the job goes on");
        }
        said
    };
    must_say(&next_report(), &dead_lock);
    signal(i32::try_from(child.id()).expect("a process id"), "USR2");
    must_say(&next_report(), &dead_lock);
    must_say(&report(child.id()), &dead_lock);
    let launcher = children(child.id())[0];
    must_say(&report(launcher), &dead_lock);
    // An agent knows only the tasks of its host.
    let said = report(children(launcher)[0]);
    must_say(&said, &["task 0: waits in MPI_Recv", "task 1: runs on another host"]);
    end(child);
}

fn signal(pid: i32, name: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status();
    assert!(sent.is_ok_and(|status| status.success()), "kill -{name} {pid}");
}

/// Ends a job as a user would.
fn end(mut job: Child) {
    signal(i32::try_from(job.id()).expect("a process id"), "TERM");
    let _ = job.wait().expect("the launcher is our child");
}
