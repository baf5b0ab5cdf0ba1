//! A program cannot declare its process a copy: borrows would end before their operations.
#![forbid(unsafe_code)]

fn main() {
    am_core::buffer::mark_copied_process();
}
