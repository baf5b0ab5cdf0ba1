//! Only devices can use the memory files of a job, since nothing checks what is written there. A hook for forked copies is unsafe.
#![forbid(unsafe_code)]

fn wrong(job: &am_via::job::Job) {
    let _ = job.control_file(1);
    let _ = job.heap_file(1);
    let _ = job.files(1);
    job.call_in_copies(am_core::buffer::mark_copied_process);
}

fn main() {
    let _ = wrong;
}
