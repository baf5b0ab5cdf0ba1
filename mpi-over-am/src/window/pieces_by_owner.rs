//! Puts and accumulates of many short pieces in private memory of a task on this host, which the owner of the memory carries out while it
//! makes calls of MPI. `handlers/pieces_of_window.rs` has the format of the messages, and the owner's side.
//!
//! The kernel needs longer to find a range of another process than the owner needs to store a piece. But the owner may compute, and no
//! operation may wait for the owner's calls. So the origin waits about as long as the kernel would need, and then withdraws what the owner
//! has not begun: the caller lets the kernel copy it. Until the owner has handled the withdrawn messages, the origin sends it no others.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use am_core::AmOptions;
use am_core::buffer::{Grant, RawBytes};
use am_core::fabric::Fabric;
use am_core::transfer::{AtomicOp, Posted, Width};
use smallvec::SmallVec;

use super::queue::LockQueue;
use super::{Flavor, TargetData, Window, control_bytes};
use crate::error::Result;
use crate::message::handlers::{
    self, Found, HANDLED, HEAD_BYTES, IS_BUSY, Operation, REFUSED, Run, WORDS_BYTES, find, head, header,
    withdraw,
};
use crate::policy::{Field, LockPolicy};
use mpi_datatype::Visit;

/// Minimum number of pieces for which the owner is asked.
const PIECES_MIN: u64 = 64;
/// Maximum bytes of a piece, on average: longer ones take the kernel about as long as copies to and from messages.
const PIECE_BYTES_MAX: u64 = 256;
/// About what the kernel needs to find a range of another process.
const KERNEL_PIECE: Duration = Duration::from_nanos(400);
/// Maximum number of messages under way to an owner: the owner stores one while the origin packs the next.
const MESSAGES_MAX: usize = 8;
/// Maximum bytes of am-core's own head of a packet.
const PACKET_HEAD_BYTES: usize = 16;
/// Number of looks after which the origin yields the processor, which the owner may need.
const LOOKS_PER_YIELD: u32 = 64;

/// The messages of this task to each owner.
pub(super) type ByOwner = HashMap<u32, Sent>;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    /// Number of the last message.
    last: u64,
    /// Whether a thread uses the owner's words.
    is_busy: bool,
}

/// What the owner has carried out: the first pieces of an operation, and their bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Carried {
    pub(super) pieces: usize,
    pub(super) bytes: usize,
}

/// Bytes in the control memory for the words of all origins.
pub(super) fn words_bytes(flavor: Flavor, tasks: u32) -> usize {
    if flavor == Flavor::Created { WORDS_BYTES * tasks as usize } else { 0 }
}

/// Offset of these words.
pub(super) fn words_at(flavor: Flavor, tasks: u32) -> u64 {
    (control_bytes(flavor) + LockQueue::bytes(tasks)) as u64
}

/// The name of a window at one of its tasks: that of its control memory.
pub(super) fn name_of(control: Grant) -> u64 {
    u64::from(control.region) << 32 | u64::from(control.generation)
}

/// The pieces of a layout, as runs.
#[derive(Default)]
struct Runs {
    /// Added to displacements, as a number that wraps.
    base: u64,
    runs: SmallVec<[Run; 8]>,
    pieces: u64,
}

impl Visit for Runs {
    #[inline]
    fn block(&mut self, at: i64, len: u64) {
        self.pieces += 1;
        let offset = self.base.wrapping_add(at.cast_unsigned());
        if let Some(run) = self.runs.last_mut().filter(|run| run.len == len) {
            let stride = if run.count == 1 { offset.wrapping_sub(run.offset) } else { run.stride };
            if offset == run.offset.wrapping_add(stride.wrapping_mul(run.count)) {
                (run.stride, run.count) = (stride, run.count + 1);
                return;
            }
        }
        self.runs.push(Run { offset, len, stride: 0, count: 1 });
    }

    fn strided(&mut self, at: i64, len: u64, stride: i64, count: u64) {
        self.pieces += count;
        let offset = self.base.wrapping_add(at.cast_unsigned());
        self.runs.push(Run { offset, len, stride: stride.cast_unsigned(), count });
    }
}

/// Whether all pieces of a run lie inside a part of `size` bytes.
fn is_inside(run: &Run, size: u64) -> bool {
    let first = i128::from(run.offset.cast_signed());
    let last = first + i128::from(run.stride.cast_signed()) * i128::from(run.count.saturating_sub(1));
    first.min(last) >= 0 && first.max(last) + i128::from(run.len) <= i128::from(size)
}

