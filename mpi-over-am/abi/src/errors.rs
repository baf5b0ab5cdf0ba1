//! Errors: from mpi-over-am's to the standard's classes, and through the error handler of the object.

use std::ffi::c_int;

use mpi_over_am::{Error, ErrorClass};

use crate::constants::{
    MPI_COMM_NULL, MPI_COMM_WORLD, MPI_ERR_ABI, MPI_ERR_ACCESS, MPI_ERR_AMODE, MPI_ERR_ARG, MPI_ERR_ASSERT,
    MPI_ERR_BAD_FILE, MPI_ERR_BASE, MPI_ERR_BUFFER, MPI_ERR_COMM, MPI_ERR_CONVERSION, MPI_ERR_COUNT,
    MPI_ERR_DIMS, MPI_ERR_DISP, MPI_ERR_DUP_DATAREP, MPI_ERR_ERRHANDLER, MPI_ERR_FILE, MPI_ERR_FILE_EXISTS,
    MPI_ERR_FILE_IN_USE, MPI_ERR_GROUP, MPI_ERR_IN_STATUS, MPI_ERR_INFO, MPI_ERR_INFO_KEY,
    MPI_ERR_INFO_NOKEY, MPI_ERR_INFO_VALUE, MPI_ERR_INTERN, MPI_ERR_IO, MPI_ERR_KEYVAL, MPI_ERR_LOCKTYPE,
    MPI_ERR_NAME, MPI_ERR_NO_MEM, MPI_ERR_NO_SPACE, MPI_ERR_NO_SUCH_FILE, MPI_ERR_NOT_SAME, MPI_ERR_OP,
    MPI_ERR_OTHER, MPI_ERR_PENDING, MPI_ERR_PORT, MPI_ERR_PROC_ABORTED, MPI_ERR_QUOTA, MPI_ERR_RANK,
    MPI_ERR_READ_ONLY, MPI_ERR_REQUEST, MPI_ERR_RMA_ATTACH, MPI_ERR_RMA_CONFLICT, MPI_ERR_RMA_FLAVOR,
    MPI_ERR_RMA_RANGE, MPI_ERR_RMA_SHARED, MPI_ERR_RMA_SYNC, MPI_ERR_ROOT, MPI_ERR_SERVICE, MPI_ERR_SESSION,
    MPI_ERR_SIZE, MPI_ERR_SPAWN, MPI_ERR_TAG, MPI_ERR_TOPOLOGY, MPI_ERR_TRUNCATE, MPI_ERR_TYPE,
    MPI_ERR_UNKNOWN, MPI_ERR_UNSUPPORTED_DATAREP, MPI_ERR_UNSUPPORTED_OPERATION, MPI_ERR_VALUE_TOO_LARGE,
    MPI_ERR_WIN, MPI_SUCCESS,
};
use crate::errhandlers::On;
use crate::state::{CommunicatorObject, Mpi, enter};
use crate::types::{MPI_Comm, MPI_Errhandler, MPI_Info, MPI_Session, MPI_Win};

