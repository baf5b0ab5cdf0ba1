//! Memory that operations use, also after the call that started them. All of this crate's `unsafe` blocks are here.
//!
//! A [`RawBytes`] or [`RawBuffer`] made here is a promise: the memory stays live, and the program leaves it alone, until the operation that
//! holds it has ended. Each function documents how that promise is kept.

mod data;
mod fields;
mod kept;
mod lent;
mod mapped;
mod message;
mod parts;
mod plain;
mod scratch;
mod view;
mod window;

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use am_core::buffer::{RawBuffer, RawBytes};
use am_core::error::Outcome;
use am_core::fabric::Fabric;
use am_core::handler::{HandlerId, HandlerSet};
use am_core::task::TaskId;
use am_core::{AmOptions, Amsend, AmsendInPieces, Context};
use bytemuck::{AnyBitPattern, NoUninit};
use mpi_io::Space;

pub(crate) use data::{Gather, Scatter, Window};
pub use data::{RecvData, SendData};
pub use fields::{Equivalence, FieldList, FieldListMut};
pub(crate) use kept::KeptVec;
pub use lent::{Incoming, Outgoing};
pub(crate) use lent::{Lends, Receiving, Sending};
pub(crate) use mapped::{Arriving, InPlace, Operand, change_mapped};
pub use message::{Buffer, BufferMut};
pub(crate) use message::{incoming_to_keep, outgoing_to_keep};
pub(crate) use parts::{NotFree, PartsToReceive, PartsToSend, SeenPart, TakenPart};
pub use plain::Plain;
pub(crate) use scratch::{
    Scratch, change_packed, changed_outside_sections, combine_bytes, elements_to_keep, elements_to_keep_mut,
    layout_to_keep, layout_to_keep_mut, outside_sections, read_outside_sections, with_elements, with_packed,
};
pub use view::{View, ViewMut};
pub use window::{LentMemory, WindowMemory};
pub(crate) use window::{get, get_mapped, get_pieces, put, put_mapped, put_pieces, with_mapped_elements};

use crate::error::{Error, Result};
use mpi_datatype::Datatype;

/// Data that can be sent and received: all bytes are initialised, and any bytes are a valid value. Implemented for all such types.
pub trait Datum: NoUninit + AnyBitPattern {}

impl<T: NoUninit + AnyBitPattern> Datum for T {}

/// The bytes of a slice to be sent.
#[inline(always)]
pub(crate) fn bytes_of<T: NoUninit>(data: &[T]) -> &[u8] {
    // SAFETY: `NoUninit` means that every byte of a `T` is initialised; the bytes are borrowed as long as `data` is; a slice is no longer
    // than isize::MAX bytes, and bytes need no alignment.
    unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) }
}

/// Lends a slice to a blocking receive. `receive` must keep the promise: nothing uses the memory after `receive` has returned or unwound.
#[inline(always)]
pub(crate) fn lend_to_receive<T: AnyBitPattern, R>(to: &mut [T], receive: impl FnOnce(RawBuffer) -> R) -> R {
    // SAFETY: `to` is exclusively borrowed until this function returns or unwinds, and `receive` ends its operation before that (this
    // function's doc). `AnyBitPattern` means that any received bytes are valid elements.
    let raw = unsafe { raw_buffer(to) };
    receive(raw)
}

/// Checks that elements lie inside a slice of `len` bytes.
///
/// # Errors
/// [`Error::Outside`].
fn check_inside(len: usize, count: u64, datatype: &Datatype) -> Result<()> {
    let (from, to) = datatype.span(count)?;
    let is_inside = from >= 0 && usize::try_from(to).is_ok_and(|to| to <= len);
    if is_inside { Ok(()) } else { Err(Error::Outside { count, from, to, len }) }
}

/// Lends elements of a slice to `send`, which must keep the promise: its operation has ended when `send` returns or unwinds.
///
/// # Errors
/// [`Error::Outside`], or the error of `send`.
pub(crate) fn lend_elements<T: NoUninit, R>(
    memory: &[T],
    (count, datatype): (u64, &Datatype),
    send: impl FnOnce(SendData) -> Result<R>,
) -> Result<R> {
    check_inside(size_of_val(memory), count, datatype)?;
    // SAFETY: all bytes of the elements lie inside `memory` (just checked), which is borrowed until this function returns or
    // unwinds, and `send` ends its operation before that; `NoUninit` means that they are initialised.
    send(unsafe { SendData::new(memory.as_ptr().cast(), count, datatype) })
}

