//! What a task waits for, in MPI's words, for whoever asks why a job does not go on.

use std::collections::HashMap;

use am_core::fabric::{UnderWay, WaitFacts};
use am_core::task::TaskId;

use crate::communicator::Space;
use crate::context_id;
use crate::early_message::EarlyMessage;
use crate::group::Group;
use crate::handlers::MpiHandlers;
use crate::matching::{ContextId, Pattern};

/// Receives and early messages that are told one by one.
const TOLD_MAX: usize = 16;

/// The tasks behind the ranks of the communicators that there are, by context id.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    groups: HashMap<u32, Group>,
}

impl Peers {
    /// A communicator begins: messages on it come from, and go to, the ranks of this group.
    pub(crate) fn begin(&mut self, context_id: u32, group: Group) {
        self.groups.insert(context_id, group);
    }

    /// It has ended.
    pub(crate) fn end(&mut self, context_id: u32) {
        self.groups.remove(&context_id);
    }

    fn task_of(&self, context_id: ContextId, rank: u32) -> Option<TaskId> {
        self.groups.get(&(context_id.0 - context_id.0 % context_id::SPACES))?.task_of(rank)
    }
}

/// The receives that wait for their message, and the messages that wait for a receive.
pub(crate) fn facts(handlers: &MpiHandlers, facts: &mut WaitFacts) {
    facts.may_end_alone |= handlers.has_threads;
    let posted = handlers.requests.posted();
    for (pattern, _) in handlers.requests.posted_receives().take(TOLD_MAX) {
        let partner = pattern.source().map(|rank| handlers.peers.task_of(pattern.context_id(), rank));
        // A communicator that is gone has no ranks any more: nothing is known of who sends.
        facts.may_end_alone |= partner == Some(None);
        facts.operations.push(UnderWay {
            what: "receive",
            partner: partner.flatten(),
            details: details(&pattern),
        });
    }
    facts.operations_left_out += u32::try_from(posted.saturating_sub(TOLD_MAX)).unwrap_or(u32::MAX);
    let early = || handlers.early.iter();
    facts.early_messages = u32::try_from(early().count()).unwrap_or(u32::MAX);
    facts.first_early = early()
        .take(TOLD_MAX)
        .map(|(_, envelope, message)| {
            let how = match message {
                EarlyMessage::Announced { .. } => ", still at its sender",
                EarlyMessage::NotReady { .. } => ", lost: it was sent in ready mode",
                _ => "",
            };
            let source = match handlers.peers.task_of(envelope.context_id(), envelope.source()) {
                Some(task) => task.to_string(),
                None => format!("rank {}", envelope.source()),
            };
            format!("from {source}, tag {}, {} bytes{how}", envelope.tag(), message.len())
        })
        .collect();
}

/// The tag and the part of the communicator that a receive asks for.
fn details(pattern: &Pattern) -> String {
    let id = pattern.context_id().0;
    let space = id % context_id::SPACES;
    let of = match space {
        _ if space == Space::Collective as u32 => return "for a collective".to_owned(),
        _ if space == Space::Partitioned as u32 => return "for a partitioned receive".to_owned(),
        _ if space == Space::Management as u32 => return "to make a communicator or a window".to_owned(),
        _ if id == context_id::WORLD => String::new(),
        _ => format!(", communicator {id:#x}"),
    };
    match pattern.tag() {
        Some(tag) => format!("tag {tag}{of}"),
        None => format!("any tag{of}"),
    }
}
