//! Requests: waiting for them, testing and freeing them (MPI 5.0 sections 3.7 to 3.9 and 4.2).
//!
//! SAFETY: each `mpi_*` function here is called under the contract that the standard gives it: pointers are valid for the accesses that the
//! standard specifies, and buffers are not used until their operation has ended. One thread at a time uses the state of MPI (`state`).

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results and read arrays at the program's pointers; blocks that do more have a note"
)]

use std::ffi::c_int;
use std::ops::Range;

use mpi_over_am::{AnyCompleted, Error, ErrorClass, RequestId, Status, WaitList};
use smallvec::SmallVec;

use crate::constants::{MPI_SUCCESS, MPI_UNDEFINED};
use crate::engine::Communicator;
use crate::errors::{finish, finish_alone};
use crate::failure::{Failure, Outcome, elements, not_null};
use crate::files::raise_of_file;
use crate::state::{Mpi, entered};
use crate::statuses::{store, store_cancelled, store_empty, store_failed};
use crate::types::{MPI_Comm, MPI_Request, MPI_Status};

/// The handle of a request: its number.
#[inline(always)]
pub(crate) fn handle_of(id: RequestId) -> MPI_Request {
    MPI_Request::of(id)
}

/// Records the communicator whose error handler runs if the request fails; returns the request's handle. Requests of messages do not need
/// this call.
pub(crate) fn keep_request(communicator: &Communicator, id: RequestId) -> MPI_Request {
    communicator.own_request(id);
    handle_of(id)
}

/// The object whose error handler is called for a failure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner {
    Communicator(MPI_Comm),
    /// The communicator with this context id, or the file that has such a communicator; `None`: neither.
    Context(Option<u32>),
}

/// The request that a handle of C names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) id: RequestId,
    is_persistent: bool,
    /// Whether the request is persistent, and was not active when it was looked up.
    is_inactive: bool,
    pub(crate) is_generalized: bool,
    owner: Owner,
}

/// The request of a handle.
///
/// # Errors
/// The handle is invalid.
pub(crate) fn find(mpi: &Mpi, handle: MPI_Request) -> Outcome<Found> {
    let id = handle.id();
    let facts = mpi.world.communicator.request_facts(id).map_err(|_| no_request(handle))?;
    Ok(Found {
        id,
        is_persistent: facts.is_persistent,
        is_inactive: facts.is_inactive,
        is_generalized: facts.is_generalized,
        owner: Owner::Context(facts.context_id),
    })
}

#[cold]
fn no_request(handle: MPI_Request) -> Failure {
    let what = format!("0x{:x} is not a request: it has ended, or never was one", handle.0);
    Failure::new(ErrorClass::Request, what)
}

/// Stores the status of a completed operation, and sets the handle of its request to null unless the request is persistent. Returns the
/// failure if the operation, or a function of a generalized request, has failed; a cancelled operation has not failed.
#[inline]
unsafe fn ended(
    mpi: &Mpi,
    request: *mut MPI_Request,
    object: &Found,
    result: Result<Status, Error>,
    status: *mut MPI_Status,
) -> Outcome<()> {
    unsafe {
        if object.is_generalized {
            let handle = *request;
            *request = MPI_Request::null();
            return crate::generalized::ended(mpi, handle, status);
        }
        if !object.is_persistent {
            // If the wait itself has failed, the operation is still under way: the program can wait for it again.
            let is_under_way = result.is_err() && mpi.world.communicator.request_facts(object.id).is_ok();
            if !is_under_way {
                *request = MPI_Request::null();
            }
        }
        match result {
            Ok(_) if object.is_inactive => {
                store_empty(status);
                Ok(())
            }
            Ok(found) => {
                store(status, &found);
                Ok(())
            }
            Err(Error::Cancelled) => {
                store_cancelled(status);
                Ok(())
            }
            Err(error) => Err(store_failed(status, error)),
        }
    }
}

