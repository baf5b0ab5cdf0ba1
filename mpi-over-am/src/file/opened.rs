//! An open file as any thread of the task uses it: accesses that need no other task.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use mpi_io::{Disk, LockKind, Moved, Space, View, read, write};

use super::buffers::{Source, Target, in_parts, to_usize};
use super::representation::FileView;
use super::{about, failed};
use crate::data::buffer::{with_slice, with_space};
use crate::error::{Error, ErrorClass, Result};
use crate::message::status::Status;
use crate::rank::ANY_SOURCE;
use crate::tag::ANY_TAG;

/// A file of the system, and its name for errors.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) path: PathBuf,
    pub(super) disk: Arc<dyn Disk>,
    /// Held while bytes are locked: the threads of a task share its locks, which exclude only other tasks.
    turn: Mutex<()>,
}

/// A part of a view's stream.
pub(super) struct Span {
    pub(super) view: Arc<FileView>,
    /// The first byte.
    pub(super) from: u64,
    pub(super) len: u64,
    /// Whether the access must not overlap with that of another task.
    pub(super) is_atomic: bool,
}

/// The status of an access of `len` bytes.
pub(super) const fn status_of(len: u64) -> Status {
    Status::new(ANY_SOURCE, ANY_TAG, len)
}

impl Opened {
    pub(super) fn new(path: PathBuf, disk: Arc<dyn Disk>) -> Self {
        Self { path, disk, turn: Mutex::new(()) }
    }

    /// Writes elements to a part of the stream.
    ///
    /// # Errors
    /// The bytes cannot be locked. What else goes wrong is in [`Moved`].
    pub(super) fn write(&self, span: &Span, source: &Source) -> Result<Moved> {
        self.alone(span, LockKind::Exclusive, |view| {
            let data = match source {
                Source::Converted { bytes, .. } => return write(&*self.disk, view, span.from, bytes),
                Source::Native(data) => data,
            };
            if let Some(bytes) = data.as_bytes() {
                return with_slice(bytes, |bytes| write(&*self.disk, view, span.from, bytes));
            }
            in_parts(data.packed_len(), |offset, part| {
                data.pack(offset, part);
                write(&*self.disk, view, span.from + offset, part)
            })
        })
    }

    /// Reads a part of the stream into elements.
    ///
    /// # Errors
    /// Those of [`write`](Self::write).
    pub(super) fn read(&self, span: &Span, target: &mut Target) -> Result<Moved> {
        self.alone(span, LockKind::Shared, |view| {
            let data = match target {
                Target::Converted(_, bytes) => {
                    return read(&*self.disk, view, span.from, &mut Space::from(&mut bytes[..]));
                }
                Target::Native(data) => data,
            };
            if let Some(buffer) = data.as_buffer() {
                return with_space(buffer, |space| read(&*self.disk, view, span.from, space));
            }
            in_parts(data.packed_len(), |offset, part| {
                let moved = read(&*self.disk, view, span.from + offset, &mut Space::from(&mut *part));
                data.unpack(offset, &part[..to_usize(moved.bytes)]);
                moved
            })
        })
    }

    /// Runs an access. If it is atomic, no access of another task to bytes between its first and its last overlaps with it.
    fn alone(&self, span: &Span, kind: LockKind, access: impl FnOnce(&View) -> Moved) -> Result<Moved> {
        if !span.is_atomic || span.len == 0 {
            return Ok(access(&span.view));
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let last = span.from + span.len - 1;
        let bytes = span.view.offset_of(span.from)..span.view.offset_of(last) + 1;
        self.disk.lock(&bytes, kind).map_err(|error| self.failed("its bytes cannot be locked", &error))?;
        let mut moved = access(&span.view);
        if let Err(error) = self.disk.unlock(&bytes) {
            moved.failure.get_or_insert(error);
        }
        Ok(moved)
    }

    /// The status of a write, or its error.
    pub(super) fn written(&self, span: &Span, moved: Moved, source: &Source) -> Result<Status> {
        match moved.failure {
            None => Ok(status_of(source.native_len())),
            Some(error) => Err(self.failed(&done(moved.bytes, span.len, "written"), &error)),
        }
    }

    /// The status of a read, or its error.
    pub(super) fn was_read(&self, span: &Span, moved: Moved, target: Target) -> Result<Status> {
        match moved.failure {
            None => target.end(&span.view, &self.path, moved.bytes).map(status_of),
            Some(error) => Err(self.failed(&done(moved.bytes, span.len, "read"), &error)),
        }
    }

    /// An error that is about this file.
    #[cold]
    pub(super) fn refused(&self, class: ErrorClass, what: impl Into<String>) -> Error {
        about(&self.path, class, what)
    }

    /// An error of the system.
    #[cold]
    pub(super) fn failed(&self, doing: &str, error: &std::io::Error) -> Error {
        failed(&self.path, doing, error)
    }
}

/// What an access has done although it has failed. If all bytes were moved, it could not unlock them.
fn done(bytes: u64, of: u64, what: &str) -> String {
    if bytes < of {
        return format!("only {bytes} of {of} bytes were {what}");
    }
    format!("all {of} bytes were {what}, and cannot be unlocked for other tasks")
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::ops::Range;

    use super::*;
    use crate::file::representation::Representation;

    /// A disk that stores all bytes, and does not unlock them.
    #[derive(Debug)]
    struct Stuck;

    impl Disk for Stuck {
        fn read_at(&self, to: &mut Space<'_>, _: u64) -> io::Result<usize> {
            Ok(to.len())
        }

        fn write_at(&self, from: &[u8], _: u64) -> io::Result<usize> {
            Ok(from.len())
        }

        fn len(&self) -> io::Result<u64> {
            Ok(0)
        }

        fn set_len(&self, _: u64) -> io::Result<()> {
            Ok(())
        }

        fn allocate(&self, _: u64) -> io::Result<()> {
            Ok(())
        }

        fn sync(&self) -> io::Result<()> {
            Ok(())
        }

        fn lock(&self, _: &Range<u64>, _: LockKind) -> io::Result<()> {
            Ok(())
        }

        fn unlock(&self, _: &Range<u64>) -> io::Result<()> {
            Err(io::ErrorKind::QuotaExceeded.into())
        }
    }

    /// The file pointer moves by the bytes that were written, whatever else fails (MPI 5.0, 14.7: no byte that was written is lost).
    #[test]
    fn a_write_that_cannot_unlock_its_bytes_tells_how_many_it_has_written() {
        let file = Opened::new("stuck".into(), Arc::new(Stuck));
        let view =
            FileView { view: View::of_bytes(), representation: Representation::Native, are_contiguous: true };
        let span = Span { view: Arc::new(view), from: 0, len: 8, is_atomic: true };
        let source = Source::Converted { bytes: vec![7; 8], native_len: 8 };
        let moved = file.write(&span, &source).expect("the bytes can be locked");
        assert_eq!(moved.bytes, 8);
        let error = file.written(&span, moved, &source).expect_err("the bytes stay locked");
        assert_eq!(error.class(), ErrorClass::Quota);
        assert!(error.to_string().contains("all 8 bytes were written"), "{error}");
    }
}
