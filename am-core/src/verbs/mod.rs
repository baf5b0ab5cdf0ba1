//! The public operations, one a file.

mod accumulate;
mod address_init;
mod amsend;
mod counters;
mod fence;
mod get;
mod memory;
mod msgpoll;
mod multicast;
mod owned;
mod purge;
mod put;
mod query;
mod rmw;
mod scope;
mod vector;

pub use accumulate::{Accumulation, Element};
pub use amsend::AmOptions;
pub use get::GetOptions;
pub use msgpoll::PollReason;
pub use multicast::Group;
pub use owned::{OwnedHandle, Returned};
pub use put::PutOptions;
pub use query::{PeerStatistics, Query};
pub use rmw::RmwHandle;
pub use scope::Scope;