/// Like [`ended`], for a call that completes several operations: also stores the operation's error code in its status, if the program wants
/// statuses. Returns whether the operation has succeeded.
unsafe fn ended_among_several(
    mpi: &Mpi,
    request: *mut MPI_Request,
    object: &Found,
    result: Result<Status, Error>,
    status: *mut MPI_Status,
) -> bool {
    let outcome = unsafe { ended(mpi, request, object, result, status) };
    let code = outcome.err().map_or(MPI_SUCCESS, |failure| failure.code());
    if !status.is_null() {
        unsafe { (*status).error = code };
    }
    code == MPI_SUCCESS
}

/// The outcome of a call for several operations. `first_failure`: the owner of the first operation that failed.
fn outcome_of_several(first_failure: Option<Owner>, of: &mut Owner) -> Outcome<()> {
    match first_failure {
        None => Ok(()),
        Some(owner) => {
            *of = owner;
            Err(Failure::new(ErrorClass::InStatus, "an operation has failed: its status contains the error"))
        }
    }
}

/// Runs a call about requests; a failure goes to the error handler of the communicator or the file of the
/// request that failed.
#[inline(always)]
pub(crate) fn on_requests(function: &str, call: impl FnOnce(&Mpi, &mut Owner) -> Outcome<()>) -> c_int {
    let mpi = entered!(function);
    let mut of = Owner::Context(None);
    match call(&mpi, &mut of) {
        Ok(()) => MPI_SUCCESS,
        Err(failure) => failed(&mpi, of, function, failure),
    }
}

#[cold]
fn failed(mpi: &Mpi, of: Owner, function: &str, failure: Failure) -> c_int {
    let object = match of {
        Owner::Communicator(comm) => mpi.communicator(comm),
        Owner::Context(context_id) => context_id.and_then(|context_id| mpi.communicator_with(context_id)),
    };
    match (object, of) {
        (Some(object), _) => finish(&object, function, Err(failure)),
        (None, Owner::Context(Some(context_id))) => raise_of_file(mpi, context_id, function, &failure)
            .unwrap_or_else(|| finish_alone(mpi, function, Err(failure))),
        (None, _) => finish_alone(mpi, function, Err(failure)),
    }
}

/// The requests that a call waits for, and their statuses: arrays of the program. `statuses` may be null.
struct InOrder {
    requests: *mut MPI_Request,
    statuses: *mut MPI_Status,
}

impl InOrder {
    #[inline(always)]
    unsafe fn store(&self, place: usize, status: &Status) {
        if !self.statuses.is_null() {
            unsafe {
                store(self.statuses.add(place), status);
                (*self.statuses.add(place)).error = MPI_SUCCESS;
            }
        }
    }
}

impl WaitList for InOrder {
    #[inline(always)]
    fn end_ended_sends(&mut self, places: Range<usize>) -> usize {
        let ended = handle_of(RequestId::ENDED_SEND);
        let Range { start, end } = places;
        let other = (start..end).find(|&place| unsafe { *self.requests.add(place) } != ended).unwrap_or(end);
        for place in start..other {
            self.ended(place, Status::default());
        }
        other
    }

    #[inline(always)]
    fn request(&mut self, place: usize) -> Option<RequestId> {
        match unsafe { *self.requests.add(place) } {
            null if null == MPI_Request::null() => {
                unsafe { self.store(place, &Status::default()) };
                None
            }
            handle => Some(handle.id()),
        }
    }

    #[inline(always)]
    fn ended(&mut self, place: usize, status: Status) {
        unsafe {
            *self.requests.add(place) = MPI_Request::null();
            self.store(place, &status);
        }
    }
}

/// One request, whose wait does not change the error field of the status.
struct Single(InOrder);

impl WaitList for Single {
    #[inline(always)]
    fn request(&mut self, place: usize) -> Option<RequestId> {
        self.0.request(place)
    }

    #[inline(always)]
    fn ended(&mut self, _: usize, status: Status) {
        unsafe {
            *self.0.requests = MPI_Request::null();
            store(self.0.statuses, &status);
        }
    }
}

