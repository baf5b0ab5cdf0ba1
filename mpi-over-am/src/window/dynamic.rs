//! Dynamic windows (MPI 5.0 section 12.2.4): each task keeps a directory of its attached memory, which the other tasks read.
//!
//! The directory is a log with an entry for each attach and each detach. A task that uses the window reads the target's version, and if the
//! version is new, the entries that it has not read yet. When the log is full, the owner begins it again with the attached pieces. The
//! version is odd while the directory changes.

use std::collections::BTreeMap;
use std::sync::atomic::{Ordering, fence};

use am_core::Context;
use am_core::buffer::{Access, Exposed, Grant, JobBuffer, RemoteAddress};
use am_core::error::Fault;
use am_core::fabric::Fabric;

use super::transfer::Piece;
use super::{Flavor, Window};
use crate::data::buffer::WindowMemory;
use crate::error::{Error, ErrorClass, Result};
use crate::message::handlers::MpiHandlers;
use crate::policy::{Field, LockPolicy};

/// Offsets of the directory's words, after the words that all windows have: the version, the number of entries in the log, the version with
/// which the log was begun, and the log's region with its generation.
const VERSION: u64 = 16;
const COUNT: u64 = 24;
const BEGUN: u64 = 32;
const LOG: u64 = 40;
/// Bytes of a dynamic window's control memory.
pub(super) const CONTROL_BYTES: usize = 48;

/// Words of an entry: the address, the length in bytes (0: detached), and the region with its generation.
const ENTRY_WORDS: usize = 3;
const ENTRY_BYTES: usize = ENTRY_WORDS * 8;
/// Minimum entries of a log.
const LOG_ENTRIES_MIN: usize = 64;
/// Entries that are read at a time, so that a wrong count allocates no memory.
const READ_ENTRIES_MAX: usize = 1024;

/// The memory that this task has attached, and the log of it that the other tasks read.
#[derive(Debug, Default)]
pub(super) struct Attachments {
    /// By address, without overlaps.
    pieces: BTreeMap<u64, Attached>,
    log: Option<Log>,
    /// Logs that were too short. They stay exposed until the window is freed, since tasks may be reading them; each has at most half of the
    /// entries of the next.
    old_logs: Vec<Exposed>,
}

#[derive(Debug)]
struct Attached {
    len: u64,
    memory: Exposed,
}

#[derive(Debug)]
struct Log {
    memory: Exposed,
    count: usize,
    /// Number of entries for which there is memory. Every attached piece has one left for its detach, which therefore needs no memory.
    capacity: usize,
}

impl Attachments {
    /// Whether `len` bytes at an address overlap an attached piece.
    fn overlap(&self, at: u64, len: u64) -> bool {
        // Of the pieces that begin before the end, the last one also ends last.
        let last = self.pieces.range(..at.saturating_add(len)).next_back();
        last.is_some_and(|(&start, piece)| start + piece.len > at)
    }

    /// All memory that is exposed.
    pub(super) fn into_exposed(self) -> impl Iterator<Item = Exposed> {
        let pieces = self.pieces.into_values().map(|piece| piece.memory);
        pieces.chain(self.log.map(|log| log.memory)).chain(self.old_logs)
    }
}

/// This task's copy of another task's directory.
#[derive(Debug, Default)]
pub(super) struct Directory {
    version: u64,
    /// The version with which the log was begun, and the number of entries that were read.
    begun: u64,
    read: u64,
    /// By address, without overlaps.
    pieces: BTreeMap<u64, Granted>,
}

impl Directory {
    /// The piece that contains an address, with its address.
    fn piece_at(&self, at: u64) -> Option<(u64, Granted)> {
        let (&start, &piece) = self.pieces.range(..=at).next_back()?;
        (at - start < piece.len).then_some((start, piece))
    }
}

/// A piece of a directory.
#[derive(Clone, Copy, Debug)]
struct Granted {
    len: u64,
    grant: Grant,
}

