//! Updates of a task's window (MPI 5.0 sections 12.3.4 and 12.3.5).
//!
//! Each element is updated atomically with respect to updates by all other tasks. The method depends only on the element's type and
//! address, and on whether its memory is mapped, so that all tasks choose the same method ([`Update::width`]):
//!
//! - elements of 1, 2, 4 and 8 bytes that are one number, truth value, character or byte, at an address that is a multiple of their size,
//!   in memory that all tasks have mapped: by an atomic operation on the word; rare operations repeat a compare and swap until it succeeds;
//! - all others: under a lock word of the target's window, which names the updating task: read, combined here, written back. If that task
//!   dies, the next one takes the lock over once the process has ended.
//!
//! A whole operation is one access to mapped memory, or takes the lock once. Neither needs progress of the target, unless only the target
//! can access its memory.

use am_core::buffer::{MappedRange, RawBuffer};
use am_core::fabric::{AtomicOp, Fabric, Width};
use bytemuck::NoUninit;

use super::transfer::{Piece, packed};
use super::{TargetData, UPDATING, Window};
use crate::buffer::{self, Datum, RecvData, SendData};
use crate::error::{Error, ErrorClass, Result};
use crate::op::{Op, PredefinedOp};
use crate::policy::{Field, LockPolicy};
use crate::request_id::RequestId;
use mpi_datatype::{Datatype, Kind, Predefined, Visit};

/// Numbers that typed updates work on.
pub trait Number: Datum + Send + Sync {
    /// Their datatype.
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
#[derive(Clone, Copy)]
struct Update<'a> {
    op: PredefinedOp,
    datatype: &'a Datatype,
    basic: Predefined,
    /// The packed elements of the origin; empty for `NoOp`.
    values: &'a [u8],
    /// For a compare and swap, the value that an element must have to be replaced.
    expected: Option<&'a [u8]>,
    /// The destination of the old values, packed; 0 bytes if they are not wanted.
    before: RawBuffer,
}

impl Update<'_> {
    /// [`width_of`] for its elements.
    fn width(&self) -> Option<Width> {
        width_of(self.basic)
    }

    /// [`operation_on`] for its elements.
    fn on_word(&self) -> Option<AtomicOp> {
        operation_on(self.basic, self.op, 0)
    }
    /// Combines the operands from byte `from` on into `later`.
    fn combine(&self, from: usize, later: &mut [u8]) -> Result<()> {
        match self.expected {
            Some(expected) if later == expected => later.copy_from_slice(self.values),
            Some(_) => {}
            None if self.op == PredefinedOp::NoOp => {}
            None => {
                let earlier = &self.values[from..from + later.len()];
                Op::predefined(self.op).reduce_packed(earlier, later, self.datatype)?;
            }
        }
        Ok(())
    }

    /// Updates `len` bytes of mapped words, whose operands are the packed elements from byte `from` on.
    fn on_words(
        &self,
        width: Width,
        range: &MappedRange<'_>,
        place: (usize, usize),
        from: usize,
    ) -> Result<()> {
        match width {
            Width::Bits64 => self.on_words_of::<8>(Width::Bits64, range, place, from),
            Width::Bits32 => self.on_words_of::<4>(Width::Bits32, range, place, from),
            Width::Bits16 => self.on_words_of::<2>(Width::Bits16, range, place, from),
            Width::Bits8 => self.on_words_of::<1>(Width::Bits8, range, place, from),
        }
    }

    #[inline(always)]
    fn on_words_of<const SIZE: usize>(
        &self,
        width: Width,
        range: &MappedRange<'_>,
        (mut offset, len): (usize, usize),
        mut from: usize,
    ) -> Result<()> {
        let operation = self.on_word();
        let end = offset + len;
        while offset < end {
            let value = self.values.get(from..from + SIZE).map_or(0, word::<SIZE>);
            let found = match (self.expected, operation) {
                (Some(expected), _) => {
                    let swap = AtomicOp::CompareSwap { expected: word::<SIZE>(expected), new: value };
                    range.atomic(offset, width, swap)
                }
                // The most frequent operation as a constant for the compiler: an addition is then a few instructions.
                (None, Some(AtomicOp::FetchAdd(_))) => range.atomic(offset, width, AtomicOp::FetchAdd(value)),
                (None, Some(operation)) => range.atomic(offset, width, operation.with_operand(value)),
                (None, None) => self.try_on_word(width, range, offset, from)?,
            };
            let found = found.expect("the caller has checked that these are words");
            if let Some(room) = self.before.part(from, SIZE) {
                room.fill_from(&found.to_le_bytes()[..SIZE]);
            }
            offset += SIZE;
            from += SIZE;
        }
        Ok(())
    }

    /// Updates a word by an operation that the processor does not have; returns the old value.
    #[inline(never)]
    fn try_on_word(
        &self,
        width: Width,
        range: &MappedRange<'_>,
        offset: usize,
        from: usize,
    ) -> Result<Option<u64>> {
        let size = usize::try_from(width.bytes()).expect("8 at most");
        let mut found = range.atomic(offset, width, AtomicOp::FetchOr(0));
        while let Some(expected) = found {
            let mut new = expected.to_le_bytes();
            self.combine(from, &mut new[..size])?;
            let swap = AtomicOp::CompareSwap { expected, new: u64::from_le_bytes(new) };
            found = range.atomic(offset, width, swap);
            if found == Some(expected) {
                break;
            }
        }
        Ok(found)
    }
}

