//! Internal agreements among the tasks of a communicator. All tasks use non-blocking collectives and a wait: tasks with one thread must
//! send the same messages as tasks with several threads.

use am_core::fabric::Fabric;

use super::table;
use crate::communicator::Communicator;
use crate::data::op;
use crate::error::Result;
use crate::policy::LockPolicy;

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Combines the words of all tasks by bitwise or.
    pub(crate) fn combine_words(&self, words: &mut [u64]) -> Result<()> {
        let own = words.to_vec();
        self.scope(|s| s.wait(table::allreduce(&own, words, op::BitwiseOr).start(s)?))?;
        Ok(())
    }

    /// Copies the words of rank `root` to all tasks.
    pub(crate) fn broadcast_words(&self, words: &mut [u64], root: u32) -> Result<()> {
        self.scope(|s| s.wait(table::broadcast(words, root).start(s)?))?;
        Ok(())
    }
}