/// Like [`lend_elements`], for a receive.
///
/// # Errors
/// [`Error::Outside`], or the error of `receive`.
pub(crate) fn lend_elements_mut<T: AnyBitPattern, R>(
    memory: &mut [T],
    (count, datatype): (u64, &Datatype),
    receive: impl FnOnce(RecvData) -> Result<R>,
) -> Result<R> {
    check_inside(size_of_val(memory), count, datatype)?;
    // SAFETY: all bytes of the elements lie inside `memory` (just checked), which is exclusively borrowed until this function returns or
    // unwinds, and `receive` ends its operation before that; `AnyBitPattern` means that any received bytes are valid values.
    receive(unsafe { RecvData::new(memory.as_mut_ptr().cast(), count, datatype) })
}

/// Lends bytes to `send`, which must keep the promise: its operation has ended when `send` returns or unwinds.
pub(crate) fn lend_to_send<R>(bytes: &[u8], send: impl FnOnce(SendData) -> R) -> R {
    lend_raw(bytes, |raw| send(SendData::from_bytes(raw)))
}

/// Like [`lend_to_send`], as a range of bytes.
#[inline(always)]
pub(crate) fn lend_raw<R>(bytes: &[u8], send: impl FnOnce(RawBytes) -> R) -> R {
    // SAFETY: the bytes are borrowed until this function returns or unwinds, and `send` ends its operation before that.
    send(unsafe { RawBytes::new(NonNull::from(bytes).cast(), bytes.len()) })
}

/// Keeps memory for operations that it starts. Functions that give memory to an operation require a keeper.
///
/// # Safety
/// Memory given to an operation of the keeper must not be moved, freed, or accessed in conflict with the operation until the operation has
/// ended. If the operation never ends, the memory must be leaked.
pub(crate) unsafe trait Keeps {}

/// Has a part of a window for itself.
///
/// # Safety
/// `part` must return the address and the length of initialised memory that stays mapped as long as the value. While a function has the
/// memory from [`with_part`], no task and no other thread may access it.
pub(crate) unsafe trait HasPart {
    /// The memory; a null pointer for none.
    fn part(&self) -> (*mut u8, usize);
}

/// Calls `call` with a part of a window, which `call` must not keep.
pub(crate) fn with_part<R>(part: &impl HasPart, call: impl FnOnce(RawBuffer) -> R) -> R {
    let (at, len) = part.part();
    // SAFETY: the memory is mapped and accessible, and nothing else accesses it until this function returns (`HasPart`).
    call(NonNull::new(at).map_or(RawBuffer::EMPTY, |at| unsafe { RawBuffer::new(at, len) }))
}

/// A vector for an operation of the keeper, and its bytes.
pub(crate) fn keep_vec(_keeper: &impl Keeps, bytes: Vec<u8>) -> (KeptVec, RawBuffer) {
    let (kept, at, len) = KeptVec::with_bytes(bytes);
    // SAFETY: the bytes are those of the vector, on the heap. The keeper neither frees nor accesses bytes that an operation uses (`Keeps`).
    (kept, unsafe { RawBuffer::new(at, len) })
}

/// The bytes of a slice, for an operation of the keeper.
pub(crate) fn bytes_to_keep<T: NoUninit>(_keeper: &impl Keeps, data: &[T]) -> RawBytes {
    let bytes = bytes_of(data);
    // SAFETY: the keeper neither accesses nor frees the elements before the operation has ended (`Keeps`).
    unsafe { RawBytes::new(NonNull::from(bytes).cast(), bytes.len()) }
}

/// Like [`bytes_to_keep`], for a receive.
pub(crate) fn buffer_to_keep<T: AnyBitPattern>(_keeper: &impl Keeps, to: &mut [T]) -> RawBuffer {
    // SAFETY: the keeper neither accesses nor frees the elements before the operation has ended (`Keeps`).
    unsafe { raw_buffer(to) }
}

/// Calls `use_up` with the bytes of a range. The operation that holds the range must end when `use_up` returns.
pub(crate) fn with_slice<R>(bytes: RawBytes, use_up: impl FnOnce(&[u8]) -> R) -> R {
    // SAFETY: the maker of `bytes` has promised that they stay readable and unwritten until the operation that holds them has
    // ended, which is when `use_up` returns.
    use_up(unsafe { std::slice::from_raw_parts(bytes.at().as_ptr(), bytes.len()) })
}

