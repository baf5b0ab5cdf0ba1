//! What most calls have in common: they enter MPI, and pass a failure to the error handler of the object that the call is about.

use std::ffi::c_int;

use mpi_over_am::ErrorClass;

use crate::constants::{MPI_COMM_NULL, MPI_COMM_SELF, MPI_COMM_WORLD, MPI_SESSION_NULL, MPI_SUCCESS};
use crate::engine::Environment;
use crate::failure::{Failure, Outcome};
use crate::objects::CommunicatorObject;
use crate::raise::{On, check_errhandler, raise_initial, raise_through, rank_in_job};
use crate::state::{Mpi, enter, stage};
use crate::types::{MPI_Comm, MPI_Errhandler};

/// The code that a call about `object` returns. If the call has failed, first runs the error handler of `object`.
#[inline(always)]
pub(crate) fn finish(object: &CommunicatorObject, function: &str, outcome: Outcome<()>) -> c_int {
    match outcome {
        Ok(()) => MPI_SUCCESS,
        Err(failure) => raise(object, function, &failure),
    }
}

/// [`finish`] for calls that have no communicator: the error handler for such errors runs ([`Mpi::without_communicator`]).
#[inline(always)]
pub(crate) fn finish_alone(mpi: &Mpi, function: &str, outcome: Outcome<()>) -> c_int {
    match outcome {
        Ok(()) => MPI_SUCCESS,
        Err(failure) => raise_alone(mpi, function, &failure),
    }
}

#[cold]
#[inline(never)]
fn raise_alone(mpi: &Mpi, function: &str, failure: &Failure) -> c_int {
    let object = mpi.without_communicator();
    let handle = object.communicator.properties().handle() as usize;
    raise_through(object.errhandler.get(), handle, this_task, function, failure)
}

/// This task, in the text of an error that belongs to no communicator.
pub(crate) fn this_task() -> String {
    format!("rank {} of MPI_COMM_WORLD", rank_in_job())
}

/// Enters MPI, and runs a call about a communicator. If the handle is invalid, the error belongs to no communicator.
#[inline(always)]
pub(crate) fn on_communicator(
    function: &str,
    handle: MPI_Comm,
    call: impl FnOnce(&Mpi, &CommunicatorObject) -> Outcome<()>,
) -> c_int {
    match enter(function) {
        Ok(mpi) => on_communicator_in(&mpi, function, handle, call),
        Err(code) => code,
    }
}

/// [`on_communicator`] in a call that has entered MPI already.
#[inline(always)]
pub(crate) fn on_communicator_in(
    mpi: &Mpi,
    function: &str,
    handle: MPI_Comm,
    call: impl FnOnce(&Mpi, &CommunicatorObject) -> Outcome<()>,
) -> c_int {
    // The world communicator is borrowed, not counted: most calls use it.
    let kept = if handle == MPI_COMM_WORLD { None } else { mpi.communicator(handle) };
    let object: &CommunicatorObject = match &kept {
        Some(object) => object,
        None if handle == MPI_COMM_WORLD => &mpi.world,
        None => return finish_alone(mpi, function, Err(no_communicator(handle))),
    };
    let outcome = call(mpi, object);
    finish(object, function, outcome)
}

/// Enters MPI, and runs a call that has no communicator.
#[inline(always)]
pub(crate) fn on_process(function: &str, call: impl FnOnce(&Mpi) -> Outcome<()>) -> c_int {
    match enter(function) {
        Ok(mpi) => {
            let outcome = call(&mpi);
            finish_alone(&mpi, function, outcome)
        }
        Err(code) => code,
    }
}

#[cold]
pub(crate) fn no_communicator(handle: MPI_Comm) -> Failure {
    let what = if handle == MPI_COMM_NULL {
        "the communicator is MPI_COMM_NULL".to_owned()
    } else {
        format!("0x{:x} is not a communicator: it was freed, never was one, or is still being made", handle.0)
    };
    Failure::new(ErrorClass::Communicator, what)
}

/// Like [`finish_alone`], for calls that are also allowed while MPI does not run: the initial error handler then runs.
pub(crate) fn finish_on_process(function: &str, outcome: Outcome<()>) -> c_int {
    match outcome {
        Ok(()) => MPI_SUCCESS,
        Err(failure) if stage() == (true, false) => match enter(function) {
            Ok(mpi) => finish_alone(&mpi, function, Err(failure)),
            Err(code) => code,
        },
        Err(failure) => raise_initial(function, &failure),
    }
}

/// Runs the error handler of a communicator. If the handler returns, returns the error code that the MPI call is to return.
#[cold]
#[inline(never)]
pub(crate) fn raise(object: &CommunicatorObject, function: &str, failure: &Failure) -> c_int {
    let handle = object.communicator.properties().handle() as usize;
    let of = || {
        let name = object.communicator.properties().name();
        let name = if name.is_empty() { "a communicator".to_owned() } else { name };
        let of_world = if handle == MPI_COMM_WORLD.0 { String::new() } else { format!(" ({})", this_task()) };
        format!("rank {} of {name}{of_world}", object.communicator.rank())
    };
    let about = object.communicator.about_failed(failure.failed_task());
    if about.is_empty() {
        return raise_through(object.errhandler.get(), handle, of, function, failure);
    }
    let failure = Failure::with_code(failure.code(), format!("{}{about}", failure.what()));
    raise_through(object.errhandler.get(), handle, of, function, &failure)
}

/// Runs the error handler that was given for an object to be made. If that handler is invalid, this is reported instead of `failure`.
#[cold]
pub(crate) fn raise_for_made(on: On, handler: MPI_Errhandler, function: &str, failure: Failure) -> c_int {
    if let Err(other) = check_errhandler(on, handler) {
        return finish_on_process(function, Err(other));
    }
    let (handle, made) = match on {
        On::Session => (MPI_SESSION_NULL.0, "a session"),
        _ => (MPI_COMM_SELF.0, "a communicator"),
    };
    let of = || format!("rank {} of the job for {made} to be made", rank_in_job());
    raise_through(handler, handle, of, function, &failure)
}

/// Runs a call of the environment.
///
/// # Errors
/// Those of the call; MPI is being finalized.
pub(crate) fn with_environment<T>(
    mpi: &Mpi,
    call: impl FnOnce(&Environment) -> mpi_over_am::Result<T>,
) -> Outcome<T> {
    let environment = mpi.environment.borrow();
    let environment =
        environment.as_ref().ok_or_else(|| Failure::new(ErrorClass::Other, "MPI is being finalized"))?;
    Ok(call(environment)?)
}
