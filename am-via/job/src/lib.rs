//! A job: its tasks, the memory files that they share, and their states.
//!
//! The launcher creates all files before the first task starts ([`JobOwner`]); a task attaches to them ([`Job::attach`]). They have no name
//! in any file system: tasks inherit them as open files, or find them in `/proc` under the launcher's process number if a wrapper closed
//! them. A program that was started without a launcher is a job of one task. Tasks started by a launcher of another project create their
//! job themselves (`foreign`), from that launcher's information.
//!
//! Programs that a task starts do not inherit the files: from the attachment on they are closed on exec. A program that takes the task's
//! place by exec may attach again, and finds the files in `/proc`. The new program can open only contexts that the earlier program has not
//! opened. The exposures of the earlier program end when the new program attaches; until then peers may still write to private memory that
//! was exposed, at addresses that now belong to the new program. So a program must close its contexts, or at least end the exposure of its
//! private memory, before it calls exec.
//!
//! Every task can write to the job file, so nothing here trusts its contents for the safety of memory.

#![cfg_attr(
    not(test),
    warn(clippy::print_stdout, clippy::print_stderr, reason = "these panic if the reader has left")
)]

mod asking;
mod bus;
#[expect(unsafe_code, reason = "hooks of forked copies; the files of tasks")]
mod carrier;
mod entries;
mod error;
mod failure;
mod foreign;
mod hazards;
mod heap;
#[expect(unsafe_code, reason = "descriptors that the launcher passes on")]
mod invitation;
mod life;
mod log;
mod network;
mod notice;
mod owner;
mod record;
mod supervisor;

mod wait_report;
#[expect(unsafe_code, reason = "starts a detached copy of this process")]
mod watcher;
mod world;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::settings::{Settings, Table};
use am_via_os::atomics::{AtomicU32, Ordering};
use am_via_os::memory::{self, PAGE_BYTES};
use am_via_os::process::PidFd;
use am_via_os::{fork, sched};
use am_via_shm::layout::{CONTEXTS_MAX, DOORBELL_OFFSET};
use am_via_shm::layout_job::{
    self, JobHeader, PID_UNKNOWN, STATE_DEAD, STATE_FINALIZED, STATE_RUNNING, TASKS_MAX, TaskEntry,
};
use am_via_shm::{Doorbell, Mapping, Shared, SleepBarrier};

use asking::Asking;
use entries::Entries;
use invitation::{Invitation, has_inode, is_job_file, open_inherited_or_launchers};
use life::Lock;

pub mod settings;
mod variables;

pub use am_events::EventKind;
pub use asking::{Answer, Ask, Asks, Program, Refusal};
pub use bus::{Bus, BusEvent, Message, Outgoing, OwnMessage};
pub use carrier::{Carrier, TaskFile};
pub use error::JobError;
pub use failure::{Cause, Failure, signal_of_shell};
pub use foreign::abort as abort_by_launcher;
pub use hazards::HazardLines;
pub use log::log_as_asked;
pub use notice::JobNotice;
pub use owner::{JobOwner, JobPlan, Record};
pub use record::{IN_CALLS, Recorded, RecordedEvent, RecordedTally, Recorder, SLEEP};
pub use supervisor::Supervisor;
pub use variables::{Variables, is_named_like_a_setting, misspelt};
pub use wait_report::{NOTED_AFTER, NotedWait, UnderWay, WaitFacts};
pub use world::PARENT_VARIABLE;

/// The environment variable that makes a process a task: `<job file>:<task>:<launcher>:<job id>`.
pub const JOB_VARIABLE: &str = "AM_JOB";

/// Longest time that a task behind a wrapper waits until the launcher watches it. The launcher of a new job looks for such tasks every 20
/// milliseconds.
const WATCHED_WITHIN: Duration = Duration::from_millis(500);
const WATCHED_LOOK_EVERY: Duration = Duration::from_millis(1);

