//! Waiting for several operations, and testing them (MPI 5.0 section 3.7.5). Inactive persistent requests are skipped.

use std::ops::Range;

use am_core::Context;
use am_core::fabric::Fabric;

use crate::communicator::Communicator;
use crate::context_id::Space;
use crate::error::{Error, Result};
use crate::message::handlers::MpiHandlers;
use crate::message::progress::{is_over, mark_completed};
use crate::message::request_id::{RequestFacts, RequestId};
use crate::message::request_table::{Phase, Requests};
use crate::message::state::State;
use crate::message::status::Status;
use crate::message::turn::Turn;
use crate::policy::LockPolicy;

/// Result of [`Communicator::test_any`].
#[derive(Debug)]
pub enum AnyCompleted {
    /// There is nothing to wait for.
    NoneActive,
    /// No request is complete.
    Pending,
    /// A request is complete: its index in the list, and its result. The request no longer exists, unless it is persistent.
    Completed(usize, Result<Status>),
}

/// Requests to wait for in order, and the destination of their statuses.
pub trait WaitList {
    /// Ends the requests at the beginning of `places` that are [`RequestId::ENDED_SEND`]; returns the index of the first other one, or the
    /// end of `places`. Optional: a loop that does only this takes fewer instructions for each request.
    #[inline(always)]
    fn end_ended_sends(&mut self, places: Range<usize>) -> usize {
        places.start
    }

    /// The request at an index; `None` if there is nothing to wait for.
    fn request(&mut self, place: usize) -> Option<RequestId>;

