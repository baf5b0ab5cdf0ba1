//! A program cannot declare its process a copy: borrows would end before the operations that use them.
#![forbid(unsafe_code)]

fn main() {
    am_core::buffer::mark_copied_process();
}