/// The width of the word, if an element is one word.
#[inline]
fn width_of(basic: Predefined) -> Option<Width> {
    match (basic.kind(), basic.size()) {
        (Kind::Complex | Kind::Pair, _) => None,
        (_, 1) => Some(Width::Bits8),
        (_, 2) => Some(Width::Bits16),
        (_, 4) => Some(Width::Bits32),
        (_, 8) => Some(Width::Bits64),
        _ => None,
    }
}

/// Whether compare and swap is defined for the elements.
#[inline]
fn can_compare(basic: Predefined) -> bool {
    matches!(basic.kind(), Kind::Signed | Kind::Unsigned | Kind::Logical | Kind::Bytes | Kind::Character)
}

/// The atomic operation on a word with the same effect.
#[inline]
fn operation_on(basic: Predefined, op: PredefinedOp, operand: u64) -> Option<AtomicOp> {
    let kind = basic.kind();
    // The processor has no operations on half-precision numbers.
    let is_half = kind == Kind::Float && basic.size() == 2;
    Some(match (op, kind) {
        (PredefinedOp::Sum | PredefinedOp::Max | PredefinedOp::Min, _) if is_half => return None,
        (PredefinedOp::Replace, _) => AtomicOp::Swap(operand),
        // An or with 0 changes nothing, and returns the old value.
        (PredefinedOp::NoOp, _) => AtomicOp::FetchOr(0),
        (PredefinedOp::Sum, Kind::Signed | Kind::Unsigned) => AtomicOp::FetchAdd(operand),
        (PredefinedOp::Sum, Kind::Float) => AtomicOp::FetchAddFloat(operand),
        (PredefinedOp::Max, Kind::Signed) => AtomicOp::FetchMaxSigned(operand),
        (PredefinedOp::Max, Kind::Unsigned) => AtomicOp::FetchMax(operand),
        (PredefinedOp::Max, Kind::Float) => AtomicOp::FetchMaxFloat(operand),
        (PredefinedOp::Min, Kind::Signed) => AtomicOp::FetchMinSigned(operand),
        (PredefinedOp::Min, Kind::Unsigned) => AtomicOp::FetchMin(operand),
        (PredefinedOp::Min, Kind::Float) => AtomicOp::FetchMinFloat(operand),
        (PredefinedOp::BitwiseAnd, Kind::Signed | Kind::Unsigned) => AtomicOp::FetchAnd(operand),
        (PredefinedOp::BitwiseOr, Kind::Signed | Kind::Unsigned) => AtomicOp::FetchOr(operand),
        (PredefinedOp::BitwiseXor, Kind::Signed | Kind::Unsigned) => AtomicOp::FetchXor(operand),
        _ => return None,
    })
}

/// Updates blocks of mapped memory if all are words. This is checked first, since a layout may contain both kinds.
struct Words<'a, 'r> {
    update: Update<'a>,
    width: Width,
    range: &'a MappedRange<'r>,
    /// The displacement of the first byte of the range.
    low: i64,
    /// Packed bytes before the next block.
    from: usize,
    /// The outcome so far.
    updated: Result<()>,
}

impl Visit for Words<'_, '_> {
    #[expect(clippy::cast_possible_truncation, reason = "the blocks lie inside the range")]
    fn block(&mut self, at: i64, len: u64) {
        let place = (at.wrapping_sub(self.low).cast_unsigned() as usize, len as usize);
        if self.updated.is_ok() {
            self.updated = self.update.on_words(self.width, self.range, place, self.from);
        }
        self.from += len as usize;
    }
}

/// Whether all blocks begin at multiples of a size.
struct Aligned {
    /// The address of displacement 0.
    base: u64,
    size: u64,
    is_aligned: bool,
}

