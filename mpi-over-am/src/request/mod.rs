//! Requests: operations that are under way.

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
mod phase;
mod schedule;
mod scope;
mod several;
mod slab;

use crate::request_id as id;
pub use crate::request_id::{RequestFacts, RequestId};
pub(crate) use data::{from_nobody, to_nobody};
pub(crate) use future::Wakers;
pub use kept::Persistent;
pub(crate) use matched::MatchedMessages;
pub use matched::MessageId;
pub use owned::{OwnedRequest, Returned};
pub use parted::{ArrivedPart, OwnPart, PartitionedReceive, PartitionedSend};
pub(crate) use partitioned::{Partitioned, abandon, drive};
pub(crate) use persistent::Recipe;
pub(crate) use phase::Phase;
pub(crate) use schedule::{
    AtOperator, Schedule, Schedules, Step, abandon_schedule, check_len, drive_schedules, start_schedule,
};
pub use scope::{Request, Scope, Tested};
pub use several::{AnyOver, WaitList};
pub(crate) use slab::Requests;
