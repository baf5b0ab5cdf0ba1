//! Buffers for buffered sends (MPI 5.0 section 3.6).
//!
//! SAFETY: each `mpi_*` function here is called under the contract that the standard gives it: pointers are valid for the accesses that the
//! standard specifies, and buffers are not used until their operation has ended. One thread at a time uses the state of MPI (`state`).

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results and read arrays at the program's pointers; blocks that do more have a note"
)]

use std::ffi::{c_int, c_void};

use mpi_over_am::{BufferOwner, ErrorClass, LentMemory, RequestId, SendBuffer};

use crate::constants::MPI_BUFFER_AUTOMATIC;
use crate::errors::{on_communicator, on_process, with_environment};
use crate::failure::{Failure, Outcome};
use crate::requests::keep_request;
use crate::sessions::{buffer_owner, on_session};
use crate::state::Mpi;
use crate::types::{MPI_Comm, MPI_Request, MPI_Session};

unsafe fn attach(mpi: &Mpi, owner: BufferOwner, at: *mut c_void, size: i64) -> Outcome<()> {
    let automatic = at.addr() == MPI_BUFFER_AUTOMATIC;
    let buffer = if automatic {
        SendBuffer::Automatic
    } else {
        let len = usize::try_from(size)
            .map_err(|_| Failure::new(ErrorClass::Argument, format!("the size is {size}, below zero")))?;
        if at.is_null() && len > 0 {
            return Err(Failure::new(ErrorClass::Buffer, format!("the buffer of {len} bytes is null")));
        }
        // The program must not use the memory until the buffer is detached (MPI 5.0 section 3.6).
        unsafe { LentMemory::from_raw(at.cast(), len) }.into()
    };
    with_environment(mpi, |environment| environment.attach_buffer_for(owner, buffer))?;
    let given = if automatic { (MPI_BUFFER_AUTOMATIC, 0) } else { (at.expose_provenance(), size) };
    mpi.lent.borrow_mut().insert(owner, given);
    Ok(())
}

unsafe fn detach(mpi: &Mpi, owner: BufferOwner, at: *mut c_void, size: *mut i64) -> Outcome<()> {
    with_environment(mpi, |environment| environment.detach_buffer_for(owner).map(drop))?;
    let (address, len) = mpi.lent.borrow_mut().remove(&owner).unwrap_or((0, 0));
    unsafe {
        *at.cast::<usize>() = address;
        *size = len;
    }
    Ok(())
}

fn flush(mpi: &Mpi, owner: BufferOwner) -> Outcome<()> {
    with_environment(mpi, |environment| environment.flush_buffer_for(owner))
}

unsafe fn iflush(mpi: &Mpi, owner: BufferOwner, request: *mut MPI_Request) -> Outcome<()> {
    let id: RequestId = with_environment(mpi, |environment| environment.iflush_buffer_for(owner))?;
    unsafe { *request = keep_request(&mpi.world.communicator, id) };
    Ok(())
}

pub(crate) unsafe fn mpi_buffer_attach_c(buffer: *mut c_void, size: i64) -> c_int {
    on_process("MPI_Buffer_attach", |mpi| unsafe { attach(mpi, BufferOwner::Process, buffer, size) })
}

pub(crate) unsafe fn mpi_buffer_detach_c(buffer: *mut c_void, size: *mut i64) -> c_int {
    on_process("MPI_Buffer_detach", |mpi| unsafe { detach(mpi, BufferOwner::Process, buffer, size) })
}

pub(crate) unsafe fn mpi_buffer_flush() -> c_int {
    on_process("MPI_Buffer_flush", |mpi| flush(mpi, BufferOwner::Process))
}

pub(crate) unsafe fn mpi_buffer_iflush(request: *mut MPI_Request) -> c_int {
    on_process("MPI_Buffer_iflush", |mpi| unsafe { iflush(mpi, BufferOwner::Process, request) })
}

pub(crate) unsafe fn mpi_comm_attach_buffer_c(comm: MPI_Comm, buffer: *mut c_void, size: i64) -> c_int {
    on_communicator("MPI_Comm_attach_buffer", comm, |mpi, object| unsafe {
        attach(mpi, object.communicator.buffer_owner()?, buffer, size)
    })
}

pub(crate) unsafe fn mpi_comm_detach_buffer_c(comm: MPI_Comm, buffer: *mut c_void, size: *mut i64) -> c_int {
    on_communicator("MPI_Comm_detach_buffer", comm, |mpi, object| unsafe {
        detach(mpi, object.communicator.buffer_owner()?, buffer, size)
    })
}

pub(crate) unsafe fn mpi_comm_flush_buffer(comm: MPI_Comm) -> c_int {
    on_communicator("MPI_Comm_flush_buffer", comm, |mpi, object| {
        flush(mpi, object.communicator.buffer_owner()?)
    })
}

pub(crate) unsafe fn mpi_comm_iflush_buffer(comm: MPI_Comm, request: *mut MPI_Request) -> c_int {
    on_communicator("MPI_Comm_iflush_buffer", comm, |mpi, object| unsafe {
        iflush(mpi, object.communicator.buffer_owner()?, request)
    })
}

pub(crate) unsafe fn mpi_session_attach_buffer_c(
    session: MPI_Session,
    buffer: *mut c_void,
    size: i64,
) -> c_int {
    on_session("MPI_Session_attach_buffer", session, |mpi, _| unsafe {
        attach(mpi, buffer_owner(session), buffer, size)
    })
}

pub(crate) unsafe fn mpi_session_detach_buffer_c(
    session: MPI_Session,
    buffer: *mut c_void,
    size: *mut i64,
) -> c_int {
    on_session("MPI_Session_detach_buffer", session, |mpi, _| unsafe {
        detach(mpi, buffer_owner(session), buffer, size)
    })
}

pub(crate) unsafe fn mpi_session_flush_buffer(session: MPI_Session) -> c_int {
    on_session("MPI_Session_flush_buffer", session, |mpi, _| flush(mpi, buffer_owner(session)))
}

pub(crate) unsafe fn mpi_session_iflush_buffer(session: MPI_Session, request: *mut MPI_Request) -> c_int {
    on_session("MPI_Session_iflush_buffer", session, |mpi, _| unsafe {
        iflush(mpi, buffer_owner(session), request)
    })
}
