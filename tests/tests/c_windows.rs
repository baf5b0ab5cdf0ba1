//! C programs on the C interface: one-sided communication, sessions, buffers, error codes, the tool interface. Each is built
//! with the wrapper `mpicc` of this build and run with 1, 2 and 3 tasks.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a program may take; all take less than a second.
const LIMIT: Duration = Duration::from_secs(120);

/// The folder of this build's programs: `target/release` or `target/debug`.
fn programs() -> PathBuf {
    let own = env::current_exe().expect("a test has a path");
    own.ancestors().nth(2).expect("a test lies in target/PROFILE/deps").to_owned()
}

/// Runs a command and gives its output; ends it, and fails, past the limit.
fn run(mut command: Command) -> (bool, String) {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let end = Instant::now() + LIMIT;
    while child.try_wait().expect("the child is ours").is_none() {
        if Instant::now() > end {
            child.kill().expect("the child is ours");
            panic!("{command:?} took longer than {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().expect("the child is ours");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn has_compiler() -> bool {
    Command::new("cc").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Builds what the programs need, once for all tests of this file.
fn build() -> bool {
    static BUILT: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *BUILT.get_or_init(|| {
        if !has_compiler() {
            eprintln!("skipped: there is no C compiler (cc)");
            return false;
        }
        let mut command = Command::new(env!("CARGO"));
        command.args(["build", "-p", "mpi-over-am-abi"]).current_dir(env!("CARGO_MANIFEST_DIR"));
        if programs().ends_with("release") {
            command.arg("--release");
        }
        let built = command.status().is_ok_and(|status| status.success());
        assert!(built, "{command:?} has failed");
        true
    })
}

fn test(name: &str) {
    if !build() {
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c").join(format!("{name}.c"));
    let program = env::temp_dir().join(format!("{name}-{}", std::process::id()));
    let mut compile = Command::new(programs().join("mpicc"));
    compile.args(["-O1", "-Wall", "-Wextra", "-Werror"]).arg(&source).arg("-o").arg(&program);
    let (good, said) = run(compile);
    assert!(good, "{name} does not compile: {said}");
    for tasks in ["1", "2", "3"] {
        let mut start = Command::new(programs().join("mpiexec"));
        start.args(["-n", tasks]).arg(&program);
        let (good, said) = run(start);
        assert!(good && said.contains("all good"), "{name} with {tasks} tasks: {said}");
    }
    std::fs::remove_file(&program).expect("the program was there");
}

#[test]
fn one_sided() {
    test("w_one_sided");
}

#[test]
fn tools_codes_buffers() {
    test("w_tools");
}

#[test]
fn communicators() {
    test("c_communicators");
}

#[test]
fn attributes_hints_topologies() {
    test("c_objects");
}

#[test]
fn error_handlers_sessions() {
    test("c_errhandlers");
}
