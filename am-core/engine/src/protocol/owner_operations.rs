//! Gets and rmws that only the owner of the memory can carry out: the owner's side.

use super::packet::{self, FIRST, Fields, Kind, pack};
use super::piece_stream::{From, Stream};
use super::{Engine, FollowUp, Packet, granted, malformed};
use crate::buffer::{Access, Grant};
use crate::error::{Error, Result};
use crate::fabric::Fabric;
use crate::transfer::{AtomicOp, Class, Width};
use crate::user_code::UserCode;

/// Number of operation codes for each width.
const OPERATIONS: u16 = 16;
/// The widths, in the order of their numbers in the code of an rmw.
const WIDTHS: [Width; 4] = [Width::Bits32, Width::Bits64, Width::Bits16, Width::Bits8];

/// The handler field of an rmw's Ask, also used as the code of an accumulation.
pub(crate) fn atomic_code(width: Width, operation: AtomicOp) -> u16 {
    let operation = match operation {
        AtomicOp::FetchAdd(_) => 0,
        AtomicOp::FetchOr(_) => 1,
        AtomicOp::FetchAnd(_) => 2,
        AtomicOp::FetchXor(_) => 3,
        AtomicOp::Swap(_) => 4,
        AtomicOp::CompareSwap { .. } => 5,
        AtomicOp::FetchMin(_) => 6,
        AtomicOp::FetchMax(_) => 7,
        AtomicOp::FetchMinSigned(_) => 8,
        AtomicOp::FetchMaxSigned(_) => 9,
        AtomicOp::FetchAddFloat(_) => 10,
        AtomicOp::FetchMinFloat(_) => 11,
        AtomicOp::FetchMaxFloat(_) => 12,
    };
    let width = match width {
        Width::Bits32 => 0,
        Width::Bits64 => 1,
        Width::Bits16 => 2,
        Width::Bits8 => 3,
    };
    1 + operation + OPERATIONS * width
}

/// The operands in wire form.
pub(crate) fn operands(operation: AtomicOp) -> (u64, u64) {
    match operation {
        AtomicOp::FetchAdd(value)
        | AtomicOp::FetchOr(value)
        | AtomicOp::FetchAnd(value)
        | AtomicOp::FetchXor(value)
        | AtomicOp::FetchMin(value)
        | AtomicOp::FetchMax(value)
        | AtomicOp::FetchMinSigned(value)
        | AtomicOp::FetchMaxSigned(value)
        | AtomicOp::FetchAddFloat(value)
        | AtomicOp::FetchMinFloat(value)
        | AtomicOp::FetchMaxFloat(value)
        | AtomicOp::Swap(value) => (value, 0),
        AtomicOp::CompareSwap { expected, new } => (expected, new),
    }
}

pub(super) fn atomic_of(code: u16, first: u64, second: u64) -> Option<(Width, AtomicOp)> {
    let code = code.checked_sub(1)?;
    let width = *WIDTHS.get(usize::from(code / OPERATIONS))?;
    let operation = match code % OPERATIONS {
        0 => AtomicOp::FetchAdd(first),
        1 => AtomicOp::FetchOr(first),
        2 => AtomicOp::FetchAnd(first),
        3 => AtomicOp::FetchXor(first),
        4 => AtomicOp::Swap(first),
        5 => AtomicOp::CompareSwap { expected: first, new: second },
        6 => AtomicOp::FetchMin(first),
        7 => AtomicOp::FetchMax(first),
        8 => AtomicOp::FetchMinSigned(first),
        9 => AtomicOp::FetchMaxSigned(first),
        10 => AtomicOp::FetchAddFloat(first),
        11 => AtomicOp::FetchMinFloat(first),
        12 => AtomicOp::FetchMaxFloat(first),
        _ => return None,
    };
    has_operation(width, operation).then_some((width, operation))
}

/// Whether words of this width support the operation.
#[inline]
pub(super) fn has_operation(width: Width, operation: AtomicOp) -> bool {
    width.bytes() >= 4 || !operation.is_float()
}

