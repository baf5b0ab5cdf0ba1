//! The number of a descriptor does not give the right to use it (I/O safety).
#![forbid(unsafe_code)]

fn main() {
    let _ = am_via_os::memory::inherited(3);
    am_via_os::memory::close_on_exec(3);
}
