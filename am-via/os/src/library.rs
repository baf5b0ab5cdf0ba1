//! Libraries that are opened at run time, so that neither the build nor a program that does not use them needs them.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;

/// An open library. It is never closed.
#[derive(Clone, Copy, Debug)]
pub struct Library(NonNull<c_void>);

impl Library {
    /// Opens the library `name`, which the loader searches like a linked one.
    ///
    /// # Errors
    /// The loader's message.
    ///
    /// # Safety
    /// It must be sound to run the library's initialisers now.
    pub unsafe fn open(name: &CStr) -> Result<Self, String> {
        // SAFETY: the name is a C string; the caller allows the initialisers.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        NonNull::new(handle).map(Self).ok_or_else(loader_says)
    }

    /// The function `name` of the library.
    ///
    /// # Errors
    /// The loader's message.
    ///
    /// # Safety
    /// `F` must be a function pointer of the type that the library declares for this name.
    pub unsafe fn symbol<F: Copy>(self, name: &CStr) -> Result<F, String> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: the handle came from dlopen and is never closed; the name is a C string.
        let found = unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) };
        if found.is_null() {
            return Err(loader_says());
        }
        // SAFETY: `F` has the size of a pointer (asserted above), and the caller promises that the symbol is a function of this type.
        Ok(unsafe { std::mem::transmute_copy(&found) })
    }
}

fn loader_says() -> String {
    // SAFETY: dlerror takes no argument, and returns a C string of this thread, or null.
    let words = unsafe { libc::dlerror() };
    // SAFETY: `words` is a C string or null (above), and is read at once.
    unsafe { text(words) }.unwrap_or_else(|| "no reason given".to_owned())
}

/// A copy of a library's C string. `None` if the pointer is null.
///
/// # Safety
/// `words` must be null, or a C string that stays unchanged while this function reads it.
#[must_use]
pub unsafe fn text(words: *const c_char) -> Option<String> {
    if words.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_and_what_is_missing_is_named() {
        // SAFETY: the C library is part of this process.
        let library = unsafe { Library::open(c"libc.so.6") }.expect("the C library is open already");
        // SAFETY: the type that <unistd.h> declares.
        let getpid: unsafe extern "C" fn() -> i32 =
            unsafe { library.symbol(c"getpid") }.expect("libc has it");
        // SAFETY: no condition.
        assert_eq!(u32::try_from(unsafe { getpid() }), Ok(std::process::id()));
        // SAFETY: nothing of this name is called.
        let missing = unsafe { library.symbol::<usize>(c"am_no_such_function") };
        assert!(missing.is_err_and(|why| why.contains("am_no_such_function")));
        // SAFETY: there is no such library.
        let missing = unsafe { Library::open(c"libam_no_such_library.so") };
        assert!(missing.is_err_and(|why| why.contains("libam_no_such_library.so")));
    }
}
