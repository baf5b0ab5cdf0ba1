//! The launcher as a library: creates a job's memory, starts its tasks, watches them, forwards their output, cleans up.
//!
//! ```no_run
//! let report = am_via_launch::Launch::new("my_program", ["input.txt"]).tasks(4).run()?;
//! println!("{report}");
//! # Ok::<(), am_via_launch::LaunchError>(())
//! ```
//!
//! The launcher promises:
//!
//! - The tasks are children of a thread of this process, in its session, process group and scheduling group, so that a terminal's Ctrl-C
//!   and job control reach them, and a task that yields its processor yields it to another task.
//! - When a task fails, the other tasks learn of it, may go on for a grace period, and are then killed. The report says which task failed
//!   first, and how.
//! - When the job is over, no process of the job is left, including its tasks' descendants. When this process is killed, the kernel kills
//!   the tasks, and the sweeper kills the processes that they have started. `amrun` consists of two processes, each of which cleans up
//!   after the other, so that even processes that hide are found.
//! - The job's memory has no name in any file system: it is gone with the last process that uses it.
//! - A dead task stays unreaped until the job is over, so that no other process gets its number.
//! - The library may be used in a process with many threads: only plain system calls run between fork and exec.
//! - A process that ignores SIGCHLD, as its parent may have made it, gets this signal's default action back when it starts a job:
//!   otherwise the system would discard how the tasks end. The tasks inherit that.

#![cfg_attr(
    not(test),
    warn(clippy::print_stdout, clippy::print_stderr, reason = "these panic if the reader has left")
)]

mod agent;
mod agent_message;
mod allocation;
#[expect(unsafe_code, reason = "names that a debugger looks for")]
mod debugger;
mod end_request;
mod error;
mod guard;
mod hang;
mod hosts;
mod hub;
mod info;
mod members;
mod other_mpi;
mod output;
mod program;
mod record;
mod report;
mod spawn;
mod supervise;
mod sweeper;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use am_via_job::settings::{Settings, Table};
use am_via_job::{Asks, Bus, JobOwner, JobPlan, Variables};
use am_via_os::process::{self, PidFd};
use am_via_os::sched;
use am_via_os::signal::SignalFd;
use am_via_os::standard_output;
use serde::{Deserialize, Serialize};

use agent_message::AgentMessage;
use end_request::{EndRequest, SIGNALS};
use spawn::{Spawned, TaskProcess};
use supervise::{HostLauncher, Watched};

pub use agent::run_agent;
pub use allocation::Allocation;
pub use am_via_job::settings::nearest;
pub use am_via_job::{Record, Recorded, log_as_asked, misspelt};
pub use am_via_os::complain;
pub use am_via_os::process::Ended;
pub use am_via_os::signal::keep_ended_children;
pub use am_via_os::standard_output::{say, was_closed as output_was_closed};
pub use debugger::show_tasks;
pub use error::LaunchError;
pub use guard::run_guarded;
pub use hang::{Activity, HangFormat, HangReport, HangReports, Verdict, Wait};
pub use hosts::{Host, HostsError, fit_hosts, only_this_machine, parse_hosts, read_hostfile};
pub use hub::{Hosts, Outcome};
pub use info::{InfoError, Wanted, answer_probe, info};
pub use output::OutputFormat;
pub use record::{Call, Messages, Queue, Statistics, TaskStatistics, Trace};
pub use report::{EndedBy, Report, TaskReport};

/// The grace period, unless the caller sets another ([`Launch::grace`]).
const GRACE: Duration = Duration::from_secs(1);

/// Placement of tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bind {
    /// The system assigns processors to tasks.
    #[default]
    None,
    /// Each task runs on this number of processors, at least 1: task 0 on the first ones that may be used, task 1 on the next ones. If
    /// there are too few processors, they are used again from the first on. The tasks get the environment variable `AM_PINNED`: 1, or 0 if
    /// they share processors.
    Cores(u32),
}

/// Destination of the tasks' output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Output {
    Forward(OutputFormat),
    Capture { dir: OsString },
}

