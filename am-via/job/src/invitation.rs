//! The environment variable that tells a task about its job, and the search for the job's files.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use super::JobError;
use am_via_os::atomics::Ordering;
use am_via_os::memory;
use am_via_shm::Mapping;
use am_via_shm::layout_job::{JOB_MAGIC, JOB_VERSION_SHIFT, JobHeader};

/// The fields of `AM_JOB`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Invitation {
    pub(super) number: i32,
    pub(super) task: u32,
    pub(super) launcher_pid: u32,
    pub(super) id: u64,
}

impl Invitation {
    pub(super) fn parse(value: &str) -> Result<Self, JobError> {
        let bad = |why| JobError::BadEnvironment { value: value.to_owned(), why };
        let fields: Vec<&str> = value.split(':').collect();
        let [number, task, launcher_pid, id] = fields[..] else {
            return Err(bad("it does not have four fields"));
        };
        Ok(Self {
            number: number.parse().map_err(|_| bad("the first field is not a file descriptor"))?,
            task: task.parse().map_err(|_| bad("the second field is not a task number"))?,
            launcher_pid: launcher_pid.parse().map_err(|_| bad("the third field is not a process number"))?,
            id: u64::from_str_radix(id, 16)
                .map_err(|_| bad("the fourth field is not a hexadecimal number"))?,
        })
    }

    pub(super) fn open(&self) -> Result<File, JobError> {
        let Self { number, task, launcher_pid, id } = *self;
        // SAFETY: only the file's kind and its first words are looked at, to find out whether it is a job file.
        if let Ok(file) = unsafe { memory::inherited(number) } {
            check_version(&file, launcher_pid)?;
        }
        open_inherited_or_launchers(number, launcher_pid, |file| is_job_file(file, id))
            .map_err(|source| JobError::Unreachable { what: "job", task, number, launcher_pid, source })
    }
}

/// The file that this process inherited as descriptor `number`, if `is_right` accepts it; otherwise the file that the launcher has open as
/// this descriptor.
///
/// # Errors
/// The launcher's file cannot be opened, or `is_right` does not accept it either.
pub(super) fn open_inherited_or_launchers(
    number: i32,
    launcher_pid: u32,
    is_right: impl Fn(&File) -> bool,
) -> io::Result<File> {
    // SAFETY: `is_right` finds out whether the file is the one that the launcher has passed on.
    if let Ok(file) = unsafe { memory::inherited(number) }
        && is_right(&file)
    {
        return Ok(file);
    }
    let path = format!("/proc/{launcher_pid}/fd/{number}");
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    if is_right(&file) {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "the launcher has another file open as this descriptor"))
}

pub(super) fn has_inode(file: &File, inode: u64) -> bool {
    file.metadata().is_ok_and(|data| data.ino() == inode)
}

/// Refuses a job file of another version. `of`: the process that has opened the file.
pub(super) fn check_version(file: &File, of: u32) -> Result<(), JobError> {
    let own = JOB_MAGIC >> JOB_VERSION_SHIFT;
    match version_of(file) {
        Some(launcher) if launcher != own => Err(JobError::Version { launcher_pid: of, launcher, own }),
        _ => Ok(()),
    }
}

/// The version of a job file, even if the rest of its layout differs; `None` if it is no job file.
fn version_of(file: &File) -> Option<u64> {
    // Only the first word of the header is read: in another version the other entries may differ.
    let mapping = Mapping::new(file.as_fd(), 0, JobHeader::entry_offset(0)).ok()?;
    // Acquire: pairs with the store in `JobOwner::write_header` ("job file made").
    let magic = mapping.atomics::<JobHeader>(0)?.magic.load(Ordering::Acquire);
    let same_name = (magic ^ JOB_MAGIC) << (u64::BITS - JOB_VERSION_SHIFT) == 0;
    same_name.then_some(magic >> JOB_VERSION_SHIFT)
}

pub(super) fn is_job_file(file: &File, id: u64) -> bool {
    Mapping::new(file.as_fd(), 0, JobHeader::entry_offset(1))
        .ok()
        .and_then(|mapping| mapping.atomics::<JobHeader>(0))
        .is_some_and(|header| {
            // Acquire: pairs with the store in `JobOwner::write_header` ("job file made").
            header.magic.load(Ordering::Acquire) == JOB_MAGIC && header.job_id.load(Ordering::Relaxed) == id
        })
}
