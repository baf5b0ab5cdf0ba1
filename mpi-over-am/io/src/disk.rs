//! An open file, as the rest of the crate uses it, and the files of this machine.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl, posix_fallocate};
use nix::libc;
use nix::sys::resource::{Resource, getrlimit};

use crate::{AccessMode, Space};

/// Whether others may lock the same bytes, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// For readers.
    Shared,
    /// For one writer.
    Exclusive,
}

/// An open file. Several threads may use it at the same time. Offsets and lengths are in bytes.
pub trait Disk: Debug + Send + Sync {
    /// Reads up to `to.len()` bytes from `at` on, and stores them at the front of `to`; returns their number, which is 0 only at the end of
    /// the file.
    ///
    /// # Errors
    /// Those of the system. A call that a signal has interrupted is repeated by the caller.
    fn read_at(&self, to: &mut Space<'_>, at: u64) -> io::Result<usize>;

    /// Writes up to `from.len()` bytes from `at` on; returns their number.
    ///
    /// # Errors
    /// Those of the system, such as a full disk. A call that a signal has interrupted is repeated by the caller.
    fn write_at(&self, from: &[u8], at: u64) -> io::Result<usize>;

    /// The length of the file.
    ///
    /// # Errors
    /// Those of the system.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    ///
    /// # Errors
    /// Those of the system.
    fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|len| len == 0)
    }

    /// Cuts the file, or lengthens it with zeros.
    ///
    /// # Errors
    /// Those of the system.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes sure that the first `len` bytes have room on the disk. A shorter file becomes `len` bytes long; no byte changes.
    ///
    /// # Errors
    /// A full disk, and other errors of the system.
    fn allocate(&self, len: u64) -> io::Result<()>;

    /// Waits until what was written is on the disk.
    ///
    /// # Errors
    /// Those of the system.
    fn sync(&self) -> io::Result<()>;

    /// Waits for a lock on bytes of the file, which excludes other open files with locks. A range must be unlocked as it was locked.
    ///
    /// # Errors
    /// Those of the system.
    fn lock(&self, bytes: &Range<u64>, kind: LockKind) -> io::Result<()>;

    /// Releases a lock.
    ///
    /// # Errors
    /// Those of the system.
    fn unlock(&self, bytes: &Range<u64>) -> io::Result<()>;
}

/// A file of this machine.
#[derive(Debug)]
pub struct LocalFile(File);

impl LocalFile {
    /// Opens a file. `makes` says whether this task may make the file, if `mode` allows that: one task makes it, and the others then open
    /// the same file.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open(path: &Path, mode: AccessMode, makes: bool) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(mode.reads()).write(mode.writes());
        if makes && mode.has(AccessMode::EXCLUSIVE) && mode.has(AccessMode::CREATE) {
            options.create_new(true);
        } else if makes && mode.has(AccessMode::CREATE) {
            options.create(true).truncate(false);
        }
        let file = options.open(path)?;
        if file.metadata()?.is_dir() {
            return Err(Errno::EISDIR.into());
        }
        Ok(Self(file))
    }

    fn change_lock(&self, bytes: &Range<u64>, kind: libc::c_int) -> io::Result<()> {
        let too_large = |_| io::Error::from(Errno::EFBIG);
        let description = libc::flock {
            l_type: libc::c_short::try_from(kind).map_err(too_large)?,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: libc::off_t::try_from(bytes.start).map_err(too_large)?,
            // 0 would be everything up to the end.
            l_len: libc::off_t::try_from(bytes.end - bytes.start).map_err(too_large)?.max(1),
            l_pid: 0,
        };
        loop {
            match fcntl(self.0.as_fd(), FcntlArg::F_OFD_SETLKW(&description)) {
                Err(Errno::EINTR) => {}
                other => return other.map(|_| ()).map_err(io::Error::from),
            }
        }
    }
}

/// The longest part of `len` bytes from `at` on that the process may write. A write beyond the limit would raise a signal that ends the
/// process.
fn within_limit(at: u64, len: usize) -> io::Result<usize> {
    let (limit, _) = getrlimit(Resource::RLIMIT_FSIZE)?;
    match usize::try_from(limit.saturating_sub(at)) {
        Ok(0) if len > 0 => Err(Errno::EFBIG.into()),
        Ok(left) => Ok(len.min(left)),
        Err(_) => Ok(len),
    }
}

impl Disk for LocalFile {
    fn read_at(&self, to: &mut Space<'_>, at: u64) -> io::Result<usize> {
        to.read_from(&self.0, at)
    }

    fn write_at(&self, from: &[u8], at: u64) -> io::Result<usize> {
        let len = within_limit(at, from.len())?;
        self.0.write_at(&from[..len], at)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let (limit, _) = getrlimit(Resource::RLIMIT_FSIZE)?;
        if len > limit { Err(Errno::EFBIG.into()) } else { self.0.set_len(len) }
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let (limit, _) = getrlimit(Resource::RLIMIT_FSIZE)?;
        if len > limit {
            return Err(Errno::EFBIG.into());
        }
        let len = libc::off_t::try_from(len).map_err(|_| Errno::EFBIG)?;
        // Allocating nothing is an error of the system.
        if len == 0 { Ok(()) } else { Ok(posix_fallocate(self.0.as_fd(), 0, len)?) }
    }

    fn sync(&self) -> io::Result<()> {
        match self.0.sync_all() {
            // A pipe or a device has nothing to be synchronised.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            other => other,
        }
    }

    fn lock(&self, bytes: &Range<u64>, kind: LockKind) -> io::Result<()> {
        self.change_lock(bytes, if kind == LockKind::Shared { libc::F_RDLCK } else { libc::F_WRLCK })
    }

    fn unlock(&self, bytes: &Range<u64>) -> io::Result<()> {
        self.change_lock(bytes, libc::F_UNLCK)
    }
}
