//! Memory of the aggregators that all tasks of a file access: there the tasks store what is to be written, and find what was read.
//!
//! On one host all tasks have mapped the memory, so each byte is copied once between a task's elements and the memory of the system call.
//! Between hosts the copies are puts and gets.

use std::ops::Range;

use am_core::fabric::Fabric;
use mpi_datatype::{Datatype, Predefined};
use mpi_io::{Selection, Space, Strided};

use super::buffers::{Source, Target, to_usize};
use crate::communicator::Communicator;
use crate::communicator::info::Info;
use crate::data::buffer::{HasPart, RecvData, SendData, with_part, with_slice, with_space};
use crate::error::Result;
use crate::policy::LockPolicy;
use crate::window::{Assertion, TargetData, Window};

/// A window with a part for each aggregator.
///
/// The tasks access a part between their arrival in a round and the message to the aggregator, or from the aggregator, that ends their
/// accesses; the aggregator accesses it at other times.
#[derive(Debug)]
pub(super) struct Staging<F: Fabric, L: LockPolicy> {
    window: Window<F, L>,
    /// The size of an aggregator's part.
    part_bytes: u64,
    aggregators: u32,
}

// SAFETY: the window was made by the library, zeroed, and is mapped as long as it lives; `self` owns it. `with_bytes` and `with_space` are
// called by the aggregator after it has heard from all tasks that they have ended their accesses, and before it tells them to begin others.
#[expect(unsafe_code, reason = "a promise about the memory of a window (`buffer::HasPart`)")]
unsafe impl<F: Fabric, L: LockPolicy> HasPart for Staging<F, L> {
    fn part(&self) -> (*mut u8, usize) {
        (self.window.base(), to_usize(self.window.size()))
    }
}

impl<F: Fabric, L: LockPolicy> Staging<F, L> {
    /// Makes the memory. Collective.
    ///
    /// # Errors
    /// The memory cannot be made or mapped; the death of a task.
    pub(super) fn new(
        communicator: &Communicator<F, L>,
        part_bytes: u64,
        aggregators: u32,
        is_aggregator: bool,
    ) -> Result<Self> {
        let mut info = Info::new();
        info.set("alloc_shared_noncontig", "true")?;
        let bytes = if is_aggregator { to_usize(part_bytes) } else { 0 };
        let window = communicator.allocate_shared_bytes(bytes, 1, &info)?;
        window.lock_all(Assertion::NO_CHECK)?;
        Ok(Self { window, part_bytes, aggregators })
    }

    /// Whether the memory serves windows of this length of this number of aggregators.
    pub(super) fn serves(&self, window_bytes: u64, aggregators: u32) -> bool {
        self.part_bytes >= window_bytes && self.aggregators == aggregators
    }

    /// Stores a part of a task's data where its pieces lie in the window of an aggregator.
    ///
    /// # Errors
    /// The death of the aggregator.
    pub(super) fn store(
        &self,
        (rank, window): (u32, &Range<u64>),
        selection: &Selection,
        (source, from): (&Source, u64),
        scratch: &mut Vec<u8>,
    ) -> Result<()> {
        source.with_bytes(from, selection.len(), scratch, |bytes| {
            each_group(selection, |offset, group, len| {
                let part = bytes.part(offset, len).expect("the selection has as many bytes");
                let origin = SendData::from_bytes(part);
                on_target(rank, window, group, |target| self.window.put_data(&origin, target))
            })
        })
    }

    /// Copies to a task's elements what lies at its pieces, up to `len` bytes.
    ///
    /// # Errors
    /// The death of the aggregator.
    pub(super) fn load(
        &self,
        (rank, window): (u32, &Range<u64>),
        selection: &Selection,
        (target, at): (&mut Target, u64),
        scratch: &mut Vec<u8>,
    ) -> Result<()> {
        target.with_space(at, selection.len(), scratch, |buffer| {
            each_group(selection, |offset, group, len| {
                let part = buffer.part(offset, len).expect("the selection has as many bytes");
                let origin = RecvData::from_buffer(part);
                on_target(rank, window, group, |target| self.window.get_data(&origin, target))
            })
        })
    }

    /// Completes this task's stores, before it tells the aggregator of them.
    ///
    /// # Errors
    /// The death of an aggregator.
    pub(super) fn finish(&self) -> Result<()> {
        self.window.flush_all()
    }

    /// Calls `call` with the bytes of this aggregator's part.
    pub(super) fn with_bytes<R>(&self, call: impl FnOnce(&[u8]) -> R) -> R {
        with_part(self, |part| with_slice(part.as_bytes(), call))
    }

    /// Calls `call` with this aggregator's part, to store in it.
    pub(super) fn with_space<R>(&self, call: impl FnOnce(&mut Space<'_>) -> R) -> R {
        with_part(self, |part| with_space(part, call))
    }

    /// Collective.
    ///
    /// # Errors
    /// The death of a task.
    pub(super) fn free(self) -> Result<()> {
        self.window.unlock_all()?;
        self.window.free().map(drop)
    }
}

/// Passes the groups of a selection to `each`, with the offset and the length of their bytes among those of the selection.
fn each_group(
    selection: &Selection,
    mut each: impl FnMut(usize, Strided, usize) -> Result<()>,
) -> Result<()> {
    let mut offset = 0;
    for group in selection.groups() {
        let len = to_usize(group.len * group.count);
        each(offset, group, len)?;
        offset += len;
    }
    Ok(())
}

/// The elements of an aggregator's part where a group's pieces lie.
fn on_target<R>(
    rank: u32,
    window: &Range<u64>,
    group: Strided,
    call: impl FnOnce(TargetData<'_>) -> Result<R>,
) -> Result<R> {
    let Strided { at, len, stride, count } = group;
    let byte = Datatype::predefined(Predefined::Byte);
    let displacement = (at - window.start).cast_signed();
    if count == 1 {
        return call(TargetData { rank, displacement, count: len, datatype: &byte });
    }
    let pieces = Datatype::hvector(count, len, stride.cast_signed(), &byte)?;
    call(TargetData { rank, displacement, count: 1, datatype: &pieces })
}