impl Visit for Aligned {
    fn block(&mut self, at: i64, _len: u64) {
        self.is_aligned &= self.base.wrapping_add_signed(at).is_multiple_of(self.size);
    }
}

impl<F: Fabric, L: LockPolicy> Window<F, L> {
    /// Combines elements of a task's window with those of `origin`, one by one (`MPI_Accumulate`). The updates are done when this returns.
    ///
    /// # Errors
    /// Those of [`put_data`](Self::put_data); a user-defined operation, or one that is not defined for the type; a basic type different
    /// from the target's.
    pub fn accumulate_data(&self, origin: &SendData, target: TargetData<'_>, op: &Op) -> Result<()> {
        self.update("Window::accumulate", Some(origin), None, target, op)
    }

    /// Like [`accumulate_data`](Self::accumulate_data), and returns the old values (`MPI_Get_accumulate`). Without an origin
    /// the operation is [`PredefinedOp::NoOp`].
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

    /// Like [`accumulate_data`](Self::accumulate_data), as a request, which is complete at once (`MPI_Raccumulate`).
    ///
    /// # Errors
    /// Those of [`accumulate_data`](Self::accumulate_data).
    pub fn raccumulate_data(&self, origin: &SendData, target: TargetData<'_>, op: &Op) -> Result<RequestId> {
        self.accumulate_data(origin, target, op)?;
        self.request_that_is_over()
    }

    /// Like [`get_accumulate_data`](Self::get_accumulate_data), as a request, which is complete at once (`MPI_Rget_accumulate`).
    ///
    /// # Errors
    /// Those of [`accumulate_data`](Self::accumulate_data).
    pub fn rget_accumulate_data(
        &self,
        origin: Option<&SendData>,
        result: &RecvData,
        target: TargetData<'_>,
        op: &Op,
    ) -> Result<RequestId> {
        self.get_accumulate_data(origin, result, target, op)?;
        self.request_that_is_over()
    }

