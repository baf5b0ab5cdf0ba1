//! Requests: operations that are under way.

mod slab;

pub use slab::RequestId;
pub(crate) use slab::{Phase, Requests};
