//! One task's part of a distributed table of words: exposed memory in which counts arrive without an intermediate copy.
//!
//! A slot holds a word and, for each task, how often that task has seen the word so far. A task that has seen more sends its new total,
//! which replaces its old one: so the layer below can store a message directly, without an addition. Slots are allocated one after the
//! other, so that one get can read the used part. An index that only the owner sees maps each word to its slot.
//!
//! ```text
//! slot: | length 1 | word 63 | count of task 0, 8 bytes | count of task 1 | ...
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use am_core::Context;
use am_core::buffer::{Access, Exposed, ExposedRange, RemoteAddress};
use am_core::error::Result;
use am_core::fabric::Fabric;
use am_core::handler::HandlerSet;
use am_core::task::TaskId;

use crate::text::WORD_BYTES_MAX;

/// Bytes of a slot before its counts.
const WORD_FIELD_BYTES: usize = 1 + WORD_BYTES_MAX;
const COUNT_BYTES: usize = 8;

/// The layout of a table for a given number of tasks.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    num_tasks: u32,
}

/// A word of a table, and how often it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The word.
    pub word: String,
    /// The word's count over all tasks.
    pub count: u64,
}

impl Layout {
    /// The layout for a job of `num_tasks` tasks.
    #[must_use]
    pub fn new(num_tasks: u32) -> Self {
        Self { num_tasks }
    }

    /// Bytes of a slot.
    #[must_use]
    pub fn slot_bytes(self) -> usize {
        WORD_FIELD_BYTES + COUNT_BYTES * self.num_tasks as usize
    }

    /// Where a slot begins, in bytes from the table's start.
    #[must_use]
    pub fn slot_offset(self, slot: u64) -> u64 {
        slot * self.slot_bytes() as u64
    }

    fn count_offset(self, slot: u64, source: TaskId) -> u64 {
        self.slot_offset(slot) + (WORD_FIELD_BYTES + COUNT_BYTES * source.index()) as u64
    }

    /// The entries of slots that were read from a table; the count of a word is the sum of all tasks' counts.
    pub fn entries(self, slots: &[u8]) -> impl Iterator<Item = Entry> {
        slots.chunks_exact(self.slot_bytes()).map(|slot| {
            let (field, counts) = slot.split_at(WORD_FIELD_BYTES);
            let len = usize::from(field[0]).min(WORD_BYTES_MAX);
            let word = String::from_utf8_lossy(&field[1..=len]).into_owned();
            let (counts, _) = counts.as_chunks::<COUNT_BYTES>();
            Entry { word, count: counts.iter().map(|count| u64::from_le_bytes(*count)).sum() }
        })
    }
}

/// The task that owns a word.
#[must_use]
pub fn owner(word: &[u8], num_tasks: u32) -> TaskId {
    let tasks = u64::from(num_tasks.max(1));
    // Uses the low half of the hash. The index uses the high half: with the low half, the words of one owner would fill the index unevenly.
    TaskId(u32::try_from((hash(word) & u64::from(u32::MAX)) % tasks).unwrap_or(0))
}

