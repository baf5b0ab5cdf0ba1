//! Aids that the launcher's tests share: a watchdog, roles that the test binary plays as a task, and a check for living processes.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use am_via_launch::Launch;

/// The variable that tells the test binary its role as a task.
pub(crate) const ROLE: &str = "LAUNCH_TEST_ROLE";
/// The variable that marks the processes of one test.
pub(crate) const MARK: &str = "LAUNCH_TEST_MARK";

/// Ends the whole test binary if a test hangs.
pub(crate) struct Watchdog(#[expect(dead_code, reason = "dropping it is what counts")] Sender<()>);

impl Watchdog {
    pub(crate) fn new(test: &'static str) -> Self {
        let (alive, gone) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            if gone.recv_timeout(Duration::from_secs(120)) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("watchdog: {test} hangs");
                // With SIGTERM, so that `amrun` ends its job, and the sweepers, which ignore this signal, can clean up.
                children(std::process::id()).into_iter().for_each(|child| kill("TERM", child));
                std::process::abort();
            }
        });
        Self(alive)
    }
}

/// A word that no other test, run or process uses.
pub(crate) fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("mark-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A new directory, removed on drop.
pub(crate) struct TempDir(pub(crate) PathBuf);

impl TempDir {
    pub(crate) fn new() -> Self {
        let dir = std::env::temp_dir().join(format!("am-launch-{}", unique()));
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The arguments with which the test binary plays a role.
pub(crate) fn role_args() -> Vec<OsString> {
    ["--exact", "task", "--nocapture", "--test-threads=1"].map(OsString::from).to_vec()
}

pub(crate) fn own_binary() -> OsString {
    std::env::current_exe().unwrap().into()
}

/// A job whose tasks play `role`.
pub(crate) fn role_job(role: &str) -> Launch {
    Launch::new(own_binary(), role_args()).env(ROLE, role)
}

/// The role of this process, if it is a task.
pub(crate) fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// `amrun` with these arguments and this mark, without input, and with piped output.
pub(crate) fn amrun<A: AsRef<std::ffi::OsStr>>(mark: &str, args: &[A]) -> Command {
    // The caller of the tests may ignore signals, as a shell does for background commands, and all children inherit that. These tests need
    // the default actions.
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,QUIT,TERM", env!("CARGO_BIN_EXE_amrun")]);
    command.args(args).env(MARK, mark).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs `amrun` to its end.
pub(crate) fn run(args: &[&str]) -> Output {
    let mark = unique();
    let output = amrun(&mark, args).output().unwrap();
    assert_eq!(marked(&mark), Vec::<u32>::new(), "processes are left of amrun {args:?}");
    output
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The living processes whose environment has this mark.
pub(crate) fn marked(mark: &str) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}");
    pids().filter(|pid| holds(&format!("/proc/{pid}/environ"), &wanted)).collect()
}

/// The living processes with this word in their command line.
pub(crate) fn called(word: &str) -> Vec<u32> {
    pids().filter(|pid| holds(&format!("/proc/{pid}/cmdline"), word)).collect()
}

fn pids() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn holds(path: &str, word: &str) -> bool {
    fs::read(path).is_ok_and(|bytes| bytes.split(|&byte| byte == 0).any(|part| part == word.as_bytes()))
}

pub(crate) fn children(parent: u32) -> Vec<u32> {
    pids()
        .filter(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let after_name = stat.rfind(')').map_or("", |at| &stat[at + 1..]);
            after_name.split_whitespace().nth(1) == Some(&parent.to_string())
        })
        .collect()
}

/// Polls until `is_so` returns true; the watchdog ends a test in which it never does.
pub(crate) fn wait_until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal by its name.
pub(crate) fn kill(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status().unwrap().success());
}

pub(crate) fn wait(child: Child) -> Output {
    child.wait_with_output().unwrap()
}
