//! The data of messages: buffers, operations on them, packed and converted forms.

#[expect(unsafe_code, reason = "the one place where this crate holds user memory beyond a call")]
pub(crate) mod buffer;
pub(crate) mod conversion;
pub mod op;
pub mod packing;
