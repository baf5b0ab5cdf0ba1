//! The communication modes onto the protocols (seed paper, table 2 and figures 5 to 9).
//!
//! | mode | up to the eager limit | beyond |
//! | --- | --- | --- |
//! | standard, buffered | eager, while the budget of early arrivals lasts | rendezvous |
//! | ready | eager | announced, but fetched at once: the receive is there |
//! | synchronous | rendezvous | rendezvous |

mod eager;
mod receive;
mod selection;

pub(crate) use eager::send_eager;
pub(crate) use receive::{Receive, receive};
pub use selection::Mode;

use am_core::task::TaskId;

use crate::matching::Envelope;

/// Where a message goes, and what it says about itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub(crate) task: TaskId,
    /// The receiver's rank.
    pub(crate) destination: u32,
    pub(crate) envelope: Envelope,
}
