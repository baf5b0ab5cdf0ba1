//! Anonymous sparse memory files of fixed size (sealed), and their mappings. Also their descriptors in programs that inherit them.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd};

use std::ptr::NonNull;

use memmap2::{MmapOptions, MmapRaw};

use super::limits::{self, Resource};

/// Size of a page. Every offset passed to [`map`] must be a multiple of it.
pub const PAGE_BYTES: u64 = 4096;

/// Makes an anonymous sparse memory file of `bytes`. It has no name in any file system, uses no memory until touched, keeps its size
/// (sealed), and vanishes with its last user. Close-on-exec is set: a started program inherits it only if its starter clears the flag.
///
/// # Errors
/// The system's error: no memory files, too many open files, or a size over `RLIMIT_FSIZE`. A name that contains a NUL.
pub fn create(name: &str, bytes: u64) -> io::Result<File> {
    let name = CString::new(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: memfd_create reads a NUL-terminated string (`name`, which is live here) and returns a new descriptor or -1.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_ALLOW_SEALING | libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just returned by the kernel as a new descriptor without another owner.
    let file = unsafe { File::from_raw_fd(fd) };
    file.set_len(bytes)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: F_ADD_SEALS takes an integer and a descriptor that `file` keeps open.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

/// Opens the memory file of this name that a process has open; `None` if the process has none.
///
/// # Errors
/// There is no such process, or the system does not allow access to its files.
pub fn open_of_process(pid: u32, name: &str) -> io::Result<Option<File>> {
    let wanted = format!("/memfd:{name} (deleted)");
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))?.filter_map(Result::ok) {
        if fs::read_link(entry.path()).is_ok_and(|to| to.as_os_str() == wanted.as_str()) {
            return File::options().read(true).write(true).open(entry.path()).map(Some);
        }
    }
    Ok(None)
}

/// Moves a file to a descriptor of at least `number_min`. A script that chooses a descriptor for a file of its own (`exec 3>log`) then does
/// not close an inherited file. If no such descriptor is free, the file keeps its descriptor.
#[must_use]
pub fn move_up(file: File, number_min: i32) -> File {
    match duplicate(file.as_raw_fd(), number_min) {
        Ok(moved) => moved,
        Err(_) => file,
    }
}

/// A new handle for the file that this process inherited as descriptor `number`. The descriptor may belong to any file, so the caller must
/// check the handle.
///
/// # Safety
/// The descriptor may be another owner's (I/O safety, as for [`BorrowedFd::borrow_raw`]). The caller must not read, write or change the
/// file before it knows, from what the file is, that the file was meant for it.
///
/// # Errors
/// The descriptor is not open (`EBADF`), or no descriptor is free (`EMFILE`).
pub unsafe fn inherited(number: i32) -> io::Result<File> {
    duplicate(number, 0)
}

/// Sets close-on-exec for descriptor `number`: programs that this process starts from now on do not inherit it. Nothing happens if the
/// descriptor is not open.
///
/// # Safety
/// The descriptor must be one that this process inherited for the caller, not another owner's.
pub unsafe fn close_on_exec(number: i32) {
    // SAFETY: F_SETFD takes integers; for a number that is not open it fails with EBADF.
    unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
}

fn duplicate(number: i32, number_min: i32) -> io::Result<File> {
    // SAFETY: F_DUPFD_CLOEXEC takes two integers; for a number that is not open it fails with EBADF.
    let fd = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, number_min) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just returned by the kernel as a new descriptor without another owner.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Length of a file in bytes.
///
/// # Errors
/// The system's error.
pub fn len(file: BorrowedFd<'_>) -> io::Result<u64> {
    // SAFETY: stat is plain numbers, for which all zeroes are a valid value.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: fstat fills the structure that it is given, a live local.
    if unsafe { libc::fstat(file.as_raw_fd(), &raw mut found) } < 0 {
        return Err(io::Error::last_os_error());
    }
    u64::try_from(found.st_size).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

/// Checks that a file contains a range, and always will. Descriptor numbers and sizes come from memory that other tasks write, and an
/// access to a mapping beyond the end of its file ends the process (SIGBUS).
fn check_holds(file: BorrowedFd<'_>, offset: u64, bytes: usize) -> io::Result<()> {
    // SAFETY: F_GET_SEALS takes a descriptor, which is open as long as it is borrowed.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a memory file of a fixed length"));
    }
    let len = len(file)?;
    if offset.checked_add(bytes as u64).is_some_and(|end| end <= len) {
        return Ok(());
    }
    let what = format!("{bytes} bytes from byte {offset} on are not all in the file, which has {len} bytes");
    Err(io::Error::new(io::ErrorKind::InvalidData, what))
}

