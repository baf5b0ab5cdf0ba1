//! Statistics of a context (LAPI's `lapi_statistics_t`): plain counts, kept off the fast path of messages where possible.

/// The counts of one context since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Messages received that were announced or deferred. Messages that arrive whole and are placed at once are not counted, to keep the
    /// fast path short.
    pub messages_received: u64,
    /// Bytes of user data of those messages.
    pub bytes_received: u64,
    /// Operations of this task that were not complete when their call returned, and have ended.
    pub operations_ended: u64,
    /// Puts that this task has started.
    pub puts: u64,
    /// How often a packet or operation had no credit, and was queued or waited.
    pub retries: u64,
    /// Pieces of data sent as packets.
    pub pieces_sent: u64,
    /// Pieces of data received as packets.
    pub pieces_received: u64,
    /// Packets that this task refused: they were invalid or not allowed, or a handler panicked.
    pub packets_refused: u64,
    /// Errors that peers reported about this task's packets.
    pub refused_by_peers: u64,
}

impl Statistics {
    /// Adds to a count, which saturates.
    pub fn add(count: &mut u64, more: u64) {
        *count = count.saturating_add(more);
    }
}
