//! Generalized requests: operations that the program carries out itself (MPI 5.0 section 13.2).

use std::ffi::{c_int, c_void};

use mpi_over_am::{ErrorClass, RequestId};

use crate::constants::MPI_SUCCESS;
use crate::failure::{Failure, Outcome, call_program};
use crate::objects::Generalized;
use crate::state::Mpi;
use crate::statuses::store_empty;
use crate::types::{MPI_Request, MPI_Status};

type Query = unsafe extern "C-unwind" fn(*mut c_void, *mut MPI_Status) -> c_int;
type Free = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;
type Cancel = unsafe extern "C-unwind" fn(*mut c_void, c_int) -> c_int;

impl Generalized {
    fn extra_state(&self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.extra_state)
    }

    /// Gets the status from the program.
    fn query(&self, status: *mut MPI_Status) -> Outcome<()> {
        let mut ignored = MPI_Status::EMPTY;
        let status = if status.is_null() { &raw mut ignored } else { status };
        // SAFETY: the program gave a function of this type (MPI 5.0 section 13.2).
        let query: Query = unsafe { std::mem::transmute(self.query) };
        // SAFETY: `status` is the program's, or the local above; the program gave the state with the function.
        unsafe {
            store_empty(status);
            run("a query function", || query(self.extra_state(), status))
        }
    }

    pub(crate) fn free(&self) -> Outcome<()> {
        // SAFETY: the program gave a function of this type (MPI 5.0 section 13.2).
        let free: Free = unsafe { std::mem::transmute(self.free) };
        // SAFETY: the state came with the function.
        run("a free function", || unsafe { free(self.extra_state()) })
    }

    fn cancel(&self, is_over: bool) -> Outcome<()> {
        // SAFETY: the program gave a function of this type (MPI 5.0 section 13.2).
        let cancel: Cancel = unsafe { std::mem::transmute(self.cancel) };
        // SAFETY: the state came with the function.
        run("a cancel function", || unsafe { cancel(self.extra_state(), c_int::from(is_over)) })
    }
}

/// Runs a function of the program.
fn run(function: &str, call: impl FnOnce() -> c_int) -> Outcome<()> {
    let code = call_program(function, call);
    if code == MPI_SUCCESS {
        return Ok(());
    }
    Err(Failure::with_code(code, format!("{function} of a generalized request has returned {code}")))
}

pub(crate) fn functions(mpi: &Mpi, request: MPI_Request) -> Outcome<Generalized> {
    let found = mpi.generalized.borrow().get(&request.id().handle()).copied();
    found.ok_or_else(|| Failure::new(ErrorClass::Request, "the request is not a generalized request"))
}

/// Removes the request, before its free function runs.
pub(crate) fn forget(mpi: &Mpi, request: MPI_Request) {
    mpi.generalized.borrow_mut().remove(&request.id().handle());
}

/// Ends a completed operation that a wait has found: the program stores the status and frees its state.
///
/// # Errors
/// The request is not a generalized one; the errors of the program's functions.
pub(crate) fn ended(mpi: &Mpi, request: MPI_Request, status: *mut MPI_Status) -> Outcome<()> {
    let functions = functions(mpi, request)?;
    forget(mpi, request);
    let told = functions.query(status);
    let freed = functions.free();
    told.and(freed)
}

/// Gets the status that a wait would return for a completed operation.
///
/// # Errors
/// The request is not a generalized one; the error of the program's function.
pub(crate) fn tell(mpi: &Mpi, request: MPI_Request, status: *mut MPI_Status) -> Outcome<()> {
    functions(mpi, request)?.query(status)
}

/// Runs the program's cancel function, which gets whether the operation has completed.
///
/// # Errors
/// The request is not a generalized one; an error while making progress; the error of the program's function.
pub(crate) fn cancel(mpi: &Mpi, request: MPI_Request, id: RequestId) -> Outcome<()> {
    let is_over = mpi.world.communicator.request_status(id)?.is_some();
    functions(mpi, request)?.cancel(is_over)
}

/// Frees the request: at once if its operation has completed, otherwise when the operation completes.
///
/// # Errors
/// Those of [`cancel`].
pub(crate) fn free(mpi: &Mpi, request: MPI_Request, id: RequestId) -> Outcome<()> {
    let functions = functions(mpi, request)?;
    if mpi.world.communicator.request_status(id)?.is_none() {
        let later = Generalized { is_freed: true, ..functions };
        mpi.generalized.borrow_mut().insert(request.id().handle(), later);
        return Ok(());
    }
    forget(mpi, request);
    mpi.world.communicator.free(id)?;
    functions.free()
}
