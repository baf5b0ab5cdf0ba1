//! Memory files: anonymous, sparse, sealed against shrinking, and their mappings.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd};

use std::ptr::NonNull;

use memmap2::{MmapOptions, MmapRaw};

use super::limits::{self, Resource};

/// Size of a page that every offset handed to [`map`] is a multiple of.
pub const PAGE_BYTES: u64 = 4096;

/// Makes an anonymous sparse memory file of `bytes`. It has no name in any file system, costs nothing until touched, is
/// never smaller or larger than now (sealed), and vanishes with its last user. Close-on-exec is on: a program that is started
/// inherits it only where its starter says so.
///
/// # Errors
/// The system's error: no memory files, too many open files, or a size over `RLIMIT_FSIZE`.
pub fn create(name: &str, bytes: u64) -> io::Result<File> {
    let name = CString::new(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: memfd_create reads a NUL-terminated string (`name`, alive here) and returns a new descriptor or -1.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_ALLOW_SEALING | libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just returned by the kernel as a new descriptor that nobody else owns.
    let file = unsafe { File::from_raw_fd(fd) };
    file.set_len(bytes)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: F_ADD_SEALS takes an integer and a descriptor that `file` keeps open.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

/// Moves a file to a number of at least `number_min`, where scripts that number their own files (`exec 3>log`) do not
/// overwrite it in the programs that inherit it. It stays where it is if there is no such number.
#[must_use]
pub fn move_up(file: File, number_min: i32) -> File {
    match duplicate(file.as_raw_fd(), number_min) {
        Ok(moved) => moved,
        Err(_) => file,
    }
}

/// A handle of our own for the file that this process inherited as number `number`, whatever it is: callers check it.
///
/// # Errors
/// `EBADF` if there is no such file, or no number is left.
pub fn inherited(number: i32) -> io::Result<File> {
    duplicate(number, 0)
}

fn duplicate(number: i32, number_min: i32) -> io::Result<File> {
    // SAFETY: F_DUPFD_CLOEXEC takes two integers; for a number that is not open it fails with EBADF.
    let fd = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, number_min) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just returned by the kernel as a new descriptor that nobody else owns.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Maps `bytes` of a memory file at `offset` (a multiple of [`PAGE_BYTES`]) for reading and writing, shared, and left out
/// of core dumps (a dump would fill the holes).
///
/// # Errors
/// The system's error; where no address space is left and `RLIMIT_AS` limits it, the text says so.
pub fn map(file: BorrowedFd<'_>, offset: u64, bytes: usize) -> io::Result<MmapRaw> {
    let options = MmapOptions::new().offset(offset).len(bytes).no_reserve_swap().to_owned();
    let map = options.map_raw(&file.as_fd()).map_err(|error| named_limit(error, bytes))?;
    if let Some(at) = NonNull::new(map.as_mut_ptr()) {
        // SAFETY: the range of a mapping that `map` keeps alive.
        unsafe { set_in_dumps(at, map.len(), false) };
    }
    Ok(map)
}

/// Says whether core dumps show a range; the pages that it touches are meant. A refusal (too many mappings) leaves it as it was.
///
/// # Safety
/// The range is mapped, and stays so during the call.
pub unsafe fn set_in_dumps(at: NonNull<u8>, bytes: usize, shown: bool) {
    let advice = if shown { libc::MADV_DODUMP } else { libc::MADV_DONTDUMP };
    // SAFETY: madvise gets a mapped range (the caller's contract); neither advice changes contents.
    unsafe { libc::madvise(at.as_ptr().cast(), bytes, advice) };
}

#[cold]
fn named_limit(error: io::Error, bytes: usize) -> io::Error {
    match limits::limit(Resource::AddressSpace).soft {
        Some(value) if error.raw_os_error() == Some(libc::ENOMEM) => io::Error::other(format!(
            "{error}: {bytes} bytes more do not fit where RLIMIT_AS is {value}; raise it (ulimit -v unlimited), or start fewer tasks"
        )),
        _ => error,
    }
}

/// Gives the pages of a whole-page range of a memory file back to the system; they read as zero afterwards.
///
/// # Errors
/// The system's error.
pub fn punch_hole(file: BorrowedFd<'_>, offset: u64, bytes: u64) -> io::Result<()> {
    let (Ok(offset), Ok(bytes)) = (i64::try_from(offset), i64::try_from(bytes)) else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: fallocate takes integers and an open descriptor. What the range holds is given up by the caller's contract.
    if unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, bytes) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