impl<U: UserCode> Engine<U> {
    /// Carries out a get or an rmw for a peer.
    pub(crate) fn handle_ask<F: Fabric>(&mut self, fabric: &F, packet: Packet<'_>) -> Result<()> {
        if packet.class != Class::Request {
            return Err(malformed(packet.from, "a get or rmw that may not be answered"));
        }
        let mut fields = packet.fields()?;
        let (Some(region), Some(generation), Some(offset)) = (fields.u32(), fields.u32(), fields.u64())
        else {
            return Err(malformed(packet.from, "a get or rmw shorter than its fields"));
        };
        let grant = Grant { region, generation };
        match packet::handler_of(packet.label) {
            FIRST => self.handle_get(fabric, packet, grant, offset, fields),
            code => self.handle_atomic(fabric, packet, grant, offset, code.0, fields),
        }
    }

    fn handle_get<F: Fabric>(
        &mut self,
        fabric: &F,
        packet: Packet<'_>,
        grant: Grant,
        offset: u64,
        mut fields: Fields<'_>,
    ) -> Result<()> {
        let (Some(len), Some(op), Some(counter)) = (fields.u64(), fields.u32(), fields.u32()) else {
            return Err(malformed(packet.from, "a get shorter than its fields"));
        };
        let allowed = super::for_programs(fabric, grant, offset, len)
            .and_then(|()| granted(fabric, grant, offset, len, Access::READ));
        if let Err(error) = allowed {
            self.refuse_later(packet.from, packet.class, op, error);
            return Ok(());
        }
        self.check_asks(packet.from)?;
        self.asked_by.add(packet.from);
        let from = From::Exposed { grant, offset, counter };
        self.start_stream(Stream { to: packet.from, number: op, sent: 0, len, from });
        Ok(())
    }

    fn handle_atomic<F: Fabric>(
        &mut self,
        fabric: &F,
        packet: Packet<'_>,
        grant: Grant,
        offset: u64,
        code: u16,
        mut fields: Fields<'_>,
    ) -> Result<()> {
        let (Some(op), Some(first), Some(second)) = (fields.u32(), fields.u64(), fields.u64()) else {
            return Err(malformed(packet.from, "an rmw shorter than its fields"));
        };
        let Some((width, operation)) = atomic_of(code, first, second) else {
            return Err(malformed(packet.from, "an rmw with an unknown operation"));
        };
        let size = width.bytes();
        let value = super::for_programs(fabric, grant, offset, size)
            .and_then(|()| granted(fabric, grant, offset, size, Access::WRITE))
            .and_then(|word| word.atomic(width, operation).ok_or(Error::Misaligned { offset, size }));
        match value {
            Ok(value) => {
                let told = pack([&op.to_le_bytes(), &value.to_le_bytes()]);
                self.later(FollowUp::Answer(packet.from, packet::label(Kind::Told, FIRST), told));
            }
            Err(error) => self.refuse_later(packet.from, packet.class, op, error),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_survives_the_wire() {
        for width in WIDTHS {
            for operation in [
                AtomicOp::FetchAdd(7),
                AtomicOp::FetchOr(7),
                AtomicOp::FetchAnd(7),
                AtomicOp::FetchXor(7),
                AtomicOp::FetchMin(7),
                AtomicOp::FetchMax(7),
                AtomicOp::FetchMinSigned(7),
                AtomicOp::FetchMaxSigned(7),
                AtomicOp::FetchAddFloat(7),
                AtomicOp::FetchMinFloat(7),
                AtomicOp::FetchMaxFloat(7),
                AtomicOp::Swap(7),
                AtomicOp::CompareSwap { expected: 7, new: 8 },
            ] {
                let (first, second) = operands(operation);
                let expected = has_operation(width, operation).then_some((width, operation));
                assert_eq!(atomic_of(atomic_code(width, operation), first, second), expected);
            }
        }
        assert_eq!(atomic_of(0, 0, 0), None);
        assert_eq!(atomic_of(14, 0, 0), None);
        assert_eq!(atomic_of(4000, 0, 0), None);
    }
}