/// Waits for requests in their order. Those whose only result is a status are completed with one lookup in the table of requests;
/// `otherwise` gets the other requests, and those whose wait has failed, with their results.
///
/// # Errors
/// A handle is invalid: the requests before it have then completed. No request had to wait, and progress has failed: all have completed.
unsafe fn wait_in_order(
    mpi: &Mpi,
    count: usize,
    requests: *const MPI_Request,
    list: &mut impl WaitList,
    mut otherwise: impl FnMut(usize, &Found, Result<Status, Error>),
) -> Outcome<()> {
    let communicator = &mpi.world.communicator;
    let mut place = 0;
    while place < count {
        let stopped = communicator.wait_in_order(place..count, list);
        let at = *stopped.as_ref().unwrap_or_else(|(at, _)| at);
        if at == count {
            return Ok(stopped.map(|_| ()).map_err(|(_, error)| error)?);
        }
        let object = find(mpi, unsafe { *requests.add(at) })?;
        let result = match stopped {
            Ok(_) => communicator.wait(object.id),
            Err((_, error)) => Err(error),
        };
        otherwise(at, &object, result);
        place = at + 1;
    }
    Ok(())
}

pub(crate) unsafe fn mpi_wait(request: *mut MPI_Request, status: *mut MPI_Status) -> c_int {
    on_requests("MPI_Wait", |mpi, of| unsafe {
        let requests = not_null(request)?;
        let mut list = Single(InOrder { requests, statuses: status });
        let mut outcome = Ok(());
        wait_in_order(mpi, 1, requests, &mut list, |_, object, result| {
            *of = object.owner;
            outcome = ended(mpi, request, object, result, status);
        })?;
        outcome
    })
}

pub(crate) unsafe fn mpi_test(request: *mut MPI_Request, flag: *mut c_int, status: *mut MPI_Status) -> c_int {
    on_requests("MPI_Test", |mpi, of| unsafe {
        *not_null(flag)? = 1;
        if *not_null(request)? == MPI_Request::null() {
            store_empty(status);
            return Ok(());
        }
        let object = find(mpi, *request)?;
        *of = object.owner;
        match mpi.world.communicator.test(object.id).transpose() {
            Some(result) => ended(mpi, request, &object, result, status),
            None => {
                *flag = 0;
                Ok(())
            }
        }
    })
}

fn count_of_requests(count: c_int) -> Outcome<usize> {
    usize::try_from(count)
        .map_err(|_| Failure::new(ErrorClass::Count, format!("the count of requests is {count}, below zero")))
}

/// The requests of a call that are not null, with their indices in the program's array.
struct Several {
    objects: SmallVec<[Found; 16]>,
    ids: SmallVec<[RequestId; 16]>,
    places: SmallVec<[usize; 16]>,
    requests: *mut MPI_Request,
    statuses: *mut MPI_Status,
    first_failure: Option<Owner>,
}

impl Several {
    /// # Safety
    /// The arrays must be the program's, `count` elements long; `statuses` may be null.
    unsafe fn new(
        mpi: &Mpi,
        count: c_int,
        requests: *mut MPI_Request,
        statuses: *mut MPI_Status,
    ) -> Outcome<Self> {
        let count = count_of_requests(count)?;
        if count > 0 {
            not_null(requests)?;
        }
        let mut several = Self {
            objects: SmallVec::new(),
            ids: SmallVec::new(),
            places: SmallVec::new(),
            requests,
            statuses,
            first_failure: None,
        };
        for place in 0..count {
            let handle = unsafe { *requests.add(place) };
            if handle != MPI_Request::null() {
                let object = find(mpi, handle)?;
                several.ids.push(object.id);
                several.objects.push(object);
                several.places.push(place);
            }
        }
        Ok(several)
    }

    fn status_at(&self, place: usize) -> *mut MPI_Status {
        if self.statuses.is_null() { std::ptr::null_mut() } else { unsafe { self.statuses.add(place) } }
    }

    /// Records the end of an operation: `index` is its index among the requests that are not null, `place` the index of its status.
    fn ended(&mut self, mpi: &Mpi, index: usize, place: usize, result: Result<Status, Error>) {
        let object = &self.objects[index];
        let status = self.status_at(place);
        let request = unsafe { self.requests.add(self.places[index]) };
        if !unsafe { ended_among_several(mpi, request, object, result, status) } {
            self.first_failure.get_or_insert(object.owner);
        }
    }

    /// Stores empty statuses for the null requests.
    fn clear_statuses(&self, count: c_int) {
        for place in 0..count as usize {
            let status = self.status_at(place);
            if !status.is_null() && unsafe { *self.requests.add(place) } == MPI_Request::null() {
                unsafe { store_empty(status) };
            }
        }
    }
}

