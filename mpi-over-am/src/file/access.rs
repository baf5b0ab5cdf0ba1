//! Reads and writes by one task (MPI 5.0 section 14.4).

use std::sync::Arc;

use am_core::fabric::Fabric;
use mpi_io::Moved;

use super::File;
use super::buffers::{Source, Target};
use super::opened::Span;
use super::representation::{FileView, Representation};
use crate::data::buffer::{RecvData, SendData};
use crate::error::{ErrorClass, Result};
use crate::message::helper_thread::Work;
use crate::message::progress::start_by_helper;
use crate::message::request_id::RequestId;
use crate::message::status::Status;
use crate::policy::{Field, LockPolicy};

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

impl<F: Fabric, L: LockPolicy> File<F, L> {
    /// Writes elements (`MPI_File_write` and the like).
    ///
    /// # Errors
    /// The file is only read; elements that are not whole elementary types; what the system refuses.
    pub fn write_data(&self, place: Place, data: &SendData) -> Result<Status> {
        let (source, span) = self.prepare_write(place, data)?;
        self.write_now(place, &source, &span)
    }

    pub(super) fn write_now(&self, place: Place, source: &Source, span: &Span) -> Result<Status> {
        let moved = self.opened.write(span, source)?;
        self.moved(place, span, &moved);
        self.opened.written(span, moved, source)
    }

    fn prepare_write(&self, place: Place, data: &SendData) -> Result<(Source, Span)> {
        self.check_written()?;
        let view = self.view.get();
        let source = Source::new(&view, self.path(), data)?;
        let span = self.span(view, place, source.len())?;
        Ok((source, span))
    }

    /// Reads elements (`MPI_File_read` and the like). The status has fewer bytes than the elements if the file ends before.
    ///
    /// # Errors
    /// The file is only written; elements that are not whole elementary types; what the system refuses.
    pub fn read_data(&self, place: Place, data: &RecvData) -> Result<Status> {
        let (target, span) = self.prepare_read(place, data)?;
        self.read_now(place, target, &span)
    }

    pub(super) fn read_now(&self, place: Place, mut target: Target, span: &Span) -> Result<Status> {
        let moved = self.opened.read(span, &mut target)?;
        self.moved(place, span, &moved);
        self.opened.was_read(span, moved, target)
    }

    fn prepare_read(&self, place: Place, data: &RecvData) -> Result<(Target, Span)> {
        self.check_read()?;
        let view = self.view.get();
        let target = Target::new(&view, self.path(), data)?;
        let span = self.span(view, place, target.len())?;
        Ok((target, span))
    }

    /// Starts a write (`MPI_File_iwrite` and the like), which the helper thread carries out after the accesses that were started before.
    /// The pointer moves at once, by as much as is to be written. What the system refuses is the result of the request.
    ///
    /// # Errors
    /// The file is only read; elements that are not whole elementary types; the helper thread cannot be started.
    pub fn start_write_data(&self, place: Place, data: &SendData) -> Result<RequestId> {
        let (source, span) = self.prepare_write(place, data)?;
        self.start_write(place, source, span)
    }

    /// Starts a read (`MPI_File_iread` and the like), in the same way as [`start_write_data`](Self::start_write_data).
    ///
    /// # Errors
    /// The file is only written; elements that are not whole elementary types; the helper thread cannot be started.
    pub fn start_read_data(&self, place: Place, data: &RecvData) -> Result<RequestId> {
        let (target, span) = self.prepare_read(place, data)?;
        self.start_read(place, target, span)
    }

    pub(super) fn start_write(&self, place: Place, source: Source, span: Span) -> Result<RequestId> {
        self.moved(place, &span, &Moved { bytes: span.len, failure: None });
        let opened = Arc::clone(&self.opened);
        self.start(Box::new(move || {
            let moved = opened.write(&span, &source)?;
            opened.written(&span, moved, &source)
        }))
    }

    pub(super) fn start_read(&self, place: Place, mut target: Target, span: Span) -> Result<RequestId> {
        if matches!(span.view.representation, Representation::Registered(_)) {
            // The program's function must run in a thread of the program.
            let read = self.read_now(place, target, &span);
            return self.start(Box::new(|| read));
        }
        self.moved(place, &span, &Moved { bytes: span.len, failure: None });
        let opened = Arc::clone(&self.opened);
        self.start(Box::new(move || {
            let moved = opened.read(&span, &mut target)?;
            opened.was_read(&span, moved, target)
        }))
    }

    fn start(&self, work: Work) -> Result<RequestId> {
        let request = start_by_helper(&mut *self.communicator.state()?, work)?;
        self.communicator.own_request(request);
        Ok(request)
    }

    /// Waits until the helper thread has carried out the accesses to this file that were started. Their requests stay.
    pub(super) fn finish_started(&self) -> Result<()> {
        if Arc::strong_count(&self.opened) == 1 {
            return Ok(());
        }
        let last = self.start(Box::new(|| Ok(Status::EMPTY)))?;
        self.communicator.wait(last).map(drop)
    }

    /// The part of the stream that an access of `len` bytes moves. Moves the shared pointer.
    pub(super) fn span(&self, view: Arc<FileView>, place: Place, len: u64) -> Result<Span> {
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
    pub(super) fn span_at(&self, view: Arc<FileView>, position: u64, len: u64) -> Result<Span> {
        let is_atomic = self.is_atomic.get();
        let from = position.checked_mul(view.etype_bytes()).filter(|&from| view.has(from, len));
        match from {
            Some(from) => Ok(Span { view, from, len, is_atomic }),
            None if len == 0 => Ok(Span { view, from: 0, len, is_atomic }),
            None => {
                let what = format!(
                    "the view has no {len} bytes from position {position} on: it is empty, or ends before"
                );
                Err(self.opened.refused(ErrorClass::Argument, what))
            }
        }
    }

    /// The number of elementary types in `len` bytes.
    pub(super) fn etypes(&self, view: &FileView, len: u64) -> Result<u64> {
        let etype = view.etype_bytes();
        if len.is_multiple_of(etype) {
            return Ok(len / etype);
        }
        let what = format!("an access of {len} bytes is not one of whole etypes, which have {etype} bytes");
        Err(self.opened.refused(ErrorClass::Argument, what))
    }

    /// Moves the individual pointer behind the elementary types that were accessed.
    pub(super) fn moved(&self, place: Place, span: &Span, moved: &Moved) {
        if place == Place::Pointer {
            self.pointer.set((span.from + moved.bytes).div_ceil(span.view.etype_bytes()));
        }
    }
}
