//! Initialization and finalization of MPI, versions, clock, memory, addresses, and the classes and texts of errors (MPI 5.0 chapters 9 and
//! 11).
//!
//! SAFETY: each `mpi_*` function here is called under the contract that the standard gives it: pointers are valid for the accesses that the
//! standard specifies. One thread at a time uses the state of MPI (`state`); some functions here don't use the state, and run in several
//! threads at once.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results and read arrays at the program's pointers; blocks that do more have a note"
)]

use std::ffi::{c_char, c_int, c_void};

use mpi_over_am::ErrorClass;

use crate::codes::{class_of, meaning, text_of};
use crate::constants::{
    MPI_ERR_OTHER, MPI_ERR_UNKNOWN, MPI_MAX_ERROR_STRING, MPI_MAX_LIBRARY_VERSION_STRING,
    MPI_MAX_PROCESSOR_NAME, MPI_SUBVERSION, MPI_SUCCESS, MPI_THREAD_FUNNELED, MPI_THREAD_MULTIPLE,
    MPI_THREAD_SERIALIZED, MPI_THREAD_SINGLE, MPI_VERSION,
};
use crate::errors::{on_process, this_task};
use crate::failure::Failure;
use crate::raise::{KeptErrhandler, last_said, raise_outside, raise_through};
use crate::state;
use crate::text::give_string;
use crate::types::MPI_Comm;
use crate::variables::start_mpi;

/// Starts MPI; returns the thread level. The program ends if that fails.
fn start(function: &str, required: c_int) -> c_int {
    let _starting = crate::sessions::starting();
    if !state::is_finalized() && crate::sessions::adopt() {
        state::set_main_thread();
        // The level of sessions.
        return MPI_THREAD_MULTIPLE;
    }
    let (started, ended) = state::stage();
    if started {
        let what = if ended || state::is_finalized() { "has ended" } else { "has already been started" };
        mpi_over_am::complain!("{function} was called, but MPI {what}");
        std::process::exit(MPI_ERR_OTHER);
    }
    if let Err(what) = crate::loaded::check() {
        mpi_over_am::complain!("{function}: {what}");
        std::process::exit(MPI_ERR_OTHER);
    }
    let level = required.clamp(MPI_THREAD_SINGLE, MPI_THREAD_MULTIPLE);
    match start_mpi(level) {
        Ok(()) => level,
        Err(error) => {
            mpi_over_am::complain!("{function}: {error}");
            std::process::exit(MPI_ERR_OTHER)
        }
    }
}