/// FNV-1a, then a multiplication to spread the last bytes over the whole word.
fn hash(word: &[u8]) -> u64 {
    let hash = word.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The exposed memory of one task's part. It stays exposed until the context ends.
#[derive(Debug)]
pub struct WordTable {
    layout: Layout,
    memory: Exposed,
    slots_max: u64,
    used: AtomicU64,
}

impl WordTable {
    /// A table for at most `words_max` different words. Unused memory costs nothing: its pages are never touched.
    ///
    /// # Errors
    /// The job's memory does not suffice.
    pub fn new<F: Fabric, H: HandlerSet>(context: &mut Context<F, H>, words_max: u64) -> Result<Self> {
        let layout = Layout::new(context.num_tasks());
        let slots_max = words_max.max(1);
        let bytes = slots_max.saturating_mul(layout.slot_bytes() as u64);
        let memory = context.alloc(usize::try_from(bytes).unwrap_or(usize::MAX))?;
        let memory = context.expose(memory, Access::READ)?;
        Ok(Self { layout, memory, slots_max, used: AtomicU64::new(0) })
    }

    /// The address of the slots, for other tasks.
    #[must_use]
    pub fn address(&self) -> RemoteAddress {
        self.memory.address(0)
    }

    /// Slots in use: the different words so far.
    #[must_use]
    pub fn used(&self) -> u64 {
        // Relaxed: only handlers change the value, and they run in the calling thread.
        self.used.load(Ordering::Relaxed)
    }
}

/// Finds the slot of a word, or allocates the next one, for the header handler.
#[derive(Debug)]
pub struct Claims {
    table: Arc<WordTable>,
    /// Open addressing: slot number + 1, or 0. At most half full; its length is a power of two.
    index: Vec<u32>,
}

const INDEX_LEN_FIRST: usize = 1024;

impl Claims {
    /// The index of an empty table.
    #[must_use]
    pub fn new(table: Arc<WordTable>) -> Self {
        Self { table, index: vec![0; INDEX_LEN_FIRST] }
    }

    /// The destination of the count that `source` has for `word`. `None` for an invalid word, an invalid task, or a full table: messages of
    /// other tasks are not trusted.
    pub fn place(&mut self, word: &[u8], source: TaskId) -> Option<ExposedRange> {
        if word.is_empty() || word.len() > WORD_BYTES_MAX || source.0 >= self.table.layout.num_tasks {
            return None;
        }
        let slot = self.find_or_claim(word)?;
        let offset = self.table.layout.count_offset(slot, source);
        self.table.memory.range(offset, COUNT_BYTES as u64).ok()
    }

    fn find_or_claim(&mut self, word: &[u8]) -> Option<u64> {
        let at = self.probe(word)?;
        if self.index[at] != 0 {
            return Some(u64::from(self.index[at] - 1));
        }
        let slot = self.table.used();
        if slot >= self.table.slots_max {
            return None;
        }
        let number = u32::try_from(slot + 1).ok()?;
        let mut field = [0; WORD_FIELD_BYTES];
        field[0] = u8::try_from(word.len()).ok()?;
        field[1..=word.len()].copy_from_slice(word);
        self.table.memory.write(self.table.layout.slot_offset(slot), &field).ok()?;
        self.table.used.store(slot + 1, Ordering::Relaxed);
        self.index[at] = number;
        if (slot + 1) * 2 > self.index.len() as u64 {
            self.grow()?;
        }
        Some(slot)
    }

    /// The position of the word's entry in `index`, or of the free entry that the word would get. `None` if a slot cannot be read.
    fn probe(&self, word: &[u8]) -> Option<usize> {
        let mask = self.index.len() - 1;
        let high = usize::try_from(hash(word) >> 32).expect("32 bits fit into a usize");
        let mut at = high & mask;
        loop {
            match self.index[at] {
                0 => return Some(at),
                number if self.word(u64::from(number - 1))?.is(word) => return Some(at),
                _ => at = (at + 1) & mask,
            }
        }
    }

    fn grow(&mut self) -> Option<()> {
        self.index = vec![0; self.index.len() * 2];
        for slot in 0..self.table.used() {
            let word = self.word(slot)?;
            let at = self.probe(word.bytes())?;
            self.index[at] = u32::try_from(slot + 1).ok()?;
        }
        Some(())
    }

    fn word(&self, slot: u64) -> Option<WordField> {
        let mut field = WordField([0; WORD_FIELD_BYTES]);
        self.table.memory.read(self.table.layout.slot_offset(slot), &mut field.0).ok()?;
        Some(field)
    }
}

/// A copy of the word of a slot.
struct WordField([u8; WORD_FIELD_BYTES]);

impl WordField {
    fn bytes(&self) -> &[u8] {
        &self.0[1..=usize::from(self.0[0]).min(WORD_BYTES_MAX)]
    }

    fn is(&self, word: &[u8]) -> bool {
        self.bytes() == word
    }
}

#[cfg(test)]
mod tests {
    use am_via::Task;

    use super::*;

    #[test]
    fn a_word_keeps_its_slot_while_the_index_grows() {
        // The test of `graph500` may have context 0 open in this process at the same time.
        let mut context = Context::new(Task::join().unwrap().fabric(1).unwrap());
        let words: Vec<String> = (0..3000).map(|number| format!("word{number}")).collect();
        let table = Arc::new(WordTable::new(&mut context, words.len() as u64).unwrap());
        let mut claims = Claims::new(Arc::clone(&table));
        for (word, slot) in words.iter().zip(0..) {
            let range = claims.place(word.as_bytes(), TaskId(0)).unwrap();
            assert_eq!(range.offset, table.layout.count_offset(slot, TaskId(0)));
            table.memory.write(range.offset, &(slot + 1).to_le_bytes()).unwrap();
        }
        assert_eq!(table.used(), 3000);
        for (word, slot) in words.iter().zip(0..) {
            let range = claims.place(word.as_bytes(), TaskId(0)).unwrap();
            assert_eq!(range.offset, table.layout.count_offset(slot, TaskId(0)), "{word}");
        }
        assert_eq!(claims.place(b"one more", TaskId(0)), None, "the table is full");
        assert_eq!(claims.place(b"word1", TaskId(1)), None, "there is no task 1");
        assert_eq!(claims.place(b"", TaskId(0)), None);
        assert_eq!(claims.place(&[b'x'; WORD_BYTES_MAX + 1], TaskId(0)), None);

        let mut slots = vec![0; table.layout.slot_bytes() * 3000];
        context.get(table.address(), &mut slots, am_core::GetOptions::default()).unwrap();
        for ((entry, word), number) in table.layout.entries(&slots).zip(words).zip(1..) {
            assert_eq!(entry, Entry { word, count: number });
        }
    }

    #[test]
    fn every_task_owns_words() {
        let mut owned = [0; 7];
        for number in 0..7000 {
            owned[owner(format!("w{number}").as_bytes(), 7).index()] += 1;
        }
        assert!(owned.iter().all(|count| *count > 700), "{owned:?}");
    }
}
