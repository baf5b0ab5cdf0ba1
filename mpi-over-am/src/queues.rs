//! The queues of a task as text, for whoever asks why a program does not go on (SIGUSR2; MPICH over Portals had the like).

use std::fmt::Write;

use am_core::Context;
use am_core::fabric::Fabric;
use am_core::handler::HandlerSet;
use am_core::task::{Endpoint, TaskId};

use crate::early_message::EarlyMessage;
use crate::matching::{Envelope, Pattern};

/// What a task has done so far, and how long its queues are now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Receives that wait for their message.
    pub posted_receives: u64,
    /// Messages that wait for their receive.
    pub early_messages: u64,
    /// Non-blocking operations that are not over.
    pub operations_under_way: u64,
    /// Messages that needed more than one packet, or a place first, and are whole.
    pub long_messages_received: u64,
    /// Bytes that those have brought.
    pub long_bytes_received: u64,
    /// Operations that took longer than their call and have ended.
    pub operations_ended: u64,
    /// Times that something found no room, and was put off.
    pub retries: u64,
    /// Pieces of data sent as packets.
    pub pieces_sent: u64,
    /// Pieces of data that came as packets.
    pub pieces_received: u64,
    /// Packets sent to each task of the job.
    pub packets_sent: Vec<u64>,
    /// Packets that came from each task of the job, and were handled.
    pub packets_received: Vec<u64>,
}

/// The counts of a task where so much waits.
pub(crate) fn counts<F: Fabric, H: HandlerSet>(context: &mut Context<F, H>, waiting: Counts) -> Counts {
    let own = context.endpoint();
    let traffic = (0..context.num_tasks())
        .map(|task| context.peer_statistics(Endpoint { task: TaskId(task), ..own }).unwrap_or_default());
    let (packets_sent, packets_received) =
        traffic.map(|of_peer| (of_peer.packets_sent, of_peer.packets_received)).unzip();
    let of_context = context.statistics();
    Counts {
        long_messages_received: of_context.messages_received,
        long_bytes_received: of_context.bytes_received,
        operations_ended: of_context.operations_ended,
        retries: of_context.retries,
        pieces_sent: of_context.pieces_sent,
        pieces_received: of_context.pieces_received,
        packets_sent,
        packets_received,
        ..waiting
    }
}

/// Lines of each queue, at most.
const LINES_MAX: usize = 50;

/// What waits in a task.
#[derive(Debug)]
pub(crate) struct Queues<P, E> {
    pub(crate) posted: usize,
    /// What they ask for, and the numbers of their requests.
    pub(crate) posted_receives: P,
    pub(crate) early_len: usize,
    pub(crate) early: E,
    /// Operations that are not over.
    pub(crate) under_way: usize,
}

impl<'a, P: Iterator<Item = (Pattern, u64)>, E: Iterator<Item = (&'a Envelope, &'a EarlyMessage)>>
    Queues<P, E>
{
    /// How much waits.
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            posted_receives: self.posted as u64,
            early_messages: self.early_len as u64,
            operations_under_way: self.under_way as u64,
            ..Counts::default()
        }
    }

    /// Posted receives, messages without a receive, operations under way, as text.
    pub(crate) fn show(self, task: TaskId) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = self.write(&mut text, task);
        text
    }

    fn write(self, text: &mut String, task: TaskId) -> std::fmt::Result {
        let Self { posted, posted_receives, early_len, early, under_way } = self;
        writeln!(
            text,
            "{task}: {} receives are posted, {} messages wait for a receive, {} operations are under way",
            posted, early_len, under_way
        )?;
        for (pattern, request) in posted_receives.take(LINES_MAX) {
            writeln!(text, "{task}:   posted: {pattern:?}, request {request:#x}")?;
        }
        for (envelope, message) in early.take(LINES_MAX) {
            let how = match message {
                EarlyMessage::Short { .. } | EarlyMessage::Kept { .. } => "here",
                EarlyMessage::Announced { .. } => "still at its sender",
                EarlyMessage::NotReady { .. } => "lost: it was sent in ready mode",
            };
            let (source, tag, len) = (envelope.source(), envelope.tag(), message.len());
            writeln!(
                text,
                "{task}:   early: from rank {source} with tag {tag} in context id {}, {len} bytes, {how}",
                envelope.context_id().0
            )?;
        }
        let left_out = posted.saturating_sub(LINES_MAX) + early_len.saturating_sub(LINES_MAX);
        if left_out > 0 {
            writeln!(text, "{task}:   and {left_out} more")?;
        }
        Ok(())
    }
}
