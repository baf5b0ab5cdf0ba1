//! Properties that communicators, windows, sessions and the datatypes of the layer above have in common: a number in that layer, a name,
//! hints, an error handler, attributes.

use crate::communicator::attribute::{Attributes, Keyval, ObjectKind};
use crate::communicator::error_handler::ErrorHandler;
use crate::communicator::hints;
use crate::communicator::info::Info;
use crate::error::{Error, ErrorClass, Result};
use crate::policy::{Field, LockPolicy};

/// Maximum length of an object's name in bytes (`MPI_MAX_OBJECT_NAME`, without the terminating NUL).
pub const NAME_BYTES_MAX: usize = 127;

/// The properties of an object. None is borrowed while a callback runs.
#[derive(Debug)]
pub struct Properties<L: LockPolicy> {
    kind: ObjectKind,
    /// The object's number in the layer above; 0 until set.
    handle: L::Field<u64>,
    name: L::Field<String>,
    info: L::Field<Info>,
    error_handler: L::Field<ErrorHandler>,
    attributes: L::Field<Attributes>,
}

impl<L: LockPolicy> Properties<L> {
    /// The properties of a new object.
    #[must_use]
    pub fn new(kind: ObjectKind, info: &Info, error_handler: ErrorHandler) -> Self {
        let info = hints::accepted(kind, info);
        Self {
            kind,
            handle: L::Field::new(0),
            name: L::Field::new(String::new()),
            info: L::Field::new(info),
            error_handler: L::Field::new(error_handler),
            attributes: L::Field::new(Attributes::new()),
        }
    }

    /// The object's number in the layer above, which callbacks get; 0 until set.
    #[must_use]
    pub fn handle(&self) -> u64 {
        self.handle.get()
    }

    /// Sets the object's number in the layer above.
    pub fn set_handle(&self, handle: u64) {
        self.handle.set(handle);
    }

    /// Sets the attributes of an object that is being made.
    #[must_use]
    pub fn with_attributes(self, attributes: Attributes) -> Self {
        self.attributes.set(attributes);
        self
    }

    /// The name; empty until set (`MPI_Comm_get_name`).
    #[must_use]
    pub fn name(&self) -> String {
        self.name.get()
    }

    /// Sets the name, for people to read (`MPI_Comm_set_name`). Only the characters that fit into [`NAME_BYTES_MAX`] bytes are kept.
    pub fn set_name(&self, name: &str) {
        let ends = name.char_indices().map(|(at, character)| at + character.len_utf8());
        let len = ends.take_while(|&end| end <= NAME_BYTES_MAX).last().unwrap_or(0);
        self.name.set(name[..len].to_owned());
    }

    /// The hints in use, with the defaults of those that the program has not given (`MPI_Comm_get_info` and its counterparts). The key
    /// `mpi_memory_alloc_kinds` says which kinds of memory the library supports: `mpi,system`.
    #[must_use]
    pub fn info(&self) -> Info {
        hints::in_use(self.kind, &self.info.get())
    }

    /// Changes hints, which have no effect so far (`MPI_Comm_set_info`). Other hints keep their values. Hints that the library does not
    /// know, and values that they cannot have, are ignored.
    pub fn set_info(&self, info: &Info) {
        let accepted = hints::accepted(self.kind, info);
        self.info.with(|hints| hints.update(&accepted));
    }

    /// The error handler (`MPI_Comm_get_errhandler`).
    #[must_use]
    pub fn error_handler(&self) -> ErrorHandler {
        self.error_handler.get()
    }

    /// Sets the error handler (`MPI_Comm_set_errhandler`).
    pub fn set_error_handler(&self, handler: ErrorHandler) {
        self.error_handler.set(handler);
    }

    /// The value of an attribute (`MPI_Comm_get_attr`).
    ///
    /// # Errors
    /// A keyval for another kind of object.
    pub fn attribute(&self, keyval: &Keyval) -> Result<Option<u64>> {
        self.attributes.with(|attributes| attributes.get(self.kind, keyval))
    }

    /// Gives an attribute a value (`MPI_Comm_set_attr`). If it has a value already, the delete callback runs for the old value.
    ///
    /// # Errors
    /// A keyval for another kind of object; the error of the callback, after which the old value stays.
    pub fn set_attribute(&self, keyval: &Keyval, value: u64) -> Result<()> {
        let older = self.attributes.with(|attributes| attributes.deletion(keyval));
        older.map_or(Ok(()), |older| older.run(self.handle.get()))?;
        self.attributes.with(|attributes| attributes.set(self.kind, keyval, value))
    }

    /// Deletes an attribute, after its delete callback has run (`MPI_Comm_delete_attr`).
    ///
    /// # Errors
    /// There is no such attribute; the error of the callback, after which the attribute stays.
    pub fn delete_attribute(&self, keyval: &Keyval) -> Result<()> {
        let deletion = self.attributes.with(|attributes| attributes.deletion(keyval)).ok_or_else(|| {
            let what = "the object has no attribute with this keyval; the value is the keyval's number";
            let number = i64::try_from(keyval.number()).unwrap_or(i64::MAX);
            Error::refused(ErrorClass::Keyval, "delete_attribute", what, number)
        })?;
        deletion.run(self.handle.get())?;
        self.attributes.with(|attributes| attributes.remove(keyval));
        Ok(())
    }

    /// The keys of the attributes, most recently set first: the order of deletion (MPI 5.0 section 11.2.3).
    #[must_use]
    pub fn keyvals(&self) -> Vec<Keyval> {
        self.attributes.with(|attributes| attributes.keyvals())
    }

    /// Deletes all attributes, most recently set first.
    ///
    /// # Errors
    /// The first error of a callback; the other attributes are still deleted.
    pub fn delete_attributes(&self) -> Result<()> {
        let mut result = Ok(());
        for keyval in self.keyvals() {
            let deletion = self.attributes.with(|attributes| attributes.deletion(&keyval));
            result = result.and(deletion.map_or(Ok(()), |deletion| deletion.run(self.handle.get())));
            self.attributes.with(|attributes| attributes.remove(&keyval));
        }
        result
    }

    /// The attributes for a duplicate, from the copy callbacks.
    ///
    /// # Errors
    /// The error of a callback.
    pub fn attributes_for_duplicate(&self) -> Result<Attributes> {
        self.attributes.get().duplicate(self.handle.get())
    }
}
