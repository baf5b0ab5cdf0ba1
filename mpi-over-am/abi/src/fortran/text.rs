//! Strings: Fortran's have their declared length, padded with blanks; C's end with a NUL.
//!
//! SAFETY: the Fortran routines call the functions here with arguments of the program, which are valid for the accesses that the standard
//! specifies.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results and read arrays at the program's pointers; blocks that do more have a note"
)]

use std::ffi::{CString, c_char, c_int};

use crate::constants::MPI_MAX_LIBRARY_VERSION_STRING;
use crate::fortran::sentinels;

/// Longer than any string that a call returns (`MPI_MAX_LIBRARY_VERSION_STRING` is the longest).
const BYTES_MAX: usize = MPI_MAX_LIBRARY_VERSION_STRING + 1;

unsafe fn bytes<'a>(at: *const c_char, len: usize) -> &'a [u8] {
    // SAFETY: the caller's promise: `at` is a Fortran string of this length.
    if len == 0 { &[] } else { unsafe { std::slice::from_raw_parts(at.cast(), len) } }
}

fn string(text: &[u8]) -> CString {
    // As in C, a NUL ends the string.
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    let len = text.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
    CString::new(&text[..len]).expect("cut before the first zero")
}

/// Converts a string for C, without trailing blanks.
pub(crate) unsafe fn given(at: *const c_char, len: usize) -> CString {
    string(unsafe { bytes(at, len) })
}

/// Like [`given`], but leaves out leading blanks. The standard asks for this in keys and values of info objects (MPI 5.0 chapter 10), and
/// in the names and arguments of programs to start (section 11.8.2).
pub(crate) unsafe fn given_stripped(at: *const c_char, len: usize) -> CString {
    let text = unsafe { bytes(at, len) };
    let first = text.iter().position(|&byte| byte != b' ').unwrap_or(len);
    string(&text[first..])
}

/// Buffer for a string of C that is returned to Fortran.
pub(crate) struct TextBuffer([u8; BYTES_MAX]);

impl TextBuffer {
    pub(crate) fn new() -> Self {
        Self([0; BYTES_MAX])
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut c_char {
        self.0.as_mut_ptr().cast()
    }

    /// Copies as much of the string as fits to the program's variable, and fills the rest with blanks.
    pub(crate) unsafe fn give(&self, to: *mut c_char, len: usize) {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(BYTES_MAX).min(len);
        // SAFETY: the caller's promise: `to` has `len` bytes; `end` is at most `len`, and at most the length of `self.0`.
        unsafe {
            std::ptr::copy_nonoverlapping(self.0.as_ptr().cast(), to, end);
            std::ptr::write_bytes(to.add(end), b' ', len - end);
        }
    }
}

/// An array of strings for C, which a null pointer ends.
pub(crate) struct Several {
    pointers: Vec<*mut c_char>,
    /// Owns the strings of the pointers.
    _strings: Vec<CString>,
    is_none: bool,
}

impl Several {
    /// Converts `count` elements of an array of characters, `step` elements apart; without a count, all elements before the first blank
    /// one.
    pub(crate) unsafe fn new(at: *const c_char, len: usize, step: usize, count: Option<c_int>) -> Self {
        let is_none = sentinels::is_no_arguments(at);
        let mut strings = Vec::new();
        while !is_none && count.is_none_or(|count| strings.len() < count.max(0) as usize) {
            let text = unsafe { given_stripped(at.add(strings.len() * step * len), len) };
            if count.is_none() && text.is_empty() {
                break;
            }
            strings.push(text);
        }
        let pointers = strings.iter().map(|text| text.as_ptr().cast_mut());
        let pointers = pointers.chain(std::iter::once(std::ptr::null_mut())).collect();
        Self { pointers, _strings: strings, is_none }
    }

    /// `MPI_ARGV_NULL` is null in C.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut *mut c_char {
        if self.is_none { std::ptr::null_mut() } else { self.pointers.as_mut_ptr() }
    }
}

/// The arguments of several programs: row `i` of a table of characters belongs to program `i`; Fortran stores columns contiguously.
pub(crate) struct Table {
    rows: Vec<*mut *mut c_char>,
    _several: Vec<Several>,
    is_none: bool,
}

impl Table {
    pub(crate) unsafe fn new(at: *const c_char, len: usize, count: c_int) -> Self {
        let is_none = sentinels::is_no_arguments(at);
        let count = if is_none { 0 } else { count.max(0) as usize };
        let row = |number: usize| unsafe { Several::new(at.add(number * len), len, count, None) };
        let mut several: Vec<_> = (0..count).map(row).collect();
        Self { rows: several.iter_mut().map(Several::as_mut_ptr).collect(), _several: several, is_none }
    }

    /// `MPI_ARGVS_NULL` is null in C.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut *mut *mut c_char {
        if self.is_none { std::ptr::null_mut() } else { self.rows.as_mut_ptr() }
    }
}
