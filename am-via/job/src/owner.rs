//! The launcher's side of a job: creates its files before any task starts, records deaths, rings all doorbells.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::entries::Entries;
use super::invitation;
use super::life;
use super::record::{self, Recorded};
use super::wait_report::{self, NotedWait};
use super::{Cause, Failure, JOB_VARIABLE, JobError, TaskFiles, TaskState, ring, state_of};
use crate::Variables;
use crate::settings::{HEAP_BYTES_DEFAULT, HEAP_BYTES_MIN, Settings};
use am_via_os::atomics::{AtomicU32, Ordering};
use am_via_os::limits::{self, Limit, Resource};
use am_via_os::memory::{self, PAGE_BYTES};
use am_via_os::sched;
use am_via_shm::layout::{ControlHeader, ControlLayout, VIS_MAX};
#[cfg(test)]
use am_via_shm::layout_job::JOB_VERSION_SHIFT;
use am_via_shm::layout_job::{self, JOB_MAGIC, JobHeader, PID_UNKNOWN, TASKS_MAX};
use am_via_shm::layout_record::TaskRecord;
use am_via_shm::{Mapping, Shared, SleepBarrier};

/// Lowest descriptor of an inherited file: scripts use lower descriptors for their own files.
const INHERITED_NUMBER_MIN: i32 = 200;
const JOB_FILE: &str = "am-job";
/// Generous estimate of the files that a task opens besides those of the job.
const FILES_OF_A_PROGRAM: u64 = 64;
/// The fewest VI slots of a task.
const VIS_MIN: u32 = 64;
/// The most that the settings of a job have, in bytes.
const SETTINGS_BYTES_MAX: usize = JobHeader::SETTINGS_BYTES_MAX;

/// The description of a job to be created.
#[derive(Clone, Debug)]
pub struct JobPlan {
    /// Number of tasks, at least 1.
    pub num_tasks: u32,
    /// The settings of the job.
    pub settings: Settings,
    /// The settings of other layers in the environment.
    pub others: Variables,
    /// What the tasks record.
    pub record: Record,
    /// The processors that each task will be bound to; none for a task that is not bound.
    pub cpus: Vec<Vec<usize>>,
    /// The host of each task, as a number; empty if all tasks run on this host.
    pub hosts: Vec<u32>,
}

/// The extent of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// Nothing, at no cost.
    #[default]
    Nothing,
    /// Sums.
    Sums,
    /// Sums, and single events.
    Events,
}

/// A job, in the process of its launcher. The job's memory lives as long as this value or a task of the job.
#[derive(Debug)]
pub struct JobOwner {
    file: File,
    /// The files of each task that the job has now.
    files: Mutex<BTreeMap<u32, TaskFiles>>,
    /// The file that tasks record into, if they record.
    record: Option<File>,
    pub(super) header: Shared<JobHeader>,
    pub(super) table: Entries,
    id: u64,
    /// Number of tasks that the job began with.
    num_tasks: u32,
    heap_bytes: u64,
    layout: ControlLayout,
    /// The number of the last world that was made.
    pub(super) worlds: AtomicU32,
    /// The tasks that have ended with code 0 without joining.
    never_joined: Mutex<BTreeSet<u32>>,
}

