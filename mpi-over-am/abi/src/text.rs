//! Strings that cross the C interface.

use std::ffi::{CStr, c_char, c_int};

use crate::failure::{Outcome, not_null};

/// Stores as much of a string as fits into a program's buffer of `max` bytes, with a terminating NUL, and in `len` the number of bytes
/// without the NUL.
///
/// # Safety
/// `to` must have `max` writable bytes, at least one; `len` must be null or writable.
pub(crate) unsafe fn give_string(text: &str, to: *mut c_char, max: usize, len: *mut c_int) {
    let bytes = &text.as_bytes()[..text.floor_char_boundary_at(max - 1)];
    // SAFETY: the caller promises that `to` has `max` writable bytes, and that `len` is null or writable. `bytes` has at most `max - 1`
    // bytes, which leaves one for the NUL.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), to, bytes.len());
        *to.add(bytes.len()) = 0;
        if !len.is_null() {
            *len = bytes.len() as c_int;
        }
    }
}

/// Cuts text at a character boundary.
trait FloorBoundary {
    fn floor_char_boundary_at(&self, max: usize) -> usize;
}

impl FloorBoundary for str {
    fn floor_char_boundary_at(&self, max: usize) -> usize {
        (0..=max.min(self.len())).rev().find(|&at| self.is_char_boundary(at)).unwrap_or(0)
    }
}

/// A program's string. Bytes that are not UTF-8 are replaced.
///
/// # Errors
/// `at` is null.
///
/// # Safety
/// `at` must be null, or a NUL-terminated string that does not change during the call.
pub(crate) unsafe fn string_at(at: *const c_char) -> Outcome<String> {
    let at = not_null(at.cast_mut())?;
    // SAFETY: `at` is not null, so the caller promises that it is a NUL-terminated string.
    Ok(unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned())
}
