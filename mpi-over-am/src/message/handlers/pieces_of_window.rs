//! Puts and accumulates of many short pieces in a window's memory, which the owner of the memory carries out
//! (`window/pieces_by_owner.rs` is the origin's side).
//!
//! ```text
//! user header: name of the window | rank of the origin | number of the message
//! data:        operation (4 bytes) | number of runs (4) | runs: offset, length of a piece, stride, number of pieces | bytes of all pieces
//! ```
//!
//! The origin may withdraw messages that have not been handled. So each origin has two words in the owner's control memory. The first is
//! the number of the origin's last message that is done, with [`IS_BUSY`] while the owner stores the next one. The owner begins with a
//! message, and the origin withdraws messages, by a change of this word from the number before: only one of them succeeds. The second word
//! is the number of the last message that the owner has handled, withdrawn or not. Origins that accumulate hold the lock of the window's
//! part meanwhile. If an origin dies with the lock, the task that takes the lock over first makes the first word [`REFUSED`].

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use am_core::buffer::{Arrived, Exposed, Word};
use am_core::handler::{Answer, Message};
use am_core::task::TaskId;

use super::MpiHandlers;
use crate::data::op::PredefinedOp;
use crate::group::Group;
use mpi_datatype::Predefined;
use mpi_datatype::op::{Combine, combine_of};

/// Bytes of the words of one origin.
pub(crate) const WORDS_BYTES: usize = 16;
/// Offset of the word with the last message that the owner has handled.
pub(crate) const HANDLED: usize = 8;
/// Bytes of a message before its runs.
pub(crate) const HEAD_BYTES: usize = 8;

/// In the first word: the owner stores the pieces of the next message.
pub(crate) const IS_BUSY: u64 = 1;
/// A first word with which the owner carries out no message any more: no message follows this one.
pub(crate) const REFUSED: u64 = !IS_BUSY;

/// The first word of an origin whose last done message is `number`.
fn done(number: u64) -> u64 {
    number << 1
}

/// What an origin finds in its first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// All messages up to this one are done, and the owner has begun no other.
    Done(u64),
    /// The owner stores the pieces of a message.
    Busy,
}

pub(crate) fn find(word: &AtomicU64) -> Found {
    // Acquire: pairs with the Release in `handle`. The pieces are stored.
    let found = word.load(Ordering::Acquire);
    if found & IS_BUSY == 0 { Found::Done(found >> 1) } else { Found::Busy }
}

/// Withdraws the messages after `last` up to `sent`; returns whether none of them was done, or begun, meanwhile.
pub(crate) fn withdraw(word: &AtomicU64, last: u64, sent: u64) -> bool {
    word.compare_exchange(done(last), done(sent), Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Pieces of equal length at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) stride: u64,
    pub(crate) count: u64,
}

/// What the owner does with the bytes of a message: it stores them, or combines the elements with them.
pub(crate) type Operation = Option<(PredefinedOp, Predefined)>;

/// The first bytes of the data.
pub(crate) fn head(operation: Operation, runs: usize) -> [u8; HEAD_BYTES] {
    let position = |(op, basic)| {
        let op = PredefinedOp::ALL.iter().position(|&known| known == op)?;
        Some((op + 1) << 16 | Predefined::ALL.iter().position(|&known| known == basic)?)
    };
    let operation = operation.and_then(position).unwrap_or(0);
    bytemuck::cast([operation, runs].map(|number| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes()))
}

/// The function and element size of the operation, and the number of runs; `None` if there is no such operation.
fn parse_head(bytes: [u8; HEAD_BYTES]) -> Option<(Option<(Combine, usize)>, usize)> {
    let [operation, runs] = bytemuck::cast::<_, [[u8; 4]; 2]>(bytes).map(u32::from_le_bytes);
    let runs = usize::try_from(runs).ok()?;
    let Some(op) = (operation as usize >> 16).checked_sub(1) else { return Some((None, runs)) };
    let (op, basic) = (*PredefinedOp::ALL.get(op)?, *Predefined::ALL.get(operation as usize & 0xffff)?);
    Some((Some((combine_of(op, basic)?, usize::try_from(basic.size()).ok()?)), runs))
}

