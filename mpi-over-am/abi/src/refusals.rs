//! Errors of checks that the exports make before a call begins: null pointers for results, invalid info objects.

use std::ffi::c_int;

use mpi_over_am::ErrorClass;

use crate::errors::{finish_on_process, on_communicator, raise_for_made};
use crate::failure::Failure;
use crate::raise::On;
use crate::sessions::on_session;
use crate::types::{MPI_Comm, MPI_Errhandler, MPI_Info, MPI_Session, MPI_Win};
use crate::windows::on_window;

/// The object of a call, whose error handler runs.
pub(crate) enum Of {
    MPI_Comm(MPI_Comm),
    MPI_Win(MPI_Win),
    MPI_Session(MPI_Session),
    /// An object to be made, with this error handler. If the handler is valid, no other handler runs.
    Made(On, MPI_Errhandler),
    Process,
}

#[cold]
fn refuse(function: &str, of: &Of, failure: Failure) -> c_int {
    match *of {
        Of::MPI_Comm(comm) => on_communicator(function, comm, |_, _| Err(failure)),
        Of::MPI_Win(win) => on_window(function, win, |_, _| Err(failure)),
        Of::MPI_Session(session) => on_session(function, session, |_, _| Err(failure)),
        Of::Made(on, handler) => raise_for_made(on, handler, function, failure),
        Of::Process => finish_on_process(function, Err(failure)),
    }
}

/// The result of a call whose pointer for a result is null.
#[cold]
pub(crate) fn no_place_for(function: &str, argument: &str, of: Of) -> c_int {
    let what = format!("the address {argument}, at which a result is stored, is null");
    refuse(function, &of, Failure::new(ErrorClass::Argument, what))
}

/// The result of a call with an invalid info object.
#[cold]
pub(crate) fn no_info(function: &str, info: MPI_Info, of: Of) -> c_int {
    refuse(function, &of, crate::infos::no_info(info))
}
