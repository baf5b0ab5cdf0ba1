//! The binary interface of Open MPI: a predefined handle is the address of a symbol, which a program may have copied into itself. The
//! symbol's first word is the standard's number, so the copy has it, too. Other handles are no addresses: their numbers have a bit set
//! that no address has.

use std::ffi::{c_int, c_void};

use mpi_over_am::RequestId;

use super::Handle;
use crate::constants::{
    MPI_COMM_NULL, MPI_DATATYPE_NULL, MPI_ERRHANDLER_NULL, MPI_FILE_NULL, MPI_GROUP_NULL, MPI_INFO_NULL,
    MPI_MESSAGE_NULL, MPI_OP_NULL, MPI_SESSION_NULL, MPI_SUCCESS, MPI_WIN_NULL,
};
use crate::types::{
    MPI_Comm, MPI_Datatype, MPI_Errhandler, MPI_File, MPI_Group, MPI_Info, MPI_Message, MPI_Op, MPI_Request,
    MPI_Session, MPI_Win,
};

/// Set in handles that are no addresses.
const NO_ADDRESS: usize = 1 << 62;

/// A predefined object: its number, and the rest of the size that programs know.
#[repr(C, align(16))]
struct Object<const BYTES: usize>(usize, [u8; BYTES]);

/// The address of a predefined object, or nothing: the program's copy, if the program has one, because the dynamic linker fills it in.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Address(*const c_void);

// SAFETY: nobody reads or writes at the address but to load the number, which never changes.
unsafe impl Sync for Address {}

/// Numbers of the standard's handles: all are below.
const NUMBERS: usize = 0x300;

macro_rules! objects {
    ($($symbol:ident $bytes:literal $number:literal)*) => {
        /// The symbols.
        mod objects {
            use super::Object;

            $(
                #[unsafe(no_mangle)]
                pub(super) static $symbol: Object<{ $bytes - 8 }> = Object($number, [0; { $bytes - 8 }]);
            )*
        }

        /// The addresses of the objects, by their numbers.
        static ADDRESSES: [Address; NUMBERS] = {
            let mut addresses = [Address(std::ptr::null()); NUMBERS];
            $( addresses[$number] = Address((&raw const objects::$symbol).cast()); )*
            addresses
        };
    };
}

include!(concat!(env!("OUT_DIR"), "/handles.rs"));

/// The number of a program's handle.
///
/// # Safety
/// The handle must be null, a number with [`NO_ADDRESS`], or the address of a predefined object.
#[inline(always)]
unsafe fn number_of(raw: usize) -> usize {
    if raw & NO_ADDRESS != 0 || raw == 0 {
        return raw & !NO_ADDRESS;
    }
    // SAFETY: the caller promises that this is an object's address.
    unsafe { *std::ptr::with_exposed_provenance(raw) }
}

/// A program's handle of a number.
#[inline(always)]
fn raw_of(number: usize) -> usize {
    match ADDRESSES.get(number) {
        // SAFETY: a place of the table. Volatile: the compiler sees the address of the library's object there, and the loader may have
        // stored that of the program's copy.
        Some(place) => unsafe { std::ptr::from_ref(place).read_volatile() }.0.expose_provenance(),
        None => number | NO_ADDRESS,
    }
}

/// The integer of a handle in Fortran.
pub(crate) fn integer_of(number: usize) -> c_int {
    let known = IN_FORTRAN.iter().find(|(known, _)| *known == number);
    known.map_or(number as c_int, |&(_, integer)| integer)
}

/// The number of the handle that an integer of Fortran stands for. `from`: the number of the null handle of its kind.
fn number_in(integer: c_int, from: usize) -> usize {
    // Operations have four groups of eight numbers, datatypes all from their first on.
    let last = match from {
        _ if from == MPI_DATATYPE_NULL.0 => NUMBERS,
        _ if from == MPI_OP_NULL.0 => from + 32,
        _ => from + 8,
    };
    let is_it = |&&(number, known): &&(usize, c_int)| known == integer && (from..last).contains(&number);
    IN_FORTRAN.iter().find(is_it).map_or(integer as u32 as usize, |&(number, _)| number)
}

macro_rules! addresses {
    ($($name:ident $null:ident)*) => { $(
        impl Handle for $name {
            type Raw = usize;

            #[inline(always)]
            unsafe fn from_raw(raw: usize) -> Self {
                // SAFETY: the caller's promise.
                Self(unsafe { number_of(raw) })
            }

            fn to_raw(self) -> usize {
                raw_of(self.0)
            }

            fn to_word(self) -> usize {
                self.to_raw()
            }

            fn to_integer(self) -> c_int {
                integer_of(self.0)
            }

            fn from_integer(integer: c_int) -> Self {
                Self(number_in(integer, $null.0))
            }
        }
    )* };
}

// The null handle of each kind has the first number of its predefined handles.
addresses! {
    MPI_Comm MPI_COMM_NULL
    MPI_Datatype MPI_DATATYPE_NULL
    MPI_Errhandler MPI_ERRHANDLER_NULL
    MPI_File MPI_FILE_NULL
    MPI_Group MPI_GROUP_NULL
    MPI_Info MPI_INFO_NULL
    MPI_Message MPI_MESSAGE_NULL
    MPI_Op MPI_OP_NULL
    MPI_Session MPI_SESSION_NULL
    MPI_Win MPI_WIN_NULL
}

