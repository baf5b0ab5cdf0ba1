//! Requests: waiting for them, testing and freeing them (MPI 5.0 sections 3.7 to 3.9 and 4.2).
//!
//! SAFETY: every function here is called by C, under the contract that the standard gives it: pointers are good for what the
//! standard says they are for, buffers are left alone until their operation has ended, and one thread at a time is inside
//! (`state`).

use std::ffi::c_int;

use mpi_over_am::{Communicator, Error, ErrorClass, RequestId, Status};
use smallvec::SmallVec;

use crate::constants::{MPI_COMM_SELF, MPI_REQUEST_NULL, MPI_SUCCESS, MPI_UNDEFINED};
use crate::errors::{Failure, Outcome, code_of, elements, place};
use crate::state::{Mpi, RequestObject, waiting};
use crate::statuses::{store, store_cancelled, store_empty};
use crate::types::{MPI_Comm, MPI_Request, MPI_Status};

/// A handle for a request.
///
/// # Errors
/// There are a million requests.
#[inline(always)]
pub(crate) fn keep_request(
    mpi: &Mpi,
    of: MPI_Comm,
    id: RequestId,
    is_persistent: bool,
) -> Outcome<MPI_Request> {
    // Of a send that was over when it was started nothing is kept but that its handle is not freed.
    let kept = if id == RequestId::FINISHED_SEND {
        mpi.finished_sends.insert(())
    } else {
        mpi.requests.insert(RequestObject { id, is_persistent, is_generalized: false, of })
    };
    match kept {
        Some(handle) => Ok(MPI_Request(handle)),
        None => Err(no_more_requests(mpi, id)),
    }
}

/// An operation that has been started and cannot be named does not go on: its buffer is the program's when the call returns.
#[cold]
fn no_more_requests(mpi: &Mpi, id: RequestId) -> Failure {
    mpi.world.communicator.abandon(id);
    Failure::new(ErrorClass::NoMemory, "a million requests are under way: wait for some")
}

/// Waits for an operation that no handle names. Nothing uses its memory when this returns, also with an error.
///
/// # Errors
/// Its own; what progress reports.
pub(crate) fn wait_for(mpi: &Mpi, communicator: &Communicator, id: RequestId) -> Outcome<Status> {
    let result = waiting(mpi, || communicator.wait(id), || communicator.test(id).transpose());
    Ok(result.inspect_err(|_| communicator.abandon(id))?)
}

/// The request of a handle.
///
/// # Errors
/// A handle of none.
#[inline(always)]
pub(crate) fn find(mpi: &Mpi, handle: MPI_Request) -> Outcome<RequestObject> {
    match mpi.requests.get(handle.0) {
        Some(object) => Ok(object),
        None => find_finished(mpi, handle),
    }
}

#[inline(never)]
fn find_finished(mpi: &Mpi, handle: MPI_Request) -> Outcome<RequestObject> {
    let finished = RequestObject {
        id: RequestId::FINISHED_SEND,
        is_persistent: false,
        is_generalized: false,
        of: MPI_COMM_SELF,
    };
    mpi.finished_sends.get(handle.0).map(|()| finished).ok_or_else(|| no_request(handle))
}

#[cold]
fn no_request(handle: MPI_Request) -> Failure {
    let what = format!("0x{:x} is no request: it has ended, or never was one", handle.0);
    Failure::new(ErrorClass::Request, what)
}

/// Stores how an operation has ended, and takes its handle back; the code for it.
#[inline]
unsafe fn ended(
    mpi: &Mpi,
    request: *mut MPI_Request,
    object: &RequestObject,
    result: Result<Status, Error>,
    status: *mut MPI_Status,
) -> Outcome<()> {
    unsafe {
        if object.is_generalized {
            let handle = *request;
            *request = MPI_REQUEST_NULL;
            return crate::generalized::ended(mpi, handle, status);
        }
        if !object.is_persistent {
            let_go(mpi, *request);
            *request = MPI_REQUEST_NULL;
        }
        match result {
            Ok(found) => {
                store(status, &found);
                Ok(())
            }
            Err(Error::Cancelled) => {
                store_cancelled(status);
                Ok(())
            }
            Err(error) => Err(ended_badly(error, status)),
        }
    }
}

