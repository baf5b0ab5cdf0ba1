//! Shared files: memory files that tasks make while the job runs, for several tasks to map. The table lists the files that this task has
//! open.
//!
//! The maker keeps its descriptor until all tasks have opened the file through the descriptor's entry in /proc. The file has no name in a
//! file system, and lives while a task has it mapped.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::segment::Mapping;
use am_via_os::memory;

/// The name by which other tasks open a shared file. It is a claim, which [`SharedFiles::open`] checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedFileName {
    /// The process that made the file.
    pub pid: u32,
    /// The number of the file's descriptor in that process.
    pub number: i32,
    /// The file's inode, never 0.
    pub inode: u64,
    /// Length in bytes.
    pub len: u64,
}

#[derive(Debug)]
struct SharedFile {
    inode: u64,
    mapping: Arc<Mapping>,
    /// The maker's descriptor, until all have opened the file.
    file: Option<File>,
}

/// The shared files that this task has mapped.
#[derive(Debug, Default)]
pub struct SharedFiles {
    files: Vec<SharedFile>,
}

impl SharedFiles {
    /// Makes a file of `len` bytes, all zero.
    ///
    /// # Errors
    /// The system's error.
    pub fn make(&mut self, len: usize) -> io::Result<(SharedFileName, Arc<Mapping>)> {
        let file = memory::create("am-shared", len as u64)?;
        let name = SharedFileName {
            pid: std::process::id(),
            number: file.as_fd().as_raw_fd(),
            inode: file.metadata()?.ino(),
            len: len as u64,
        };
        let mapping = Mapping::whole(file.as_fd())?;
        Ok((name, self.add(name.inode, mapping, Some(file))))
    }

    /// Opens a file that another task has made.
    ///
    /// # Errors
    /// The maker has another file open as this descriptor; the file could become shorter; the system's error.
    pub fn open(&mut self, name: SharedFileName) -> io::Result<Arc<Mapping>> {
        let path = format!("/proc/{}/fd/{}", name.pid, name.number);
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if (file.metadata()?.ino(), memory::len(file.as_fd())?) != (name.inode, name.len) {
            return Err(io::Error::other("the maker has another file open as this descriptor"));
        }
        Ok(self.add(name.inode, Mapping::whole(file.as_fd())?, None))
    }

    fn add(&mut self, inode: u64, mapping: Arc<Mapping>, file: Option<File>) -> Arc<Mapping> {
        // The program and its forked copies load and store there directly.
        mapping.leave_to_copies();
        self.files.push(SharedFile { inode, mapping: Arc::clone(&mapping), file });
        mapping
    }

    /// Closes the maker's descriptor, after all tasks have opened the file.
    pub fn close_descriptor(&mut self, inode: u64) {
        if let Some(shared) = self.files.iter_mut().find(|shared| shared.inode == inode) {
            shared.file = None;
        }
    }

    /// Forgets a file, which stays mapped while its mapping is in use.
    pub fn remove(&mut self, inode: u64) {
        if let Some(at) = self.files.iter().position(|shared| shared.inode == inode) {
            self.files.swap_remove(at);
        }
    }

    /// The mapping of a file.
    #[inline]
    #[must_use]
    pub fn mapping(&self, inode: u64) -> Option<&Arc<Mapping>> {
        self.files.iter().find(|shared| shared.inode == inode).map(|shared| &shared.mapping)
    }

    /// The inode of the file that contains `len` bytes from `at` on, and the offset of these bytes in the file.
    #[must_use]
    pub fn place_of(&self, at: NonNull<u8>, len: usize) -> Option<(u64, usize)> {
        self.files.iter().find_map(|SharedFile { inode, mapping, .. }| {
            mapping.offset_of(at, len).map(|offset| (*inode, offset))
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_shared_file_is_opened_until_its_maker_closes_it_and_by_its_right_name_only() {
        let (mut maker, mut other) = (SharedFiles::default(), SharedFiles::default());
        let (name, made) = maker.make(8192).unwrap();
        let opened = other.open(name).unwrap();
        assert_ne!(made.base(), opened.base());
        // SAFETY: the test has one thread.
        unsafe { made.checked(8, 8) }.unwrap().copy_from_slice(b"in place");
        let mut found = [0; 8];
        // SAFETY: as above.
        unsafe { opened.checked(8, 8) }.unwrap().copy_to_slice(&mut found);
        assert_eq!(&found, b"in place");
        let inside = opened.range(100, 8).unwrap();
        assert_eq!(other.place_of(inside, 8), Some((name.inode, 100)));
        assert_eq!(other.place_of(inside, 8193), None);
        assert_eq!(maker.place_of(inside, 8), None);
        for wrong in [
            SharedFileName { inode: name.inode + 1, ..name },
            SharedFileName { len: name.len * 2, ..name },
            SharedFileName { number: 0, ..name },
        ] {
            other.open(wrong).unwrap_err();
        }
        maker.close_descriptor(name.inode);
        other.open(name).unwrap_err();
        assert!(maker.mapping(name.inode).is_some());
        maker.remove(name.inode);
        assert!(maker.mapping(name.inode).is_none());
    }
}