/// State of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// The task's program has not attached yet.
    NotStarted,
    /// The task has attached.
    Running,
    /// The task has left the job.
    Finalized,
    /// The task failed, or its process ended before the task left the job.
    Dead,
}

/// This process as a task of its job. There is one per process; clones of the `Arc` share it.
#[derive(Debug)]
pub struct Job {
    task: u32,
    /// The first task of this task's world: of those that were started together.
    first: u32,
    /// The number of tasks of this task's world.
    num_tasks: u32,
    own_pid: u32,
    /// The job file, whose locks tell which tasks live.
    file: File,
    header: Shared<JobHeader>,
    table: Entries,
    files: Vec<LazyFiles>,
    settings: Settings,
    variables: Variables,
    barrier: SleepBarrier,
    /// Contexts that are open in this process, one bit each.
    open_contexts: AtomicU32,
    /// NICs that were opened: one bit for each NIC opened by name, and above these one bit for each context.
    nics: AtomicU32,
    /// The process from which all tasks of this host descend, and a handle of the process that owns the files. Both are the launcher,
    /// except in a job of another project's launcher. `None` for a job of one, or if the process cannot be seen from here.
    launcher: Option<(u32, PidFd)>,
    /// Number of bytes of each heap file that this task maps, once it is known.
    heap_bytes_mapped: OnceLock<u64>,
    /// Records the task's activity, if the launcher asked for it.
    recorder: OnceLock<Arc<Recorder>>,
    asking: Asking,
    /// Whether this process is the task's process. A process that is refused must not end the task for the others.
    has_joined: bool,
}

/// Marks a context of this task as open in this process.
#[derive(Debug)]
pub struct OpenContext {
    job: Arc<Job>,
    bit: u32,
}

impl Drop for OpenContext {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `open_context`.
        self.job.open_contexts.fetch_and(!self.bit, Ordering::Release);
    }
}

/// The memory files of one task.
#[derive(Debug)]
struct TaskFiles {
    control: File,
    heap: File,
}

/// The memory files of one task, opened at first use.
#[derive(Debug, Default)]
struct LazyFiles {
    control: OnceLock<File>,
    heap: OnceLock<File>,
}

/// The job of this process, while it is in use.
static CURRENT: Mutex<Weak<Job>> = Mutex::new(Weak::new());

impl Job {
    /// The job of this process: the one in which its launcher started it, or a job of one. All callers get the same job.
    ///
    /// # Errors
    /// The environment or the job file is not what a launcher of this version makes; a file cannot be reached; another process is this task
    /// already; the system refuses this task the job's barrier; the tasks of another project's launcher cannot be made a job. For a job of
    /// one: a setting is invalid, and the errors of [`JobOwner::create`].
    pub fn attach() -> Result<Arc<Self>, JobError> {
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        // A copy made by fork is another process: it must not act as the task that it was copied from.
        if let Some(job) = current.upgrade().filter(|job| job.own_pid == std::process::id()) {
            return Ok(job);
        }
        let job = Arc::new(match std::env::var(JOB_VARIABLE) {
            Ok(value) => {
                let invitation = Invitation::parse(&value)?;
                Self::attach_to(&invitation, invitation.launcher_pid)?
            }
            Err(std::env::VarError::NotPresent) => match foreign::join()? {
                Some(invitation) => {
                    let job = Self::attach_to(&invitation, std::os::unix::process::parent_id())?;
                    foreign::wait_for_all()?;
                    job
                }
                None => Self::of_one()?,
            },
            Err(std::env::VarError::NotUnicode(value)) => {
                let value = value.to_string_lossy().into_owned();
                return Err(JobError::BadEnvironment { value, why: "it is not valid UTF-8" });
            }
        });
        *current = Arc::downgrade(&job);
        install_hook();
        Ok(job)
    }