impl JobOwner {
    /// Makes the files of a job, and raises this process's limit on open files as far as allowed.
    ///
    /// # Errors
    /// The number of tasks is 0 or too large; a resource limit is too low (the error names the limit and the need); a system call failed.
    pub fn create(plan: &JobPlan) -> Result<Self, JobError> {
        let num_tasks = plan.num_tasks;
        if num_tasks == 0 || num_tasks > TASKS_MAX {
            return Err(JobError::NumTasks { asked: num_tasks, max: TASKS_MAX });
        }
        let limits = Limits::of_this_process();
        limits.check_open_files(num_tasks)?;
        let layout = limits.layout(plan.settings.packet_bytes)?;
        let heap_bytes = limits.heap_file_bytes(plan.settings.heap_bytes, num_tasks)?;

        let file = make(JOB_FILE, JobHeader::file_bytes() as u64)?;
        let (header, table) = Entries::of(&file)?;
        let record = match plan.record {
            Record::Nothing => None,
            Record::Sums | Record::Events => {
                let bytes = TaskRecord::FILE_BYTES * u64::from(num_tasks);
                limits.check_file_size("the record of what the tasks do (--stats, --trace)", bytes)?;
                Some(make("am-record", bytes)?)
            }
        };
        let never_joined = Mutex::default();
        let owner = Self {
            file,
            files: Mutex::default(),
            record,
            header,
            table,
            id: random(),
            num_tasks,
            heap_bytes,
            layout,
            worlds: AtomicU32::new(0),
            never_joined,
        };
        owner.make_tasks(0, num_tasks)?;
        owner.write_masks(plan);
        owner.write_header(plan)?;
        Ok(owner)
    }

    /// The job of a living process, which is a task or holds the files for tasks. For inspection only: the tasks' own files are not opened.
    ///
    /// # Errors
    /// The process is in no job, may not be inspected, or is of another version of this library; the job file is damaged.
    pub fn of_process(pid: u32) -> Result<Self, JobError> {
        let failed = || JobError::system("looking for a job among the files of the process");
        let none =
            || std::io::Error::new(std::io::ErrorKind::NotFound, format!("process {pid} is in no job"));
        let file =
            memory::open_of_process(pid, JOB_FILE).and_then(|file| file.ok_or_else(none)).map_err(failed())?;
        invitation::check_version(&file, pid)?;
        let (header, table) = Entries::of(&file)?;
        let (id, num_tasks) =
            (header.job_id.load(Ordering::Relaxed), header.num_tasks.load(Ordering::Relaxed));
        let layout =
            ControlLayout { num_tasks: TASKS_MAX, packet_bytes: 0, vis: header.vis.load(Ordering::Relaxed) };
        Ok(Self {
            file,
            files: Mutex::default(),
            record: None,
            header,
            table,
            id,
            num_tasks,
            heap_bytes: 0,
            layout,
            worlds: AtomicU32::new(0),
            never_joined: Mutex::default(),
        })
    }

    /// Makes the files of new tasks, which are started together.
    pub(super) fn make_tasks(&self, first: u32, count: u32) -> Result<(), JobError> {
        for task in first..first + count {
            let control = make("am-control", self.layout.file_bytes())?;
            let heap = make("am-heap", self.heap_bytes)?;
            write_control_header(&control, &self.layout)?;
            let entry = self.table.get(task).ok_or(JobError::NoRoom { asked: count, max: TASKS_MAX })?;
            entry.control_fd.store(control.as_raw_fd(), Ordering::Relaxed);
            entry.heap_fd.store(heap.as_raw_fd(), Ordering::Relaxed);
            entry.control_inode.store(inode(&control)?, Ordering::Relaxed);
            entry.heap_inode.store(inode(&heap)?, Ordering::Relaxed);
            entry.world_first.store(first, Ordering::Relaxed);
            self.files().insert(task, TaskFiles { control, heap });
        }
        for task in first..first + count {
            // Release: pairs with the Acquire in `Entries::in_use`: the entry is written.
            self.table.get(task).inspect(|entry| entry.world_size.store(count, Ordering::Release));
        }
        self.header.tasks_end.fetch_max(first + count, Ordering::Release);
        self.header.epoch.fetch_add(1, Ordering::Release);
        Ok(())
    }