/// The standard's numbers of the error classes (include/mpi.h).
pub(crate) fn code_of(class: ErrorClass) -> c_int {
    use ErrorClass as C;
    match class {
        C::Buffer => MPI_ERR_BUFFER,
        C::Count => MPI_ERR_COUNT,
        C::Type => MPI_ERR_TYPE,
        C::Tag => MPI_ERR_TAG,
        C::Communicator => MPI_ERR_COMM,
        C::Rank => MPI_ERR_RANK,
        C::Request => MPI_ERR_REQUEST,
        C::Root => MPI_ERR_ROOT,
        C::Group => MPI_ERR_GROUP,
        C::Operation => MPI_ERR_OP,
        C::Topology => MPI_ERR_TOPOLOGY,
        C::Dimensions => MPI_ERR_DIMS,
        C::Argument => MPI_ERR_ARG,
        C::Unknown => MPI_ERR_UNKNOWN,
        C::Truncate => MPI_ERR_TRUNCATE,
        C::Other => MPI_ERR_OTHER,
        C::Intern => MPI_ERR_INTERN,
        C::Pending => MPI_ERR_PENDING,
        C::InStatus => MPI_ERR_IN_STATUS,
        C::Access => MPI_ERR_ACCESS,
        C::AccessMode => MPI_ERR_AMODE,
        C::Assertion => MPI_ERR_ASSERT,
        C::BadFile => MPI_ERR_BAD_FILE,
        C::Base => MPI_ERR_BASE,
        C::Conversion => MPI_ERR_CONVERSION,
        C::Displacement => MPI_ERR_DISP,
        C::DuplicateDatarep => MPI_ERR_DUP_DATAREP,
        C::FileExists => MPI_ERR_FILE_EXISTS,
        C::FileInUse => MPI_ERR_FILE_IN_USE,
        C::File => MPI_ERR_FILE,
        C::InfoKey => MPI_ERR_INFO_KEY,
        C::InfoNoKey => MPI_ERR_INFO_NOKEY,
        C::InfoValue => MPI_ERR_INFO_VALUE,
        C::Info => MPI_ERR_INFO,
        C::Io => MPI_ERR_IO,
        C::Keyval => MPI_ERR_KEYVAL,
        C::LockType => MPI_ERR_LOCKTYPE,
        C::Name => MPI_ERR_NAME,
        C::NoMemory => MPI_ERR_NO_MEM,
        C::NotSame => MPI_ERR_NOT_SAME,
        C::NoSpace => MPI_ERR_NO_SPACE,
        C::NoSuchFile => MPI_ERR_NO_SUCH_FILE,
        C::Port => MPI_ERR_PORT,
        C::Quota => MPI_ERR_QUOTA,
        C::ReadOnly => MPI_ERR_READ_ONLY,
        C::RmaAttach => MPI_ERR_RMA_ATTACH,
        C::RmaConflict => MPI_ERR_RMA_CONFLICT,
        C::RmaRange => MPI_ERR_RMA_RANGE,
        C::RmaShared => MPI_ERR_RMA_SHARED,
        C::RmaSync => MPI_ERR_RMA_SYNC,
        C::Service => MPI_ERR_SERVICE,
        C::Size => MPI_ERR_SIZE,
        C::Spawn => MPI_ERR_SPAWN,
        C::UnsupportedDatarep => MPI_ERR_UNSUPPORTED_DATAREP,
        C::UnsupportedOperation => MPI_ERR_UNSUPPORTED_OPERATION,
        C::Window => MPI_ERR_WIN,
        C::RmaFlavor => MPI_ERR_RMA_FLAVOR,
        C::ProcessAborted => MPI_ERR_PROC_ABORTED,
        C::ValueTooLarge => MPI_ERR_VALUE_TOO_LARGE,
        C::Session => MPI_ERR_SESSION,
        C::ErrorHandler => MPI_ERR_ERRHANDLER,
        C::Abi => MPI_ERR_ABI,
    }
}

/// The name and meaning of each class, in the order of their numbers.
pub(crate) const MEANINGS: [&str; 63] = [
    "MPI_SUCCESS: no error",
    "MPI_ERR_BUFFER: the buffer is not valid",
    "MPI_ERR_COUNT: the count is not valid",
    "MPI_ERR_TYPE: the datatype is not valid",
    "MPI_ERR_TAG: the tag is not valid",
    "MPI_ERR_COMM: the communicator is not valid",
    "MPI_ERR_RANK: the rank is not valid",
    "MPI_ERR_REQUEST: the request is not valid",
    "MPI_ERR_ROOT: the root is not valid",
    "MPI_ERR_GROUP: the group is not valid",
    "MPI_ERR_OP: the operation is not valid",
    "MPI_ERR_TOPOLOGY: the topology is not valid",
    "MPI_ERR_DIMS: the dimensions are not valid",
    "MPI_ERR_ARG: an argument is not valid",
    "MPI_ERR_UNKNOWN: an unknown error",
    "MPI_ERR_TRUNCATE: the message was longer than the receive",
    "MPI_ERR_OTHER: another error",
    "MPI_ERR_INTERN: an error inside the library",
    "MPI_ERR_PENDING: the request is not over",
    "MPI_ERR_IN_STATUS: the errors are in the statuses",
    "MPI_ERR_ACCESS: no permission",
    "MPI_ERR_AMODE: the access mode is not valid",
    "MPI_ERR_ASSERT: the assertion is not valid",
    "MPI_ERR_BAD_FILE: the file name is not valid",
    "MPI_ERR_BASE: the base address is not valid",
    "MPI_ERR_CONVERSION: a conversion failed",
    "MPI_ERR_DISP: the displacement is not valid",
    "MPI_ERR_DUP_DATAREP: the data representation exists already",
    "MPI_ERR_FILE_EXISTS: the file exists",
    "MPI_ERR_FILE_IN_USE: the file is in use",
    "MPI_ERR_FILE: the file is not valid",
    "MPI_ERR_INFO_KEY: the key is not valid",
    "MPI_ERR_INFO_NOKEY: the key does not exist",
    "MPI_ERR_INFO_VALUE: the value is not valid",
    "MPI_ERR_INFO: the info object is not valid",
    "MPI_ERR_IO: input or output failed",
    "MPI_ERR_KEYVAL: the key value is not valid",
    "MPI_ERR_LOCKTYPE: the lock type is not valid",
    "MPI_ERR_NAME: the service name is not published",
    "MPI_ERR_NO_MEM: no memory",
    "MPI_ERR_NOT_SAME: the arguments differ between tasks",
    "MPI_ERR_NO_SPACE: no space",
    "MPI_ERR_NO_SUCH_FILE: the file does not exist",
    "MPI_ERR_PORT: the port is not valid",
    "MPI_ERR_QUOTA: the quota is exceeded",
    "MPI_ERR_READ_ONLY: the file is read-only",
    "MPI_ERR_RMA_ATTACH: the memory cannot be attached",
    "MPI_ERR_RMA_CONFLICT: conflicting accesses to a window",
    "MPI_ERR_RMA_RANGE: the target memory is not in the window",
    "MPI_ERR_RMA_SHARED: the memory cannot be shared",
    "MPI_ERR_RMA_SYNC: wrong synchronization of a window",
    "MPI_ERR_SERVICE: the service name is not valid",
    "MPI_ERR_SIZE: the size is not valid",
    "MPI_ERR_SPAWN: tasks cannot be spawned",
    "MPI_ERR_UNSUPPORTED_DATAREP: the data representation is not supported",
    "MPI_ERR_UNSUPPORTED_OPERATION: the operation is not supported",
    "MPI_ERR_WIN: the window is not valid",
    "MPI_ERR_RMA_FLAVOR: the window has another flavor",
    "MPI_ERR_PROC_ABORTED: a task has failed",
    "MPI_ERR_VALUE_TOO_LARGE: the value does not fit",
    "MPI_ERR_SESSION: the session is not valid",
    "MPI_ERR_ERRHANDLER: the error handler is not valid",
    "MPI_ERR_ABI: the binary interface does not fit",
];

