//! Ports, published names, and connections between groups that share no communicator (MPI 5.0 sections 11.9 and 11.10).
//!
//! SAFETY: each `mpi_*` function here is called under the contract that the standard gives it: pointers are valid for the accesses that the
//! standard specifies, and a port is read at the root only.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results and read strings at the program's pointers; blocks that do more have a note"
)]

use std::ffi::{CStr, c_char, c_int};
use std::io::{Read as _, Write as _};
use std::mem::ManuallyDrop;
use std::net::TcpStream;
use std::os::fd::FromRawFd as _;

use mpi_over_am::ErrorClass;

use crate::communicators::make;
use crate::constants::{MPI_COMM_SELF, MPI_MAX_PORT_NAME};
use crate::engine::{Communicator, Environment};
use crate::errors::on_process;
use crate::failure::{Failure, Outcome, not_null};
use crate::infos::info_of;
use crate::state::Mpi;
use crate::types::{MPI_Comm, MPI_Info};

/// Room for a port with its NUL.
const PORT_ROOM: usize = MPI_MAX_PORT_NAME;
/// Bytes of what each end of a socket tells the other: the job's number and the port, filled up with spaces.
const HELLO_BYTES: usize = 96;

unsafe fn text_at(at: *const c_char, what: &str, class: ErrorClass) -> Outcome<String> {
    if at.is_null() {
        return Err(Failure::new(ErrorClass::Argument, format!("{what} is null")));
    }
    let text = unsafe { CStr::from_ptr(at) };
    let text = text.to_str().map_err(|_| Failure::new(class, format!("{what} {text:?} is no UTF-8 text")))?;
    Ok(text.to_owned())
}

/// A port must fit where the standard says that there is room for it.
fn check_length(port: &str) -> Outcome<()> {
    if port.len() < PORT_ROOM {
        return Ok(());
    }
    let what = format!("the port has {} bytes; at most {} fit", port.len(), PORT_ROOM - 1);
    Err(Failure::new(ErrorClass::Port, what))
}

unsafe fn give_port(at: *mut c_char, port: &str) -> Outcome<()> {
    let at = not_null(at)?;
    check_length(port)?;
    // SAFETY: the program gives room for MPI_MAX_PORT_NAME characters, and the port and its NUL are no more.
    unsafe {
        std::ptr::copy_nonoverlapping(port.as_ptr().cast(), at, port.len());
        *at.add(port.len()) = 0;
    }
    Ok(())
}

fn with_environment<T>(mpi: &Mpi, call: impl FnOnce(&Environment) -> mpi_over_am::Result<T>) -> Outcome<T> {
    let environment = mpi.environment.borrow();
    let there = environment
        .as_ref()
        .ok_or_else(|| Failure::new(ErrorClass::Other, "MPI is not initialized".to_owned()))?;
    Ok(call(there)?)
}

pub(crate) unsafe fn mpi_open_port(info: MPI_Info, port: *mut c_char) -> c_int {
    on_process("MPI_Open_port", |mpi| {
        info_of(info)?;
        not_null(port)?;
        let opened = with_environment(mpi, Environment::open_port)?;
        unsafe { give_port(port, &opened) }
    })
}

pub(crate) unsafe fn mpi_close_port(port: *const c_char) -> c_int {
    on_process("MPI_Close_port", |mpi| {
        let port = unsafe { text_at(port, "the port", ErrorClass::Port)? };
        with_environment(mpi, |environment| environment.close_port(&port))
    })
}

pub(crate) unsafe fn mpi_publish_name(name: *const c_char, info: MPI_Info, port: *const c_char) -> c_int {
    on_process("MPI_Publish_name", |mpi| {
        info_of(info)?;
        let name = unsafe { text_at(name, "the name", ErrorClass::Service)? };
        let port = unsafe { text_at(port, "the port", ErrorClass::Port)? };
        check_length(&port)?;
        with_environment(mpi, |environment| environment.publish(&name, &port))
    })
}

pub(crate) unsafe fn mpi_unpublish_name(name: *const c_char, info: MPI_Info, port: *const c_char) -> c_int {
    on_process("MPI_Unpublish_name", |mpi| {
        info_of(info)?;
        let name = unsafe { text_at(name, "the name", ErrorClass::Service)? };
        unsafe { text_at(port, "the port", ErrorClass::Port)? };
        with_environment(mpi, |environment| environment.unpublish(&name))
    })
}

