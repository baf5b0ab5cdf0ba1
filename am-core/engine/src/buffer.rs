//! The types of memory: ranges that operations hold, bytes that have arrived, blocks of memory, and memory that tasks share. This is the
//! only module of the crate with `unsafe` blocks.
//!
//! * [`RawBytes`] and [`RawBuffer`]: a range of user memory that stays live until the operation that holds it has ended. Until then its
//!   owner must not write to a `RawBytes`, and must not touch a `RawBuffer`. Blocking calls make such ranges from borrows, other operations
//!   make them from buffers that they own, and callers that have pointers use the `unsafe` constructors.
//! * [`Arrived`]: bytes of a message that lie in private memory or still in the NIC's buffer, where the sender could change them. They are
//!   copied, never borrowed as a slice.
//! * [`JobBuffer`] and [`Exposed`]: blocks of memory, private to the program or open to peers.
//! * [`SharedMemory`]: one block of memory, mapped by several tasks.

mod address;
mod arrived;
mod block;
mod exposed;
mod pieces;
mod raw;
mod shared;

pub use address::{Access, Executor, ExposedRange, Grant, RemoteAddress};
pub use arrived::{Arrived, INLINE_BYTES_MAX, InlineBytes};
pub use block::{BlockOwner, JobBuffer};
pub use exposed::{Exposed, Owner, Word};
pub(crate) use pieces::Range;
pub use pieces::RawPieces;
pub use raw::{ForEngine, KeepsPromises, MappedRange, PacketWriter, RawBuffer, RawBytes};
pub use shared::{KeepsMapped, SharedMemory, SharedName, SharedPart};