impl Run {
    pub(crate) const BYTES: usize = 32;

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        bytemuck::cast([self.offset, self.len, self.stride, self.count].map(u64::to_le_bytes))
    }

    fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let [offset, len, stride, count] = bytemuck::cast::<_, [[u8; 8]; 4]>(bytes).map(u64::from_le_bytes);
        Self { offset, len, stride, count }
    }

    /// The offsets of the pieces.
    fn offsets(self) -> impl Iterator<Item = u64> {
        (0..self.count).map(move |piece| self.offset.wrapping_add(self.stride.wrapping_mul(piece)))
    }

    /// The pieces as words of a memory, if each is an aligned word.
    fn words<W: Word>(self, memory: &Exposed) -> Option<impl Iterator<Item = &W>> {
        let count = usize::try_from(self.count).ok()?;
        if self.len != size_of::<W>() as u64 {
            return None;
        }
        memory.words(self.offset, self.stride.cast_signed(), count).ok()
    }

    /// Copies the pieces into `to`, which has their total length; `None` if one lies outside the memory.
    fn read(self, memory: &Exposed, to: &mut [u8]) -> Option<()> {
        if let Some(words) = self.words::<AtomicU32>(memory) {
            to.as_chunks_mut()
                .0
                .iter_mut()
                .zip(words)
                .for_each(|(to, word)| *to = word.load(Ordering::Relaxed).to_ne_bytes());
        } else if let Some(words) = self.words::<AtomicU64>(memory) {
            to.as_chunks_mut()
                .0
                .iter_mut()
                .zip(words)
                .for_each(|(to, word)| *to = word.load(Ordering::Relaxed).to_ne_bytes());
        } else {
            let len = usize::try_from(self.len).ok()?;
            for (piece, at) in to.chunks_exact_mut(len).zip(self.offsets()) {
                memory.read(at, piece).ok()?;
            }
        }
        Some(())
    }

    /// Copies the pieces from `from`, which has their total length; `None` if one lies outside the memory: those before it are copied.
    fn write(self, memory: &Exposed, from: &[u8]) -> Option<()> {
        if let Some(words) = self.words::<AtomicU32>(memory) {
            from.as_chunks()
                .0
                .iter()
                .zip(words)
                .for_each(|(&from, word)| word.store(u32::from_ne_bytes(from), Ordering::Relaxed));
        } else if let Some(words) = self.words::<AtomicU64>(memory) {
            from.as_chunks()
                .0
                .iter()
                .zip(words)
                .for_each(|(&from, word)| word.store(u64::from_ne_bytes(from), Ordering::Relaxed));
        } else {
            let len = usize::try_from(self.len).ok()?;
            for (piece, at) in from.chunks_exact(len).zip(self.offsets()) {
                memory.write(at, piece).ok()?;
            }
        }
        Some(())
    }
}

/// The user header of a message: the name of the window at its owner, the rank of the origin, and the number of the message.
pub(crate) fn header(window: u64, rank: u32, number: u64) -> [u8; 24] {
    bytemuck::cast([window, u64::from(rank), number].map(u64::to_le_bytes))
}

/// The windows of this task whose pieces other tasks may let it store.
#[derive(Debug, Default)]
pub(crate) struct PiecesOfWindows {
    windows: HashMap<u64, PartByOwner>,
    /// The data of the present message.
    data: Vec<u8>,
    /// Elements of the window that are combined with it.
    elements: Vec<u8>,
}

/// This task's part of a window.
#[derive(Debug)]
pub(crate) struct PartByOwner {
    pub(crate) memory: Arc<Exposed>,
    pub(crate) control: Arc<Exposed>,
    /// Offset in the control memory of the words of the first origin.
    pub(crate) words: u64,
    pub(crate) origins: Group,
}

impl PiecesOfWindows {
    /// Adds a window with a name that no other one has or had.
    pub(crate) fn begin(&mut self, window: u64, part: PartByOwner) {
        self.windows.insert(window, part);
    }

    pub(crate) fn end(&mut self, window: u64) {
        self.windows.remove(&window);
    }

