//! Gets and rmws that only the owner of the memory can carry out: what the owner does.

use super::answers::inline;
use super::packet::{self, FIRST, Fields, Kind, pack};
use super::segment::{Serve, Stream};
use super::{Cold, Due, Engine, Grants, Packet, malformed};
use crate::buffer::{Access, Grant};
use crate::error::{Error, Result};
use crate::transfer::{AtomicOp, Class, Width};

/// The handler field of an Ask for an rmw.
pub(crate) fn atomic_code(width: Width, operation: AtomicOp) -> u16 {
    let operation = match operation {
        AtomicOp::FetchAdd(_) => 0,
        AtomicOp::FetchOr(_) => 1,
        AtomicOp::FetchAnd(_) => 2,
        AtomicOp::FetchXor(_) => 3,
        AtomicOp::Swap(_) => 4,
        AtomicOp::CompareSwap { .. } => 5,
    };
    1 + operation + if width == Width::Bits64 { 8 } else { 0 }
}

/// The operands as they travel.
pub(crate) fn operands(operation: AtomicOp) -> (u64, u64) {
    match operation {
        AtomicOp::FetchAdd(value)
        | AtomicOp::FetchOr(value)
        | AtomicOp::FetchAnd(value)
        | AtomicOp::FetchXor(value)
        | AtomicOp::Swap(value) => (value, 0),
        AtomicOp::CompareSwap { expected, new } => (expected, new),
    }
}

fn atomic_of(code: u16, first: u64, second: u64) -> Option<(Width, AtomicOp)> {
    let code = code.checked_sub(1).filter(|&code| code < 16)?;
    let width = if code & 8 != 0 { Width::Bits64 } else { Width::Bits32 };
    let operation = match code & 7 {
        0 => AtomicOp::FetchAdd(first),
        1 => AtomicOp::FetchOr(first),
        2 => AtomicOp::FetchAnd(first),
        3 => AtomicOp::FetchXor(first),
        4 => AtomicOp::Swap(first),
        5 => AtomicOp::CompareSwap { expected: first, new: second },
        _ => return None,
    };
    Some((width, operation))
}

impl Engine {
    /// A get or an rmw for this task to carry out.
    pub(crate) fn handle_ask<G: Grants>(&mut self, grants: &G, packet: &Packet<'_>) -> Result<Due> {
        if packet.class != Class::Request {
            return Err(malformed(packet.from, "a question that may not be answered"));
        }
        let mut fields = inline(packet)?;
        let (Some(region), Some(generation), Some(offset)) = (fields.u32(), fields.u32(), fields.u64())
        else {
            return Err(malformed(packet.from, "a question shorter than its fields"));
        };
        let grant = Grant { region, generation };
        match packet::handler_of(packet.label) {
            FIRST => self.handle_get(grants, packet, grant, offset, fields),
            code => self.handle_atomic(grants, packet, grant, offset, code.0, fields),
        }
    }

    fn handle_get<G: Grants>(
        &mut self,
        grants: &G,
        packet: &Packet<'_>,
        grant: Grant,
        offset: u64,
        mut fields: Fields<'_>,
    ) -> Result<Due> {
        let (Some(len), Some(op), Some(counter)) = (fields.u64(), fields.u32(), fields.u32()) else {
            return Err(malformed(packet.from, "a get shorter than its fields"));
        };
        let allowed = super::for_programs(packet, grant, offset, len)
            .and_then(|()| grants.granted(grant, offset, len, Access::READ));
        if let Err(error) = allowed {
            return Ok(self.refuse_later(packet, op, error));
        }
        self.start_stream(Stream::Serve(Serve {
            origin: packet.from,
            op,
            grant,
            offset,
            len,
            sent: 0,
            counter,
        }));
        Ok(Due::Nothing)
    }

    fn handle_atomic<G: Grants>(
        &mut self,
        grants: &G,
        packet: &Packet<'_>,
        grant: Grant,
        offset: u64,
        code: u16,
        mut fields: Fields<'_>,
    ) -> Result<Due> {
        let (Some(op), Some(first), Some(second)) = (fields.u32(), fields.u64(), fields.u64()) else {
            return Err(malformed(packet.from, "an rmw shorter than its fields"));
        };
        let Some((width, operation)) = atomic_of(code, first, second) else {
            return Err(malformed(packet.from, "an rmw with an unknown operation"));
        };
        let size = width.bytes();
        let value = super::for_programs(packet, grant, offset, size)
            .and_then(|()| grants.granted(grant, offset, size, Access::WRITE))
            .and_then(|word| word.atomic(width, operation).ok_or(Error::Misaligned { offset, size }));
        Ok(match value {
            Ok(value) => {
                let told = pack([&op.to_le_bytes(), &value.to_le_bytes()]);
                self.later(Cold::Answer(packet.from, packet::label(Kind::Told, FIRST), told))
            }
            Err(error) => self.refuse_later(packet, op, error),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_survives_the_wire() {
        for width in [Width::Bits32, Width::Bits64] {
            for operation in [
                AtomicOp::FetchAdd(7),
                AtomicOp::FetchOr(7),
                AtomicOp::FetchAnd(7),
                AtomicOp::FetchXor(7),
                AtomicOp::Swap(7),
                AtomicOp::CompareSwap { expected: 7, new: 8 },
            ] {
                let (first, second) = operands(operation);
                assert_eq!(atomic_of(atomic_code(width, operation), first, second), Some((width, operation)));
            }
        }
        assert_eq!(atomic_of(0, 0, 0), None);
        assert_eq!(atomic_of(7, 0, 0), None);
        assert_eq!(atomic_of(4000, 0, 0), None);
    }
}
