//! Error classes and codes by number: those of the standard, and those that the program has added (MPI 5.0 sections 9.4 and 9.5).

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::constants::{
    MPI_ERR_ABI, MPI_ERR_ACCESS, MPI_ERR_AMODE, MPI_ERR_ARG, MPI_ERR_ASSERT, MPI_ERR_BAD_FILE, MPI_ERR_BASE,
    MPI_ERR_BUFFER, MPI_ERR_COMM, MPI_ERR_CONVERSION, MPI_ERR_COUNT, MPI_ERR_DIMS, MPI_ERR_DISP,
    MPI_ERR_DUP_DATAREP, MPI_ERR_ERRHANDLER, MPI_ERR_FILE, MPI_ERR_FILE_EXISTS, MPI_ERR_FILE_IN_USE,
    MPI_ERR_GROUP, MPI_ERR_IN_STATUS, MPI_ERR_INFO, MPI_ERR_INFO_KEY, MPI_ERR_INFO_NOKEY, MPI_ERR_INFO_VALUE,
    MPI_ERR_INTERN, MPI_ERR_IO, MPI_ERR_KEYVAL, MPI_ERR_LASTCODE, MPI_ERR_LOCKTYPE, MPI_ERR_NAME,
    MPI_ERR_NO_MEM, MPI_ERR_NO_SPACE, MPI_ERR_NO_SUCH_FILE, MPI_ERR_NOT_SAME, MPI_ERR_OP, MPI_ERR_OTHER,
    MPI_ERR_PENDING, MPI_ERR_PORT, MPI_ERR_PROC_ABORTED, MPI_ERR_QUOTA, MPI_ERR_RANK, MPI_ERR_READ_ONLY,
    MPI_ERR_REQUEST, MPI_ERR_RMA_ATTACH, MPI_ERR_RMA_CONFLICT, MPI_ERR_RMA_FLAVOR, MPI_ERR_RMA_RANGE,
    MPI_ERR_RMA_SHARED, MPI_ERR_RMA_SYNC, MPI_ERR_ROOT, MPI_ERR_SERVICE, MPI_ERR_SESSION, MPI_ERR_SIZE,
    MPI_ERR_SPAWN, MPI_ERR_TAG, MPI_ERR_TOPOLOGY, MPI_ERR_TRUNCATE, MPI_ERR_TYPE, MPI_ERR_UNKNOWN,
    MPI_ERR_UNSUPPORTED_DATAREP, MPI_ERR_UNSUPPORTED_OPERATION, MPI_ERR_VALUE_TOO_LARGE, MPI_ERR_WIN,
    MPI_SUCCESS, MPIX_ERR_PROC_FAILED, MPIX_ERR_PROC_FAILED_PENDING, MPIX_ERR_REVOKED,
};

