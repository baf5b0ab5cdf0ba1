//! The layout of the job file: the common state of a job's tasks and its launcher. Each job has one small file.
//!
//! ```text
//! 0              header: magic, job id, launcher, failure record, failed tasks, settings
//! then           one entry for each number that a task can have: its files, its process, its state, its last words
//! ```
//!
//! Every value is a claim of the process that wrote it.

use crate::layout::{CONTEXTS_MAX, Padded};
use crate::segment::SharedAtomics;
use am_via_os::atomics::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// "AMJOB", and in the highest 16 bits the version of this layout.
pub const JOB_MAGIC: u64 = 0x0009_0042_4f4a_4d41;
/// Position of the version in [`JOB_MAGIC`], in bits.
pub const JOB_VERSION_SHIFT: u32 = 48;
/// Maximum number of tasks of a job at a time, with those that tasks have started. Task numbers are lower.
pub const TASKS_MAX: u32 = 4096;
/// Maximum number of processors in an affinity mask.
pub const CPUS_MAX: usize = 1024;

const FAILED_WORDS: usize = TASKS_MAX as usize / 64;
const CPU_WORDS: usize = CPUS_MAX / 64;

/// Maximum number of return addresses in a [`WaitNote`].
pub const RETURN_ADDRESSES_MAX: usize = 48;
/// Maximum length of an answer, in words of 8 bytes.
pub const ANSWER_WORDS: usize = 256;
/// Maximum length of the text in a [`WaitNote`], in words of 8 bytes.
pub const WAIT_FACTS_WORDS: usize = 256;

/// Stored instead of a PID if the task has attached from another PID namespace.
pub const PID_UNKNOWN: u32 = u32::MAX;

/// State of a task: attached. Before that, the state is 0.
pub const STATE_RUNNING: u32 = 1;
/// State of a task that has left the job; the end of its process is then not a failure.
pub const STATE_FINALIZED: u32 = 2;
/// State of a task whose process ended before the task left the job.
pub const STATE_DEAD: u32 = 3;

/// The first bytes of a job file.
#[repr(C)]
#[derive(Debug)]
pub struct JobHeader {
    /// [`JOB_MAGIC`], stored last.
    pub magic: AtomicU64,
    /// A random number, the same in the environment of every task.
    pub job_id: AtomicU64,
    /// Number of tasks that the job began with.
    pub num_tasks: AtomicU32,
    /// The PID of the launcher, which holds all files open; 0: there is none (a job of one task without a launcher).
    pub launcher_pid: AtomicU32,
    /// Not 0: the program has asked that the job continue when a task fails.
    pub continue_on_failure: AtomicU32,
    /// Whole processors that the cgroup's quota grants; `u32::MAX`: no quota.
    pub quota_cpus: AtomicU32,
    /// Inode of the launcher's PID namespace, in which the PIDs of this file are valid.
    pub pid_namespace: AtomicU64,
    /// How all tasks order a store before a load of a peer's store: `SleepBarrier::to_word`.
    pub barrier: AtomicU32,
    /// Descriptor as which tasks inherit the file for their records.
    pub record_fd: AtomicI32,
    /// Inode of that file; 0: there is none.
    pub record_inode: AtomicU64,
    /// Not 0: events are recorded, not only their sums.
    pub records_events: AtomicU32,
    /// Not 0: when the job was made, the tasks of this host outnumbered the processors that they may use. All tasks of the host read the
    /// same value, whatever processors they choose later.
    pub is_crowded: AtomicU32,
    /// Incremented when a task fails. Every poll of every task reads it, so it has a line of its own.
    pub failure_epoch: Padded<AtomicU32>,
    /// The first failure.
    pub failure: FailureRecord,
    /// Bit `t % 64` of word `t / 64`: task `t` failed.
    pub failed: [AtomicU64; FAILED_WORDS],
    /// The settings of the job, as lines `name=value`.
    pub settings: Text<SETTINGS_WORDS>,
    /// All tasks, also those that tasks have started, have lower numbers. Grows only.
    pub tasks_end: AtomicU32,
    /// Number of VI slots in each control file.
    pub vis: AtomicU32,
    /// Not 0: when tasks were last started, the tasks outnumbered the processors.
    pub is_crowded_now: AtomicU32,
    /// Incremented when a task gets a number or loses it.
    pub epoch: AtomicU32,
    /// Descriptor as which the launcher has a pipe open, into which tasks write what they ask for (`TaskEntry::answer`).
    pub asks_fd: AtomicI32,
    /// Inode of that pipe; 0: the job has no launcher that answers.
    pub asks_inode: AtomicU64,
    /// Number of tasks that the program may plan for: the launcher's estimate.
    pub universe: AtomicU32,
    /// Not 0: tasks wait where they join the job, for a debugger.
    pub holds_tasks: AtomicU32,
}

