//! The types of include/mpi.h, and the integer arrays that programs pass.

use std::ffi::{c_int, c_void};

use crate::constants::MPI_UNDEFINED;
pub(crate) use crate::face::MPI_Status;

macro_rules! handle_types {
    ($($name:ident)*) => { $(
        #[doc = concat!("The handle `", stringify!($name), "`: an integer, cast to a pointer type as the ABI requires.")]
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) struct $name(pub(crate) usize);
    )* };
}

handle_types! {
    MPI_Comm MPI_Datatype MPI_Errhandler MPI_File MPI_Group MPI_Info MPI_Message MPI_Op MPI_Session MPI_Win
    MPI_T_enum MPI_T_cvar_handle MPI_T_pvar_handle MPI_T_pvar_session MPI_T_event_registration MPI_T_event_instance
}

/// The handle `MPI_Request`, in the form of the binary interface ([`crate::face`]): an integer, cast to a pointer type as the standard
/// requires.
#[cfg(not(face = "mpich"))]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MPI_Request(pub(crate) usize);

/// The handle `MPI_Request`: an integer.
#[cfg(face = "mpich")]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MPI_Request(pub(crate) u32);

/// A function of the program, or a small number that stands for one.
pub(crate) type Callback = usize;

/// Elements that the program sends: address, count and type.
pub(crate) type SendElements = (*const c_void, i64, MPI_Datatype);

/// Elements that the program receives into: address, count and type.
pub(crate) type RecvElements = (*mut c_void, i64, MPI_Datatype);

/// Elements at the target of a one-sided call: rank, displacement, count and type.
pub(crate) type Target = (c_int, i64, i64, MPI_Datatype);

/// A program's array of integers: of type `int`, or of 64 bits each.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ints {
    Int(*const c_int),
    Wide(*const i64),
}

impl From<*const c_int> for Ints {
    fn from(at: *const c_int) -> Self {
        Self::Int(at)
    }
}

impl From<*const i64> for Ints {
    fn from(at: *const i64) -> Self {
        Self::Wide(at)
    }
}

impl Ints {
    /// Whether there is no array.
    pub(crate) fn is_null(self) -> bool {
        match self {
            Self::Int(at) => at.is_null(),
            Self::Wide(at) => at.is_null(),
        }
    }

    /// Element `index`.
    ///
    /// # Safety
    /// The array must have more than `index` elements.
    pub(crate) unsafe fn at(self, index: usize) -> i64 {
        match self {
            // SAFETY: the caller promises that the array has more than `index` elements.
            Self::Int(at) => i64::from(unsafe { *at.add(index) }),
            // SAFETY: the caller promises that the array has more than `index` elements.
            Self::Wide(at) => unsafe { *at.add(index) },
        }
    }
}

/// Reads the value at `at` before a call of the large form, for parameters that are read and written; 0 if `at` is null.
///
/// # Safety
/// `at` must be null or readable, but need not have a meaningful value.
pub(crate) unsafe fn widened(at: *mut c_int) -> i64 {
    // SAFETY: not null, so the caller promises that `at` is readable.
    if at.is_null() { 0 } else { i64::from(unsafe { *at }) }
}

/// Stores the result of the large form; `MPI_UNDEFINED` if it does not fit into an `int`.
///
/// # Safety
/// `at` must be null or writable.
pub(crate) unsafe fn narrow(at: *mut c_int, wide: i64) {
    if !at.is_null() {
        // SAFETY: `at` is not null, so the caller promises that it is writable.
        unsafe { *at = c_int::try_from(wide).unwrap_or(MPI_UNDEFINED) };
    }
}
