//! The launcher as a library: what a test harness relies on.

use std::ffi::OsString;
use std::time::Duration;

use super::support::*;
use am_via_job::{Carrier, Cause, Job, TaskState};
use am_via_launch::{Bind, Ended, EndedBy, Launch, LaunchError, Running};
use am_via_shm::layout::DOORBELL_OFFSET;
use am_via_shm::{Doorbell, Mapping, Shared, SleepBarrier};

/// The actions of this binary when it runs as a task.
pub(super) fn task(role: &str) {
    if role == "task 1 ends before it joins" && std::env::var("AM_TASK").unwrap() == "1" {
        return;
    }
    let job = Job::attach().unwrap();
    match role {
        "wait for a failure" | "task 1 ends before it joins" => {
            sleep_until_a_failure(&job);
            println!("\nsaw: {}", job.failure().unwrap());
            std::process::exit(7);
        }
        "task 1 fails and the job goes on" => {
            job.set_continue_on_failure(true);
            if job.task() == 1 {
                std::process::exit(3);
            }
            sleep_until_a_failure(&job);
        }
        "task 1 ends the job that goes on" => {
            assert!(job.continues_on_failure());
            match job.task() {
                0 => std::process::exit(5),
                1 => {
                    sleep_until_a_failure(&job);
                    job.set_continue_on_failure(false);
                    job.mark_failed("enough");
                    std::process::exit(7);
                }
                _ => std::thread::sleep(Duration::from_secs(3600)),
            }
        }
        "task 1 panics" => {
            job.install_panic_hook();
            if job.task() == 1 {
                panic!("no input left");
            }
            sleep_until_a_failure(&job);
        }
        "task 0 leaves early" => {
            if job.task() == 0 {
                std::process::exit(0);
            }
            sleep_until_a_failure(&job);
            println!("\nsaw: {}", job.failure().unwrap());
        }
        "task 1 gives up" => {
            if job.task() == 1 {
                job.mark_failed("no input");
            }
            sleep_until_a_failure(&job);
            println!("\nsaw: {}", job.failure().unwrap());
        }
        "tell" => println!(
            "\ncredits {} pinned {} cpus {:?}",
            job.setting("credits").unwrap(),
            std::env::var("AM_PINNED").unwrap_or_else(|_| "not said".to_owned()),
            std::thread::available_parallelism().unwrap(),
        ),
        "stay" => sleep_until_a_failure(&job),
        "wait until all have joined" => {
            while (0..job.num_tasks()).any(|task| job.pid(task) == 0) {
                assert_eq!(job.failure(), None);
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        other => panic!("no role {other}"),
    }
}

/// Sleeps on this task's doorbell, as a wait for a message does, until a task has failed.
fn sleep_until_a_failure(job: &Job) {
    // SAFETY: only this task's doorbell is used.
    let file = unsafe { job.control_file(job.task()) }.unwrap();
    let mapping = Mapping::new(std::os::fd::AsFd::as_fd(&file), DOORBELL_OFFSET as u64, 4096).unwrap();
    let doorbell: Shared<Doorbell> = mapping.atomics(0).unwrap();
    while job.failure_epoch() == 0 {
        doorbell.sleep(SleepBarrier::SenderFence, Duration::from_secs(600), || job.failure_epoch() != 0);
    }
}

/// How long the other tasks may go on after a failure before the launcher kills them.
const PATIENCE: Duration = Duration::from_secs(60);

fn all_attached(running: &Running) {
    let tasks = running.job().num_tasks();
    wait_until(|| (0..tasks).all(|task| running.job().state(task) == TaskState::Running));
}

#[test]
fn each_task_has_its_number_its_output_and_its_end() {
    let _watchdog = Watchdog::new("each_task_has_its_number_its_output_and_its_end");
    let dir = TempDir::new();
    let script = "echo out $AM_TASK of $AM_NUM_TASKS; echo err $AM_TASK >&2; test $AM_TASK != 2 || exit 9";
    let report = Launch::new("sh", ["-c", script]).tasks(3).capture(&dir.0).grace(PATIENCE).run().unwrap();
    for task in 0..3 {
        assert_eq!(report.stdout(task).unwrap(), format!("out {task} of 3\n"));
        assert_eq!(report.stderr(task).unwrap(), format!("err {task}\n"));
    }
    let ends: Vec<_> = report.tasks.iter().map(|task| task.ended.unwrap()).collect();
    assert_eq!(ends, [Ended::Exited(0), Ended::Exited(0), Ended::Exited(9)]);
    assert_eq!(report.exit_code(), 9);
    assert!(!report.is_success());
    assert_eq!(report.to_string(), "task 2 exited with code 9: err 2");
}

#[test]
fn a_job_that_goes_well_says_nothing() {
    let _watchdog = Watchdog::new("a_job_that_goes_well_says_nothing");
    let report = Launch::new("true", [""; 0]).tasks(5).run().unwrap();
    assert!(report.is_success());
    assert_eq!((report.exit_code(), report.to_string().as_str()), (0, ""));
}

#[test]
fn the_others_are_woken_when_a_task_is_killed() {
    let _watchdog = Watchdog::new("the_others_are_woken_when_a_task_is_killed");
    let dir = TempDir::new();
    let running = role_job("wait for a failure").tasks(3).capture(&dir.0).grace(PATIENCE).start().unwrap();
    all_attached(&running);
    running.kill(1);
    let report = running.wait().unwrap();
    let failure = report.failure.clone().unwrap();
    assert_eq!((failure.task, failure.cause), (1, Cause::Signalled(9)));
    for task in [0, 2] {
        assert_eq!(report.tasks[task as usize].ended, Some(Ended::Exited(7)));
        let said = report.stdout(task).unwrap();
        assert!(said.contains("saw: task 1 was killed by signal 9 (SIGKILL)"), "{said}");
    }
    assert_eq!(report.exit_code(), 128 + 9);
}

#[test]
fn who_does_not_end_when_told_is_killed() {
    let _watchdog = Watchdog::new("who_does_not_end_when_told_is_killed");
    // Task 0 fails when the other tasks ignore the signals.
    let script = "trap '' TERM INT; cd \"$0\"; >$AM_TASK
        if test $AM_TASK = 0; then until test -e 1 -a -e 2; do sleep 0.01; done; exit 4; fi
        while :; do sleep 1000; done";
    let dir = TempDir::new();
    let args = ["-c".as_ref(), script.as_ref(), dir.0.as_os_str()];
    let report = Launch::new("sh", args).tasks(3).grace(Duration::from_millis(50)).run().unwrap();
    assert_eq!(report.exit_code(), 4);
    assert!(report.tasks[1].killed && report.tasks[2].killed && !report.tasks[0].killed);
    assert_eq!(report.left_behind, 0);
}

#[test]
fn a_program_may_ask_that_the_job_goes_on() {
    let _watchdog = Watchdog::new("a_program_may_ask_that_the_job_goes_on");
    let dir = TempDir::new();
    let report = role_job("task 1 fails and the job goes on")
        .tasks(3)
        .capture(&dir.0)
        .grace(Duration::ZERO)
        .run()
        .unwrap();
    assert!(report.went_on);
    assert_eq!(report.exit_code(), 0);
    assert!(report.to_string().starts_with("task 1 exited with code 3"), "{report}");
    assert!(report.to_string().ends_with("(the job went on, as asked)"), "{report}");
}

/// The tasks ask for nothing: the launcher was told to let the job go on. The last task ends the job, and its code is the job's.
#[test]
fn the_launcher_may_be_told_that_the_job_goes_on() {
    let _watchdog = Watchdog::new("the_launcher_may_be_told_that_the_job_goes_on");
    let script = "case $AM_TASK in 1) exit 3;; 2) sleep 0.2; kill -9 $$;; *) sleep 0.4;; esac";
    let job = || Launch::new("sh", ["-c", script]).grace(Duration::ZERO);
    let report = job().tasks(4).keep_going().run().unwrap();
    assert!(report.went_on);
    assert_eq!(report.exit_code(), 0, "tasks 0 and 3 ended well: {report}");
    assert_eq!(
        report.to_string(),
        "task 1 exited with code 3 (the job went on, as asked; task 2 failed, too)"
    );
    assert!(report.tasks.iter().all(|task| !task.killed));
    let report = job().tasks(4).run().unwrap();
    assert_eq!(report.exit_code(), 3);
    assert!(report.tasks[0].killed, "without the request the failure ends the job: {report}");

    let dir = TempDir::new();
    let role = || role_job("task 1 ends the job that goes on").tasks(3).capture(&dir.0).grace(PATIENCE);
    let report = role().keep_going().run().unwrap();
    assert_eq!(report.exit_code(), 7, "the code of the task that ended the job: {report}");
    assert!(!report.went_on);
    assert!(report.to_string().starts_with("task 1 gave up: enough"), "{report}");
}

#[test]
fn a_panic_is_told_with_its_words_and_its_place() {
    let _watchdog = Watchdog::new("a_panic_is_told_with_its_words_and_its_place");
    let dir = TempDir::new();
    let report = role_job("task 1 panics").tasks(2).capture(&dir.0).grace(PATIENCE).run().unwrap();
    assert_eq!(report.exit_code(), 101);
    let line = report.to_string();
    assert!(
        line.starts_with("task 1 exited with code 101: panicked at am-via/launch/tests/launch/library.rs:"),
        "{line}"
    );
    assert!(line.ends_with(": no input left"), "{line}");
}

#[test]
fn a_task_that_leaves_early_is_told_to_the_others() {
    let _watchdog = Watchdog::new("a_task_that_leaves_early_is_told_to_the_others");
    let dir = TempDir::new();
    let report = role_job("task 0 leaves early").tasks(2).capture(&dir.0).run().unwrap();
    let said = report.stdout(1).unwrap();
    assert!(said.contains("saw: task 0 exited (code 0) before"), "{said}");
    assert!(report.is_success(), "the other tasks did not need it: {report:?}");
    assert_eq!(report.exit_code(), 0);
}

/// Arguments of `sh` for a task that runs `first` and then plays a role.
fn after(first: &str) -> Vec<OsString> {
    let script = format!("{first}; exec \"$@\"");
    let shell = ["-c".into(), script.into(), "wrapper".into(), own_binary()];
    shell.into_iter().chain(role_args()).collect()
}

#[test]
fn a_task_that_ends_before_it_joins_ends_the_job_of_those_that_wait_for_it() {
    let _watchdog = Watchdog::new("a_task_that_ends_before_it_joins_ends_the_job_of_those_that_wait_for_it");
    let shell = |first: &str| Launch::new("sh", after(first)).env(ROLE, "wait for a failure");
    let jobs = [
        role_job("task 1 ends before it joins"),
        shell("test $AM_TASK != 1 || exit 0"),
        // Task 1's program runs behind a shell that waits for it, and ends before the other tasks have joined.
        shell("if test $AM_TASK = 1; then sh -c 'exit 0'; exit 0; fi; sleep 0.3"),
    ];
    for job in jobs {
        let dir = TempDir::new();
        let report = job.tasks(3).capture(&dir.0).grace(PATIENCE).run().unwrap();
        let failure = report.failure.clone().unwrap();
        assert_eq!((failure.task, failure.cause), (1, Cause::NeverJoined), "{report}");
        assert_eq!(report.exit_code(), 1);
        let line = report.to_string();
        assert!(line.starts_with("task 1 ended with code 0 without joining the job: task "), "{line}");
        assert!(line.contains("MPI_Init (or Task::join)"), "{line}");
        for task in [0, 2] {
            let said = report.stdout(task).unwrap();
            assert!(said.contains("saw: task 1 ended with code 0 without joining the job"), "{said}");
        }
    }
}

#[test]
fn a_job_that_no_task_joins_is_a_good_one() {
    let _watchdog = Watchdog::new("a_job_that_no_task_joins_is_a_good_one");
    let report = Launch::new("sh", ["-c", "test $AM_TASK = 0 || sleep 0.2"]).tasks(3).run().unwrap();
    assert!(report.is_success() && report.to_string().is_empty(), "{report}");
}

#[test]
fn a_task_may_join_when_its_wrapper_has_ended() {
    let _watchdog = Watchdog::new("a_task_may_join_when_its_wrapper_has_ended");
    let dir = TempDir::new();
    let leave_behind = "if test $AM_TASK = 1; then (sleep 0.5; exec \"$@\") & exit 0; fi";
    let report = Launch::new("sh", after(leave_behind))
        .env(ROLE, "wait until all have joined")
        .tasks(2)
        .capture(&dir.0)
        .run()
        .unwrap();
    assert!(report.is_success(), "{report}: {:?}", report.stderr(0));
}

#[test]
fn a_task_that_gives_up_fails_the_job_whatever_its_exit_code() {
    let _watchdog = Watchdog::new("a_task_that_gives_up_fails_the_job_whatever_its_exit_code");
    let dir = TempDir::new();
    let report = role_job("task 1 gives up").tasks(2).capture(&dir.0).grace(PATIENCE).run().unwrap();
    assert!(report.stdout(0).unwrap().contains("saw: task 1 gave up: no input"));
    assert_eq!((report.exit_code(), report.to_string().as_str()), (1, "task 1 gave up: no input"));
}

#[test]
fn the_time_limit_ends_a_job() {
    let _watchdog = Watchdog::new("the_time_limit_ends_a_job");
    let report = Launch::new("sleep", ["1000"]).tasks(2).timeout(Duration::from_millis(100)).run().unwrap();
    assert_eq!(report.ended_by, Some(EndedBy::Timeout));
    assert_eq!(report.exit_code(), 124);
    assert_eq!(report.to_string(), "the time limit was reached while all 2 tasks still ran");
}

#[test]
fn dropping_the_handle_ends_the_job() {
    let _watchdog = Watchdog::new("dropping_the_handle_ends_the_job");
    let mark = unique();
    let script = "sleep 1000 & sleep 1000 & wait";
    let running = Launch::new("sh", ["-c", script]).tasks(2).env(MARK, &mark).start().unwrap();
    wait_until(|| marked(&mark).len() == 6);
    drop(running);
    assert_eq!(marked(&mark), Vec::<u32>::new());
}

#[test]
fn what_a_task_left_in_the_background_ends_with_the_job() {
    let _watchdog = Watchdog::new("what_a_task_left_in_the_background_ends_with_the_job");
    let mark = unique();
    let report = Launch::new("sh", ["-c", "sleep 1000 & exit 0"]).tasks(3).env(MARK, &mark).run().unwrap();
    assert!(report.is_success());
    assert_eq!(marked(&mark), Vec::<u32>::new());
}

#[test]
fn several_jobs_at_a_time_do_not_meet() {
    let _watchdog = Watchdog::new("several_jobs_at_a_time_do_not_meet");
    let jobs: Vec<_> = (0..4)
        .map(|number| {
            std::thread::spawn(move || {
                let dir = TempDir::new();
                let running =
                    role_job("wait for a failure").tasks(2).capture(&dir.0).grace(PATIENCE).start().unwrap();
                all_attached(&running);
                running.signal(number % 2, 10);
                let report = running.wait().unwrap();
                let failure = report.failure.clone().unwrap();
                assert_eq!((failure.task, failure.cause), (number % 2, Cause::Signalled(10)));
            })
        })
        .collect();
    for job in jobs {
        job.join().unwrap();
    }
}

#[test]
fn settings_and_processors_reach_the_tasks() {
    let _watchdog = Watchdog::new("settings_and_processors_reach_the_tasks");
    let dir = TempDir::new();
    let report = role_job("tell").env("AM_CREDITS", "7").capture(&dir.0).run().unwrap();
    assert!(report.stdout(0).unwrap().contains("credits 7 pinned not said"), "{report:?}");
    let cpus = std::thread::available_parallelism().unwrap().get();
    for (tasks, pinned) in [(1, "1"), (cpus + 1, "0")] {
        let report = role_job("tell")
            .tasks(u32::try_from(tasks).unwrap())
            .bind(Bind::Cores(1))
            .capture(&dir.0)
            .run()
            .unwrap();
        let said = report.stdout(0).unwrap();
        assert!(said.contains(&format!("credits 64 pinned {pinned} cpus 1")), "{said}");
    }
}

#[test]
fn a_job_that_cannot_start_says_why_and_whose_fault_it_is() {
    let _watchdog = Watchdog::new("a_job_that_cannot_start_says_why_and_whose_fault_it_is");
    let nothing = [""; 0];
    let error = Launch::new("no-such-program", nothing).run().unwrap_err();
    assert!(matches!(error, LaunchError::ProgramNotFound { .. }), "{error}");
    let error = Launch::new("./Cargo.toml", nothing).run().unwrap_err();
    assert!(matches!(error, LaunchError::NotExecutable { .. }), "{error}");
    let error = Launch::new("true", nothing).wdir("/no/such/directory").run().unwrap_err();
    assert!(matches!(error, LaunchError::WorkingDirectory { .. }), "{error}");
    let error = Launch::new("true", nothing).tasks(0).run().unwrap_err();
    assert!(matches!(error, LaunchError::Job(_)), "{error}");
    let error = Launch::new("true", nothing).env("AM_CREDITS", "none").run().unwrap_err();
    assert!(error.to_string().contains("AM_CREDITS=\"none\""), "{error}");
    let error = Launch::new("true", nothing).capture("/proc/no").run().unwrap_err();
    assert!(matches!(error, LaunchError::Capture { .. }), "{error}");
}

#[test]
fn a_program_that_the_system_refuses_starts_no_task() {
    let _watchdog = Watchdog::new("a_program_that_the_system_refuses_starts_no_task");
    let dir = TempDir::new();
    let program = dir.0.join("script");
    std::fs::write(&program, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let error = Launch::new(&program, [""; 0]).tasks(2).run().unwrap_err();
    assert!(matches!(error, LaunchError::Spawn { task: 0, .. }), "{error}");
    assert_eq!(error.exit_code(), 127);
}

#[test]
fn a_job_ended_by_its_caller_says_so() {
    let _watchdog = Watchdog::new("a_job_ended_by_its_caller_says_so");
    let dir = TempDir::new();
    let running = role_job("stay").tasks(2).capture(&dir.0).start().unwrap();
    all_attached(&running);
    assert_eq!(running.job().pid(1), running.pid(1));
    running.end();
    let report = running.wait().unwrap();
    assert_eq!(report.ended_by, Some(EndedBy::Caller));
    assert!(report.tasks.iter().all(|task| task.ended == Some(Ended::Signalled(9))));
}
