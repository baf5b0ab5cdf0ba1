//! Put and get (MPI 5.0 section 12.3).

use std::sync::atomic::Ordering;

use am_core::buffer::{RawBuffer, RawBytes, RemoteAddress};
use am_core::counter::Counter;
use am_core::error::Outcome;
use am_core::fabric::Fabric;
use am_core::vector::{Block, Layout};
use am_core::{Context, PutOptions};
use bytemuck::{AnyBitPattern, NoUninit};
use smallvec::SmallVec;

use super::{FENCED, Flavor, LOCKED, PUTS, Peer, Puts, Window};
use crate::communicator::Communicator;
use crate::data::buffer::{self, RecvData, SendData};
use crate::error::{Error, Result};
use crate::message::handlers::MpiHandlers;
use crate::message::request_id::RequestId;
use crate::message::state::State;
use crate::policy::{Field, LockPolicy};
use crate::rank::PROC_NULL;
use mpi_datatype::{Datatype, Predefined, Visit};

/// Elements in a task's window: `count` elements of a datatype, starting at a displacement.
#[derive(Clone, Copy, Debug)]
pub struct TargetData<'a> {
    /// The rank whose part of the window is accessed.
    pub rank: u32,
    /// The displacement, in the target's units; in a dynamic window, an address.
    pub displacement: i64,
    /// The number of elements.
    pub count: u64,
    /// The elements' type. All tasks have one architecture, so its layout is the same at the target.
    pub datatype: &'a Datatype,
}

/// Contiguous bytes of a task's window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) to: RemoteAddress,
    pub(super) len: usize,
}

pub(super) type Pieces = SmallVec<[Piece; 4]>;

/// Maximum number of pieces in flight at a time.
const UNDER_WAY_MAX: usize = 4096;
/// Elements whose pieces are at most this far apart, on average, are read with the gaps between them: another piece takes longer than this
/// many bytes, whoever copies.
const SPREAD_BYTES_MAX: u64 = 2048;
/// Maximum bytes that are read for elements and the gaps between them.
const WITH_GAPS_BYTES_MAX: u64 = 32 << 20;

/// The pieces of a layout.
#[derive(Default)]
struct Collected(SmallVec<[(i64, u64); 4]>);

impl Visit for Collected {
    fn block(&mut self, at: i64, len: u64) {
        self.0.push((at, len));
    }
}

/// The number of pieces of a layout.
#[derive(Default)]
struct Counted(u64);

impl Visit for Counted {
    fn block(&mut self, _at: i64, _len: u64) {
        self.0 += 1;
    }

    fn strided(&mut self, _at: i64, _len: u64, _stride: i64, count: u64) {
        self.0 += count;
    }
}

fn are_in_one_region(one: &Piece, other: &Piece) -> bool {
    one.to.grant == other.to.grant
}

/// The layout of pieces of a region, and the region's address.
fn layout(first: &Piece, pieces: &[Piece]) -> am_core::error::Result<(RemoteAddress, Layout)> {
    let (from, len) = (first.to.offset, first.len as u64);
    let stride = pieces.get(1).and_then(|second| second.to.offset.checked_sub(from)).unwrap_or(0);
    let at = |place: u64| from.wrapping_add(place.wrapping_mul(stride));
    let is_strided = stride >= len
        && pieces
            .iter()
            .zip(0..)
            .all(|(piece, place)| piece.len == first.len && piece.to.offset == at(place));
    let layout = if is_strided {
        Layout::strided(from, len, stride, pieces.len() as u64)
    } else {
        Layout::list(pieces.iter().map(|piece| Block { offset: piece.to.offset, len: piece.len as u64 }))
    };
    Ok((RemoteAddress { offset: 0, ..first.to }, layout?))
}

impl<F: Fabric, L: LockPolicy> Window<F, L> {
    /// Copies elements to a task's window (`MPI_Put`). The origin's memory may be reused when the call returns. The elements are certain to
    /// be stored at the target after a flush, or at the end of the epoch.
    ///
    /// # Errors
    /// An unknown rank; no epoch is open for the rank; elements outside the window; different lengths of origin and target; the death of a
    /// task.
    pub fn put_data(&self, origin: &SendData, target: TargetData<'_>) -> Result<()> {
        if !self.check_target("Window::put", origin.packed_len(), target)? {
            return Ok(());
        }
        match self.with_mapped_elements(target, |to| origin.copy_to(to))? {
            Some(_) => Ok(()),
            None => self.put_slowly(origin, target),
        }
    }

