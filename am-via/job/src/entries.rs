//! The job file, mapped: its header, and the entries of its tasks.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;

use am_via_os::atomics::Ordering;
use am_via_shm::layout_job::{JobHeader, TASKS_MAX, TaskEntry};
use am_via_shm::{Mapping, Shared};

use super::JobError;

/// The entries of a job file. Every task can write them, so nothing in them is to be trusted.
#[derive(Debug)]
pub(super) struct Entries {
    mapping: Arc<Mapping>,
    header: Shared<JobHeader>,
}

impl Entries {
    /// Maps a job file.
    ///
    /// # Errors
    /// The file cannot be mapped, or is shorter than a job file.
    pub(super) fn of(file: &File) -> Result<(Shared<JobHeader>, Self), JobError> {
        let mapping = Mapping::whole(file.as_fd()).map_err(JobError::system("mapping the job file"))?;
        mapping.keep_in_copies();
        let damaged = || JobError::Damaged { what: "it is shorter than its table of tasks" };
        let header: Shared<JobHeader> = mapping.atomics(0).ok_or_else(damaged)?;
        let table = Self { mapping, header: header.clone() };
        table.get(TASKS_MAX - 1).ok_or_else(damaged)?;
        Ok((header, table))
    }

    /// The entry of a number that a task can have, whether or not there is such a task now.
    pub(super) fn get(&self, task: u32) -> Option<&TaskEntry> {
        if task < TASKS_MAX { self.mapping.atomics_at(JobHeader::entry_offset(task)) } else { None }
    }

    /// The tasks that the job has now, with their entries.
    pub(super) fn in_use(&self) -> impl Iterator<Item = (u32, &TaskEntry)> + Clone {
        // Acquire: pairs with the Release in `JobOwner::make_world`: the entries are written.
        let end = self.header.tasks_end.load(Ordering::Acquire).min(TASKS_MAX);
        let entries = (0..end).filter_map(|task| Some((task, self.get(task)?)));
        entries.filter(|(_, entry)| entry.world_size.load(Ordering::Acquire) != 0)
    }

    /// Whether a failure of `task` concerns tasks of other worlds: its world is the one that the job began with, or a task of its world
    /// shares something with others.
    pub(super) fn is_connected(&self, task: u32) -> bool {
        let Some(entry) = self.get(task).filter(|_| task >= self.header.num_tasks.load(Ordering::Relaxed))
        else {
            return true;
        };
        let first = entry.world_first.load(Ordering::Relaxed);
        // Acquire: pairs with the Release in `JobOwner::make_world`: the entries are written.
        let mut world = first..first.saturating_add(entry.world_size.load(Ordering::Acquire)).min(TASKS_MAX);
        let is_connected = |entry: &TaskEntry| entry.is_connected.load(Ordering::Acquire) != 0;
        world.any(|task| self.get(task).is_some_and(is_connected))
    }

    /// The tasks that the job has now.
    pub(super) fn tasks(&self) -> impl Iterator<Item = u32> + Clone + '_ {
        self.in_use().map(|(task, _)| task)
    }
}