pub(crate) unsafe fn mpi_waitall(
    count: c_int,
    requests: *mut MPI_Request,
    statuses: *mut MPI_Status,
) -> c_int {
    on_requests("MPI_Waitall", |mpi, of| unsafe {
        let count = count_of_requests(count)?;
        if count > 0 {
            not_null(requests)?;
        }
        let mut first_failure = None;
        let mut list = InOrder { requests, statuses };
        wait_in_order(mpi, count, requests, &mut list, |place, object, result| {
            let status = status_of(statuses, place);
            if !ended_among_several(mpi, requests.add(place), object, result, status) {
                first_failure.get_or_insert(object.owner);
            }
        })?;
        outcome_of_several(first_failure, of)
    })
}

pub(crate) unsafe fn mpi_testall(
    count: c_int,
    requests: *mut MPI_Request,
    flag: *mut c_int,
    statuses: *mut MPI_Status,
) -> c_int {
    on_requests("MPI_Testall", |mpi, of| {
        let mut several = unsafe { Several::new(mpi, count, requests, statuses) }?;
        let mut results = SmallVec::<[_; 16]>::new();
        let all =
            mpi.world.communicator.test_all(&several.ids, |index, result| results.push((index, result)))?;
        unsafe { *flag = c_int::from(all) };
        if all {
            several.clear_statuses(count);
            for (index, result) in results {
                let place = several.places[index];
                several.ended(mpi, index, place, result);
            }
        }
        outcome_of_several(several.first_failure, of)
    })
}

/// Completes one of several requests: with `flag` only if an operation has completed, otherwise after a wait.
unsafe fn any(
    function: &str,
    count: c_int,
    requests: *mut MPI_Request,
    index: *mut c_int,
    flag: Option<*mut c_int>,
    status: *mut MPI_Status,
) -> c_int {
    on_requests(function, |mpi, of| unsafe {
        let several = Several::new(mpi, count, requests, std::ptr::null_mut())?;
        let communicator = &mpi.world.communicator;
        let found = match flag {
            None => communicator.wait_any(&several.ids)?,
            Some(flag) => {
                let found = communicator.test_any(&several.ids)?;
                *flag = c_int::from(!matches!(found, AnyCompleted::Pending));
                match found {
                    AnyCompleted::Completed(index, result) => Some((index, result)),
                    AnyCompleted::NoneActive => None,
                    AnyCompleted::Pending => {
                        *index = MPI_UNDEFINED;
                        return Ok(());
                    }
                }
            }
        };
        let Some((number, result)) = found else {
            *index = MPI_UNDEFINED;
            store_empty(status);
            return Ok(());
        };
        let object = &several.objects[number];
        let place = several.places[number];
        *of = object.owner;
        *index = place as c_int;
        ended(mpi, requests.add(place), object, result, status)
    })
}

pub(crate) unsafe fn mpi_waitany(
    count: c_int,
    requests: *mut MPI_Request,
    index: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    unsafe { any("MPI_Waitany", count, requests, index, None, status) }
}

pub(crate) unsafe fn mpi_testany(
    count: c_int,
    requests: *mut MPI_Request,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    unsafe { any("MPI_Testany", count, requests, index, Some(flag), status) }
}

/// Completes all requests whose operations have completed. With `is_waiting`, first waits until there is one.
unsafe fn some(
    function: &str,
    count: c_int,
    requests: *mut MPI_Request,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut MPI_Status,
    is_waiting: bool,
) -> c_int {
    on_requests(function, |mpi, of| unsafe {
        let mut several = Several::new(mpi, count, requests, statuses)?;
        if count > 0 {
            not_null(indices)?;
        }
        let communicator = &mpi.world.communicator;
        let mut results = SmallVec::<[_; 16]>::new();
        let ended = |index, result| results.push((index, result));
        let found = if is_waiting {
            communicator.wait_some(&several.ids, ended)?
        } else {
            communicator.test_some(&several.ids, ended)?
        };
        if found.is_none() {
            *outcount = MPI_UNDEFINED;
            return Ok(());
        }
        *outcount = results.len() as c_int;
        for (place, (index, result)) in results.into_iter().enumerate() {
            *indices.add(place) = several.places[index] as c_int;
            several.ended(mpi, index, place, result);
        }
        outcome_of_several(several.first_failure, of)
    })
}