/// What a call found wrong by itself: the class, and what to say. One word, so that the outcome of a call is in a register.
#[derive(Debug)]
pub(crate) struct Failure(Box<(c_int, String)>);

impl Failure {
    pub(crate) fn new(class: ErrorClass, what: impl Into<String>) -> Self {
        Self::with_code(code_of(class), what)
    }

    pub(crate) fn with_code(code: c_int, what: impl Into<String>) -> Self {
        Self(Box::new((code, what.into())))
    }

    pub(crate) fn code(&self) -> c_int {
        self.0.0
    }

    pub(crate) fn what(&self) -> &str {
        &self.0.1
    }
}

impl From<mpi_over_am::datatype::Error> for Failure {
    fn from(error: mpi_over_am::datatype::Error) -> Self {
        Error::from(error).into()
    }
}

impl From<Error> for Failure {
    #[cold]
    #[inline(never)]
    fn from(error: Error) -> Self {
        // A callback may return a code of its own, which the program wants to see again.
        let own = match error {
            Error::Callback { code, .. } => crate::error_codes::class_of(code).map(|_| code),
            _ => None,
        };
        Self::with_code(own.unwrap_or_else(|| code_of(error.class())), error.to_string())
    }
}

pub(crate) type Outcome<T> = Result<T, Failure>;

/// A place for a result that the program gives.
///
/// # Errors
/// It is null.
#[inline(always)]
pub(crate) fn place<T>(at: *mut T) -> Outcome<*mut T> {
    if at.is_null() { Err(no_place()) } else { Ok(at) }
}

#[cold]
fn no_place() -> Failure {
    Failure::new(ErrorClass::Argument, "an address that the call needs is null")
}

/// Calls a function of the program. An exception that leaves one ends the process, and says so: nothing unwinds through the library,
/// whose state would be half changed, nor through its C functions, which other languages call.
pub(crate) fn call_program<T>(what: &str, call: impl FnOnce() -> T) -> T {
    struct Unwound<'a>(&'a str);

    impl Drop for Unwound<'_> {
        fn drop(&mut self) {
            let what = self.0;
            eprintln!(
                "{what} of this program has thrown an exception, which cannot pass through MPI: catch it in the function, and return"
            );
            std::process::abort();
        }
    }

    let unwound = Unwound(what);
    let result = call();
    std::mem::forget(unwound);
    result
}