impl Handle for MPI_Request {
    type Raw = Self;

    unsafe fn from_raw(raw: Self) -> Self {
        raw
    }

    fn to_raw(self) -> Self {
        self
    }

    fn to_word(self) -> usize {
        self.0
    }

    fn to_integer(self) -> c_int {
        if self == Self::null() { integer_of(NULL_REQUEST) } else { self.0 as c_int }
    }

    fn from_integer(number: c_int) -> Self {
        if number == integer_of(NULL_REQUEST) {
            Self::null()
        } else {
            Self(number as u32 as usize | NO_ADDRESS)
        }
    }
}

/// The standard's number of `MPI_REQUEST_NULL`, which its object has.
const NULL_REQUEST: usize = objects::ompi_request_null.0;

impl MPI_Request {
    /// `MPI_REQUEST_NULL`.
    #[inline(always)]
    pub(crate) fn null() -> Self {
        Self(raw_of(NULL_REQUEST))
    }

    #[inline(always)]
    pub(crate) fn of(id: RequestId) -> Self {
        Self(id.handle() | NO_ADDRESS)
    }

    #[inline(always)]
    pub(crate) fn id(self) -> RequestId {
        RequestId::from_handle(self.0 & !NO_ADDRESS)
    }
}

/// What this interface is.
pub(crate) const NAME: &str = "the binary interface of Open MPI";

/// `MPI_Status`. A Fortran status is the same bytes, at the address of an integer.
#[repr(C, packed(4))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MPI_Status {
    /// The sender's rank.
    pub(crate) source: c_int,
    /// The message's tag.
    pub(crate) tag: c_int,
    /// An error code, set only by calls that return several statuses, and in empty statuses.
    pub(crate) error: c_int,
    cancelled: c_int,
    /// Number of bytes received.
    count: u64,
}

impl MPI_Status {
    pub(crate) const EMPTY: Self = Self { source: 0, tag: 0, error: 0, cancelled: 0, count: 0 };

    /// Stores the number of bytes of an operation that was not cancelled.
    #[inline(always)]
    pub(crate) fn end_with(&mut self, len: u64) {
        self.set_len(len);
        self.set_cancelled(false);
    }

    #[inline(always)]
    pub(crate) fn set_len(&mut self, len: u64) {
        self.count = len;
    }

    pub(crate) fn len(&self) -> u64 {
        self.count
    }

    #[inline(always)]
    pub(crate) fn set_cancelled(&mut self, is_cancelled: bool) {
        self.cancelled = c_int::from(is_cancelled);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled != 0
    }
}

/// A program's status; null if the program ignores it.
#[inline(always)]
pub(crate) fn status<T>(at: *mut T) -> *mut T {
    at
}

/// The predefined functions of attributes, which programs hand back to the library.
macro_rules! attribute_functions {
    ($($null_copy:ident $duplicate:ident $null_delete:ident)*) => { $(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $null_copy(
            _object: usize,
            _keyval: c_int,
            _state: *mut c_void,
            _value: *mut c_void,
            _to: *mut c_void,
            flag: *mut c_int,
        ) -> c_int {
            // SAFETY: the address of a result (MPI 5.0 section 7.7.2).
            unsafe { *flag = 0 };
            MPI_SUCCESS
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $duplicate(
            _object: usize,
            _keyval: c_int,
            _state: *mut c_void,
            value: *mut c_void,
            to: *mut c_void,
            flag: *mut c_int,
        ) -> c_int {
            // SAFETY: both are the addresses of results.
            unsafe {
                *flag = 1;
                *to.cast() = value;
            }
            MPI_SUCCESS
        }

        #[unsafe(no_mangle)]
        extern "C" fn $null_delete(
            _object: usize,
            _keyval: c_int,
            _value: *mut c_void,
            _state: *mut c_void,
        ) -> c_int {
            MPI_SUCCESS
        }
    )* };
}

attribute_functions! {
    OMPI_C_MPI_NULL_COPY_FN OMPI_C_MPI_DUP_FN OMPI_C_MPI_NULL_DELETE_FN
    OMPI_C_MPI_COMM_NULL_COPY_FN OMPI_C_MPI_COMM_DUP_FN OMPI_C_MPI_COMM_NULL_DELETE_FN
    OMPI_C_MPI_TYPE_NULL_COPY_FN OMPI_C_MPI_TYPE_DUP_FN OMPI_C_MPI_TYPE_NULL_DELETE_FN
    OMPI_C_MPI_WIN_NULL_COPY_FN OMPI_C_MPI_WIN_DUP_FN OMPI_C_MPI_WIN_NULL_DELETE_FN
}

/// Whether memory of a kind of GPU can be passed: it cannot.
macro_rules! no_gpu {
    ($($name:ident)*) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> c_int {
            0
        }
    )* };
}

no_gpu! { MPIX_Query_cuda_support MPIX_Query_rocm_support MPIX_Query_ze_support }

/// The words behind the library's own name in `MPI_Get_library_version`, by which programs know the interface.
pub(crate) const LIKE: &str = " (with the binary interface of Open MPI v5.0.0)";

/// The integer in Fortran of a handle that was passed as a word ([`Handle::to_word`]).
pub(crate) fn integer_of_word(word: usize) -> c_int {
    // SAFETY: the library passes its own handles.
    integer_of(unsafe { number_of(word) })
}
