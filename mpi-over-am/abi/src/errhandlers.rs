//! Error handlers of communicators, windows, sessions and files (MPI 5.0 section 9.3). The handlers belong to the process, because a
//! session may need one before MPI is started.

use std::ffi::c_int;

use mpi_over_am::ErrorClass;

use crate::constants::{
    MPI_ERRHANDLER_NULL, MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL, MPI_ERRORS_RETURN, MPI_FILE_NULL,
    MPI_SUCCESS,
};
use crate::errors::{finish_alone, finish_on_process, no_communicator, on_communicator, raise};
use crate::failure::{Failure, Outcome, not_null};
use crate::files::on_file;
use crate::raise::{
    ErrhandlerObject, FILES, KeptErrhandler, On, change, errhandlers, raise_on_no_file, raise_through,
};
use crate::sessions::on_session;
use crate::state::{enter, entered};
use crate::types::{Callback, MPI_Comm, MPI_Errhandler, MPI_File, MPI_Session, MPI_Win};
use crate::windows::on_window;

fn create(function: &str, on: On, callback: Callback, at: *mut MPI_Errhandler) -> c_int {
    let make = || {
        let at = not_null(at)?;
        if callback == 0 {
            return Err(Failure::new(ErrorClass::Argument, "the error handler's function is null"));
        }
        let object = ErrhandlerObject { function: callback, on, by_program: 1, by_objects: 0 };
        // SAFETY: `at` is not null, and the program gave it for this result.
        unsafe { *at = MPI_Errhandler(errhandlers().insert(object)?) };
        Ok(())
    };
    finish_on_process(function, make())
}

pub(crate) unsafe fn mpi_comm_create_errhandler(callback: Callback, handler: *mut MPI_Errhandler) -> c_int {
    create("MPI_Comm_create_errhandler", On::Communicator, callback, handler)
}

pub(crate) unsafe fn mpi_win_create_errhandler(callback: Callback, handler: *mut MPI_Errhandler) -> c_int {
    create("MPI_Win_create_errhandler", On::Window, callback, handler)
}

pub(crate) unsafe fn mpi_file_create_errhandler(callback: Callback, handler: *mut MPI_Errhandler) -> c_int {
    create("MPI_File_create_errhandler", On::File, callback, handler)
}

pub(crate) unsafe fn mpi_session_create_errhandler(
    callback: Callback,
    handler: *mut MPI_Errhandler,
) -> c_int {
    create("MPI_Session_create_errhandler", On::Session, callback, handler)
}

pub(crate) unsafe fn mpi_errhandler_free(handler: *mut MPI_Errhandler) -> c_int {
    let free = || {
        let at = not_null(handler)?;
        // SAFETY: `at` is not null, and the program gave it for this result.
        let handle = unsafe { *at };
        // Inquiries also return predefined handlers, so programs may free these like any other.
        if !matches!(handle, MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT | MPI_ERRORS_RETURN) {
            if errhandlers().get(handle.0).is_none_or(|object| object.by_program == 0) {
                let what =
                    format!("0x{:x} is not an error handler: it was freed, or never was one", handle.0);
                return Err(Failure::new(ErrorClass::ErrorHandler, what));
            }
            change(handle, |object| object.by_program -= 1);
        }
        // SAFETY: `at` is not null, and the program gave it for this result.
        unsafe { *at = MPI_ERRHANDLER_NULL };
        Ok(())
    };
    finish_on_process("MPI_Errhandler_free", free())
}

/// The failure for an error handler that the program itself calls.
fn called(code: c_int) -> Failure {
    Failure::with_code(code, format!("the program has called the error handler with {code}"))
}

/// Runs a call about the error handler of a communicator, which may be a duplicate that is still being made.
fn on_errhandler_of(function: &str, comm: MPI_Comm, call: impl Fn(&KeptErrhandler) -> Outcome<()>) -> c_int {
    let pending = enter(function).ok().and_then(|mpi| mpi.with_pending(comm, &call));
    match pending {
        Some(outcome) => finish_on_process(function, outcome),
        None => on_communicator(function, comm, |_, object| call(&object.errhandler)),
    }
}

