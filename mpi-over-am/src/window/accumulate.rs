//! Updates of a task's window (MPI 5.0 sections 12.3.4 and 12.3.5).
//!
//! Each element is updated in one piece, whichever other tasks update it. Which way that goes depends on the element alone, its type
//! and its place, so that all tasks go the same ([`Update::width`], [`word_at`]):
//!
//! - elements of 1, 2, 4 and 8 bytes that are one number, truth value, character or byte, at an address that is a multiple of their
//!   size: by an atomic operation on the word, which for the rarer operations is tried until no other task came between;
//! - all others: under a word of the target's window that names the task which updates: read, combined here, written back. If that
//!   task dies meanwhile, the next one takes the word over when the process has ended.
//!
//! Memory that all tasks have mapped needs nothing of its owner for either. In other memory the owner carries the operations on words
//! out, for every task, itself included.

use am_core::fabric::{AtomicOp, Fabric, Width};
use am_core::{Accumulation, Context, PutOptions, RmwHandle};
use bytemuck::NoUninit;

use super::transfer::{Piece, Pieces, packed};
use super::{TargetData, UPDATING, Window};
use crate::buffer::{Datum, RecvData, SendData};
use crate::error::{Error, ErrorClass, Result};
use crate::handlers::MpiHandlers;
use crate::op::{Op, PredefinedOp};
use crate::policy::LockPolicy;
use crate::request::RequestId;
use mpi_datatype::{Datatype, Kind, Predefined};

/// Numbers that typed updates know.
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

/// An update: what is done with the elements of some pieces of a window.
struct Update<'a> {
    op: PredefinedOp,
    datatype: &'a Datatype,
    basic: Predefined,
    /// The packed elements of the origin; none for `NoOp`.
    values: &'a [u8],
    /// What must be there for an element to be replaced.
    expected: Option<&'a [u8]>,
}

impl Update<'_> {
    /// The width of the word that an element is, if it is one.
    fn width(&self) -> Option<Width> {
        match (self.basic.kind(), self.basic.size()) {
            (Kind::Complex | Kind::Pair, _) => None,
            (_, 1) => Some(Width::Bits8),
            (_, 2) => Some(Width::Bits16),
            (_, 4) => Some(Width::Bits32),
            (_, 8) => Some(Width::Bits64),
            _ => None,
        }
    }

    /// The operation on a word that does the same.
    fn on_words(&self) -> Option<AtomicOp> {
        let kind = self.basic.kind();
        // Of these the processor knows no operation at all.
        let is_half = kind == Kind::Float && self.basic.size() == 2;
        Some(match (self.op, kind) {
            (PredefinedOp::Sum | PredefinedOp::Max | PredefinedOp::Min, _) if is_half => return None,
            (PredefinedOp::Replace, _) => AtomicOp::Swap(0),
            // Nothing is added, and the old value comes back.
            (PredefinedOp::NoOp, _) => AtomicOp::FetchOr(0),
            (PredefinedOp::Sum, Kind::Signed | Kind::Unsigned) => AtomicOp::FetchAdd(0),
            (PredefinedOp::Sum, Kind::Float) => AtomicOp::FetchAddFloat(0),
            (PredefinedOp::Max, Kind::Signed) => AtomicOp::FetchMaxSigned(0),
            (PredefinedOp::Max, Kind::Unsigned) => AtomicOp::FetchMax(0),
            (PredefinedOp::Max, Kind::Float) => AtomicOp::FetchMaxFloat(0),
            (PredefinedOp::Min, Kind::Signed) => AtomicOp::FetchMinSigned(0),
            (PredefinedOp::Min, Kind::Unsigned) => AtomicOp::FetchMin(0),
            (PredefinedOp::Min, Kind::Float) => AtomicOp::FetchMinFloat(0),
            (PredefinedOp::BitwiseAnd, Kind::Signed | Kind::Unsigned) => AtomicOp::FetchAnd(0),
            (PredefinedOp::BitwiseOr, Kind::Signed | Kind::Unsigned) => AtomicOp::FetchOr(0),
            (PredefinedOp::BitwiseXor, Kind::Signed | Kind::Unsigned) => AtomicOp::FetchXor(0),
            _ => return None,
        })
    }

    /// The operation on whole arrays that does the same.
    fn on_arrays(&self) -> Option<Accumulation> {
        Some(match self.op {
            PredefinedOp::Sum => Accumulation::Add,
            PredefinedOp::Max => Accumulation::Max,
            PredefinedOp::Min => Accumulation::Min,
            PredefinedOp::Replace => Accumulation::Replace,
            _ => return None,
        })
    }

    /// What elements come to: `later` becomes that.
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
}