/// Number and meaning of each class.
const MEANINGS: [(c_int, &str); 63] = [
    (MPI_SUCCESS, "MPI_SUCCESS: no error"),
    (MPI_ERR_BUFFER, "MPI_ERR_BUFFER: the buffer is not valid"),
    (MPI_ERR_COUNT, "MPI_ERR_COUNT: the count is not valid"),
    (MPI_ERR_TYPE, "MPI_ERR_TYPE: the datatype is not valid"),
    (MPI_ERR_TAG, "MPI_ERR_TAG: the tag is not valid"),
    (MPI_ERR_COMM, "MPI_ERR_COMM: the communicator is not valid"),
    (MPI_ERR_RANK, "MPI_ERR_RANK: the rank is not valid"),
    (MPI_ERR_REQUEST, "MPI_ERR_REQUEST: the request is not valid"),
    (MPI_ERR_ROOT, "MPI_ERR_ROOT: the root is not valid"),
    (MPI_ERR_GROUP, "MPI_ERR_GROUP: the group is not valid"),
    (MPI_ERR_OP, "MPI_ERR_OP: the operation is not valid"),
    (MPI_ERR_TOPOLOGY, "MPI_ERR_TOPOLOGY: the topology is not valid"),
    (MPI_ERR_DIMS, "MPI_ERR_DIMS: the dimensions are not valid"),
    (MPI_ERR_ARG, "MPI_ERR_ARG: an argument is not valid"),
    (MPI_ERR_UNKNOWN, "MPI_ERR_UNKNOWN: an unknown error"),
    (MPI_ERR_TRUNCATE, "MPI_ERR_TRUNCATE: the message was longer than the receive"),
    (MPI_ERR_OTHER, "MPI_ERR_OTHER: another error"),
    (MPI_ERR_INTERN, "MPI_ERR_INTERN: an error inside the library"),
    (MPI_ERR_PENDING, "MPI_ERR_PENDING: the request is not complete"),
    (MPI_ERR_IN_STATUS, "MPI_ERR_IN_STATUS: the errors are in the statuses"),
    (MPI_ERR_ACCESS, "MPI_ERR_ACCESS: no permission"),
    (MPI_ERR_AMODE, "MPI_ERR_AMODE: the access mode is not valid"),
    (MPI_ERR_ASSERT, "MPI_ERR_ASSERT: the assertion is not valid"),
    (MPI_ERR_BAD_FILE, "MPI_ERR_BAD_FILE: the file name is not valid"),
    (MPI_ERR_BASE, "MPI_ERR_BASE: the base address is not valid"),
    (MPI_ERR_CONVERSION, "MPI_ERR_CONVERSION: a conversion failed"),
    (MPI_ERR_DISP, "MPI_ERR_DISP: the displacement is not valid"),
    (MPI_ERR_DUP_DATAREP, "MPI_ERR_DUP_DATAREP: the data representation exists already"),
    (MPI_ERR_FILE_EXISTS, "MPI_ERR_FILE_EXISTS: the file exists"),
    (MPI_ERR_FILE_IN_USE, "MPI_ERR_FILE_IN_USE: the file is in use"),
    (MPI_ERR_FILE, "MPI_ERR_FILE: the file is not valid"),
    (MPI_ERR_INFO_KEY, "MPI_ERR_INFO_KEY: the key is not valid"),
    (MPI_ERR_INFO_NOKEY, "MPI_ERR_INFO_NOKEY: the key does not exist"),
    (MPI_ERR_INFO_VALUE, "MPI_ERR_INFO_VALUE: the value is not valid"),
    (MPI_ERR_INFO, "MPI_ERR_INFO: the info object is not valid"),
    (MPI_ERR_IO, "MPI_ERR_IO: input or output failed"),
    (MPI_ERR_KEYVAL, "MPI_ERR_KEYVAL: the key value is not valid"),
    (MPI_ERR_LOCKTYPE, "MPI_ERR_LOCKTYPE: the lock type is not valid"),
    (MPI_ERR_NAME, "MPI_ERR_NAME: the service name is not published"),
    (MPI_ERR_NO_MEM, "MPI_ERR_NO_MEM: no memory"),
    (MPI_ERR_NOT_SAME, "MPI_ERR_NOT_SAME: the arguments differ between tasks"),
    (MPI_ERR_NO_SPACE, "MPI_ERR_NO_SPACE: no space"),
    (MPI_ERR_NO_SUCH_FILE, "MPI_ERR_NO_SUCH_FILE: the file does not exist"),
    (MPI_ERR_PORT, "MPI_ERR_PORT: the port is not valid"),
    (MPI_ERR_QUOTA, "MPI_ERR_QUOTA: the quota is exceeded"),
    (MPI_ERR_READ_ONLY, "MPI_ERR_READ_ONLY: the file is read-only"),
    (MPI_ERR_RMA_ATTACH, "MPI_ERR_RMA_ATTACH: the memory cannot be attached"),
    (MPI_ERR_RMA_CONFLICT, "MPI_ERR_RMA_CONFLICT: conflicting accesses to a window"),
    (MPI_ERR_RMA_RANGE, "MPI_ERR_RMA_RANGE: the target memory is not in the window"),
    (MPI_ERR_RMA_SHARED, "MPI_ERR_RMA_SHARED: the memory cannot be shared"),
    (MPI_ERR_RMA_SYNC, "MPI_ERR_RMA_SYNC: wrong synchronization of a window"),
    (MPI_ERR_SERVICE, "MPI_ERR_SERVICE: the service name is not valid"),
    (MPI_ERR_SIZE, "MPI_ERR_SIZE: the size is not valid"),
    (MPI_ERR_SPAWN, "MPI_ERR_SPAWN: tasks cannot be spawned"),
    (MPI_ERR_UNSUPPORTED_DATAREP, "MPI_ERR_UNSUPPORTED_DATAREP: the data representation is not supported"),
    (MPI_ERR_UNSUPPORTED_OPERATION, "MPI_ERR_UNSUPPORTED_OPERATION: the operation is not supported"),
    (MPI_ERR_WIN, "MPI_ERR_WIN: the window is not valid"),
    (MPI_ERR_RMA_FLAVOR, "MPI_ERR_RMA_FLAVOR: the window has another flavor"),
    (MPI_ERR_PROC_ABORTED, "MPI_ERR_PROC_ABORTED: a task has failed"),
    (MPI_ERR_VALUE_TOO_LARGE, "MPI_ERR_VALUE_TOO_LARGE: the value does not fit"),
    (MPI_ERR_SESSION, "MPI_ERR_SESSION: the session is not valid"),
    (MPI_ERR_ERRHANDLER, "MPI_ERR_ERRHANDLER: the error handler is not valid"),
    (MPI_ERR_ABI, "MPI_ERR_ABI: the binary interface does not fit"),
];

