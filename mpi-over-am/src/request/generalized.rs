//! Operations that the program carries out itself, as requests (`MPI_Grequest_start`; MPI 5.0 section 13.2).

use am_core::fabric::Fabric;

use crate::communicator::Communicator;
use crate::error::{Error, ErrorClass, Result};
use crate::policy::LockPolicy;
use crate::request_id::RequestId;
use crate::request_table::Phase;
use crate::status::Status;

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// A request for an operation of the program's own (`MPI_Grequest_start`): it is over when
    /// [`generalized_complete`](Self::generalized_complete) says so, and waited for as all others.
    ///
    /// # Errors
    /// As any call.
    pub fn generalized_start(&self) -> Result<RequestId> {
        let mut state = self.state()?;
        let request = state.handlers().requests.insert(false);
        state.handlers().requests.by_program(request);
        Ok(request)
    }

    /// The operation of the program's own is over, and this is what a wait for it tells (`MPI_Grequest_complete`).
    ///
    /// # Errors
    /// A request that does not exist, is none of the program's own, or is over already.
    pub fn generalized_complete(&self, request: RequestId, status: Status) -> Result<()> {
        let mut state = self.state()?;
        let requests = &mut state.handlers().requests;
        requests.check(request)?;
        if requests.phase(request) != Phase::ByProgram {
            let what = "it is no operation of the program's own, or is over already";
            let number = i64::try_from(request.number()).unwrap_or(i64::MAX);
            return Err(Error::refused(ErrorClass::Request, "generalized_complete", what, number));
        }
        requests.set_status(request, status);
        requests.end(request, None);
        Ok(())
    }

    /// Whether an operation that is over was withdrawn before ([`cancel`](Self::cancel)).
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