    /// The variables that [`attach`](Self::attach) would find. This process does not become a task of the job.
    ///
    /// # Errors
    /// Those of [`attach`](Self::attach).
    pub fn look_at_variables() -> Result<Variables, JobError> {
        let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        if let Some(job) = current {
            return Ok(job.variables.clone());
        }
        let invited = std::env::var(JOB_VARIABLE).ok().map(|value| Invitation::parse(&value)).transpose()?;
        let Some(invitation) = invited.or_else(foreign::known) else {
            return Ok(Variables::of_lines(variables_of_this_process().lines_with(&Settings::from_env()?)));
        };
        let file = invitation.open()?;
        let mapping = Mapping::new(file.as_fd(), 0, size_of::<JobHeader>())
            .map_err(JobError::system("mapping the job file"))?;
        let header: Option<Shared<JobHeader>> = mapping.atomics(0);
        let header = header.ok_or(JobError::Damaged { what: "it is shorter than its header" })?;
        Ok(Variables::of_lines(header.settings.read()))
    }

    fn of_one() -> Result<Self, JobError> {
        let settings = Settings::from_env()?;
        let plan = JobPlan {
            num_tasks: 1,
            settings: settings.clone(),
            others: variables_of_this_process(),
            record: Record::Nothing,
            cpus: Vec::new(),
            hosts: Vec::new(),
        };
        let (file, header, table, files) = JobOwner::create(&plan)?.into_parts();
        let files = files
            .into_iter()
            .map(|files| LazyFiles {
                control: OnceLock::from(files.control),
                heap: OnceLock::from(files.heap),
            })
            .collect();
        header.launcher_pid.store(0, Ordering::Relaxed);
        let variables = Variables::of_lines(header.settings.read());
        let job = Self {
            task: 0,
            first: 0,
            num_tasks: 1,
            own_pid: std::process::id(),
            barrier: join_barrier(0, &header)?,
            file,
            header,
            table,
            files,
            variables,
            settings,
            open_contexts: AtomicU32::new(0),
            nics: AtomicU32::new(0),
            launcher: None,
            heap_bytes_mapped: OnceLock::new(),
            recorder: OnceLock::new(),
            asking: Asking::default(),
            has_joined: false,
        };
        job.take_place()
    }

    /// Attaches to the job of an invitation, whose tasks on this host descend from process `ancestor`, as far as is known.
    fn attach_to(invitation: &Invitation, ancestor: u32) -> Result<Self, JobError> {
        let file = invitation.open()?;
        let (header, table) = Entries::of(&file)?;
        let began_with = header.num_tasks.load(Ordering::Relaxed);
        let task = invitation.task;
        // Acquire: pairs with the Release in `JobOwner::make_tasks`: the entry is written.
        let num_tasks = table.get(task).map_or(0, |entry| entry.world_size.load(Ordering::Acquire));
        if num_tasks == 0 {
            return Err(JobError::UnknownTask { task, num_tasks: began_with });
        }
        let first = table.get(task).map_or(0, |entry| entry.world_first.load(Ordering::Relaxed));
        let variables = Variables::of_lines(header.settings.read());
        let settings = Settings::from_variables(|name| variables.get(name))?;
        let is_visible = header.pid_namespace.load(Ordering::Relaxed) == pid_namespace();
        let launcher = Some(invitation.launcher_pid).filter(|_| is_visible);
        let launcher = launcher.and_then(|pid| Some((ancestor, PidFd::open(pid).ok()?)));
        let job = Self {
            task,
            first,
            num_tasks,
            own_pid: std::process::id(),
            barrier: join_barrier(task, &header)?,
            file,
            header,
            table,
            files: (0..began_with.min(TASKS_MAX)).map(|_| LazyFiles::default()).collect(),
            variables,
            settings,
            open_contexts: AtomicU32::new(0),
            nics: AtomicU32::new(0),
            launcher,
            heap_bytes_mapped: OnceLock::new(),
            recorder: OnceLock::new(),
            asking: Asking::default(),
            has_joined: false,
        };
        let job = job.take_place()?;
        log_as_asked(&format!("task {task}"));
        job.open_record();
        job.keep_files_from_programs(invitation);
        job.wait_while_held();
        tracing::debug!(task, num_tasks, barrier = ?job.barrier, records = job.recorder().is_some(), "joined the job");
        Ok(job)
    }