pub(crate) unsafe fn mpi_comm_set_errhandler(comm: MPI_Comm, handler: MPI_Errhandler) -> c_int {
    on_errhandler_of("MPI_Comm_set_errhandler", comm, |kept| kept.set(On::Communicator, handler))
}

pub(crate) unsafe fn mpi_comm_get_errhandler(comm: MPI_Comm, handler: *mut MPI_Errhandler) -> c_int {
    on_errhandler_of("MPI_Comm_get_errhandler", comm, |kept| kept.give(handler))
}

pub(crate) unsafe fn mpi_comm_call_errhandler(comm: MPI_Comm, code: c_int) -> c_int {
    const CALL: &str = "MPI_Comm_call_errhandler";
    let mpi = entered!(CALL);
    match mpi.communicator(comm) {
        Some(object) => {
            raise(&object, CALL, &called(code));
            MPI_SUCCESS
        }
        None => finish_alone(&mpi, CALL, Err(no_communicator(comm))),
    }
}

pub(crate) unsafe fn mpi_win_set_errhandler(win: MPI_Win, handler: MPI_Errhandler) -> c_int {
    on_window("MPI_Win_set_errhandler", win, |_, object| object.errhandler.set(On::Window, handler))
}

pub(crate) unsafe fn mpi_win_get_errhandler(win: MPI_Win, handler: *mut MPI_Errhandler) -> c_int {
    on_window("MPI_Win_get_errhandler", win, |_, object| object.errhandler.give(handler))
}

pub(crate) unsafe fn mpi_win_call_errhandler(win: MPI_Win, code: c_int) -> c_int {
    on_window("MPI_Win_call_errhandler", win, |_, object| {
        let of = || "a window".to_owned();
        raise_through(object.errhandler.get(), win.0, of, "MPI_Win_call_errhandler", &called(code));
        Ok(())
    })
}

pub(crate) unsafe fn mpi_session_set_errhandler(session: MPI_Session, handler: MPI_Errhandler) -> c_int {
    on_session("MPI_Session_set_errhandler", session, |_, object| object.errhandler.set(On::Session, handler))
}

pub(crate) unsafe fn mpi_session_get_errhandler(session: MPI_Session, handler: *mut MPI_Errhandler) -> c_int {
    on_session("MPI_Session_get_errhandler", session, |_, object| object.errhandler.give(handler))
}

pub(crate) unsafe fn mpi_session_call_errhandler(session: MPI_Session, code: c_int) -> c_int {
    on_session("MPI_Session_call_errhandler", session, |_, object| {
        let of = || "a session".to_owned();
        raise_through(object.errhandler.get(), session.0, of, "MPI_Session_call_errhandler", &called(code));
        Ok(())
    })
}

/// Runs a call about the error handler of a file, or of `MPI_FILE_NULL`, which is there before MPI starts, too.
fn on_handler_of(function: &str, file: MPI_File, call: impl FnOnce(&KeptErrhandler) -> Outcome<()>) -> c_int {
    if file != MPI_FILE_NULL {
        return on_file(function, file, |_, object| call(&object.errhandler));
    }
    match call(&FILES) {
        Ok(()) => MPI_SUCCESS,
        Err(failure) => raise_on_no_file(function, &failure),
    }
}

pub(crate) unsafe fn mpi_file_set_errhandler(file: MPI_File, handler: MPI_Errhandler) -> c_int {
    on_handler_of("MPI_File_set_errhandler", file, |kept| kept.set(On::File, handler))
}

pub(crate) unsafe fn mpi_file_get_errhandler(file: MPI_File, handler: *mut MPI_Errhandler) -> c_int {
    on_handler_of("MPI_File_get_errhandler", file, |kept| kept.give(handler))
}

pub(crate) unsafe fn mpi_file_call_errhandler(file: MPI_File, code: c_int) -> c_int {
    const CALL: &str = "MPI_File_call_errhandler";
    on_handler_of(CALL, file, |kept| {
        raise_through(kept.get(), file.0, || "a file".to_owned(), CALL, &called(code));
        Ok(())
    })
}
