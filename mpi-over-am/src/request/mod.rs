//! Requests: operations that are under way.

mod data;
mod owned;
mod raw;
mod scope;
mod slab;

pub(crate) use data::{from_nobody, to_nobody};
pub use owned::OwnedRequest;
pub use scope::{Request, Scope, Tested};
pub use slab::RequestId;
pub(crate) use slab::{Phase, Requests};
