//! A fork replaces what is noted, and calls what is installed.
#![forbid(unsafe_code)]

use std::ptr::NonNull;

use am_via_os::fork::{self, Keeps};

fn hook() {}

fn main() {
    let bytes: &'static mut [u8] = vec![1; 4096].leak();
    let at = NonNull::from(&mut *bytes).cast();
    fork::install(hook);
    fork::note(at, bytes.len(), Keeps::Nothing);
    fork::forget(at);
}
