//! Attaching to a job: directly, behind wrappers, and without a launcher; and which processes are refused. Also how a task's death behind a
//! wrapper is seen, and that the job's files are not inherited further and vanish with the job.

use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::time::Duration;

use super::support::*;
use am_via_job::{Carrier, Cause, Job, JobError, TaskState};
use am_via_launch::{Ended, Launch};

/// The actions of this binary when it runs as a task.
pub(super) fn task(role: &str) {
    match role {
        "reach everything" => reach_everything(),
        "start another" => {
            let job = Job::attach().unwrap();
            let output =
                Command::new(own_binary()).args(role_args()).env(ROLE, "be the other").output().unwrap();
            print!("{}", stdout(&output));
            assert_eq!(job.state(job.task()), TaskState::Running);
        }
        "start a helper" => {
            let inherited = || {
                let mut helper = Command::new("ls");
                let files = stdout(&helper.args(["-l", "/proc/self/fd"]).output().unwrap());
                assert!(files.contains(" 1 -> "), "{files}");
                files.matches("memfd:am-").count()
            };
            let before = inherited();
            let job = Job::attach().unwrap();
            println!("\n{before} of {} before, {} after", 1 + 2 * job.num_tasks(), inherited());
            // SAFETY: the files are only opened.
            unsafe { job.control_file(0).and(job.heap_file(0)) }.unwrap();
        }
        "be the other" => match Job::attach() {
            Err(JobError::TaskTaken { task, pid }) => {
                println!(
                    "\ntask {task} is {}",
                    if pid == std::os::unix::process::parent_id() { "my parent" } else { "?" }
                );
            }
            other => panic!("attached as a task that is another process: {other:?}"),
        },
        "attach and abort" => {
            let job = Job::attach().unwrap();
            job.set_last_words("I cannot go on");
            if job.task() == 0 {
                std::process::abort();
            }
            while job.failure_epoch() == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            println!("\nsaw: {}", job.failure().unwrap());
        }
        "exit before leaving" => {
            let job = Job::attach().unwrap();
            if job.task() == 1 {
                std::process::exit(0);
            }
            while job.failure_epoch() == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            println!("\nsaw: {}", job.failure().unwrap());
        }
        "be alone" => {
            let job = Job::attach().unwrap();
            println!("\n{} of {}", job.task(), job.num_tasks());
        }
        "be refused" => println!("\n{}", Job::attach().unwrap_err()),
        other => panic!("no role {other}"),
    }
}

/// Opens every file of the job, and prints the task's number.
fn reach_everything() {
    let job = Job::attach().unwrap();
    for task in 0..job.num_tasks() {
        // SAFETY: the files are only opened.
        unsafe { job.control_file(task).and(job.heap_file(task)) }.unwrap();
    }
    assert!(job.launcher_alive());
    assert!(std::ptr::eq(&*job, &*Job::attach().unwrap()), "a process has one job");
    println!("\nreached {} of {}", job.task(), job.num_tasks());
}

/// Starts 3 tasks in the role "reach everything" through the wrapper `program args`, and checks that each can open all files of the job.
fn reached_behind(program: &str, args: &[&str]) {
    let dir = TempDir::new();
    let all = args.iter().map(Into::into).chain([own_binary()]).chain(role_args());
    let report = Launch::new(program, all)
        .tasks(3)
        .env(ROLE, "reach everything")
        .capture(&dir.0)
        .grace(Duration::from_secs(60))
        .run()
        .unwrap();
    for task in 0..3 {
        let said = report.stdout(task).unwrap();
        assert!(said.contains(&format!("reached {task} of 3")), "{said}\n{}", report.stderr(task).unwrap());
    }
    assert!(report.is_success(), "{report}");
}

#[test]
fn a_task_attaches_directly_and_behind_a_shell() {
    let _watchdog = Watchdog::new("a_task_attaches_directly_and_behind_a_shell");
    reached_behind("env", &[]);
    // Because of the second command, the shell starts the first one as a child instead of replacing itself (exec).
    reached_behind("sh", &["-c", "\"$@\"; exit $?", "wrapper"]);
    reached_behind("sh", &["-c", "(\"$@\"); exit $?", "wrapper"]);
}

#[test]
fn a_process_that_a_task_starts_is_not_that_task() {
    let _watchdog = Watchdog::new("a_process_that_a_task_starts_is_not_that_task");
    let dir = TempDir::new();
    let report = role_job("start another").tasks(2).capture(&dir.0).run().unwrap();
    for task in 0..2 {
        let said = report.stdout(task).unwrap();
        assert!(said.contains(&format!("task {task} is my parent")), "{said}");
    }
    assert!(report.is_success(), "{report}");
}

/// A helper that a task starts may outlive the job and run any program.
#[test]
fn what_a_task_starts_inherits_nothing_of_the_job() {
    let _watchdog = Watchdog::new("what_a_task_starts_inherits_nothing_of_the_job");
    let dir = TempDir::new();
    let report = role_job("start a helper").tasks(2).capture(&dir.0).run().unwrap();
    for task in 0..2 {
        let said = report.stdout(task).unwrap();
        assert!(said.contains("5 of 5 before, 0 after"), "{said}\n{}", report.stderr(task).unwrap());
    }
    assert!(report.is_success(), "{report}");
}

