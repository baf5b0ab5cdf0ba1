//! A job: the tasks that work together, the memory files they share, and what they must know of each other's life.
//!
//! The launcher makes all files before the first task starts ([`JobOwner`]); a task attaches to them ([`Job::attach`]). They
//! have no name in any file system: tasks inherit them as open files, and find them in `/proc` under the launcher's number
//! where a wrapper closed them. A program that was started without a launcher is a job of one.
//!
//! What a task reads in the job file is a claim of whoever wrote it last; nothing here trusts it with memory.

#![deny(unsafe_code)]

mod error;
mod failure;
mod owner;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use crate::settings::Settings;
use crate::shm::atomics::{AtomicBool, Ordering};
use crate::shm::layout::{CONTEXTS_MAX, DOORBELL_OFFSET};
use crate::shm::layout_job::{
    self, JOB_MAGIC, JobHeader, PID_UNKNOWN, STATE_DEAD, STATE_FINALIZED, STATE_RUNNING, TASKS_MAX, TaskEntry,
};
use crate::shm::os::memory::{self, PAGE_BYTES};
use crate::shm::os::process::{self, PidFd};
use crate::shm::os::{fork, sched, signal};
use crate::shm::segment::{Mapping, Shared};
use crate::shm::wait::Doorbell;

pub use error::JobError;
pub use failure::{Cause, Failure};
pub use owner::{JobOwner, JobPlan};

/// The environment variable that makes a process a task: `<job file>:<task>:<launcher>:<job id>`.
pub const JOB_VARIABLE: &str = "AM_JOB";

/// How far a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Its program has not attached.
    NotStarted,
    /// It is at work.
    Running,
    /// It has taken its leave.
    Finalized,
    /// It ended before it took its leave, or with a failure.
    Dead,
}

/// This process as a task of its job. One a process; clones of the `Arc` share it.
#[derive(Debug)]
pub struct Job {
    task: u32,
    num_tasks: u32,
    own_pid: u32,
    header: Shared<JobHeader>,
    entries: Vec<Shared<TaskEntry>>,
    files: Vec<LazyFiles>,
    settings: Settings,
    /// `None`: a job of one, or a launcher whose process cannot be seen from here.
    launcher: Option<PidFd>,
}

/// The memory files of one task.
#[derive(Debug)]
struct TaskFiles {
    control: File,
    heap: File,
}

/// The same, opened when first asked for.
#[derive(Debug, Default)]
struct LazyFiles {
    control: OnceLock<File>,
    heap: OnceLock<File>,
}

/// The job of this process, while anybody uses it.
static CURRENT: Mutex<Weak<Job>> = Mutex::new(Weak::new());

impl Job {
    /// The job of this process: the one that its launcher started it in, or a job of one. All callers get the same.
    ///
    /// # Errors
    /// The environment or the job file is not what a launcher makes, a file cannot be reached, another process is this task
    /// already, or, for a job of one, what [`JobOwner::create`] says.
    pub fn attach() -> Result<Arc<Self>, JobError> {
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        // A copy made by fork is another process: it must not act as the task that it was copied from.
        if let Some(job) = current.upgrade().filter(|job| job.own_pid == std::process::id()) {
            return Ok(job);
        }
        let job = Arc::new(match std::env::var(JOB_VARIABLE) {
            Ok(value) => Self::attach_to(&Invitation::parse(&value)?)?,
            Err(std::env::VarError::NotPresent) => Self::of_one()?,
            Err(std::env::VarError::NotUnicode(value)) => {
                let value = value.to_string_lossy().into_owned();
                return Err(JobError::BadEnvironment { value, why: "it is no text" });
            }
        });
        *current = Arc::downgrade(&job);
        fork::install(tell_copy);
        Ok(job)
    }