    /// Stores the status of the operation at an index. The operation has succeeded, and its request no longer exists.
    fn ended(&mut self, place: usize, status: Status);
}

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Waits until all operations are complete (`MPI_Waitall`). `ended` gets each result, in the order of the requests.
    ///
    /// # Errors
    /// A request that does not exist; an error while making progress.
    pub fn wait_all(
        &self,
        requests: &[RequestId],
        mut ended: impl FnMut(usize, Result<Status>),
    ) -> Result<()> {
        let mut state = self.state()?;
        check(&mut state, requests)?;
        for (index, &request) in requests.iter().enumerate() {
            state.wait_over(request)?;
            ended(index, state.handlers().requests.take_by_number(request));
        }
        Ok(())
    }

    /// Waits for the operations of a list in order and ends them (`MPI_Waitall`), as long as their only result is a status. Returns the
    /// index of the first other request (failed, persistent, or unknown), which is not ended, or the end of `places`.
    ///
    /// # Errors
    /// The index whose wait failed, and an error while making progress; the operation is still under way.
    #[inline]
    pub fn wait_in_order(
        &self,
        places: Range<usize>,
        list: &mut impl WaitList,
    ) -> std::result::Result<usize, (usize, Error)> {
        let Range { start, end } = places;
        let mut state = self.state().map_err(|error| (start, error))?;
        let mut next = list.end_ended_sends(start..end);
        let mut has_waited = false;
        while let Some((place, request)) = end_those_plain(&mut state.handlers().requests, next..end, list) {
            next = place;
            let is_first_wait = !std::mem::replace(&mut has_waited, true);
            // Usually the other operations are complete when the last one is, so one more look ends all of them.
            if is_first_wait
                && place + 1 < end
                && let Some(last) = list.request(end - 1)
            {
                state.wait_over(last).map_err(|error| (place, error))?;
                continue;
            }
            state.wait_over(request).map_err(|error| (place, error))?;
            let Some(status) = state.handlers().requests.take_plain(request) else { return Ok(place) };
            list.ended(place, status);
            next = place + 1;
        }
        if !has_waited {
            state.waited_for_nothing().map_err(|error| (end, error))?;
        }
        Ok(end)
    }

    /// Waits until one operation is complete; returns its index and its result (`MPI_Waitany`). `None` if there is nothing to wait for.
    ///
    /// # Errors
    /// Those of [`wait_all`](Self::wait_all).
    pub fn wait_any(&self, requests: &[RequestId]) -> Result<Option<(usize, Result<Status>)>> {
        let mut state = self.state()?;
        if !check(&mut state, requests)? {
            return Ok(None);
        }
        let index = wait_any_over(&mut state, requests.iter().copied())?;
        Ok(Some((index, state.handlers().requests.take_by_number(requests[index]))))
    }

    /// Waits until at least one operation is complete, and ends all complete ones (`MPI_Waitsome`). Returns their number; `None` if there
    /// is nothing to wait for.
    ///
    /// # Errors
    /// Those of [`wait_all`](Self::wait_all).
    pub fn wait_some(
        &self,
        requests: &[RequestId],
        ended: impl FnMut(usize, Result<Status>),
    ) -> Result<Option<usize>> {
        let mut state = self.state()?;
        if !wait_for_one(&mut state, requests)? {
            return Ok(None);
        }
        Ok(Some(end_those_over(&mut state, requests, ended)))
    }

    /// Makes progress. If all operations are complete, ends them and passes each result to `ended` (`MPI_Testall`). Returns whether they
    /// were complete.
    ///
    /// # Errors
    /// Those of [`wait_all`](Self::wait_all).
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
            ended(index, state.handlers().requests.take_by_number(request));
        }
        Ok(true)
    }

    /// Makes progress, and ends one complete operation (`MPI_Testany`).
    ///
    /// # Errors
    /// Those of [`wait_all`](Self::wait_all).
    pub fn test_any(&self, requests: &[RequestId]) -> Result<AnyCompleted> {
        let mut state = self.state()?;
        if !check(&mut state, requests)? {
            return Ok(AnyCompleted::NoneActive);
        }
        state.take_in()?;
        Ok(match first_over(&mut state.context, requests.iter().copied()) {
            Some(index) => {
                AnyCompleted::Completed(index, state.handlers().requests.take_by_number(requests[index]))
            }
            None => AnyCompleted::Pending,
        })
    }

    /// Makes progress, and ends all complete operations (`MPI_Testsome`). Returns their number; `None` if there is nothing to wait for.
    ///
    /// # Errors
    /// Those of [`wait_all`](Self::wait_all).
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

    /// Makes progress; returns the status of a complete operation, which still needs a wait (`MPI_Request_get_status`).
    ///
    /// # Errors
    /// Those of [`wait_all`](Self::wait_all).
    pub fn request_status(&self, request: RequestId) -> Result<Option<Status>> {
        let mut state = self.state()?;
        check(&mut state, &[request])?;
        state.is_over_after_progress(request)?;
        Ok(state.handlers().requests.status(request))
    }

    /// Properties of a request, for layers above.
    ///
    /// # Errors
    /// A request that does not exist.
    pub fn request_facts(&self, request: RequestId) -> Result<RequestFacts> {
        self.state_to_end().ok_or(Error::Nested)?.handlers().requests.facts(request)
    }

    /// Marks the request as this communicator's, for [`RequestFacts::context_id`]. Requests of messages have this mark already.
    pub fn own_request(&self, request: RequestId) {
        let context_id = self.context_id_of(Space::PointToPoint);
        if let Some(mut state) = self.state_to_end()
            && state.handlers().requests.check(request).is_ok()
        {
            state.handlers().requests.set_context(request, context_id.0);
        }
    }

    /// Whether a wait for the request has something to wait for; false if the request is persistent and inactive.
    ///
    /// # Errors
    /// Those of [`wait_all`](Self::wait_all).
    pub fn is_active(&self, request: RequestId) -> Result<bool> {
        check(&mut *self.state()?, &[request])
    }
}

