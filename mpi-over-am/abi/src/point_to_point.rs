//! Sending, receiving and probing (MPI 5.0 chapter 3).
//!
//! SAFETY: each `mpi_*` function here is called under the contract that the standard gives it: pointers are valid for the accesses that the
//! standard specifies, and buffers are not used until their operation has ended. One thread at a time uses the state of MPI (`state`).

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results and read arrays at the program's pointers; blocks that do more have a note"
)]

use std::ffi::{c_int, c_void};

use mpi_over_am::{Error, ErrorClass, Mode, PROC_NULL, RequestId, Source, Status, Tag};

use crate::constants::{MPI_BYTE, MPI_MESSAGE_NO_PROC, MPI_MESSAGE_NULL, MPI_PROC_NULL, MPI_SUCCESS};
use crate::data::{
    dest_of, message_to_receive, message_to_send, raw_to_receive, raw_to_send, source_of, tag_of, to_receive,
    to_send,
};
use crate::errors::{on_communicator, on_communicator_in};
use crate::failure::{Failure, Outcome};
use crate::objects::{CommunicatorObject, MessageObject};
use crate::requests::{Owner, handle_of, keep_request, on_requests};
use crate::state::{Mpi, enter_briefly, entered};
use crate::statuses::{store, store_result};
use crate::types::{
    MPI_Comm, MPI_Datatype, MPI_Message, MPI_Request, MPI_Status, RecvElements, SendElements,
};

/// Stores the handle of a message's request.
///
/// # Safety
/// `at` must be the program's pointer for the handle.
#[inline(always)]
unsafe fn give(id: RequestId, at: *mut MPI_Request) -> Outcome<()> {
    unsafe { *at = handle_of(id) };
    Ok(())
}

/// Stores the handle of a persistent request, and records the communicator whose error handler runs if the request fails.
///
/// # Safety
/// Those of [`give`].
pub(crate) unsafe fn give_kept(
    object: &CommunicatorObject,
    id: RequestId,
    at: *mut MPI_Request,
) -> Outcome<()> {
    unsafe { *at = keep_request(&object.communicator, id) };
    Ok(())
}

/// The bytes of a blocking send, as a slice; `None` if they are not known to be contiguous, the count is invalid, or the address is null.
#[inline(always)]
unsafe fn bytes_to_send<'a>(mpi: &Mpi, (at, count, datatype): SendElements) -> Option<&'a [u8]> {
    if at.is_null() {
        return None;
    }
    let len = mpi.dense_len(datatype, count)?;
    // SAFETY: the program lends the buffer for the duration of the call. The buffer is not null, and `len` is at most `isize::MAX`
    // (`dense_len`).
    Some(unsafe { std::slice::from_raw_parts(at.cast(), len) })
}

/// What [`send_now`] has left to be done.
enum Remaining {
    /// Nothing: the message was sent.
    Nothing,
    /// To send this number of bytes, which could not be sent at once as one packet.
    Bytes(usize),
    /// Everything, for instance because calls take a lock, or the data are not known to be contiguous.
    Everything,
}

/// Sends a message in standard mode if it can be sent at once as one packet. Calls no function before a short message is sent, so
/// [`mpi_send_c`] and [`mpi_isend_c`] keep their arguments in registers, and pass what the general path needs on by a jump: after
/// [`Remaining::Bytes`] neither the count nor the datatype.
#[inline(always)]
unsafe fn send_now(
    mpi: Option<&Mpi>,
    elements: SendElements,
    (dest, tag): (c_int, c_int),
    comm: MPI_Comm,
) -> Remaining {
    let Some(mpi) = mpi else { return Remaining::Everything };
    // SAFETY: a send creates and frees no communicator.
    let Some(communicator) = (unsafe { mpi.communicator_for_a_moment(comm) }) else {
        return Remaining::Everything;
    };
    let Some(bytes) = (unsafe { bytes_to_send(mpi, elements) }) else { return Remaining::Everything };
    // As an unsigned number, a negative rank is above all ranks of the communicator.
    match communicator.try_send(bytes, dest.cast_unsigned(), tag) {
        true => Remaining::Nothing,
        false => Remaining::Bytes(bytes.len()),
    }
}