    /// The settings that [`attach`](Self::attach) would find, without becoming a task of the job.
    ///
    /// # Errors
    /// As for [`attach`](Self::attach).
    pub fn look_at_settings() -> Result<Settings, JobError> {
        let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        if let Some(job) = current {
            return Ok(job.settings.clone());
        }
        let Ok(value) = std::env::var(JOB_VARIABLE) else { return Ok(Settings::from_env()?) };
        let file = Invitation::parse(&value)?.open()?;
        let mapping = Mapping::new(file.as_fd(), 0, size_of::<JobHeader>())
            .map_err(JobError::system("mapping the job file"))?;
        let header: Option<Shared<JobHeader>> = mapping.atomics(0);
        let header = header.ok_or(JobError::Damaged { what: "it is shorter than its header" })?;
        Ok(Settings::from_lines(&header.settings.read())?)
    }

    fn of_one() -> Result<Self, JobError> {
        let settings = Settings::from_env()?;
        let plan = JobPlan { num_tasks: 1, settings: settings.clone(), cpus: Vec::new() };
        let (header, entries, files) = JobOwner::create(&plan)?.into_parts();
        let files = files
            .into_iter()
            .map(|files| LazyFiles {
                control: OnceLock::from(files.control),
                heap: OnceLock::from(files.heap),
            })
            .collect();
        header.launcher_pid.store(0, Ordering::Relaxed);
        let own_pid = std::process::id();
        let job = Self { task: 0, num_tasks: 1, own_pid, header, entries, files, settings, launcher: None };
        job.take_place()?;
        Ok(job)
    }

    fn attach_to(invitation: &Invitation) -> Result<Self, JobError> {
        let file = invitation.open()?;
        let bytes = file.metadata().map_err(JobError::system("looking at the job file"))?.len();
        let mapping = Mapping::new(file.as_fd(), 0, usize::try_from(bytes).unwrap_or(usize::MAX))
            .map_err(JobError::system("mapping the job file"))?;
        mapping.keep_in_copies();
        let damaged = |what| move || JobError::Damaged { what };
        let header: Shared<JobHeader> =
            mapping.atomics(0).ok_or_else(damaged("it is shorter than its header"))?;
        let num_tasks = header.num_tasks.load(Ordering::Relaxed);
        if num_tasks == 0 || num_tasks > TASKS_MAX {
            return Err(JobError::Damaged { what: "it has no tasks, or more than there can be" });
        }
        let task = invitation.task;
        if task >= num_tasks {
            return Err(JobError::UnknownTask { task, num_tasks });
        }
        let entries = (0..num_tasks)
            .map(|task| mapping.atomics(JobHeader::entry_offset(task)))
            .collect::<Option<Vec<_>>>()
            .ok_or_else(damaged("it is shorter than its table of tasks"))?;
        let settings = Settings::from_lines(&header.settings.read())?;
        let is_visible = header.pid_namespace.load(Ordering::Relaxed) == pid_namespace();
        let launcher = is_visible.then(|| PidFd::open(invitation.launcher_pid).ok()).flatten();
        let job = Self {
            task,
            num_tasks,
            own_pid: std::process::id(),
            header,
            entries,
            files: (0..num_tasks).map(|_| LazyFiles::default()).collect(),
            settings,
            launcher,
        };
        job.take_place()?;
        Ok(job)
    }

    /// Becomes the process of the task, unless another one is or was.
    fn take_place(&self) -> Result<(), JobError> {
        let entry = self.own_entry();
        // In another namespace our number would name another process, or none.
        let is_visible = self.header.pid_namespace.load(Ordering::Relaxed) == pid_namespace();
        let pid = if is_visible { self.own_pid } else { PID_UNKNOWN };
        // AcqRel: "pid published", pairs with the loads in `pid` here and at the launcher.
        let taken = entry.pid.compare_exchange(0, pid, Ordering::AcqRel, Ordering::Acquire);
        if let Err(pid) = taken
            && pid != self.own_pid
        {
            return Err(JobError::TaskTaken { task: self.task, pid });
        }
        entry.set_cpus(&sched::allowed_cpus());
        entry.state.store(STATE_RUNNING, Ordering::Release);
        Ok(())
    }

    /// This task.
    #[inline]
    #[must_use]
    pub fn task(&self) -> u32 {
        self.task
    }

    /// Tasks in the job.
    #[inline]
    #[must_use]
    pub fn num_tasks(&self) -> u32 {
        self.num_tasks
    }

