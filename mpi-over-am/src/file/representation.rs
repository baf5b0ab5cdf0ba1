//! The form of numbers in files (MPI 5.0 section 14.5).

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use am_core::fabric::Fabric;
use mpi_datatype::Predefined;
use mpi_io::View;

use crate::communicator::Communicator;
use crate::data::conversion::Conversion;
use crate::error::{Error, ErrorClass, Result};
use crate::policy::LockPolicy;

/// The form of numbers in a file.
#[derive(Clone, Debug)]
pub enum Representation {
    /// As in memory (`native`).
    Native,
    /// As in memory: all machines that a job can have are alike (`internal`).
    Internal,
    /// The standard's form (`external32`).
    External32,
    /// A form of the program ([`Communicator::register_representation`]).
    Registered(Arc<dyn Conversion>),
}

impl Representation {
    /// The standard's representation with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "native" => Some(Self::Native),
            "internal" => Some(Self::Internal),
            "external32" => Some(Self::External32),
            _ => None,
        }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Native => "native",
            Self::Internal => "internal",
            Self::External32 => "external32",
            Self::Registered(conversion) => conversion.name(),
        }
    }

    /// Whether types are in the file as they are in memory, with their gaps (MPI 5.0 sections 14.3 and 14.5).
    pub(super) fn is_as_in_memory(&self) -> bool {
        matches!(self, Self::Native | Self::Internal)
    }

    /// A number that differs from those of other representations, in all tasks alike.
    pub(super) fn number(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.name().hash(&mut hasher);
        hasher.finish().max(1)
    }

    /// Calls `call` with the sizes that numbers have in a file.
    ///
    /// # Errors
    /// What the program's function has reported.
    pub(super) fn with_sizes<R>(
        &self,
        call: impl FnOnce(&dyn Fn(Predefined) -> u64) -> R,
    ) -> std::result::Result<R, String> {
        let conversion = match self {
            Self::Native | Self::Internal => return Ok(call(&Predefined::size)),
            Self::External32 => return Ok(call(&Predefined::external32_size)),
            Self::Registered(conversion) => conversion,
        };
        let failure = RefCell::new(None);
        let result = call(&|basic| {
            conversion.bytes_of(basic).unwrap_or_else(|what| {
                failure.borrow_mut().get_or_insert(what);
                basic.size()
            })
        });
        failure.into_inner().map_or(Ok(result), Err)
    }
}

/// A view, and the form of the numbers in it.
#[derive(Debug)]
pub(super) struct FileView {
    pub(super) view: View,
    pub(super) representation: Representation,
    /// Whether the views of all tasks are contiguous, so that no task has pieces between those of another one.
    pub(super) are_contiguous: bool,
}

impl Deref for FileView {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Adds a representation of the program for the files of this task (`MPI_Register_datarep`). It stays until the environment ends.
    ///
    /// # Errors
    /// There is a representation with this name.
    pub fn register_representation(&self, conversion: Arc<dyn Conversion>) -> Result<()> {
        let mut state = self.state()?;
        let name = conversion.name();
        let is_there = |known: &Arc<dyn Conversion>| known.name() == name;
        if Representation::named(name).is_some() || state.representations.iter().any(is_there) {
            let what = "there is a data representation with this name already";
            return Err(Error::refused(ErrorClass::DuplicateDatarep, "register_representation", what, None));
        }
        state.representations.push(conversion);
        Ok(())
    }

    /// The representation with this name, of the standard or of the program.
    pub(super) fn representation(&self, name: &str) -> Result<Option<Representation>> {
        if let Some(known) = Representation::named(name) {
            return Ok(Some(known));
        }
        let state = self.state()?;
        let found = state.representations.iter().find(|known| known.name() == name);
        Ok(found.map(|conversion| Representation::Registered(Arc::clone(conversion))))
    }
}
