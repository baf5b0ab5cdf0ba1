//! Calls on requests, that is, operations under way.

mod data;
mod exchange;
mod future;
mod generalized;
mod kept;
mod matched;
mod one;
mod owned;
mod parted;
mod partitioned;
mod persistent;
mod scope;
mod several;

pub use kept::Persistent;
pub use owned::{OwnedRequest, Returned};
pub use parted::{ArrivedPart, OwnPart, PartitionedReceive, PartitionedSend};
pub use scope::{Request, Scope, Tested};
pub use several::{AnyCompleted, WaitList};
