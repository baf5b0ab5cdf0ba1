//! Cleans up after an earlier user of this task's files: a program that the present program has replaced (`exec`), or this process before
//! it rejoined its job. Peers may still hold addresses of the earlier user's memory, and may be copying from or to it.

use std::os::fd::AsFd;
use std::sync::Arc;

use crate::device::DeviceError;
use am_via_job::{Carrier, Job};
use am_via_os::sched;
use am_via_shm::layout::{CONTEXTS_MAX, ControlLayout, HAZARD_OFFSET, Hazard};
use am_via_shm::regions;
use am_via_shm::{Mapping, Shared};

use super::files::within;

/// Closes every open registration of this task, and waits until no peer copies through any of them. Then only this task uses its memory.
/// Must be called while none of the task's contexts is open.
///
/// # Errors
/// A control file cannot be mapped.
pub(super) fn close(job: &Job) -> Result<(), DeviceError> {
    let own = job.task();
    // No copy by this task is under way: an earlier process that began one is gone, and cannot clear its hazard lines.
    hazards(job, own)?.iter().for_each(|hazard| regions::clear(hazard));
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
        for hazard in hazards(job, task)? {
            // As in `deregister`: a copy whose end is never reported has ended when its process is known to have ended.
            while regions::names_memory_of(&hazard, own) && !job.has_ended(task) {
                sched::yield_now();
            }
        }
    }
    Ok(())
}

/// The hazard lines of a task's contexts.
fn hazards(job: &Job, task: u32) -> Result<Vec<Shared<Hazard>>, DeviceError> {
    // SAFETY: only hazard lines of this task change; those of others are looked at.
    let file = unsafe { job.control_file(task) }
        .map_err(|error| DeviceError::system("opening a control file", error))?;
    let bytes = CONTEXTS_MAX as usize * size_of::<Hazard>();
    let lines: Arc<Mapping> = Mapping::new(file.as_fd(), HAZARD_OFFSET as u64, bytes)
        .map_err(|error| DeviceError::system("mapping a control file", error))?;
    (0..CONTEXTS_MAX as usize).map(|at| within(lines.atomics(at * size_of::<Hazard>()), task)).collect()
}
