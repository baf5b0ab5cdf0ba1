//! Reliable detection of a task's death, by a lock that the system releases when the task's memory is gone.
//!
//! A process number is not sufficient. Once its process has been reaped, the number may name another process; a shell between the launcher
//! and the task reaps the task at once. In another PID namespace the number names nothing. A pidfd can be opened only by such a number.
//!
//! So a task that attaches locks a byte of the job file, by an open file description of its own. It closes the descriptor and keeps a
//! mapping, so that the lock ends with the address space: when the last thread of the process has ended, or at exec. From then on nothing
//! that the task ran can write to job memory. A copy made by fork gives up this mapping with all else that it shares with the job. A child
//! that keeps the mapping (a bare `clone`) can still write, so the task does not count as ended.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};

use am_via_os::lock;
use am_via_os::memory::PAGE_BYTES;
use am_via_shm::Mapping;

/// The locks of this process. They are kept until the process ends, because the job's memory may still be in use after the
/// [`Job`](super::Job) was dropped.
static HELD: Mutex<Vec<Held>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct Held {
    job: u64,
    task: u32,
    pid: u32,
    _mapping: Arc<Mapping>,
}

/// Which process has the lock of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lock {
    /// This process has taken it now.
    Taken,
    /// This process had taken it before.
    HeldBefore,
    OfAnother,
}

/// Takes the lock of `task` for this process, until the process ends, unless another process has the lock.
///
/// # Errors
/// The file cannot be opened again (`/proc` may not be read), mapped, or locked (the system has no locks of open file descriptions).
pub(super) fn begin(file: BorrowedFd<'_>, job: u64, task: u32) -> io::Result<Lock> {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    // A copy made by fork has its parent's list but none of its locks.
    let own = (job, task, std::process::id());
    if held.iter().any(|held| (held.job, held.task, held.pid) == own) {
        return Ok(Lock::HeldBefore);
    }
    // All tasks share the open file description of the inherited file, so the file is opened again.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let again = OpenOptions::new().read(true).write(true).open(path)?;
    let page = usize::try_from(PAGE_BYTES).expect("a page fits into the address space");
    let mapping = Mapping::new(again.as_fd(), 0, page)?;
    if !lock::try_lock(again.as_fd(), task)? {
        return Ok(Lock::OfAnother);
    }
    held.push(Held { job, task, pid: own.2, _mapping: mapping });
    Ok(Lock::Taken)
}

/// Releases a lock of this process, which is not the task's process.
pub(super) fn give_back(job: u64, task: u32) {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.retain(|held| (held.job, held.task) != (job, task));
}

/// Whether the process that locked `task` has ended. Must be called only after the lock was taken once.
pub(super) fn has_ended(file: BorrowedFd<'_>, task: u32) -> bool {
    lock::is_locked(file, task).is_ok_and(|locked| !locked)
}
