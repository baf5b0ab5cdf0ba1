//! The public operations, one per file.

mod accumulate;
mod address_init;
mod amsend;
mod counters;
mod fence;
mod get;
mod in_place;
mod memory;
mod msgpoll;
mod multicast;
mod operation;
mod purge;
mod put;
mod query;
mod rmw;
mod scope;

pub use accumulate::{Accumulation, Element};
pub use amsend::{AmOptions, Amsend, AmsendInPieces};
pub use get::{Get, GetOptions};
pub use msgpoll::PollReason;
pub use multicast::Group;
pub use operation::{Operation, OwnedHandle, Returned};
pub use put::{Put, PutOptions};
pub use query::{PeerStatistics, Query};
pub use rmw::RmwHandle;
pub use scope::Scope;
