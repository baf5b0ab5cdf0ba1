//! Opening, closing and deleting (MPI 5.0 section 14.2).

use std::io;
use std::path::Path;
use std::sync::Arc;

use am_core::fabric::Fabric;
use mpi_io::{AccessMode, Disk, LocalFile, View};

use super::opened::Opened;
use super::representation::{FileView, Representation};
use super::shared_pointer::SharedPointer;
use super::{File, about, code_of, error_of, failed};
use crate::communicator::Communicator;
use crate::communicator::attribute::ObjectKind;
use crate::communicator::error_handler::ErrorHandler;
use crate::communicator::info::Info;
use crate::communicator::properties::Properties;
use crate::error::{ErrorClass, Result};
use crate::policy::{Field, LockPolicy};

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Opens a file (`MPI_File_open`). Collective: all tasks must name the same file, with the same mode. Each task then sees all bytes of
    /// the file, at offsets in bytes ([`File::set_view`]).
    ///
    /// # Errors
    /// Modes that exclude each other or differ; an inter-communicator; what the system refuses: all tasks get an error if one cannot open
    /// the file.
    pub fn open_file(&self, path: impl AsRef<Path>, mode: AccessMode, info: &Info) -> Result<File<F, L>> {
        let path = path.as_ref();
        if self.is_inter() {
            let what = "an inter-communicator has no files";
            return Err(about(path, ErrorClass::Communicator, what));
        }
        let own = self.dup()?;
        let modes = own.gather_words(&[u64::from(mode.bits()) + 1])?;
        if let Some(other) = modes.iter().find(|other| **other != modes[own.rank() as usize]) {
            let what = format!(
                "the tasks open it with different modes: {:#x} here, {:#x} elsewhere",
                mode.bits(),
                other[0] - 1
            );
            return Err(about(path, ErrorClass::NotSame, what));
        }
        mode.check().map_err(|wrong| about(path, ErrorClass::AccessMode, wrong.to_string()))?;
        let disk = own.open_alike(path, mode)?;
        let shared_pointer = SharedPointer::new(&own)?;
        let file = File {
            communicator: own,
            opened: Arc::new(Opened::new(path.to_owned(), disk)),
            mode,
            view: L::Field::new(Arc::new(FileView {
                view: View::of_bytes(),
                representation: Representation::Native,
                are_contiguous: true,
            })),
            pointer: L::Field::new(0),
            shared_pointer,
            is_atomic: L::Field::new(false),
            split: L::Field::new(None),
            staging: L::Field::new(None),
            properties: Properties::new(ObjectKind::File, info, ErrorHandler::Return),
        };
        if mode.has(AccessMode::APPEND) {
            let end = file.len()?;
            file.pointer.set(end);
            file.set_shared_pointer(end)?;
        }
        Ok(file)
    }

    /// Opens a file in all tasks. One of them makes it, if that is wanted: the others could not tell whether it existed before.
    fn open_alike(&self, path: &Path, mode: AccessMode) -> Result<Arc<dyn Disk>> {
        const DOING: &str = "it cannot be opened";
        let open = |makes| LocalFile::open(path, mode, makes);
        let is_first = self.rank() == 0;
        let first = is_first.then(|| open(true));
        let mut code = [code_of(first.as_ref().and_then(|opened| opened.as_ref().err()))];
        self.broadcast_words(&mut code, 0)?;
        if code[0] != 0 {
            let error = first.and_then(io::Result::err).unwrap_or_else(|| error_of(code[0]));
            return Err(failed(path, DOING, &error));
        }
        let opened = first.unwrap_or_else(|| open(false));
        let codes = self.gather_words(&[code_of(opened.as_ref().err())])?;
        let opened = opened.map_err(|error| failed(path, DOING, &error))?;
        match codes.iter().position(|code| code[0] != 0) {
            None => Ok(Arc::new(opened)),
            Some(rank) => {
                let doing = format!("rank {rank} cannot open it");
                Err(failed(path, &doing, &error_of(codes[rank][0])))
            }
        }
    }
}

impl<F: Fabric, L: LockPolicy> File<F, L> {
    /// Closes the file (`MPI_File_close`). Collective. Waits for accesses that were started and have not ended. A file with
    /// [`AccessMode::DELETE_ON_CLOSE`] is then deleted.
    ///
    /// # Errors
    /// A collective call was begun and not ended; the death of a task; the file cannot be deleted.
    pub fn close(self) -> Result<()> {
        self.check_close()?;
        self.finish_started()?;
        let Self { communicator, opened, mode, shared_pointer, staging, .. } = self;
        let path = opened.path.clone();
        // The system's last reference to the file, before any task deletes it.
        drop(opened);
        if let Some(staging) = staging.replace(None).and_then(Arc::into_inner) {
            staging.free()?;
        }
        // Also ends the epoch in which all tasks access the shared pointer, when all have come here.
        shared_pointer.free()?;
        if !mode.has(AccessMode::DELETE_ON_CLOSE) {
            return Ok(());
        }
        let mut code = [0];
        if communicator.rank() == 0 {
            code[0] = code_of(std::fs::remove_file(&path).err().as_ref());
        }
        communicator.broadcast_words(&mut code, 0)?;
        if code[0] == 0 { Ok(()) } else { Err(failed(&path, "it cannot be deleted", &error_of(code[0]))) }
    }

    /// The first step of [`close`](Self::close): rejects it while a collective call that was begun is not ended.
    ///
    /// # Errors
    /// There is such a call.
    pub fn check_close(&self) -> Result<()> {
        match self.split.with(|begun| begun.as_ref().map(super::split::Begun::call)) {
            None => Ok(()),
            Some(call) => Err(self.opened.refused(
                ErrorClass::Other,
                format!("{call} was not ended: call its _end before the file is closed"),
            )),
        }
    }
}

/// Deletes a file (`MPI_File_delete`). Not collective.
///
/// # Errors
/// There is no such file, or the system refuses.
pub fn delete(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    std::fs::remove_file(path).map_err(|error| failed(path, "it cannot be deleted", &error))
}