    /// The fast path of [`put_data`](Self::put_data), for contiguous bytes to mapped memory. Returns whether the put was done; if not, the
    /// caller must call `put_data`.
    #[inline(always)]
    pub fn try_put(&self, from: RawBytes, rank: u32, displacement: i64) -> bool {
        let Some((peer, offset)) = self.locate(rank, displacement, from.len() as u64) else { return false };
        let Some(mut state) = self.communicator.state_briefly() else { return false };
        buffer::put_mapped(&mut state.context, peer.data.plus(offset), from)
    }

    /// Like [`try_put`](Self::try_put), for [`get_data`](Self::get_data).
    #[inline(always)]
    pub fn try_get(&self, to: RawBuffer, rank: u32, displacement: i64) -> bool {
        let Some((peer, offset)) = self.locate(rank, displacement, to.len() as u64) else { return false };
        let Some(mut state) = self.communicator.state_briefly() else { return false };
        buffer::get_mapped(&mut state.context, peer.data.plus(offset), to)
    }

    /// Finds `len` bytes of the window of `rank`: the rank's record, and the bytes' offset. `None` if this task may not access these bytes
    /// now, or if the window is dynamic.
    #[inline(always)]
    pub(super) fn locate(&self, rank: u32, displacement: i64, len: u64) -> Option<(&Peer, u64)> {
        let peer = self.peers.get(rank as usize)?;
        // As an unsigned number, a negative offset exceeds every window.
        let offset = displacement.checked_mul(peer.unit.cast_signed())?.cast_unsigned();
        let is_inside = offset <= peer.size && len <= peer.size - offset;
        if !is_inside {
            return None;
        }
        let is_open = self.is_brief(FENCED | LOCKED) || self.epochs.with(|epochs| epochs.is_open(rank));
        is_open.then_some((peer, offset))
    }

    /// Whether one of these bits of [`Window::brief`] is set.
    #[inline(always)]
    pub(super) fn is_brief(&self, bits: u8) -> bool {
        // Relaxed: the program orders its threads' calls where one depends on another.
        self.brief.load(Ordering::Relaxed) & bits != 0
    }

    #[inline(never)]
    fn put_slowly(&self, origin: &SendData, target: TargetData<'_>) -> Result<()> {
        match origin.as_bytes() {
            Some(bytes) => self.put_bytes(bytes, target),
            None => buffer::lend_to_send(&packed(origin)?, |data| {
                self.put_bytes(data.as_bytes().expect("bytes are contiguous"), target)
            }),
        }
    }

    fn put_bytes(&self, bytes: RawBytes, target: TargetData<'_>) -> Result<()> {
        let done = self.carry_out_by_owner(target, None, bytes)?;
        match bytes.part(done.bytes, bytes.len() - done.bytes) {
            Some(rest) if !rest.is_empty() || done.bytes == 0 => {
                self.put_pieces(rest, &self.pieces("Window::put", target)?[done.pieces..])
            }
            _ => Ok(()),
        }
    }

    /// Copies elements from a task's window (`MPI_Get`). The elements have arrived when the call returns.
    ///
    /// # Errors
    /// Those of [`put_data`](Self::put_data).
    pub fn get_data(&self, origin: &RecvData, target: TargetData<'_>) -> Result<()> {
        if !self.check_target("Window::get", origin.packed_len(), target)? {
            return Ok(());
        }
        match self.with_mapped_elements(target, |from| from.as_send().copy_to(origin))? {
            Some(_) => Ok(()),
            None => self.get_slowly(origin, target),
        }
    }

    #[inline(never)]
    fn get_slowly(&self, origin: &RecvData, target: TargetData<'_>) -> Result<()> {
        if let Some((at, len)) = self.close_together(target)? {
            let mut bytes = vec![0u8; len];
            self.get_slice(&mut bytes, &[Piece { to: at, len }])?;
            let elements = (target.count, target.datatype);
            return buffer::lend_elements(&bytes, elements, |data| {
                data.copy_to(origin);
                Ok(())
            });
        }
        let pieces = self.pieces("Window::get", target)?;
        if let Some(into) = origin.as_buffer() {
            return self.get_pieces(into, &pieces);
        }
        let len = usize::try_from(origin.packed_len()).map_err(|_| Error::TooLarge { call: "a get" })?;
        let mut bytes = vec![0; len];
        self.get_slice(&mut bytes, &pieces)?;
        origin.unpack(0, &bytes);
        Ok(())
    }

