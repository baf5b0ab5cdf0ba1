//! The tool information interface (MPI 5.0 chapter 15). There are no variables, categories, sources or events: everything can
//! be asked for, and every index, name and handle is answered as one that does not exist. It works before `MPI_Init` and after
//! `MPI_Finalize`, and no error handler is ever called.
//!
//! SAFETY: every function here is called by C, under the contract that the standard gives it: pointers are good for what the
//! standard says they are for.

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::types::{
    MPI_SUCCESS, MPI_T_pvar_session, MPI_THREAD_FUNNELED, MPI_THREAD_MULTIPLE, MPI_THREAD_SERIALIZED,
    MPI_THREAD_SINGLE,
};

const NOT_INITIALIZED: c_int = 1003;
const INVALID_INDEX: c_int = 1007;
const INVALID_ITEM: c_int = 1008;
const INVALID_SESSION: c_int = 1009;
const INVALID_HANDLE: c_int = 1010;
const INVALID_NAME: c_int = 1011;

/// How often the interface was started, less how often it was ended.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// Sessions of performance variables that are open.
static SESSIONS: AtomicUsize = AtomicUsize::new(0);

/// Any session: nothing can be in it, so that all are alike.
const SESSION: MPI_T_pvar_session = MPI_T_pvar_session(0x1000);

fn is_started() -> bool {
    STARTED.load(Ordering::Relaxed) > 0
}

/// Takes one off a count, if it is not 0.
fn take_one(count: &AtomicUsize) -> bool {
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1)).is_ok()
}

pub(crate) unsafe fn mpi_t_init_thread(required: c_int, provided: *mut c_int) -> c_int {
    let levels = [MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED];
    let level = levels.into_iter().find(|&level| level >= required).unwrap_or(MPI_THREAD_MULTIPLE);
    if !provided.is_null() {
        unsafe { *provided = level };
    }
    STARTED.fetch_add(1, Ordering::Relaxed);
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_t_finalize() -> c_int {
    if take_one(&STARTED) { MPI_SUCCESS } else { NOT_INITIALIZED }
}

/// There are none of them.
unsafe fn none(number: *mut c_int) -> c_int {
    if !is_started() {
        return NOT_INITIALIZED;
    }
    if !number.is_null() {
        unsafe { *number = 0 };
    }
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_t_cvar_get_num(number: *mut c_int) -> c_int {
    unsafe { none(number) }
}

pub(crate) unsafe fn mpi_t_pvar_get_num(number: *mut c_int) -> c_int {
    unsafe { none(number) }
}

pub(crate) unsafe fn mpi_t_category_get_num(number: *mut c_int) -> c_int {
    unsafe { none(number) }
}

pub(crate) unsafe fn mpi_t_source_get_num(number: *mut c_int) -> c_int {
    unsafe { none(number) }
}

pub(crate) unsafe fn mpi_t_event_get_num(number: *mut c_int) -> c_int {
    unsafe { none(number) }
}

/// The categories never change.
pub(crate) unsafe fn mpi_t_category_changed(update: *mut c_int) -> c_int {
    unsafe { none(update) }
}

pub(crate) unsafe fn mpi_t_pvar_session_create(session: *mut MPI_T_pvar_session) -> c_int {
    if !is_started() {
        return NOT_INITIALIZED;
    }
    SESSIONS.fetch_add(1, Ordering::Relaxed);
    unsafe { *session = SESSION };
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_t_pvar_session_free(session: *mut MPI_T_pvar_session) -> c_int {
    if !is_started() {
        return NOT_INITIALIZED;
    }
    if unsafe { *session } != SESSION || !take_one(&SESSIONS) {
        return INVALID_SESSION;
    }
    unsafe { *session = MPI_T_pvar_session(0) };
    MPI_SUCCESS
}

/// What every other function of the interface returns: what it is asked about does not exist.
#[cold]
pub(crate) fn no_such_thing(function: &str) -> c_int {
    if !is_started() {
        NOT_INITIALIZED
    } else if function.ends_with("_get_index") {
        INVALID_NAME
    } else if function.ends_with("_enum_get_item") {
        INVALID_ITEM
    } else if function.contains("_category_")
        || function.contains("_source_")
        || function.ends_with("var_get_info")
        || function.ends_with("var_handle_alloc")
        || function.ends_with("_event_get_info")
        || function.ends_with("_event_handle_alloc")
    {
        INVALID_INDEX
    } else {
        INVALID_HANDLE
    }
}
