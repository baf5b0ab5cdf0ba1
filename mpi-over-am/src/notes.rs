//! Notes: two words from one task to another, kept until somebody asks for them. Communicators and windows agree by them.
//!
//! A note is an active message without data, so it never waits for a receive and is never waited for by its sender. Notes with
//! one key are taken in the order in which they were sent.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

use am_core::AmOptions;
use am_core::fabric::Fabric;
use am_core::task::TaskId;

use crate::error::Result;
use crate::handlers;
use crate::request::RequestId;
use crate::state::State;

/// What a note is kept under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// The context id of the communicator or window that it is about.
    pub(crate) context_id: u32,
    /// What it is about.
    pub(crate) tag: i32,
    /// Who sent it.
    pub(crate) from: u32,
}

/// Two words; what they mean is the tag's.
pub(crate) type Words = [u64; 2];

/// A place for a note that somebody waits for.
pub(crate) type Slot = Arc<OnceLock<Words>>;

/// Bytes of a note's header.
pub(crate) const BYTES: usize = 24;

#[derive(Debug, Default)]
struct Queue {
    arrived: VecDeque<Words>,
    waiting: VecDeque<(Slot, RequestId)>,
}

/// The notes that have come, and those that are waited for.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    queues: HashMap<Key, Queue>,
}

impl Notes {
    /// A note has come: the request that waited for it, if one did.
    pub(crate) fn arrived(&mut self, from: TaskId, uhdr: &[u8; BYTES]) -> Option<RequestId> {
        let word = |at: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&uhdr[at..at + 4]);
            u32::from_le_bytes(bytes)
        };
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let key = Key { context_id: word(0), tag: word(4).cast_signed(), from: from.0 };
        let words = [long(8), long(16)];
        let queue = self.queues.entry(key).or_default();
        let Some((slot, request)) = queue.waiting.pop_front() else {
            queue.arrived.push_back(words);
            return None;
        };
        // It is filled once.
        let _ = slot.set(words);
        self.tidy(key);
        Some(request)
    }

    /// The next note with this key, if it is here.
    pub(crate) fn take(&mut self, key: Key) -> Option<Words> {
        let words = self.queues.get_mut(&key)?.arrived.pop_front();
        self.tidy(key);
        words
    }

    /// `request` waits for the next note with this key, which is not here.
    fn wait(&mut self, key: Key, slot: Slot, request: RequestId) {
        self.queues.entry(key).or_default().waiting.push_back((slot, request));
    }

    fn tidy(&mut self, key: Key) {
        if self.queues.get(&key).is_some_and(|queue| queue.arrived.is_empty() && queue.waiting.is_empty()) {
            self.queues.remove(&key);
        }
    }
}

/// Sends a note.
///
/// # Errors
/// A dead task.
pub(crate) fn send<F: Fabric>(
    state: &mut State<F>,
    to: TaskId,
    (context_id, tag): (u32, i32),
    words: Words,
) -> Result<()> {
    let mut uhdr = [0; BYTES];
    uhdr[0..4].copy_from_slice(&context_id.to_le_bytes());
    uhdr[4..8].copy_from_slice(&tag.to_le_bytes());
    uhdr[8..16].copy_from_slice(&words[0].to_le_bytes());
    uhdr[16..24].copy_from_slice(&words[1].to_le_bytes());
    Ok(state.context.amsend(to, handlers::NOTE, &uhdr, &[], AmOptions::default())?)
}

/// A request that is over when the next note with this key is in the slot.
pub(crate) fn start_receive<F: Fabric>(state: &mut State<F>, key: Key) -> (RequestId, Slot) {
    let handlers = state.handlers();
    let request = handlers.requests.insert(true, 0);
    let slot = Slot::default();
    match handlers.notes.take(key) {
        Some(words) => {
            // It is filled once.
            let _ = slot.set(words);
            handlers.requests.end(request, None);
        }
        None => handlers.notes.wait(key, Arc::clone(&slot), request),
    }
    (request, slot)
}
