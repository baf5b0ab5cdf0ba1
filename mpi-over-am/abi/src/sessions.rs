//! Sessions (MPI 5.0 section 11.3).
//!
//! A session may be the first thing of MPI that a program has. MPI is then started for it, and ends with the process: any
//! number of sessions may come and go before.
//!
//! SAFETY: every function here is called by C, under the contract that the standard gives it: pointers are good for what the
//! standard says they are for, buffers are left alone until their operation has ended, and one thread at a time is inside
//! (`state`).

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use mpi_over_am::{Communicator, ErrorClass, ErrorHandler, Session};

use crate::communicators::keep_communicator;
use crate::environment::{give_string, raise_through};
use crate::errors::{Failure, Outcome, finish_alone, on_process};
use crate::groups::{group_of, keep_group};
use crate::infos::{info_of, keep_info};
use crate::state::{self, Mpi, enter};
use crate::types::{
    MPI_Comm, MPI_Errhandler, MPI_Group, MPI_Info, MPI_SESSION_NULL, MPI_SUCCESS, MPI_Session,
    MPI_THREAD_MULTIPLE,
};

/// A session, and what C's handle of it needs besides.
#[derive(Debug)]
pub(crate) struct SessionObject {
    pub(crate) session: Session,
    pub(crate) errhandler: Cell<MPI_Errhandler>,
    pub(crate) handle: Cell<MPI_Session>,
}

/// MPI runs for sessions alone: `MPI_Init` has not been called.
static ALONE: AtomicBool = AtomicBool::new(false);

/// Whether MPI runs for sessions alone.
pub(crate) fn alone() -> bool {
    ALONE.load(Ordering::Relaxed)
}

/// `MPI_Init` comes after a session: MPI runs already, and is the program's from now on.
pub(crate) fn adopt() -> bool {
    ALONE.swap(false, Ordering::Relaxed)
}

/// Ends MPI with the process, where `MPI_Finalize` is never called.
extern "C" fn at_exit() {
    if alone()
        && let Some(mpi) = state::end()
    {
        let environment = mpi.environment.borrow_mut().take();
        // Nobody is left to hear of an error.
        let _ = environment.map(mpi_over_am::Environment::finalize);
    }
}

fn session_of(mpi: &Mpi, handle: MPI_Session) -> Outcome<Rc<SessionObject>> {
    mpi.sessions.get(handle.0).ok_or_else(|| {
        let what = match handle {
            MPI_SESSION_NULL => "the session is MPI_SESSION_NULL".to_owned(),
            other => format!("0x{:x} is no session: it has ended, or never was one", other.0),
        };
        Failure::new(ErrorClass::Session, what)
    })
}

/// Runs a call about a session.
pub(crate) fn on_session(
    function: &str,
    handle: MPI_Session,
    call: impl FnOnce(&Mpi, &SessionObject) -> Outcome<()>,
) -> c_int {
    let mpi = match enter(function) {
        Ok(mpi) => mpi,
        Err(code) => return code,
    };
    match session_of(&mpi, handle) {
        Ok(object) => match call(&mpi, &object) {
            Ok(()) => MPI_SUCCESS,
            Err(failure) => {
                let of = || "a session".to_owned();
                raise_through(object.errhandler.get(), object.handle.get().0, of, function, &failure)
            }
        },
        Err(failure) => finish_alone(&mpi, function, Err(failure)),
    }
}

