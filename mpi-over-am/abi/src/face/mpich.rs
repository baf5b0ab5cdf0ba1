//! The binary interface of MPICH, which Intel MPI and MVAPICH share: handles are integers, but files are addresses.

use std::ffi::{c_int, c_void};

use mpi_over_am::RequestId;

use super::Handle;
use crate::constants::{
    MPI_ERR_ARG, MPI_FILE_NULL, MPI_REQUEST_NULL, MPI_SUCCESS, MPI_T_PVAR_ALL_HANDLES as ALL_HANDLES,
    MPI_UNWEIGHTED as UNWEIGHTED, MPI_WEIGHTS_EMPTY as EMPTY,
};
use crate::types::{
    MPI_Comm, MPI_Datatype, MPI_Errhandler, MPI_File, MPI_Group, MPI_Info, MPI_Message, MPI_Op, MPI_Request,
    MPI_Session, MPI_T_pvar_handle, MPI_Win,
};

/// Handles that are integers, with few predefined ones: the numbers of these in this interface and in the standard.
macro_rules! predefined {
    ($($name:ident: $($raw:literal $number:literal),*,)*) => { $(
        impl Handle for $name {
            type Raw = c_int;

            #[inline(always)]
            unsafe fn from_raw(raw: c_int) -> Self {
                Self(match raw as u32 {
                    $($raw => $number,)*
                    other => other as usize,
                })
            }

            fn to_raw(self) -> c_int {
                (match self.0 {
                    $($number => $raw,)*
                    other => other as u32,
                }) as c_int
            }

            fn to_word(self) -> usize {
                self.to_raw() as u32 as usize
            }

            fn to_integer(self) -> c_int {
                self.to_raw()
            }

            fn from_integer(number: c_int) -> Self {
                // SAFETY: a number is no address.
                unsafe { Self::from_raw(number) }
            }
        }
    )* };
}

include!(concat!(env!("OUT_DIR"), "/handles.rs"));

/// A file is an address in this interface: that of nothing, or the handle's number.
impl Handle for MPI_File {
    type Raw = usize;

    #[inline(always)]
    unsafe fn from_raw(raw: usize) -> Self {
        if raw == 0 { MPI_FILE_NULL } else { Self(raw) }
    }

    fn to_raw(self) -> usize {
        if self == MPI_FILE_NULL { 0 } else { self.0 }
    }

    fn to_word(self) -> usize {
        self.to_raw()
    }

    fn to_integer(self) -> c_int {
        self.to_raw() as c_int
    }

    fn from_integer(number: c_int) -> Self {
        // SAFETY: the number is no address that anything reads.
        unsafe { Self::from_raw(number as u32 as usize) }
    }
}

impl Handle for MPI_Datatype {
    type Raw = c_int;

    #[inline(always)]
    unsafe fn from_raw(raw: c_int) -> Self {
        // Predefined types have their number in the lowest byte, and above it their size; those of pairs count apart.
        let raw = raw as u32;
        Self(match raw >> 24 {
            0x4c => DATATYPES[(raw & 0xff) as usize].into(),
            0x8c if raw & 0xff < 0x20 => DATATYPES[(raw & 0xff | PAIRS) as usize].into(),
            _ if raw == DATATYPE_NULL => NO_DATATYPE,
            _ => raw as usize,
        })
    }

    fn to_raw(self) -> c_int {
        match RAW_DATATYPES.get(self.0.wrapping_sub(NO_DATATYPE)) {
            Some(&raw) => raw as c_int,
            None => self.0 as c_int,
        }
    }

    fn to_word(self) -> usize {
        self.to_raw() as u32 as usize
    }

    fn to_integer(self) -> c_int {
        self.to_raw()
    }

    fn from_integer(number: c_int) -> Self {
        // SAFETY: a number is no address.
        unsafe { Self::from_raw(number) }
    }
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
        self.0 as usize
    }

    fn to_integer(self) -> c_int {
        self.0 as c_int
    }

    fn from_integer(number: c_int) -> Self {
        Self(number as u32)
    }
}

impl MPI_Request {
    /// `MPI_REQUEST_NULL`.
    #[inline(always)]
    pub(crate) fn null() -> Self {
        MPI_REQUEST_NULL
    }