    /// Ensures that programs started by this one do not inherit the job's files.
    #[expect(unsafe_code, reason = "descriptors that the launcher has passed on")]
    fn keep_files_from_programs(&self, invitation: &Invitation) {
        let of_tasks = self.table.in_use().flat_map(|(_, entry)| [control_of(entry), heap_of(entry)]);
        let files = of_tasks.chain([self.record_file()]);
        // SAFETY: the files are only compared with those that the launcher passes on to tasks.
        let file = |number| unsafe { memory::inherited(number) };
        // SAFETY: the descriptor is one that the launcher has passed on: the checks before each call have found its file there.
        let close = |number| unsafe { memory::close_on_exec(number) };
        let is_right = |(number, inode)| file(number).is_ok_and(|file| has_inode(&file, inode));
        files.filter(|&file| is_right(file)).for_each(|(number, _)| close(number));
        if file(invitation.number).is_ok_and(|file| is_job_file(&file, invitation.id)) {
            close(invitation.number);
        }
    }

    fn record_file(&self) -> (i32, u64) {
        let header = &self.header;
        (header.record_fd.load(Ordering::Relaxed), header.record_inode.load(Ordering::Relaxed))
    }

    /// Starts the recorder, if the launcher asked for one. If its memory can't be reached, the job goes on without it.
    fn open_record(&self) {
        let (number, inode) = self.record_file();
        if inode == 0 {
            return;
        }
        let launcher_pid = self.header.launcher_pid.load(Ordering::Relaxed);
        let shared = open_inherited_or_launchers(number, launcher_pid, |file| has_inode(file, inode))
            .and_then(|file| record::map(file.as_fd(), self.task));
        match shared {
            Ok(shared) => {
                let keeps_events = self.header.records_events.load(Ordering::Relaxed) != 0;
                let recorder = Recorder::new(self.task, Some(shared), keeps_events);
                let _ = self.recorder.set(Arc::new(recorder));
            }
            Err(error) => tracing::warn!(%error, "what this task does is not recorded"),
        }
    }

    /// The recorder of this task; `None` if none was requested.
    #[must_use]
    pub fn recorder(&self) -> Option<&Arc<Recorder>> {
        self.recorder.get()
    }

