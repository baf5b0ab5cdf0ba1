//! What a task waits for, in MPI's terms, for hang reports.

use am_core::fabric::{UnderWay, WaitFacts};
use am_core::task::TaskId;

use crate::context_id::{self, Peers, Space};
use crate::matching::{Envelope, Pattern};
use crate::message::early_message::EarlyMessage;

/// Maximum number of receives that are listed; also that of sends, and that of early messages.
const TOLD_MAX: usize = 16;

/// Adds the receives that wait for their message, the sends that wait for an acknowledgement (`sends` yields the receivers), and the
/// messages that wait for a receive of the program.
pub(crate) fn add_facts<'a>(
    facts: &mut WaitFacts,
    peers: &Peers,
    posted: impl Iterator<Item = Pattern>,
    sends: impl Iterator<Item = TaskId>,
    early: impl Iterator<Item = (Envelope, &'a EarlyMessage)>,
) {
    // Messages of collectives and the like say nothing about a receive of the program.
    let early = early.filter(|(envelope, _)| Space::PointToPoint.has(envelope.context_id().0));
    let (mut posted, mut early) = (posted.fuse(), early.fuse());
    for pattern in posted.by_ref().take(TOLD_MAX) {
        let partner = pattern.source().map(|rank| peers.task_of(pattern.context_id(), rank));
        // If the communicator has ended, its ranks are gone, and the sender is unknown.
        facts.may_end_alone |= partner == Some(None);
        facts.operations.push(UnderWay {
            what: "receive".into(),
            partner: partner.flatten(),
            details: details(&pattern),
        });
    }
    facts.operations_left_out += u32::try_from(posted.count()).unwrap_or(u32::MAX);
    let mut sends = sends.fuse();
    facts.operations.extend(sends.by_ref().take(TOLD_MAX).map(|task| UnderWay {
        what: "synchronous send".into(),
        partner: Some(task),
        details: String::new(),
    }));
    facts.operations_left_out += u32::try_from(sends.count()).unwrap_or(u32::MAX);
    facts.first_early = early
        .by_ref()
        .take(TOLD_MAX)
        .map(|(envelope, message)| {
            let how = match message {
                EarlyMessage::Announced { .. } => ", still at its sender",
                EarlyMessage::NotReady { .. } => ", lost: it was sent in ready mode",
                _ => "",
            };
            let source = match peers.task_of(envelope.context_id(), envelope.source()) {
                Some(task) => task.to_string(),
                None => format!("rank {}", envelope.source()),
            };
            format!("from {source}, tag {}, {} bytes{how}", envelope.tag(), message.len())
        })
        .collect();
    let told = facts.first_early.len();
    facts.early_messages = u32::try_from(told + early.count()).unwrap_or(u32::MAX);
}

/// The tag of a receive, and the purpose of its message space.
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