// SAFETY: repr(C), atomics only.
unsafe impl SharedAtomics for JobHeader {}

#[cfg(loom)]
impl Default for JobHeader {
    fn default() -> Self {
        unreachable!("no model has a job file")
    }
}

#[cfg(loom)]
impl Default for WaitNote {
    fn default() -> Self {
        unreachable!("no model has a job file")
    }
}

#[cfg(loom)]
impl Default for NetworkAddress {
    fn default() -> Self {
        unreachable!("no model has a job file")
    }
}

#[cfg(loom)]
impl Default for TaskEntry {
    fn default() -> Self {
        unreachable!("no model has a job file")
    }
}

/// The first failure of a job.
#[repr(C)]
#[derive(Debug)]
pub struct FailureRecord {
    /// Number of the first failed task plus 1; claimed by compare-and-swap.
    pub task: AtomicU32,
    /// Not 0 when all other fields have been written.
    pub complete: AtomicU32,
    /// How the task ended: a kind of cause.
    pub kind: AtomicU32,
    /// The exit code or signal number, if `kind` has one; otherwise 0.
    pub value: AtomicI32,
    /// The last words of the task, or a description by the launcher.
    pub last_words: Text<128>,
}

/// The entry of a task in the job file.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct TaskEntry {
    /// Descriptor as which all tasks inherit this task's control file.
    pub control_fd: AtomicI32,
    /// Descriptor as which all tasks inherit this task's heap file.
    pub heap_fd: AtomicI32,
    /// Inode of the task's control file, because wrappers may reuse the descriptor number.
    pub control_inode: AtomicU64,
    /// Inode of the task's heap file.
    pub heap_inode: AtomicU64,
    /// The task's process, written by the task when it attaches, because wrappers may be between the task and the launcher. 0 before that;
    /// [`PID_UNKNOWN`] if its PID is not valid in the launcher's PID namespace.
    pub pid: AtomicU32,
    /// Not 0: the task's process has locked byte `task` of the job file, and holds the lock until it can no longer write to any memory.
    pub life_locked: AtomicU32,
    /// `STATE_*`.
    pub state: AtomicU32,
    /// Not 0: the launcher watches the task's process, although a wrapper is between the two.
    pub watched: AtomicU32,
    /// How the task ended, as first noted; 0: not noted.
    pub cause_kind: AtomicU32,
    /// The exit code or signal number, if `cause_kind` has one; otherwise 0.
    pub cause_value: AtomicI32,
    /// The task's host: tasks on one host share its memory files, others use the network.
    pub host: AtomicU32,
    /// The first task of those that were started together, of which this is one: its *world*.
    pub world_first: AtomicU32,
    /// The number of tasks that were started together, which have consecutive numbers; 0: no task has this number now.
    pub world_size: AtomicU32,
    /// A number that no other world of the job has; 0: the tasks that the job began with.
    pub world: AtomicU32,
    /// The index of the task's program among the programs that were started together.
    pub program: AtomicU32,
    /// Not 0: this task shares communicators with tasks of other worlds, which its failure concerns.
    pub is_connected: AtomicU32,
    /// Not 0: the launcher is giving up this number, or has given it up. Until it is 0 again, no task can hold the number.
    given_up: AtomicU32,
    /// Number of the last thing that the task has asked of the launcher and that was answered.
    pub answered: AtomicU32,
    /// That answer.
    pub answer: Text<ANSWER_WORDS>,
    /// Bit `t % 64` of word `t / 64`: task `t` may hold something of this task, such as a connection, so that no other task may get this
    /// task's number. Tasks that the job began with never have others after them.
    pub users: [AtomicU64; TASKS_MAX as usize / 64],
    /// The network addresses of the task's contexts.
    pub network: [NetworkAddress; CONTEXTS_MAX as usize],
    /// The processors that the task may run on: first the launcher's estimate, then the task's own mask.
    pub cpus: [AtomicU64; CPU_WORDS],
    /// The task's last words.
    pub last_words: Text<64>,
    /// The note of a long wait.
    pub wait: WaitNote,
}

