//! Tests of the harness: it must detect failures, since all other tests depend on that.

use am_tests::harness::{Outcome, job};
use am_via::job::Cause;
use am_via_launch::Ended;

fn is_no_success(outcome: &Outcome) {
    assert!(!outcome.is_success, "{outcome:?}");
}

#[test]
fn each_task_runs_the_body_of_the_job_that_it_belongs_to() {
    let test = "each_task_runs_the_body_of_the_job_that_it_belongs_to";
    job(test).tasks(2).run_and_judge(|| println!("first"), |outcome| assert!(outcome.is_success));
    let second = || println!("second in task {}", std::env::var("AM_TASK").expect("a task has a number"));
    job(test).tasks(3).env("COLOUR", "blue").run_and_judge(second, |outcome| {
        assert!(outcome.is_success);
        assert_eq!(outcome.tasks.len(), 3);
        for (number, task) in outcome.tasks.iter().enumerate() {
            assert!(task.stdout.contains(&format!("second in task {number}")), "{}", task.stdout);
            assert!(!task.stdout.contains("first"), "{}", task.stdout);
        }
    });
}

#[test]
fn a_name_that_is_no_test_is_no_success() {
    job("no_such_test").tasks(2).run_and_judge(|| {}, is_no_success);
}

#[test]
fn a_body_that_leaves_the_process_is_no_success() {
    #[expect(clippy::exit, reason = "this is what is tested")]
    let body = || std::process::exit(0);
    job("a_body_that_leaves_the_process_is_no_success").run_and_judge(body, is_no_success);
}

#[test]
fn a_panic_of_one_task_is_the_failure_of_the_job() {
    let body = || assert_ne!(std::env::var("AM_TASK").as_deref(), Ok("1"), "planned panic");
    job("a_panic_of_one_task_is_the_failure_of_the_job").tasks(3).run_and_judge(body, |outcome| {
        is_no_success(outcome);
        let failure = outcome.failure.as_ref().expect("a task failed");
        assert_eq!((failure.task, failure.cause), (1, Cause::Exited(101)));
        assert!(outcome.tasks[1].stderr.contains("planned panic"), "{outcome:?}");
        assert_eq!(outcome.tasks[0].ended, Some(Ended::Exited(0)));
    });
}

#[test]
fn a_job_that_hangs_is_ended() {
    let hang = || loop {
        std::thread::park();
    };
    let soon = std::time::Duration::from_millis(500);
    job("a_job_that_hangs_is_ended").tasks(2).time_limit(soon).run_and_judge(hang, |outcome| {
        is_no_success(outcome);
        assert_eq!(outcome.line, "the time limit was reached while all 2 tasks still ran");
    });
}