impl<F: Fabric, L: LockPolicy> Window<F, L> {
    /// Combines elements of a task's window with others, one by one (`MPI_Accumulate`). All are updated when this returns.
    ///
    /// # Errors
    /// As for [`put_data`](Self::put_data); an operation of the program's own, or one that the type does not know; elements of
    /// another basic type than the target's.
    pub fn accumulate_data(&self, origin: &SendData, target: TargetData<'_>, op: &Op) -> Result<()> {
        self.update("Window::accumulate", Some(origin), None, target, op)
    }

    /// As [`accumulate_data`](Self::accumulate_data), and gives what was there before (`MPI_Get_accumulate`). Without an origin
    /// the operation is [`PredefinedOp::NoOp`].
    ///
    /// # Errors
    /// As for [`accumulate_data`](Self::accumulate_data).
    pub fn get_accumulate_data(
        &self,
        origin: Option<&SendData>,
        result: &RecvData,
        target: TargetData<'_>,
        op: &Op,
    ) -> Result<()> {
        self.update("Window::get_accumulate", origin, Some(result), target, op)
    }

    /// As [`accumulate_data`](Self::accumulate_data), as a request, which is over (`MPI_Raccumulate`).
    ///
    /// # Errors
    /// As for [`accumulate_data`](Self::accumulate_data).
    pub fn raccumulate_data(&self, origin: &SendData, target: TargetData<'_>, op: &Op) -> Result<RequestId> {
        self.accumulate_data(origin, target, op)?;
        self.request_that_is_over()
    }

    /// As [`get_accumulate_data`](Self::get_accumulate_data), as a request, which is over (`MPI_Rget_accumulate`).
    ///
    /// # Errors
    /// As for [`accumulate_data`](Self::accumulate_data).
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

    /// Combines elements of a task's window with `count` elements of a datatype, which picks them from `memory` by displacements in
    /// bytes; see [`put_layout`](Self::put_layout).
    ///
    /// # Errors
    /// Elements that lie outside of `memory`; as for [`accumulate_data`](Self::accumulate_data).
    pub fn accumulate_layout<T: NoUninit>(
        &self,
        memory: &[T],
        elements: (u64, &Datatype),
        target: TargetData<'_>,
        op: &Op,
    ) -> Result<()> {
        crate::buffer::lend_elements(memory, elements, |data| self.accumulate_data(&data, target, op))
    }

    /// Replaces one element if it is the expected one, and gives what was there (`MPI_Compare_and_swap`). All are one element of
    /// `target.datatype`.
    ///
    /// # Errors
    /// As for [`accumulate_data`](Self::accumulate_data); a type that is neither a whole number nor a truth value nor a byte.
    pub fn compare_and_swap_data(
        &self,
        new: &SendData,
        expected: &SendData,
        result: &RecvData,
        target: TargetData<'_>,
    ) -> Result<()> {
        const CALL: &str = "Window::compare_and_swap";
        let kind = target.datatype.as_predefined().map(Predefined::kind);
        let is_known = matches!(
            kind,
            Some(Kind::Signed | Kind::Unsigned | Kind::Logical | Kind::Bytes | Kind::Character)
        );
        if !is_known || target.count != 1 {
            let what = "it takes one whole number, truth value, character or byte; the value is the count";
            let count = i64::try_from(target.count).unwrap_or(i64::MAX);
            return Err(Error::refused(ErrorClass::Type, CALL, what, count));
        }
        let len = target.datatype.size();
        for given in [new.packed_len(), expected.packed_len(), result.packed_len()] {
            if given != len {
                return Err(wrong_count(CALL, given, len));
            }
        }
        let Some(pieces) = self.pieces(CALL, len, target)? else { return Ok(()) };
        let (values, expected) = (packed(new)?, packed(expected)?);
        let basic = target.datatype.basic().expect("it is a predefined type");
        let update = Update {
            op: PredefinedOp::Replace,
            datatype: target.datatype,
            basic,
            values: &values,
            expected: Some(&expected),
        };
        self.carry_out(&update, target.rank, &pieces, Some(result))
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
            let what = "windows know MPI's own operations only; the value is the rank";
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
            let what = "the elements of the origin are of another basic type than the target's; the value is the rank";
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
        let Some(pieces) = self.pieces(call, wanted, target)? else { return Ok(()) };
        let Some(basic) = basic else { return Ok(()) };
        let values = match origin {
            Some(origin) if !is_noop => packed(origin)?,
            _ => Vec::new(),
        };
        let update =
            Update { op: predefined, datatype: target.datatype, basic, values: &values, expected: None };
        self.carry_out(&update, target.rank, &pieces, result)
    }

