//! Operations that the program carries out itself, as requests (`MPI_Grequest_start`; MPI 5.0 section 13.2).

use am_core::fabric::Fabric;

use crate::communicator::Communicator;
use crate::error::{Error, ErrorClass, Result};
use crate::message::request_id::RequestId;
use crate::message::request_table::Phase;
use crate::message::status::Status;
use crate::policy::LockPolicy;

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// A request for an operation that the program carries out (`MPI_Grequest_start`). It is complete after
    /// [`generalized_complete`](Self::generalized_complete), and can be waited for like any other request.
    ///
    /// # Errors
    /// Those of every call, such as one after finalize.
    pub fn generalized_start(&self) -> Result<RequestId> {
        let mut state = self.state()?;
        let request = state.handlers().requests.insert(false);
        state.handlers().requests.by_program(request);
        Ok(request)
    }

    /// Completes an operation that the program carries out (`MPI_Grequest_complete`). A wait for `request` returns `status`.
    ///
    /// # Errors
    /// The request does not exist, is not a generalized one, or is complete already.
    pub fn generalized_complete(&self, request: RequestId, status: Status) -> Result<()> {
        let mut state = self.state()?;
        let requests = &mut state.handlers().requests;
        requests.check(request)?;
        if requests.phase(request) != Phase::ByProgram {
            let what =
                "it is not a generalized request, or is already complete; the value is the request's number";
            let number = i64::try_from(request.number()).unwrap_or(i64::MAX);
            return Err(Error::refused(ErrorClass::Request, "generalized_complete", what, number));
        }
        requests.set_status(request, status);
        requests.end(request, None);
        Ok(())
    }

    /// Whether an operation was cancelled before it was complete ([`cancel`](Self::cancel)).
    ///
    /// # Errors
    /// A request that does not exist.
    pub fn was_cancelled(&self, request: RequestId) -> Result<bool> {
        let mut state = self.state()?;
        let requests = &state.handlers().requests;
        requests.check(request)?;
        Ok(requests.was_cancelled(request))
    }
}