    pub(super) fn files(&self) -> MutexGuard<'_, BTreeMap<u32, TaskFiles>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_masks(&self, plan: &JobPlan) {
        let everywhere = sched::allowed_cpus();
        for (task, entry) in self.table.in_use() {
            let task = task as usize;
            let bound = plan.cpus.get(task).filter(|cpus| !cpus.is_empty());
            entry.set_cpus(bound.unwrap_or(&everywhere));
            entry.host.store(plan.hosts.get(task).copied().unwrap_or(0), Ordering::Relaxed);
        }
    }

    /// Sets the processors of tasks that this owner has not started: those on which their processes may run. Must be called before any task
    /// attaches.
    ///
    /// # Errors
    /// A process has ended.
    pub(super) fn take_masks(&self, processes: impl Iterator<Item = (u32, u32)>) -> io::Result<()> {
        for (task, pid) in processes {
            let cpus = sched::allowed_cpus_of(pid)?;
            self.table.get(task).inspect(|entry| entry.set_cpus(&cpus));
        }
        self.mark_crowded();
        Ok(())
    }

    /// Notes whether the tasks of the host with the most tasks outnumber that host's processors, assumed to be as many as this host's.
    pub(super) fn mark_crowded(&self) {
        let mut tasks_of: BTreeMap<u32, usize> = BTreeMap::new();
        for (_, entry) in self.table.in_use() {
            *tasks_of.entry(entry.host.load(Ordering::Relaxed)).or_default() += 1;
        }
        let tasks = tasks_of.into_values().max().unwrap_or(1);
        let cpus = layout_job::count_cpus(self.table.in_use().map(|(_, entry)| entry));
        let cpus = cpus.min(self.header.quota_cpus.load(Ordering::Relaxed)).max(1);
        let is_crowded = u32::from(tasks > cpus as usize);
        self.header.is_crowded_now.store(is_crowded, Ordering::Relaxed);
        if self.worlds.load(Ordering::Relaxed) == 0 {
            self.header.is_crowded.store(is_crowded, Ordering::Relaxed);
        }
    }

    fn write_header(&self, plan: &JobPlan) -> Result<(), JobError> {
        let header = &self.header;
        if let Some(record) = &self.record {
            header.record_fd.store(record.as_raw_fd(), Ordering::Relaxed);
            header.record_inode.store(inode(record)?, Ordering::Relaxed);
            header.records_events.store(u32::from(plan.record == Record::Events), Ordering::Relaxed);
        }
        let quota = limits::cgroup_milli_cpus()
            .map_or(u32::MAX, |milli| u32::try_from(milli.div_ceil(1000)).unwrap_or(u32::MAX).max(1));
        header.job_id.store(self.id, Ordering::Relaxed);
        header.num_tasks.store(self.num_tasks, Ordering::Relaxed);
        header.vis.store(self.layout.vis, Ordering::Relaxed);
        header.launcher_pid.store(std::process::id(), Ordering::Relaxed);
        header.pid_namespace.store(super::pid_namespace(), Ordering::Relaxed);
        header.quota_cpus.store(quota, Ordering::Relaxed);
        let barrier =
            if plan.settings.membarrier { SleepBarrier::probe() } else { SleepBarrier::SenderFence };
        header.barrier.store(barrier.to_word(), Ordering::Relaxed);
        let settings = plan.others.lines_with(&plan.settings);
        if settings.len() > SETTINGS_BYTES_MAX {
            return Err(JobError::system("writing the settings of the job")(io::Error::other(format!(
                "settings and variables that begin with AM_, MPI_ or LAM_MPI_ have {} bytes, but a job has {SETTINGS_BYTES_MAX} bytes \
                 for them; unset those that are no settings",
                settings.len()
            ))));
        }
        header.settings.write(&settings);
        self.mark_crowded();
        // Release: "job file made", pairs with the load in `is_job_file`.
        header.magic.store(JOB_MAGIC, Ordering::Release);
        Ok(())
    }

    /// The record of `task` so far; `None` if the tasks record nothing, there is no such task, or the record can't be mapped.
    #[must_use]
    pub fn recorded(&self, task: u32) -> Option<Recorded> {
        let record = self.record.as_ref().filter(|_| task < self.num_tasks)?;
        record::map(record.as_fd(), task).ok().map(|shared| record::read(&shared))
    }

    /// Number of tasks that the job began with.
    #[must_use]
    pub fn num_tasks(&self) -> u32 {
        self.num_tasks
    }

    /// The job's random number; its processes have it in their environment.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The environment variables that make a process task `task` of this job: names and values.
    #[must_use]
    pub fn environment(&self, task: u32) -> Vec<(String, String)> {
        vec![
            (JOB_VARIABLE.to_owned(), self.invitation(task)),
            ("AM_TASK".to_owned(), task.to_string()),
            ("AM_NUM_TASKS".to_owned(), self.world_size(task).to_string()),
        ]
    }

    /// The value of the variable `AM_JOB` for task `task`.
    pub(crate) fn invitation(&self, task: u32) -> String {
        format!("{}:{task}:{}:{:016x}", self.file.as_raw_fd(), std::process::id(), self.id)
    }

    /// The file descriptors that each task inherits.
    #[must_use]
    pub fn inherited_files(&self) -> Vec<i32> {
        let files = self.files();
        let of_tasks = files.values().flat_map(|files| [files.control.as_raw_fd(), files.heap.as_raw_fd()]);
        let record = self.record.iter().map(AsRawFd::as_raw_fd);
        std::iter::once(self.file.as_raw_fd()).chain(record).chain(of_tasks).collect()
    }

    /// Records that `task` has failed and rings all doorbells. Keeps the task's own last words if it has any, otherwise `words`. Returns
    /// whether this was the job's first failure.
    pub fn mark_dead(&self, task: u32, cause: Cause, words: &str) -> bool {
        let Some(entry) = self.table.get(task) else { return false };
        let own = entry.last_words.read();
        let (kind, value) = cause.encode();
        entry.set_cause(kind, value);
        let first = self.header.record_failure(task, kind, value, if own.is_empty() { words } else { &own });
        // Release: "state set", pairs with the load in `state_of`: a reader of this state also sees the cause.
        entry.state.store(am_via_shm::layout_job::STATE_DEAD, Ordering::Release);
        self.ring_all();
        first
    }

    /// Notes that a task, of this host or of another, has ended with code 0 without joining.
    pub fn note_never_joined(&self, task: u32) {
        self.never_joined.lock().unwrap_or_else(PoisonError::into_inner).insert(task);
    }

    /// Whether [`note_never_joined`](Self::note_never_joined) was called for a task.
    #[must_use]
    pub fn has_never_joined(&self, task: u32) -> bool {
        self.never_joined.lock().unwrap_or_else(PoisonError::into_inner).contains(&task)
    }

    /// Wakes every sleeping task, so that it sees changes of the job file.
    pub(super) fn ring_all(&self) {
        for files in self.files().values() {
            // Best effort: if a doorbell can't be mapped (no memory left), its sleeper checks again when its wait ends.
            let _ = ring(&files.control);
        }
    }

    /// The first failure recorded, by this launcher or by a task itself; `None` if there was none.
    #[must_use]
    pub fn first_failure(&self) -> Option<Failure> {
        super::failure_in(&self.header)
    }

    /// Whether the program asked that the job go on when a task fails.
    #[must_use]
    pub fn continues_on_failure(&self) -> bool {
        self.header.continue_on_failure.load(Ordering::Relaxed) != 0
    }

    /// State of `task`. The task writes it itself, so it is not to be trusted.
    #[must_use]
    pub fn state(&self, task: u32) -> TaskState {
        self.table.get(task).map_or(TaskState::NotStarted, state_of)
    }

    /// The PID of the process that attached as `task`; `None` before that, or if the process is in another PID namespace. The task writes
    /// it itself, so it is not to be trusted.
    #[must_use]
    pub fn pid(&self, task: u32) -> Option<u32> {
        // Acquire: pairs with the exchange in `Job::take_place` ("pid published").
        let pid = self.table.get(task)?.pid.load(Ordering::Acquire);
        (pid != 0 && pid != PID_UNKNOWN).then_some(pid)
    }

    /// Whether the process that attached as `task` has certainly ended, like [`Job::has_ended`](super::Job::has_ended).
    #[must_use]
    pub fn has_ended(&self, task: u32) -> bool {
        // Acquire: pairs with the store in `Job::take_place` ("life locked").
        let entry = self.table.get(task);
        entry.is_some_and(|entry| entry.life_locked.load(Ordering::Acquire) != 0)
            && life::has_ended(self.file.as_fd(), task)
    }

    /// Tells `task` that its process is watched.
    pub fn set_watched(&self, task: u32) {
        if let Some(entry) = self.table.get(task) {
            // Release: pairs with the Acquire in `Job::wait_until_watched`.
            entry.watched.store(1, Ordering::Release);
        }
    }

    /// Whether a process has attached as `task`, on any host, running or not. Not to be trusted.
    #[must_use]
    pub fn has_joined(&self, task: u32) -> bool {
        // Acquire: pairs with the exchange in `Job::take_place` ("pid published").
        self.table.get(task).is_some_and(|entry| entry.pid.load(Ordering::Acquire) != 0)
    }

    /// The last wait that `task` noted; `None` if it has noted none, or there is no such task. [`NotedWait::is_fresh`] tells whether the
    /// task still waits.
    #[must_use]
    pub fn wait_of(&self, task: u32) -> Option<NotedWait> {
        wait_report::read(&self.table.get(task)?.wait)
    }

    /// The last words of `task`; empty if there are none.
    #[must_use]
    pub fn last_words(&self, task: u32) -> String {
        self.table.get(task).map_or_else(String::new, |entry| entry.last_words.read())
    }

    /// Makes the job look like one of a launcher of another version.
    #[cfg(test)]
    pub(super) fn pretend_version(&self, version: u64) {
        let name = JOB_MAGIC & ((1 << JOB_VERSION_SHIFT) - 1);
        self.header.magic.store(version << JOB_VERSION_SHIFT | name, Ordering::Relaxed);
    }

    /// The parts that make up an in-process job of one.
    pub(super) fn into_parts(self) -> (File, Shared<JobHeader>, Entries, Vec<TaskFiles>) {
        let files = self.files.into_inner().unwrap_or_else(PoisonError::into_inner);
        (self.file, self.header, self.table, files.into_values().collect())
    }
}