/// Like [`with_slice`], for a range that is written.
pub(crate) fn with_space<R>(buffer: RawBuffer, fill: impl FnOnce(&mut Space<'_>) -> R) -> R {
    let at: *mut MaybeUninit<u8> = buffer.at().as_ptr().cast();
    // SAFETY: the maker of `buffer` has promised that it stays writable, and that nothing else accesses it, until the operation that holds
    // it has ended, which is when `fill` returns. The bytes may be without values, as the type says. `fill` gets a `Space`, which only
    // stores values, so bytes that have a value keep one: any values are valid.
    fill(&mut Space::from(unsafe { std::slice::from_raw_parts_mut(at, buffer.len()) }))
}

/// # Safety
/// The memory must stay live, and nothing else may read or write it, until the operation that gets the range has ended.
unsafe fn raw_buffer<T: AnyBitPattern>(to: &mut [T]) -> RawBuffer {
    let len = size_of_val(to);
    // SAFETY: the slice is `len` writable bytes. This function requires the other conditions of its caller.
    unsafe { RawBuffer::new(NonNull::from(to).cast(), len) }
}

/// [`Context::start_raw`] for a message from a range. The maker of the range has given the promise that `start_raw` requires.
///
/// # Errors
/// Those of [`Context::start_raw`].
#[inline]
pub(crate) fn amsend<F: Fabric, H: HandlerSet>(
    context: &mut Context<F, H>,
    target: TaskId,
    (handler, uhdr): (HandlerId, &[u8]),
    bytes: RawBytes,
    options: AmOptions,
    request: Option<u64>,
) -> am_core::error::Result<Outcome> {
    // SAFETY: the maker of `bytes` has promised that they stay readable and unwritten until the operation has ended: until `start_raw`
    // returns Done or an error, or the request is reported.
    unsafe { context.start_raw(Amsend { target, handler, uhdr, options }, bytes, request) }
}

/// Like [`amsend`], for a message in pieces, which may wait for credits.
///
/// # Errors
/// Those of [`Context::start_raw`].
pub(crate) fn amsend_in_pieces<F: Fabric, H: HandlerSet>(
    context: &mut Context<F, H>,
    message: AmsendInPieces<'_>,
    bytes: RawBytes,
    request: u64,
) -> am_core::error::Result<Outcome> {
    // SAFETY: as in `amsend`.
    unsafe { context.start_raw(message, bytes, Some(request)) }
}

#[cfg(test)]
mod tests {
    use am_double::{Config, network};

    use super::*;
    use crate::{Environment, Mode, RequestId, Settings, Source, Status};

    #[test]
    fn raw_calls_do_what_typed_ones_do() {
        let (_network, mut fabrics) = network(Config::hostile(1, 5));
        let fabric = fabrics.pop().unwrap();
        let environment = Environment::with_fabric(fabric, &Settings::default()).unwrap();
        let world = environment.world();
        environment.attach_buffer(vec![0; 300_000]).unwrap();
        for mode in [Mode::Standard, Mode::Synchronous, Mode::Ready, Mode::Buffered] {
            for len in [0, 8, 17, 5000, 100_000] {
                let (out, mut got) = (vec![3u8; len], vec![0u8; len]);
                // SAFETY: both vectors outlive the waits below, and nothing accesses them before.
                let (bytes, buffer) = unsafe {
                    (RawBytes::new(NonNull::from(out.as_slice()).cast(), len), raw_buffer(&mut got))
                };
                let (out_data, data) = (SendData::from_bytes(bytes), RecvData::from_buffer(buffer));
                let receive = world.irecv_data(&data, Source::Any, 0).unwrap();
                let send = world.isend_data(mode, &out_data, 0, 0).unwrap();
                let mut ended = 0;
                world
                    .wait_all(&[send, receive], |index, status| {
                        let status = status.unwrap();
                        // The status of a send has no information.
                        assert!(index == 0 || status.len() == len as u64);
                        ended += 1;
                    })
                    .unwrap();
                assert_eq!(ended, 2);
                assert_eq!(got, out);
                let again = world.wait(send);
                if send == RequestId::ENDED_SEND {
                    assert_eq!(again.unwrap(), Status::default());
                } else {
                    assert!(matches!(again, Err(Error::UnknownRequest { .. })));
                }
                assert!(matches!(world.test(receive), Err(Error::UnknownRequest { .. })));
            }
        }
        assert!(world.wait_any(&[]).unwrap().is_none());
        drop(world);
        environment.finalize().unwrap();
    }
}