pub(crate) unsafe fn mpi_waitsome(
    count: c_int,
    requests: *mut MPI_Request,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut MPI_Status,
) -> c_int {
    unsafe { some("MPI_Waitsome", count, requests, outcount, indices, statuses, true) }
}

pub(crate) unsafe fn mpi_testsome(
    count: c_int,
    requests: *mut MPI_Request,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut MPI_Status,
) -> c_int {
    unsafe { some("MPI_Testsome", count, requests, outcount, indices, statuses, false) }
}

/// Stores the status that a wait for a completed operation would return.
unsafe fn tell(mpi: &Mpi, request: MPI_Request, object: &Found, status: *mut MPI_Status) -> Outcome<()> {
    let communicator = &mpi.world.communicator;
    if object.is_generalized {
        return crate::generalized::tell(mpi, request, status);
    }
    let found = communicator.request_status(object.id)?.unwrap_or_default();
    if communicator.was_cancelled(object.id)? {
        unsafe { store_cancelled(status) };
    } else {
        unsafe { store(status, &found) };
    }
    Ok(())
}

fn is_over(mpi: &Mpi, object: &Found) -> Outcome<bool> {
    Ok(mpi.world.communicator.request_status(object.id)?.is_some())
}

pub(crate) unsafe fn mpi_request_get_status(
    request: MPI_Request,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    unsafe { status_of_all("MPI_Request_get_status", 1, &raw const request, flag, status) }
}

/// A status in the program's array, which may be null.
fn status_of(statuses: *mut MPI_Status, place: usize) -> *mut MPI_Status {
    if statuses.is_null() { statuses } else { statuses.wrapping_add(place) }
}

pub(crate) unsafe fn mpi_request_get_status_all(
    count: c_int,
    requests: *const MPI_Request,
    flag: *mut c_int,
    statuses: *mut MPI_Status,
) -> c_int {
    unsafe { status_of_all("MPI_Request_get_status_all", count, requests, flag, statuses) }
}