/// The description of a job to be started. Agents get it from the launcher of a job of several hosts, without the skipped fields: what
/// these ask for, that launcher does. Paths are [`OsString`]s, which can be sent whatever they contain.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Launch {
    program: OsString,
    args: Vec<OsString>,
    tasks: u32,
    env: Vec<(OsString, OsString)>,
    wdir: Option<OsString>,
    bind: Bind,
    processors: Vec<usize>,
    output: Output,
    #[serde(skip)]
    stdin_to_task_0: bool,
    #[serde(skip)]
    output_is_closed: bool,
    #[serde(skip)]
    timeout: Option<Duration>,
    #[serde(skip)]
    hang_reports: Option<HangReports>,
    record: Record,
    keeps_going: bool,
    universe: Option<u32>,
    #[serde(skip)]
    holds: bool,
    grace: Duration,
    #[serde(skip)]
    own_process: Option<u32>,
    /// The host of each task, if this is an agent's part of a job; otherwise empty.
    hosts: Vec<u32>,
    /// The number of this host.
    host: u32,
    /// The first task on this host.
    first: u32,
}

impl Launch {
    /// A job of one task that runs `program` with `args`. `program` is a path with a slash, or a name that is looked up in PATH, then in
    /// the directory of the tasks. The task's output is forwarded, its input is empty, and the job has no time limit.
    pub fn new<A: Into<OsString>>(program: impl Into<OsString>, args: impl IntoIterator<Item = A>) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            tasks: 1,
            env: Vec::new(),
            wdir: None,
            bind: Bind::None,
            processors: Vec::new(),
            output: Output::Forward(OutputFormat::default()),
            stdin_to_task_0: false,
            output_is_closed: standard_output::was_closed(),
            timeout: None,
            hang_reports: None,
            record: Record::Nothing,
            keeps_going: false,
            universe: None,
            holds: false,
            grace: GRACE,
            own_process: None,
            hosts: Vec::new(),
            host: 0,
            first: 0,
        }
    }

    /// Sets the number of tasks. It may exceed the number of processors.
    #[must_use]
    pub fn tasks(mut self, tasks: u32) -> Self {
        self.tasks = tasks;
        self
    }

    /// Sets an environment variable for the tasks. If it is the variable of a setting, the setting applies to this job.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Lets each task wait where it joins the job, until [`Running::let_go`]: a debugger can attach to it meanwhile.
    #[must_use]
    pub fn hold(mut self) -> Self {
        self.holds = true;
        self
    }

    /// Starts the tasks in directory `wdir`. A program named by a relative path is looked up there.
    #[must_use]
    pub fn wdir(mut self, wdir: impl Into<PathBuf>) -> Self {
        self.wdir = Some(wdir.into().into());
        self
    }

    /// Sets where tasks run.
    #[must_use]
    pub fn bind(mut self, bind: Bind) -> Self {
        self.bind = bind;
        self
    }

    /// Lets the tasks of this host run only on these processors. Empty: on all that this process may use.
    #[must_use]
    pub fn processors(mut self, processors: Vec<usize>) -> Self {
        self.processors = processors;
        self
    }

    /// Forwards the output in this format.
    #[must_use]
    pub fn output_format(mut self, format: OutputFormat) -> Self {
        self.output = Output::Forward(format);
        self
    }

    /// Writes the output to files in `dir` instead of forwarding it: `task-0.stdout`, `task-0.stderr`, ...
    #[must_use]
    pub fn capture(mut self, dir: impl Into<PathBuf>) -> Self {
        self.output = Output::Capture { dir: dir.into().into() };
        self
    }

    /// Declares that standard output was already closed when the user started the program, so that this process inherited a replacement. A
    /// task that writes to its standard output then ends the job, as if this process had been started with a closed one.
    #[must_use]
    pub fn output_is_closed(mut self) -> Self {
        self.output_is_closed = true;
        self
    }

    /// Lets task 0 read this process's standard input. All other tasks read nothing.
    #[must_use]
    pub fn stdin_to_task_0(mut self) -> Self {
        self.stdin_to_task_0 = true;
        self
    }

    /// Ends the job if it still runs after `timeout`.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Prints hang reports to standard error.
    #[must_use]
    pub fn hang_reports(mut self, wanted: HangReports) -> Self {
        self.hang_reports = Some(wanted);
        self
    }

    /// Makes the tasks record what they do: [`Report::recorded`].
    #[must_use]
    pub fn record(mut self, wanted: Record) -> Self {
        self.record = wanted;
        self
    }

    /// Lets the other tasks run on after one of them has failed. A task that ends the job (`MPI_Abort`, a fatal error) still ends it.
    #[must_use]
    pub fn keep_going(mut self) -> Self {
        self.keeps_going = true;
        self
    }

    /// Sets the number of tasks that the program may plan for, with those that it starts itself (`MPI_UNIVERSE_SIZE`). Otherwise it is the
    /// number of processors, or of the tasks if there are more. It is no limit.
    #[must_use]
    pub fn plan_for(mut self, tasks: u32) -> Self {
        self.universe = Some(tasks);
        self
    }

    fn universe(&self) -> u32 {
        let tasks = if self.is_part() { number_of(&self.hosts) } else { self.tasks };
        self.universe.unwrap_or_else(|| number_of(&sched::allowed_cpus()).max(tasks))
    }

    /// Sets how long the tasks may go on before they are killed: after one of them has failed, unless the job goes on after failures;
    /// after the time limit; and after the output could no longer be written.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Declares that this process exists for the job alone, and that process `guard` started and guards it. The launcher then handles
    /// signals that end a job, counts every descendant as a member of the job, and ends the job when the guard ends. The process must have
    /// only one thread.
    #[must_use]
    pub fn own_process(mut self, guard: u32) -> Self {
        self.own_process = Some(guard);
        self
    }

    /// Starts the job and waits for its end.
    ///
    /// # Errors
    /// The job could not be started or watched. A failed task is not an error of this call: the report names it.
    pub fn run(self) -> Result<Report, LaunchError> {
        self.start()?.wait()
    }

    /// Starts the job and returns once all its tasks are started.
    ///
    /// # Errors
    /// The job could not be started.
    pub fn start(self) -> Result<Running, LaunchError> {
        let prepared = self.prepare()?;
        let (job, end, first) = (Arc::clone(&prepared.job), Arc::clone(&prepared.end), prepared.launch.first);
        let (tell, told) = mpsc::channel();
        // Tasks die with the thread that started them, so they are started by a thread that stays until they are gone.
        let thread = thread::Builder::new()
            .name("am-launcher".to_owned())
            .spawn(move || {
                // The caller waits for this message. If the caller is gone, dropping the handle ends the job.
                let started = |tasks: &Arc<[TaskProcess]>| drop(tell.send(Arc::clone(tasks)));
                prepared.run(None, started)
            })
            .map_err(LaunchError::system("starting a thread"))?;
        match told.recv() {
            Ok(tasks) => Ok(Running { job, first, tasks, end, thread: Some(thread) }),
            // The thread ended without starting the tasks; its result says why.
            Err(_) => match join(thread) {
                Err(error) => Err(error),
                Ok(_) => Err(LaunchError::system("starting the tasks")(io::Error::other(
                    "the launcher returned neither tasks nor an error",
                ))),
            },
        }
    }

    /// Makes what the tasks need.
    fn prepare(self) -> Result<Prepared, LaunchError> {
        members::check_proc()?;
        keep_ended_children();
        self.check_wdir()?;
        let program = program::find(&self.program, self.directory())?;
        let settings = Settings::from_variables(|name| self.variable(name))?;
        let silence_max = settings.host_silence_max();
        let cpus = self.cpus()?;
        let job = Arc::new(JobOwner::create(&JobPlan {
            num_tasks: if self.is_part() { number_of(&self.hosts) } else { self.tasks },
            settings,
            others: self.variables(),
            record: self.record,
            // The job names the processors of its tasks by their numbers in the job.
            cpus: std::iter::repeat_n(Vec::new(), self.first as usize).chain(cpus.clone()).collect(),
            hosts: self.hosts.clone(),
        })?);
        if self.keeps_going {
            job.set_continue_on_failure(true);
        }
        job.hold_tasks(self.holds);
        let asks = Asks::open(&job)?;
        job.set_universe(self.universe());
        let (end, bell) = EndRequest::new().map_err(LaunchError::system("making a pipe"))?;
        let watched = self.watched(bell)?;
        tracing::debug!(tasks = self.tasks, ?program, ?cpus, record = ?self.record, "the job's memory is made");
        Ok(Prepared { launch: self, program, cpus, job, end: Arc::new(end), watched, asks, silence_max })
    }

    /// The part of this job that the agent on `host` runs; `hosts` has the host of each task, and the tasks of a host are consecutive. The
    /// output is sent to the launcher of the whole job.
    fn part_of(mut self, hosts: Vec<u32>, host: u32) -> Self {
        self.first = number_of(&hosts[..hosts.iter().position(|&at| at == host).unwrap_or(0)]);
        self.tasks = number_of(&hosts.iter().filter(|&&at| at == host).collect::<Vec<_>>());
        (self.hosts, self.host) = (hosts, host);
        self
    }

    fn directory(&self) -> Option<&Path> {
        self.wdir.as_deref().map(Path::new)
    }

    fn is_part(&self) -> bool {
        !self.hosts.is_empty()
    }

    fn check_wdir(&self) -> Result<(), LaunchError> {
        let Some(wdir) = self.directory() else { return Ok(()) };
        // The dot makes the system check the search permission, which entering the directory needs.
        match wdir.join(".").metadata() {
            Ok(_) => Ok(()),
            Err(source) => Err(LaunchError::WorkingDirectory { wdir: wdir.to_owned(), source }),
        }
    }

    /// The settings of layers above am-via in the job's environment: the variables of this process, overridden by the caller's.
    fn variables(&self) -> Variables {
        let names =
            std::env::vars_os().map(|(name, _)| name).chain(self.env.iter().map(|(name, _)| name.clone()));
        let names: BTreeSet<String> = names.filter_map(|name| name.into_string().ok()).collect();
        Variables::of_other_tables(
            names.into_iter().filter_map(|name| Some((name.clone(), self.variable(&name)?))),
        )
    }

    /// A variable of the job. In a job of several hosts, the launcher sends all settings of the job, so those of this host are ignored: all
    /// tasks have the same settings.
    fn variable(&self, name: &str) -> Option<String> {
        let set = self.env.iter().rev().find(|(key, _)| key == OsStr::new(name));
        match set {
            Some((_, value)) => Some(value.to_string_lossy().into_owned()),
            None if self.is_part() => None,
            None => std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()),
        }
    }

    /// The processors of each task of this host; empty if the tasks may run on all that this process may use.
    fn cpus(&self) -> Result<Vec<Vec<usize>>, LaunchError> {
        let own = sched::allowed_cpus();
        let allowed = if self.processors.is_empty() { &own } else { &self.processors };
        if let Some(&wrong) = allowed.iter().find(|cpu| !own.contains(cpu)) {
            return Err(LaunchError::Processor { wrong, allowed: own });
        }
        let tasks = self.tasks as usize;
        Ok(match self.bind {
            Bind::None if self.processors.is_empty() => Vec::new(),
            Bind::None => vec![allowed.clone(); tasks],
            Bind::Cores(number) => {
                let number = number.max(1) as usize;
                let of_task = |task: usize| {
                    let mut cpus: Vec<usize> = allowed
                        .iter()
                        .copied()
                        .cycle()
                        .skip(task * number % allowed.len())
                        .take(number)
                        .collect();
                    cpus.sort_unstable();
                    cpus.dedup();
                    cpus
                };
                (0..tasks).map(of_task).collect()
            }
        })
    }

    /// Whether each task has processors of its own: `AM_PINNED`. `None` if the tasks are not bound.
    fn is_pinned(&self, cpus: &[Vec<usize>]) -> Option<bool> {
        let Bind::Cores(number) = self.bind else { return None };
        let all: BTreeSet<usize> = cpus.iter().flatten().copied().collect();
        Some(all.len() as u64 == u64::from(self.tasks) * u64::from(number.max(1)))
    }

    fn watched(&self, bell: io::PipeReader) -> Result<Watched, LaunchError> {
        let Some(guard) = self.own_process else { return Ok(Watched { bell, own_process: None }) };
        process::become_subreaper().map_err(LaunchError::system("becoming the parent of orphans"))?;
        let signals = SignalFd::block(&SIGNALS).map_err(LaunchError::system("taking over signals"))?;
        let process = PidFd::open(guard).map_err(LaunchError::system("watching the first amrun process"))?;
        // If the guard has ended in the meantime, its number may belong to another process.
        if std::os::unix::process::parent_id() != guard {
            let gone = io::Error::other("it is gone");
            return Err(LaunchError::system("watching the first amrun process")(gone));
        }
        Ok(Watched { bell, own_process: Some((process, signals)) })
    }
}

