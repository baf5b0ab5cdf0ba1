//! The multi-process harness: a test starts a job whose tasks are its own test binary, with arguments that run only this test.
//!
//! ```no_run
//! use am_tests::harness::job;
//!
//! // In a `#[test] fn two_tasks_talk()`:
//! job("two_tasks_talk").tasks(2).env("AM_MEMORY", "staged").run(|| {
//!     let mpi = mpi_over_am::Environment::init().expect("a job");
//!     mpi.world().barrier().expect("all tasks reach the barrier");
//!     mpi.finalize().expect("all tasks finalize");
//! });
//! ```
//!
//! The test function runs in the test and in each task. At [`Job::run`], the test starts the job and judges it, and the task runs the body
//! and ends. So a test depends on no file that another command built. Code before the job must do the same in the test and in its tasks, so
//! it must not depend on random choices or on anything that only the test has.
//!
//! A job has a time limit. Each task's output is written to files; if the job does not end as expected, the harness prints and keeps them.
//! After each job the harness looks for processes that the job has left behind.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use am_core_conform::watchdog::Watchdog;
use am_core_conform::{is_long, pairs};
use am_via::job::Failure;
use am_via_launch::{Ended, Launch, Record, Recorded, Report};

use crate::programs::provider_settings;

/// Environment variable of a task: the number of its job in the test.
const JOB_NUMBER: &str = "TEST_JOB_NUMBER";
/// A variable in the environment of every process of a job. Its value is unique, so that the processes can be found.
const MARK: &str = "TEST_JOB_MARK";
/// The last line of a task whose body has returned: a binary without a test of this name also exits with 0.
const BODY_ENDED: &str = "(the task's body has ended)";
/// Default time limit: far longer than any job takes, however busy the machine is.
const TIME_LIMIT: Duration = Duration::from_secs(400);
/// Additional time for the launcher, after which the harness gives up.
const TIME_TO_CLEAN_UP: Duration = Duration::from_secs(60);
/// How long tasks may go on after one has failed. Longer than the launcher's default, because tests check what the other tasks print.
const GRACE: Duration = Duration::from_secs(60);
/// Maximum number of bytes of a task's output that are printed when its job fails; the files have the whole output.
const SHOWN_BYTES_MAX: usize = 6000;

/// A job for the test function `test`, with one task. `test` is the function's name without its module, which must be unique among the
/// tests of a binary that start jobs.
#[must_use]
pub fn job(test: &'static str) -> Job {
    Job {
        test,
        tasks: 1,
        env: Vec::new(),
        time_limit: TIME_LIMIT,
        shell: None,
        launcher: true,
        record: Record::Nothing,
    }
}

/// Describes a job that a test runs.
#[derive(Debug)]
pub struct Job {
    test: &'static str,
    tasks: u32,
    env: Vec<(String, String)>,
    time_limit: Duration,
    shell: Option<String>,
    launcher: bool,
    record: Record,
}

/// How a job ended.
#[derive(Debug)]
pub struct Outcome {
    /// One entry for each task.
    pub tasks: Vec<TaskOutcome>,
    /// The first failure that the launcher saw; `None` if there was no failure, or no launcher.
    pub failure: Option<Failure>,
    /// The launcher's line about the job; empty if all went well.
    pub line: String,
    /// Whether every task ended with code 0 after its body had returned.
    pub is_success: bool,
    /// The recorded events of each task; empty without [`Job::record`].
    pub recorded: Vec<Recorded>,
}

/// How a task ended.
#[derive(Debug)]
pub struct TaskOutcome {
    /// How the process ended, if that is known.
    pub ended: Option<Ended>,
    /// The task's standard output.
    pub stdout: String,
    /// The task's standard error.
    pub stderr: String,
}

impl Job {
    /// Starts `tasks` tasks.
    #[must_use]
    pub fn tasks(mut self, tasks: u32) -> Self {
        self.tasks = tasks;
        self
    }

    /// Sets an environment variable for the tasks, for example a setting.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Connects the tasks by this provider of libfabric.
    #[must_use]
    pub fn over(self, provider: &str) -> Self {
        self.env("AM_DEVICE", "ofi").env("FI_PROVIDER", provider)
    }

    /// Ends the job as failed if it lasts longer than this.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Makes a shell start each task after `command`, such as `ulimit -v 100000`.
    #[must_use]
    pub fn after(mut self, command: impl Into<String>) -> Self {
        self.shell = Some(command.into());
        self
    }

    /// Lets the tasks record events.
    #[must_use]
    pub fn record(mut self, wanted: Record) -> Self {
        self.record = wanted;
        self
    }

    /// Starts the only task without the launcher, as a user might.
    #[must_use]
    pub fn without_launcher(mut self) -> Self {
        self.launcher = false;
        self
    }

    /// Runs `body` in each task, and waits for the end.
    ///
    /// # Panics
    /// In the test: a task failed, or a process is left behind; each task's end and output are printed. In a task: `body` panics.
    pub fn run(self, body: impl FnOnce()) {
        self.run_and_judge(body, |outcome| assert!(outcome.is_success, "the job failed"));
    }