    /// From now on `hook` is called in each copy of this process that a fork without exec makes. It may do little: other threads of
    /// the task may have held any lock.
    pub fn call_in_copies(&self, hook: fn()) {
        fork::install(hook);
    }

    /// Notes SIGUSR2 from now on, which the launcher passes on to tasks that catch it: the flag becomes true when it comes.
    ///
    /// # Errors
    /// The system's error.
    pub fn note_usr2(&self) -> io::Result<&'static AtomicBool> {
        signal::flag(signal::USR2)
    }

    /// The settings, the same in all tasks of the job.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// One setting as text; `None` if there is none of this name.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<String> {
        self.settings.value(name)
    }

    /// The control file of a task; its size is [`control_bytes`](Self::control_bytes).
    ///
    /// # Errors
    /// No such task; the file can be reached neither as an inherited file nor through the launcher.
    pub fn control_file(&self, task: u32) -> Result<BorrowedFd<'_>, JobError> {
        self.open_once(
            task,
            "control",
            |files| &files.control,
            |entry| (entry.control_fd.load(Ordering::Relaxed), entry.control_inode.load(Ordering::Relaxed)),
        )
    }

    /// The heap file of a task; its size is [`heap_bytes`](Self::heap_bytes).
    ///
    /// # Errors
    /// As for [`control_file`](Self::control_file).
    pub fn heap_file(&self, task: u32) -> Result<BorrowedFd<'_>, JobError> {
        self.open_once(
            task,
            "heap",
            |files| &files.heap,
            |entry| (entry.heap_fd.load(Ordering::Relaxed), entry.heap_inode.load(Ordering::Relaxed)),
        )
    }

    fn open_once(
        &self,
        task: u32,
        what: &'static str,
        slot: impl Fn(&LazyFiles) -> &OnceLock<File>,
        number_and_inode: impl Fn(&TaskEntry) -> (i32, u64),
    ) -> Result<BorrowedFd<'_>, JobError> {
        let unknown = JobError::UnknownTask { task, num_tasks: self.num_tasks };
        let (Some(files), Some(entry)) = (self.files.get(task as usize), self.entries.get(task as usize))
        else {
            return Err(unknown);
        };
        let slot = slot(files);
        if let Some(file) = slot.get() {
            return Ok(file.as_fd());
        }
        let (number, inode) = number_and_inode(entry);
        let launcher_pid = self.header.launcher_pid.load(Ordering::Relaxed);
        let file = open_inherited_or_launchers(number, launcher_pid, |file| has_inode(file, inode))
            .map_err(|source| JobError::Unreachable { what, task, number, launcher_pid, source })?;
        Ok(slot.get_or_init(|| file).as_fd())
    }

    /// Bytes of each control file.
    #[must_use]
    pub fn control_bytes(&self) -> u64 {
        self.header.control_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of each heap file.
    #[must_use]
    pub fn heap_bytes(&self) -> u64 {
        self.header.heap_bytes.load(Ordering::Relaxed)
    }

    /// The process of a task, 0 before it attached, and if it is in another process namespace. A claim of that task, and after its end perhaps another process's number.
    #[must_use]
    pub fn pid(&self, task: u32) -> i32 {
        self.entries
            .get(task as usize)
            // Acquire: "pid published".
            .and_then(|entry| i32::try_from(entry.pid.load(Ordering::Acquire)).ok())
            .unwrap_or(0)
    }

    /// Whether the process of a task has ended. `false` while that can't be known: the task has not attached, or its process
    /// can't be seen from here.
    #[must_use]
    pub fn has_ended(&self, task: u32) -> bool {
        let is_visible = self.header.pid_namespace.load(Ordering::Relaxed) == pid_namespace();
        let pid = u32::try_from(self.pid(task)).unwrap_or(0);
        is_visible && pid != 0 && process::has_ended(pid)
    }

    /// How far a task is. A claim.
    #[must_use]
    pub fn state(&self, task: u32) -> TaskState {
        self.entries.get(task as usize).map_or(TaskState::NotStarted, |entry| state_of(entry))
    }

    /// A number that changes at each death. One load of a line that nobody writes otherwise.
    #[inline(always)]
    #[must_use]
    pub fn failure_epoch(&self) -> u32 {
        // Acquire: "failure epoch": who sees a new number sees the failed task's bit.
        self.header.failure_epoch.load(Ordering::Acquire)
    }

    /// Whether a task failed. `false` for a number beyond the job.
    #[must_use]
    pub fn is_failed(&self, task: u32) -> bool {
        self.header.is_failed(task)
    }

    /// The first failure of the job.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        failure_in(&self.header)
    }

    /// Asks that the job goes on when a task fails (or no longer). For all tasks.
    pub fn set_continue_on_failure(&self, goes_on: bool) {
        self.header.continue_on_failure.store(u32::from(goes_on), Ordering::Relaxed);
    }

    /// This task takes part (again).
    pub fn mark_running(&self) {
        self.set_state(STATE_RUNNING);
    }

    /// This task takes its leave: its end with code 0 is no failure from now on. Done by itself when the last user of the
    /// job lets it go.
    pub fn mark_finalized(&self) {
        self.set_state(STATE_FINALIZED);
    }

    fn set_state(&self, state: u32) {
        if self.own_pid == std::process::id() && self.own_entry().state.load(Ordering::Acquire) != STATE_DEAD
        {
            self.own_entry().state.store(state, Ordering::Release);
        }
    }

    /// This task cannot go on: all others see it as failed from now on, and are woken.
    pub fn mark_failed(&self, words: &str) {
        if self.own_pid != std::process::id() {
            return;
        }
        // The words of a panic stay, here too.
        let said = self.own_entry().last_words.read();
        let words = if std::thread::panicking() && !said.is_empty() { said.as_str() } else { words };
        self.set_last_words(words);
        let (kind, value) = Cause::GaveUp.encode();
        self.header.record_failure(self.task, kind, value, words);
        self.own_entry().state.store(STATE_DEAD, Ordering::Release);
        for task in 0..self.num_tasks {
            if let Ok(file) = self.control_file(task).and_then(|file| {
                file.try_clone_to_owned().map(File::from).map_err(JobError::system("opening a control file"))
            }) {
                // Best effort, as the launcher's: a sleeper looks by itself when its wait ends.
                let _ = ring(&file);
            }
        }
    }

    /// What is told of this task if it fails; up to 512 bytes are kept. The words of a panic that unwinds stay: they tell more
    /// than those of whoever sees it pass.
    pub fn set_last_words(&self, words: &str) {
        if !std::thread::panicking() || self.own_entry().last_words.read().is_empty() {
            self.write_last_words(words);
        }
    }

    fn write_last_words(&self, words: &str) {
        if self.own_pid == std::process::id() {
            self.own_entry().last_words.write(words);
        }
    }

    /// From now on a panic's message and place become this task's last words; the hook that was there runs after that.
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

    /// Whether the launcher is there. `true` for a job of one, and where its process cannot be seen.
    #[must_use]
    pub fn launcher_alive(&self) -> bool {
        self.launcher.as_ref().is_none_or(|launcher| !launcher.has_ended())
    }

    /// Processors that the tasks may use together: the union of their affinity masks, cut by the cgroup's quota. It changes
    /// while tasks attach.
    #[must_use]
    pub fn cpus(&self) -> u32 {
        let union = layout_job::count_cpus(self.entries.iter().map(|entry| &**entry));
        union.min(self.header.quota_cpus.load(Ordering::Relaxed)).max(1)
    }

    fn own_entry(&self) -> &TaskEntry {
        // `task` was checked against the number of entries when this task attached.
        &self.entries[self.task as usize]
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // A task that lets its job go while it panics is not taking its leave.
        if !std::thread::panicking() {
            self.mark_finalized();
        }
    }
}

