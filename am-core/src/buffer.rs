//! User memory that the engine holds beyond a call, and bytes that have arrived: this crate's only `unsafe`.
//!
//! Three kinds of memory pass through here:
//!
//! * [`RawBytes`] and [`RawBuffer`]: a range of user memory whose owner has promised to leave it alone until the operation
//!   that holds it has ended. Made from a borrow by [`lend`] and [`lend_mut`], which wait; from an owned buffer; or by the
//!   `unsafe` constructors.
//! * [`Arrived`]: bytes of a message that lie in private memory or still in the NIC's buffer, where the sender could change
//!   them: never a slice, only copies.
//! * [`JobBuffer`] and [`Exposed`]: memory that the fabric allocated, private to the program or open to peers.

mod arrived;
mod exposed;
mod lend;
mod pieces;
mod raw;

pub use arrived::{Arrived, INLINE_BYTES_MAX, InlineBytes};
pub use exposed::{Access, BlockOwner, Executor, Exposed, ExposedRange, Grant, JobBuffer, RemoteAddress};
pub(crate) use lend::lend_in_scope;
pub use lend::{Loans, lend, lend_mut};
pub(crate) use lend::{lend_pieces, lend_pieces_mut};
pub(crate) use pieces::RawPieces;
#[cfg(any(test, feature = "testing"))]
pub(crate) use raw::body_to_vec;
pub use raw::{RawBuffer, RawBytes, Room};
