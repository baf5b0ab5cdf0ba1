//! Tasks, and the contexts that a task has opened.

use core::fmt;

use serde::{Deserialize, Serialize};

/// A task of the job: one process, numbered from 0 (LAPI's task id).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId(pub u32);

impl TaskId {
    /// The number as an index into per-task tables.
    #[inline(always)]
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}", self.0)
    }
}

/// One of the contexts of a task (LAPI's `instance_no`), numbered from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContextNumber(pub u8);

impl fmt::Display for ContextNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The name of a context in the job: the address of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The task.
    pub task: TaskId,
    /// The context inside the task.
    pub context: ContextNumber,
}

/// An endpoint that a job cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchEndpoint {
    /// A task number outside the job.
    #[error("{endpoint} does not exist: the job has tasks 0 to {last}; use a number in that range", last = num_tasks - 1)]
    Task {
        /// The endpoint that was named.
        endpoint: Endpoint,
        /// Number of tasks in the job.
        num_tasks: u32,
    },
    /// A context number that no task can have.
    #[error("{endpoint} does not exist: a task has contexts 0 to {last}; use a number in that range", last = contexts_max - 1)]
    Context {
        /// The endpoint that was named.
        endpoint: Endpoint,
        /// Maximum number of contexts of a task.
        contexts_max: u8,
    },
}

impl NoSuchEndpoint {
    /// A job of `num_tasks` tasks has no task `task`.
    #[must_use]
    pub fn task(task: u32, num_tasks: u32) -> Self {
        Self::Task { endpoint: Endpoint::new(TaskId(task), ContextNumber(0)), num_tasks }
    }
}

impl Endpoint {
    /// Context `context` of `task`.
    #[inline(always)]
    #[must_use]
    pub fn new(task: TaskId, context: ContextNumber) -> Self {
        Self { task, context }
    }

    /// Checks that a job of `num_tasks` tasks with at most `contexts_max` contexts each can have this endpoint. Every endpoint that a
    /// program or a peer names is checked here, since positions in shared memory are computed from the task and the context. The context
    /// need not be open.
    ///
    /// # Errors
    /// [`NoSuchEndpoint`], which says whether the task or the context does not exist.
    #[inline]
    pub fn check(self, num_tasks: u32, contexts_max: u8) -> Result<(), NoSuchEndpoint> {
        if self.task.0 >= num_tasks {
            return Err(NoSuchEndpoint::Task { endpoint: self, num_tasks });
        }
        if self.context.0 >= contexts_max {
            return Err(NoSuchEndpoint::Context { endpoint: self, contexts_max });
        }
        Ok(())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.context.0 == 0 {
            write!(f, "{}", self.task)
        } else {
            write!(f, "{} context {}", self.task, self.context.0)
        }
    }
}