    /// The job's random number. The parts of a job on several hosts have different ones.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.header.job_id.load(Ordering::Relaxed)
    }

    /// The recorder of this task. If there is none, makes one that only prints ([`Recorder::trace_to_stderr`]).
    pub fn console_recorder(&self) -> &Arc<Recorder> {
        self.recorder.get_or_init(|| Arc::new(Recorder::new(self.task, None, false)))
    }

    /// Makes this process the task's process, unless another process is or was the task's process.
    fn take_place(mut self) -> Result<Self, JobError> {
        let entry = self.own_entry();
        let id = self.header.job_id.load(Ordering::Relaxed);
        let life = life::begin(self.file.as_fd(), id, self.task);
        if let Ok(Lock::OfAnother) = life {
            return Err(JobError::TaskTaken { task: self.task, pid: entry.pid.load(Ordering::Acquire) });
        }
        // In another PID namespace this process's number would name another process, or none.
        let is_visible = self.header.pid_namespace.load(Ordering::Relaxed) == pid_namespace();
        let pid = if is_visible { self.own_pid } else { PID_UNKNOWN };
        // AcqRel: "pid published", pairs with the loads in `Job::pid`, `JobOwner::pid` and `JobOwner::has_joined`.
        let taken = entry.pid.compare_exchange(0, pid, Ordering::AcqRel, Ordering::Acquire);
        let is_own = |pid| pid == self.own_pid || pid == PID_UNKNOWN && matches!(life, Ok(Lock::HeldBefore));
        if let Err(pid) = taken
            && !is_own(pid)
        {
            if matches!(life, Ok(Lock::Taken)) {
                // As long as this process had the lock, the task would not count as ended.
                life::give_back(id, self.task);
            }
            return Err(JobError::TaskTaken { task: self.task, pid });
        }
        match life {
            // Release: "life locked", pairs with the load in `has_ended`: a reader of this flag also sees the lock.
            Ok(_) => entry.life_locked.store(1, Ordering::Release),
            Err(error) => tracing::debug!(%error, "peers cannot know for certain when this task has ended"),
        }
        entry.set_cpus(&sched::allowed_cpus());
        // Release: "state set", pairs with the load in `state_of`.
        entry.state.store(STATE_RUNNING, Ordering::Release);
        self.has_joined = true;
        if is_visible {
            self.wait_until_watched();
        }
        Ok(self)
    }

    /// If this process is behind a wrapper, waits until the launcher watches it. If the process ended before that, the cause of its end
    /// would not be known.
    fn wait_until_watched(&self) {
        let Some(launcher) = self.launcher_pid() else { return };
        // This process has made the job, without a launcher: no other process will watch it.
        if launcher == std::process::id() {
            return;
        }
        let is_behind = || std::os::unix::process::parent_id() != launcher;
        let end = Instant::now() + WATCHED_WITHIN;
        // Acquire: pairs with the Release in `JobOwner::set_watched`, which publishes nothing else.
        while is_behind()
            && self.own_entry().watched.load(Ordering::Acquire) == 0
            && self.launcher_alive()
            && Instant::now() < end
        {
            std::thread::sleep(WATCHED_LOOK_EVERY);
        }
    }

    /// This task.
    #[inline]
    #[must_use]
    pub fn task(&self) -> u32 {
        self.task
    }

    /// Number of tasks that were started together with this one: at the start of the job, or later by a task.
    #[inline]
    #[must_use]
    pub fn num_tasks(&self) -> u32 {
        self.num_tasks
    }

    /// Marks context `context` as open in this process until the value is dropped; `None` if it is open already, or its number is too
    /// large. A context's shared memory supports one user at a time.
    #[must_use]
    pub fn open_context(self: &Arc<Self>, context: u32) -> Option<OpenContext> {
        let bit = 1_u32.checked_shl(context)?;
        // Acquire: pairs with the Release in the drop of the previous `OpenContext`, so that what its user wrote is visible.
        let before = self.open_contexts.fetch_or(bit, Ordering::Acquire);
        (before & bit == 0).then(|| OpenContext { job: Arc::clone(self), bit })
    }

    /// The settings, the same in all tasks of the job.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The settings in the launcher's environment, for the tables of the layers above.
    #[must_use]
    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// One setting as text; `None` if there is no setting of this name.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<String> {
        self.settings.value(name)
    }

    /// Number of bytes of each heap file, taken from this task's own file, since every task can write to the job file.
    ///
    /// # Errors
    /// Those of [`heap_file`](Self::heap_file), and the system's.
    pub fn heap_bytes(&self) -> Result<u64, JobError> {
        memory::len(self.heap(self.task)?.as_fd()).map_err(JobError::system("looking at a heap file"))
    }

    /// Number of bytes of each heap file that this task maps. If the heaps of all tasks do not fit into the address space (as under
    /// valgrind), only the first part of each is mapped.
    ///
    /// # Errors
    /// Those of [`heap_bytes`](Self::heap_bytes).
    pub fn heap_bytes_mapped(&self) -> Result<u64, JobError> {
        let whole = self.heap_bytes()?;
        Ok(*self.heap_bytes_mapped.get_or_init(|| {
            let mapped = heap::bytes_that_fit(whole, self.num_tasks, memory::fits);
            if mapped < whole {
                tracing::warn!(
                    whole,
                    mapped,
                    "the heaps of all tasks do not fit into this process's address space, so it maps a part of each; AM_HEAP_BYTES \
                     sets another size"
                );
            }
            mapped
        }))
    }

    /// The PID of a task's process; 0 before the process has attached, or if it is in another PID namespace. The task writes the number
    /// itself, so it is not to be trusted, and after the task's end it may belong to another process.
    #[must_use]
    pub fn pid(&self, task: u32) -> i32 {
        self.table
            .get(task)
            // Acquire: pairs with the exchange in `take_place` ("pid published").
            .and_then(|entry| i32::try_from(entry.pid.load(Ordering::Acquire)).ok())
            .unwrap_or(0)
    }

    /// Whether a task is certainly dead: its process has ended or runs another program, so that it can no longer write to memory of the
    /// job. `false` if that can't be known: the task has not attached, or could not read `/proc` when it attached. Costs one system call;
    /// any task may ask about any task at any time.
    #[must_use]
    pub fn has_ended(&self, task: u32) -> bool {
        // Acquire: pairs with the store in `take_place` ("life locked").
        let is_known =
            self.table.get(task).is_some_and(|entry| entry.life_locked.load(Ordering::Acquire) != 0);
        is_known && life::has_ended(self.file.as_fd(), task)
    }

    /// State of a task. Written by the task, so not to be trusted.
    #[must_use]
    pub fn state(&self, task: u32) -> TaskState {
        self.table.get(task).map_or(TaskState::NotStarted, state_of)
    }

    /// A number that changes at each failure of a task. Costs one load of a cache line that is rarely written.
    #[inline(always)]
    #[must_use]
    pub fn failure_epoch(&self) -> u32 {
        // Acquire: pairs with `JobHeader::record_failure`: a reader of a new number also sees the failed task's bit.
        self.header.failure_epoch.load(Ordering::Acquire)
    }

    /// Whether a task failed. `false` for a task number outside the job.
    #[must_use]
    pub fn is_failed(&self, task: u32) -> bool {
        self.header.is_failed(task)
    }

    /// A text about a task's failure: its cause and, if another task failed first, that failure. `None` if the task did not fail.
    #[must_use]
    pub fn failure_of(&self, task: u32) -> Option<String> {
        let entry = self.table.get(task).filter(|_| self.header.is_failed(task))?;
        let own = entry.cause().map(|(kind, value)| Cause::decode(kind, value));
        Some(match (self.failure(), own) {
            (Some(first), _) if first.task == task => first.to_string(),
            (Some(first), Some(own)) => format!("it {own} after {first}"),
            (Some(first), None) => format!("it failed after {first}"),
            (None, Some(own)) => format!("it {own}"),
            (None, None) => String::new(),
        })
    }

    /// The first failure of the job, if there was one.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        failure_in(&self.header)
    }

    /// Sets whether the job goes on when a task fails. Applies to all tasks.
    pub fn set_continue_on_failure(&self, goes_on: bool) {
        self.header.continue_on_failure.store(u32::from(goes_on), Ordering::Relaxed);
    }

    /// Whether the program asked that the job go on when a task fails.
    #[must_use]
    pub fn continues_on_failure(&self) -> bool {
        self.header.continue_on_failure.load(Ordering::Relaxed) != 0
    }

    /// Marks this task as finalized, and tells a launcher of another project: from now on an exit with code 0 is no failure. Called when
    /// the last user of the job drops it.
    fn mark_finalized(&self) {
        if self.own_pid == std::process::id() && self.own_entry().state.load(Ordering::Acquire) != STATE_DEAD
        {
            // Release: "state set", pairs with the load in `state_of`.
            self.own_entry().state.store(STATE_FINALIZED, Ordering::Release);
            foreign::leave();
        }
    }

    /// Marks this task as failed, with these last words, and wakes the other tasks of this host. The message of a panic that unwinds is
    /// kept instead of `words`. It is a failure of the job unless this task's world shares nothing with others.
    pub fn mark_failed(&self, words: &str) {
        if self.own_pid != std::process::id() {
            return;
        }
        // A panic's message is kept, as in `set_last_words`.
        let said = self.own_entry().last_words.read();
        let words = if std::thread::panicking() && !said.is_empty() { said.as_str() } else { words };
        self.set_last_words(words);
        let (kind, value) = Cause::GaveUp.encode();
        self.own_entry().set_cause(kind, value);
        if self.table.is_connected(self.task) {
            self.header.record_failure(self.task, kind, value, words);
        } else {
            self.header.set_failed(self.task);
        }
        // Release: "state set", pairs with the load in `state_of`: a reader of this state also sees the cause.
        self.own_entry().state.store(STATE_DEAD, Ordering::Release);
        for task in self.table.tasks() {
            if let Ok(file) = self.control(task).and_then(|file| {
                file.as_fd()
                    .try_clone_to_owned()
                    .map(File::from)
                    .map_err(JobError::system("opening a control file"))
            }) {
                // Best effort, like the launcher's ring: a sleeper checks again when its wait ends.
                let _ = ring(&file);
            }
        }
    }

    /// Sets the text that is reported if this task fails, up to 512 bytes. The message of a panic that unwinds is not replaced: it says
    /// more than later texts.
    pub fn set_last_words(&self, words: &str) {
        if !std::thread::panicking() || self.own_entry().last_words.read().is_empty() {
            self.write_last_words(words);
        }
    }

    /// Notes what this task waits for and where, after nothing has arrived for `quiet`. Hang reports show the note.
    pub fn note_wait(&self, quiet: Duration, facts: WaitFacts) {
        if self.own_pid == std::process::id() {
            wait_report::write(&self.own_entry().wait, quiet, facts);
        }
    }

    fn write_last_words(&self, words: &str) {
        if self.own_pid == std::process::id() {
            self.own_entry().last_words.write(words);
        }
    }

    /// Installs a panic hook that keeps a panic's message and location as this task's last words, and then runs the previous hook.
    pub fn install_panic_hook(self: &Arc<Self>) {
        let before = std::panic::take_hook();
        let job = Arc::downgrade(self);
        std::panic::set_hook(Box::new(move |panic| {
            if let Some(job) = job.upgrade() {
                job.write_last_words(&words_of(panic));
            }
            before(panic);
        }));
    }

    /// Whether the launcher still runs. `true` for a job of one, and where its process cannot be seen.
    #[must_use]
    pub fn launcher_alive(&self) -> bool {
        self.launcher.as_ref().is_none_or(|(_, launcher)| !launcher.has_ended())
    }

    /// The process that this host's tasks descend from. `None` for a job of one, or if the process is not visible.
    #[must_use]
    pub fn launcher_pid(&self) -> Option<u32> {
        self.launcher.as_ref().map(|&(pid, _)| pid)
    }

    /// Number of processors that the tasks of this host may use together: the union of their affinity masks, limited by the cgroup's quota.
    /// The number changes while tasks attach.
    #[must_use]
    pub fn cpus(&self) -> u32 {
        let union = layout_job::count_cpus(self.entries_here());
        union.min(self.header.quota_cpus.load(Ordering::Relaxed)).max(1)
    }

    /// Whether the tasks of this host outnumber the processors that they may use. In a job on one host all tasks get the same answer; in a
    /// job of several hosts the answer can change while tasks attach.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        let tasks = self.tasks_here();
        if tasks == self.table.in_use().count() {
            return self.header.is_crowded.load(Ordering::Relaxed) != 0;
        }
        tasks > self.cpus() as usize
    }

    /// Number of tasks of this host, which share its processors.
    #[must_use]
    pub fn tasks_here(&self) -> usize {
        self.entries_here().count()
    }

    fn entries_here(&self) -> impl Iterator<Item = &TaskEntry> {
        let own = self.own_entry().host.load(Ordering::Relaxed);
        let entries = self.table.in_use().map(|(_, entry)| entry);
        entries.filter(move |entry| entry.host.load(Ordering::Relaxed) == own)
    }

    fn own_entry(&self) -> &TaskEntry {
        self.table.get(self.task).expect("this task's number was checked when it attached")
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // A task that drops its job during a panic has failed.
        if self.has_joined && !std::thread::panicking() {
            self.mark_finalized();
        }
    }
}

