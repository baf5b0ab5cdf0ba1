//! Waiting: what a task waits for, for the report about a job that hangs, and how another thread ends a wait.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::task::TaskId;

/// Wakes the owner of a fabric or device, from any thread.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// What a task waits for, for the report about a job that hangs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitFacts {
    /// The operations under way in the context that waits.
    pub operations: Vec<UnderWay>,
    /// Number of further operations, which are not listed.
    pub operations_left_out: u32,
    /// Number of messages that have arrived and that the program has not received.
    pub early_messages: u32,
    /// Descriptions of the first of these messages.
    pub first_early: Vec<String>,
    /// Whether something other than a message may end the wait: a time limit, or another thread of the task.
    pub may_end_alone: bool,
    /// Whether other threads of the task may make calls. Then the job finds out whether one of them may end the wait, and notes the answer
    /// in [`may_end_alone`](Self::may_end_alone).
    #[serde(skip)]
    pub has_threads: bool,
    /// The tasks without whose messages the operations cannot end. If one of them is known to have closed its context of the same number,
    /// a poll reports that, even without a connection.
    #[serde(skip)]
    pub needed: Vec<TaskId>,
}

/// An operation under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnderWay {
    /// For example "receive", "message" or "get".
    pub what: Cow<'static, str>,
    /// The task at the other end; `None`: any.
    pub partner: Option<TaskId>,
    /// Further details, such as "tag 7, 800 bytes"; may be empty.
    pub details: String,
}

impl fmt::Display for UnderWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // This wait has a condition, and no peer that alone can fulfil it.
        if self.partner.is_none() && self.details.starts_with("until ") {
            return write!(f, "{} {}", self.what, self.details);
        }
        let direction = match &self.what {
            what if what.contains("receive") => "from",
            what if what.contains("lock") => "of",
            _ => "to",
        };
        match self.partner {
            Some(partner) => write!(f, "{} {direction} {partner}", self.what)?,
            None => write!(f, "{} {direction} any task", self.what)?,
        }
        if !self.details.is_empty() {
            write!(f, ", {}", self.details)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_says_which_way_it_goes() {
        let receive = UnderWay { what: "receive".into(), partner: None, details: "any tag".into() };
        assert_eq!(alloc::format!("{receive}"), "receive from any task, any tag");
        let send = UnderWay { what: "send".into(), partner: Some(TaskId(0)), details: String::new() };
        assert_eq!(alloc::format!("{send}"), "send to task 0");
        let until = UnderWay { what: "wait".into(), partner: None, details: "until it is 1".into() };
        assert_eq!(alloc::format!("{until}"), "wait until it is 1");
    }
}
