//! Dynamic windows (MPI 5.0 section 12.2.4): each task keeps a directory of its attached memory, which the other tasks read.
//!
//! The directory has a version number, which is odd while the directory changes. A task that uses the window reads the target's version,
//! and reads the directory again if the version is new.

use std::sync::atomic::{Ordering, fence};

use am_core::buffer::{Access, Exposed, Grant, RemoteAddress};
use am_core::fabric::Fabric;

use super::transfer::Piece;
use super::{Flavor, Window};
use crate::buffer::WindowMemory;
use crate::error::{Error, ErrorClass, Result};
use crate::policy::{Field, LockPolicy};

/// Maximum number of pieces of memory attached at a time.
const ENTRIES_MAX: usize = 1024;
/// Offsets of the version and of the number of entries, after the words that all windows have.
const VERSION: u64 = 16;
const COUNT: u64 = 24;
const HEAD_BYTES: usize = 32;
const ENTRIES: u64 = HEAD_BYTES as u64;
/// Words of an entry: the address, the length in bytes, the region with its generation, and one unused word.
const ENTRY_WORDS: usize = 4;
const ENTRY_BYTES: usize = ENTRY_WORDS * 8;

/// Bytes of a dynamic window's control memory.
pub(super) const CONTROL_BYTES: usize = HEAD_BYTES + ENTRIES_MAX * ENTRY_BYTES;

/// An attached piece of this task's memory.
#[derive(Debug)]
pub(super) struct Attached {
    at: u64,
    len: u64,
    pub(super) memory: Exposed,
}

/// This task's copy of another task's directory.
#[derive(Debug, Default)]
pub(super) struct Directory {
    version: u64,
    /// In ascending order of addresses, without overlaps.
    entries: Vec<Entry>,
}

impl Directory {
    /// The piece that contains an address.
    fn piece_at(&self, at: u64) -> Option<Entry> {
        let behind = self.entries.partition_point(|entry| entry.at <= at);
        let entry = *self.entries.get(behind.checked_sub(1)?)?;
        (at - entry.at < entry.len).then_some(entry)
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: u64,
    len: u64,
    grant: Grant,
}

impl<F: Fabric, L: LockPolicy> Window<F, L> {
    /// Attaches memory, so that other tasks can access it (`MPI_Win_attach`). Returns the memory's address, which other tasks use as the
    /// displacement.
    ///
    /// # Errors
    /// The window is not dynamic; the memory has 0 bytes, or overlaps an attached piece; too many pieces are attached.
    pub fn attach(&self, memory: impl Into<WindowMemory>) -> Result<u64> {
        const CALL: &str = "Window::attach";
        self.check_dynamic(CALL)?;
        let WindowMemory(memory) = memory.into();
        let (at, len) = (memory.as_ptr().addr() as u64, memory.len() as u64);
        let mut state = self.communicator.state()?;
        self.attached.with(|attached| {
        if len == 0 || attached.len() == ENTRIES_MAX {
            let what = "a piece needs 1 byte or more, and at most 1024 pieces can be attached; the value is the piece's length";
            let len = i64::try_from(len).unwrap_or(i64::MAX);
            return Err(Error::refused(ErrorClass::RmaAttach, CALL, what, len));
        }
        let overlaps = |other: &Attached| at < other.at + other.len && other.at < at + len;
        if attached.iter().any(overlaps) {
            let what = "the memory overlaps an attached piece; the value is the memory's address";
            return Err(Error::refused(
                ErrorClass::RmaAttach,
                CALL,
                what,
                i64::try_from(at).unwrap_or(i64::MAX),
            ));
        }
        let memory = state.context.expose(memory, Access::READ_WRITE)?;
        attached.push(Attached { at, len, memory });
        self.publish(attached)?;
        Ok(at)
        })
    }

