//! Strings that cross the C interface.

use std::ffi::{CStr, c_char, c_int};

use crate::failure::{Outcome, not_null};

/// Characters that stand for the bytes of a program's string that are not UTF-8 (file names may have any bytes): `BYTES + byte`. They are
/// at the end of the last plane for private use. Where a program uses one itself, each of its bytes is kept like this.
const BYTES: u32 = 0x0010_ff00;

/// The text of a program's bytes, from which [`bytes_of`] makes the same bytes.
fn text_of(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let keep = |text: &mut String, bytes: &[u8]| {
        text.extend(bytes.iter().filter_map(|&byte| char::from_u32(BYTES + u32::from(byte))));
    };
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if u32::from(character) < BYTES {
                text.push(character);
            } else {
                keep(&mut text, character.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        keep(&mut text, chunk.invalid());
    }
    text
}

/// The bytes of a text, for a program.
pub(crate) fn bytes_of(text: &str) -> Vec<u8> {
    bytes_up_to(text, usize::MAX)
}

/// The bytes of those characters that fit into `max` bytes.
fn bytes_up_to(text: &str, max: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len().min(max));
    for character in text.chars() {
        let mut encoded = [0; 4];
        let next = match u8::try_from(u32::from(character).wrapping_sub(BYTES)) {
            Ok(byte) => {
                encoded[0] = byte;
                &encoded[..1]
            }
            Err(_) => character.encode_utf8(&mut encoded).as_bytes(),
        };
        if bytes.len() + next.len() > max {
            break;
        }
        bytes.extend_from_slice(next);
    }
    bytes
}

/// Stores as much of a string as fits into a program's buffer of `max` bytes, with a terminating NUL, and in `len` the number of bytes
/// without the NUL.
///
/// # Safety
/// `to` must have `max` writable bytes, at least one; `len` must be null or writable.
pub(crate) unsafe fn give_string(text: &str, to: *mut c_char, max: usize, len: *mut c_int) {
    let bytes = bytes_up_to(text, max - 1);
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

/// A program's string. [`give_string`] gives the same bytes back.
///
/// # Errors
/// `at` is null.
///
/// # Safety
/// `at` must be null, or a NUL-terminated string that does not change during the call.
pub(crate) unsafe fn string_at(at: *const c_char) -> Outcome<String> {
    let at = not_null(at.cast_mut())?;
    // SAFETY: `at` is not null, so the caller promises that it is a NUL-terminated string.
    Ok(text_of(unsafe { CStr::from_ptr(at) }.to_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_come_back_and_utf8_is_not_cut() {
        let all: Vec<u8> = (1..=255).collect();
        for bytes in [b"plain", &all[..], "été".as_bytes(), b"\xe9t\xe9", b"x\xf4\x8f\xbc\xa9\xf4\x8f", b""]
        {
            assert_eq!(bytes_of(&text_of(bytes)), bytes);
        }
        assert_eq!(text_of("été".as_bytes()), "été");
        assert_eq!(bytes_up_to("été", 4), "ét".as_bytes());
        assert_eq!(bytes_up_to(&text_of(b"\xe9t\xe9"), 2), b"\xe9t");
    }
}