pub(crate) unsafe fn mpi_lookup_name(name: *const c_char, info: MPI_Info, port: *mut c_char) -> c_int {
    on_process("MPI_Lookup_name", |mpi| {
        info_of(info)?;
        let name = unsafe { text_at(name, "the name", ErrorClass::Name)? };
        not_null(port)?;
        let found = with_environment(mpi, |environment| environment.look_up(&name))?;
        unsafe { give_port(port, &found) }
    })
}

fn root_of(root: c_int) -> Outcome<u32> {
    u32::try_from(root).map_err(|_| Failure::new(ErrorClass::Root, format!("the root is {root}, below zero")))
}

/// [`Communicator::accept_or_tell`] or [`Communicator::connect_or_tell`].
type Meet = fn(&Communicator, mpi_over_am::Result<&str>, u32) -> mpi_over_am::Result<Communicator>;

/// Connects groups by a port, which matters at the root.
unsafe fn connected(
    (function, meet): (&str, Meet),
    (port, info): (*const c_char, MPI_Info),
    (root, comm): (c_int, MPI_Comm),
    new: *mut MPI_Comm,
) -> c_int {
    make(function, comm, new, |_, communicator| {
        let root = root_of(root)?;
        let port = if root == communicator.rank() {
            info_of(info).and_then(|_| unsafe { text_at(port, "the port", ErrorClass::Port) })
        } else {
            Ok(String::new())
        };
        Ok(Some(meet(communicator, port.as_deref().map_err(Failure::to_error), root)?))
    })
}

pub(crate) unsafe fn mpi_comm_accept(
    port: *const c_char,
    info: MPI_Info,
    root: c_int,
    comm: MPI_Comm,
    new: *mut MPI_Comm,
) -> c_int {
    let call: (&str, Meet) = ("MPI_Comm_accept", Communicator::accept_or_tell);
    unsafe { connected(call, (port, info), (root, comm), new) }
}

pub(crate) unsafe fn mpi_comm_connect(
    port: *const c_char,
    info: MPI_Info,
    root: c_int,
    comm: MPI_Comm,
    new: *mut MPI_Comm,
) -> c_int {
    let call: (&str, Meet) = ("MPI_Comm_connect", Communicator::connect_or_tell);
    unsafe { connected(call, (port, info), (root, comm), new) }
}

/// Sends a text through a connected socket, and receives that of the other end.
fn exchange(fd: c_int, text: &str) -> Outcome<String> {
    if fd < 0 {
        return Err(Failure::new(ErrorClass::Argument, format!("the socket is {fd}, below zero")));
    }
    // SAFETY: the socket is the program's, and is not closed here.
    let mut socket = ManuallyDrop::new(unsafe { TcpStream::from_raw_fd(fd) });
    let mut hello = format!("{text:<HELLO_BYTES$}").into_bytes();
    let done = socket.write_all(&hello).and_then(|()| socket.read_exact(&mut hello));
    done.map_err(|error| Failure::new(ErrorClass::Other, format!("the socket {fd}: {error}")))?;
    Ok(String::from_utf8_lossy(&hello).trim_end().to_owned())
}

pub(crate) unsafe fn mpi_comm_join(fd: c_int, new: *mut MPI_Comm) -> c_int {
    make("MPI_Comm_join", MPI_COMM_SELF, new, |mpi, alone| {
        let own = with_environment(mpi, Environment::open_port)?;
        let job = mpi_over_am::job_number();
        let joined = exchange(fd, &format!("{job:016x} {own}")).and_then(|theirs| {
            let refused = |why: &str| {
                Failure::new(ErrorClass::Port, format!("the other end of the socket {fd} {why}: {theirs:?}"))
            };
            let (their_job, port) = theirs.split_once(' ').ok_or_else(|| refused("is no MPI_Comm_join"))?;
            if their_job != format!("{job:016x}") {
                return Err(refused("is a task of another job, or of this job on another host"));
            }
            // Both ends choose the same one to accept. A task that joins itself is refused by both.
            let is_first = own.as_str() < port;
            let own_task = own.split(':').nth(1);
            if own_task == port.split(':').nth(1) {
                return Err(refused("is this task"));
            }
            Ok(if is_first { alone.accept(&own, 0)? } else { alone.connect(port, 0)? })
        });
        with_environment(mpi, |environment| environment.close_port(&own))?;
        joined.map(Some)
    })
}
