//! Calls on requests, that is, operations under way.

pub(crate) mod blocking;
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
pub(crate) mod probe;
pub(crate) mod receive;
pub(crate) mod remote;
mod scope;
pub(crate) mod send;
pub(crate) mod sendrecv;
mod several;

pub use kept::Persistent;
pub use owned::{OwnedRequest, Returned};
pub use parted::{ArrivedPart, OwnPart, PartitionedReceive, PartitionedSend};
pub use scope::{Request, Scope, Tested};
pub use several::{AnyCompleted, WaitList};