/// Whether a wait for the request waits for nothing: it is null, or a send that was over when it was started. The status is stored
/// then.
#[inline(always)]
unsafe fn nothing_left(mpi: &Mpi, request: *mut MPI_Request, status: *mut MPI_Status) -> bool {
    unsafe {
        let handle = *request;
        if mpi.finished_sends.remove(handle.0).is_some() {
            store(status, &Status::default());
            *request = MPI_REQUEST_NULL;
            return true;
        }
        if handle == MPI_REQUEST_NULL {
            store_empty(status);
        }
        handle == MPI_REQUEST_NULL
    }
}

/// Takes a handle back.
#[inline(always)]
fn let_go(mpi: &Mpi, handle: MPI_Request) {
    if mpi.requests.remove(handle.0).is_none() {
        mpi.finished_sends.remove(handle.0);
    }
}

/// Stores what is known of an operation that has failed.
#[cold]
unsafe fn ended_badly(error: Error, status: *mut MPI_Status) -> Failure {
    let known = match error {
        Error::Truncated { source_rank, tag, room, .. } => Status::new(source_rank, tag, room),
        _ => Status::default(),
    };
    unsafe { store(status, &known) };
    error.into()
}

/// As [`ended`], for a call that ends several operations: the error's code goes into the status. Whether it ended well.
unsafe fn ended_among_several(
    mpi: &Mpi,
    request: *mut MPI_Request,
    object: &RequestObject,
    result: Result<Status, Error>,
    status: *mut MPI_Status,
) -> bool {
    let outcome = unsafe { ended(mpi, request, object, result, status) };
    let code = outcome.err().map_or(MPI_SUCCESS, |failure| failure.code);
    if !status.is_null() {
        unsafe { (*status).error = code };
    }
    code == MPI_SUCCESS
}

/// What a call reports whose operations have not all ended well; the first of those that failed had the communicator `first_failure`.
fn outcome_of_several(first_failure: Option<MPI_Comm>, of: &mut MPI_Comm) -> Outcome<()> {
    match first_failure {
        None => Ok(()),
        Some(comm) => {
            *of = comm;
            Err(Failure {
                code: code_of(ErrorClass::InStatus),
                what: "an operation has failed: its status says how".into(),
            })
        }
    }
}

/// Runs a call about requests; a failure goes to the error handler of the communicator of the request that failed.
#[inline(always)]
pub(crate) fn on_requests(function: &str, call: impl FnOnce(&Mpi, &mut MPI_Comm) -> Outcome<()>) -> c_int {
    let mpi = match crate::state::enter(function) {
        Ok(mpi) => mpi,
        Err(code) => return code,
    };
    let mut of = MPI_COMM_SELF;
    match call(&mpi, &mut of) {
        Ok(()) => MPI_SUCCESS,
        Err(failure) => failed(&mpi, of, function, failure),
    }
}

#[cold]
fn failed(mpi: &Mpi, of: MPI_Comm, function: &str, failure: Failure) -> c_int {
    let object = mpi.communicator(of).unwrap_or_else(|| std::rc::Rc::clone(&mpi.alone));
    crate::errors::finish(&object, function, Err(failure))
}

pub(crate) unsafe fn mpi_wait(request: *mut MPI_Request, status: *mut MPI_Status) -> c_int {
    on_requests("MPI_Wait", |mpi, of| unsafe {
        if nothing_left(mpi, place(request)?, status) {
            return Ok(());
        }
        let object = find(mpi, *request)?;
        *of = object.of;
        let communicator = &mpi.world.communicator;
        let result =
            waiting(mpi, || communicator.wait(object.id), || communicator.test(object.id).transpose());
        ended(mpi, request, &object, result, status)
    })
}

