//! Setting and getting the view (MPI 5.0 sections 14.3 and 14.5.1).

use std::sync::Arc;

use am_core::fabric::Fabric;
use mpi_datatype::Datatype;
use mpi_io::{AccessMode, View, WrongView};

use super::File;
use super::representation::{FileView, Representation};
use crate::communicator::info::Info;
use crate::error::{ErrorClass, Result};
use crate::policy::{Field, LockPolicy};

impl<F: Fabric, L: LockPolicy> File<F, L> {
    /// Sets which bytes of the file this task sees, and in which unit its offsets are (`MPI_File_set_view`): the parts that `filetype`
    /// selects, again and again, from byte `displacement` on. Collective; the sizes of `etype` and the representations must agree. All
    /// pointers are set to 0. `None` as displacement: the position of the shared pointer, in a file with
    /// [`AccessMode::SEQUENTIAL`] (`MPI_DISPLACEMENT_CURRENT`).
    ///
    /// # Errors
    /// A view that no file can have; tasks that do not agree.
    pub fn set_view(
        &self,
        displacement: Option<u64>,
        etype: &Datatype,
        filetype: &Datatype,
        representation: &str,
        info: &Info,
    ) -> Result<()> {
        let is_sequential = self.mode.has(AccessMode::SEQUENTIAL);
        let displacement = match displacement {
            Some(displacement) if !is_sequential => Ok(displacement),
            None if is_sequential => {
                let view = self.view.get();
                self.shared_pointer.get().map(|position| view.offset_of(position * view.etype_bytes()))
            }
            None => Err(self.opened.refused(
                ErrorClass::Argument,
                "MPI_DISPLACEMENT_CURRENT is only for files with MPI_MODE_SEQUENTIAL",
            )),
            Some(_) => Err(self.opened.refused(
                ErrorClass::Argument,
                "a file with MPI_MODE_SEQUENTIAL needs MPI_DISPLACEMENT_CURRENT as displacement",
            )),
        };
        let view = displacement.and_then(|displacement| {
            let representation = self.communicator.representation(representation)?.ok_or_else(|| {
                let what = format!(
                    "there is no data representation {representation:?}: there are \"native\", \"internal\", \"external32\" and those \
                     that this task has registered"
                );
                self.opened.refused(ErrorClass::UnsupportedDatarep, what)
            })?;
            let is_written = self.mode.writes();
            let view = if representation.is_as_in_memory() {
                View::new(displacement, etype, filetype, is_written)
            } else {
                let view = representation.with_sizes(|size_of| {
                    View::of_sizes(displacement, etype, filetype, size_of, is_written)
                });
                view.map_err(|what| self.opened.refused(ErrorClass::Conversion, what))?
            };
            let view = view.map_err(|wrong| self.opened.refused(class_of(&wrong), wrong.to_string()))?;
            let are_contiguous = view.is_contiguous();
            Ok(FileView { view, representation, are_contiguous })
        });
        // Also if the view is wrong here: the other tasks wait.
        let facts = view.as_ref().map_or([0; 2], |view| [view.etype_bytes(), view.representation.number()]);
        let is_contiguous = view.as_ref().is_ok_and(|view| view.is_contiguous());
        let all = self.communicator.gather_words(&[facts[0], facts[1], is_contiguous.into()])?;
        let mut view = view?;
        view.are_contiguous = all.iter().all(|other| other[2] != 0);
        if let Some(other) = all.iter().find(|other| other[1] != 0 && other[..2] != facts) {
            let text = format!(
                "the tasks set views with different etypes or representations: {} bytes here, {} elsewhere",
                facts[0], other[0]
            );
            return Err(self.opened.refused(ErrorClass::NotSame, text));
        }
        if all.iter().any(|other| other[1] == 0) {
            let what = "the view of another task is not valid, and that task got the error: no view was set";
            return Err(self.opened.refused(ErrorClass::Other, what));
        }
        self.view.set(Arc::new(view));
        self.pointer.set(0);
        self.properties.set_info(info);
        self.set_shared_pointer(0)
    }

    /// The view (`MPI_File_get_view`): displacement in bytes, elementary type, file type, representation.
    #[must_use]
    pub fn view(&self) -> (u64, Datatype, Datatype, Representation) {
        let view = self.view.get();
        (view.displacement(), view.etype().clone(), view.filetype().clone(), view.representation.clone())
    }

    /// The offset in bytes, from the start of the file, of an offset in elementary types (`MPI_File_get_byte_offset`).
    ///
    /// # Errors
    /// The view has no such offset.
    pub fn byte_offset(&self, offset: u64) -> Result<u64> {
        let view = self.view.get();
        let position = offset.checked_mul(view.etype_bytes()).filter(|&position| view.has(position, 1));
        position.map(|position| view.offset_of(position)).ok_or_else(|| {
            self.opened.refused(
                ErrorClass::Argument,
                format!("the view has no offset {offset}: it is empty, or ends before"),
            )
        })
    }

    /// Bytes from one element of a type to the next in the file (`MPI_File_get_type_extent`).
    ///
    /// # Errors
    /// More than 2^63 bytes; what a function of the program reports.
    pub fn type_extent(&self, datatype: &Datatype) -> Result<i64> {
        let representation = &self.view.get().representation;
        if representation.is_as_in_memory() {
            return Ok(datatype.extent());
        }
        let in_file = representation.with_sizes(|size_of| datatype.in_file(size_of));
        let in_file = in_file.map_err(|what| self.opened.refused(ErrorClass::Conversion, what))?;
        Ok(in_file?.extent())
    }
}

fn class_of(wrong: &WrongView) -> ErrorClass {
    match wrong {
        WrongView::EmptyEtype => ErrorClass::Type,
        _ => ErrorClass::Argument,
    }
}
