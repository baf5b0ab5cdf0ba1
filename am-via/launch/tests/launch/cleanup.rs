//! Nothing is left behind after signals to the launcher, or after the death of any process of a job.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::support::*;
use am_via_launch::Launch;

/// Runs when this binary is the launcher that a test kills.
pub(super) fn task() {
    println!();
    let report = Launch::new("sh", ["-c", WITH_CHILD]).tasks(2).run();
    panic!("the launcher was to be killed: {report:?}");
}

/// A task that starts another process and waits for it.
const WITH_CHILD: &str = "sleep 1000 & echo ready; wait";
/// A task that starts a process which is hard to find: the process has a session of its own, its parent is dead, and
/// its environment is empty. The command line of the process contains `$1`.
const WITH_HIDDEN: &str = "(setsid env -i sh -c 'sleep 1000; true' \"$1\" &); sleep 1000 & echo ready; wait";

/// Starts `amrun`, and waits until each of the 2 tasks says that it is ready.
fn start(mark: &str, script: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = amrun(mark, &["-n", "2", "sh", "-c", script, "task", mark]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    for _ in 0..2 {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
    }
    (child, lines)
}

/// The second process of `amrun`: the launcher proper.
fn launcher_of(guard: &Child) -> u32 {
    let children = children(guard.id());
    assert_eq!(children.len(), 1, "the first process has one child");
    children[0]
}

fn nothing_is_left(mark: &str) {
    wait_until(|| marked(mark).is_empty() && called(mark).is_empty());
}

#[test]
fn killing_the_launcher_leaves_nothing() {
    let _watchdog = Watchdog::new("killing_the_launcher_leaves_nothing");
    for script in [WITH_CHILD, WITH_HIDDEN] {
        let mark = unique();
        let (mut child, _lines) = start(&mark, script);
        wait_until(|| !called(&mark).is_empty());
        child.kill().unwrap();
        child.wait().unwrap();
        nothing_is_left(&mark);
    }
}

#[test]
fn killing_the_launchers_second_process_leaves_nothing() {
    let _watchdog = Watchdog::new("killing_the_launchers_second_process_leaves_nothing");
    for script in [WITH_CHILD, WITH_HIDDEN] {
        let mark = unique();
        let (mut child, _lines) = start(&mark, script);
        kill("KILL", launcher_of(&child));
        assert_eq!(child.wait().unwrap().code(), Some(128 + 9));
        assert_eq!((marked(&mark), called(&mark)), (Vec::new(), Vec::new()));
    }
}

#[test]
fn killing_both_processes_of_the_launcher_leaves_nothing() {
    let _watchdog = Watchdog::new("killing_both_processes_of_the_launcher_leaves_nothing");
    let mark = unique();
    let (mut child, _lines) = start(&mark, WITH_CHILD);
    let second = launcher_of(&child);
    // One call kills both, as in `pkill -9 amrun`, so that neither has time to act.
    let both = [child.id().to_string(), second.to_string()];
    assert!(Command::new("kill").arg("-KILL").args(both).status().unwrap().success());
    child.wait().unwrap();
    nothing_is_left(&mark);
}

#[test]
fn killing_a_program_that_launches_by_the_library_leaves_nothing() {
    let _watchdog = Watchdog::new("killing_a_program_that_launches_by_the_library_leaves_nothing");
    let mark = unique();
    let mut launcher = Command::new(own_binary())
        .args(role_args())
        .env(ROLE, "launch")
        .env(MARK, &mark)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(launcher.stdout.take().unwrap()).lines();
    assert_eq!(lines.map_while(Result::ok).filter(|line| line.ends_with("ready")).take(2).count(), 2);
    // The launcher, two tasks, and the child of each task. A child can't be found while it turns into `sleep` (exec).
    wait_until(|| marked(&mark).len() == 5);
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    nothing_is_left(&mark);
}

#[test]
fn killing_a_task_ends_the_job_and_leaves_nothing() {
    let _watchdog = Watchdog::new("killing_a_task_ends_the_job_and_leaves_nothing");
    let mark = unique();
    let (child, _lines) = start(&mark, WITH_HIDDEN);
    let task = *children(launcher_of(&child))
        .iter()
        .find(|&&pid| {
            std::fs::read_to_string(format!("/proc/{pid}/environ")).is_ok_and(|env| env.contains("AM_TASK=1"))
        })
        .unwrap();
    kill("KILL", task);
    let output = wait(child);
    assert_eq!(output.status.code(), Some(128 + 9));
    assert!(stderr(&output).contains("task 1 was killed by signal 9 (SIGKILL)"), "{}", stderr(&output));
    assert_eq!((marked(&mark), called(&mark)), (Vec::new(), Vec::new()));
}

#[test]
fn a_signal_is_passed_on_and_ends_the_job() {
    let _watchdog = Watchdog::new("a_signal_is_passed_on_and_ends_the_job");
    for (signal, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
        let mark = unique();
        // The sleeper may get the signal first and end the wait.
        let script = format!(
            "trap 'echo got {signal}; exit 0' {signal}; sleep 1000 & echo ready; while :; do wait; sleep 0.05; done"
        );
        let (mut child, mut lines) = start(&mark, &script);
        kill(signal, child.id());
        let mut said = String::new();
        lines.read_to_string(&mut said).unwrap();
        assert_eq!(said, format!("got {signal}\n").repeat(2));
        assert_eq!(child.wait().unwrap().code(), Some(128 + number));
        assert_eq!(marked(&mark), Vec::<u32>::new());
    }
}

#[test]
fn a_second_signal_kills_who_ignores_the_first() {
    let _watchdog = Watchdog::new("a_second_signal_kills_who_ignores_the_first");
    let mark = unique();
    let script = "trap '' INT; sleep 1000 & echo ready; wait";
    let (mut child, _lines) = start(&mark, script);
    // Signals in quick succession count as one, so the test waits between them, and sends more of them while the job goes on.
    let ended = loop {
        kill("INT", child.id());
        std::thread::sleep(Duration::from_millis(400));
        if let Some(ended) = child.try_wait().unwrap() {
            break ended;
        }
    };
    assert_eq!(ended.code(), Some(128 + 2));
    assert_eq!(marked(&mark), Vec::<u32>::new());
}

#[test]
fn sigusr2_reaches_those_who_catch_it_and_ends_nobody() {
    let _watchdog = Watchdog::new("sigusr2_reaches_those_who_catch_it_and_ends_nobody");
    let mark = unique();
    // The sleeping children have no handler, so the signal would end them. They are forked before the shell has one, which they would have
    // until they execute their program. A shell that only waited could get the signal before the wait, and would then wait for ever.
    let script = r"
        sleep 1000 & child=$!
        trap 'echo report; told=1' USR2; trap 'exit 0' TERM
        echo ready
        until [ $told ]; do :; done
        kill -0 $child && echo alive
        wait";
    let (mut child, mut lines) = start(&mark, script);
    kill("USR2", child.id());
    let mut said: Vec<String> = Vec::new();
    for _ in 0..4 {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        said.push(line);
    }
    said.sort_unstable();
    assert_eq!(said, ["alive\n", "alive\n", "report\n", "report\n"]);
    kill("TERM", child.id());
    child.wait().unwrap();
    assert_eq!(marked(&mark), Vec::<u32>::new());
}

#[test]
fn all_tasks_stay_in_the_session_and_group_of_their_launcher() {
    let _watchdog = Watchdog::new("all_tasks_stay_in_the_session_and_group_of_their_launcher");
    // Fields 5 and 6 of the line: process group and session.
    let output = run(&["-n", "2", "sh", "-c", "cut -d' ' -f5,6 /proc/self/stat"]);
    let own = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = &own[own.rfind(')').unwrap() + 2..];
    let fields: Vec<&str> = after_name.split(' ').collect();
    let expected = format!("{} {}\n", fields[2], fields[3]);
    assert_eq!(stdout(&output), expected.repeat(2));
}