    /// Copies `count` elements of a datatype from `memory` to a task's window. The datatype's displacements are bytes in `memory`; see
    /// [`View::new`](crate::View::new).
    ///
    /// # Errors
    /// An element outside `memory`; those of [`put_data`](Self::put_data).
    pub fn put_layout<T: NoUninit>(
        &self,
        memory: &[T],
        elements: (u64, &Datatype),
        target: TargetData<'_>,
    ) -> Result<()> {
        buffer::lend_elements(memory, elements, |data| self.put_data(&data, target))
    }

    /// Copies elements from a task's window to `count` elements of a datatype in `memory`.
    ///
    /// # Errors
    /// Those of [`put_layout`](Self::put_layout).
    pub fn get_layout<T: AnyBitPattern>(
        &self,
        memory: &mut [T],
        elements: (u64, &Datatype),
        target: TargetData<'_>,
    ) -> Result<()> {
        buffer::lend_elements_mut(memory, elements, |data| self.get_data(&data, target))
    }

    /// Copies elements to a task's window, starting at a displacement in the target's units.
    ///
    /// # Errors
    /// Those of [`put_data`](Self::put_data).
    pub fn put<T: NoUninit>(&self, from: &[T], rank: u32, displacement: i64) -> Result<()> {
        buffer::lend_raw(buffer::bytes_of(from), |bytes| {
            if self.try_put(bytes, rank, displacement) {
                return Ok(());
            }
            self.put_data(&SendData::from_bytes(bytes), bytes_at(rank, displacement, bytes.len()))
        })
    }

    /// Copies elements from a task's window, starting at a displacement in the target's units.
    ///
    /// # Errors
    /// Those of [`put_data`](Self::put_data).
    pub fn get<T: AnyBitPattern>(&self, to: &mut [T], rank: u32, displacement: i64) -> Result<()> {
        buffer::lend_to_receive(to, |into| {
            if self.try_get(into, rank, displacement) {
                return Ok(());
            }
            self.get_data(&RecvData::from_buffer(into), bytes_at(rank, displacement, into.len()))
        })
    }

    /// Starts a [put](Self::put_data) of contiguous bytes without waiting. The transfers that this call has begun and that are still under
    /// way are added to `started`, even if the call then fails.
    ///
    /// # Errors
    /// Those of [`put_data`](Self::put_data).
    pub(crate) fn start_put(
        &self,
        bytes: RawBytes,
        target: TargetData<'_>,
        started: &mut Vec<Started>,
    ) -> Result<()> {
        if !self.check_target("Window::put", bytes.len() as u64, target)? {
            return Ok(());
        }
        self.start_puts(bytes, &self.pieces("Window::put", target)?, started)
    }