/// Maps `bytes` of a memory file at `offset` (which must be a multiple of [`PAGE_BYTES`]) for reading and writing, shared, and excluded
/// from core dumps (a dump would fill the holes).
///
/// # Errors
/// The file is shorter than the range, or could become so; the system's error. If no address space is left because of `RLIMIT_AS`, the text
/// says so.
pub fn map(file: BorrowedFd<'_>, offset: u64, bytes: usize) -> io::Result<MmapRaw> {
    check_holds(file, offset, bytes)?;
    let options = MmapOptions::new().offset(offset).len(bytes).no_reserve_swap().to_owned();
    let map = options.map_raw(&file.as_fd()).map_err(|error| named_limit(error, bytes))?;
    if let Some(at) = NonNull::new(map.as_mut_ptr()) {
        // SAFETY: the range is that of a mapping that `map` keeps.
        unsafe { set_in_dumps(at, map.len(), false) };
    }
    Ok(map)
}

/// Whether this process has a free range of `bytes` bytes of address space.
#[must_use]
pub fn fits(bytes: u64) -> bool {
    let Ok(bytes) = usize::try_from(bytes) else { return false };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: mmap without a file and without an address makes a new inaccessible mapping, or fails.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    if at == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: the mapping was just made with this length, and no other code knows of it.
    unsafe { libc::munmap(at, bytes) };
    true
}

/// Includes the pages of a range in core dumps, or excludes them. If the system refuses (too many mappings), nothing changes.
///
/// # Safety
/// The range must be mapped, and stay so during the call.
pub unsafe fn set_in_dumps(at: NonNull<u8>, bytes: usize, shown: bool) {
    let advice = if shown { libc::MADV_DODUMP } else { libc::MADV_DONTDUMP };
    // SAFETY: madvise gets a mapped range (the caller's contract); neither advice changes contents.
    unsafe { libc::madvise(at.as_ptr().cast(), bytes, advice) };
}

#[cold]
fn named_limit(error: io::Error, bytes: usize) -> io::Error {
    match limits::limit(Resource::AddressSpace).soft {
        Some(value) if error.raw_os_error() == Some(libc::ENOMEM) => io::Error::other(format!(
            "{error}: {bytes} more bytes of address space exceed RLIMIT_AS, which is {value}; raise it (ulimit -v unlimited), or start fewer tasks"
        )),
        _ => error,
    }
}

/// Returns the pages of a page-aligned range of a memory file to the system; they read as zero afterwards.
///
/// # Errors
/// The offset or the length exceeds 2^63 - 1; the system's error.
pub fn punch_hole(file: BorrowedFd<'_>, offset: u64, bytes: u64) -> io::Result<()> {
    let (Ok(offset), Ok(bytes)) = (i64::try_from(offset), i64::try_from(bytes)) else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: fallocate takes integers and an open descriptor. Mappings of the range stay valid, and read zeroes afterwards.
    if unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, bytes) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn what_could_end_before_its_mapping_is_not_mapped() {
        let page = usize::try_from(PAGE_BYTES).unwrap();
        let file = create("am-test", 2 * PAGE_BYTES).unwrap();
        assert_eq!(len(file.as_fd()).unwrap(), 2 * PAGE_BYTES);
        assert!(map(file.as_fd(), PAGE_BYTES, page).is_ok());
        for (offset, bytes) in
            [(0, 2 * page + 1), (PAGE_BYTES, 2 * page), (4 * PAGE_BYTES, page), (u64::MAX, 2)]
        {
            let refused = map(file.as_fd(), offset, bytes).unwrap_err();
            assert!(refused.to_string().contains("which has 8192 bytes"), "{refused}");
        }
        // A file that is no memory file, such as one whose descriptor number a faulty task has stored in the job file.
        let other = File::options().read(true).write(true).open("/dev/zero").unwrap();
        assert!(map(other.as_fd(), 0, page).is_err());
    }
}
