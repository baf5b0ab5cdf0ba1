//! Requests: operations that are under way.

mod owned;
mod raw;
mod scope;
mod slab;

pub use owned::OwnedRequest;
pub use scope::{Request, Scope, Tested};
pub use slab::RequestId;
pub(crate) use slab::{Phase, Requests};
