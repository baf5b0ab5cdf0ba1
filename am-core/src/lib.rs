//! One-sided active messages in the manner of LAPI.

#![deny(unsafe_code)]

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

pub use context::{Context, Limits};
pub use verbs::{AmOptions, GetOptions, OwnedHandle, PollReason, PutOptions, Returned, RmwHandle, Scope};