const NETWORK_ADDRESS_WORDS: usize = 8;

/// The address of a context's network endpoint. On the task's own host the task writes it; on every other host, that host's launcher does.
#[repr(C)]
#[derive(Debug)]
pub struct NetworkAddress {
    /// Length in bytes; 0: the context is not open.
    len: AtomicU64,
    words: [AtomicU64; NETWORK_ADDRESS_WORDS],
}

impl NetworkAddress {
    /// Maximum length of an address, in bytes.
    pub const CAPACITY_BYTES: usize = NETWORK_ADDRESS_WORDS * 8;

    /// Stores an address; returns whether it fits.
    pub fn write(&self, address: &[u8]) -> bool {
        let fits = address.len() <= Self::CAPACITY_BYTES;
        self.len.store(0, Ordering::Relaxed);
        for (word, bytes) in self.words.iter().zip(address.chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(padded), Ordering::Relaxed);
        }
        // Release: "address written", pairs with the load in `read`.
        self.len.store(if fits { address.len() as u64 } else { 0 }, Ordering::Release);
        fits
    }

    /// The address, if it is known, as its owner claims.
    #[must_use]
    pub fn read(&self) -> Option<Vec<u8>> {
        // Acquire: "address written".
        let len = usize::try_from(self.len.load(Ordering::Acquire)).ok()?;
        let bytes = self.words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes());
        (1..=Self::CAPACITY_BYTES).contains(&len).then(|| bytes.take(len).collect())
    }
}

/// The note of a task about a wait in which nothing has arrived for a while. Only the task writes it. A reader that finds
/// the same time before and after it has read everything else has read one note.
#[repr(C)]
#[derive(Debug)]
pub struct WaitNote {
    /// When the note was written, in nanoseconds of the system's monotonic clock; 0: never.
    pub written_ns: AtomicU64,
    /// For how long nothing had arrived then, in nanoseconds.
    pub quiet_ns: AtomicU64,
    /// Number of return addresses that follow.
    pub num_return_addresses: AtomicU64,
    /// The stack of the wait, innermost first.
    pub return_addresses: [AtomicU64; RETURN_ADDRESSES_MAX],
    /// Description of what the task waits for.
    pub facts: Text<WAIT_FACTS_WORDS>,
}

// SAFETY: repr(C), atomics only (and padding at the end).
unsafe impl SharedAtomics for TaskEntry {}

// SAFETY: repr(C), atomics only.
unsafe impl SharedAtomics for WaitNote {}

// SAFETY: repr(C), atomics only.
unsafe impl SharedAtomics for NetworkAddress {}

/// Text in shared memory, in words of eight bytes. There is one writer at a time; a concurrent reader gets a mixture of two texts, which is
/// harmless.
#[repr(C)]
#[derive(Debug)]
pub struct Text<const WORDS: usize> {
    len: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl<const WORDS: usize> Text<WORDS> {
    /// Capacity in bytes.
    pub const CAPACITY_BYTES: usize = WORDS * 8;

    /// Replaces the text, cut at a character boundary if it is too long.
    pub fn write(&self, text: &str) {
        let text = &text[..floor_char_boundary(text, Self::CAPACITY_BYTES)];
        self.len.store(0, Ordering::Relaxed);
        for (word, bytes) in self.words.iter().zip(text.as_bytes().chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(padded), Ordering::Relaxed);
        }
        // Release: "text written", pairs with the load in `read`.
        self.len.store(text.len() as u64, Ordering::Release);
    }

