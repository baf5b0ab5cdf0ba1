//! C programs that go on after tasks have been killed: the extension ULFM (`mpi-ext.h`), under `mpiexec --with-ft ulfm`.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use am_tests::programs::{self, Scratch, run};

/// Builds a program of `c/`.
fn build(name: &str, scratch: &Scratch) -> std::path::PathBuf {
    programs::build();
    let program = scratch.path().join("program");
    let source = format!("{}/c/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let mut compile = Command::new(programs::folder().join("mpicc"));
    compile.args(["-O1", "-Wall", "-Wextra", "-Werror"]).args(programs::compiler_options());
    let (good, said) = run(compile.arg(source).arg("-o").arg(&program));
    assert!(good, "{said}");
    program
}

/// A job of this program that goes on after failures: whether it ended with 0, and what it said.
fn go_on(tasks: u32, program: &Path, arguments: &[&str]) -> (bool, String) {
    let mut job = Command::new(programs::folder().join("mpiexec"));
    job.args(["-n", &tasks.to_string(), "--with-ft", "ulfm", "--timeout", "100"]);
    run(job.arg(program).args(arguments))
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn survivors_get_errors_acknowledge_agree_revoke_and_shrink() {
    let scratch = Scratch::new("u_survivors");
    let program = build("u_survivors", &scratch);
    let (good, said) = go_on(4, &program, &[]);
    assert!(good && said.contains("all good"), "{said}");
    assert!(said.contains("task 3 was killed by signal 9 (SIGKILL) (the job went on, as asked)"), "{said}");
}

/// A partner that is killed or leaves while it connects or accepts: the call fails and names the task, and later connections succeed.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn a_connection_with_a_task_that_ends_fails() {
    let scratch = Scratch::new("u_ports");
    let program = build("u_ports", &scratch);
    let (good, said) = go_on(1, &program, &[]);
    assert!(good && said.contains("all good"), "{said}");
}

/// Without the option, a death still ends the job: the program's first error is fatal.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn without_the_option_a_death_ends_the_job() {
    let scratch = Scratch::new("u_survivors_end");
    let program = build("u_survivors", &scratch);
    let mut job = Command::new(programs::folder().join("mpiexec"));
    // With an argument, the program expects that the job does not go on.
    let (good, said) = run(job.args(["-n", "4", "--timeout", "100"]).arg(&program).arg("end"));
    assert!(!good && !said.contains("all good"), "{said}");
    assert!(said.contains("task 3") && said.contains("signal 9"), "the death is the cause: {said}");
}

/// Rounds of random deaths: `FAILURE_SEED` and `FAILURE_ROUNDS` set the first seed and the number of rounds.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn survivors_of_random_deaths_agree_and_go_on() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seed = number("FAILURE_SEED")
        .unwrap_or_else(|| SystemTime::UNIX_EPOCH.elapsed().expect("the clock is set").as_secs() % 1_000_000);
    let rounds = number("FAILURE_ROUNDS").unwrap_or(8);
    let scratch = Scratch::new("u_rounds");
    let program = build("u_rounds", &scratch);
    let mut agreements = 0;
    for seed in seed..seed + rounds {
        let tasks = 3 + u32::try_from(seed % 4).expect("it is small");
        println!("seed {seed}, {tasks} tasks");
        let log = scratch.path().join(format!("log-{seed}"));
        let (good, said) = go_on(tasks, &program, &[&seed.to_string(), &log.to_string_lossy()]);
        assert!(good, "seed {seed}: {said}");
        let told = std::fs::read_to_string(&log).expect("the tasks have written it");
        agreements += check(&told).unwrap_or_else(|what| panic!("seed {seed}: {what}\n{told}"));
    }
    println!("{agreements} agreements and shrinks");
}

/// Checks that all tasks have told the same of each agreement and of each shrink; returns their number.
fn check(told: &str) -> Result<usize, String> {
    let mut seen: HashMap<(&str, bool), &str> = HashMap::new();
    for line in told.lines() {
        let (name, rest) = line.split_once(' ').ok_or(line)?;
        let (decided, _) = rest.split_once(" task ").ok_or(line)?;
        let before = seen.entry((name, decided.ends_with(" -1"))).or_insert(decided);
        if *before != decided {
            return Err(format!("{name}: {before} and {decided}"));
        }
    }
    Ok(seen.len())
}
