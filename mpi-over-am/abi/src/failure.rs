//! Failures of calls: the error class and the text, and checks of arguments and callbacks that all calls share.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use mpi_over_am::{ByCall, Error, ErrorClass};

use crate::codes::class_of;
use crate::constants::{
    MPI_ERR_ABI, MPI_ERR_ACCESS, MPI_ERR_AMODE, MPI_ERR_ARG, MPI_ERR_ASSERT, MPI_ERR_BAD_FILE, MPI_ERR_BASE,
    MPI_ERR_BUFFER, MPI_ERR_COMM, MPI_ERR_CONVERSION, MPI_ERR_COUNT, MPI_ERR_DIMS, MPI_ERR_DISP,
    MPI_ERR_DUP_DATAREP, MPI_ERR_ERRHANDLER, MPI_ERR_FILE, MPI_ERR_FILE_EXISTS, MPI_ERR_FILE_IN_USE,
    MPI_ERR_GROUP, MPI_ERR_IN_STATUS, MPI_ERR_INFO, MPI_ERR_INFO_KEY, MPI_ERR_INFO_NOKEY, MPI_ERR_INFO_VALUE,
    MPI_ERR_INTERN, MPI_ERR_IO, MPI_ERR_KEYVAL, MPI_ERR_LOCKTYPE, MPI_ERR_NAME, MPI_ERR_NO_MEM,
    MPI_ERR_NO_SPACE, MPI_ERR_NO_SUCH_FILE, MPI_ERR_NOT_SAME, MPI_ERR_OP, MPI_ERR_OTHER, MPI_ERR_PENDING,
    MPI_ERR_PORT, MPI_ERR_PROC_ABORTED, MPI_ERR_QUOTA, MPI_ERR_RANK, MPI_ERR_READ_ONLY, MPI_ERR_REQUEST,
    MPI_ERR_RMA_ATTACH, MPI_ERR_RMA_CONFLICT, MPI_ERR_RMA_FLAVOR, MPI_ERR_RMA_RANGE, MPI_ERR_RMA_SHARED,
    MPI_ERR_RMA_SYNC, MPI_ERR_ROOT, MPI_ERR_SERVICE, MPI_ERR_SESSION, MPI_ERR_SIZE, MPI_ERR_SPAWN,
    MPI_ERR_TAG, MPI_ERR_TOPOLOGY, MPI_ERR_TRUNCATE, MPI_ERR_TYPE, MPI_ERR_UNKNOWN,
    MPI_ERR_UNSUPPORTED_DATAREP, MPI_ERR_UNSUPPORTED_OPERATION, MPI_ERR_VALUE_TOO_LARGE, MPI_ERR_WIN,
    MPIX_ERR_PROC_FAILED, MPIX_ERR_PROC_FAILED_PENDING, MPIX_ERR_REVOKED,
};

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
        C::TaskFailed => MPIX_ERR_PROC_FAILED,
        C::TaskFailedPending => MPIX_ERR_PROC_FAILED_PENDING,
        C::Revoked => MPIX_ERR_REVOKED,
    }
}

/// A failure found by a call of the C interface: code and text. One word, so that the outcome of a call fits into a register.
#[derive(Debug)]
pub(crate) struct Failure(Box<(c_int, String, Option<u32>)>);

impl Failure {
    pub(crate) fn new(class: ErrorClass, what: impl Into<String>) -> Self {
        Self::with_code(code_of(class), what)
    }

    pub(crate) fn with_code(code: c_int, what: impl Into<String>) -> Self {
        Self(Box::new((code, what.into(), None)))
    }

    pub(crate) fn code(&self) -> c_int {
        self.0.0
    }

    pub(crate) fn what(&self) -> &str {
        &self.0.1
    }

    /// The error by which the root of a call tells the other tasks of this failure.
    pub(crate) fn to_error(&self) -> Error {
        let class = ErrorClass::ALL.iter().copied().find(|&class| code_of(class) == self.code());
        Error::Processes { class: class.unwrap_or(ErrorClass::Other), what: self.what().to_owned() }
    }

    /// The task whose failure has caused this one.
    pub(crate) fn failed_task(&self) -> Option<u32> {
        self.0.2
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
        // A callback may return a code of its own, which the program must get back.
        let own = match error {
            Error::Callback { code, .. } => class_of(code).map(|_| code),
            _ => None,
        };
        let said = error.to_string();
        let what = match &error {
            // The name of the Rust function says nothing to a C program, and the text begins with C's.
            Error::Refused { call, .. } => said.strip_prefix(call).and_then(|rest| rest.strip_prefix(": ")),
            _ => None,
        };
        let what = what.unwrap_or(&said);
        let mut failure = Self::with_code(own.unwrap_or_else(|| code_of(error.class())), what);
        failure.0.2 = error.failed_task();
        failure
    }
}

pub(crate) type Outcome<T> = Result<T, Failure>;

/// Checks the program's pointer for a result.
///
/// # Errors
/// The pointer is null.
#[inline(always)]
pub(crate) fn not_null<T>(at: *mut T) -> Outcome<*mut T> {
    if at.is_null() { Err(null_address()) } else { Ok(at) }
}

#[cold]
fn null_address() -> Failure {
    Failure::new(ErrorClass::Argument, "an address that the call needs is null")
}

/// Calls a function of the program. No lock is held meanwhile, so the function may wait for a thread that calls MPI. If an exception leaves
/// the function, the process ends with a message: nothing may unwind through the library, whose state would be half changed, nor through
/// its C functions, whose callers may be in other languages.
pub(crate) fn call_program<T>(what: &str, call: impl FnOnce() -> T) -> T {
    struct Unwound<'a>(&'a str);

    impl Drop for Unwound<'_> {
        fn drop(&mut self) {
            let what = self.0;
            mpi_over_am::complain!(
                "{what} of this program has thrown an exception, which cannot pass through MPI: catch it in the function, and return"
            );
            std::process::abort();
        }
    }

    // If no frame catches an exception, the process ends before any destructor runs. Therefore this function catches it.
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let unwound = Unwound(what);
        let result = ByCall::outside(call);
        std::mem::forget(unwound);
        result
    }));
    // The destructor above ends the process.
    caught.unwrap_or_else(|_| std::process::abort())
}

/// A program's array.
///
/// # Errors
/// A negative length; a null address with a length that is not 0.
///
/// # Safety
/// The array must have `count` elements, which must not change while the result lives.
pub(crate) unsafe fn elements<'a, T>(at: *const T, count: c_int) -> Outcome<&'a [T]> {
    match usize::try_from(count) {
        Ok(0) => Ok(&[]),
        // SAFETY: the caller promises that the array has `count` elements, which do not change while the result lives. `not_null` refuses
        // null.
        Ok(count) => Ok(unsafe { std::slice::from_raw_parts(not_null(at.cast_mut())?, count) }),
        Err(_) => {
            Err(Failure::new(ErrorClass::Argument, format!("the length of an array is {count}, below zero")))
        }
    }
}
