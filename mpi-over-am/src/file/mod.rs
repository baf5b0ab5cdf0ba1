//! Files (MPI 5.0 chapter 14): a task reads and writes the bytes that its view selects, alone or together with the other tasks.
//!
//! The crate `mpi-io` has what needs no communication: views, access to the pieces of a file, the plan of collective access. Here are the
//! calls, what the tasks tell each other in them, and the pointers. Calls that start an access
//! pass it to the task's helper thread.

mod access;
mod buffers;
mod collective;
mod open;
mod opened;
mod pointers;
mod representation;
mod shared_pointer;
mod size;
mod split;
mod staging;
mod typed;
mod view;

use std::path::Path;
use std::sync::Arc;

use am_core::fabric::Fabric;
pub use mpi_io::AccessMode;

pub use access::Place;
pub use open::delete;
use opened::Opened;
pub use pointers::Whence;
use representation::FileView;
pub use representation::Representation;
use shared_pointer::SharedPointer;
use split::Begun;
pub use split::SplitCall;
use staging::Staging;

use crate::communicator::properties::Properties;
use crate::communicator::{Communicator, tasks_of};
pub use crate::data::conversion::Conversion;
use crate::error::{Error, ErrorClass};
use crate::job::JobFabric;
use crate::policy::{LockPolicy, OneThread};

/// An open file (`MPI_File`).
///
/// ```
/// use mpi_over_am::Environment;
/// use mpi_over_am::file::{AccessMode, Place};
/// use mpi_over_am::Info;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let environment = Environment::init()?;
/// let world = environment.world();
/// let path = std::env::temp_dir().join(format!("numbers-{}", std::process::id()));
/// let mode = AccessMode::CREATE | AccessMode::READ_WRITE | AccessMode::DELETE_ON_CLOSE;
/// let file = world.open_file(&path, mode, &Info::new())?;
/// let rank = u64::from(world.rank());
/// // Each task writes two numbers. Offsets are in bytes, until `set_view` sets another unit.
/// file.write_all(Place::At(16 * rank), &[rank, rank + 100])?;
/// let mut number = [0u64];
/// file.read(Place::At(8), &mut number)?;
/// assert_eq!(number, [100]);
/// file.close()?;
/// environment.finalize()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct File<F: Fabric = JobFabric, L: LockPolicy = OneThread> {
    communicator: Communicator<F, L>,
    opened: Arc<Opened>,
    mode: AccessMode,
    view: L::Field<Arc<FileView>>,
    /// The individual pointer, in elementary types.
    pointer: L::Field<u64>,
    shared_pointer: SharedPointer<F, L>,
    is_atomic: L::Field<bool>,
    split: L::Field<Option<Begun>>,
    /// The memory of the aggregators, once they have been needed.
    staging: L::Field<Option<Arc<Staging<F, L>>>>,
    properties: Properties<L>,
}

tasks_of!(File);

impl<F: Fabric, L: LockPolicy> File<F, L> {
    /// Whether the requests of accesses to this file have this context id.
    #[must_use]
    pub fn has_context_id(&self, context_id: u32) -> bool {
        self.communicator.has_context_id(context_id)
    }

    /// The file's name, as this task has given it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.opened.path
    }

    /// How the file was opened (`MPI_File_get_amode`).
    #[must_use]
    pub fn mode(&self) -> AccessMode {
        self.mode
    }

    /// The hints of the file and its number in the layer above. A file has no attributes.
    #[must_use]
    pub fn properties(&self) -> &Properties<L> {
        &self.properties
    }

    /// A hint that is a number.
    fn number_of(&self, hint: &str) -> Option<u64> {
        self.properties.info().get(hint).ok().flatten().and_then(|value| value.parse().ok())
    }
}

/// An error about a file.
#[cold]
fn about(path: &Path, class: ErrorClass, what: impl Into<String>) -> Error {
    Error::File { class, path: path.display().to_string().into(), what: what.into().into() }
}

/// The system's error `error`, met while `doing` something with a file.
#[cold]
fn failed(path: &Path, doing: &str, error: &std::io::Error) -> Error {
    about(path, class_of(error), format!("{doing}: {error}"))
}

/// The error class of a system's error.
fn class_of(error: &std::io::Error) -> ErrorClass {
    use std::io::ErrorKind as Kind;
    match error.kind() {
        Kind::NotFound => ErrorClass::NoSuchFile,
        Kind::PermissionDenied => ErrorClass::Access,
        Kind::AlreadyExists => ErrorClass::FileExists,
        Kind::StorageFull | Kind::WriteZero => ErrorClass::NoSpace,
        Kind::QuotaExceeded | Kind::FileTooLarge => ErrorClass::Quota,
        Kind::ReadOnlyFilesystem => ErrorClass::ReadOnly,
        Kind::ExecutableFileBusy | Kind::ResourceBusy => ErrorClass::FileInUse,
        Kind::IsADirectory | Kind::NotADirectory | Kind::InvalidFilename | Kind::DirectoryNotEmpty => {
            ErrorClass::BadFile
        }
        Kind::OutOfMemory => ErrorClass::NoMemory,
        _ => ErrorClass::Io,
    }
}

/// A system's error as a word that tasks can tell each other; 0 for none.
fn code_of(error: Option<&std::io::Error>) -> u64 {
    /// For an error without a number: input or output failed.
    const IO_ERROR: i32 = 5;
    error.map_or(0, |error| {
        let number = error.raw_os_error().unwrap_or(match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::WriteZero => 28,
            _ => IO_ERROR,
        });
        u64::from(number.cast_unsigned())
    })
}

/// The error of a [code](code_of) that another task has told.
fn error_of(code: u64) -> std::io::Error {
    #[expect(clippy::cast_possible_truncation, reason = "a wrong number is an unknown error")]
    std::io::Error::from_raw_os_error(code as i32)
}
