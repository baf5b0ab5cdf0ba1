//! Worlds: tasks that were started together. The job begins with one, and tasks start others. A world has consecutive task numbers, and its
//! numbers go to another world when its tasks have ended and no other task holds anything of them.

use std::time::Duration;

use am_via_os::atomics::Ordering;
use am_via_shm::layout_job::{STATE_DEAD, STATE_FINALIZED, TASKS_MAX, TaskEntry};

use super::{Cause, Job, JobError, JobOwner};

/// The environment variable in which tasks that a task has started find what it told them.
pub const PARENT_VARIABLE: &str = "AM_PARENT";

/// How often a task that waits for a debugger looks whether it may go on.
const HELD_LOOK: Duration = Duration::from_millis(5);

impl Job {
    /// The first task of this task's world; the others follow it.
    #[inline]
    #[must_use]
    pub fn first_task(&self) -> u32 {
        self.first
    }

    /// The numbers of all tasks that there are or were are lower than this.
    #[inline]
    #[must_use]
    pub fn tasks_end(&self) -> u32 {
        // Acquire: pairs with the Release in `JobOwner::make_tasks`.
        self.header.tasks_end.load(Ordering::Acquire).min(TASKS_MAX)
    }

    /// The tasks that the job has now, in all worlds.
    pub fn tasks(&self) -> impl Iterator<Item = u32> + '_ {
        self.table.tasks()
    }

    /// A number that changes when a task gets a number or loses it.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        // Acquire: pairs with the Release in `JobOwner`: the entries are written.
        self.header.epoch.load(Ordering::Acquire)
    }

    /// Number of tasks that the job began with.
    #[must_use]
    pub fn began_with(&self) -> u32 {
        self.header.num_tasks.load(Ordering::Relaxed)
    }

    /// A number that differs between this task's world and all others of the job; 0 for the tasks that the job began with.
    #[must_use]
    pub fn world(&self) -> u32 {
        self.own_entry().world.load(Ordering::Relaxed)
    }

    /// The number of a task's world, which tells tasks apart that have had the same number; `None` if the job has no such task now.
    pub(super) fn world_of(&self, task: u32) -> Option<u32> {
        // Acquire: pairs with the Release in `JobOwner::make_tasks`: the entry is written.
        let entry = self.table.get(task).filter(|entry| entry.world_size.load(Ordering::Acquire) != 0);
        entry.map(|entry| entry.world.load(Ordering::Relaxed))
    }

    /// The index of this task's program among those that were started together.
    #[must_use]
    pub fn program(&self) -> u32 {
        self.own_entry().program.load(Ordering::Relaxed)
    }

    /// Number of tasks that the program may plan for, as the launcher estimates it; 0 if it does not.
    #[must_use]
    pub fn universe(&self) -> u32 {
        self.header.universe.load(Ordering::Relaxed)
    }

    /// What the task that has started this one told its world; `None` for a task that the job began with.
    #[must_use]
    pub fn parent(&self) -> Option<String> {
        if self.world() == 0 { None } else { std::env::var(PARENT_VARIABLE).ok() }
    }

    /// Like [`is_crowded`](Self::is_crowded), for the tasks that the job has now.
    #[must_use]
    pub fn is_crowded_now(&self) -> bool {
        self.header.is_crowded_now.load(Ordering::Relaxed) != 0 || self.world() == 0 && self.is_crowded()
    }

    /// Waits as long as tasks are held for a debugger.
    pub(crate) fn wait_while_held(&self) {
        while self.header.holds_tasks.load(Ordering::Relaxed) != 0 {
            std::thread::sleep(HELD_LOOK);
        }
    }

    /// Number of VI slots in each control file.
    #[must_use]
    pub fn vis(&self) -> u32 {
        self.header.vis.load(Ordering::Relaxed)
    }

    /// Notes that this task holds something of another, whose number no other task gets meanwhile. Returns whether the job has such a task.
    #[must_use]
    pub fn hold(&self, task: u32) -> bool {
        task < self.began_with() || self.table.get(task).is_some_and(|entry| entry.hold(self.task))
    }

    /// Notes that both tasks hold something of each other: this task is about to make a connection. Returns whether the job has both tasks.
    #[must_use]
    pub fn hold_both(&self, task: u32) -> bool {
        self.hold(task) && self.later(self.task).is_none_or(|entry| entry.hold(task))
    }

    /// Notes that this task no longer holds anything of another.
    pub fn let_go(&self, task: u32) {
        if let Some(entry) = self.later(task) {
            entry.let_go(self.task);
        }
    }

    /// The tasks that have ended of which this task may hold something. Costs a look at each task that tasks have started.
    #[must_use]
    pub fn held_and_ended(&self) -> Vec<u32> {
        let held = self.table.in_use().filter(|&(task, entry)| {
            task >= self.began_with() && task != self.task && entry.is_held_by(self.task)
        });
        let ended =
            |entry: &TaskEntry| matches!(entry.state.load(Ordering::Acquire), STATE_FINALIZED | STATE_DEAD);
        held.filter(|&(task, entry)| ended(entry) && self.has_ended(task)).map(|(task, _)| task).collect()
    }

    /// Says whether this task shares communicators, or other things, with tasks of other worlds, which its failure then concerns.
    pub fn set_connected(&self, is_connected: bool) {
        self.own_entry().is_connected.store(u32::from(is_connected), Ordering::Release);
    }

    /// Whether a failure of `task` concerns this task: both are of one world, or the world of `task` shares something with others.
    #[must_use]
    pub fn is_concerned(&self, task: u32) -> bool {
        self.table.is_connected(task) || self.world_of(task) == Some(self.world())
    }

    /// A task that a task has started. Those that the job began with keep their numbers.
    fn later(&self, task: u32) -> Option<&TaskEntry> {
        self.table.get(task).filter(|_| task >= self.began_with())
    }
}

