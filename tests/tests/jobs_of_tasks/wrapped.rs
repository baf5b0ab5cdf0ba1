//! Tasks behind wrappers that close or renumber file descriptors still find the job's files. The wrapper is in Python, since shells cannot
//! name descriptors of several digits.

use am_tests::harness::job;
use am_via_job::{Carrier, Job};

/// Opens every file of the job.
fn reach_everything() {
    let job = Job::attach().expect("the job can be reached");
    for task in 0..job.num_tasks() {
        // SAFETY: the files are only opened.
        unsafe { job.control_file(task).and(job.heap_file(task)) }.expect("the job's files can be opened");
    }
}

/// The first command of a task's shell: replaces the shell with Python, which starts the task.
fn python(script: &str) -> String {
    format!("exec python3 -c '{script}' \"$0\" \"$@\"")
}

#[test]
#[cfg_attr(not(has_python3), ignore = "no python3 was found")]
fn a_task_attaches_when_a_wrapper_closed_all_files() {
    let script = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:], close_fds=True).returncode)";
    job("a_task_attaches_when_a_wrapper_closed_all_files")
        .tasks(3)
        .after(python(script))
        .run(reach_everything);
}

#[test]
#[cfg_attr(not(has_python3), ignore = "no python3 was found")]
fn a_task_attaches_when_a_wrapper_took_the_numbers_for_other_files() {
    let script = r#"
import os, sys
null = os.open("/dev/null", os.O_RDWR)
for number in map(int, os.listdir("/proc/self/fd")):
    if number > 2 and number != null:
        try:
            os.fstat(number)
        except OSError:
            continue
        os.dup2(null, number, inheritable=True)
os.execvp(sys.argv[1], sys.argv[1:])
"#;
    job("a_task_attaches_when_a_wrapper_took_the_numbers_for_other_files")
        .tasks(3)
        .after(python(script))
        .run(reach_everything);
}