    /// Combines elements of a task's window with `count` elements of a datatype, which selects them in `memory` by displacements in bytes;
    /// see [`put_layout`](Self::put_layout).
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
        crate::buffer::lend_elements(memory, elements, |data| self.accumulate_data(&data, target, op))
    }

    /// Replaces one element if it has the expected value, and returns its old value (`MPI_Compare_and_swap`). All three are one element of
    /// `target.datatype`.
    ///
    /// # Errors
    /// Those of [`accumulate_data`](Self::accumulate_data); a type that is not an integer, a truth value, a character or a byte.
    pub fn compare_and_swap_data(
        &self,
        new: &SendData,
        expected: &SendData,
        result: &RecvData,
        target: TargetData<'_>,
    ) -> Result<()> {
        const CALL: &str = "Window::compare_and_swap";
        let is_known = target.datatype.as_predefined().is_some_and(can_compare);
        if !is_known || target.count != 1 {
            let what = "it takes one integer, truth value, character or byte; the value is the count";
            let count = i64::try_from(target.count).unwrap_or(i64::MAX);
            return Err(Error::refused(ErrorClass::Type, CALL, what, count));
        }
        let len = target.datatype.size();
        for given in [new.packed_len(), expected.packed_len(), result.packed_len()] {
            if given != len {
                return Err(wrong_count(CALL, given, len));
            }
        }
        if !self.check_target(CALL, len, target)? {
            return Ok(());
        }
        let basic = target.datatype.basic().expect("the type is predefined");
        with_packed(Some(new), |values| {
            with_packed(Some(expected), |expected| {
                let update = Update {
                    op: PredefinedOp::Replace,
                    datatype: target.datatype,
                    basic,
                    values,
                    expected: Some(expected),
                    before: RawBuffer::EMPTY,
                };
                self.carry_out(CALL, update, target, Some(result))
            })
        })
    }

    /// The fast path of [`get_accumulate_data`](Self::get_accumulate_data): one element that is a word of mapped memory. `value` and the
    /// returned old value are its bytes, lowest first. `None`: nothing was done, and the general call is needed.
    #[inline(never)]
    pub fn try_update(
        &self,
        value: u64,
        at: (u32, i64),
        datatype: Predefined,
        op: PredefinedOp,
    ) -> Option<u64> {
        self.try_on_word(at, width_of(datatype)?, operation_on(datatype, op, value)?)
    }

    /// Like [`try_update`](Self::try_update), for [`compare_and_swap_data`](Self::compare_and_swap_data).
    #[inline(never)]
    pub fn try_compare_and_swap(
        &self,
        (expected, new): (u64, u64),
        at: (u32, i64),
        datatype: Predefined,
    ) -> Option<u64> {
        if !can_compare(datatype) {
            return None;
        }
        self.try_on_word(at, width_of(datatype)?, AtomicOp::CompareSwap { expected, new })
    }

    #[inline(always)]
    fn try_on_word(
        &self,
        (rank, displacement): (u32, i64),
        width: Width,
        operation: AtomicOp,
    ) -> Option<u64> {
        let at = self.locate(rank, displacement, width.bytes())?;
        let mut state = self.communicator.state_briefly()?;
        // Earlier puts must not be overtaken.
        if !self.puts.with(|puts| puts.are_none()) || !state.may_skip_progress() {
            return None;
        }
        state.context.try_with_mapped(at, width.bytes(), |word| word.atomic(0, width, operation))?
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
            return Err(wrong_count(call, given, wanted));
        }
        if origin.is_none() && !is_noop {
            return Err(wrong_count(call, 0, wanted));
        }
        if !self.check_target(call, wanted, target)? {
            return Ok(());
        }
        let Some(basic) = basic else { return Ok(()) };
        with_packed(origin.filter(|_| !is_noop), |values| {
            let before = RawBuffer::EMPTY;
            let datatype = target.datatype;
            let update = Update { op: predefined, datatype, basic, values, expected: None, before };
            self.carry_out(call, update, target, result)
        })
    }

    /// Updates, and stores the old values in `result`.
    fn carry_out(
        &self,
        call: &'static str,
        update: Update<'_>,
        target: TargetData<'_>,
        result: Option<&RecvData>,
    ) -> Result<()> {
        // Earlier puts must not be overtaken.
        self.flush_puts()?;
        let Some(result) = result else { return self.carry_out_into(call, update, target) };
        if let Some(before) = result.as_buffer() {
            return self.carry_out_into(call, Update { before, ..update }, target);
        }
        let len = usize::try_from(result.packed_len()).map_err(|_| Error::TooLarge { call })?;
        let mut packed = vec![0; len];
        buffer::lend_to_receive(&mut packed, |before| {
            self.carry_out_into(call, Update { before, ..update }, target)
        })?;
        result.unpack(0, &packed);
        Ok(())
    }

    fn carry_out_into(&self, call: &'static str, update: Update<'_>, target: TargetData<'_>) -> Result<()> {
        let Some(width) = update.width() else { return self.update_pieces(call, update, target, None) };
        let are_words = self.with_mapped(target, |range, low| {
            let layout = target.datatype.layout(target.count);
            let base = (range.address() as u64).wrapping_sub(low.cast_unsigned());
            let mut aligned = Aligned { base, size: width.bytes(), is_aligned: true };
            layout.visit(0, layout.size(), &mut aligned);
            if !aligned.is_aligned {
                return Ok(None);
            }
            let mut words = Words { update, width, range: &range, low, from: 0, updated: Ok(()) };
            layout.visit(0, layout.size(), &mut words);
            words.updated.map(Some)
        })?;
        match are_words.transpose()?.flatten() {
            Some(()) => Ok(()),
            None => self.update_pieces(call, update, target, Some(width)),
        }
    }

    /// Updates elements that are not all mapped words of one contiguous range: words by atomic operations, all others together under the
    /// target's lock word.
    #[inline(never)]
    fn update_pieces(
        &self,
        call: &'static str,
        update: Update<'_>,
        target: TargetData<'_>,
        width: Option<Width>,
    ) -> Result<()> {
        let (mut others, mut from) = (Vec::new(), 0);
        for piece in self.pieces(call, target)? {
            let is_word = |width: &Width| piece.address.is_multiple_of(width.bytes());
            let updated = match width.filter(is_word) {
                Some(width) => {
                    let state = &mut *self.communicator.state()?;
                    let on_words =
                        |range: MappedRange<'_>| update.on_words(width, &range, (0, piece.len), from);
                    state.context.with_mapped(piece.to, piece.len as u64, on_words)?.transpose()?
                }
                None => None,
            };
            if updated.is_none() {
                others.push((piece, from));
            }
            from += piece.len;
        }
        if others.is_empty() { Ok(()) } else { self.under_lock(update, target.rank, &others) }
    }

    fn under_lock(&self, update: Update<'_>, rank: u32, others: &[(Piece, usize)]) -> Result<()> {
        self.take_updating(rank)?;
        let updated = self.read_and_write(update, others);
        let given = self.on_control(rank, UPDATING, AtomicOp::Swap(0));
        updated.and(given.map(|_| ()))
    }

    fn read_and_write(&self, update: Update<'_>, others: &[(Piece, usize)]) -> Result<()> {
        let pieces: Vec<Piece> = others.iter().map(|&(piece, _)| piece).collect();
        let mut new = vec![0; pieces.iter().map(|piece| piece.len).sum()];
        self.get_slice(&mut new, &pieces)?;
        // Contiguous runs contain whole elements, while a piece may contain part of one.
        let (mut at, mut rest) = (0, others);
        while let [(first, from), ..] = rest {
            let mut len = first.len;
            let run = 1 + rest[1..]
                .iter()
                .take_while(|(piece, next)| {
                    let goes_on = *next == from + len;
                    len += if goes_on { piece.len } else { 0 };
                    goes_on
                })
                .count();
            if let Some(room) = update.before.part(*from, len) {
                room.fill_from(&new[at..at + len]);
            }
            update.combine(*from, &mut new[at..at + len])?;
            at += len;
            rest = &rest[run..];
        }
        if update.op == PredefinedOp::NoOp {
            return Ok(());
        }
        self.put_slice(&new, &pieces)?;
        self.flush_puts()
    }

    /// Takes the lock word of a rank.
    fn take_updating(&self, rank: u32) -> Result<()> {
        let own = u64::from(self.rank()) + 1;
        let mut expected = 0;
        // The updating task needs no other task to finish, and does not ring.
        self.communicator.try_until(|| {
            let found = self.on_control(rank, UPDATING, AtomicOp::CompareSwap { expected, new: own })?;
            if found == expected {
                return Ok(Some(()));
            }
            // Any task may have written the word; one that names no task counts as free.
            let holder =
                found.checked_sub(1).and_then(|holder| self.endpoints.get(usize::try_from(holder).ok()?));
            let has_ended = match holder {
                Some(holder) => self.communicator.state()?.context.has_ended(holder.task),
                None => true,
            };
            expected = if has_ended { found } else { 0 };
            self.communicator.state()?.probe()?;
            Ok(None)
        })
    }

    /// Combines numbers of a task's window with `from`, starting at a displacement in the target's units.
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
        lend(values, |data| self.accumulate_data(&data, target, &op.into()))
    }

    /// Combines numbers of a task's window with `from`; returns the old values.
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
            lend_mut(old, |room| self.get_accumulate_data(Some(&data), &room, target, &op.into()))
        })
    }

    /// Combines one number of a task's window with another; returns the old value (`MPI_Fetch_and_op`).
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
                lend_mut(&mut old, |room| self.compare_and_swap_data(&new, &expected, &room, target))
            })
        })?;
        Ok(old[0])
    }
}

