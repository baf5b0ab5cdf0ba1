//! One-sided active messages in the manner of LAPI.

pub mod buffer;
pub mod context;
pub mod counter;
pub mod engine;
pub mod error;
pub mod fabric;
pub mod handler;
mod in_handler;
mod progress;
pub mod task;
pub mod transfer;
mod verbs;

pub use context::Context;
pub use verbs::{AmOptions, PutOptions};
