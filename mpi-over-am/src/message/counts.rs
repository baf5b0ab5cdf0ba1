//! Counts of a task's activity.

use am_core::Context;
use am_core::fabric::Fabric;
use am_core::task::{Endpoint, TaskId};

use crate::message::handlers::MpiHandlers;

/// Counts of a task's activity so far, and the present lengths of its queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Receives that wait for their message.
    pub posted_receives: u64,
    /// Messages that wait for their receive.
    pub early_messages: u64,
    /// Non-blocking operations that are not complete.
    pub operations_under_way: u64,
    /// Announced messages received, and other messages that waited for a destination.
    pub long_messages_received: u64,
    /// Bytes of those messages.
    pub long_bytes_received: u64,
    /// Operations that were not complete when their call returned, and have ended.
    pub operations_ended: u64,
    /// Number of times that a packet or operation had no credit, and was queued.
    pub retries: u64,
    /// Pieces of data sent as packets.
    pub pieces_sent: u64,
    /// Pieces of data received as packets.
    pub pieces_received: u64,
    /// Packets sent to each task of the job.
    pub packets_sent: Vec<u64>,
    /// Packets received from each task of the job.
    pub packets_received: Vec<u64>,
}

/// The counts of a task.
pub(crate) fn counts<F: Fabric>(context: &mut Context<F, MpiHandlers>) -> Counts {
    let own = context.endpoint();
    let traffic = (0..context.tasks_end())
        .map(|task| context.peer_statistics(Endpoint { task: TaskId(task), ..own }).unwrap_or_default());
    let (packets_sent, packets_received) =
        traffic.map(|of_peer| (of_peer.packets_sent, of_peer.packets_received)).unzip();
    let of_context = context.statistics();
    let handlers = context.handlers();
    Counts {
        posted_receives: handlers.requests.posted() as u64,
        early_messages: handlers.early.len() as u64,
        operations_under_way: handlers.requests.unfinished().len() as u64,
        long_messages_received: of_context.messages_received,
        long_bytes_received: of_context.bytes_received,
        operations_ended: of_context.operations_ended,
        retries: of_context.retries,
        pieces_sent: of_context.pieces_sent,
        pieces_received: of_context.pieces_received,
        packets_sent,
        packets_received,
    }
}