    /// The text, with invalid UTF-8 replaced.
    #[must_use]
    pub fn read(&self) -> String {
        // Acquire: "text written". The length is a claim: limited to the capacity.
        let len = self.len.load(Ordering::Acquire).min(Self::CAPACITY_BYTES as u64);
        let len = usize::try_from(len).unwrap_or(0);
        let mut bytes: Vec<u8> =
            self.words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        bytes.truncate(len);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// The last character boundary of `text` up to `bytes_max`.
fn floor_char_boundary(text: &str, bytes_max: usize) -> usize {
    (0..=bytes_max.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// Capacity of [`JobHeader::settings`].
const SETTINGS_WORDS: usize = 1024;

impl JobHeader {
    /// The most that the settings of a job may have, in bytes.
    pub const SETTINGS_BYTES_MAX: usize = Text::<SETTINGS_WORDS>::CAPACITY_BYTES;

    /// Offset of task `task`'s entry in the job file.
    #[must_use]
    pub fn entry_offset(task: u32) -> usize {
        size_of::<Self>().next_multiple_of(64) + task as usize * size_of::<TaskEntry>()
    }

    /// Bytes of a job file, in whole pages. Entries without a task cost nothing.
    #[must_use]
    pub fn file_bytes() -> usize {
        Self::entry_offset(TASKS_MAX).next_multiple_of(4096)
    }

    /// Whether task `task` failed. `false` for numbers beyond the job.
    #[inline]
    #[must_use]
    pub fn is_failed(&self, task: u32) -> bool {
        self.failed
            .get(task as usize / 64)
            // Acquire: "failed bit", pairs with the `fetch_or` in `set_failed`: the record is complete or claimed.
            .is_some_and(|word| word.load(Ordering::Acquire) >> (task % 64) & 1 != 0)
    }

    /// Records that `task` failed. The first failure becomes that of the job, with its kind, value and words; returns whether this was the
    /// first.
    pub fn record_failure(&self, task: u32, kind: u32, value: i32, last_words: &str) -> bool {
        if task as usize / 64 >= self.failed.len() {
            return false;
        }
        let record = &self.failure;
        let claim = record.task.compare_exchange(0, task + 1, Ordering::AcqRel, Ordering::Relaxed);
        let first = claim.is_ok();
        // A task that died while it recorded its own failure has left the record incomplete.
        // Acquire: "failure recorded".
        let is_cut = claim == Err(task + 1) && record.complete.load(Ordering::Acquire) == 0;
        if first || is_cut {
            record.kind.store(kind, Ordering::Relaxed);
            record.value.store(value, Ordering::Relaxed);
            record.last_words.write(last_words);
            // Release: "failure recorded", pairs with the load in `first_failure`.
            record.complete.store(1, Ordering::Release);
        }
        self.set_failed(task);
        first
    }

    /// Records that `task` failed, and that this is no failure of the job.
    pub fn set_failed(&self, task: u32) {
        let Some(word) = self.failed.get(task as usize / 64) else { return };
        // Release: "failed bit".
        let before = word.fetch_or(1 << (task % 64), Ordering::Release);
        if before >> (task % 64) & 1 == 0 {
            // Release: "failure epoch", pairs with the pollers' load: a task that sees the new number sees the bit.
            self.failure_epoch.fetch_add(1, Ordering::Release);
        }
    }

    /// Forgets the failure of a task whose number another task gets.
    pub fn forget_failure(&self, task: u32) {
        if let Some(word) = self.failed.get(task as usize / 64) {
            word.fetch_and(!(1 << (task % 64)), Ordering::Release);
        }
    }

    /// Task, kind, value and words of the first failure, if it is written.
    #[must_use]
    pub fn first_failure(&self) -> Option<(u32, u32, i32, String)> {
        let record = &self.failure;
        // Acquire: "failure recorded".
        if record.complete.load(Ordering::Acquire) == 0 {
            return None;
        }
        let task = record.task.load(Ordering::Relaxed).checked_sub(1)?;
        let kind = record.kind.load(Ordering::Relaxed);
        Some((task, kind, record.value.load(Ordering::Relaxed), record.last_words.read()))
    }
}

impl TaskEntry {
    /// Makes this the entry of no task.
    pub fn forget(&self) {
        // Release: pairs with the readers' Acquire: they find no task before they find a part of the next one.
        self.world_size.store(0, Ordering::Release);
        self.state.store(0, Ordering::Relaxed);
        self.life_locked.store(0, Ordering::Relaxed);
        self.watched.store(0, Ordering::Relaxed);
        self.cause_kind.store(0, Ordering::Relaxed);
        self.wait.written_ns.store(0, Ordering::Relaxed);
        self.last_words.write("");
        for address in &self.network {
            let _ = address.write(&[]);
        }
        self.pid.store(0, Ordering::Release);
    }

    /// Makes this entry that of a task of which no other task holds anything. Must be called before [`world_size`](Self::world_size) is
    /// written: a task that tried to hold the task before this one may have come too late.
    pub fn hold_by_none(&self) {
        self.users.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        // Release: pairs with the load in `hold`. A task that reads this 0 finds that the bits of earlier tasks are cleared.
        self.given_up.store(0, Ordering::Release);
    }

    /// Notes that `task` holds something of this task. Returns whether there is such a task, whose number no other task gets meanwhile.
    #[must_use]
    pub fn hold(&self, task: u32) -> bool {
        let Some(word) = self.users.get(task as usize / 64) else { return false };
        loop {
            // SeqCst, here and in `give_up`: either the launcher sees the bit, or this task sees that the number is being given up.
            word.fetch_or(1 << (task % 64), Ordering::SeqCst);
            if self.given_up.load(Ordering::SeqCst) != 0 || self.world_size.load(Ordering::Acquire) == 0 {
                return false;
            }
            // Not so if the number has gone from one task to the next in between, which took the bit away.
            if self.is_held_by(task) {
                return true;
            }
        }
    }

    /// Gives up the number of this task, unless a task holds something of it for which `counts` is true. Returns whether it was given up.
    /// For the launcher.
    pub fn give_up(&self, counts: impl Fn(u32) -> bool) -> bool {
        self.given_up.store(1, Ordering::SeqCst);
        let is_held = self.holders().any(counts);
        if is_held {
            // Release: as in `hold_by_none`.
            self.given_up.store(0, Ordering::Release);
        }
        !is_held
    }

    /// Notes that `task` no longer holds anything of this task.
    pub fn let_go(&self, task: u32) {
        if let Some(word) = self.users.get(task as usize / 64) {
            // Release: what the task has changed in shared memory comes first.
            word.fetch_and(!(1 << (task % 64)), Ordering::Release);
        }
    }

    /// Whether `task` may hold something of this task.
    #[must_use]
    pub fn is_held_by(&self, task: u32) -> bool {
        // Acquire: pairs with the Release in `let_go`.
        self.users
            .get(task as usize / 64)
            .is_some_and(|word| word.load(Ordering::Acquire) >> (task % 64) & 1 != 0)
    }

    /// The tasks that may hold something of this task.
    fn holders(&self) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.users).flat_map(|(number, word)| {
            let bits = word.load(Ordering::SeqCst);
            (0..u64::BITS).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| 64 * number + bit)
        })
    }

    /// Notes how the task ended. The first note stays.
    pub fn set_cause(&self, kind: u32, value: i32) {
        if self.cause_kind.load(Ordering::Relaxed) == 0 {
            self.cause_value.store(value, Ordering::Relaxed);
            // Release: "cause noted", pairs with the load in `cause`.
            self.cause_kind.store(kind, Ordering::Release);
        }
    }

    /// Kind and value of the noted end.
    #[must_use]
    pub fn cause(&self) -> Option<(u32, i32)> {
        // Acquire: "cause noted".
        let kind = self.cause_kind.load(Ordering::Acquire);
        (kind != 0).then(|| (kind, self.cause_value.load(Ordering::Relaxed)))
    }

    /// Replaces the affinity mask; processors beyond [`CPUS_MAX`] are ignored.
    pub fn set_cpus(&self, cpus: &[usize]) {
        let mut words = [0u64; CPU_WORDS];
        for &cpu in cpus.iter().filter(|&&cpu| cpu < CPUS_MAX) {
            words[cpu / 64] |= 1 << (cpu % 64);
        }
        for (shared, word) in self.cpus.iter().zip(words) {
            shared.store(word, Ordering::Relaxed);
        }
    }
}

/// Number of processors that the tasks may use together: the union of their masks.
#[must_use]
pub fn count_cpus<'a>(entries: impl Iterator<Item = &'a TaskEntry>) -> u32 {
    let mut union = [0u64; CPU_WORDS];
    for entry in entries {
        for (word, shared) in union.iter_mut().zip(&entry.cpus) {
            *word |= shared.load(Ordering::Relaxed);
        }
    }
    union.iter().map(|word| word.count_ones()).sum()
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<TaskEntry>().is_multiple_of(64));
    assert!(align_of::<JobHeader>() == 64);
    assert!(std::mem::offset_of!(JobHeader, failure_epoch) == 64);
    assert!(std::mem::offset_of!(JobHeader, failure) == 128);
};

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::segment::{Mapping, Shared};

    fn header() -> Shared<JobHeader> {
        let (_file, mapping) = Mapping::anonymous(JobHeader::file_bytes()).unwrap();
        mapping.atomics(0).unwrap()
    }

    /// A task may be killed while it records its own failure. Its launcher then records it again.
    #[test]
    fn a_record_that_its_task_has_cut_is_completed() {
        let header = header();
        header.failure.task.store(2 + 1, Ordering::Relaxed);
        assert!(!header.record_failure(2, 7, 9, "killed"));
        assert_eq!(header.first_failure(), Some((2, 7, 9, "killed".to_owned())));
        header.record_failure(2, 1, 1, "later");
        header.record_failure(1, 1, 1, "another");
        assert_eq!(header.first_failure(), Some((2, 7, 9, "killed".to_owned())));
    }

    #[test]
    fn text_comes_back_and_is_cut_between_characters() {
        let header = header();
        let text = &header.failure.last_words;
        assert_eq!(text.read(), "");
        text.write("short");
        assert_eq!(text.read(), "short");
        text.write(&"ä".repeat(1000));
        assert_eq!(text.read(), "ä".repeat(512));
        let long = format!("x{}", "ä".repeat(1000));
        text.write(&long);
        assert_eq!(text.read(), format!("x{}", "ä".repeat(511)));
    }

    #[test]
    fn the_first_failure_stays_the_first_and_each_task_counts_once() {
        let header = header();
        assert!(header.first_failure().is_none());
        assert!(header.record_failure(2, 1, 7, "first"));
        assert!(!header.record_failure(0, 2, 9, "second"));
        assert!(!header.record_failure(2, 1, 7, "again"));
        assert_eq!(header.first_failure(), Some((2, 1, 7, "first".to_owned())));
        assert!(header.is_failed(0) && !header.is_failed(1) && header.is_failed(2));
        assert!(!header.is_failed(u32::MAX));
        assert_eq!(header.failure_epoch.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_network_address_comes_back_if_it_fits() {
        let (_file, mapping) = Mapping::anonymous(4096).unwrap();
        let address: Shared<NetworkAddress> = mapping.atomics(0).unwrap();
        assert_eq!(address.read(), None);
        assert!(address.write(&[7; 28]));
        assert_eq!(address.read(), Some(vec![7; 28]));
        assert!(!address.write(&[7; 65]));
        assert_eq!(address.read(), None);
        address.len.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(address.read(), None, "a claim beyond the words");
    }

    #[test]
    fn a_damaged_length_reads_no_further_than_the_text_goes() {
        let header = header();
        let text = &header.failure.last_words;
        text.write("abc");
        text.len.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(text.read().len(), 1024);
    }
}