impl<F: Fabric, L: LockPolicy> Window<F, L> {
    /// Attaches memory, so that other tasks can access it (`MPI_Win_attach`). Returns the memory's address, which other tasks use as the
    /// displacement. The number of pieces is limited only by the registrations of a task (262 144 in all).
    ///
    /// # Errors
    /// The window is not dynamic; the memory has 0 bytes, or overlaps an attached piece; the job's memory or the registrations are used up.
    pub fn attach(&self, memory: impl Into<WindowMemory>) -> Result<u64> {
        const CALL: &str = "Window::attach";
        self.check_dynamic(CALL)?;
        let WindowMemory(memory) = memory.into();
        let (at, len) = (memory.as_ptr().addr() as u64, memory.len() as u64);
        let refused = |what| {
            let value = i64::try_from(at).unwrap_or(i64::MAX);
            Err(Error::refused(ErrorClass::RmaAttach, CALL, what, value))
        };
        if len == 0 {
            return refused("an attached piece needs 1 byte or more; the value is the memory's address");
        }
        let mut state = self.communicator.state()?;
        self.attached.with(|attached| {
            if attached.overlap(at, len) {
                return refused("the memory overlaps an attached piece; the value is the memory's address");
            }
            self.make_room(attached, &mut state.context)?;
            let memory = state.context.expose(memory, Access::READ_WRITE).map_err(unattachable)?;
            self.publish(attached, [at, len, word_of(memory.grant())])?;
            attached.pieces.insert(at, Attached { len, memory });
            Ok(at)
        })
    }

    /// Detaches the memory that begins at this address, and returns it (`MPI_Win_detach`).
    ///
    /// # Errors
    /// The window is not dynamic, or no attached piece begins there.
    pub fn detach(&self, at: u64) -> Result<JobBuffer> {
        const CALL: &str = "Window::detach";
        self.check_dynamic(CALL)?;
        let mut state = self.communicator.state()?;
        let piece = self.attached.with(|attached| {
            let piece = attached.pieces.remove(&at).ok_or_else(|| {
                let what = "no attached piece begins at this address; the value is the address";
                Error::refused(ErrorClass::RmaAttach, CALL, what, i64::try_from(at).unwrap_or(i64::MAX))
            })?;
            self.publish(attached, [at, 0, 0])?;
            Ok::<_, Error>(piece)
        })?;
        Ok(state.context.unexpose(piece.memory)?)
    }

    fn check_dynamic(&self, call: &'static str) -> Result<()> {
        if self.flavor == Flavor::Dynamic {
            return Ok(());
        }
        let what = "the window is not dynamic; the value is its size";
        let size = i64::try_from(self.size()).unwrap_or(i64::MAX);
        Err(Error::refused(ErrorClass::RmaFlavor, call, what, size))
    }

    /// Makes room in the log for another piece and its detach: begins the log again with the attached pieces if it is full.
    fn make_room(&self, attached: &mut Attachments, context: &mut Context<F, MpiHandlers>) -> Result<()> {
        let live = attached.pieces.len();
        let (count, capacity) = attached.log.as_ref().map_or((0, 0), |log| (log.count, log.capacity));
        if count + live + 2 <= capacity {
            return Ok(());
        }
        // With this much memory, most attaches find room.
        if capacity < 3 * (live + 1) {
            let capacity = (4 * (live + 1)).next_power_of_two().max(LOG_ENTRIES_MIN);
            let memory = context.alloc(capacity * ENTRY_BYTES).map_err(unattachable)?;
            let memory = context.expose(memory, Access::READ_WRITE).map_err(unattachable)?;
            let old = attached.log.replace(Log { memory, count: 0, capacity });
            attached.old_logs.extend(old.map(|log| log.memory));
        }
        let Some(log) = &mut attached.log else { return Ok(()) };
        let begun = self.control.atomic_u64(VERSION)?.load(Ordering::Relaxed);
        self.change(|| {
            self.control.store_u64(BEGUN, begun)?;
            self.control.store_u64(LOG, word_of(log.memory.grant()))?;
            for (place, (&at, piece)) in attached.pieces.iter().enumerate() {
                store_entry(&log.memory, place, [at, piece.len, word_of(piece.memory.grant())])?;
            }
            log.count = live;
            self.control.store_u64(COUNT, live as u64)?;
            Ok(())
        })
    }

