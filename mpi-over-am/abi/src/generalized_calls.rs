//! The calls that start and complete generalized requests (MPI 5.0 section 13.2).

use std::ffi::{c_int, c_void};

use mpi_over_am::{ErrorClass, Status};

use crate::errors::on_process;
use crate::failure::{Failure, not_null};
use crate::generalized::{forget, functions};
use crate::objects::Generalized;
use crate::requests::{find, handle_of, on_requests};
use crate::types::{Callback, MPI_Request};

pub(crate) unsafe fn mpi_grequest_start(
    query: Callback,
    free: Callback,
    cancel: Callback,
    extra_state: *mut c_void,
    request: *mut MPI_Request,
) -> c_int {
    on_process("MPI_Grequest_start", |mpi| {
        let at = not_null(request)?;
        if [query, free, cancel].contains(&0) {
            return Err(Failure::new(ErrorClass::Argument, "a function is null"));
        }
        let id = mpi.world.communicator.generalized_start()?;
        let handle = handle_of(id);
        let extra_state = extra_state.expose_provenance();
        let functions = Generalized { query, free, cancel, extra_state, is_freed: false };
        mpi.generalized.borrow_mut().insert(handle.id().handle(), functions);
        // SAFETY: `at` is not null, and the program gave it for this result.
        unsafe { *at = handle };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_grequest_complete(request: MPI_Request) -> c_int {
    on_requests("MPI_Grequest_complete", |mpi, _| {
        let object = find(mpi, request)?;
        let functions = functions(mpi, request)?;
        mpi.world.communicator.generalized_complete(object.id, Status::default())?;
        if !functions.is_freed {
            return Ok(());
        }
        forget(mpi, request);
        mpi.world.communicator.free(object.id)?;
        functions.free()
    })
}
