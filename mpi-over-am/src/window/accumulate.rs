//! Updates of a task's window (MPI 5.0 sections 12.3.4 and 12.3.5).
//!
//! Each part of a window has a lock word, which names the updating task. Every update, of one element or of many, takes this lock. Updates
//! are therefore atomic with respect to each other for all types, and for tasks on the target's host and on other hosts. If the updating
//! task dies, the next task that wants the lock takes it over once the dead task's process has ended.
//!
//! Under the lock, contiguous elements that this task has mapped are combined in place. Other elements are copied, combined here, and
//! written back: by plain copies if they are mapped, otherwise by a get and a put. This needs no progress of the target, unless only the
//! target can access its memory.

use std::ops::DerefMut;
use std::sync::atomic::{AtomicU64, Ordering};

use am_core::buffer::{Arrived, MappedRange, RawBuffer, RawBytes};
use am_core::fabric::{AtomicOp, Fabric, Width};
use bytemuck::NoUninit;

use super::pieces_by_owner::Carried;
use super::transfer::packed;
use super::{IN_CONTROL, PUTS, Peer, TargetData, WORD_BYTES, Window};
use crate::data::buffer::{self, Datum, InPlace, RecvData, Scatter, SendData};
use crate::data::op::{Op, PredefinedOp};
use crate::error::{Error, ErrorClass, Result};
use crate::message::handlers::Operation;
use crate::message::state::State;
use crate::policy::LockPolicy;
use mpi_datatype::op::{Combine, Word, Words, combine_of, function_of};
use mpi_datatype::{Datatype, Kind, Predefined};

/// Numbers that typed updates work on.
pub trait Number: Datum + Send + Sync {
    /// The elements' datatype.
    const DATATYPE: Predefined;
}

macro_rules! numbers {
    ($($number:ty => $datatype:ident),+) => {
        $(impl Number for $number {
            const DATATYPE: Predefined = Predefined::$datatype;
        })+
    };
}

numbers!(i8 => Int8, u8 => Uint8, i16 => Int16, u16 => Uint16, i32 => Int32, u32 => Uint32, i64 => Int64, u64 => Uint64,
    f32 => Float, f64 => Double);

/// An update of elements of a window.
struct Update<'a> {
    combine: Combine,
    /// Whether the elements stay as they are.
    is_noop: bool,
    /// For an update without a result and a condition: the operation, and the type of the elements, which are contiguous.
    plain: Operation,
    /// The origin's packed elements; empty for `NoOp`.
    values: &'a [u8],
    /// For a compare and swap, the value that an element must have to be replaced.
    expected: Option<&'a [u8]>,
    /// The destination of the old values.
    result: Option<Scatter>,
}

impl Update<'_> {
    /// Updates `elements`, the target's packed elements from byte `offset` on; stores their old values in `result`, if there is one.
    /// Returns whether the elements may have changed.
    fn carry_out(&self, offset: usize, elements: &mut [u8]) -> bool {
        if let Some(result) = &self.result {
            result.place(offset as u64, Arrived::private(elements));
        }
        let is_expected = self.expected.is_none_or(|expected| elements == expected);
        if self.is_noop || !is_expected {
            return false;
        }
        (self.combine)(&self.values[offset..offset + elements.len()], elements);
        true
    }
}

/// Takes a free lock by storing `own`, which names this task, in the lock's word. `None`: the lock is not free.
#[inline(always)]
fn take(word: &AtomicU64, own: u64) -> Option<()> {
    // Acquire: pairs with the Release in `give`. This task then reads what the last holder has written.
    word.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed).ok().map(drop)
}

/// Releases a lock word.
#[inline(always)]
fn give(word: &AtomicU64) {
    // Release: pairs with the Acquire in `take`. The next holder then reads what this one has written.
    word.store(0, Ordering::Release);
}

/// Changes the element at an offset, and returns its old value. `None` if the range does not contain the element.
#[inline(always)]
fn update_at(
    range: &MappedRange<'_>,
    offset: usize,
    size: usize,
    change: impl FnOnce(Word) -> Word,
) -> Option<Word> {
    let mut old = Word::default();
    if !range.read(offset, &mut old[..size]) {
        return None;
    }
    range.write(offset, &change(old)[..size]).then_some(old)
}

