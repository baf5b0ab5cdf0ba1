//! The hazard lines of the tasks, which say what memory each context copies from or to at this moment. A task looks at them before it gives
//! up memory that peers may be copying. A look holds no task's number: a task that ends meanwhile has no line any more.

use std::collections::BTreeMap;
use std::os::fd::AsFd;

use am_via_shm::layout::{CONTEXTS_MAX, HAZARD_OFFSET, Hazard};
use am_via_shm::{Mapping, Shared};

use super::{Job, JobError};

/// The hazard lines of all tasks of a job, mapped when they are first looked at.
#[derive(Debug, Default)]
pub struct HazardLines {
    /// The number of each task's world, which tells tasks apart that have had the same number, and the lines of its contexts.
    of_tasks: BTreeMap<u32, (u32, Vec<Shared<Hazard>>)>,
    /// The [epoch](Job::epoch) of `of_tasks`.
    epoch: Option<u32>,
}

impl HazardLines {
    /// The lines of all contexts of the tasks that the job has now, with their tasks.
    ///
    /// # Errors
    /// The control file of a task that the job still has cannot be opened or mapped.
    pub fn of_all(&mut self, job: &Job) -> Result<impl Iterator<Item = (u32, &Shared<Hazard>)>, JobError> {
        let epoch = job.epoch();
        if self.epoch != Some(epoch) {
            self.look_again(job)?;
            self.epoch = Some(epoch);
        }
        let of_tasks = self.of_tasks.iter();
        Ok(of_tasks.flat_map(|(&task, (_, lines))| lines.iter().map(move |line| (task, line))))
    }

    fn look_again(&mut self, job: &Job) -> Result<(), JobError> {
        self.of_tasks.retain(|&task, (world, _)| job.world_of(task) == Some(*world));
        for task in job.tasks() {
            let Some(world) = job.world_of(task).filter(|_| !self.of_tasks.contains_key(&task)) else {
                continue;
            };
            match job.hazard_lines(task) {
                Ok(lines) => _ = self.of_tasks.insert(task, (world, lines)),
                // The launcher may have given up the task's number since this task has looked at the table.
                Err(error) if job.world_of(task) == Some(world) => return Err(error),
                Err(_) => {}
            }
        }
        Ok(())
    }
}

impl Job {
    /// The hazard lines of a task's contexts.
    ///
    /// # Errors
    /// The task's control file cannot be opened or mapped.
    pub fn hazard_lines(&self, task: u32) -> Result<Vec<Shared<Hazard>>, JobError> {
        let file = self.control(task)?;
        let bytes = CONTEXTS_MAX as usize * size_of::<Hazard>();
        let lines = Mapping::new(file.as_fd(), HAZARD_OFFSET as u64, bytes)
            .map_err(JobError::system("mapping the hazard lines of a task"))?;
        let damaged = JobError::Damaged { what: "a control file is shorter than its hazard lines" };
        let line = |at| lines.atomics(at * size_of::<Hazard>());
        (0..CONTEXTS_MAX as usize).map(line).collect::<Option<_>>().ok_or(damaged)
    }
}