pub(crate) unsafe fn mpi_session_init(
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    session: *mut MPI_Session,
) -> c_int {
    if !state::stage().0 {
        match Mpi::start(MPI_THREAD_MULTIPLE) {
            Ok(mpi) => state::begin(mpi),
            Err(error) => {
                let failure = error.into();
                return raise_through(errhandler, 0x120, || "a session".into(), "MPI_Session_init", &failure);
            }
        }
        ALONE.store(true, Ordering::Relaxed);
        unsafe { libc::atexit(at_exit) };
    }
    on_process("MPI_Session_init", |mpi| {
        let info = info_of(info)?;
        let environment = mpi.environment.borrow();
        let environment =
            environment.as_ref().ok_or_else(|| Failure::new(ErrorClass::Other, "MPI is being finalized"))?;
        let made = Rc::new(SessionObject {
            session: environment.session(&info, ErrorHandler::Return),
            errhandler: Cell::new(errhandler),
            handle: Cell::new(MPI_SESSION_NULL),
        });
        let handle = mpi.sessions.insert(Rc::clone(&made));
        let handle = handle.ok_or_else(|| Failure::new(ErrorClass::NoMemory, "a million sessions exist"))?;
        made.handle.set(MPI_Session(handle));
        unsafe { *session = MPI_Session(handle) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_session_finalize(session: *mut MPI_Session) -> c_int {
    let handle = unsafe { *session };
    on_session("MPI_Session_finalize", handle, |mpi, _| {
        mpi.sessions.remove(handle.0);
        unsafe { *session = MPI_SESSION_NULL };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_session_get_info(session: MPI_Session, info: *mut MPI_Info) -> c_int {
    on_session("MPI_Session_get_info", session, |_, object| {
        let mut used = object.session.info().clone();
        if used.get("thread_level")?.is_none() {
            used.set("thread_level", "MPI_THREAD_MULTIPLE")?;
        }
        unsafe { *info = keep_info(used)? };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_session_get_num_psets(
    session: MPI_Session,
    _info: MPI_Info,
    number: *mut c_int,
) -> c_int {
    on_session("MPI_Session_get_num_psets", session, |_, object| {
        unsafe { *number = object.session.sets().len() as c_int };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_session_get_nth_pset(
    session: MPI_Session,
    _info: MPI_Info,
    n: c_int,
    len: *mut c_int,
    name: *mut c_char,
) -> c_int {
    on_session("MPI_Session_get_nth_pset", session, |_, object| {
        let sets = object.session.sets();
        let set = usize::try_from(n).ok().and_then(|n| sets.get(n)).ok_or_else(|| {
            Failure::new(ErrorClass::Argument, format!("there is no set {n}: there are {}", sets.len()))
        })?;
        // In goes the room; out comes what is needed, with the final zero.
        let room = unsafe { *len };
        if room > 0 {
            unsafe { give_string(set, name, room as usize, std::ptr::null_mut()) };
        }
        unsafe { *len = set.len() as c_int + 1 };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_session_get_pset_info(
    session: MPI_Session,
    name: *const c_char,
    info: *mut MPI_Info,
) -> c_int {
    on_session("MPI_Session_get_pset_info", session, |_, object| {
        let found = object.session.set_info(&unsafe { CStr::from_ptr(name) }.to_string_lossy())?;
        unsafe { *info = keep_info(found)? };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_group_from_session_pset(
    session: MPI_Session,
    name: *const c_char,
    group: *mut MPI_Group,
) -> c_int {
    on_session("MPI_Group_from_session_pset", session, |mpi, object| {
        let found = object.session.group(&unsafe { CStr::from_ptr(name) }.to_string_lossy())?;
        unsafe { *group = keep_group(mpi, found)? };
        Ok(())
    })
}

/// Runs `make` with a session of its own: the calls that make communicators from groups name none.
fn with_session(
    function: &str,
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    at: *mut MPI_Comm,
    make: impl FnOnce(&Mpi, &Session, &mpi_over_am::Info) -> Outcome<Option<Communicator>>,
) -> c_int {
    on_process(function, |mpi| {
        let info = info_of(info)?;
        let environment = mpi.environment.borrow();
        let environment =
            environment.as_ref().ok_or_else(|| Failure::new(ErrorClass::Other, "MPI is being finalized"))?;
        let session = environment.session(&info, ErrorHandler::Return);
        unsafe { *at = keep_communicator(mpi, make(mpi, &session, &info)?, errhandler)? };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_comm_create_from_group(
    group: MPI_Group,
    tag: *const c_char,
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    comm: *mut MPI_Comm,
) -> c_int {
    with_session("MPI_Comm_create_from_group", info, errhandler, comm, |mpi, session, info| {
        let tag = unsafe { CStr::from_ptr(tag) }.to_string_lossy();
        Ok(session.create_from_group(&group_of(mpi, group)?, &tag, info, ErrorHandler::Return)?)
    })
}

pub(crate) unsafe fn mpi_intercomm_create_from_groups(
    local: MPI_Group,
    _local_leader: c_int,
    remote: MPI_Group,
    _remote_leader: c_int,
    tag: *const c_char,
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    comm: *mut MPI_Comm,
) -> c_int {
    with_session("MPI_Intercomm_create_from_groups", info, errhandler, comm, |mpi, session, info| {
        let tag = unsafe { CStr::from_ptr(tag) }.to_string_lossy();
        let (local, remote) = (group_of(mpi, local)?, group_of(mpi, remote)?);
        Ok(Some(session.inter_from_groups(&local, &remote, &tag, info, ErrorHandler::Return)?))
    })
}
