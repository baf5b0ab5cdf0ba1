//! The base of the tool information interface (MPI 5.0 chapter 15): its start and end, its handles, and the storing of results. The
//! interface works before `MPI_Init` and after `MPI_Finalize`, and never calls an error handler.

use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::constants::{
    MPI_SUCCESS, MPI_T_ERR_INVALID, MPI_T_ERR_INVALID_INDEX, MPI_T_ERR_INVALID_NAME,
    MPI_T_ERR_NOT_INITIALIZED,
};

/// First handle of enumerations; all other handles of the interface are larger ([`new_handle`]).
pub(crate) const HANDLES_FROM: usize = 0x1000;

/// Number of starts of the interface minus number of its ends. Relaxed: it publishes nothing; locks protect the state of the interface.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// Starts the interface once more.
pub(crate) fn start() {
    STARTED.fetch_add(1, Ordering::Relaxed);
}

/// Ends the interface once. Returns the number of starts left; `None` if there was none.
pub(crate) fn end() -> Option<usize> {
    let before = STARTED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |started| started.checked_sub(1));
    before.ok().map(|before| before - 1)
}

/// A handle that has never been used.
pub(crate) fn new_handle() -> usize {
    static LAST: AtomicUsize = AtomicUsize::new(HANDLES_FROM);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// Runs a call that needs the interface to be started, and returns its code.
pub(crate) fn in_tool(call: impl FnOnce() -> Result<(), c_int>) -> c_int {
    if STARTED.load(Ordering::Relaxed) == 0 {
        return MPI_T_ERR_NOT_INITIALIZED;
    }
    call().err().unwrap_or(MPI_SUCCESS)
}

/// Refuses a null pointer where the program must give an address.
pub(crate) fn check_given(is_null: bool) -> Result<(), c_int> {
    if is_null { Err(MPI_T_ERR_INVALID) } else { Ok(()) }
}

/// Stores a result, if the program wants it.
///
/// # Safety
/// `to` must be null or writable.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: `to` is not null, so the caller promises that it is writable.
        unsafe { to.write(value) };
    }
}

/// Stores as much of a string as fits into a buffer of `*len` bytes, with a terminating NUL, and in `*len` the number of bytes that the
/// whole string needs, also if there is no buffer or the string is cut (MPI 5.0 section 15.3.3).
///
/// # Safety
/// `len` must be null, or readable and writable; `to` must be null or have `*len` writable bytes.
pub(crate) unsafe fn put_string(text: &str, to: *mut c_char, len: *mut c_int) {
    if len.is_null() {
        return;
    }
    // SAFETY: `len` is not null, so the caller promises that it is readable.
    let capacity = usize::try_from(unsafe { *len }).unwrap_or(0);
    if !to.is_null() && capacity > 0 {
        // SAFETY: `to` and `len` are not null, so the caller promises that they can be written.
        unsafe { crate::text::give_string(text, to, capacity, len) };
    }
    // SAFETY: `len` is not null, so the caller promises that it is writable.
    unsafe { *len = text.len() as c_int + 1 };
}

/// An element of a table by its index.
pub(crate) fn indexed<T>(table: &[T], index: c_int) -> Result<&T, c_int> {
    usize::try_from(index).ok().and_then(|index| table.get(index)).ok_or(MPI_T_ERR_INVALID_INDEX)
}

/// The index of a name in a table.
///
/// # Safety
/// `name` must be null or a NUL-terminated string.
pub(crate) unsafe fn index_of<'a>(
    name: *const c_char,
    mut names: impl Iterator<Item = &'a str>,
) -> Result<c_int, c_int> {
    check_given(name.is_null())?;
    // SAFETY: `name` is not null, so the caller promises that it is a NUL-terminated string while this function runs.
    let name = unsafe { CStr::from_ptr(name) };
    let place = names.position(|known| known.as_bytes() == name.to_bytes()).ok_or(MPI_T_ERR_INVALID_NAME)?;
    Ok(place as c_int)
}