    #[inline(always)]
    pub(crate) fn of(id: RequestId) -> Self {
        // The handles of requests are below 2^31.
        Self(id.handle() as u32)
    }

    #[inline(always)]
    pub(crate) fn id(self) -> RequestId {
        RequestId::from_handle(self.0 as usize)
    }
}

/// What this interface is.
pub(crate) const NAME: &str = "the binary interface of MPICH and Intel MPI";

/// `MPI_Status`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MPI_Status {
    count_low: c_int,
    /// The upper half of the number of bytes received, and in the lowest bit whether the operation was cancelled.
    count_high_and_cancelled: c_int,
    /// The sender's rank.
    pub(crate) source: c_int,
    /// The message's tag.
    pub(crate) tag: c_int,
    /// An error code, set only by calls that return several statuses, and in empty statuses.
    pub(crate) error: c_int,
}

impl MPI_Status {
    pub(crate) const EMPTY: Self =
        Self { count_low: 0, count_high_and_cancelled: 0, source: 0, tag: 0, error: 0 };

    /// Stores the number of bytes of an operation that was not cancelled.
    #[inline(always)]
    pub(crate) fn end_with(&mut self, len: u64) {
        (self.count_low, self.count_high_and_cancelled) = (len as c_int, ((len >> 32) as c_int) << 1);
    }

    #[inline(always)]
    pub(crate) fn set_len(&mut self, len: u64) {
        self.count_low = len as c_int;
        self.count_high_and_cancelled = self.count_high_and_cancelled & 1 | ((len >> 32) as c_int) << 1;
    }

    pub(crate) fn len(&self) -> u64 {
        u64::from(self.count_low as u32) | u64::from(self.count_high_and_cancelled as u32 >> 1) << 32
    }

    #[inline(always)]
    pub(crate) fn set_cancelled(&mut self, is_cancelled: bool) {
        self.count_high_and_cancelled = self.count_high_and_cancelled & !1 | c_int::from(is_cancelled);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.count_high_and_cancelled & 1 != 0
    }
}

/// A program's status; null if the program ignores it: `MPI_STATUS_IGNORE` is the address 1 here.
#[inline(always)]
pub(crate) fn status<T>(at: *mut T) -> *mut T {
    if at.addr() == 1 { std::ptr::null_mut() } else { at }
}

/// An address that programs read from a variable of the library.
#[repr(transparent)]
struct Address(usize);

/// The variables that `mpi.h` of this interface declares.
mod variables {
    use super::{ALL_HANDLES, Address, EMPTY, MPI_T_pvar_handle, UNWEIGHTED};

    #[unsafe(no_mangle)]
    static MPI_UNWEIGHTED: Address = Address(UNWEIGHTED);
    #[unsafe(no_mangle)]
    static MPI_WEIGHTS_EMPTY: Address = Address(EMPTY);
    #[unsafe(no_mangle)]
    static MPI_T_PVAR_ALL_HANDLES: MPI_T_pvar_handle = ALL_HANDLES;
}

/// `MPI_DUP_FN` and its counterparts, which programs hand back to the library.
#[unsafe(no_mangle)]
unsafe extern "C" fn MPIR_Dup_fn(
    _object: c_int,
    _keyval: c_int,
    _state: *mut c_void,
    value: *mut c_void,
    to: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: both are the addresses of results (MPI 5.0 section 7.7.2).
    unsafe {
        *flag = 1;
        *to.cast() = value;
    }
    MPI_SUCCESS
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

no_gpu! { MPIX_Query_cuda_support MPIX_Query_hip_support MPIX_Query_ze_support }

#[unsafe(no_mangle)]
unsafe extern "C" fn MPIX_GPU_query_support(_kind: c_int, is_supported: *mut c_int) -> c_int {
    if is_supported.is_null() {
        return MPI_ERR_ARG;
    }
    // SAFETY: not null, so the address of the result.
    unsafe { *is_supported = 0 };
    MPI_SUCCESS
}

/// The words behind the library's own name in `MPI_Get_library_version`, by which programs know the interface.
pub(crate) const LIKE: &str = " (with the binary interface of MPICH Version: 4.1)";

/// The integer in Fortran of a handle that was passed as a word ([`Handle::to_word`]).
pub(crate) fn integer_of_word(word: usize) -> c_int {
    word as c_int
}
