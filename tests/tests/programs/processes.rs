//! Children of tasks that are lost (`c/t_lost_children.c`).

use std::path::PathBuf;
use std::process::Command;

use am_tests::programs::{self, Scratch, run};

fn build(scratch: &Scratch) -> PathBuf {
    programs::build();
    let program = scratch.path().join("program");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/c/t_lost_children.c");
    let mut compile = Command::new(programs::folder().join("mpicc"));
    compile.args(["-O1", "-Wall", "-Wextra", "-Werror"]).args(programs::compiler_options());
    let (good, said) = run(compile.arg(source).arg("-o").arg(&program));
    assert!(good, "{said}");
    program
}

/// The parents wait for their children in `MPI_Intercomm_merge`, or still start them. Task 2 or 3 is the child that is lost.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn a_child_that_is_lost_before_it_joins_ends_the_job() {
    let scratch = Scratch::new("t_lost_children");
    let program = build(&scratch);
    for (way, cause) in [
        ("exits", "exited with code 3"),
        ("leaves", "ended with code 0 without joining the job"),
        ("is-killed", "was killed by signal 9 (SIGKILL)"),
    ] {
        let mut job = Command::new(programs::folder().join("mpiexec"));
        let (good, said) = run(job.args(["-n", "2", "--timeout", "60"]).arg(&program).arg(way));
        let last = said.lines().rfind(|line| line.starts_with("amrun: ")).unwrap_or_default();
        let is_child = |task: u32| last.starts_with(&format!("amrun: task {task} {cause}"));
        assert!(!good && (is_child(2) || is_child(3)), "{way}: {said}");
    }
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn a_world_that_has_disconnected_dies_alone() {
    let scratch = Scratch::new("t_lost_alone");
    let program = build(&scratch);
    let ways = [
        ("alone", "task 2, which shares nothing with other worlds, exited with code 5"),
        ("alone-aborts", "rank 0 of MPI_COMM_WORLD called abort with code 6"),
        // The other child learns of it, and aborts.
        ("alone-leaves", "task 2 has failed (it exited (code 0) before it left the job)"),
    ];
    for (way, reason) in ways {
        let mut job = Command::new(programs::folder().join("mpiexec"));
        let (good, said) = run(job.args(["-n", "2", "--timeout", "60"]).arg(&program).arg(way));
        assert!(good && said.contains("all good"), "{way}: {said}");
        assert!(said.contains(reason) && said.contains("; the job goes on"), "{way}: {said}");
    }
}