/// Number of processors that this process may use.
#[must_use]
pub fn processors() -> usize {
    sched::allowed_cpus().len()
}

fn number_of<T>(tasks: &[T]) -> u32 {
    u32::try_from(tasks.len()).unwrap_or(u32::MAX)
}

/// A job whose memory is made, before its tasks are started.
#[derive(Debug)]
struct Prepared {
    launch: Launch,
    program: PathBuf,
    cpus: Vec<Vec<usize>>,
    job: Arc<JobOwner>,
    end: Arc<EndRequest>,
    watched: Watched,
    asks: Asks,
    /// A supervisor that is silent for this long is taken for gone.
    silence_max: Duration,
}

impl Prepared {
    /// Starts the tasks, calls `started`, and watches the tasks to their end. `bus`: the connection to the launcher of the whole job, if
    /// that is another one.
    fn run(
        self,
        bus: Option<&mut Bus<AgentMessage>>,
        started: impl FnOnce(&Arc<[TaskProcess]>),
    ) -> Result<Report, LaunchError> {
        let Self { launch, program, cpus, job, end, watched, asks, .. } = self;
        let spawned: Spawned = spawn::spawn(&launch, &program, &cpus, &job, &end)?;
        started(&spawned.tasks);
        HostLauncher::new(&launch, job, spawned, end, (watched, asks), bus).run()
    }
}