/// Sends bytes that [`send_now`] has not sent, if they can be sent at once; returns whether they were sent.
///
/// # Safety
/// There must be `len` bytes at `at`, which the program lends for the duration of the call.
#[inline(always)]
unsafe fn send_again(at: *const c_void, len: usize, (dest, tag): (c_int, c_int), comm: MPI_Comm) -> bool {
    let Some(mpi) = enter_briefly() else { return false };
    // SAFETY: a send creates and frees no communicator.
    let Some(communicator) = (unsafe { mpi.communicator_for_a_moment(comm) }) else { return false };
    // SAFETY: the caller promises that there are `len` bytes at `at`, which the program lends for the duration of the call.
    let bytes = unsafe { std::slice::from_raw_parts(at.cast(), len) };
    communicator.try_send_again(bytes, dest.cast_unsigned(), tag)
}

/// [`send_now`] for calls that take a lock, so that they had to enter MPI before; returns whether the message was sent.
#[inline(always)]
unsafe fn send_locked(
    mpi: &Mpi,
    mode: Mode,
    elements: SendElements,
    to: (c_int, c_int),
    comm: MPI_Comm,
) -> bool {
    mode == Mode::Standard
        && enter_briefly().is_none()
        && matches!(unsafe { send_now(Some(mpi), elements, to, comm) }, Remaining::Nothing)
}

/// A blocking send in any mode, of any elements.
#[inline(never)]
unsafe fn send(
    function: &str,
    mode: Mode,
    elements: SendElements,
    (dest, tag): (c_int, c_int),
    comm: MPI_Comm,
) -> c_int {
    let mpi = entered!(function);
    if unsafe { send_locked(&mpi, mode, elements, (dest, tag), comm) } {
        return MPI_SUCCESS;
    }
    on_communicator_in(&mpi, function, comm, |mpi, object| {
        let dest = dest_of(dest)?;
        if let Some(bytes) = unsafe { bytes_to_send(mpi, elements) } {
            return Ok(object.communicator.send_bytes_slowly(mode, bytes, dest, tag)?);
        }
        let data = unsafe { to_send(mpi, elements) }?;
        Ok(object.communicator.send_data(mode, &data, dest, tag)?)
    })
}

/// Starts a send in any mode, of any elements, and stores its request in `request`.
#[inline(never)]
unsafe fn start_send(
    function: &str,
    mode: Mode,
    elements: SendElements,
    (dest, tag): (c_int, c_int),
    (comm, request): (MPI_Comm, *mut MPI_Request),
) -> c_int {
    let mpi = entered!(function);
    if unsafe { send_locked(&mpi, mode, elements, (dest, tag), comm) } {
        unsafe { *request = handle_of(RequestId::ENDED_SEND) };
        return MPI_SUCCESS;
    }
    on_communicator_in(&mpi, function, comm, |mpi, object| {
        let dest = dest_of(dest)?;
        let id = match unsafe { raw_to_send(mpi, elements) } {
            Some(bytes) => object.communicator.isend_bytes_slowly(mode, bytes, dest, tag)?,
            None => {
                let data = unsafe { to_send(mpi, elements) }?;
                object.communicator.isend_data(mode, &data, dest, tag)?
            }
        };
        unsafe { give(id, request) }
    })
}

#[inline(always)]
pub(crate) unsafe fn mpi_send_c(elements: SendElements, dest: c_int, tag: c_int, comm: MPI_Comm) -> c_int {
    let (buf, count, datatype) = elements;
    unsafe {
        match send_now(enter_briefly(), elements, (dest, tag), comm) {
            Remaining::Nothing => MPI_SUCCESS,
            Remaining::Bytes(len) => bytes::MPI_Send(buf, len, dest, tag, comm),
            Remaining::Everything => anything::MPI_Send(buf, count, datatype, dest, tag, comm),
        }
    }
}

