//! The types of memory: ranges that operations hold, bytes that have arrived, blocks of memory, and memory that tasks share.
//!
//! * [`RawBytes`] and [`RawBuffer`]: a range of user memory that stays live until the operation that holds it has ended. Until then its
//!   owner must not write to a `RawBytes`, and must not touch a `RawBuffer`. Blocking calls make such ranges from borrows, other operations
//!   make them from buffers that they own, and callers that have pointers use the `unsafe` constructors.
//! * [`Arrived`]: bytes of a message that lie in private memory or still in the NIC's buffer, where the sender could change them. They are
//!   copied, never borrowed as a slice.
//! * [`JobBuffer`] and [`Exposed`]: blocks of memory, private to the program or open to peers.
//! * [`SharedMemory`]: one block of memory, mapped by several tasks.

#[expect(unsafe_code, reason = "hands memory of a buffer to the operation or region that keeps the buffer")]
mod kept;
#[expect(unsafe_code, reason = "turns borrows into ranges without a lifetime, and outlives their operations")]
mod lend;
#[expect(unsafe_code, reason = "accesses memory of other tasks that this task has mapped")]
mod mapped;

pub use am_core_engine::buffer::*;

pub(crate) use kept::{Closing, close, engine_over, expose, expose_shared, memory_of};
pub use lend::{Borrowed, Owned, mark_copied_process};
pub(crate) use lend::{Loans, give, lend, lend_in_scope};
pub(crate) use mapped::{MappedPart, MappedParts};