/// The next pieces that fit into a message. They are removed from the runs, which are in reverse order. Returns the message's data without
/// the bytes of the pieces, and what the message will carry.
fn take_pieces(
    runs: &mut SmallVec<[Run; 8]>,
    operation: Operation,
    data_bytes_max: usize,
) -> (Vec<u8>, Carried) {
    let mut taken = SmallVec::<[Run; 8]>::new();
    let (mut carried, mut used) = (Carried::default(), HEAD_BYTES);
    while let Some(run) = runs.last_mut() {
        let left = data_bytes_max.saturating_sub(used + Run::BYTES) as u64;
        let count = run.count.min(left / run.len.max(1));
        if count == 0 {
            break;
        }
        taken.push(Run { count, ..*run });
        let bytes = usize::try_from(count * run.len).unwrap_or(usize::MAX);
        used += Run::BYTES + bytes;
        carried.pieces += usize::try_from(count).unwrap_or(usize::MAX);
        carried.bytes += bytes;
        run.offset = run.offset.wrapping_add(run.stride.wrapping_mul(count));
        run.count -= count;
        if run.count == 0 {
            runs.pop();
        }
    }
    let mut data = Vec::with_capacity(used);
    data.extend(head(operation, taken.len()));
    taken.iter().for_each(|run| data.extend(run.to_bytes()));
    (data, carried)
}

impl<F: Fabric, L: LockPolicy> Window<F, L> {
    /// Lets the owner of the memory store the pieces of an operation, with bytes of the same total length, or combine its elements with
    /// them. Returns what the owner has carried out; the caller must see to the other pieces, if any.
    ///
    /// # Errors
    /// The death of the owner; an error while making progress.
    pub(super) fn carry_out_by_owner(
        &self,
        target: TargetData<'_>,
        operation: Operation,
        bytes: RawBytes,
    ) -> Result<Carried> {
        let nothing = Carried::default();
        if self.flavor != Flavor::Created || target.rank == self.rank() {
            return Ok(nothing);
        }
        let Some(mut runs) = self.runs_of(target, bytes.len() as u64)? else { return Ok(nothing) };
        let begun = self.by_owner.with(|owners| {
            let sent = owners.entry(target.rank).or_default();
            (!std::mem::replace(&mut sent.is_busy, true)).then_some(sent.last)
        });
        let Some(mut last) = begun else { return Ok(nothing) };
        // After an error the entry stays busy: then the kernel copies all further pieces.
        let mut carried = nothing;
        while !runs.is_empty() && self.has_handled(target.rank, last)? {
            let rest =
                bytes.part(carried.bytes, bytes.len() - carried.bytes).expect("the bytes that are left");
            let (sent, done, is_all) = self.carry_out_some(target.rank, operation, rest, &mut runs, last)?;
            last += sent;
            carried.pieces += done.pieces;
            carried.bytes += done.bytes;
            if !is_all {
                break;
            }
        }
        self.by_owner.with(|owners| owners.insert(target.rank, Sent { last, is_busy: false }));
        Ok(carried)
    }

    /// The pieces of an operation of `len` bytes, the last one first, if the owner is to be asked: there are many short ones, and all of
    /// them lie inside the window.
    fn runs_of(&self, target: TargetData<'_>, len: u64) -> Result<Option<SmallVec<[Run; 8]>>> {
        let peer = &self.peers[target.rank as usize];
        let Some(base) = target.displacement.checked_mul(peer.unit.cast_signed()) else { return Ok(None) };
        let mut all = Runs { base: base.cast_unsigned(), ..Runs::default() };
        if len < PIECES_MIN {
            return Ok(None);
        }
        target.datatype.layout(target.count).visit(0, len, &mut all);
        let are_short = all.pieces >= PIECES_MIN && len / all.pieces <= PIECE_BYTES_MAX;
        if !are_short || !all.runs.iter().all(|run| is_inside(run, peer.size)) {
            return Ok(None);
        }
        all.runs.iter_mut().for_each(|run| run.offset += peer.data.offset);
        all.runs.reverse();
        Ok(Some(all.runs))
    }

    /// Makes the owner of a part carry out no more messages of `origin`, which has died; some may be under way.
    ///
    /// # Errors
    /// The death of the owner; an error while making progress.
    pub(super) fn refuse_all_of(&self, origin: u32, rank: u32) -> Result<()> {
        if self.flavor != Flavor::Created {
            return Ok(());
        }
        let words = words_at(self.flavor, self.communicator.size());
        let at = self.peers[rank as usize].control.plus(words + WORDS_BYTES as u64 * u64::from(origin));
        let mut expected = 0;
        self.communicator.try_until(|| {
            let refuse = AtomicOp::CompareSwap { expected, new: REFUSED };
            let found = self.communicator.rmw(at, Width::Bits64, refuse)?;
            if found == expected || found == REFUSED {
                return Ok(Some(()));
            }
            // While the owner carries out a message, this is never found.
            expected = found & !IS_BUSY;
            self.communicator.state()?.probe()?;
            Ok(None)
        })
    }

