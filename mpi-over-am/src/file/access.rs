//! Reads and writes by one task (MPI 5.0 section 14.4).

use std::sync::Arc;

use am_core::fabric::Fabric;
use mpi_io::{LockKind, Moved, View};

use super::File;
use super::buffers::{Source, Target};
use crate::buffer::{RecvData, SendData};
use crate::error::{ErrorClass, Result};
use crate::policy::{Field, LockPolicy};
use crate::rank::ANY_SOURCE;
use crate::request_id::RequestId;
use crate::status::Status;
use crate::tag::ANY_TAG;

/// Where in the file an access begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At an offset, in elementary types of the view (`MPI_File_read_at` and the like).
    At(u64),
    /// At the individual pointer, which the access moves (`MPI_File_read` and the like).
    Pointer,
    /// At the shared pointer, which the access moves (`MPI_File_read_shared` and the like).
    Shared,
}

/// A part of a view's stream.
pub(super) struct Span {
    pub(super) view: Arc<View>,
    /// The first byte.
    pub(super) from: u64,
    pub(super) len: u64,
}

/// The status of an access of `len` bytes.
pub(super) const fn status_of(len: u64) -> Status {
    Status::new(ANY_SOURCE, ANY_TAG, len)
}

impl<F: Fabric, L: LockPolicy> File<F, L> {
    /// Writes elements (`MPI_File_write` and the like).
    ///
    /// # Errors
    /// The file is only read; elements that are not whole elementary types; what the system refuses.
    pub fn write_data(&self, place: Place, data: &SendData) -> Result<Status> {
        self.check_written()?;
        let view = self.view.get();
        let source = Source::new(&view, data)?;
        let span = self.span(view, place, source.len())?;
        let moved =
            self.alone(&span, LockKind::Exclusive, |view| self.write_stream(view, span.from, &source))?;
        self.moved(place, &span, &moved);
        self.written(&span, moved, data.packed_len())
    }

    /// The status of a write, or its error.
    pub(super) fn written(&self, span: &Span, moved: Moved, len: u64) -> Result<Status> {
        match moved.failure {
            None => Ok(status_of(len)),
            Some(error) => {
                let doing = format!("only {} of {} bytes were written", moved.bytes, span.len);
                Err(self.failed(&doing, &error))
            }
        }
    }

    /// Reads elements (`MPI_File_read` and the like). The status has fewer bytes than the elements if the file ends before.
    ///
    /// # Errors
    /// The file is only written; elements that are not whole elementary types; what the system refuses.
    pub fn read_data(&self, place: Place, data: &RecvData) -> Result<Status> {
        self.check_read()?;
        let view = self.view.get();
        let mut target = Target::new(&view, data)?;
        let span = self.span(view, place, target.len())?;
        let moved =
            self.alone(&span, LockKind::Shared, |view| self.read_stream(view, span.from, &mut target))?;
        self.moved(place, &span, &moved);
        self.was_read(&span, moved, target)
    }

    /// The status of a read, or its error.
    pub(super) fn was_read(&self, span: &Span, moved: Moved, target: Target<'_>) -> Result<Status> {
        match moved.failure {
            None => target.end(moved.bytes).map(status_of),
            Some(error) => {
                let doing = format!("only {} of {} bytes were read", moved.bytes, span.len);
                Err(self.failed(&doing, &error))
            }
        }
    }

    /// Like [`write_data`](Self::write_data), as a request, which is complete at once (`MPI_File_iwrite` and the like).
    ///
    /// # Errors
    /// Those of [`write_data`](Self::write_data).
    pub fn start_write_data(&self, place: Place, data: &SendData) -> Result<RequestId> {
        self.complete(self.write_data(place, data)?)
    }

    /// Like [`read_data`](Self::read_data), as a request, which is complete at once (`MPI_File_iread` and the like).
    ///
    /// # Errors
    /// Those of [`read_data`](Self::read_data).
    pub fn start_read_data(&self, place: Place, data: &RecvData) -> Result<RequestId> {
        self.complete(self.read_data(place, data)?)
    }

    /// A request for an operation that is complete.
    fn complete(&self, status: Status) -> Result<RequestId> {
        let mut state = self.communicator.state()?;
        let requests = &mut state.handlers().requests;
        let request = requests.insert(false);
        requests.set_status(request, status);
        requests.end(request, None);
        Ok(request)
    }

    /// The part of the stream that an access of `len` bytes moves. Moves the shared pointer.
    pub(super) fn span(&self, view: Arc<View>, place: Place, len: u64) -> Result<Span> {
        let etypes = self.etypes(&view, len)?;
        let position = match place {
            Place::At(offset) => {
                self.check_individual()?;
                offset
            }
            Place::Pointer => {
                self.check_individual()?;
                self.pointer.get()
            }
            Place::Shared => self.shared_pointer.advance(etypes)?,
        };
        self.span_at(view, position, len)
    }

    /// The part of the stream from a position on, in elementary types.
    pub(super) fn span_at(&self, view: Arc<View>, position: u64, len: u64) -> Result<Span> {
        let from = position.checked_mul(view.etype_bytes()).filter(|&from| view.has(from, len));
        match from {
            Some(from) => Ok(Span { view, from, len }),
            None if len == 0 => Ok(Span { view, from: 0, len }),
            None => {
                let what = format!(
                    "the view has no {len} bytes from position {position} on: it is empty, or ends before"
                );
                Err(self.refused(ErrorClass::Argument, what))
            }
        }
    }

    /// The number of elementary types in `len` bytes.
    pub(super) fn etypes(&self, view: &View, len: u64) -> Result<u64> {
        let etype = view.etype_bytes();
        if len.is_multiple_of(etype) {
            return Ok(len / etype);
        }
        let what = format!("an access of {len} bytes is not one of whole etypes, which have {etype} bytes");
        Err(self.refused(ErrorClass::Argument, what))
    }

    /// Moves the individual pointer behind the elementary types that were accessed.
    pub(super) fn moved(&self, place: Place, span: &Span, moved: &Moved) {
        if place == Place::Pointer {
            self.pointer.set((span.from + moved.bytes).div_ceil(span.view.etype_bytes()));
        }
    }

    /// Runs an access. If the file is atomic, no access of another task to bytes between its first and its last overlaps with it.
    pub(super) fn alone(
        &self,
        span: &Span,
        kind: LockKind,
        access: impl FnOnce(&View) -> Moved,
    ) -> Result<Moved> {
        if !self.is_atomic.get() || span.len == 0 {
            return Ok(access(&span.view));
        }
        let last = span.from + span.len - 1;
        let bytes = span.view.offset_of(span.from)..span.view.offset_of(last) + 1;
        self.disk.lock(&bytes, kind).map_err(|error| self.failed("its bytes cannot be locked", &error))?;
        let moved = access(&span.view);
        self.disk.unlock(&bytes).map_err(|error| self.failed("its bytes cannot be unlocked", &error))?;
        Ok(moved)
    }
}
