//! Waiting for several operations, and looking at them (MPI 5.0 section 3.7.5). Persistent requests that are not started are
//! passed over, as empty ones are.

use am_core::fabric::Fabric;

use super::slab::RequestId;
use crate::communicator::Communicator;
use crate::error::Result;
use crate::state::{State, is_over};
use crate::status::Status;

/// What [`Communicator::test_any`] finds.
#[derive(Debug)]
pub enum AnyOver {
    /// There is nothing to wait for.
    NoneActive,
    /// None is over.
    Pending,
    /// This one is over: its place in the list and its result. The request is gone.
    Over(usize, Result<Status>),
}

impl<F: Fabric> Communicator<F> {
    /// Waits until all are over (`MPI_Waitall`). `ended` gets each result, in the order of the requests.
    ///
    /// # Errors
    /// A request that does not exist; what progress reports.
    pub fn wait_all(
        &self,
        requests: &[RequestId],
        mut ended: impl FnMut(usize, Result<Status>),
    ) -> Result<()> {
        let mut state = self.state()?;
        check(&mut state, requests)?;
        for (index, &request) in requests.iter().enumerate() {
            state.wait_over(request)?;
            ended(index, state.handlers().requests.take(request));
        }
        Ok(())
    }

    /// Waits until one of them is over: its index and its result (`MPI_Waitany`). `None` if there is nothing to wait for.
    ///
    /// # Errors
    /// As for [`wait_all`](Self::wait_all).
    pub fn wait_any(&self, requests: &[RequestId]) -> Result<Option<(usize, Result<Status>)>> {
        let mut state = self.state()?;
        if !check(&mut state, requests)? {
            return Ok(None);
        }
        let mut found = None;
        state.wait_for(|context| {
            found = requests.iter().position(|&request| {
                context.handlers().requests.is_active(request) && is_over(context, request)
            });
            found.is_some()
        })?;
        Ok(found.map(|index| (index, state.handlers().requests.take(requests[index]))))
    }

    /// Waits until at least one is over, and ends all that are (`MPI_Waitsome`): how many; `None` if there is nothing to wait
    /// for.
    ///
    /// # Errors
    /// As for [`wait_all`](Self::wait_all).
    pub fn wait_some(
        &self,
        requests: &[RequestId],
        ended: impl FnMut(usize, Result<Status>),
    ) -> Result<Option<usize>> {
        let mut state = self.state()?;
        if !check(&mut state, requests)? {
            return Ok(None);
        }
        state.wait_for(|context| {
            requests
                .iter()
                .any(|&request| context.handlers().requests.is_active(request) && is_over(context, request))
        })?;
        Ok(Some(end_those_over(&mut state, requests, ended)))
    }

    /// Makes progress. If all are over, ends them and gives each result to `ended` (`MPI_Testall`); whether they are.
    ///
    /// # Errors
    /// As for [`wait_all`](Self::wait_all).
    pub fn test_all(
        &self,
        requests: &[RequestId],
        mut ended: impl FnMut(usize, Result<Status>),
    ) -> Result<bool> {
        let mut state = self.state()?;
        check(&mut state, requests)?;
        let mut left = requests;
        let all = state.look(|state| {
            while let Some((&first, rest)) = left.split_first() {
                if !is_over(&mut state.context, first) {
                    return Ok(None);
                }
                left = rest;
            }
            Ok(Some(()))
        })?;
        if all.is_none() {
            return Ok(false);
        }
        for (index, &request) in requests.iter().enumerate() {
            ended(index, state.handlers().requests.take(request));
        }
        Ok(true)
    }

    /// Makes progress, and ends one that is over (`MPI_Testany`).
    ///
    /// # Errors
    /// As for [`wait_all`](Self::wait_all).
    pub fn test_any(&self, requests: &[RequestId]) -> Result<AnyOver> {
        let mut state = self.state()?;
        if !check(&mut state, requests)? {
            return Ok(AnyOver::NoneActive);
        }
        state.take_in()?;
        let is_over = |state: &mut State<F>, request| {
            state.handlers().requests.is_active(request) && is_over(&mut state.context, request)
        };
        Ok(match requests.iter().position(|&request| is_over(&mut state, request)) {
            Some(index) => AnyOver::Over(index, state.handlers().requests.take(requests[index])),
            None => AnyOver::Pending,
        })
    }

    /// Makes progress, and ends all that are over (`MPI_Testsome`): how many; `None` if there is nothing to wait for.
    ///
    /// # Errors
    /// As for [`wait_all`](Self::wait_all).
    pub fn test_some(
        &self,
        requests: &[RequestId],
        ended: impl FnMut(usize, Result<Status>),
    ) -> Result<Option<usize>> {
        let mut state = self.state()?;
        if !check(&mut state, requests)? {
            return Ok(None);
        }
        state.take_in()?;
        Ok(Some(end_those_over(&mut state, requests, ended)))
    }

    /// Makes progress; the status of an operation that is over, which a wait still has to end (`MPI_Request_get_status`).
    ///
    /// # Errors
    /// As for [`wait_all`](Self::wait_all).
    pub fn request_status(&self, request: RequestId) -> Result<Option<Status>> {
        let mut state = self.state()?;
        check(&mut state, &[request])?;
        state.is_over_after_progress(request)?;
        Ok(state.handlers().requests.status(request))
    }

    /// Whether a wait for the request waits for anything: not for a persistent one that is not started.
    ///
    /// # Errors
    /// As for [`wait_all`](Self::wait_all).
    pub fn is_active(&self, request: RequestId) -> Result<bool> {
        check(&mut *self.state()?, &[request])
    }
}

/// Whether there is anything to wait for.
///
/// # Errors
/// A request that does not exist.
fn check<F: Fabric>(state: &mut State<F>, requests: &[RequestId]) -> Result<bool> {
    let table = &state.handlers().requests;
    requests.iter().try_fold(false, |any, &request| {
        table.check(request)?;
        Ok(any | table.is_active(request))
    })
}

fn end_those_over<F: Fabric>(
    state: &mut State<F>,
    requests: &[RequestId],
    mut ended: impl FnMut(usize, Result<Status>),
) -> usize {
    let mut count = 0;
    for (index, &request) in requests.iter().enumerate() {
        if state.handlers().requests.is_active(request) && is_over(&mut state.context, request) {
            ended(index, state.handlers().requests.take(request));
            count += 1;
        }
    }
    count
}