    /// Runs `body` in each task and waits for the end. In the test, `judge` then checks the outcome.
    ///
    /// # Panics
    /// In the test: `judge` panics, or a process is left behind; each task's end and output are printed. In a task: `body` panics.
    pub fn run_and_judge(self, body: impl FnOnce(), judge: impl FnOnce(&Outcome)) {
        let number = number_of_this_job(self.test);
        match std::env::var(JOB_NUMBER) {
            Ok(wanted) if wanted == number.to_string() => be_a_task(body),
            // A task of another job of this test.
            Ok(_) => {}
            Err(_) => self.start_and_judge(number, judge),
        }
    }

    fn start_and_judge(&self, number: u32, judge: impl FnOnce(&Outcome)) {
        let what = format!("{} (job {number} of the test: {} tasks, {:?})", self.test, self.tasks, self.env);
        let _watchdog = Watchdog::new(what.clone(), self.time_limit + TIME_TO_CLEAN_UP);
        let mark = unique();
        let logs = Logs::new(&mark);
        let outcome = if self.launcher {
            self.launch(number, &mark, &logs.0)
        } else {
            self.start_alone(number, &mark, &logs.0)
        };
        let _story = StoryOnPanic { what, logs: &logs.0, outcome: &outcome };
        judge(&outcome);
        let left = marked(MARK, &mark);
        assert!(left.is_empty(), "the job has ended and has left processes: {left:?}");
        let _ = fs::remove_dir_all(&logs.0);
    }

    fn launch(&self, number: u32, mark: &str, logs: &Path) -> Outcome {
        let (program, args) = self.command();
        let mut launch = Launch::new(program, args).tasks(self.tasks).record(self.record).capture(logs);
        if let Some((name, value)) = provider_settings() {
            launch = launch.env(name, value);
        }
        // The tests of a binary share the processors, but their tasks do not know that: a task that spins keeps the tasks of other jobs
        // from running. The method `auto` needs spins, since only tasks that spin copy through pipes.
        let is_auto = |(name, value): &(String, String)| name != "AM_MEMORY" || value == "auto";
        if !is_long() && !self.env.iter().all(is_auto) {
            launch = launch.env("AM_SPIN_MICROSECONDS_MAX", "0");
        }
        for (name, value) in &self.env {
            launch = launch.env(name, value);
        }
        let launch = launch.env(JOB_NUMBER, number.to_string()).env(MARK, mark);
        match launch.timeout(self.time_limit).grace(GRACE).run() {
            Ok(report) => Outcome::of_report(&report),
            Err(error) => panic!("the job of {} could not be started: {error}", self.test),
        }
    }

    fn start_alone(&self, number: u32, mark: &str, logs: &Path) -> Outcome {
        assert_eq!(self.tasks, 1, "without a launcher there is one task");
        let (program, args) = self.command();
        let file = |name| File::create(logs.join(name)).expect("a test can write where temporary files go");
        let status = Command::new(program)
            .args(args)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .env(JOB_NUMBER, number.to_string())
            .env(MARK, mark)
            .stdin(Stdio::null())
            .stdout(file("task-0.stdout"))
            .stderr(file("task-0.stderr"))
            .status()
            .expect("a test can start its own binary");
        let read =
            |name| String::from_utf8_lossy(&fs::read(logs.join(name)).unwrap_or_default()).into_owned();
        let ended = status.code().map(Ended::Exited);
        let task = TaskOutcome { ended, stdout: read("task-0.stdout"), stderr: read("task-0.stderr") };
        let is_success = task.is_success();
        Outcome { tasks: vec![task], failure: None, line: String::new(), is_success, recorded: Vec::new() }
    }

    /// The command that runs this test alone, without capturing its output: this binary, or a shell that runs it after another command.
    fn command(&self) -> (OsString, Vec<OsString>) {
        let own: OsString = std::env::current_exe().expect("a test knows its binary").into();
        let path = path_of(self.test);
        let args = ["--exact", &path, "--include-ignored", "--nocapture", "--test-threads=1"];
        let args = args.map(OsString::from);
        match &self.shell {
            None => (own, args.to_vec()),
            Some(first) => {
                let script = format!("{first} && exec \"$0\" \"$@\"");
                (
                    OsString::from("sh"),
                    [OsString::from("-c"), script.into(), own].into_iter().chain(args).collect(),
                )
            }
        }
    }
}

impl Outcome {
    fn of_report(report: &Report) -> Self {
        let tasks: Vec<TaskOutcome> = (0u32..)
            .zip(&report.tasks)
            .map(|(task, entry)| TaskOutcome {
                ended: entry.ended,
                stdout: report.stdout(task).unwrap_or_default(),
                stderr: report.stderr(task).unwrap_or_default(),
            })
            .collect();
        let is_success =
            report.is_success() && !tasks.is_empty() && tasks.iter().all(TaskOutcome::is_success);
        Self {
            tasks,
            failure: report.failure.clone(),
            line: report.to_string(),
            is_success,
            recorded: report.recorded.clone(),
        }
    }
}

