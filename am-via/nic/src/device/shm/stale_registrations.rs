//! Cleans up after an earlier user of this task's files: a program that the present program has replaced (`exec`), or this process before
//! it rejoined its job. Peers may still hold addresses of the earlier user's memory, and may be copying from or to it.

use std::os::fd::AsFd;

use crate::device::DeviceError;
use am_via_job::{Carrier, Job};
use am_via_os::sched;
use am_via_shm::Mapping;
use am_via_shm::layout::ControlLayout;
use am_via_shm::regions;

/// Closes every open registration of this task, and waits until no peer copies through any of them. Then only this task uses its memory.
/// Must be called while none of the task's contexts is open.
///
/// # Errors
/// A control file cannot be mapped.
pub(super) fn close(job: &Job) -> Result<(), DeviceError> {
    let own = job.task();
    // No copy by this task is under way: an earlier process that began one is gone, and cannot clear its hazard lines.
    let hazards = |task| {
        let found = job.hazard_lines(task);
        found.map_err(|error| DeviceError::system("looking at what tasks are copying", error))
    };
    hazards(own)?.iter().for_each(|hazard| regions::clear(hazard));
    // SAFETY: only region entries and hazard lines of this task change.
    let file = unsafe { job.control_file(own) }
        .map_err(|error| DeviceError::system("opening a control file", error))?;
    let head = Mapping::new(file.as_fd(), 0, ControlLayout::regions_end())
        .map_err(|error| DeviceError::system("mapping a control file", error))?;
    if !regions::close_all(&head) {
        return Ok(());
    }
    job.barrier().before_look();
    for task in job.tasks().filter(|&task| task != own) {
        for hazard in hazards(task)? {
            // As in `deregister`: a copy whose end is never reported has ended when its process is known to have ended.
            while regions::names_memory_of(&hazard, own) && !job.has_ended(task) {
                sched::yield_now();
            }
        }
    }
    Ok(())
}