    /// Calls `look` with a word of this task in the control memory of a rank. `None` if the memory is not mapped here.
    fn with_word<R>(
        &self,
        rank: u32,
        offset: usize,
        look: impl FnOnce(&AtomicU64) -> R,
    ) -> Result<Option<R>> {
        let words = words_at(self.flavor, self.communicator.size());
        let own = (WORDS_BYTES * self.rank() as usize + offset) as u64;
        let at = self.peers[rank as usize].control.plus(words + own);
        let mut state = self.communicator.state()?;
        let found = state.context.with_mapped(at, 8, |word| word.atomic_u64(0).map(look))?;
        Ok(found.flatten())
    }

    /// Whether the owner has handled all messages of this task.
    fn has_handled(&self, rank: u32, last: u64) -> Result<bool> {
        let handled = self.with_word(rank, HANDLED, |word| word.load(Ordering::Relaxed))?;
        Ok(handled == Some(last))
    }

    /// Sends some messages, and waits until the owner has carried them out, or for about as long as the kernel would need. Returns the
    /// number of messages, what the owner has carried out, and whether that is all of them.
    fn carry_out_some(
        &self,
        rank: u32,
        operation: Operation,
        bytes: RawBytes,
        runs: &mut SmallVec<[Run; 8]>,
        last: u64,
    ) -> Result<(u64, Carried, bool)> {
        let owner = self.endpoints[rank as usize];
        let window = name_of(self.peers[rank as usize].control.grant);
        let mut messages = SmallVec::<[Carried; MESSAGES_MAX]>::new();
        let (mut offset, mut pieces, mut is_cut) = (0, 0, false);
        while messages.len() < MESSAGES_MAX && !runs.is_empty() {
            let uhdr = header(window, self.rank(), last + messages.len() as u64 + 1);
            let mut state = self.communicator.state()?;
            let packet = state.context.limits().packet_bytes_max;
            let (mut data, carried) =
                take_pieces(runs, operation, packet.saturating_sub(PACKET_HEAD_BYTES + uhdr.len()));
            // A piece that does not fit, or no credit: its run is not complete any more.
            is_cut = carried.pieces == 0;
            if is_cut {
                break;
            }
            let from = bytes.part(offset, carried.bytes).expect("the bytes of the pieces");
            let head_len = data.len();
            data.resize(head_len + carried.bytes, 0);
            from.copy_to(&mut data[head_len..]);
            let (handler, options) = (handlers::PIECES_OF_WINDOW, AmOptions::default());
            is_cut = state.context.try_amsend(owner, handler, &uhdr, &data, options)? != Posted::Done;
            if is_cut {
                break;
            }
            (offset, pieces) = (offset + carried.bytes, pieces + carried.pieces);
            messages.push(carried);
        }
        let sent = messages.len() as u64;
        let patience = KERNEL_PIECE.saturating_mul(u32::try_from(pieces).unwrap_or(u32::MAX));
        let done = if sent == 0 { last } else { self.wait_or_withdraw(rank, (last, last + sent), patience)? };
        let mut all = Carried::default();
        for (carried, _) in messages.iter().zip(last..done) {
            all = Carried { pieces: all.pieces + carried.pieces, bytes: all.bytes + carried.bytes };
        }
        Ok((sent, all, sent > 0 && done == last + sent && !is_cut))
    }

    /// Waits until the owner has carried out all messages after `last` up to `sent`, or has let `patience` pass. Returns the last message
    /// that is done; the others are withdrawn.
    fn wait_or_withdraw(&self, rank: u32, (last, sent): (u64, u64), patience: Duration) -> Result<u64> {
        let (begun, mut looks) = (Instant::now(), 0);
        loop {
            let may_withdraw = begun.elapsed() >= patience;
            // If the owner has ended, this is an error. Without a mapping, no message was sent.
            let found = self.with_word(rank, 0, |word| match find(word) {
                Found::Done(done) if done == sent || may_withdraw && withdraw(word, done, sent) => Some(done),
                Found::Done(_) | Found::Busy => None,
            })?;
            if let Some(done) = found.unwrap_or(Some(last)) {
                return Ok(done);
            }
            let mut turn = self.communicator.state()?;
            turn.take_in()?;
            turn.pass();
            drop(turn);
            looks += 1;
            if looks % LOOKS_PER_YIELD == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}
