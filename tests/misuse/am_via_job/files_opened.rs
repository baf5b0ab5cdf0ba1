//! Nothing checks what is written to the files of a job, and what a forked copy calls.
#![forbid(unsafe_code)]

use am_via_job::{Carrier, Job};

fn hook() {}

fn wrong(job: &Job) {
    let _ = job.control_file(1);
    let _ = job.heap_file(1);
    job.call_in_copies(hook);
}

fn main() {
    let _ = wrong;
}