pub(crate) unsafe fn mpi_test(request: *mut MPI_Request, flag: *mut c_int, status: *mut MPI_Status) -> c_int {
    on_requests("MPI_Test", |mpi, of| unsafe {
        *place(flag)? = 1;
        if nothing_left(mpi, place(request)?, status) {
            return Ok(());
        }
        let object = find(mpi, *request)?;
        *of = object.of;
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

/// The requests of a call: each that is not null, with its place in the program's array.
struct Several {
    objects: SmallVec<[RequestObject; 16]>,
    ids: SmallVec<[RequestId; 16]>,
    places: SmallVec<[usize; 16]>,
    requests: *mut MPI_Request,
    statuses: *mut MPI_Status,
    first_failure: Option<MPI_Comm>,
}

impl Several {
    /// # Safety
    /// The arrays are the program's, `count` long; `statuses` may be null.
    unsafe fn new(
        mpi: &Mpi,
        count: c_int,
        requests: *mut MPI_Request,
        statuses: *mut MPI_Status,
    ) -> Outcome<Self> {
        let count = count_of_requests(count)?;
        if count > 0 {
            place(requests)?;
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
            if handle != MPI_REQUEST_NULL {
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

    /// An operation has ended: `index` is its place among those that are not null, `place` that of its status.
    fn ended(&mut self, mpi: &Mpi, index: usize, place: usize, result: Result<Status, Error>) {
        let object = &self.objects[index];
        let status = self.status_at(place);
        let request = unsafe { self.requests.add(self.places[index]) };
        if !unsafe { ended_among_several(mpi, request, object, result, status) } {
            self.first_failure.get_or_insert(object.of);
        }
    }

    /// Empty statuses for the null requests.
    fn clear_statuses(&self, count: c_int) {
        for place in 0..count as usize {
            let status = self.status_at(place);
            if !status.is_null() && unsafe { *self.requests.add(place) } == MPI_REQUEST_NULL {
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
            place(requests)?;
        }
        // A handle of none is refused before any operation has ended.
        for number in 0..count {
            let handle = *requests.add(number);
            if handle != MPI_REQUEST_NULL && !mpi.finished_sends.has(handle.0) {
                find(mpi, handle)?;
            }
        }
        // One after the other, without a list of them: programs wait for thousands at once.
        let communicator = &mpi.world.communicator;
        let mut first_failure = None;
        for number in 0..count {
            let request = requests.add(number);
            let status = if statuses.is_null() { statuses } else { statuses.add(number) };
            if nothing_left(mpi, request, status) {
                if !status.is_null() {
                    (*status).error = MPI_SUCCESS;
                }
                continue;
            }
            let object = find(mpi, *request)?;
            let result =
                waiting(mpi, || communicator.wait(object.id), || communicator.test(object.id).transpose());
            if !ended_among_several(mpi, request, &object, result, status) {
                first_failure.get_or_insert(object.of);
            }
        }
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

/// One of several: waits, or only looks.
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
        let look = || match communicator.test_any(&several.ids) {
            Ok(mpi_over_am::AnyOver::Pending) => None,
            Ok(mpi_over_am::AnyOver::NoneActive) => Some(Ok(None)),
            Ok(mpi_over_am::AnyOver::Over(index, result)) => Some(Ok(Some((index, result)))),
            Err(error) => Some(Err(error)),
        };
        let found = match flag {
            None => waiting(mpi, || communicator.wait_any(&several.ids), look)?,
            Some(flag) => {
                let found = look();
                *flag = c_int::from(found.is_some());
                match found {
                    Some(found) => found?,
                    None => {
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
        *of = object.of;
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

/// All that are over: waits for one at least, or only looks.
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
            place(indices)?;
        }
        let communicator = &mpi.world.communicator;
        let mut results = SmallVec::<[_; 16]>::new();
        let ids = several.ids.clone();
        let found = if is_waiting && !mpi.is_shared() {
            communicator.wait_some(&ids, |index, result| results.push((index, result)))?
        } else {
            let mut look = || communicator.test_some(&ids, |index, result| results.push((index, result)));
            if is_waiting {
                waiting(
                    mpi,
                    || Ok(None),
                    || {
                        look()
                            .map(|some| {
                                some.filter(|&some| some > 0).map_or_else(
                                    || if some.is_none() { Some(None) } else { None },
                                    |some| Some(Some(some)),
                                )
                            })
                            .transpose()
                    },
                )?
            } else {
                look()?
            }
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

/// What a wait would tell of an operation that is over.
unsafe fn tell(
    mpi: &Mpi,
    request: MPI_Request,
    object: &RequestObject,
    status: *mut MPI_Status,
) -> Outcome<()> {
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

fn is_over(mpi: &Mpi, object: &RequestObject) -> Outcome<bool> {
    Ok(mpi.world.communicator.request_status(object.id)?.is_some())
}

pub(crate) unsafe fn mpi_request_get_status(
    request: MPI_Request,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    unsafe { status_of_all("MPI_Request_get_status", 1, &raw const request, flag, status) }
}

/// A status in an array of the program's, which may be null.
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
        let flag = place(flag)?;
        let several = unsafe { Several::new(mpi, count, requests.cast_mut(), statuses) }?;
        let mut all = true;
        for object in &several.objects {
            *of = object.of;
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
        let (index, flag) = (place(index)?, place(flag)?);
        let several = unsafe { Several::new(mpi, count, requests.cast_mut(), std::ptr::null_mut()) }?;
        let mut any_active = false;
        for (object, &place) in several.objects.iter().zip(&several.places) {
            if !mpi.world.communicator.is_active(object.id)? {
                continue;
            }
            any_active = true;
            *of = object.of;
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
        let outcount = place(outcount)?;
        let several = unsafe { Several::new(mpi, count, requests.cast_mut(), std::ptr::null_mut()) }?;
        if count > 0 {
            place(indices)?;
        }
        let mut any_active = false;
        let mut found = 0;
        for (object, &place) in several.objects.iter().zip(&several.places) {
            if !mpi.world.communicator.is_active(object.id)? {
                continue;
            }
            any_active = true;
            *of = object.of;
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
        let handle = *place(request)?;
        let object = find(mpi, handle)?;
        *of = object.of;
        *request = MPI_REQUEST_NULL;
        if object.is_generalized {
            return crate::generalized::free(mpi, handle, &object);
        }
        let_go(mpi, handle);
        Ok(mpi.world.communicator.free(object.id)?)
    })
}

pub(crate) unsafe fn mpi_cancel(request: *mut MPI_Request) -> c_int {
    on_requests("MPI_Cancel", |mpi, of| unsafe {
        let object = find(mpi, *place(request)?)?;
        *of = object.of;
        if object.is_generalized {
            return crate::generalized::cancel(mpi, *request, &object);
        }
        // Whether it was withdrawn, the status tells.
        mpi.world.communicator.cancel(object.id)?;
        Ok(())
    })
}

pub(crate) unsafe fn mpi_start(request: *mut MPI_Request) -> c_int {
    on_requests("MPI_Start", |mpi, of| unsafe {
        let object = find(mpi, *place(request)?)?;
        *of = object.of;
        Ok(mpi.world.communicator.start(object.id)?)
    })
}

pub(crate) unsafe fn mpi_startall(count: c_int, requests: *mut MPI_Request) -> c_int {
    on_requests("MPI_Startall", |mpi, of| unsafe {
        for index in 0..count_of_requests(count)? {
            let object = find(mpi, *place(requests)?.add(index))?;
            *of = object.of;
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
        *of = object.of;
        let (first, last) = (partition_of(first)?, partition_of(last)?);
        Ok(mpi.world.communicator.pready_range(object.id, first, last)?)
    })
}

pub(crate) unsafe fn mpi_pready_list(length: c_int, partitions: *const c_int, request: MPI_Request) -> c_int {
    on_requests("MPI_Pready_list", |mpi, of| {
        let object = find(mpi, request)?;
        *of = object.of;
        for &partition in unsafe { elements(partitions, length) }? {
            let partition = partition_of(partition)?;
            mpi.world.communicator.pready(object.id, partition)?;
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_parrived(request: MPI_Request, partition: c_int, flag: *mut c_int) -> c_int {
    on_requests("MPI_Parrived", |mpi, of| {
        if request == MPI_REQUEST_NULL {
            unsafe { *flag = 1 };
            return Ok(());
        }
        let object = find(mpi, request)?;
        *of = object.of;
        let arrived = mpi.world.communicator.parrived(object.id, partition_of(partition)?)?;
        unsafe { *flag = c_int::from(arrived) };
        Ok(())
    })
}

fn partition_of(partition: c_int) -> Outcome<u64> {
    u64::try_from(partition)
        .map_err(|_| Failure::new(ErrorClass::Argument, format!("partition {partition} does not exist")))
}
