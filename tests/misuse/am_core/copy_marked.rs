//! A program does not say that its process is a copy: borrows would end before their operations.
#![forbid(unsafe_code)]

fn main() {
    am_core::buffer::mark_copied_process();
}
