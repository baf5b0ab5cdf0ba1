//! What a debugger finds in the launcher by the MPIR interface: gdb plays the debugger, which starts `mpiexec`, or attaches to it.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use am_tests::programs::{self, Scratch, run};

/// Prints the table of tasks. The types of its entries are in no file that a user strips, so a debugger knows them: two pointers to text
/// and an `int`.
const TABLE: &str = r#"
printf "state %d, %d tasks\n", *(int*)&MPIR_debug_state, *(int*)&MPIR_proctable_size
set $entry = *(char**)&MPIR_proctable
printf "host %s runs %s as process %d\n", *(char**)$entry, *(char**)($entry+8), *(int*)($entry+16)
printf "host %s runs %s as process %d\n", *(char**)($entry+24), *(char**)($entry+32), *(int*)($entry+40)
"#;

/// Runs gdb with these commands and arguments; returns whether gdb succeeds, and what it and its program print.
fn gdb(scratch: &Scratch, commands: &str, arguments: &[&str]) -> (bool, String) {
    let script = scratch.path().join("commands");
    let begin = "set language c\nset pagination off\nset confirm off\nset breakpoint pending on\nset debuginfod enabled off\n";
    fs::write(&script, format!("{begin}{commands}")).expect("a test can write here");
    let mut gdb = Command::new("timeout");
    gdb.args(["--kill-after=10", "240", "gdb", "-nx", "-batch", "-x"]).arg(&script).args(arguments);
    run(gdb.stdin(Stdio::null()))
}

/// Checks the table of a job of two tasks that run `program`.
fn check_table(said: &str, program: &str) {
    assert!(said.contains("state 1, 2 tasks"), "{said}");
    let row = format!("runs {program} as process ");
    let processes: Vec<&str> =
        said.lines().filter_map(|line| line.split_once(&row)).map(|(_, pid)| pid).collect();
    assert!(processes.len() == 2 && processes[0] != processes[1], "{said}");
}

/// A debugger starts `mpiexec`, which becomes `amrun`. It stops when all tasks are there, and these wait in `MPI_Init` meanwhile.
#[test]
#[cfg_attr(not(has_gdb), ignore = "no gdb was found")]
#[cfg_attr(all(has_gdb, not(has_cc)), ignore = "no C compiler (cc) was found")]
fn a_debugger_stops_when_all_tasks_are_there() {
    programs::build();
    let scratch = Scratch::new("debugger-starts");
    let program = scratch.path().join("program");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/c/c_hello.c");
    let mut compile = Command::new(programs::folder().join("mpicc"));
    compile.args(programs::compiler_options()).arg(source).arg("-o").arg(&program);
    let (good, said) = run(&mut compile);
    assert!(good, "{said}");
    let commands = format!(
        "break main\nrun\nset var *(int*)&MPIR_being_debugged = 1\ndelete\nbreak MPIR_Breakpoint\ncontinue\n{TABLE}delete\nshell sleep 1\necho the tasks go on\\n\ncontinue\n"
    );
    let mpiexec = programs::folder().join("mpiexec");
    let (mpiexec, program) = (mpiexec.to_string_lossy(), program.to_string_lossy());
    let (good, said) = gdb(&scratch, &commands, &["--args", &*mpiexec, "-n", "2", &*program]);
    assert!(good, "{said}");
    check_table(&said, &program);
    let held = said
        .split_once("the tasks go on")
        .map(|(before, after)| (before.contains("all good"), after.contains("all good")));
    assert_eq!(held, Some((false, true)), "{said}");
}

/// A debugger attaches to the `mpiexec` of a job that runs.
#[test]
#[cfg_attr(not(has_gdb), ignore = "no gdb was found")]
fn a_debugger_finds_the_tasks_of_a_running_job() {
    programs::build();
    let scratch = Scratch::new("debugger-attaches");
    let sleep = fs::canonicalize("/bin/sleep").expect("the machine has a program sleep");
    let mut start = Command::new(programs::folder().join("mpiexec"));
    let mut job =
        start.args(["-n", "2", "--timeout", "300"]).arg(&sleep).arg("1000").spawn().expect("mpiexec starts");
    let process = job.id().to_string();
    let mut said = String::new();
    // The table is there a moment after the start of the tasks.
    for _ in 0..100 {
        said = gdb(&scratch, &format!("{TABLE}detach\n"), &["-p", &process]).1;
        if said.contains("state 1") {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    job.kill().and_then(|()| job.wait()).expect("the job can be ended");
    check_table(&said, &sleep.to_string_lossy());
}