    fn carry_out(
        &self,
        update: &Update<'_>,
        rank: u32,
        pieces: &Pieces,
        result: Option<&RecvData>,
    ) -> Result<()> {
        // What was put before is not overtaken.
        self.flush_puts()?;
        let mut before = 0;
        let mut rest = pieces.as_slice();
        while let [piece, others @ ..] = rest {
            let width = word_at(update, piece);
            // A run of pieces that go the same way; words go piece by piece, others as many as there are: a pair is two pieces.
            let (run, after) = match width {
                Some(_) => (std::slice::from_ref(piece), others),
                None => {
                    let words = others.iter().position(|piece| word_at(update, piece).is_some());
                    rest.split_at(words.map_or(rest.len(), |words| words + 1))
                }
            };
            let len: usize = run.iter().map(|piece| piece.len).sum();
            let mut old = vec![0; if result.is_some() || width.is_none() { len } else { 0 }];
            match width {
                Some(width) => self.on_words(update, width, piece, before, &mut old)?,
                None => self.under_lock(update, rank, run, before, &mut old)?,
            }
            if let Some(result) = result {
                result.unpack(before as u64, &old);
            }
            before += len;
            rest = after;
        }
        Ok(())
    }

    /// Updates words in one piece. `old` has room for what was there, or for nothing.
    fn on_words(
        &self,
        update: &Update<'_>,
        width: Width,
        piece: &Piece,
        before: usize,
        old: &mut [u8],
    ) -> Result<()> {
        let size = usize::try_from(width.bytes()).expect("8 at most");
        let rmw = |to, operation| self.communicator.rmw(to, width, operation);
        let values = update.values.get(before..before + piece.len);
        if let (true, Some(how), Some(values)) =
            (old.is_empty() && piece.len > size, update.on_arrays(), values)
            && self.on_array(piece, update.basic, values, how)?
        {
            return Ok(());
        }
        for at in (0..piece.len).step_by(size) {
            let to = piece.to.plus(at as u64);
            let value = values.map_or(0, |values| word(&values[at..at + size]));
            let found = match (update.expected, update.on_words()) {
                (Some(expected), _) => {
                    let operation = AtomicOp::CompareSwap { expected: word(expected), new: value };
                    rmw(to, operation)?
                }
                (None, Some(operation)) => rmw(to, operation.with_operand(value))?,
                (None, None) => {
                    let mut found = rmw(to, AtomicOp::FetchOr(0))?;
                    loop {
                        let mut new = found.to_le_bytes();
                        update.combine(before + at, &mut new[..size])?;
                        let new = u64::from_le_bytes(new);
                        let operation = AtomicOp::CompareSwap { expected: found, new };
                        let seen = rmw(to, operation)?;
                        if seen == found {
                            break found;
                        }
                        found = seen;
                    }
                }
            };
            if let Some(old) = old.get_mut(at..at + size) {
                old.copy_from_slice(&found.to_le_bytes()[..size]);
            }
        }
        Ok(())
    }

    fn under_lock(
        &self,
        update: &Update<'_>,
        rank: u32,
        run: &[Piece],
        before: usize,
        old: &mut [u8],
    ) -> Result<()> {
        self.take_updating(rank)?;
        let updated = self.read_and_write(update, run, before, old);
        let given = self.on_control(rank, UPDATING, AtomicOp::Swap(0));
        updated.and(given.map(|_| ()))
    }

    /// Becomes the task that updates at a rank.
    fn take_updating(&self, rank: u32) -> Result<()> {
        let own = u64::from(self.rank()) + 1;
        let mut expected = 0;
        // The task that updates needs no other one for it, and rings nobody when it is done.
        self.communicator.try_until(|| {
            let found = self.on_control(rank, UPDATING, AtomicOp::CompareSwap { expected, new: own })?;
            if found == expected {
                return Ok(Some(()));
            }
            // The word is a claim; one that names no task is as good as free.
            let holder =
                found.checked_sub(1).and_then(|holder| self.endpoints.get(usize::try_from(holder).ok()?));
            let has_ended = match holder {
                Some(holder) => self.communicator.state()?.context.has_ended(holder.task),
                None => true,
            };
            expected = if has_ended { found } else { 0 };
            Ok(None)
        })
    }

