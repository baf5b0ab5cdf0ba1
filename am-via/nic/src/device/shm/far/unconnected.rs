//! Messages of peers to which there is no connection yet. They are kept until there is one.

use std::collections::HashMap;

use crate::device::Endpoint;

/// The messages, by their senders.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    waiting: HashMap<Endpoint, Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Each message with its word.
    messages: Vec<(u32, Vec<u8>)>,
    /// Whether the sender has sent more messages than are kept.
    has_overrun: bool,
}

impl Strangers {
    /// Keeps a message, if fewer than `max` messages of this sender are kept: a correct sender respects its credits even before there is a
    /// connection here.
    pub(super) fn keep(&mut self, from: Endpoint, word: u32, bytes: &[u8], max: usize) {
        let waiting = self.waiting.entry(from).or_default();
        if waiting.messages.len() < max {
            waiting.messages.push((word, bytes.to_vec()));
        } else if !std::mem::replace(&mut waiting.has_overrun, true) {
            tracing::warn!(
                ?from,
                max,
                "a peer of another host has sent more messages than its credits allow; the further ones are dropped"
            );
        }
    }

    /// Takes the messages of a peer to which there is now a connection.
    pub(super) fn take(&mut self, from: Endpoint) -> Vec<(u32, Vec<u8>)> {
        self.waiting.remove(&from).map(|waiting| waiting.messages).unwrap_or_default()
    }

    pub(super) fn senders(&self) -> Vec<Endpoint> {
        self.waiting.keys().copied().collect()
    }
}