    /// Detaches the memory that begins at this address, and returns it (`MPI_Win_detach`).
    ///
    /// # Errors
    /// The window is not dynamic, or no attached piece begins there.
    pub fn detach(&self, at: u64) -> Result<am_core::buffer::JobBuffer> {
        const CALL: &str = "Window::detach";
        self.check_dynamic(CALL)?;
        let mut state = self.communicator.state()?;
        let piece = self.attached.with(|attached| {
            let place = attached.iter().position(|piece| piece.at == at).ok_or_else(|| {
                let what = "no attached piece begins at this address; the value is the address";
                Error::refused(ErrorClass::RmaAttach, CALL, what, i64::try_from(at).unwrap_or(i64::MAX))
            })?;
            let piece = attached.remove(place);
            self.publish(attached)?;
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

    /// Rewrites the directory.
    fn publish(&self, attached: &[Attached]) -> Result<()> {
        let control = &self.control;
        let version = control.atomic_u64(VERSION)?;
        // AcqRel: pairs with the fence in `read_control`. A reader loads the version, the entries, and the version again; the order keeps
        // the stores of the entries between the two changes of the version.
        version.fetch_add(1, Ordering::AcqRel);
        for (piece, place) in attached.iter().zip(0u64..) {
            let at = ENTRIES + place * ENTRY_BYTES as u64;
            let grant = piece.memory.grant();
            control.store_u64(at, piece.at)?;
            control.store_u64(at + 8, piece.len)?;
            control.store_u64(at + 16, u64::from(grant.region) << 32 | u64::from(grant.generation))?;
        }
        control.store_u64(COUNT, attached.len() as u64)?;
        version.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Finds the bytes at an address of another task: in one attached piece, or in several adjacent ones. Calls `each` for the bytes of
    /// each piece, in order.
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
        self.refresh(rank)?;
        let control = self.peers[rank as usize].control;
        let known = |at| self.directories.with(|known| known[rank as usize].piece_at(at));
        let outside = || {
            let pieces = self.directories.with(|known| known[rank as usize].entries.len() as u64);
            Error::NotAttached { rank, address, len, pieces }
        };
        let mut at = u64::try_from(address).map_err(|_| outside())?;
        let end = at.checked_add(len).ok_or_else(outside)?;
        loop {
            // A range of 0 bytes may lie outside the attached pieces.
            let Some(entry) = known(at) else {
                return if len == 0 { Ok(()) } else { Err(outside()) };
            };
            let offset = at - entry.at;
            let here = (end - at).min(entry.len - offset);
            each(RemoteAddress { grant: entry.grant, offset, ..control }, here)?;
            at += here;
            if at == end {
                return Ok(());
            }
        }
    }

    /// The address of bytes of a task, if one attached piece contains all of them.
    pub(super) fn find_one(&self, rank: u32, at: u64, len: u64) -> Result<Option<RemoteAddress>> {
        self.refresh(rank)?;
        let entry = self.directories.with(|known| known[rank as usize].piece_at(at));
        let entry = entry.filter(|entry| len <= entry.len - (at - entry.at));
        let control = self.peers[rank as usize].control;
        Ok(entry.map(|entry| RemoteAddress { grant: entry.grant, offset: at - entry.at, ..control }))
    }

    /// Reads a task's directory, if it has changed.
    fn refresh(&self, rank: u32) -> Result<()> {
        loop {
            let mut head = [0; 2];
            self.read_control(rank, VERSION, &mut head)?;
            let [version, count] = head;
            if version == self.directories.with(|known| known[rank as usize].version) {
                return Ok(());
            }
            let count = usize::try_from(count).unwrap_or(usize::MAX).min(ENTRIES_MAX);
            let mut words = vec![0; count * ENTRY_WORDS];
            if count > 0 {
                self.read_control(rank, ENTRIES, &mut words)?;
            }
            let mut again = [0];
            self.read_control(rank, VERSION, &mut again)?;
            if version.is_multiple_of(2) && again[0] == version {
                let mut entries: Vec<Entry> = words.chunks_exact(ENTRY_WORDS).map(entry).collect();
                entries.sort_unstable_by_key(|entry| entry.at);
                self.directories.with(|known| known[rank as usize] = Directory { version, entries });
                return Ok(());
            }
            std::thread::yield_now();
        }
    }

    /// Reads words of a task's control memory. Makes progress if that memory is not mapped.
    fn read_control(&self, rank: u32, offset: u64, words: &mut [u64]) -> Result<()> {
        let to = self.peers[rank as usize].control.plus(offset);
        let bytes = bytemuck::cast_slice_mut::<u64, u8>(words);
        let mut state = self.communicator.state()?;
        let read = state.context.with_mapped(to, bytes.len() as u64, |range| range.read(0, bytes))?;
        drop(state);
        // Acquire: pairs with the changes of the version in `publish`. The version is read before the entries, and again after them.
        fence(Ordering::Acquire);
        if read == Some(true) {
            return Ok(());
        }
        let piece = Piece { to, len: size_of_val(words) };
        self.get_slice(words, std::slice::from_ref(&piece))?;
        self.communicator.state()?.probe().map(drop)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the halves of the word are meant")]
fn entry(words: &[u64]) -> Entry {
    let grant = Grant { region: (words[2] >> 32) as u32, generation: words[2] as u32 };
    Entry { at: words[0], len: words[1], grant }
}

#[cfg(test)]
mod tests {
    use am_core::testing::loopback::{Config, network};

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
        // Reading the directory again replaces this copy with one at another address.
        let copy = || window.directories.with(|known| (known[0].version, known[0].entries.as_ptr()));
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