unsafe fn status_of_all(
    function: &str,
    count: c_int,
    requests: *const MPI_Request,
    flag: *mut c_int,
    statuses: *mut MPI_Status,
) -> c_int {
    on_requests(function, |mpi, of| {
        let flag = not_null(flag)?;
        let several = unsafe { Several::new(mpi, count, requests.cast_mut(), statuses) }?;
        let mut all = true;
        for object in &several.objects {
            *of = object.owner;
            all &= is_over(mpi, object)?;
        }
        unsafe { *flag = c_int::from(all) };
        if !all {
            return Ok(());
        }
        for place in 0..count as usize {
            unsafe { store_empty(status_of(statuses, place)) };
        }
        for (object, &place) in several.objects.iter().zip(&several.places) {
            unsafe { tell(mpi, *requests.add(place), object, status_of(statuses, place)) }?;
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_request_get_status_any(
    count: c_int,
    requests: *const MPI_Request,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    on_requests("MPI_Request_get_status_any", |mpi, of| {
        let (index, flag) = (not_null(index)?, not_null(flag)?);
        let several = unsafe { Several::new(mpi, count, requests.cast_mut(), std::ptr::null_mut()) }?;
        let mut any_active = false;
        for (object, &place) in several.objects.iter().zip(&several.places) {
            if !mpi.world.communicator.is_active(object.id)? {
                continue;
            }
            any_active = true;
            *of = object.owner;
            if is_over(mpi, object)? {
                unsafe { (*index, *flag) = (place as c_int, 1) };
                return unsafe { tell(mpi, *requests.add(place), object, status) };
            }
        }
        unsafe { (*index, *flag) = (MPI_UNDEFINED, c_int::from(!any_active)) };
        if !any_active {
            unsafe { store_empty(status) };
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_request_get_status_some(
    count: c_int,
    requests: *const MPI_Request,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut MPI_Status,
) -> c_int {
    on_requests("MPI_Request_get_status_some", |mpi, of| {
        let outcount = not_null(outcount)?;
        let several = unsafe { Several::new(mpi, count, requests.cast_mut(), std::ptr::null_mut()) }?;
        if count > 0 {
            not_null(indices)?;
        }
        let mut any_active = false;
        let mut found = 0;
        for (object, &place) in several.objects.iter().zip(&several.places) {
            if !mpi.world.communicator.is_active(object.id)? {
                continue;
            }
            any_active = true;
            *of = object.owner;
            if is_over(mpi, object)? {
                unsafe {
                    *indices.add(found) = place as c_int;
                    tell(mpi, *requests.add(place), object, status_of(statuses, found))?;
                }
                found += 1;
            }
        }
        unsafe { *outcount = if any_active { found as c_int } else { MPI_UNDEFINED } };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_request_free(request: *mut MPI_Request) -> c_int {
    on_requests("MPI_Request_free", |mpi, of| unsafe {
        let handle = *not_null(request)?;
        let object = find(mpi, handle)?;
        *of = object.owner;
        *request = MPI_Request::null();
        if object.is_generalized {
            return crate::generalized::free(mpi, handle, object.id);
        }
        Ok(mpi.world.communicator.free(object.id)?)
    })
}

pub(crate) unsafe fn mpi_cancel(request: *mut MPI_Request) -> c_int {
    on_requests("MPI_Cancel", |mpi, of| unsafe {
        let object = find(mpi, *not_null(request)?)?;
        *of = object.owner;
        if object.is_generalized {
            return crate::generalized::cancel(mpi, *request, object.id);
        }
        // The status says whether the operation was cancelled.
        mpi.world.communicator.cancel(object.id)?;
        Ok(())
    })
}

pub(crate) unsafe fn mpi_start(request: *mut MPI_Request) -> c_int {
    on_requests("MPI_Start", |mpi, of| unsafe {
        let object = find(mpi, *not_null(request)?)?;
        *of = object.owner;
        Ok(mpi.world.communicator.start(object.id)?)
    })
}

pub(crate) unsafe fn mpi_startall(count: c_int, requests: *mut MPI_Request) -> c_int {
    on_requests("MPI_Startall", |mpi, of| unsafe {
        for index in 0..count_of_requests(count)? {
            let object = find(mpi, *not_null(requests)?.add(index))?;
            *of = object.owner;
            mpi.world.communicator.start(object.id)?;
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_pready(partition: c_int, request: MPI_Request) -> c_int {
    ready("MPI_Pready", partition, partition, request)
}

pub(crate) unsafe fn mpi_pready_range(first: c_int, last: c_int, request: MPI_Request) -> c_int {
    ready("MPI_Pready_range", first, last, request)
}

fn ready(function: &str, first: c_int, last: c_int, request: MPI_Request) -> c_int {
    on_requests(function, |mpi, of| {
        let object = find(mpi, request)?;
        *of = object.owner;
        let (first, last) = (partition_of(first)?, partition_of(last)?);
        Ok(mpi.world.communicator.pready_range(object.id, first, last)?)
    })
}

pub(crate) unsafe fn mpi_pready_list(length: c_int, partitions: *const c_int, request: MPI_Request) -> c_int {
    on_requests("MPI_Pready_list", |mpi, of| {
        let object = find(mpi, request)?;
        *of = object.owner;
        for &partition in unsafe { elements(partitions, length) }? {
            let partition = partition_of(partition)?;
            mpi.world.communicator.pready(object.id, partition)?;
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_parrived(request: MPI_Request, partition: c_int, flag: *mut c_int) -> c_int {
    on_requests("MPI_Parrived", |mpi, of| {
        if request == MPI_Request::null() {
            unsafe { *flag = 1 };
            return Ok(());
        }
        let object = find(mpi, request)?;
        *of = object.owner;
        let arrived = mpi.world.communicator.parrived(object.id, partition_of(partition)?)?;
        unsafe { *flag = c_int::from(arrived) };
        Ok(())
    })
}

fn partition_of(partition: c_int) -> Outcome<u64> {
    u64::try_from(partition)
        .map_err(|_| Failure::new(ErrorClass::Argument, format!("partition {partition} does not exist")))
}