    /// Starts puts of bytes to pieces of the same total length: one for all pieces that follow each other in one region.
    fn start_puts(&self, bytes: RawBytes, pieces: &[Piece], started: &mut Vec<Started>) -> Result<()> {
        let mut state = self.communicator.state()?;
        let mut offset = 0;
        for pieces in pieces.chunk_by(are_in_one_region) {
            let len = pieces.iter().map(|piece| piece.len).sum();
            let part = bytes.part(offset, len).expect("the lengths were compared");
            offset += len;
            if let [piece] = pieces
                && buffer::put_mapped(&mut state.context, piece.to, part)
            {
                continue;
            }
            let placed = self.puts.with(|puts| puts.counter());
            let options = PutOptions { completion: Some(placed), ..PutOptions::default() };
            start(&mut state, started, Some(placed), |context, request| match pieces {
                [first, _, ..] => {
                    let (to, layout) = layout(first, pieces)?;
                    buffer::put_pieces(context, (to, &layout), part, options, request)
                }
                [piece] => buffer::put(context, piece.to, part, options, request),
                [] => Ok(Outcome::Done),
            })?;
            self.puts.with(Puts::add);
            self.brief.fetch_or(PUTS, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Like [`start_put`](Self::start_put), for a [get](Self::get_data) into contiguous memory.
    ///
    /// # Errors
    /// Those of [`get_data`](Self::get_data).
    pub(crate) fn start_get(
        &self,
        into: RawBuffer,
        target: TargetData<'_>,
        started: &mut Vec<Started>,
    ) -> Result<()> {
        if !self.check_target("Window::get", into.len() as u64, target)? {
            return Ok(());
        }
        self.start_gets(into, &self.pieces("Window::get", target)?, started)
    }

    /// Starts gets from pieces into memory of the same total length: one for all pieces that follow each other in one region.
    fn start_gets(&self, into: RawBuffer, pieces: &[Piece], started: &mut Vec<Started>) -> Result<()> {
        let mut state = self.communicator.state()?;
        let mut offset = 0;
        for pieces in pieces.chunk_by(are_in_one_region) {
            let len = pieces.iter().map(|piece| piece.len).sum();
            let part = into.part(offset, len).expect("the lengths were compared");
            offset += len;
            if let [piece] = pieces
                && buffer::get_mapped(&mut state.context, piece.to, part)
            {
                continue;
            }
            start(&mut state, started, None, |context, request| match pieces {
                [first, _, ..] => {
                    let (from, layout) = layout(first, pieces)?;
                    buffer::get_pieces(context, (from, &layout), part, request)
                }
                [piece] => buffer::get(context, piece.to, part, request),
                [] => Ok(Outcome::Done),
            })?;
        }
        Ok(())
    }

    /// Copies bytes to pieces of the same total length; other threads may make calls meanwhile. When the call returns, nothing uses the
    /// bytes any more.
    fn put_pieces(&self, bytes: RawBytes, pieces: &[Piece]) -> Result<()> {
        let mut offset = 0;
        pieces.chunks(UNDER_WAY_MAX).try_for_each(|pieces| {
            let len = pieces.iter().map(|piece| piece.len).sum();
            let part = bytes.part(offset, len).expect("the lengths were compared");
            offset += len;
            self.transfer(|started| self.start_puts(part, pieces, started))
        })
    }

    /// Like [`put_pieces`](Self::put_pieces), for a slice.
    pub(super) fn put_slice(&self, bytes: &[u8], pieces: &[Piece]) -> Result<()> {
        buffer::lend_to_send(bytes, |data| {
            self.put_pieces(data.as_bytes().expect("bytes are contiguous"), pieces)
        })
    }

    /// Copies pieces into memory of the same total length; like [`put_pieces`](Self::put_pieces).
    fn get_pieces(&self, into: RawBuffer, pieces: &[Piece]) -> Result<()> {
        let mut offset = 0;
        pieces.chunks(UNDER_WAY_MAX).try_for_each(|pieces| {
            let len = pieces.iter().map(|piece| piece.len).sum();
            let part = into.part(offset, len).expect("the lengths were compared");
            offset += len;
            self.transfer(|started| self.start_gets(part, pieces, started))
        })
    }

    /// Like [`get_pieces`](Self::get_pieces), into a slice.
    pub(super) fn get_slice<T: AnyBitPattern>(&self, into: &mut [T], pieces: &[Piece]) -> Result<()> {
        buffer::lend_to_receive(into, |into| self.get_pieces(into, pieces))
    }

    /// Starts puts or gets and waits for them; nothing uses their memory any more when the call returns or unwinds.
    fn transfer(&self, start: impl FnOnce(&mut Vec<Started>) -> Result<()>) -> Result<()> {
        let mut under_way = UnderWay { communicator: &self.communicator, started: Vec::new() };
        start(&mut under_way.started)?;
        under_way.wait_for_all_but(0)
    }

    /// Starts puts or gets; returns the request of one that is still under way, if any. The call waits for the others.
    ///
    /// # Errors
    /// Those of `start`, and of the transfers that the call waits for. Nothing uses their memory any more.
    pub(super) fn start_one(
        &self,
        start: impl FnOnce(&mut Vec<Started>) -> Result<()>,
    ) -> Result<Option<RequestId>> {
        let mut under_way = UnderWay { communicator: &self.communicator, started: Vec::new() };
        start(&mut under_way.started)?;
        under_way.wait_for_all_but(1)?;
        Ok(under_way.started.pop().map(|started| started.request))
    }

    /// Makes all checks except whether the elements lie inside the window. Returns whether there is anything to do.
    ///
    /// # Errors
    /// An unknown rank; no epoch is open for the rank; different lengths of origin and target.
    pub(super) fn check_target(&self, call: &'static str, len: u64, target: TargetData<'_>) -> Result<bool> {
        if !self.check_access(call, target.rank)? {
            return Ok(false);
        }
        let wanted = target.datatype.packed_len(target.count)?;
        if wanted != len {
            return Err(Error::count(call, len, wanted));
        }
        Ok(len > 0 || target.count > 0)
    }

    /// Checks that this task may access the window of a rank. Returns false for [`PROC_NULL`].
    ///
    /// # Errors
    /// An unknown rank; no epoch is open for the rank.
    pub(super) fn check_access(&self, call: &'static str, rank: u32) -> Result<bool> {
        if rank == PROC_NULL {
            return Ok(false);
        }
        self.check_rank(rank)?;
        self.epochs.with(|epochs| epochs.check_access(call, rank)).map(|()| true)
    }

    /// Lends `call` the elements of a window, if this task has mapped all of them in one piece: one check then serves the whole operation.
    pub(super) fn with_mapped_elements<R>(
        &self,
        target: TargetData<'_>,
        call: impl FnOnce(&RecvData) -> R,
    ) -> Result<Option<R>> {
        let (low, high) = match target.datatype.as_predefined() {
            Some(predefined) if predefined.size() == predefined.extent() => {
                (0, predefined.size().wrapping_mul(target.count).cast_signed())
            }
            _ => target.datatype.span(target.count)?,
        };
        let len = high.wrapping_sub(low).cast_unsigned();
        // The general path reports elements outside the window.
        let Some(at) = self.in_one_piece(target.rank, target.displacement, low, len)? else {
            return Ok(None);
        };
        let state = &mut *self.communicator.state()?;
        Ok(state.context.with_mapped(at, len, |range| {
            buffer::with_mapped_elements(&range, low, (target.count, target.datatype), call)
        })?)
    }

    /// If the elements are of several pieces that are close together: the address of bytes that contain all of them, from the displacement
    /// on, and their number.
    fn close_together(&self, target: TargetData<'_>) -> Result<Option<(RemoteAddress, usize)>> {
        let (low, high) = target.datatype.span(target.count)?;
        let mut pieces = Counted::default();
        target.datatype.layout(target.count).visit(0, target.datatype.packed_len(target.count)?, &mut pieces);
        let len = u64::try_from(high).unwrap_or(0);
        let is_close = len / SPREAD_BYTES_MAX <= pieces.0 && len <= WITH_GAPS_BYTES_MAX;
        if low < 0 || pieces.0 < 2 || !is_close {
            return Ok(None);
        }
        let at = self.in_one_piece(target.rank, target.displacement, 0, len)?;
        Ok(at.zip(usize::try_from(len).ok()))
    }

    /// The address of `len` bytes of a window, from offset `low` after the displacement on, if they lie inside the window and are
    /// contiguous.
    fn in_one_piece(
        &self,
        rank: u32,
        displacement: i64,
        low: i64,
        len: u64,
    ) -> Result<Option<RemoteAddress>> {
        let peer = &self.peers[rank as usize];
        let offset = displacement.checked_mul(peer.unit.cast_signed()).and_then(|at| at.checked_add(low));
        let Some(offset) = offset.and_then(|offset| u64::try_from(offset).ok()) else { return Ok(None) };
        if self.flavor == Flavor::Dynamic {
            return self.find_one(rank, offset, len);
        }
        let is_inside = offset.checked_add(len).is_some_and(|end| end <= peer.size);
        Ok(is_inside.then(|| peer.data.plus(offset)))
    }

    /// The contiguous pieces that elements of a window consist of.
    ///
    /// # Errors
    /// Elements outside the window.
    pub(super) fn pieces(&self, call: &'static str, target: TargetData<'_>) -> Result<Pieces> {
        if self.flavor == Flavor::Dynamic {
            self.refresh(target.rank)?;
        }
        let wanted = target.datatype.packed_len(target.count)?;
        let mut blocks = Collected::default();
        target.datatype.layout(target.count).visit(0, wanted, &mut blocks);
        let mut pieces = Pieces::new();
        for (at, block) in blocks.0 {
            self.place(target.rank, target.displacement, at, block, |to, len| {
                let len = usize::try_from(len).map_err(|_| Error::TooLarge { call })?;
                pieces.push(Piece { to, len });
                Ok(())
            })?;
        }
        Ok(pieces)
    }

    /// Finds bytes of a task's window: calls `each` for each contiguous piece, with its length.
    fn place(
        &self,
        rank: u32,
        displacement: i64,
        at: i64,
        len: u64,
        mut each: impl FnMut(RemoteAddress, u64) -> Result<()>,
    ) -> Result<()> {
        let peer = self.peers[rank as usize];
        let offset = i128::from(displacement) * i128::from(peer.unit) + i128::from(at);
        let clamped = i64::try_from(offset).unwrap_or(if offset < 0 { i64::MIN } else { i64::MAX });
        if self.flavor == Flavor::Dynamic {
            return self.find(rank, clamped, len, each);
        }
        let inside = u64::try_from(offset)
            .ok()
            .filter(|offset| offset.checked_add(len).is_some_and(|end| end <= peer.size));
        let outside = Error::OutsideWindow { rank, offset: clamped, len, size: peer.size };
        let offset = inside.ok_or(outside)?;
        each(peer.data.plus(offset), len)
    }
}

/// Describes bytes of a window.
fn bytes_at(rank: u32, displacement: i64, len: usize) -> TargetData<'static> {
    static BYTE: Datatype = Datatype::predefined(Predefined::Byte);
    TargetData { rank, displacement, count: len as u64, datatype: &BYTE }
}

/// The packed bytes of elements that are not contiguous.
pub(crate) fn packed(data: &SendData) -> Result<Vec<u8>> {
    let len = usize::try_from(data.packed_len()).map_err(|_| Error::TooLarge { call: "a put" })?;
    let mut bytes = vec![0; len];
    data.pack(0, &mut bytes);
    Ok(bytes)
}

/// A put or get that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Started {
    pub(crate) request: RequestId,
    /// For a put: the counter that its success bumps.
    placed: Option<Counter>,
}

/// Puts and gets under way that use memory of the caller.
struct UnderWay<'a, F: Fabric, L: LockPolicy> {
    communicator: &'a Communicator<F, L>,
    started: Vec<Started>,
}