#[inline(always)]
pub(crate) unsafe fn mpi_isend_c(
    elements: SendElements,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    let (buf, count, datatype) = elements;
    unsafe {
        match send_now(enter_briefly(), elements, (dest, tag), comm) {
            Remaining::Nothing => {
                *request = handle_of(RequestId::ENDED_SEND);
                MPI_SUCCESS
            }
            Remaining::Bytes(len) => bytes::MPI_Isend(buf, len, dest, tag, comm, request),
            Remaining::Everything => anything::MPI_Isend(buf, count, datatype, dest, tag, comm, request),
        }
    }
}

/// Sends of the [bytes](Remaining::Bytes) that are left. A call jumps to its function here and in [`anything`], which has the C calling
/// convention and does not unwind for this. So the function stands for the call in a stack, and has its name for the report of a hang.
#[expect(non_snake_case, reason = "names of calls")]
mod bytes {
    use super::*;

    #[inline(never)]
    pub(super) unsafe extern "C" fn MPI_Send(
        buf: *const c_void,
        len: usize,
        dest: c_int,
        tag: c_int,
        comm: MPI_Comm,
    ) -> c_int {
        if unsafe { send_again(buf, len, (dest, tag), comm) } {
            return MPI_SUCCESS;
        }
        unsafe { anything::MPI_Send(buf, len as i64, MPI_BYTE, dest, tag, comm) }
    }

    #[inline(never)]
    pub(super) unsafe extern "C" fn MPI_Isend(
        buf: *const c_void,
        len: usize,
        dest: c_int,
        tag: c_int,
        comm: MPI_Comm,
        request: *mut MPI_Request,
    ) -> c_int {
        if unsafe { send_again(buf, len, (dest, tag), comm) } {
            unsafe { *request = handle_of(RequestId::ENDED_SEND) };
            return MPI_SUCCESS;
        }
        unsafe { anything::MPI_Isend(buf, len as i64, MPI_BYTE, dest, tag, comm, request) }
    }
}

/// Sends of [everything](Remaining::Everything).
#[expect(non_snake_case, reason = "names of calls")]
mod anything {
    use super::*;

    #[inline(never)]
    pub(super) unsafe extern "C" fn MPI_Send(
        buf: *const c_void,
        count: i64,
        datatype: MPI_Datatype,
        dest: c_int,
        tag: c_int,
        comm: MPI_Comm,
    ) -> c_int {
        unsafe { send("MPI_Send", Mode::Standard, (buf, count, datatype), (dest, tag), comm) }
    }

    #[inline(never)]
    pub(super) unsafe extern "C" fn MPI_Isend(
        buf: *const c_void,
        count: i64,
        datatype: MPI_Datatype,
        dest: c_int,
        tag: c_int,
        comm: MPI_Comm,
        request: *mut MPI_Request,
    ) -> c_int {
        let (data, to) = ((buf, count, datatype), (dest, tag));
        unsafe { start_send("MPI_Isend", Mode::Standard, data, to, (comm, request)) }
    }
}

/// The sends of the other modes.
macro_rules! sends {
    ($($send:ident $isend:ident $mode:ident $name:literal $started:literal)*) => { $(
        #[inline(always)]
        pub(crate) unsafe fn $send(
            elements: SendElements,
            dest: c_int,
            tag: c_int,
            comm: MPI_Comm,
        ) -> c_int {
            unsafe { send(concat!("MPI_", $name), Mode::$mode, elements, (dest, tag), comm) }
        }

        #[inline(always)]
        pub(crate) unsafe fn $isend(
            elements: SendElements,
            dest: c_int,
            tag: c_int,
            comm: MPI_Comm,
            request: *mut MPI_Request,
        ) -> c_int {
            let function = concat!("MPI_", $started);
            unsafe { start_send(function, Mode::$mode, elements, (dest, tag), (comm, request)) }
        }
    )* };
}

sends! {
    mpi_bsend_c mpi_ibsend_c Buffered "Bsend" "Ibsend"
    mpi_ssend_c mpi_issend_c Synchronous "Ssend" "Issend"
    mpi_rsend_c mpi_irsend_c Ready "Rsend" "Irsend"
}