    /// Adds an entry to the log, for which there must be room.
    fn publish(&self, attached: &mut Attachments, entry: [u64; ENTRY_WORDS]) -> Result<()> {
        let Some(log) = &mut attached.log else { return Ok(()) };
        self.change(|| {
            store_entry(&log.memory, log.count, entry)?;
            log.count += 1;
            self.control.store_u64(COUNT, log.count as u64)?;
            Ok(())
        })
    }

    /// Changes the directory.
    fn change(&self, change: impl FnOnce() -> Result<()>) -> Result<()> {
        let version = self.control.atomic_u64(VERSION)?;
        // AcqRel: pairs with the fence in `read_words`. A reader loads the version, the entries, and the version again; the order keeps
        // the stores of the entries between the two changes of the version.
        version.fetch_add(1, Ordering::AcqRel);
        let changed = change();
        version.fetch_add(1, Ordering::AcqRel);
        changed
    }

    /// Finds the bytes at an address of another task, whose directory was [read](Self::refresh): in one attached piece, or in several
    /// adjacent ones. Calls `each` for the bytes of each piece, in order.
    ///
    /// # Errors
    /// A byte outside every attached piece.
    pub(super) fn find(
        &self,
        rank: u32,
        address: i64,
        len: u64,
        mut each: impl FnMut(RemoteAddress, u64) -> Result<()>,
    ) -> Result<()> {
        let control = self.peers[rank as usize].control;
        let known = |at| self.directories.with(|known| known[rank as usize].piece_at(at));
        let outside = || {
            let pieces = self.directories.with(|known| known[rank as usize].pieces.len() as u64);
            Error::NotAttached { rank, address, len, pieces }
        };
        let mut at = u64::try_from(address).map_err(|_| outside())?;
        let end = at.checked_add(len).ok_or_else(outside)?;
        loop {
            // A range of 0 bytes may lie outside the attached pieces.
            let Some((start, piece)) = known(at) else {
                return if len == 0 { Ok(()) } else { Err(outside()) };
            };
            let offset = at - start;
            let here = (end - at).min(piece.len - offset);
            each(RemoteAddress { grant: piece.grant, offset, ..control }, here)?;
            at += here;
            if at == end {
                return Ok(());
            }
        }
    }

    /// The address of bytes of a task, if one attached piece contains all of them.
    pub(super) fn find_one(&self, rank: u32, at: u64, len: u64) -> Result<Option<RemoteAddress>> {
        self.refresh(rank)?;
        let found = self.directories.with(|known| known[rank as usize].piece_at(at));
        let found = found.filter(|(start, piece)| len <= piece.len - (at - start));
        let control = self.peers[rank as usize].control;
        Ok(found.map(|(start, piece)| RemoteAddress { grant: piece.grant, offset: at - start, ..control }))
    }

    /// Reads what is new in a task's directory, if its version has changed.
    pub(super) fn refresh(&self, rank: u32) -> Result<()> {
        let control = self.peers[rank as usize].control;
        loop {
            let mut head = [0; 4];
            self.read_words(control.plus(VERSION), &mut head)?;
            let [version, count, begun, log] = head;
            let known = self.directories.with(|known| {
                let Directory { version, begun, read, .. } = known[rank as usize];
                (version, begun, read)
            });
            if version == known.0 {
                return Ok(());
            }
            let is_still = |version: u64| {
                let mut again = [0];
                self.read_words(control.plus(VERSION), &mut again)?;
                Ok::<_, Error>(version.is_multiple_of(2) && again[0] == version)
            };
            // Only words of one version name entries that exist.
            if is_still(version)? {
                let first = if known.1 == begun { known.2.min(count) } else { 0 };
                let log = RemoteAddress { grant: grant_of(log), offset: 0, ..control };
                let entries = self.read_entries(log, first, count)?;
                if is_still(version)? {
                    self.directories.with(|known| {
                        let known = &mut known[rank as usize];
                        if first == 0 {
                            known.pieces.clear();
                        }
                        for [at, len, grant] in entries {
                            match len {
                                0 => drop(known.pieces.remove(&at)),
                                _ => drop(known.pieces.insert(at, Granted { len, grant: grant_of(grant) })),
                            }
                        }
                        (known.version, known.begun, known.read) = (version, begun, count);
                    });
                    return Ok(());
                }
            }
            std::thread::yield_now();
        }
    }