fn inode(file: &File) -> Result<u64, JobError> {
    file.metadata().map(|data| data.ino()).map_err(JobError::system("looking at a memory file"))
}

fn make(name: &str, bytes: u64) -> Result<File, JobError> {
    let file = memory::create(name, bytes).map_err(JobError::system("making a memory file"))?;
    Ok(memory::move_up(file, INHERITED_NUMBER_MIN))
}

fn write_control_header(file: &File, layout: &ControlLayout) -> Result<(), JobError> {
    let page = usize::try_from(PAGE_BYTES).expect("a page fits into the address space");
    let mapping: Arc<Mapping> =
        Mapping::new(file.as_fd(), 0, page).map_err(JobError::system("mapping a control file"))?;
    let header: Shared<ControlHeader> = mapping.atomics(0).expect("a page holds the header");
    layout.write(&header);
    Ok(())
}

/// A number that is unlikely to be that of another job.
pub(super) fn random() -> u64 {
    // The standard library seeds this hasher from the system's random numbers.
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.finish()
}

/// Resource limits that a job's files must fit, in bytes or files; `None`: unlimited.
#[derive(Clone, Copy, Debug)]
struct Limits {
    file_size: Option<u64>,
    address_space: Option<u64>,
    open_files: Option<u64>,
}