fn join(thread: JoinHandle<Result<Report, LaunchError>>) -> Result<Report, LaunchError> {
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// A job whose tasks are started. Dropping it ends the job.
#[derive(Debug)]
pub struct Running {
    job: Arc<JobOwner>,
    /// The first task on this host.
    first: u32,
    tasks: Arc<[TaskProcess]>,
    end: Arc<EndRequest>,
    thread: Option<JoinHandle<Result<Report, LaunchError>>>,
}

impl Running {
    /// The process of a task: the process that attached to the job, or, before that, the process that the launcher started. `None` if there
    /// is no such task.
    #[must_use]
    pub fn pid(&self, task: u32) -> Option<u32> {
        self.job.pid(task).or_else(|| Some(self.tasks.get(task as usize)?.pid))
    }

    /// The tasks of this host, and their processes.
    fn pids(&self) -> impl Iterator<Item = (u32, u32)> {
        (self.first..)
            .zip(self.tasks.iter())
            .map(|(task, process)| (task, self.job.pid(task).unwrap_or(process.pid)))
    }

    /// Lets the tasks go on that wait where they join the job ([`Launch::hold`]).
    pub fn let_go(&self) {
        self.job.hold_tasks(false);
    }

    /// The job, as its owner sees it.
    #[must_use]
    pub fn job(&self) -> &JobOwner {
        &self.job
    }

    /// Sends a signal to a task. Nothing happens if the task has ended, or there is no such task.
    pub fn signal(&self, task: u32, signal: i32) {
        let Some(direct) = self.tasks.get(task as usize) else { return };
        match self.job.pid(task).filter(|&pid| pid != direct.pid) {
            // The task writes its process number itself, so the number is used only if that process is a descendant of the one that was
            // started.
            Some(pid) => spawn::members_below(direct.pid).signal_one(pid, signal),
            None => direct.process.signal(signal),
        }
    }

    /// Kills a task (SIGKILL), for tests of how the other tasks react.
    pub fn kill(&self, task: u32) {
        self.signal(task, libc::SIGKILL);
    }

    /// Asks for the immediate end of the job.
    pub fn end(&self) {
        self.end.ask(EndedBy::Caller);
    }

    /// Waits for the job's end.
    ///
    /// # Errors
    /// The tasks could not be watched; in that case they have been ended.
    pub fn wait(mut self) -> Result<Report, LaunchError> {
        let thread = self.thread.take().expect("only `wait` and `drop` take it, and both consume the handle");
        join(thread)
    }
}

/// The text that `amrun --verbose` prints about the tasks of this host.
#[must_use]
pub fn describe(running: &Running) -> String {
    description(&running.tasks)
}

fn description(tasks: &[TaskProcess]) -> String {
    let cpus = sched::allowed_cpus().len();
    let pids: Vec<String> = tasks.iter().map(|task| task.pid.to_string()).collect();
    let sharing = if tasks.len() > cpus {
        "; there are more tasks than processors, so waits do not spin before they sleep"
    } else {
        ""
    };
    format!("{} tasks (processes {}) on {cpus} processors{sharing}", tasks.len(), pids.join(" "))
}

/// A line for each task of this host with the processors on which the system now lets it run.
#[must_use]
pub fn bindings(running: &Running) -> String {
    bindings_of(running.first, &running.tasks)
}

fn bindings_of(first: u32, tasks: &[TaskProcess]) -> String {
    let line = |(task, process): (u32, &TaskProcess)| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid)).unwrap_or_default();
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        format!("amrun: task {task} may run on processors {}\n", allowed.unwrap_or("(it has ended)").trim())
    };
    (first..).zip(tasks).map(line).collect()
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.end();
            // The result is not needed any more.
            let _ = thread.join();
        }
    }
}