/// What `AM_JOB` says.
#[derive(Debug, PartialEq, Eq)]
struct Invitation {
    number: i32,
    task: u32,
    launcher_pid: u32,
    id: u64,
}

impl Invitation {
    fn parse(value: &str) -> Result<Self, JobError> {
        let bad = |why| JobError::BadEnvironment { value: value.to_owned(), why };
        let fields: Vec<&str> = value.split(':').collect();
        let [number, task, launcher_pid, id] = fields[..] else {
            return Err(bad("it has not four fields"));
        };
        Ok(Self {
            number: number.parse().map_err(|_| bad("the first field is no file number"))?,
            task: task.parse().map_err(|_| bad("the second field is no task number"))?,
            launcher_pid: launcher_pid.parse().map_err(|_| bad("the third field is no process number"))?,
            id: u64::from_str_radix(id, 16).map_err(|_| bad("the fourth field is no hexadecimal number"))?,
        })
    }

    fn open(&self) -> Result<File, JobError> {
        let Self { number, task, launcher_pid, id } = *self;
        open_inherited_or_launchers(number, launcher_pid, |file| is_job_file(file, id))
            .map_err(|source| JobError::Unreachable { what: "job", task, number, launcher_pid, source })
    }
}

/// The file that this process inherited as `number`, if it is the right one, or else the launcher's file of this number.
fn open_inherited_or_launchers(
    number: i32,
    launcher_pid: u32,
    is_right: impl Fn(&File) -> bool,
) -> io::Result<File> {
    if let Ok(file) = memory::inherited(number)
        && is_right(&file)
    {
        return Ok(file);
    }
    let path = format!("/proc/{launcher_pid}/fd/{number}");
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    if is_right(&file) {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "the launcher's file of this number is another one"))
}