    /// The entries `first..count` of a log.
    fn read_entries(&self, log: RemoteAddress, first: u64, count: u64) -> Result<Vec<[u64; ENTRY_WORDS]>> {
        let mut entries = Vec::new();
        let mut next = first;
        while next < count {
            let here =
                usize::try_from(count - next).map_or(READ_ENTRIES_MAX, |left| left.min(READ_ENTRIES_MAX));
            let mut words = vec![0; here * ENTRY_WORDS];
            self.read_words(log.plus(next.wrapping_mul(ENTRY_BYTES as u64)), &mut words)?;
            entries.extend_from_slice(words.as_chunks().0);
            next += here as u64;
        }
        Ok(entries)
    }

    /// Reads words of a task's directory. Makes progress if they are not mapped.
    fn read_words(&self, from: RemoteAddress, words: &mut [u64]) -> Result<()> {
        let bytes = bytemuck::cast_slice_mut::<u64, u8>(words);
        let mut state = self.communicator.state()?;
        let read = state.context.with_mapped(from, bytes.len() as u64, |range| range.read(0, bytes))?;
        drop(state);
        // Acquire: pairs with the changes of the version in `change`. The version is read before the entries, and again after them.
        fence(Ordering::Acquire);
        if read == Some(true) {
            return Ok(());
        }
        let piece = Piece { to: from, len: size_of_val(words) };
        self.get_slice(words, std::slice::from_ref(&piece))?;
        self.communicator.state()?.probe().map(drop)
    }
}

/// The error of MPI 5.0 section 12.6 for memory that cannot be attached because of resource exhaustion.
fn unattachable(error: am_core::error::Error) -> Error {
    match error.fault() {
        Fault::Resource => Error::Unattachable { why: Error::from(error).to_string() },
        _ => error.into(),
    }
}

fn store_entry(log: &Exposed, place: usize, entry: [u64; ENTRY_WORDS]) -> Result<()> {
    for (word, offset) in entry.into_iter().zip((place * ENTRY_BYTES..).step_by(8)) {
        log.store_u64(offset as u64, word)?;
    }
    Ok(())
}

/// A grant as a word.
fn word_of(grant: Grant) -> u64 {
    u64::from(grant.region) << 32 | u64::from(grant.generation)
}

#[expect(clippy::cast_possible_truncation, reason = "the halves of the word are meant")]
fn grant_of(word: u64) -> Grant {
    Grant { region: (word >> 32) as u32, generation: word as u32 }
}

#[cfg(test)]
mod tests {
    use am_double::{Config, network};

    use super::*;
    use crate::window::Assertion;
    use crate::{Environment, Info, Settings};

    #[test]
    fn a_directory_is_read_again_only_if_its_version_has_changed() {
        let (_network, mut fabrics) = network(Config::new(1));
        let fabric = fabrics.pop().expect("one task");
        let environment = Environment::with_fabric(fabric, &Settings::default()).expect("it starts");
        let world = environment.world();
        let window = world.create_dynamic_window(&Info::new()).expect("it is made");
        window.lock_all(Assertion::NONE).expect("nothing is locked");
        let copy = || window.directories.with(|known| (known[0].version, known[0].begun, known[0].read));
        let get = |at: u64| {
            let mut bytes = [0u8; 3];
            window.get(&mut bytes, 0, at.cast_signed()).map(|()| bytes)
        };
        let first = window.attach(vec![7; 100]).expect("it is attached");
        assert_eq!(get(first).expect("it is attached"), [7; 3]);
        let read = copy();
        assert_eq!(get(first + 97).expect("it is attached"), [7; 3]);
        assert_eq!(copy(), read, "the second access uses the copy");
        let second = window.attach(vec![8; 100]).expect("it is attached");
        window.detach(first).expect("it was attached");
        assert!(matches!(get(first), Err(Error::NotAttached { .. })));
        assert_eq!(get(second).expect("it is attached"), [8; 3]);
        assert_ne!(copy(), read, "the change was seen");
        window.unlock_all().expect("it is locked");
        window.free().expect("no epoch is open");
        drop(world);
        environment.finalize().expect("all is freed");
    }
}
