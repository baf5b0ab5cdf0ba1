//! One-sided active messages in the manner of LAPI.

#![deny(unsafe_code)]
#![expect(
    clippy::cast_possible_truncation,
    reason = "lengths are u64 on the wire and usize in memory, which is the same here (asserted below); numbers narrower than \
              that are cut where a format says so, after they were checked or made"
)]

#[allow(unsafe_code, reason = "user memory beyond a call: the one module for it")]
pub mod buffer;
pub mod context;
pub mod counter;
pub mod engine;
pub mod error;
pub mod fabric;
pub mod handler;
mod handler_thread;
mod in_handler;
mod progress;
pub mod task;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod transfer;
mod verbs;

const _: () = assert!(usize::BITS == 64, "am-core counts bytes of memory in 64 bits");

pub use context::{Context, Limits};
pub use verbs::{AmOptions, GetOptions, OwnedHandle, PollReason, PutOptions, Returned, RmwHandle, Scope};