/// Run in a forked copy of this process, whose job file is its own: what polls there sees that its task has failed.
fn tell_copy() {
    // Another thread may have held the lock at the fork.
    let Ok(current) = CURRENT.try_lock() else { return };
    if let Some(job) = current.upgrade() {
        let (kind, value) = Cause::GaveUp.encode();
        job.header.record_failure(job.task, kind, value, "this process is a copy of the task, made by fork");
    }
}

fn has_inode(file: &File, inode: u64) -> bool {
    file.metadata().is_ok_and(|data| data.ino() == inode)
}

fn is_job_file(file: &File, id: u64) -> bool {
    let bytes = JobHeader::file_bytes(1);
    // Too short a file would be mapped beyond its end.
    let is_long_enough = file.metadata().is_ok_and(|data| data.is_file() && data.len() >= bytes as u64);
    is_long_enough
        && Mapping::new(file.as_fd(), 0, bytes)
            .ok()
            .and_then(|mapping| mapping.atomics::<JobHeader>(0))
            .is_some_and(|header| {
                // Acquire: "job file made".
                header.magic.load(Ordering::Acquire) == JOB_MAGIC
                    && header.job_id.load(Ordering::Relaxed) == id
            })
}

/// The namespace that this process's number belongs to; 0 where the system does not say.
fn pid_namespace() -> u64 {
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |data| data.ino())
}