pub(crate) unsafe fn mpi_init(_argc: *mut c_int, _argv: *mut *mut *mut c_char) -> c_int {
    start("MPI_Init", MPI_THREAD_SINGLE);
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_init_thread(
    _argc: *mut c_int,
    _argv: *mut *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    let levels = [MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE];
    let level = levels.into_iter().find(|&level| level >= required).unwrap_or(MPI_THREAD_MULTIPLE);
    unsafe { *provided = start("MPI_Init_thread", level) };
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_query_thread(provided: *mut c_int) -> c_int {
    on_process("MPI_Query_thread", |mpi| {
        unsafe { *provided = mpi.level };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_is_thread_main(flag: *mut c_int) -> c_int {
    unsafe { *flag = c_int::from(state::is_main_thread()) };
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_initialized(flag: *mut c_int) -> c_int {
    unsafe { *flag = c_int::from(state::is_finalized() || state::is_running() && !crate::sessions::alone()) };
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_finalized(flag: *mut c_int) -> c_int {
    unsafe { *flag = c_int::from(state::is_finalized()) };
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_finalize() -> c_int {
    state::stop_progress_thread();
    let (outcome, goes_on, handler, handle) = {
        let mpi = crate::state::entered!("MPI_Finalize");
        if crate::sessions::alone() {
            return raise_outside("MPI_Finalize", state::is_finalized());
        }
        // An error is raised after MPI has ended, when the communicators are gone.
        let object = mpi.without_communicator();
        let handler = KeptErrhandler::new(object.errhandler.get());
        let handle = object.communicator.properties().handle() as usize;
        // Functions of the program run here, before anything of MPI has ended (MPI 5.0 section 11.2.4), and may end the last session.
        let deleted = mpi.alone.communicator.properties().delete_attributes();
        crate::type_objects::sweep(&mpi);
        let goes_on = !mpi.sessions.is_empty();
        let outcome = if goes_on {
            mpi.environment.borrow().as_ref().map_or(Ok(()), crate::engine::Environment::leave_world)
        } else {
            let environment = mpi.environment.borrow_mut().take();
            environment.as_ref().map(crate::performance::keep);
            environment.map_or(Ok(()), crate::engine::Environment::finalize)
        };
        (deleted.and(outcome), goes_on, handler, handle)
    };
    state::set_finalized();
    if goes_on {
        crate::sessions::go_on_alone();
    } else {
        drop(state::end());
    }
    match outcome {
        Ok(()) => MPI_SUCCESS,
        Err(error) => raise_through(handler.get(), handle, this_task, "MPI_Finalize", &error.into()),
    }
}

pub(crate) unsafe fn mpi_abort(comm: MPI_Comm, errorcode: c_int) -> c_int {
    match state::enter("MPI_Abort") {
        Ok(mpi) => match mpi.communicator(comm) {
            Some(object) => object.communicator.abort(errorcode),
            None => mpi.world.communicator.abort(errorcode),
        },
        Err(code) => code,
    }
}

pub(crate) unsafe fn mpi_get_version(version: *mut c_int, subversion: *mut c_int) -> c_int {
    unsafe { (*version, *subversion) = (MPI_VERSION, MPI_SUBVERSION) };
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_get_library_version(version: *mut c_char, len: *mut c_int) -> c_int {
    let text = concat!(
        "mpi-over-am ",
        env!("CARGO_PKG_VERSION"),
        "{}: MPI 5.0 over active messages (am-core, am-via), ",
        env!("MPI_FUNCTIONS_THERE"),
        " of its ",
        env!("MPI_FUNCTIONS"),
        " functions"
    );
    let text = text.replacen("{}", crate::face::LIKE, 1);
    unsafe { give_string(&text, version, MPI_MAX_LIBRARY_VERSION_STRING, len) };
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_get_processor_name(name: *mut c_char, len: *mut c_int) -> c_int {
    let mut host = [0u8; MPI_MAX_PROCESSOR_NAME];
    // SAFETY: the buffer is one byte longer than the length passed, and that byte stays zero.
    let known = unsafe { libc::gethostname(host.as_mut_ptr().cast(), host.len() - 1) } == 0;
    let end = host.iter().position(|&byte| byte == 0).unwrap_or(0);
    let text =
        if known { String::from_utf8_lossy(&host[..end]).into_owned() } else { "localhost".to_owned() };
    unsafe { give_string(&text, name, MPI_MAX_PROCESSOR_NAME, len) };
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_wtime() -> f64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is valid for the write.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

pub(crate) unsafe fn mpi_wtick() -> f64 {
    1e-9
}

pub(crate) unsafe fn mpi_alloc_mem(size: i64, _info: crate::types::MPI_Info, baseptr: *mut c_void) -> c_int {
    on_process("MPI_Alloc_mem", |_| {
        let size = usize::try_from(size)
            .map_err(|_| Failure::new(ErrorClass::Argument, format!("the size is {size}, below zero")))?;
        let at = crate::shared_malloc::allocate(size);
        if at.is_null() {
            return Err(Failure::new(ErrorClass::NoMemory, format!("{size} bytes cannot be allocated")));
        }
        unsafe { *baseptr.cast::<*mut c_void>() = at };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_free_mem(base: *mut c_void) -> c_int {
    crate::shared_malloc::free(base);
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_pcontrol(_level: c_int) -> c_int {
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_aint_add(base: i64, displacement: i64) -> i64 {
    base.wrapping_add(displacement)
}

pub(crate) unsafe fn mpi_aint_diff(first: i64, second: i64) -> i64 {
    first.wrapping_sub(second)
}

pub(crate) unsafe fn mpi_get_address(location: *const c_void, address: *mut i64) -> c_int {
    unsafe { *address = location.expose_provenance() as i64 };
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_error_class(code: c_int, class: *mut c_int) -> c_int {
    // An invalid code has no class; it is reported as an unknown error.
    unsafe { *class = class_of(code).unwrap_or(MPI_ERR_UNKNOWN) };
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_error_string(code: c_int, text: *mut c_char, len: *mut c_int) -> c_int {
    // For its own codes a program gets exactly the text that it has set.
    let last = last_said(code).filter(|_| text_of(code).is_none());
    let said = last.map_or_else(|| meaning(code), |said| format!("{}; {said}", meaning(code)));
    unsafe { give_string(&said, text, MPI_MAX_ERROR_STRING, len) };
    MPI_SUCCESS
}
