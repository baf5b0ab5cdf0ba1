//! What a context has done so far (LAPI's `lapi_statistics_t`): plain counts, kept off the message path where possible.

/// The counts of one context since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Messages that have ended here and were announced or deferred. Messages that arrive whole and are placed at once are not counted,
    /// to keep the fast path short.
    pub messages_received: u64,
    /// Bytes of user data that those have brought.
    pub bytes_received: u64,
    /// Operations of this task that took longer than their call and have ended.
    pub operations_ended: u64,
    /// Puts that this task has begun.
    pub puts: u64,
    /// Times that something found no credit, and was put off or waited.
    pub retries: u64,
    /// Pieces of data sent as packets.
    pub pieces_sent: u64,
    /// Pieces of data that came as packets.
    pub pieces_received: u64,
    /// Packets refused here because of what they said.
    pub packets_refused: u64,
    /// Errors that peers reported of this task's packets.
    pub refused_by_peers: u64,
}

impl Statistics {
    /// Adds to a count; it stays at the end of its range.
    pub fn add(count: &mut u64, more: u64) {
        *count = count.saturating_add(more);
    }
}
