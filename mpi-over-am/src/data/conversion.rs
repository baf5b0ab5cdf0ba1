//! A program's form of numbers in files (MPI 5.0 section 14.5.3).

use std::fmt::Debug;

use mpi_datatype::Predefined;

use crate::data::buffer::{RecvData, SendData};

/// A form of the program. In a file, the numbers of an access follow each other without gaps.
///
/// A conversion that fails returns what was wrong; the error of the access has the class
/// [`ErrorClass::Conversion`](crate::ErrorClass::Conversion).
pub trait Conversion: Debug + Send + Sync {
    /// The name, by which [`File::set_view`](crate::file::File::set_view) finds the form.
    fn name(&self) -> &str;

    /// Bytes that a number of this type has in a file. `basic` is no pair.
    ///
    /// # Errors
    /// What was wrong.
    fn bytes_of(&self, basic: Predefined) -> std::result::Result<u64, String>;

    /// Whether numbers that are written are converted. If not, they are written as they are in memory.
    fn converts_writes(&self) -> bool;

    /// Whether numbers that are read are converted. If not, they are stored as they are in the file.
    fn converts_reads(&self) -> bool;

    /// Stores the first `items` numbers of the elements in the file's form.
    ///
    /// # Errors
    /// What was wrong.
    fn write(&self, from: &SendData, items: u64, to: &mut [u8]) -> std::result::Result<(), String>;

    /// Stores numbers, `items` of them, as the first numbers of the elements.
    ///
    /// # Errors
    /// What was wrong.
    fn read(&self, from: &[u8], items: u64, to: &RecvData) -> std::result::Result<(), String>;
}
