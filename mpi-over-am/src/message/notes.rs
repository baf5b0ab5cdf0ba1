//! Notes: two words from one task to another, kept until they are read. Communicators and windows use them to agree.
//!
//! A note is an active message without data. It needs no receive, and its sender does not wait for it. Notes with the same key are read in
//! the order in which they were sent.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

use am_core::task::TaskId;

/// The key of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// The context id of the communicator or window that the note is about.
    pub(crate) context_id: u32,
    /// The subject of the note.
    pub(crate) tag: i32,
    /// The sender of the note.
    pub(crate) from: u32,
}

/// The tag of notes about communicators of all members of a parent: such notes match in the order of the calls. The leader sends none if it
/// knows that a member has failed.
pub(crate) const BY_ALL: i32 = -1;

/// The context id of the notes by which tasks meet at the end of MPI. No communicator has this id, nor the next two.
pub(crate) const MEETING: u32 = u32::MAX - 1;
/// The context id of calls of a port. The tag is the number of the port, and the first word its secret.
pub(crate) const CALLS: u32 = u32::MAX - 2;
/// The context id of answers to calls of a port. The tag is the number of the port.
pub(crate) const ANSWERS: u32 = u32::MAX - 3;

/// Two words; the tag decides their meaning.
pub(crate) type Words = [u64; 2];

/// The slot of a note that a request waits for.
pub(crate) type Slot = Arc<OnceLock<Words>>;

/// Bytes of a note's header.
pub(crate) const BYTES: usize = 24;

#[derive(Debug)]
struct Queue<R> {
    arrived: VecDeque<Words>,
    waiting: VecDeque<(Slot, R)>,
}

impl<R> Default for Queue<R> {
    fn default() -> Self {
        Self { arrived: VecDeque::new(), waiting: VecDeque::new() }
    }
}

/// The notes that have arrived, and the requests `R` that wait for notes.
#[derive(Debug)]
pub(crate) struct Notes<R> {
    queues: HashMap<Key, Queue<R>>,
}

impl<R> Default for Notes<R> {
    fn default() -> Self {
        Self { queues: HashMap::new() }
    }
}

impl<R> Notes<R> {
    /// Stores a note; returns the request that waited for it, if any.
    pub(crate) fn arrived(&mut self, key: Key, words: Words) -> Option<R> {
        let queue = self.queues.entry(key).or_default();
        let Some((slot, request)) = queue.waiting.pop_front() else {
            queue.arrived.push_back(words);
            return None;
        };
        // A waiting slot is empty, so this cannot fail.
        let _ = slot.set(words);
        self.tidy(key);
        Some(request)
    }

    /// The next note with this key, if it has arrived.
    pub(crate) fn take(&mut self, key: Key) -> Option<Words> {
        let words = self.queues.get_mut(&key)?.arrived.pop_front();
        self.tidy(key);
        words
    }

    /// Stores the next note with this key in the slot. If the note has arrived, stores it now and returns true. Otherwise its arrival fills
    /// the slot and completes `request`.
    pub(crate) fn take_or_wait(&mut self, key: Key, slot: &Slot, request: R) -> bool {
        match self.take(key) {
            Some(words) => slot.set(words).is_ok(),
            None => {
                self.queues.entry(key).or_default().waiting.push_back((Arc::clone(slot), request));
                false
            }
        }
    }

    /// The keys of the notes that requests wait for.
    pub(crate) fn awaited_keys(&self) -> Vec<Key> {
        let awaited = self.queues.iter().filter(|(_, queue)| !queue.waiting.is_empty());
        awaited.map(|(key, _)| *key).collect()
    }

    /// Removes the requests that wait for notes with this key, which will not come.
    pub(crate) fn give_up(&mut self, key: Key) -> Vec<R> {
        let Some(queue) = self.queues.get_mut(&key) else { return Vec::new() };
        let given_up = queue.waiting.drain(..).map(|(_, request)| request).collect();
        self.tidy(key);
        given_up
    }

    /// Drops the calls of ports by a task that has ended: another task may get its number, and has not called.
    pub(crate) fn forget_calls_of(&mut self, task: TaskId) {
        for (_, queue) in self.queues.iter_mut().filter(|(key, _)| key.context_id == CALLS) {
            queue.arrived.retain(|&[_, caller]| caller != u64::from(task.0));
        }
        self.queues.retain(|_, queue| !queue.arrived.is_empty() || !queue.waiting.is_empty());
    }

    fn tidy(&mut self, key: Key) {
        if self.queues.get(&key).is_some_and(|queue| queue.arrived.is_empty() && queue.waiting.is_empty()) {
            self.queues.remove(&key);
        }
    }
}

/// The key and the words of a note, from its header.
pub(crate) fn of_bytes(from: TaskId, uhdr: &[u8; BYTES]) -> (Key, Words) {
    let word = |at: usize| {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&uhdr[at..at + 4]);
        u32::from_le_bytes(bytes)
    };
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    (Key { context_id: word(0), tag: word(4).cast_signed(), from: from.0 }, [long(8), long(16)])
}

/// The header of a note.
pub(crate) fn to_bytes(context_id: u32, tag: i32, words: Words) -> [u8; BYTES] {
    let mut uhdr = [0; BYTES];
    uhdr[0..4].copy_from_slice(&context_id.to_le_bytes());
    uhdr[4..8].copy_from_slice(&tag.to_le_bytes());
    uhdr[8..16].copy_from_slice(&words[0].to_le_bytes());
    uhdr[16..24].copy_from_slice(&words[1].to_le_bytes());
    uhdr
}