    fn read_and_write(
        &self,
        update: &Update<'_>,
        run: &[Piece],
        before: usize,
        old: &mut [u8],
    ) -> Result<()> {
        self.get_slice(old, run)?;
        if update.op == PredefinedOp::NoOp {
            return Ok(());
        }
        let mut new = old.to_vec();
        update.combine(before, &mut new)?;
        self.put_slice(&new, run)?;
        self.flush_puts()
    }

    /// Updates an array at once, if am-core knows the type: whether it does.
    fn on_array(&self, piece: &Piece, basic: Predefined, values: &[u8], how: Accumulation) -> Result<bool> {
        let begun = match accumulate(&mut self.communicator.state()?.context, piece, basic, values, how)? {
            None => return Ok(false),
            Some(begun) => begun,
        };
        begun.map_or(Ok(0), |begun| self.communicator.wait_for_rmw(begun)).map(|_| true)
    }

    /// Combines numbers of a task's window with others, from a displacement in its units on.
    ///
    /// # Errors
    /// As for [`accumulate_data`](Self::accumulate_data).
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

    /// Combines numbers of a task's window with others; what was there before.
    ///
    /// # Errors
    /// As for [`accumulate_data`](Self::accumulate_data).
    pub fn get_accumulate<T: Number>(
        &self,
        values: &[T],
        rank: u32,
        displacement: i64,
        op: PredefinedOp,
    ) -> Result<Vec<T>> {
        let datatype = Datatype::predefined(T::DATATYPE);
        let target = TargetData { rank, displacement, count: values.len() as u64, datatype: &datatype };
        let mut old = vec![T::zeroed(); values.len()];
        lend(values, |data| {
            lend_mut(&mut old, |room| self.get_accumulate_data(Some(&data), &room, target, &op.into()))
        })?;
        Ok(old)
    }

    /// Combines one number of a task's window with another; what was there before (`MPI_Fetch_and_op`).
    ///
    /// # Errors
    /// As for [`accumulate_data`](Self::accumulate_data).
    pub fn fetch_and_op<T: Number>(
        &self,
        value: T,
        rank: u32,
        displacement: i64,
        op: PredefinedOp,
    ) -> Result<T> {
        Ok(self.get_accumulate(&[value], rank, displacement, op)?[0])
    }

    /// Replaces one number of a task's window if it is the expected one; what was there before.
    ///
    /// # Errors
    /// As for [`compare_and_swap_data`](Self::compare_and_swap_data).
    pub fn compare_and_swap<T: Number>(
        &self,
        expected: T,
        new: T,
        rank: u32,
        displacement: i64,
    ) -> Result<T> {
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

/// The width of the elements of a piece, if they are words where atomic operations reach them.
fn word_at(update: &Update<'_>, piece: &Piece) -> Option<Width> {
    update.width().filter(|width| piece.address.is_multiple_of(width.bytes()))
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

/// Begins to update an array at once, if am-core knows the type.
#[expect(clippy::option_option, reason = "whether it knows the type, and what goes on")]
fn accumulate<F: Fabric>(
    context: &mut Context<F, MpiHandlers>,
    piece: &Piece,
    basic: Predefined,
    values: &[u8],
    how: Accumulation,
) -> Result<Option<Option<RmwHandle>>> {
    let (to, options) = (piece.to, PutOptions::default());
    let begun = match (basic.kind(), basic.size()) {
        (Kind::Signed, 4) => context.accumulate_nonblocking::<i32>(to, &elements(values), how, options),
        (Kind::Signed, 8) => context.accumulate_nonblocking::<i64>(to, &elements(values), how, options),
        (Kind::Unsigned, 4) => context.accumulate_nonblocking::<u32>(to, &elements(values), how, options),
        (Kind::Unsigned, 8) => context.accumulate_nonblocking::<u64>(to, &elements(values), how, options),
        (Kind::Float, 4) => context.accumulate_nonblocking::<f32>(to, &elements(values), how, options),
        (Kind::Float, 8) => context.accumulate_nonblocking::<f64>(to, &elements(values), how, options),
        _ => return Ok(None),
    }?;
    Ok(Some(begun))
}

fn elements<T: Number>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}

/// A word of up to 8 bytes.
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

fn wrong_count(call: &'static str, given: u64, expected: u64) -> Error {
    let [given, expected] = [given, expected].map(|len| usize::try_from(len).unwrap_or(usize::MAX));
    Error::Count { call, given, expected }
}