impl<F: Fabric, L: LockPolicy> UnderWay<'_, F, L> {
    /// Waits for the last transfers, until only the first `left` ones may be under way.
    fn wait_for_all_but(&mut self, left: usize) -> Result<()> {
        while self.started.len() > left
            && let Some(&next) = self.started.last()
        {
            // `state_to_end` instead of `state`: the error of an earlier call must not replace the result of this call.
            let mut state = self.communicator.state_to_end().ok_or(Error::Nested)?;
            state.wait_over(next.request)?;
            self.started.pop();
            end_started(&mut state, next)?;
        }
        Ok(())
    }
}

impl<F: Fabric, L: LockPolicy> Drop for UnderWay<'_, F, L> {
    /// Ends the transfers that are under way after a failure: nothing may use the memory when the call returns.
    fn drop(&mut self) {
        for started in self.started.drain(..) {
            let mut state = self.communicator.state_or_abort("a transfer of a window");
            crate::message::progress::end(&mut state, started.request);
            // The caller gets the first error.
            let _ = end_started(&mut state, started);
        }
    }
}

/// Starts a put or get as a request. If it is not complete at once, adds the request to `started`.
fn start<F: Fabric>(
    state: &mut State<F>,
    started: &mut Vec<Started>,
    placed: Option<Counter>,
    begin: impl FnOnce(&mut Context<F, MpiHandlers>, u64) -> am_core::error::Result<Outcome>,
) -> Result<()> {
    let request = state.handlers().requests.insert(false);
    let begun = begin(&mut state.context, request.number());
    match begun {
        Ok(Outcome::Posted) => {
            state.handlers().requests.hold(request);
            started.push(Started { request, placed });
        }
        Ok(_) | Err(_) => state.handlers().requests.forget(request),
    }
    Ok(begun.map(|_| ())?)
}

/// Takes the result of a put or get that is complete. Counts a failed put as stored, so that flushes do not wait for it.
///
/// # Errors
/// The error of the transfer.
pub(crate) fn end_started<F: Fabric>(
    state: &mut State<F>,
    Started { request, placed }: Started,
) -> Result<()> {
    let ended = state.handlers().requests.take(request);
    if let (Err(_), Some(counter)) = (&ended, placed)
        && let Ok(value) = state.context.counter_value(counter)
    {
        state.context.set_counter(counter, value + 1)?;
    }
    ended.map(|_| ())
}