    /// Handles a message of `source`; `None` if it is malformed.
    fn handle(&mut self, source: TaskId, uhdr: &[u8], here: Arrived<'_>) -> Option<()> {
        let [window, rank, number] =
            bytemuck::cast::<_, [[u8; 8]; 3]>(<[u8; 24]>::try_from(uhdr).ok()?).map(u64::from_le_bytes);
        // A message that was withdrawn may come after the end of its window.
        let Some(part) = self.windows.get(&window) else { return Some(()) };
        let origin = u32::try_from(rank).ok().and_then(|rank| part.origins.task_of(rank))?;
        if origin != source {
            return None;
        }
        let words = part.words + rank * WORDS_BYTES as u64;
        let word = part.control.atomic_u64(words).ok()?;
        let before = done(number.checked_sub(1)?);
        // Acquire: pairs with the AcqRel of an earlier `withdraw`: what the origin has stored itself stays before.
        let is_due =
            word.compare_exchange(before, before | IS_BUSY, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let stored =
            if is_due { store(&part.memory, here, (&mut self.data, &mut self.elements)) } else { Some(()) };
        if is_due {
            // Release: pairs with the Acquire in `find`.
            word.store(done(number), Ordering::Release);
        }
        // Relaxed: the word only tells the origin that no message is under way.
        part.control.atomic_u64(words + HANDLED as u64).ok()?.store(number, Ordering::Relaxed);
        stored
    }
}

/// Stores or combines the pieces of a message; `None` if it is malformed. Each piece is checked: it must lie inside the memory.
fn store(memory: &Exposed, here: Arrived<'_>, (data, elements): (&mut Vec<u8>, &mut Vec<u8>)) -> Option<()> {
    data.resize(here.len(), 0);
    here.copy_to(data);
    let (head, rest) = data.split_first_chunk::<HEAD_BYTES>()?;
    let (combine, runs) = parse_head(*head)?;
    let (runs, mut bytes) = rest.split_at_checked(runs.checked_mul(Run::BYTES)?)?;
    for run in runs.as_chunks().0 {
        let run = Run::from_bytes(*run);
        let (len, count) = (usize::try_from(run.len).ok()?, usize::try_from(run.count).ok()?);
        let (run_bytes, rest) = bytes.split_at_checked(len.checked_mul(count)?)?;
        if len == 0 {
            return None;
        }
        let mut stored = run_bytes;
        if let Some((combine, size)) = combine {
            if !len.is_multiple_of(size) {
                return None;
            }
            elements.resize(run_bytes.len(), 0);
            run.read(memory, elements)?;
            combine(run_bytes, elements);
            stored = elements;
        }
        run.write(memory, stored)?;
        bytes = rest;
    }
    bytes.is_empty().then_some(())
}

impl MpiHandlers {
    pub(super) fn store_pieces(&mut self, message: &Message<'_>) -> Answer {
        let handled = message
            .here
            .and_then(|here| self.pieces_of_windows.handle(message.source.task, message.uhdr, here));
        match handled {
            Some(()) => Answer::discard(),
            None => self.malformed(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use am_core::buffer::Access;
    use am_double::{Config, network};

    use super::*;
    use crate::message::state::State;
    use crate::settings::Settings;

    /// Messages of an origin that died with the lock may arrive after another task has taken the lock over.
    #[test]
    fn messages_of_an_origin_that_is_refused_change_nothing() {
        let (_network, mut fabrics) = network(Config::new(2));
        let mut state = State::new(fabrics.swap_remove(0), &Settings::default()).unwrap();
        let mut expose = || {
            let memory = state.context.alloc(64).unwrap();
            Arc::new(state.context.expose(memory, Access::READ_WRITE).unwrap())
        };
        let (memory, control) = (expose(), expose());
        let part = PartByOwner {
            memory: Arc::clone(&memory),
            control: Arc::clone(&control),
            words: 0,
            origins: Group::of_tasks(vec![0, 1], TaskId(0)),
        };
        let mut windows = PiecesOfWindows::default();
        windows.begin(7, part);
        let mut add_one = |number| {
            let mut data = head(Some((PredefinedOp::Sum, Predefined::Uint64)), 1).to_vec();
            data.extend(Run { offset: 8, len: 8, stride: 8, count: 1 }.to_bytes());
            data.extend(1_u64.to_le_bytes());
            windows.handle(TaskId(1), &header(7, 1, number), Arrived::private(&data)).unwrap();
            memory.load_u64(8).unwrap()
        };
        assert_eq!([add_one(1), add_one(2)], [1, 2]);
        control.atomic_u64(WORDS_BYTES as u64).unwrap().store(REFUSED, Ordering::Relaxed);
        assert_eq!([add_one(3), add_one(4)], [2, 2]);
    }

    #[test]
    fn a_message_is_done_or_withdrawn() {
        let word = AtomicU64::new(done(4));
        assert_eq!(find(&word), Found::Done(4));
        assert!(!withdraw(&word, 3, 7), "message 4 is done");
        word.store(done(4) | IS_BUSY, Ordering::Relaxed);
        assert_eq!(find(&word), Found::Busy);
        assert!(!withdraw(&word, 4, 7), "the owner has begun with message 5");
        word.store(done(5), Ordering::Relaxed);
        assert!(withdraw(&word, 5, 7));
        assert_eq!(find(&word), Found::Done(7));
    }
}
