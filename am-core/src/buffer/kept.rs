//! Buffers that go into an operation or a region with their memory, and come back when it has ended; and the engine, which says when.

use am_core_engine::protocol::Engine;

use super::{Access, Executor, Exposed, Grant, JobBuffer, Owner, RawBuffer, SharedMemory};
use crate::error::{Error, Outcome, Result};
use crate::fabric::Fabric;
use crate::user_code::Guarded;

/// The memory of a buffer that an operation is to own. No caller uses or drops `buffer` before it has handed it to the
/// operation that gets the range (`End::keep`, `Outstanding::keep`), or knows that no operation got it.
pub(crate) fn memory_of(buffer: &JobBuffer) -> RawBuffer {
    // SAFETY: the rule of this function, which is visible in this crate only: its callers are `Owned::raw_of_owned`, for
    // `Context::start`, `carry_out_asked` and `begin_accumulate`.
    unsafe { buffer.to_raw() }
}

/// The engine of a context over `fabric`.
pub(crate) fn engine_over<F: Fabric>(fabric: &F) -> Engine<Guarded> {
    // SAFETY: a `Context` owns both from now on, and calls the engine with its own fabric only.
    unsafe { Engine::new(fabric, Guarded) }
}

/// Grants peers access to `buffer`.
///
/// # Errors
/// Too many regions, or the system's limits; the buffer is dropped then.
pub(crate) fn expose<F: Fabric>(
    fabric: &mut F,
    buffer: JobBuffer,
    owner: Owner,
    access: Access,
    executor: Executor,
) -> Result<Exposed> {
    // SAFETY: on success the buffer moves into an `Exposed`, which gives it back by `close` only; on an error there is no grant.
    let grant = grant(fabric, unsafe { buffer.to_raw() }, access)?;
    Ok(Exposed::new(buffer, owner, executor, grant))
}

/// Grants peers access to a part of shared memory.
///
/// # Errors
/// A part that does not lie inside; those of [`expose`].
pub(crate) fn expose_shared<F: Fabric>(
    fabric: &mut F,
    memory: &SharedMemory,
    (offset, len): (u64, u64),
    owner: Owner,
    access: Access,
) -> Result<Exposed> {
    let part = memory.part(offset, len)?;
    // SAFETY: as for `expose`: the part moves into an `Exposed`.
    let grant = grant(fabric, unsafe { part.to_raw() }, access)?;
    Ok(Exposed::of_shared(part, owner, grant))
}

fn grant<F: Fabric>(fabric: &mut F, memory: RawBuffer, access: Access) -> Result<Grant> {
    let grant = fabric.grant(memory, Access { for_operation: false, ..access })?;
    grant.ok_or(Error::Exhausted {
        resource: "memory that peers may have access to at once, in bytes",
        needed: memory.len() as u64,
        available: 0,
        remedy: "unexpose memory that they need no more",
    })
}

/// Takes a region back if nobody copies from or to it; otherwise refuses new claims and returns it.
///
/// # Errors
/// What the fabric says of the grant; the region stays exposed then, and its memory is not used again.
pub(crate) fn close<F: Fabric>(
    fabric: &mut F,
    engine: &Engine<Guarded>,
    region: Exposed,
    owner: Owner,
) -> Result<std::result::Result<JobBuffer, Exposed>> {
    region.check_owner(owner)?;
    if fabric.revoke(region.grant())? != Outcome::Done || engine.is_receiving_into(region.grant()) {
        return Ok(Err(region));
    }
    // SAFETY: the fabric of the region's owner (`check_owner`: `owner` names the context of this fabric) has said that the revoke is
    // done, and no message that was accepted is still being placed there.
    Ok(Ok(unsafe { region.into_buffer() }))
}