/// The size of elements that are updated as a [`Word`]: only the frequent sizes, since the compiler makes code for each.
#[inline(always)]
fn word_bytes(datatype: Predefined) -> Option<usize> {
    match datatype.size() {
        8 if datatype.extent() == 8 => Some(8),
        4 if datatype.extent() == 4 => Some(4),
        _ => None,
    }
}

/// Whether compare and swap accepts the type: one that MPI allows, or a character.
#[inline]
fn can_compare(basic: Predefined) -> bool {
    matches!(basic.kind(), Kind::Signed | Kind::Unsigned | Kind::Logical | Kind::Bytes | Kind::Character)
}

impl<F: Fabric, L: LockPolicy> Window<F, L> {
    /// Combines elements of a task's window with those of `origin`, one by one (`MPI_Accumulate`). The updates are done when the call
    /// returns.
    ///
    /// # Errors
    /// Those of [`put_data`](Self::put_data); a user-defined operation, or one that is not defined for the type; a basic type different
    /// from the target's.
    pub fn accumulate_data(&self, origin: &SendData, target: TargetData<'_>, op: &Op) -> Result<()> {
        self.update("Window::accumulate", Some(origin), None, target, op)
    }

    /// Like [`accumulate_data`](Self::accumulate_data), and stores the old values in `result` (`MPI_Get_accumulate`). Without an origin,
    /// the operation must be [`PredefinedOp::NoOp`].
    ///
    /// # Errors
    /// Those of [`accumulate_data`](Self::accumulate_data).
    pub fn get_accumulate_data(
        &self,
        origin: Option<&SendData>,
        result: &RecvData,
        target: TargetData<'_>,
        op: &Op,
    ) -> Result<()> {
        self.update("Window::get_accumulate", origin, Some(result), target, op)
    }

    /// Combines elements of a task's window with `count` elements of a datatype in `memory`; see [`put_layout`](Self::put_layout).
    ///
    /// # Errors
    /// An element outside `memory`; those of [`accumulate_data`](Self::accumulate_data).
    pub fn accumulate_layout<T: NoUninit>(
        &self,
        memory: &[T],
        elements: (u64, &Datatype),
        target: TargetData<'_>,
        op: &Op,
    ) -> Result<()> {
        crate::data::buffer::lend_elements(memory, elements, |data| self.accumulate_data(&data, target, op))
    }

    /// Replaces one element if it has the expected value, and stores its old value in `result` (`MPI_Compare_and_swap`). The new, the
    /// expected and the old value are one element of `target.datatype` each.
    ///
    /// # Errors
    /// Those of [`accumulate_data`](Self::accumulate_data); a type that is not an integer, a truth value, a character or a byte; a
    /// count other than 1.
    pub fn compare_and_swap_data(
        &self,
        new: &SendData,
        expected: &SendData,
        result: &RecvData,
        target: TargetData<'_>,
    ) -> Result<()> {
        const CALL: &str = "Window::compare_and_swap";
        let known = target.datatype.as_predefined().filter(|&known| can_compare(known) && target.count == 1);
        let Some(combine) = known.and_then(|known| combine_of(PredefinedOp::Replace, known)) else {
            let what = "it takes one integer, truth value, character or byte; the value is the count";
            let count = i64::try_from(target.count).unwrap_or(i64::MAX);
            return Err(Error::refused(ErrorClass::Type, CALL, what, count));
        };
        let len = target.datatype.size();
        for given in [new.packed_len(), expected.packed_len(), result.packed_len()] {
            if given != len {
                return Err(Error::count(CALL, given, len));
            }
        }
        if !self.check_target(CALL, len, target)? {
            return Ok(());
        }
        with_packed(Some(new), |values| {
            with_packed(Some(expected), |expected| {
                let (expected, result) = (Some(expected), Some(result.scatter()));
                let update = Update { combine, is_noop: false, plain: None, values, expected, result };
                self.carry_out(CALL, &update, target)
            })
        })
    }

