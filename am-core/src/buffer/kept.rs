//! Buffers whose memory belongs to an operation until the operation has ended, or to an exposed region until the region is closed. The
//! engine is made here, too, because it reports when an operation has ended.

use am_core_engine::protocol::Engine;

use super::{Access, Executor, Exposed, Grant, JobBuffer, Owner, RawBuffer, SharedMemory};
use crate::error::{Error, Result};
use crate::fabric::{Fabric, Posted};
use crate::user_code::Guarded;

/// The memory of a buffer that an operation will own. The caller must give `buffer` to the operation that gets the range (`End::keep`,
/// `Outstanding::keep`), and must not use or drop it before, unless no operation gets the range.
pub(crate) fn memory_of(buffer: &JobBuffer) -> RawBuffer {
    // SAFETY: the callers keep the rule above. All are in this crate: `carry_out_asked` and `begin_accumulate`.
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
/// `TooManyRegions`; `Exhausted`: more registered memory than the limit. `System`. In both cases the buffer is dropped.
pub(crate) fn expose<F: Fabric>(
    fabric: &mut F,
    buffer: JobBuffer,
    owner: Owner,
    access: Access,
    executor: Executor,
) -> Result<Exposed> {
    // SAFETY: on success the buffer moves into an `Exposed`, which only `close` turns back into a buffer; on an error there is no grant.
    let grant = grant(fabric, unsafe { buffer.to_raw() }, access)?;
    Ok(Exposed::new(buffer, owner, executor, grant))
}

/// Grants peers access to a part of shared memory.
///
/// # Errors
/// `LocalRange`: the part does not lie inside the memory. Those of [`expose`].
pub(crate) fn expose_shared<F: Fabric>(
    fabric: &mut F,
    memory: &SharedMemory,
    (offset, len): (u64, u64),
    owner: Owner,
    access: Access,
) -> Result<Exposed> {
    let part = memory.part(offset, len)?;
    // SAFETY: the part moves into an `Exposed`, which only `close` turns back into a buffer; on an error there is no grant.
    let grant = grant(fabric, unsafe { part.to_raw() }, access)?;
    Ok(Exposed::of_shared(part, owner, grant))
}

fn grant<F: Fabric>(fabric: &mut F, memory: RawBuffer, access: Access) -> Result<Grant> {
    let grant = fabric.grant(memory, Access { for_operation: false, ..access }, None)?;
    grant.ok_or(Error::Exhausted {
        resource: "memory that peers may have access to at once, in bytes",
        needed: memory.len() as u64,
        available: 0,
        remedy: "unexpose memory that peers no longer need",
    })
}

/// A region whose exposure is being ended.
pub(crate) struct Closing {
    region: Exposed,
    /// Whether the fabric has reported the revoke as done. The grant has ended then, and must not be revoked again, because the fabric may
    /// reuse its number.
    is_revoked: bool,
}

impl Closing {
    pub(crate) fn new(region: Exposed) -> Self {
        Self { region, is_revoked: false }
    }
}

/// Ends the exposure of a region and returns its buffer. While a peer is copying to or from the region, or an accepted message is still
/// being stored in it, refuses new accesses and returns the region instead; the caller must try again.
///
/// # Errors
/// Another context has exposed the region; the fabric's error. The region then stays exposed, and its memory is not reused.
pub(crate) fn close<F: Fabric>(
    fabric: &mut F,
    engine: &Engine<Guarded>,
    mut closing: Closing,
    owner: Owner,
) -> Result<std::result::Result<JobBuffer, Closing>> {
    closing.region.check_owner(owner)?;
    let grant = closing.region.grant();
    // The revoke comes first, so that no new data are stored while this task waits for the data that are being stored.
    if !closing.is_revoked {
        closing.is_revoked = fabric.revoke(grant)? == Posted::Done;
    }
    if !closing.is_revoked || engine.is_receiving_into(grant) {
        return Ok(Err(closing));
    }
    // SAFETY: the fabric of the region's owner (`check_owner`: `owner` names the context of this fabric) has reported the revoke as done,
    // now or in an earlier call, and no accepted message is still being stored there.
    Ok(Ok(unsafe { closing.region.into_buffer() }))
}