/// The classes of the extensions, and their meanings.
pub(crate) const OF_EXTENSIONS: [(c_int, &str); 3] = [
    (MPIX_ERR_PROC_FAILED, "MPIX_ERR_PROC_FAILED: a task has failed"),
    (
        MPIX_ERR_PROC_FAILED_PENDING,
        "MPIX_ERR_PROC_FAILED_PENDING: a task has failed that could have sent the message",
    ),
    (MPIX_ERR_REVOKED, "MPIX_ERR_REVOKED: the communicator is revoked"),
];

fn of_standard(code: c_int) -> Option<&'static str> {
    MEANINGS.iter().find(|(known, _)| *known == code).map(|(_, meaning)| *meaning)
}

fn of_extension(code: c_int) -> Option<&'static str> {
    OF_EXTENSIONS.iter().find(|(known, _)| *known == code).map(|(_, meaning)| *meaning)
}

/// First number for the program's classes and codes, above all numbers that the ABI reserves.
const OWN_FROM: c_int = MPI_ERR_LASTCODE + 1;

/// A class or code that the program has added.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    pub(crate) class: c_int,
    pub(crate) is_class: bool,
    /// For a class: the number of codes that the program has added to it.
    pub(crate) codes: u32,
    pub(crate) text: Option<String>,
}

/// The classes and codes that the program has added. The largest number ever given stays in use (MPI 5.0 section 9.5).
#[derive(Debug)]
pub(crate) struct Added {
    pub(crate) by_number: BTreeMap<c_int, Own>,
    pub(crate) last: c_int,
}

/// One table for all threads, also usable before `MPI_Init`.
static ADDED: Mutex<Added> = Mutex::new(Added { by_number: BTreeMap::new(), last: OWN_FROM - 1 });

pub(crate) fn added() -> MutexGuard<'static, Added> {
    ADDED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The class of a code; `None` for an invalid number.
pub(crate) fn class_of(code: c_int) -> Option<c_int> {
    if of_standard(code).is_some() || of_extension(code).is_some() {
        return Some(code);
    }
    added().by_number.get(&code).map(|own| own.class)
}

/// The largest code or class that was ever in use (`MPI_LASTUSEDCODE`).
pub(crate) fn last_used() -> c_int {
    added().last
}

/// The meaning of a code, as text.
pub(crate) fn meaning(code: c_int) -> String {
    of_standard(code)
        .or_else(|| of_extension(code))
        .map(str::to_owned)
        .or_else(|| text_of(code))
        .unwrap_or_else(|| format!("error {code}"))
}

/// The program's text for one of its codes, empty if it has set none; `None` for any other code.
pub(crate) fn text_of(code: c_int) -> Option<String> {
    added().by_number.get(&code).map(|own| own.text.clone().unwrap_or_default())
}
