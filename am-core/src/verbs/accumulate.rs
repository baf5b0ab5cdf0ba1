//! Accumulate: rmw on whole arrays, without returning the old values. LAPI has it as a reduction function (`LAPI_REG_DDM_FUNC`); the
//! operations here are fixed, so that peers can carry them out.

use am_core_engine::protocol::{End, Issued};

use super::PutOptions;
use crate::buffer::{JobBuffer, RemoteAddress};
use crate::call_guard;
use crate::context::Context;
use crate::counter::CounterName;
use crate::error::{Error, Result};
use crate::fabric::{AtomicOp, Fabric, Width};
use crate::handler::HandlerSet;

/// The operation that combines two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accumulation {
    /// The sum; integers wrap around.
    Add,
    /// The smaller value.
    Min,
    /// The larger value.
    Max,
    /// Bitwise and. Integers only.
    And,
    /// Bitwise or. Integers only.
    Or,
    /// Bitwise exclusive or. Integers only.
    Xor,
    /// The new value replaces the old one.
    Replace,
}

/// Element types of accumulate: 32 and 64 bit integers and floating-point numbers.
pub trait Element: Copy + sealed::Sealed {
    #[doc(hidden)]
    const WIDTH: Width;
    #[doc(hidden)]
    const NAME: &'static str;
    #[doc(hidden)]
    fn put_into(self, bytes: &mut [u8]);
    #[doc(hidden)]
    fn operation(how: Accumulation) -> Option<AtomicOp>;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! element {
    ($type:ty, $width:ident, |$how:ident| $operation:expr) => {
        impl sealed::Sealed for $type {}
        impl Element for $type {
            const WIDTH: Width = Width::$width;
            const NAME: &'static str = stringify!($type);

            fn put_into(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }

            fn operation($how: Accumulation) -> Option<AtomicOp> {
                $operation
            }
        }
    };
}

element!(u32, Bits32, |how| Some(on_integers(how, AtomicOp::FetchMin(0), AtomicOp::FetchMax(0))));
element!(u64, Bits64, |how| Some(on_integers(how, AtomicOp::FetchMin(0), AtomicOp::FetchMax(0))));
element!(i32, Bits32, |how| Some(on_integers(how, AtomicOp::FetchMinSigned(0), AtomicOp::FetchMaxSigned(0))));
element!(i64, Bits64, |how| Some(on_integers(how, AtomicOp::FetchMinSigned(0), AtomicOp::FetchMaxSigned(0))));
element!(f32, Bits32, |how| on_floats(how));
element!(f64, Bits64, |how| on_floats(how));

fn on_integers(how: Accumulation, min: AtomicOp, max: AtomicOp) -> AtomicOp {
    match how {
        Accumulation::Add => AtomicOp::FetchAdd(0),
        Accumulation::Min => min,
        Accumulation::Max => max,
        Accumulation::And => AtomicOp::FetchAnd(0),
        Accumulation::Or => AtomicOp::FetchOr(0),
        Accumulation::Xor => AtomicOp::FetchXor(0),
        Accumulation::Replace => AtomicOp::Swap(0),
    }
}

fn on_floats(how: Accumulation) -> Option<AtomicOp> {
    match how {
        Accumulation::Add => Some(AtomicOp::FetchAddFloat(0)),
        Accumulation::Min => Some(AtomicOp::FetchMinFloat(0)),
        Accumulation::Max => Some(AtomicOp::FetchMaxFloat(0)),
        Accumulation::Replace => Some(AtomicOp::Swap(0)),
        Accumulation::And | Accumulation::Or | Accumulation::Xor => None,
    }
}

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Combines the elements at `to` with `values`, one by one. Each element is updated atomically, also with respect to rmw; the array as
    /// a whole is not. The region determines which task carries out the updates ([`Executor`](crate::buffer::Executor)). Returns when all
    /// elements are updated.
    ///
    /// # Errors
    /// A bitwise operation on floating-point numbers, memory that is not exposed for writing or not aligned to the element's size, a dead
    /// target, a call inside a handler.
    pub fn accumulate<T: Element>(
        &mut self,
        to: RemoteAddress,
        values: &[T],
        how: Accumulation,
        options: PutOptions,
    ) -> Result<()> {
        call_guard::check("accumulate")?;
        let begun = self.begin_accumulate(to, values, how, options)?;
        self.wait_begun(begun)?;
        self.wait_notice_sent(to.owner())
    }

    /// Starts an accumulation; returns the number of the operation, if it is not complete at once.
    fn begin_accumulate<T: Element>(
        &mut self,
        to: RemoteAddress,
        values: &[T],
        how: Accumulation,
        options: PutOptions,
    ) -> Result<Option<u32>> {
        let operation =
            T::operation(how).ok_or(Error::NoSuchOperation { operation: name(how), element: T::NAME })?;
        let size = T::WIDTH.bytes() as usize;
        let mut operands = vec![0; values.len() * size];
        for (value, bytes) in values.iter().zip(operands.chunks_exact_mut(size)) {
            value.put_into(bytes);
        }
        let kept = JobBuffer::from(operands);
        let operands = crate::buffer::memory_of(&kept).as_bytes();
        let end = End { origin: options.origin, completion: options.completion, ..End::held() };
        let notify = CounterName::to_wire(options.target);
        let begun =
            self.engine.accumulate(&mut self.fabric, to, operands, (T::WIDTH, operation), notify, end)?;
        let Issued::Ongoing(key) = begun else { return Ok(None) };
        // The operation owns the operands until it has ended.
        self.engine.ops.keep(key, kept);
        Ok(Some(key))
    }
}

fn name(how: Accumulation) -> &'static str {
    match how {
        Accumulation::Add => "a sum",
        Accumulation::Min => "a minimum",
        Accumulation::Max => "a maximum",
        Accumulation::And => "a bitwise and",
        Accumulation::Or => "a bitwise or",
        Accumulation::Xor => "a bitwise exclusive or",
        Accumulation::Replace => "a replacement",
    }
}
