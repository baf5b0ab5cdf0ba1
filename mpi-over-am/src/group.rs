//! Groups: which task a rank is.

use am_core::task::TaskId;

/// An ordered set of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// All tasks of the job, in their order.
    World,
}

impl Group {
    /// The task with this rank. The rank exists.
    #[inline(always)]
    pub(crate) fn task_of(self, rank: u32) -> TaskId {
        match self {
            Self::World => TaskId(rank),
        }
    }
}