/// Ends operations of a list in order, as long as they are complete and their only result is a status; returns the first other request,
/// with its index.
#[inline(always)]
fn end_those_plain(
    requests: &mut Requests,
    places: Range<usize>,
    list: &mut impl WaitList,
) -> Option<(usize, RequestId)> {
    for place in places {
        let Some(request) = list.request(place) else { continue };
        let Some(status) = requests.take_plain(request) else { return Some((place, request)) };
        list.ended(place, status);
    }
    None
}

/// Waits until one operation is complete; returns whether there is anything to wait for.
fn wait_for_one<F: Fabric, L: LockPolicy>(
    state: &mut Turn<'_, F, L>,
    requests: &[RequestId],
) -> Result<bool> {
    if !check(state, requests)? {
        return Ok(false);
    }
    if requests.iter().any(|&request| is_active_and_over(&mut state.context, request)) {
        state.waited_for_nothing()?;
        return Ok(true);
    }
    watch_for_one(state, requests.iter().copied())?;
    Ok(true)
}

/// Waits until one of the operations is complete; returns its index in the list, which must not be empty.
///
/// # Errors
/// An error while making progress; the operations may then still be under way.
pub(super) fn wait_any_over<F: Fabric, L: LockPolicy>(
    state: &mut Turn<'_, F, L>,
    requests: impl Iterator<Item = RequestId> + Clone,
) -> Result<usize> {
    match first_over(&mut state.context, requests.clone()) {
        Some(place) => state.waited_for_nothing().map(|()| place),
        None => watch_for_one(state, requests),
    }
}

/// Waits until one of the operations is complete, and returns its index. None of them may be complete when this function is called. The
/// list is searched only when an operation has ended.
fn watch_for_one<F: Fabric, L: LockPolicy>(
    state: &mut Turn<'_, F, L>,
    requests: impl Iterator<Item = RequestId> + Clone,
) -> Result<usize> {
    let table = &mut state.handlers().requests;
    requests.clone().for_each(|request| table.watch(request, true));
    let mut seen = table.watched_ended();
    let driven: Vec<_> = requests.clone().filter(|&request| table.phase(request) == Phase::Parts).collect();
    let mut found = None;
    let waited = state.wait_for(&mut |context| {
        if context.handlers().completions.needs_look() {
            mark_completed(context);
            found = first_over(context, requests.clone());
        }
        driven.iter().for_each(|&request| {
            is_over(context, request);
        });
        let table = &context.handlers().requests;
        if table.watched_ended() != seen {
            seen = table.watched_ended();
            found = found.or_else(|| {
                requests.clone().position(|request| table.is_active(request) && table.is_over(request))
            });
        }
        found.is_some()
    });
    let table = &mut state.handlers().requests;
    requests.for_each(|request| table.watch(request, false));
    waited?;
    Ok(found.expect("the wait has found one"))
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

fn is_active_and_over<F: Fabric>(context: &mut Context<F, MpiHandlers>, request: RequestId) -> bool {
    context.handlers().requests.is_active(request) && is_over(context, request)
}

/// The index of the first operation that is complete; if there is none, of the first receive for which no call must wait: a program that
/// does not acknowledge a failure still gets the results of its other operations.
fn first_over<F: Fabric>(
    context: &mut Context<F, MpiHandlers>,
    requests: impl Iterator<Item = RequestId>,
) -> Option<usize> {
    let mut in_doubt = None;
    for (place, request) in requests.enumerate() {
        if !is_active_and_over(context, request) {
            continue;
        }
        if context.handlers().requests.is_over(request) {
            return Some(place);
        }
        in_doubt.get_or_insert(place);
    }
    in_doubt
}

fn end_those_over<F: Fabric>(
    state: &mut State<F>,
    requests: &[RequestId],
    mut ended: impl FnMut(usize, Result<Status>),
) -> usize {
    let mut count = 0;
    for (index, &request) in requests.iter().enumerate() {
        if is_active_and_over(&mut state.context, request) {
            ended(index, state.handlers().requests.take_by_number(request));
            count += 1;
        }
    }
    count
}