fn lend<T: Number, R>(values: &[T], send: impl FnOnce(SendData) -> Result<R>) -> Result<R> {
    let datatype = Datatype::predefined(T::DATATYPE);
    crate::buffer::lend_elements(values, (values.len() as u64, &datatype), send)
}

fn lend_mut<T: Number, R>(room: &mut [T], receive: impl FnOnce(RecvData) -> Result<R>) -> Result<R> {
    let datatype = Datatype::predefined(T::DATATYPE);
    let count = room.len() as u64;
    crate::buffer::lend_elements_mut(room, (count, &datatype), receive)
}

/// Calls `use_up` with the packed bytes of the origin; with no bytes if there is none.
fn with_packed<R>(origin: Option<&SendData>, use_up: impl FnOnce(&[u8]) -> Result<R>) -> Result<R> {
    match origin.map(|origin| (origin, origin.as_bytes())) {
        None => use_up(&[]),
        Some((_, Some(bytes))) => buffer::with_slice(bytes, use_up),
        Some((origin, None)) => use_up(&packed(origin)?),
    }
}

/// A word of `SIZE` bytes, 8 at most.
#[inline(always)]
fn word<const SIZE: usize>(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..SIZE].copy_from_slice(&bytes[..SIZE]);
    u64::from_le_bytes(word)
}

/// The bytes of a number as the lowest bytes of a word.
fn word_of<T: Number>(value: &T) -> u64 {
    let mut word = [0; 8];
    let bytes = buffer::bytes_of(std::slice::from_ref(value));
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

fn number_of<T: Number>(word: u64) -> T {
    let mut number = [T::zeroed()];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut number);
    bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
    number[0]
}

fn wrong_count(call: &'static str, given: u64, expected: u64) -> Error {
    let [given, expected] = [given, expected].map(|len| usize::try_from(len).unwrap_or(usize::MAX));
    Error::Count { call, given, expected }
}
