//! The calls of a job for the layers that carry messages.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;

use am_via_os::atomics::Ordering;
use am_via_os::fork;
use am_via_shm::SleepBarrier;
use am_via_shm::layout_job::TaskEntry;

use super::invitation::open_inherited_or_launchers;
use super::{Job, JobError, LazyFiles, control_of, has_inode, heap_of, network};

/// A memory file of a task.
#[derive(Debug)]
pub enum TaskFile<'a> {
    /// The job keeps it open.
    Kept(BorrowedFd<'a>),
    /// It was opened for the caller.
    Opened(File),
}

impl AsFd for TaskFile<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Kept(file) => file.as_fd(),
            Self::Opened(file) => file.as_fd(),
        }
    }
}

/// Calls of a job for the layers that carry messages. They are not methods of [`Job`], so that a program that holds a job does not see
/// them.
pub trait Carrier {
    /// Calls `hook` in each copy of this process that is made by a fork without exec. The hook must do little: other threads of the task
    /// may have held any lock.
    ///
    /// # Safety
    /// A call of `hook` must be sound where a fork has just made the process and the calling thread is the only one.
    unsafe fn call_in_copies(&self, hook: fork::Hook);

    /// Records that NICs are opened (the caller defines the bits), unless one of `others` was recorded before. Returns the bits
    /// that were not recorded before; `None` if the NICs were not recorded.
    fn note_nics(&self, bits: u32, others: u32) -> Option<u32>;

    /// Withdraws what [`note_nics`](Self::note_nics) has recorded, because the NICs could not be opened.
    fn forget_nics(&self, bits: u32);

    /// The method by which tasks order a store before a load of a peer's store. The same in all tasks of the job.
    fn barrier(&self) -> SleepBarrier;

    /// The control file of a task.
    ///
    /// # Safety
    /// The tasks of the job rely on the file's contents: the caller may change only what its layout leaves to the caller's task
    /// (`am_via_shm::layout`).
    ///
    /// # Errors
    /// [`JobError::UnknownTask`] or [`JobError::Unreachable`].
    unsafe fn control_file(&self, task: u32) -> Result<TaskFile<'_>, JobError>;

    /// The heap file of a task.
    ///
    /// # Safety
    /// The file is memory of that task's program: the caller may read and change only what is its own, or what the task has registered for
    /// such accesses.
    ///
    /// # Errors
    /// Those of [`control_file`](Self::control_file).
    unsafe fn heap_file(&self, task: u32) -> Result<TaskFile<'_>, JobError>;

    /// The number of the host that a task runs on. Tasks of one host share memory. If the setting `device` is `ofi`, each task counts as a
    /// host of its own.
    fn host(&self, task: u32) -> u32;

    /// Whether a task is reached over the network. Its files on this host are stand-ins, to which only this host's tasks write.
    fn is_far(&self, task: u32) -> bool;

    /// The network address of a context of a task, once it is known. Written by that task, so not to be trusted.
    fn network_address(&self, task: u32, context: u32) -> Option<Vec<u8>>;

    /// Publishes the network address of a context of this task. Returns whether it was published: `false` if it is too long, or there is no
    /// such context.
    fn set_network_address(&self, context: u32, address: &[u8]) -> bool;
}

impl Job {
    pub(super) fn control(&self, task: u32) -> Result<TaskFile<'_>, JobError> {
        self.open_once(task, "control", |files| &files.control, control_of)
    }

    pub(super) fn heap(&self, task: u32) -> Result<TaskFile<'_>, JobError> {
        self.open_once(task, "heap", |files| &files.heap, heap_of)
    }

    fn open_once(
        &self,
        task: u32,
        what: &'static str,
        slot: impl Fn(&LazyFiles) -> &OnceLock<File>,
        number_and_inode: fn(&TaskEntry) -> (i32, u64),
    ) -> Result<TaskFile<'_>, JobError> {
        let unknown = JobError::UnknownTask { task, num_tasks: self.num_tasks };
        let entry = self.table.get(task).filter(|entry| entry.world_size.load(Ordering::Acquire) != 0);
        let entry = entry.ok_or(unknown)?;
        // Other tasks may get the number of a task that was started later, so its files are not kept open.
        let slot = self.files.get(task as usize).map(slot);
        if let Some(file) = slot.and_then(OnceLock::get) {
            return Ok(TaskFile::Kept(file.as_fd()));
        }
        let (number, inode) = number_and_inode(entry);
        let launcher_pid = self.header.launcher_pid.load(Ordering::Relaxed);
        let file = open_inherited_or_launchers(number, launcher_pid, |file| has_inode(file, inode))
            .map_err(|source| JobError::Unreachable { what, task, number, launcher_pid, source })?;
        Ok(match slot {
            Some(slot) => TaskFile::Kept(slot.get_or_init(|| file).as_fd()),
            None => TaskFile::Opened(file),
        })
    }
}

impl Carrier for Job {
    unsafe fn call_in_copies(&self, hook: fork::Hook) {
        // SAFETY: the caller's contract.
        unsafe { fork::install(hook) };
    }

    fn note_nics(&self, bits: u32, others: u32) -> Option<u32> {
        let note = |noted| (noted & others == 0).then_some(noted | bits);
        // Relaxed: the bits publish no other memory.
        let before = self.nics.fetch_update(Ordering::Relaxed, Ordering::Relaxed, note).ok()?;
        Some(bits & !before)
    }

    fn forget_nics(&self, bits: u32) {
        // Relaxed: the bits publish no other memory.
        self.nics.fetch_and(!bits, Ordering::Relaxed);
    }

    fn barrier(&self) -> SleepBarrier {
        self.barrier
    }

    unsafe fn control_file(&self, task: u32) -> Result<TaskFile<'_>, JobError> {
        self.control(task)
    }

    unsafe fn heap_file(&self, task: u32) -> Result<TaskFile<'_>, JobError> {
        self.heap(task)
    }

    fn host(&self, task: u32) -> u32 {
        network::host(&self.table, self.settings.device, task)
    }

    fn is_far(&self, task: u32) -> bool {
        self.host(task) != self.host(self.task)
    }

    fn network_address(&self, task: u32, context: u32) -> Option<Vec<u8>> {
        self.table.get(task)?.network.get(context as usize)?.read()
    }

    fn set_network_address(&self, context: u32, address: &[u8]) -> bool {
        self.own_entry().network.get(context as usize).is_some_and(|own| own.write(address))
    }
}