impl JobOwner {
    /// Makes the files of `programs.len()` programs' tasks, as many as each number says, which the caller starts next. Returns the first.
    /// The caller has [freed](Self::free) what could be freed.
    ///
    /// # Errors
    /// [`JobError::NoRoom`]: the job cannot have so many tasks. [`JobError::System`]: the files of a task could not be made.
    pub fn make_world(&self, programs: &[u32]) -> Result<u32, JobError> {
        let count: u32 = programs.iter().fold(0, |sum, &tasks| sum.saturating_add(tasks));
        let first = self.room_for(count).ok_or(JobError::NoRoom { asked: count, max: TASKS_MAX })?;
        // Relaxed: only this process counts worlds.
        let world = self.worlds.fetch_add(1, Ordering::Relaxed) + 1;
        let of_tasks = (0..).zip(programs).flat_map(|(program, &tasks)| (0..tasks).map(move |_| program));
        for (task, program) in (first..).zip(of_tasks) {
            let Some(entry) = self.table.get(task) else { continue };
            entry.world.store(world, Ordering::Relaxed);
            entry.program.store(program, Ordering::Relaxed);
            entry.is_connected.store(1, Ordering::Relaxed);
            entry.hold_by_none();
            entry.set_cpus(&am_via_os::sched::allowed_cpus());
        }
        self.make_tasks(first, count)
            .inspect_err(|_| (first..first + count).for_each(|task| self.free(task)))?;
        self.mark_crowded();
        Ok(first)
    }

    /// The first of `count` consecutive numbers that no task has.
    fn room_for(&self, count: u32) -> Option<u32> {
        let mut first = self.num_tasks();
        for task in self.num_tasks()..TASKS_MAX {
            if self.world_size(task) != 0 {
                first = task + 1;
            } else if task + 1 - first >= count.max(1) {
                return Some(first);
            }
        }
        None
    }

    /// Lets tasks wait where they join the job, or go on.
    pub fn hold_tasks(&self, hold: bool) {
        self.header.holds_tasks.store(hold.into(), Ordering::Relaxed);
    }

    /// Sets the number of tasks that the program may plan for.
    pub fn set_universe(&self, tasks: u32) {
        self.header.universe.store(tasks, Ordering::Relaxed);
    }

    /// The number of tasks that were started together with `task`; 0 if there is no such task.
    #[must_use]
    pub fn world_size(&self, task: u32) -> u32 {
        self.table.get(task).map_or(0, |entry| entry.world_size.load(Ordering::Acquire))
    }

    /// The first task of those that were started together with `task`.
    #[must_use]
    pub fn first_of_world(&self, task: u32) -> u32 {
        self.table.get(task).map_or(0, |entry| entry.world_first.load(Ordering::Relaxed))
    }

    /// The tasks that the job has now, in all worlds.
    pub fn tasks(&self) -> impl Iterator<Item = u32> + Clone + '_ {
        self.table.tasks()
    }

    /// The numbers of all tasks that there are or were are lower than this.
    #[must_use]
    pub fn tasks_end(&self) -> u32 {
        self.header.tasks_end.load(Ordering::Acquire).min(TASKS_MAX)
    }

    /// Records that a task has ended whose end concerns its own world only, and rings all doorbells. That is no failure of the job. The
    /// cause that the task has recorded itself is kept.
    pub fn mark_ended_alone(&self, task: u32, cause: Cause) {
        let Some(entry) = self.table.get(task) else { return };
        if entry.cause().is_none() {
            let (kind, value) = cause.encode();
            entry.set_cause(kind, value);
        }
        self.header.set_failed(task);
        // Release: "state set", as in `mark_dead`.
        entry.state.store(STATE_DEAD, Ordering::Release);
        self.ring_all();
    }

    /// Whether a failure of `task` concerns tasks of other worlds: a task of its world shares something with them.
    #[must_use]
    pub fn is_connected(&self, task: u32) -> bool {
        self.table.is_connected(task)
    }

    /// Gives up the number of a task that has ended, and its files, unless another task that has not ended holds something of it.
    /// `has_ended` says which tasks have ended. Returns whether the number was given up.
    pub fn free_unless_held(&self, task: u32, has_ended: impl Fn(u32) -> bool) -> bool {
        let Some(entry) = self.table.get(task).filter(|_| task >= self.num_tasks()) else { return false };
        let counts = |holder| holder != task && self.world_size(holder) != 0 && !has_ended(holder);
        let is_free = entry.give_up(counts);
        if is_free {
            self.free(task);
        }
        is_free
    }

    /// Gives up the number of a task that no other task knows, and its files.
    pub fn free(&self, task: u32) {
        let Some(entry) = self.table.get(task).filter(|_| task >= self.num_tasks()) else { return };
        self.files().remove(&task);
        entry.forget();
        for other in self.table.tasks().filter(|&other| other >= self.num_tasks()) {
            self.table.get(other).inspect(|entry| entry.let_go(task));
        }
        self.header.forget_failure(task);
        self.header.epoch.fetch_add(1, Ordering::Release);
    }
}