    /// The fast path of [`get_accumulate_data`](Self::get_accumulate_data): one element of 4 or 8 bytes of mapped memory; returns
    /// its old value. `None`: nothing was done, and the general call is needed.
    #[inline(always)]
    pub fn try_update(
        &self,
        value: Word,
        at: (u32, i64),
        datatype: Predefined,
        op: PredefinedOp,
    ) -> Option<Word> {
        let (size, combine) = (word_bytes(datatype)?, function_of::<Words>(op, datatype)?);
        self.try_on_word(at, size, |word| combine(value, word))
    }

    /// Like [`try_update`](Self::try_update), for [`compare_and_swap_data`](Self::compare_and_swap_data).
    #[inline(always)]
    pub fn try_compare_and_swap(
        &self,
        (expected, new): (Word, Word),
        at: (u32, i64),
        datatype: Predefined,
    ) -> Option<Word> {
        let size = word_bytes(datatype).filter(|_| can_compare(datatype))?;
        // Bytes beyond the element are 0 in all words.
        self.try_on_word(at, size, |word| if word == expected { new } else { word })
    }

    #[inline(always)]
    fn try_on_word(
        &self,
        (rank, displacement): (u32, i64),
        size: usize,
        mut change: impl FnMut(Word) -> Word,
    ) -> Option<Word> {
        let (peer, offset) = self.locate(rank, displacement, size as u64)?;
        let mut state = self.state_for_update()?;
        let offset = usize::try_from(offset).ok()?;
        if peer.word == IN_CONTROL {
            return self.try_apart(&mut state, rank, (offset, size), &mut change);
        }
        self.try_under_lock(&mut state, peer, |part| {
            // With constant sizes the compiler makes each copy a load and a store.
            if size == 8 { update_at(part, offset, 8, change) } else { update_at(part, offset, 4, change) }
        })
    }

    /// The fast path of [`accumulate_data`](Self::accumulate_data) and, if there is a destination for the old values, of
    /// [`get_accumulate_data`](Self::get_accumulate_data): for contiguous elements of mapped memory. `None`: nothing was done, and the
    /// general call is needed.
    #[inline(never)]
    pub fn try_update_all(
        &self,
        values: RawBytes,
        result: Option<RawBuffer>,
        (rank, displacement): (u32, i64),
        datatype: Predefined,
        op: PredefinedOp,
    ) -> Option<()> {
        let change = function_of::<InPlace>(op, datatype).filter(|_| datatype.size() == datatype.extent())?;
        let (peer, offset) = self.locate(rank, displacement, values.len() as u64)?;
        if peer.word == IN_CONTROL {
            return None;
        }
        let mut state = self.state_for_update()?;
        let offset = usize::try_from(offset).ok()?;
        self.try_under_lock(&mut state, peer, |part| {
            buffer::change_mapped(part, offset, values, result, change)
        })
    }

    /// The state, if an update can be carried out at once. `None` also if puts may be under way, because an update must not overtake them.
    #[inline(always)]
    fn state_for_update(&self) -> Option<impl DerefMut<Target = State<F>>> {
        let mut state = self.communicator.state_briefly()?;
        if self.is_brief(PUTS) || !state.may_leave_progress_to_flush() { None } else { Some(state) }
    }

