//! MPI's files without communication (MPI 5.0 chapter 14): views, access to the pieces of a file, the plan of collective access.
//!
//! A [`View`] maps a stream of bytes, which a program reads and writes, to pieces of a file. [`write`] and [`read`] move a part of the
//! stream. For collective access, [`Domains`] divides a part of the file among some tasks; [`Selection`] says which pieces of a domain a
//! task accesses, in a form that can be sent; [`write_together`] and [`read_together`] carry out what several tasks have selected.
//!
//! ```
//! use mpi_datatype::{Datatype, Predefined};
//! use mpi_io::{Piece, View};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Every second number of a file, from byte 100 on.
//! let int = Datatype::predefined(Predefined::Int);
//! let every_second = Datatype::resized(&int, 0, 8)?;
//! let view = View::new(100, &int, &every_second, true)?;
//! assert_eq!(view.pieces(4, 8), [Piece { at: 108, len: 4 }, Piece { at: 116, len: 4 }]);
//! assert_eq!(view.offset_of(8), 116);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "lengths are u64 in files and usize in memory, which is the same here (am-core asserts it)"
)]

mod access;
mod access_mode;
mod disk;
mod domains;
mod selection;
mod space;
mod together;
mod view;

pub use access::{Moved, read, write};
pub use access_mode::{AccessMode, WrongMode};
pub use disk::{Disk, LocalFile, LockKind};
pub use domains::Domains;
pub use selection::{Malformed, Selection, Strided};
pub use space::Space;
pub use together::{Found, read_together, write_together};
pub use view::{Piece, View, WrongView};