/// The persistent sends.
macro_rules! persistent_sends {
    ($($init:ident $mode:ident $name:literal)*) => { $(
        pub(crate) unsafe fn $init(
            elements: SendElements,
            dest: c_int,
            tag: c_int,
            comm: MPI_Comm,
            request: *mut MPI_Request,
        ) -> c_int {
            on_communicator(concat!("MPI_", $name, "_init"), comm, |mpi, object| {
                let data = unsafe { message_to_send(mpi, elements) }?;
                let id = object.communicator.send_init_data(Mode::$mode, &data, dest_of(dest)?, tag)?;
                unsafe { give_kept(object, id, request) }
            })
        }
    )* };
}

persistent_sends! {
    mpi_send_init_c Standard "Send"
    mpi_bsend_init_c Buffered "Bsend"
    mpi_ssend_init_c Synchronous "Ssend"
    mpi_rsend_init_c Ready "Rsend"
}

#[inline(always)]
pub(crate) unsafe fn mpi_recv_c(
    elements: RecvElements,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> c_int {
    unsafe {
        let received = match enter_briefly() {
            Some(mpi) => receive_now(mpi, elements, (source, tag), comm),
            None => None,
        };
        match received {
            Some(Ok(received)) => {
                store(status, &received);
                MPI_SUCCESS
            }
            failed => receive(failed, elements, (source, tag), (comm, status)),
        }
    }
}

/// Source and tag of a receive; `None` if the rank is negative and has no special meaning.
#[inline(always)]
fn from_of(source: c_int, tag: c_int) -> Option<(Source, Tag)> {
    if source >= 0 && tag >= 0 {
        return Some((Source::Rank(source.cast_unsigned()), Tag::Is(tag)));
    }
    Some((source_of(source).ok()?, tag_of(tag)))
}

/// Receives contiguous bytes. Must be called only if calls of MPI take no lock. `None`: nothing was done, and the call takes the general
/// path.
#[inline(always)]
unsafe fn receive_now(
    mpi: &Mpi,
    elements: RecvElements,
    (source, tag): (c_int, c_int),
    comm: MPI_Comm,
) -> Option<Result<Status, Box<Error>>> {
    // SAFETY: a receive creates and frees no communicator.
    let communicator = unsafe { mpi.communicator_for_a_moment(comm) }?;
    let buffer = unsafe { raw_to_receive(mpi, elements) }?;
    let (source, tag) = from_of(source, tag)?;
    communicator.try_recv_bytes(buffer, source, tag)
}

/// A blocking receive by the general path. If `failed` holds the error of [`receive_now`], reports this error instead.
#[inline(never)]
unsafe fn receive(
    failed: Option<Result<Status, Box<Error>>>,
    elements: RecvElements,
    (source, tag): (c_int, c_int),
    (comm, status): (MPI_Comm, *mut MPI_Status),
) -> c_int {
    let mpi = entered!("MPI_Recv");
    on_communicator_in(&mpi, "MPI_Recv", comm, |mpi, object| {
        let received = match failed {
            Some(received) => received.map_err(|error| *error),
            None => {
                let (source, tag) = (source_of(source)?, tag_of(tag));
                let data = unsafe { message_to_receive(mpi, elements) }?;
                object.communicator.recv_data(&data, source, tag)
            }
        };
        unsafe { store_result(status, received) }
    })
}

#[inline(always)]
pub(crate) unsafe fn mpi_irecv_c(
    elements: RecvElements,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // Only the slow path needs the three in memory.
    let (buf, count, datatype) = elements;
    unsafe {
        let started = match enter_briefly() {
            Some(mpi) => start_receive_now(mpi, (buf, count, datatype), (source, tag), comm),
            None => None,
        };
        match started {
            Some(id) => {
                *request = handle_of(id);
                MPI_SUCCESS
            }
            None => start_receive((buf, count, datatype), (source, tag), (comm, request)),
        }
    }
}

/// Starts a receive of bytes. `None` if [`start_receive`] must handle the call or report an error.
#[inline(always)]
unsafe fn start_receive_now(
    mpi: &Mpi,
    elements: RecvElements,
    (source, tag): (c_int, c_int),
    comm: MPI_Comm,
) -> Option<RequestId> {
    // SAFETY: a receive creates and frees no communicator.
    let communicator = unsafe { mpi.communicator_for_a_moment(comm) }?;
    let buffer = unsafe { raw_to_receive(mpi, elements) }?;
    let (source, tag) = from_of(source, tag)?;
    communicator.try_irecv_bytes(buffer, source, tag)
}

/// Starts any receive.
#[inline(never)]
unsafe fn start_receive(
    elements: RecvElements,
    (source, tag): (c_int, c_int),
    (comm, request): (MPI_Comm, *mut MPI_Request),
) -> c_int {
    let mpi = entered!("MPI_Irecv");
    if let Some(id) = unsafe { start_receive_now(&mpi, elements, (source, tag), comm) } {
        unsafe { *request = handle_of(id) };
        return MPI_SUCCESS;
    }
    on_communicator_in(&mpi, "MPI_Irecv", comm, |mpi, object| {
        let (source, tag) = (source_of(source)?, tag_of(tag));
        let data = unsafe { message_to_receive(mpi, elements) }?;
        unsafe { give(object.communicator.irecv_data(&data, source, tag)?, request) }
    })
}

pub(crate) unsafe fn mpi_recv_init_c(
    elements: RecvElements,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    on_communicator("MPI_Recv_init", comm, |mpi, object| {
        let data = unsafe { message_to_receive(mpi, elements) }?;
        let id = object.communicator.recv_init_data(&data, source_of(source)?, tag_of(tag))?;
        unsafe { give_kept(object, id, request) }
    })
}

pub(crate) unsafe fn mpi_sendrecv_c(
    sent: SendElements,
    dest: c_int,
    sendtag: c_int,
    received: RecvElements,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> c_int {
    on_communicator("MPI_Sendrecv", comm, |mpi, object| {
        let (out, data) = unsafe { (message_to_send(mpi, sent)?, message_to_receive(mpi, received)?) };
        let (dest, source, recvtag) = (dest_of(dest)?, source_of(source)?, tag_of(recvtag));
        let received = object.communicator.sendrecv_data((&out, dest, sendtag), (&data, source, recvtag));
        unsafe { store_result(status, received) }
    })
}

pub(crate) unsafe fn mpi_sendrecv_replace_c(
    elements: RecvElements,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> c_int {
    on_communicator("MPI_Sendrecv_replace", comm, |mpi, object| {
        let data = unsafe { to_receive(mpi, elements) }?;
        let from = (source_of(source)?, tag_of(recvtag));
        let to = (dest_of(dest)?, sendtag);
        unsafe { store_result(status, object.communicator.sendrecv_replace_data(&data, to, from)) }
    })
}

pub(crate) unsafe fn mpi_isendrecv_c(
    sent: SendElements,
    dest: c_int,
    sendtag: c_int,
    received: RecvElements,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    on_communicator("MPI_Isendrecv", comm, |mpi, object| {
        let (out, data) = unsafe { (message_to_send(mpi, sent)?, message_to_receive(mpi, received)?) };
        let from = (&data, source_of(source)?, tag_of(recvtag));
        let id = object.communicator.isendrecv_data((&out, dest_of(dest)?, sendtag), from)?;
        unsafe { give(id, request) }
    })
}

pub(crate) unsafe fn mpi_isendrecv_replace_c(
    elements: RecvElements,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    on_communicator("MPI_Isendrecv_replace", comm, |mpi, object| {
        let data = unsafe { to_receive(mpi, elements) }?;
        let from = (source_of(source)?, tag_of(recvtag));
        let id = object.communicator.isendrecv_replace_data(&data, (dest_of(dest)?, sendtag), from)?;
        unsafe { give(id, request) }
    })
}

pub(crate) unsafe fn mpi_probe(source: c_int, tag: c_int, comm: MPI_Comm, status: *mut MPI_Status) -> c_int {
    on_communicator("MPI_Probe", comm, |_, object| {
        let (source, tag) = (source_of(source)?, tag_of(tag));
        let found = object.communicator.probe(source, tag)?;
        unsafe { store(status, &found) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_iprobe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    on_communicator("MPI_Iprobe", comm, |_, object| {
        let found = object.communicator.iprobe(source_of(source)?, tag_of(tag))?;
        unsafe { *flag = c_int::from(found.is_some()) };
        if let Some(found) = found {
            unsafe { store(status, &found) };
        }
        Ok(())
    })
}

fn keep_message(mpi: &Mpi, id: mpi_over_am::MessageId, of: MPI_Comm) -> Outcome<MPI_Message> {
    mpi.messages.insert(MessageObject { id, of }).map(MPI_Message)
}

pub(crate) unsafe fn mpi_mprobe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> c_int {
    on_communicator("MPI_Mprobe", comm, |mpi, object| {
        if source == MPI_PROC_NULL {
            unsafe {
                *message = MPI_MESSAGE_NO_PROC;
                store(status, &object.communicator.probe(source_of(source)?, tag_of(tag))?);
            }
            return Ok(());
        }
        let (source, tag) = (source_of(source)?, tag_of(tag));
        let (id, found) = object.communicator.mprobe(source, tag)?;
        unsafe {
            *message = keep_message(mpi, id, comm)?;
            store(status, &found);
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_improbe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    flag: *mut c_int,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> c_int {
    if source == MPI_PROC_NULL {
        unsafe { *flag = 1 };
        return unsafe { mpi_mprobe(source, tag, comm, message, status) };
    }
    on_communicator("MPI_Improbe", comm, |mpi, object| {
        let found = object.communicator.improbe(source_of(source)?, tag_of(tag))?;
        unsafe { *flag = c_int::from(found.is_some()) };
        if let Some((id, found)) = found {
            unsafe {
                *message = keep_message(mpi, id, comm)?;
                store(status, &found);
            }
        }
        Ok(())
    })
}

/// Takes a matched message out of its handle, and sets the handle to `MPI_MESSAGE_NULL`. `None` for `MPI_MESSAGE_NO_PROC`.
unsafe fn take_message(mpi: &Mpi, message: *mut MPI_Message) -> Outcome<Option<MessageObject>> {
    let handle = unsafe { *message };
    let found = match handle {
        MPI_MESSAGE_NO_PROC => None,
        handle => Some(mpi.messages.remove(handle.0).ok_or_else(|| {
            Failure::new(
                ErrorClass::Request,
                format!("0x{:x} is not a message: it was received, or never was one", handle.0),
            )
        })?),
    };
    unsafe { *message = MPI_MESSAGE_NULL };
    Ok(found)
}

pub(crate) unsafe fn mpi_mrecv_c(
    elements: RecvElements,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> c_int {
    on_requests("MPI_Mrecv", |mpi, of| {
        let id = unsafe { start_mrecv(mpi, elements, message, of) }?;
        let communicator = &mpi.world.communicator;
        // When the call returns, no operation uses the buffer any more, also after an error.
        let received = communicator.wait(id).inspect_err(|_| communicator.abandon(id));
        unsafe { store_result(status, received) }
    })
}

/// Starts the receive of a matched message; `of` becomes the message's communicator. For `MPI_MESSAGE_NO_PROC`, starts a receive from
/// `MPI_PROC_NULL`.
unsafe fn start_mrecv(
    mpi: &Mpi,
    elements: RecvElements,
    message: *mut MPI_Message,
    of: &mut Owner,
) -> Outcome<mpi_over_am::RequestId> {
    let data = unsafe { to_receive(mpi, elements) }?;
    match unsafe { take_message(mpi, message) }? {
        Some(found) => {
            *of = Owner::Communicator(found.of);
            Ok(mpi.world.communicator.imrecv_data(&data, found.id)?)
        }
        None => {
            Ok(mpi.world.communicator.irecv_data(&data, Source::Rank(PROC_NULL), mpi_over_am::Tag::Any)?)
        }
    }
}

pub(crate) unsafe fn mpi_imrecv_c(
    elements: RecvElements,
    message: *mut MPI_Message,
    request: *mut MPI_Request,
) -> c_int {
    on_requests("MPI_Imrecv", |mpi, of| {
        let id = unsafe { start_mrecv(mpi, elements, message, of) }?;
        unsafe { give(id, request) }
    })
}