    /// Calls `update` with a part whose lock word is behind its data, while this task holds the lock. `None` if the part is not mapped or
    /// the lock is not free.
    #[inline(always)]
    fn try_under_lock<R>(
        &self,
        state: &mut State<F>,
        peer: &Peer,
        update: impl FnOnce(&MappedRange<'_>) -> Option<R>,
    ) -> Option<R> {
        let len = peer.word.checked_add(WORD_BYTES as u64)?;
        state.context.try_with_mapped(peer.data, len, |part| {
            let word = part.atomic_u64(usize::try_from(peer.word).ok()?)?;
            take(word, self.name_in_word())?;
            let updated = update(&part);
            give(word);
            updated
        })?
    }

    /// [`try_on_word`](Self::try_on_word) for a part whose lock word is in another region: the control memory. Each step looks up its
    /// region again.
    #[inline(never)]
    fn try_apart(
        &self,
        state: &mut State<F>,
        rank: u32,
        (offset, size): (usize, usize),
        change: &mut dyn FnMut(Word) -> Word,
    ) -> Option<Word> {
        self.try_take(state, rank)?;
        let at = self.peers[rank as usize].data.plus(offset as u64);
        let update = |element: MappedRange<'_>| update_at(&element, 0, size, change);
        let before = state.context.try_with_mapped(at, size as u64, update);
        if self.try_give(state, rank).is_none() {
            // If the first handler of the program ran since the lock was taken, the fast path is disabled. The general path fails only if
            // the target has freed the window: then no task needs the lock.
            let at = self.peers[rank as usize].updating();
            let _ = state.context.with_mapped(at, 8, |word| word.atomic_u64(0).map(give));
        }
        before?
    }

    /// What this task stores in a lock's word while it holds the lock: its rank plus 1.
    #[inline(always)]
    fn name_in_word(&self) -> u64 {
        u64::from(self.rank()) + 1
    }

    /// Takes the lock of a rank if the lock's word is mapped and the lock is free.
    #[inline(always)]
    fn try_take(&self, state: &mut State<F>, rank: u32) -> Option<()> {
        let (at, own) = (self.peers[rank as usize].updating(), self.name_in_word());
        state.context.try_with_mapped(at, 8, |word| take(word.atomic_u64(0)?, own))?
    }

    /// Releases the lock of a rank if the lock's word is mapped.
    #[inline(always)]
    fn try_give(&self, state: &mut State<F>, rank: u32) -> Option<()> {
        let at = self.peers[rank as usize].updating();
        state.context.try_with_mapped(at, 8, |word| word.atomic_u64(0).map(give))?
    }

    /// Carries out an atomic operation on the lock word of a rank, mapped or not. Makes progress.
    fn on_updating(&self, rank: u32, operation: AtomicOp) -> Result<u64> {
        self.communicator.rmw(self.peers[rank as usize].updating(), Width::Bits64, operation)
    }

    fn update(
        &self,
        call: &'static str,
        origin: Option<&SendData>,
        result: Option<&RecvData>,
        target: TargetData<'_>,
        op: &Op,
    ) -> Result<()> {
        let Some(predefined) = op.as_predefined() else {
            let what = "windows support predefined operations only; the value is the rank";
            return Err(Error::refused(ErrorClass::Operation, call, what, i64::from(target.rank)));
        };
        if target.count > 0 {
            op.check(target.datatype)?;
        }
        let basic = target.datatype.basic();
        let is_noop = predefined == PredefinedOp::NoOp;
        if let Some(origin) = origin.filter(|_| !is_noop)
            && origin.packed_len() > 0
            && origin.datatype().basic() != basic
        {
            let what = "the basic types of origin and target differ; the value is the rank";
            return Err(Error::refused(ErrorClass::Type, call, what, i64::from(target.rank)));
        }
        let wanted = target.datatype.packed_len(target.count)?;
        let given = [origin.filter(|_| !is_noop).map(SendData::packed_len), result.map(RecvData::packed_len)];
        if let Some(given) = given.into_iter().flatten().find(|&given| given != wanted) {
            return Err(Error::count(call, given, wanted));
        }
        if origin.is_none() && !is_noop {
            return Err(Error::count(call, 0, wanted));
        }
        if !self.check_target(call, wanted, target)? {
            return Ok(());
        }
        // Elements without a basic type have no bytes. For all others, `op.check` has found the operation defined.
        let Some(combine) = basic.and_then(|basic| combine_of(predefined, basic)) else { return Ok(()) };
        with_packed(origin.filter(|_| !is_noop), |values| {
            let result = result.map(RecvData::scatter);
            let is_plain =
                |basic: &Predefined| !is_noop && result.is_none() && basic.size() == basic.extent();
            let plain = basic.filter(is_plain).map(|basic| (predefined, basic));
            let update = Update { combine, is_noop, plain, values, expected: None, result };
            self.carry_out(call, &update, target)
        })
    }

    fn carry_out(&self, call: &'static str, update: &Update<'_>, target: TargetData<'_>) -> Result<()> {
        // Earlier puts must not be overtaken.
        self.flush_puts()?;
        let taken = self.try_take(&mut *self.communicator.state()?, target.rank);
        if taken.is_none() {
            self.take_updating(target.rank)?;
        }
        let updated = self.carry_out_alone(call, update, target);
        // `state_to_end` instead of `state`: the error of an earlier call must not keep this call from releasing the lock.
        let given =
            self.communicator.state_to_end().and_then(|mut state| self.try_give(&mut state, target.rank));
        match given {
            Some(()) => updated,
            None => updated.and(self.on_updating(target.rank, AtomicOp::Swap(0)).map(drop)),
        }
    }

    /// Updates elements under the lock.
    fn carry_out_alone(&self, call: &'static str, update: &Update<'_>, target: TargetData<'_>) -> Result<()> {
        let in_place = |elements: &RecvData| {
            buffer::change_packed(elements, |offset, bytes| update.carry_out(offset, bytes))
        };
        if self.with_mapped_elements(target, in_place)?.is_some() {
            return Ok(());
        }
        let done = match update.plain {
            Some(_) => buffer::lend_to_send(update.values, |data| {
                let bytes = data.as_bytes().expect("bytes are contiguous");
                self.carry_out_by_owner(target, update.plain, bytes)
            })?,
            None => Carried::default(),
        };
        if done.bytes > 0 && done.bytes == update.values.len() {
            return Ok(());
        }
        let pieces = self.pieces(call, target)?;
        let pieces = &pieces[done.pieces..];
        let mut elements = vec![0; pieces.iter().map(|piece| piece.len).sum()];
        self.get_slice(&mut elements, pieces)?;
        if update.carry_out(done.bytes, &mut elements) {
            self.put_slice(&elements, pieces)?;
            self.flush_puts()?;
        }
        Ok(())
    }

    /// Takes the lock of a rank. Waits until the lock is free or its holder has died.
    fn take_updating(&self, rank: u32) -> Result<()> {
        let own = self.name_in_word();
        let mut expected = 0;
        // Polls: the holder rings no doorbell when it releases the lock. The holder needs no help from other tasks for its update.
        self.communicator.try_until(|| {
            let found = self.on_updating(rank, AtomicOp::CompareSwap { expected, new: own })?;
            if found == expected {
                return Ok(Some(()));
            }
            // A wrong program may have written to the word. A value that names no task counts as free.
            let holder = found.checked_sub(1).and_then(|holder| u32::try_from(holder).ok());
            let holder = holder.and_then(|rank| Some((rank, self.endpoints.get(rank as usize)?.task)));
            let has_ended = match holder {
                Some((_, task)) => self.communicator.state()?.context.has_ended(task),
                None => true,
            };
            if let Some((holder, _)) = holder.filter(|_| has_ended) {
                self.refuse_all_of(holder, rank)?;
            }
            expected = if has_ended { found } else { 0 };
            self.communicator.state()?.probe()?;
            Ok(None)
        })
    }

    /// Combines numbers of a task's window with `values`, starting at a displacement in the target's units.
    ///
    /// # Errors
    /// Those of [`accumulate_data`](Self::accumulate_data).
    pub fn accumulate<T: Number>(
        &self,
        values: &[T],
        rank: u32,
        displacement: i64,
        op: PredefinedOp,
    ) -> Result<()> {
        let datatype = Datatype::predefined(T::DATATYPE);
        let target = TargetData { rank, displacement, count: values.len() as u64, datatype: &datatype };
        lend(values, |data| {
            let bytes = data.as_bytes();
            let now = bytes
                .and_then(|bytes| self.try_update_all(bytes, None, (rank, displacement), T::DATATYPE, op));
            now.map_or_else(|| self.accumulate_data(&data, target, &op.into()), Ok)
        })
    }

    /// Combines numbers of a task's window with `values`, starting at a displacement in the target's units; returns the old values.
    ///
    /// # Errors
    /// Those of [`accumulate_data`](Self::accumulate_data).
    pub fn get_accumulate<T: Number>(
        &self,
        values: &[T],
        rank: u32,
        displacement: i64,
        op: PredefinedOp,
    ) -> Result<Vec<T>> {
        let mut old = vec![T::zeroed(); values.len()];
        self.get_accumulate_into(values, &mut old, rank, displacement, op)?;
        Ok(old)
    }

    fn get_accumulate_into<T: Number>(
        &self,
        values: &[T],
        old: &mut [T],
        rank: u32,
        displacement: i64,
        op: PredefinedOp,
    ) -> Result<()> {
        let datatype = Datatype::predefined(T::DATATYPE);
        let target = TargetData { rank, displacement, count: values.len() as u64, datatype: &datatype };
        lend(values, |data| {
            lend_mut(old, |into| {
                let bytes = data.as_bytes().filter(|_| op != PredefinedOp::NoOp);
                let at = (rank, displacement);
                let now =
                    bytes.and_then(|bytes| self.try_update_all(bytes, into.as_buffer(), at, T::DATATYPE, op));
                now.map_or_else(|| self.get_accumulate_data(Some(&data), &into, target, &op.into()), Ok)
            })
        })
    }

    /// Combines `value` into one number of a task's window; returns the number's old value (`MPI_Fetch_and_op`).
    ///
    /// # Errors
    /// Those of [`accumulate_data`](Self::accumulate_data).
    pub fn fetch_and_op<T: Number>(
        &self,
        value: T,
        rank: u32,
        displacement: i64,
        op: PredefinedOp,
    ) -> Result<T> {
        let word = word_of(&value);
        if let Some(found) = self.try_update(word, (rank, displacement), T::DATATYPE, op) {
            return Ok(number_of(found));
        }
        let mut old = [T::zeroed()];
        self.get_accumulate_into(&[value], &mut old, rank, displacement, op)?;
        Ok(old[0])
    }

    /// Replaces one number of a task's window if it has the expected value; returns the old value.
    ///
    /// # Errors
    /// Those of [`compare_and_swap_data`](Self::compare_and_swap_data).
    pub fn compare_and_swap<T: Number>(
        &self,
        expected: T,
        new: T,
        rank: u32,
        displacement: i64,
    ) -> Result<T> {
        let words = (word_of(&expected), word_of(&new));
        if let Some(found) = self.try_compare_and_swap(words, (rank, displacement), T::DATATYPE) {
            return Ok(number_of(found));
        }
        let datatype = Datatype::predefined(T::DATATYPE);
        let target = TargetData { rank, displacement, count: 1, datatype: &datatype };
        let mut old = [T::zeroed()];
        lend(&[new], |new| {
            lend(&[expected], |expected| {
                lend_mut(&mut old, |into| self.compare_and_swap_data(&new, &expected, &into, target))
            })
        })?;
        Ok(old[0])
    }
}

fn lend<T: Number, R>(values: &[T], send: impl FnOnce(SendData) -> Result<R>) -> Result<R> {
    let datatype = Datatype::predefined(T::DATATYPE);
    crate::data::buffer::lend_elements(values, (values.len() as u64, &datatype), send)
}

fn lend_mut<T: Number, R>(into: &mut [T], receive: impl FnOnce(RecvData) -> Result<R>) -> Result<R> {
    let datatype = Datatype::predefined(T::DATATYPE);
    let count = into.len() as u64;
    crate::data::buffer::lend_elements_mut(into, (count, &datatype), receive)
}

/// Calls `use_up` with the packed bytes of the origin; with no bytes if there is no origin.
fn with_packed<R>(origin: Option<&SendData>, use_up: impl FnOnce(&[u8]) -> Result<R>) -> Result<R> {
    match origin.map(|origin| (origin, origin.as_bytes())) {
        None => use_up(&[]),
        Some((_, Some(bytes))) => buffer::with_slice(bytes, use_up),
        Some((origin, None)) => use_up(&packed(origin)?),
    }
}

/// A number of at most 8 bytes as a word.
fn word_of<T: Number>(value: &T) -> Word {
    let mut word = Word::default();
    let bytes = buffer::bytes_of(std::slice::from_ref(value));
    word[..bytes.len()].copy_from_slice(bytes);
    word
}

fn number_of<T: Number>(word: Word) -> T {
    let mut number = [T::zeroed()];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut number);
    bytes.copy_from_slice(&word[..bytes.len()]);
    number[0]
}