/// The system tells how a process has ended that its parent has not reaped.
#[test]
fn a_death_behind_a_wrapper_that_does_not_reap_its_child_is_told_with_its_cause() {
    let _watchdog =
        Watchdog::new("a_death_behind_a_wrapper_that_does_not_reap_its_child_is_told_with_its_cause");
    let dir = TempDir::new();
    // The wrapper of task 0 turns into a program that knows nothing of its child, and then the task begins.
    let script = "test $AM_TASK = 0 || exec \"$@\"
        (until read name </proc/$$/comm && test $name = sleep; do sleep 0.01; done; exec \"$@\") & exec sleep 1000";
    let args = ["-c", script, "wrapper"].map(Into::into).into_iter().chain([own_binary()]).chain(role_args());
    let running = Launch::new("sh", args).tasks(2).env(ROLE, "attach and abort").capture(&dir.0).start();
    let running = running.unwrap();
    wait_until(|| running.job().state(0) == TaskState::Dead);
    running.end();
    let failure = running.wait().unwrap().failure.unwrap();
    assert_eq!((failure.task, failure.cause), (0, Cause::Signalled(6)));
    assert_eq!(failure.last_words, "I cannot go on");
}

#[test]
fn a_death_behind_a_wrapper_is_seen_while_the_wrapper_lives() {
    let _watchdog = Watchdog::new("a_death_behind_a_wrapper_is_seen_while_the_wrapper_lives");
    let dir = TempDir::new();
    // The wrapper of task 0 stays; that of task 1 ends when its program has seen the failure.
    let script = "\"$@\"; test $AM_TASK != 0 || sleep 1000; exit 5";
    let args = ["-c", script, "wrapper"].map(Into::into).into_iter().chain([own_binary()]).chain(role_args());
    let report = Launch::new("sh", args)
        .tasks(2)
        .env(ROLE, "attach and abort")
        .capture(&dir.0)
        .grace(Duration::from_millis(10))
        .run()
        .unwrap();
    let said = report.stdout(1).unwrap();
    // Before Linux 6.15 the launcher cannot learn how a process has ended if another process has reaped it.
    let causes = ["was killed by signal 6 (SIGABRT)", "ended behind its wrapper program"];
    let is_told = |cause: &&str| said.contains(&format!("saw: task 0 {cause}: I cannot go on"));
    assert!(causes.iter().any(is_told), "{said}");
    assert_eq!(report.tasks[1].ended, Some(Ended::Exited(5)));
    assert!(report.tasks[0].killed);
    let failure = report.failure.unwrap();
    assert_eq!((failure.task, failure.last_words.as_str()), (0, "I cannot go on"));
}

/// The launcher does not know the number of such a task's process.
#[test]
fn an_early_exit_in_another_process_namespace_is_seen() {
    let _watchdog = Watchdog::new("an_early_exit_in_another_process_namespace_is_seen");
    let may = Command::new("unshare").args(["--pid", "--fork", "true"]).status();
    if !may.is_ok_and(|status| status.success()) {
        return println!("not tested: a test may not make a PID namespace here (unshare --pid)");
    }
    let dir = TempDir::new();
    let script = "[ $AM_TASK = 0 ] || exec unshare --pid --fork \"$@\"; exec \"$@\"";
    let args = ["-c", script, "wrapper"].map(Into::into).into_iter().chain([own_binary()]).chain(role_args());
    let report =
        Launch::new("sh", args).tasks(2).env(ROLE, "exit before leaving").capture(&dir.0).run().unwrap();
    let said = report.stdout(0).unwrap();
    assert!(said.contains("saw: task 1 exited (code 0) before it left the job"), "{said}");
    assert!(report.is_success(), "{report}");
}

#[test]
fn a_wrapper_tells_how_its_program_ended() {
    let _watchdog = Watchdog::new("a_wrapper_tells_how_its_program_ended");
    let dir = TempDir::new();
    let args = ["-c", "\"$@\"; exit $?", "wrapper"]
        .map(Into::into)
        .into_iter()
        .chain([own_binary()])
        .chain(role_args());
    let report = Launch::new("sh", args).env(ROLE, "attach and abort").capture(&dir.0).run().unwrap();
    assert_eq!(report.exit_code(), 128 + 6);
    let failure = report.failure.unwrap();
    assert_eq!((failure.task, failure.cause), (0, Cause::Signalled(6)));
}

#[test]
fn without_a_launcher_a_program_is_a_job_of_one() {
    let _watchdog = Watchdog::new("without_a_launcher_a_program_is_a_job_of_one");
    let output = Command::new(own_binary())
        .args(role_args())
        .env(ROLE, "be alone")
        .env_remove("AM_JOB")
        .output()
        .unwrap();
    assert!(stdout(&output).contains("0 of 1"), "{}", stderr(&output));
}

#[test]
fn an_invitation_to_a_job_that_is_gone_is_refused_with_what_to_do() {
    let _watchdog = Watchdog::new("an_invitation_to_a_job_that_is_gone_is_refused_with_what_to_do");
    for (invitation, part) in [("200:0:4000000000:1", "the launcher has ended"), ("nonsense", "unset AM_JOB")]
    {
        let output = Command::new(own_binary())
            .args(role_args())
            .env(ROLE, "be refused")
            .env("AM_JOB", invitation)
            .output()
            .unwrap();
        assert!(stdout(&output).contains(part), "{}{}", stdout(&output), stderr(&output));
    }
}

#[test]
fn the_memory_of_a_job_has_no_name_and_goes_with_it() {
    let _watchdog = Watchdog::new("the_memory_of_a_job_has_no_name_and_goes_with_it");
    let dir = TempDir::new();
    let running = role_job("attach and abort").tasks(2).capture(&dir.0).start().unwrap();
    wait_until(|| running.job().state(1) != TaskState::NotStarted);
    let file = format!("/proc/self/fd/{}", running.job().inherited_files()[0]);
    let inode = || std::fs::metadata(&file).ok().map(|data| data.ino());
    let before = inode();
    let link = std::fs::read_link(&file).unwrap();
    assert_eq!(link.to_string_lossy(), "/memfd:am-job (deleted)");
    running.wait().unwrap();
    assert_ne!(inode(), before);
}