/// Prepares this process for the barrier that the launcher chose, and returns that barrier.
fn join_barrier(task: u32, header: &JobHeader) -> Result<SleepBarrier, JobError> {
    let barrier = SleepBarrier::from_word(header.barrier.load(Ordering::Relaxed));
    let barrier = barrier.ok_or(JobError::Damaged { what: "it names no barrier" })?;
    barrier.join().map_err(|source| JobError::NoBarrier { task, source })?;
    Ok(barrier)
}

#[expect(unsafe_code, reason = "a hook of forked copies")]
fn install_hook() {
    // SAFETY: `tell_copy` takes a lock only if it is free, and stores to the copy's own memory: it waits for no thread.
    unsafe { fork::install(tell_copy) };
}

/// Runs in a forked copy of this process: marks the task as failed in the copy's private job file, so that waits in the copy end.
fn tell_copy() {
    // Another thread may have held the lock at the fork.
    let Ok(current) = CURRENT.try_lock() else { return };
    if let Some(job) = current.upgrade() {
        let (kind, value) = Cause::GaveUp.encode();
        job.header.record_failure(job.task, kind, value, "this process is a copy of the task, made by fork");
    }
}

/// Settings of the layers above from this process's own environment, used without a launcher.
fn variables_of_this_process() -> Variables {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
    };
    Variables::of_other_tables(std::env::vars_os().filter_map(text))
}