/// What a call is about: whose error handler hears of it.
pub(crate) enum Of {
    MPI_Comm(MPI_Comm),
    MPI_Win(MPI_Win),
    MPI_Session(MPI_Session),
    /// An object that is to be made, with this error handler; no other one is asked if it is good.
    Made(On, MPI_Errhandler),
    Process,
}

#[cold]
fn refuse(function: &str, of: &Of, failure: Failure) -> c_int {
    match *of {
        Of::MPI_Comm(comm) => on_communicator(function, comm, |_, _| Err(failure)),
        Of::MPI_Win(win) => crate::windows::on_window(function, win, |_, _| Err(failure)),
        Of::MPI_Session(session) => crate::sessions::on_session(function, session, |_, _| Err(failure)),
        Of::Made(on, handler) => crate::errhandlers::raise_for_made(on, handler, function, failure),
        Of::Process => crate::error_codes::finish(function, Err(failure)),
    }
}

/// What a call returns that was given no place for a result.
#[cold]
pub(crate) fn no_place_for(function: &str, argument: &str, of: Of) -> c_int {
    let what = format!("the address {argument}, where a result goes, is null");
    refuse(function, &of, Failure::new(ErrorClass::Argument, what))
}

/// What a call returns that was given an info object that is none.
#[cold]
pub(crate) fn no_info(function: &str, info: MPI_Info, of: Of) -> c_int {
    refuse(function, &of, crate::infos::no_info(info))
}

/// An array of the program's.
///
/// # Errors
/// A negative length; a null address of a length that is not 0.
///
/// # Safety
/// The array has that many elements, and stays as it is while the result lives.
pub(crate) unsafe fn elements<'a, T>(at: *const T, count: c_int) -> Outcome<&'a [T]> {
    match usize::try_from(count) {
        Ok(0) => Ok(&[]),
        // SAFETY: the caller's promise; null is refused before.
        Ok(count) => Ok(unsafe { std::slice::from_raw_parts(place(at.cast_mut())?, count) }),
        Err(_) => {
            Err(Failure::new(ErrorClass::Argument, format!("the length of an array is {count}, below zero")))
        }
    }
}

/// The code that a call returns, after the error handler of its communicator has run.
#[inline(always)]
pub(crate) fn finish(object: &CommunicatorObject, function: &str, outcome: Outcome<()>) -> c_int {
    match outcome {
        Ok(()) => MPI_SUCCESS,
        Err(failure) => crate::errhandlers::raise(Some(object), function, &failure),
    }
}

/// As [`finish`], for calls about no communicator: the initial error handler, that of the communicator of one, hears of it.
#[inline(always)]
pub(crate) fn finish_alone(mpi: &Mpi, function: &str, outcome: Outcome<()>) -> c_int {
    finish(&mpi.alone, function, outcome)
}

/// Runs a call about a communicator.
#[inline(always)]
pub(crate) fn on_communicator(
    function: &str,
    handle: MPI_Comm,
    call: impl FnOnce(&Mpi, &CommunicatorObject) -> Outcome<()>,
) -> c_int {
    let mpi = match enter(function) {
        Ok(mpi) => mpi,
        Err(code) => return code,
    };
    // The world is borrowed, not counted: most calls are about it.
    let kept = if handle == MPI_COMM_WORLD { None } else { mpi.communicator(handle) };
    let object: &CommunicatorObject = match &kept {
        Some(object) => object,
        None if handle == MPI_COMM_WORLD => &mpi.world,
        None => return finish_alone(&mpi, function, Err(no_communicator(handle))),
    };
    let outcome = call(&mpi, object);
    finish(object, function, outcome)
}

/// Runs a call about no communicator.
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
        format!("0x{:x} is no communicator: it was freed, never was one, or is still being made", handle.0)
    };
    Failure::new(ErrorClass::Communicator, what)
}

/// A call before `MPI_Init` or after `MPI_Finalize`: the initial error handler hears of it.
#[cold]
pub(crate) fn outside(function: &str, after: bool) -> c_int {
    let what = if after { "it was called after MPI_Finalize" } else { "it was called before MPI_Init" };
    crate::errhandlers::raise_initial(function, &Failure::new(ErrorClass::Other, what))
}

/// What a function that is not there yet returns.
#[cold]
pub(crate) fn unsupported(function: &str) -> c_int {
    on_process(function, |_| Err(not_there()))
}

/// The same, for a function about a communicator.
#[cold]
pub(crate) fn unsupported_on(function: &str, comm: MPI_Comm) -> c_int {
    on_communicator(function, comm, |_, _| Err(not_there()))
}

fn not_there() -> Failure {
    Failure::new(ErrorClass::UnsupportedOperation, "this library does not have this function")
}
