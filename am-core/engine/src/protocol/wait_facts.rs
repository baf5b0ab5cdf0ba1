//! Describes the operations under way, for the report of a job that hangs.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::Engine;
use super::outstanding::{Op, State};
use crate::fabric::{UnderWay, WaitFacts};
use crate::user_code::UserCode;

/// Maximum number of operations that are listed.
const TOLD_MAX: usize = 16;

impl Op {
    /// The kind of operation and its details; `None` for a group, whose parts are listed, and for an operation that has ended.
    fn told(&self) -> Option<(&'static str, String)> {
        let bytes = format!("{} bytes", self.len);
        Some(match &self.state {
            State::Queued(_) => ("message", format!("{bytes}, not sent: no credit is left for its target")),
            State::Announced { in_pieces: false, .. } => {
                ("message", format!("{bytes}, announced but not received"))
            }
            State::Announced { .. } => ("message", format!("{bytes}, under way in pieces")),
            State::Write { .. } => ("put", bytes),
            State::Read { .. } | State::Asked { .. } => ("get", bytes),
            State::Atomic { .. } => ("atomic operation", String::new()),
            State::Fence => ("fence", String::new()),
            State::Fetch { .. } => ("fetch of a message's data", bytes),
            State::Group { .. } | State::Ended(_) => return None,
        })
    }
}

impl<U: UserCode> Engine<U> {
    /// What this task waits for, as far as the engine knows.
    #[must_use]
    pub fn wait_facts(&self) -> WaitFacts {
        let told = |op: &Op| {
            let (what, details) = op.told()?;
            Some(UnderWay { what: what.into(), partner: Some(op.peer.endpoint.task), details })
        };
        let mut operations = self.ops.iter().filter_map(told);
        let first: Vec<UnderWay> = operations.by_ref().take(TOLD_MAX).collect();
        let left_out = u32::try_from(operations.count()).unwrap_or(u32::MAX);
        WaitFacts { operations: first, operations_left_out: left_out, ..WaitFacts::default() }
    }
}