/// The descriptor as which all tasks inherit a task's control file, and the file's inode. Neither is to be trusted.
fn control_of(entry: &TaskEntry) -> (i32, u64) {
    (entry.control_fd.load(Ordering::Relaxed), entry.control_inode.load(Ordering::Relaxed))
}

/// The descriptor as which all tasks inherit a task's heap file, and the file's inode. Neither is to be trusted.
fn heap_of(entry: &TaskEntry) -> (i32, u64) {
    (entry.heap_fd.load(Ordering::Relaxed), entry.heap_inode.load(Ordering::Relaxed))
}

/// The PID namespace of this process; 0 if it is not known.
fn pid_namespace() -> u64 {
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |data| data.ino())
}

fn state_of(entry: &TaskEntry) -> TaskState {
    // Acquire: pairs with the stores in `Job` and in `JobOwner::mark_dead` ("state set").
    match entry.state.load(Ordering::Acquire) {
        STATE_RUNNING => TaskState::Running,
        STATE_FINALIZED => TaskState::Finalized,
        STATE_DEAD => TaskState::Dead,
        _ => TaskState::NotStarted,
    }
}

fn failure_in(header: &JobHeader) -> Option<Failure> {
    let (task, kind, value, last_words) = header.first_failure()?;
    Some(Failure { task, cause: Cause::decode(kind, value), last_words })
}

/// Rings the doorbells of all contexts of the task that this control file belongs to.
fn ring(control: &File) -> io::Result<()> {
    let page = usize::try_from(PAGE_BYTES).expect("a page fits into the address space");
    let mapping = Mapping::new(control.as_fd(), DOORBELL_OFFSET as u64, page)?;
    for context in 0..CONTEXTS_MAX as usize {
        let doorbell: Option<Shared<Doorbell>> = mapping.atomics(context * size_of::<Doorbell>());
        doorbell.expect("the doorbells lie in one page").ring_always();
    }
    Ok(())
}

fn words_of(panic: &std::panic::PanicHookInfo<'_>) -> String {
    let payload = panic.payload();
    let message = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    match panic.location() {
        Some(place) => format!("panicked at {place}: {message}"),
        None => format!("panicked: {message}"),
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
