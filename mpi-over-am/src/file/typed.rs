//! Reads and writes of Rust's values: slices, numbers, structs.

use am_core::fabric::Fabric;

use super::{File, Place};
use crate::data::buffer::{Buffer, BufferMut};
use crate::error::Result;
use crate::message::status::Status;
use crate::policy::LockPolicy;

/// The calls for values. Those that are collective must be called by all tasks of the file.
macro_rules! calls {
    ($($(#[$doc:meta])+ $name:ident $buffer:ident $outgoing:ident ($($place:ident: $type:ty)?) => $on_data:ident
        [$($borrow:tt)+])+) => {
        impl<F: Fabric, L: LockPolicy> File<F, L> {
            $(
                $(#[$doc])+
                pub fn $name(&self, $($place: $type,)? values: $($borrow)+ (impl $buffer + ?Sized)) -> Result<Status> {
                    values.$outgoing()?.lend_data(|data| self.$on_data($($place,)? &data))
                }
            )+
        }
    };
}

calls! {
    /// Writes values (`MPI_File_write`, `MPI_File_write_at`, `MPI_File_write_shared`).
    ///
    /// # Errors
    /// Those of [`write_data`](Self::write_data).
    write Buffer outgoing (place: Place) => write_data [&]

    /// Reads values (`MPI_File_read`, `MPI_File_read_at`, `MPI_File_read_shared`). Values behind the end of the file stay as they are;
    /// the status says how many bytes were read.
    ///
    /// # Errors
    /// Those of [`read_data`](Self::read_data).
    read BufferMut incoming (place: Place) => read_data [&mut]

    /// Writes values, together with all other tasks (`MPI_File_write_all`, `MPI_File_write_at_all`).
    ///
    /// # Errors
    /// Those of [`write_data_all`](Self::write_data_all).
    write_all Buffer outgoing (place: Place) => write_data_all [&]

    /// Reads values, together with all other tasks (`MPI_File_read_all`, `MPI_File_read_at_all`).
    ///
    /// # Errors
    /// Those of [`read_data_all`](Self::read_data_all).
    read_all BufferMut incoming (place: Place) => read_data_all [&mut]

    /// Writes the values of all tasks at the shared pointer, in the order of the ranks (`MPI_File_write_ordered`).
    ///
    /// # Errors
    /// Those of [`write_data_all`](Self::write_data_all).
    write_ordered Buffer outgoing () => write_data_ordered [&]

    /// Reads the values of all tasks at the shared pointer, in the order of the ranks (`MPI_File_read_ordered`).
    ///
    /// # Errors
    /// Those of [`read_data_all`](Self::read_data_all).
    read_ordered BufferMut incoming () => read_data_ordered [&mut]
}