impl TaskOutcome {
    /// Whether the task ended with code 0 after its body had returned.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.ended == Some(Ended::Exited(0)) && self.stdout.lines().any(|line| line == BODY_ENDED)
    }

    fn how(&self) -> String {
        match self.ended {
            Some(Ended::Exited(0)) if !self.is_success() => "ended before its body did".to_owned(),
            Some(Ended::Exited(code)) => format!("exited with code {code}"),
            Some(Ended::Signalled(number)) => format!("was killed by signal {number}"),
            None => "ended, with an unknown status".to_owned(),
        }
    }
}

/// The full path of test `name` in this binary, with its modules. If there is no such test, `name` itself: the job's tasks then report that
/// they found nothing to run.
///
/// # Panics
/// Several tests have this name, or the binary cannot be started to list its tests.
fn path_of(name: &str) -> String {
    static TESTS: OnceLock<Vec<String>> = OnceLock::new();
    let tests = TESTS.get_or_init(|| {
        let own = std::env::current_exe().expect("a test knows its binary");
        let list = Command::new(own).args(["--list", "--format", "terse"]).output();
        let list = list.expect("a test can start its own binary").stdout;
        let list = String::from_utf8_lossy(&list).into_owned();
        list.lines().filter_map(|line| line.strip_suffix(": test").map(str::to_owned)).collect()
    });
    let mut paths = tests.iter().filter(|path| path.rsplit("::").next() == Some(name));
    let path = paths.next().map_or(name, String::as_str);
    assert!(paths.next().is_none(), "more than one test is called {name}");
    path.to_owned()
}

/// Runs the body and ends the process, since only the test runs the rest of the test function.
#[expect(
    clippy::exit,
    reason = "a task has to end with its body; otherwise it would run the rest of the test"
)]
fn be_a_task(body: impl FnOnce()) {
    body();
    println!("\n{BODY_ENDED}");
    let _ = std::io::stdout().flush();
    std::process::exit(0);
}

/// Number of jobs that this test has reached before in this process.
fn number_of_this_job(test: &'static str) -> u32 {
    static COUNTS: Mutex<Option<HashMap<&'static str, u32>>> = Mutex::new(None);
    let mut counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    let count = counts.get_or_insert_default().entry(test).or_insert(0);
    *count += 1;
    *count - 1
}

/// A word that no other job, test or run uses.
fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The folder of a job's logs. It stays unless the job ends as expected.
struct Logs(PathBuf);

impl Logs {
    fn new(mark: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("am-tests-{mark}"));
        fs::create_dir_all(&folder).expect("a test can write where temporary files go");
        Self(folder)
    }
}

/// Prints the job's output if the test panics before the value is dropped.
struct StoryOnPanic<'a> {
    what: String,
    logs: &'a Path,
    outcome: &'a Outcome,
}

impl Drop for StoryOnPanic<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let mut story = format!("\nin {}: {}\n", self.what, self.outcome.line);
        for (number, task) in self.outcome.tasks.iter().enumerate() {
            let _ = writeln!(story, "--- task {number} {}", task.how());
            for (name, text) in [("output", &task.stdout), ("errors", &task.stderr)] {
                if !text.trim().is_empty() {
                    let _ = writeln!(story, "    {name}:\n{}", end_of(text));
                }
            }
        }
        let _ = writeln!(story, "--- the logs are kept in {}", self.logs.display());
        eprintln!("{story}");
    }
}

fn end_of(text: &str) -> &str {
    let mut start = text.len().saturating_sub(SHOWN_BYTES_MAX);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text[start..].trim_end()
}

/// The values of `AM_MEMORY`: the methods of access to a peer's memory.
pub const WAYS: [&str; 4] = ["auto", "job", "kernel", "staged"];

/// Providers of libfabric over which tests run: the default one for jobs of several hosts (before libfabric 1.18), and two that work
/// differently.
pub const PROVIDERS: [&str; 3] = ["tcp;ofi_rxm", "net", "shm"];

/// Jobs that together have each number of tasks and each method of memory access. If [`is_long`], all combinations; and if three is among
/// the numbers, three tasks over each of [`PROVIDERS`]. A single task accesses only its own memory, so a job of one has one method.
#[must_use]
pub fn jobs(test: &'static str, tasks: &[u32]) -> Vec<Job> {
    let (alone, together): (Vec<u32>, Vec<u32>) = tasks.iter().partition(|&&tasks| tasks == 1);
    let mut settings = pairs(&together, &WAYS);
    settings.extend(alone.into_iter().map(|tasks| (tasks, WAYS[0])));
    let mut jobs: Vec<Job> =
        settings.into_iter().map(|(tasks, way)| job(test).tasks(tasks).env("AM_MEMORY", way)).collect();
    if is_long() && tasks.contains(&3) {
        jobs.extend(PROVIDERS.map(|provider| job(test).tasks(3).over(provider)));
    }
    jobs
}

/// The live processes whose environment has the variable `name` with this value.
pub(crate) fn marked(name: &str, value: &str) -> Vec<u32> {
    let wanted = format!("{name}={value}");
    let is_marked = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    let processes = fs::read_dir("/proc").expect("the tests run on Linux, with /proc");
    processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).filter(is_marked).collect()
}