impl Limits {
    fn of_this_process() -> Self {
        let soft = |limit: Limit| limit.soft;
        Self {
            file_size: soft(limits::limit(Resource::FileSize)),
            address_space: soft(limits::limit(Resource::AddressSpace)),
            open_files: soft(limits::raise(Resource::OpenFiles)),
        }
    }

    fn check_open_files(&self, num_tasks: u32) -> Result<(), JobError> {
        // A task inherits two files of each task, and may open each of them once more. The launcher holds these two files, two pipes and a
        // handle for each task, and one more handle for each process that it kills.
        let needed = 6 * u64::from(num_tasks) + FILES_OF_A_PROGRAM;
        match self.open_files {
            Some(value) if value < needed => Err(JobError::LimitTooSmall {
                limit: Resource::OpenFiles,
                value,
                what: "a job of this size",
                needed,
                remedy: "raise it (ulimit -Hn, as the superuser) or start fewer tasks".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// The layout of the control files. As many connections as a task can have, or else as many as the limit on files allows.
    fn layout(&self, packet_bytes: u32) -> Result<ControlLayout, JobError> {
        let of = |vis| ControlLayout { num_tasks: TASKS_MAX, packet_bytes, vis };
        let fits = |vis: &u32| self.file_size.is_none_or(|most| of(*vis).file_bytes() <= most);
        let sizes =
            std::iter::successors(Some(VIS_MAX), |vis| Some(vis / 2)).take_while(|&vis| vis >= VIS_MIN);
        let chosen = of(sizes.clone().find(fits).unwrap_or(VIS_MIN));
        self.check_file_size("the control file of a task", chosen.file_bytes())?;
        Ok(chosen)
    }

    fn check_file_size(&self, what: &'static str, needed: u64) -> Result<(), JobError> {
        match self.file_size {
            Some(value) if value < needed => Err(JobError::LimitTooSmall {
                limit: Resource::FileSize,
                value,
                what,
                needed,
                remedy:
                    "raise it: ulimit -f unlimited (the files are sparse, only touched pages cost memory)"
                        .to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Size of each heap file in bytes. The default is reduced to what the limits allow; a value set by the user is used or refused.
    fn heap_file_bytes(&self, setting: Option<u64>, num_tasks: u32) -> Result<u64, JobError> {
        let Some(chosen) = setting else {
            return self.automatic_heap_file_bytes(num_tasks);
        };
        let needed = chosen.next_multiple_of(PAGE_BYTES);
        self.check_file_size("the heap file of a task (setting heap_bytes, AM_HEAP_BYTES)", needed)?;
        // Each task maps the heaps of all tasks.
        let needed_mapped = needed.saturating_mul(u64::from(num_tasks));
        match self.address_space {
            Some(value) if value < needed_mapped => Err(JobError::LimitTooSmall {
                limit: Resource::AddressSpace,
                value,
                what: "a task that maps the heaps of all tasks",
                needed: needed_mapped,
                remedy: "raise it (ulimit -v unlimited), start fewer tasks, or set a smaller AM_HEAP_BYTES"
                    .to_owned(),
            }),
            _ => Ok(needed),
        }
    }

    fn automatic_heap_file_bytes(&self, num_tasks: u32) -> Result<u64, JobError> {
        self.check_file_size("the heap file of a task", HEAP_BYTES_MIN)?;
        // At most a quarter of the address space is for heaps; the rest stays for the program.
        let share = 4 * u64::from(num_tasks);
        if let Some(value) = self.address_space.filter(|&bytes| bytes / share < HEAP_BYTES_MIN) {
            return Err(JobError::LimitTooSmall {
                limit: Resource::AddressSpace,
                value,
                what: "a job in which each task maps the heaps of all tasks (a quarter of the limit is for them)",
                needed: HEAP_BYTES_MIN * share,
                remedy: "raise it (ulimit -v unlimited), or start fewer tasks".to_owned(),
            });
        }
        let by_space = self.address_space.map_or(u64::MAX, |bytes| bytes / share);
        let bytes = HEAP_BYTES_DEFAULT.min(self.file_size.unwrap_or(u64::MAX)).min(by_space);
        Ok(bytes / PAGE_BYTES * PAGE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNLIMITED: Limits = Limits { file_size: None, address_space: None, open_files: None };

    #[test]
    fn a_heap_is_cut_to_what_the_limits_allow() {
        assert_eq!(UNLIMITED.heap_file_bytes(None, 4).unwrap(), HEAP_BYTES_DEFAULT);
        let limits = Limits { file_size: Some((30 << 20) + 5), ..UNLIMITED };
        assert_eq!(limits.heap_file_bytes(None, 4).unwrap(), 30 << 20);
        let limits = Limits { address_space: Some(1 << 30), ..UNLIMITED };
        assert_eq!(limits.heap_file_bytes(None, 4).unwrap(), 64 << 20);
    }

    #[test]
    fn what_was_chosen_can_be_allocated_also_where_it_is_the_least() {
        for setting in [Some(HEAP_BYTES_MIN), None] {
            let enough = Limits { address_space: Some(8 * HEAP_BYTES_MIN), ..UNLIMITED };
            assert_eq!(enough.heap_file_bytes(setting, 2).unwrap(), HEAP_BYTES_MIN);
        }
        let short = Limits { address_space: Some(4 << 20), ..UNLIMITED };
        let error = short.heap_file_bytes(None, 2).unwrap_err().to_string();
        assert!(error.contains("RLIMIT_AS is 4194304"), "{error}");
    }

    #[test]
    fn a_limit_that_is_too_small_is_named_with_its_value_the_need_and_the_knob() {
        let file_size = Limits { file_size: Some(4096), ..UNLIMITED };
        let address_space = Limits { address_space: Some(1 << 20), ..UNLIMITED };
        let open_files = Limits { open_files: Some(20), ..UNLIMITED };
        let cases = [
            (file_size.heap_file_bytes(None, 2).unwrap_err(), ["RLIMIT_FSIZE", "4096", "ulimit -f"]),
            (
                file_size.heap_file_bytes(Some(8192), 2).unwrap_err(),
                ["RLIMIT_FSIZE", "8192", "AM_HEAP_BYTES"],
            ),
            (address_space.heap_file_bytes(None, 2).unwrap_err(), ["RLIMIT_AS", "1048576", "ulimit -v"]),
            (
                address_space.heap_file_bytes(Some(1 << 20), 2).unwrap_err(),
                ["RLIMIT_AS", "2097152", "AM_HEAP_BYTES"],
            ),
            (open_files.check_open_files(8).unwrap_err(), ["RLIMIT_NOFILE", "112", "ulimit -Hn"]),
        ];
        for (error, parts) in cases {
            let text = error.to_string();
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        }
    }

    #[test]
    fn a_job_has_tasks_and_not_too_many() {
        for num_tasks in [0, TASKS_MAX + 1] {
            let plan = JobPlan {
                num_tasks,
                settings: Settings::default(),
                others: Variables::default(),
                cpus: Vec::new(),
                hosts: Vec::new(),
                record: Record::Nothing,
            };
            assert!(matches!(JobOwner::create(&plan), Err(JobError::NumTasks { .. })));
        }
    }

    #[test]
    fn settings_that_do_not_fit_are_refused_and_not_cut() {
        let plan = |variables: usize| {
            let variable = |number| (format!("MPI_VARIABLE_{number}"), "x".repeat(60));
            JobPlan {
                num_tasks: 1,
                settings: Settings::default(),
                others: Variables::of_other_tables((0..variables).map(variable)),
                cpus: Vec::new(),
                hosts: Vec::new(),
                record: Record::Nothing,
            }
        };
        JobOwner::create(&plan(20)).unwrap();
        let error = JobOwner::create(&plan(200)).unwrap_err().to_string();
        assert!(error.contains("unset those that are no settings"), "{error}");
    }

    #[test]
    fn jobs_have_different_numbers_and_high_files() {
        let plan = JobPlan {
            num_tasks: 2,
            settings: Settings::default(),
            others: Variables::default(),
            cpus: Vec::new(),
            hosts: Vec::new(),
            record: Record::Nothing,
        };
        let (a, b) = (JobOwner::create(&plan).unwrap(), JobOwner::create(&plan).unwrap());
        assert_ne!(a.id(), b.id());
        assert_eq!(a.inherited_files().len(), 5);
        assert!(a.inherited_files().iter().all(|&number| number >= INHERITED_NUMBER_MIN));
        assert!(a.mark_dead(1, Cause::Exited(3), "words"));
        assert!(!a.mark_dead(0, Cause::Exited(4), ""));
        let failure = a.first_failure().unwrap();
        assert_eq!((failure.task, failure.cause, &*failure.last_words), (1, Cause::Exited(3), "words"));
        assert_eq!(a.state(1), TaskState::Dead);
        assert!(b.first_failure().is_none());
    }
}