fn state_of(entry: &TaskEntry) -> TaskState {
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
mod tests {
    use super::*;

    #[test]
    fn only_what_a_launcher_writes_is_an_invitation() {
        let good = Invitation::parse("200:3:4711:00000000deadbeef").unwrap();
        assert_eq!(good, Invitation { number: 200, task: 3, launcher_pid: 4711, id: 0xdead_beef });
        for bad in ["", "1", "1:2:3", "1:2:3:4:5", "x:2:3:4", "1:-2:3:4", "1:2:x:4", "1:2:3:xyz"] {
            let error = Invitation::parse(bad).unwrap_err();
            assert!(error.to_string().contains("unset AM_JOB"), "{error}");
        }
    }

    /// Attaches as tasks do, inside the process that made the job.
    fn attach_to(owner: &JobOwner, task: u32) -> Result<Job, JobError> {
        let (_, value) = owner.environment(task).into_iter().find(|(name, _)| name == JOB_VARIABLE).unwrap();
        Job::attach_to(&Invitation::parse(&value)?)
    }

    fn owner(num_tasks: u32) -> JobOwner {
        JobOwner::create(&JobPlan { num_tasks, settings: Settings::default(), cpus: Vec::new() }).unwrap()
    }

    #[test]
    fn a_task_finds_its_job_and_takes_its_leave() {
        let owner = owner(3);
        assert_eq!(owner.state(1), TaskState::NotStarted);
        let job = attach_to(&owner, 1).unwrap();
        assert_eq!((job.task(), job.num_tasks()), (1, 3));
        assert_eq!(owner.state(1), TaskState::Running);
        assert_eq!(owner.pid(1), Some(std::process::id()));
        assert_eq!(job.pid(0), 0);
        assert!(job.launcher_alive());
        assert!(job.cpus() >= 1);
        for task in 0..3 {
            let len = |file: BorrowedFd<'_>| {
                File::from(file.try_clone_to_owned().unwrap()).metadata().unwrap().len()
            };
            assert_eq!(len(job.control_file(task).unwrap()), job.control_bytes());
            assert_eq!(len(job.heap_file(task).unwrap()), job.heap_bytes());
        }
        assert!(matches!(job.heap_file(3), Err(JobError::UnknownTask { task: 3, num_tasks: 3 })));
        drop(job);
        assert_eq!(owner.state(1), TaskState::Finalized);
    }

    #[test]
    fn a_death_is_seen_by_one_load_with_who_how_and_what_it_said() {
        let owner = owner(2);
        let job = attach_to(&owner, 0).unwrap();
        let other = attach_to(&owner, 1).unwrap();
        let epoch = job.failure_epoch();
        other.set_last_words("out of cheese");
        owner.mark_dead(1, Cause::Signalled(11), "");
        assert_ne!(job.failure_epoch(), epoch);
        assert!(job.is_failed(1) && !job.is_failed(0));
        let failure = job.failure().unwrap();
        assert_eq!(failure.to_string(), "task 1 was killed by signal 11 (SIGSEGV): out of cheese");
    }

    #[test]
    fn a_task_that_gives_up_says_so_itself() {
        let owner = owner(2);
        let job = attach_to(&owner, 0).unwrap();
        job.mark_failed("no file to read");
        assert_eq!(owner.first_failure().unwrap().to_string(), "task 0 gave up: no file to read");
        drop(job);
        assert_eq!(owner.state(0), TaskState::Dead);
    }

    #[test]
    fn a_wrong_invitation_is_refused() {
        let owner = owner(1);
        let (_, value) = owner.environment(0).remove(0);
        let right = Invitation::parse(&value).unwrap();
        let wrong_id = Invitation { id: right.id ^ 1, ..right };
        assert!(matches!(Job::attach_to(&wrong_id), Err(JobError::Unreachable { what: "job", .. })));
        assert!(matches!(attach_to(&owner, 1), Err(JobError::UnknownTask { task: 1, num_tasks: 1 })));
        let another_file = Invitation { number: 0, ..Invitation::parse(&value).unwrap() };
        assert!(Job::attach_to(&another_file).is_err());
    }

    #[test]
    fn a_task_is_one_process() {
        let owner = owner(1);
        let entry_taken = attach_to(&owner, 0).unwrap();
        entry_taken.own_entry().pid.store(1, Ordering::Relaxed);
        assert!(matches!(attach_to(&owner, 0), Err(JobError::TaskTaken { task: 0, pid: 1 })));
    }

    #[test]
    fn a_file_that_is_not_the_recorded_one_is_not_taken() {
        let owner = owner(1);
        let job = attach_to(&owner, 0).unwrap();
        let entry = job.own_entry();
        let heap_inode = entry.heap_inode.load(Ordering::Relaxed);
        entry.control_inode.store(heap_inode, Ordering::Relaxed);
        let error = job.control_file(0).unwrap_err();
        assert!(error.to_string().contains("control file of task 0"), "{error}");
    }

    #[test]
    fn without_a_launcher_a_program_is_a_job_of_one() {
        let job = Job::of_one().unwrap();
        assert_eq!((job.task(), job.num_tasks()), (0, 1));
        assert!(job.control_file(0).is_ok() && job.heap_file(0).is_ok());
        assert!(job.launcher_alive());
        assert_eq!(job.setting("credits"), Some("64".to_owned()));
    }
}
