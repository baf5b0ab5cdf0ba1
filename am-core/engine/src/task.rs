//! Tasks, and the contexts that a task has opened.

use core::fmt;

/// A task of the job: one process, numbered from 0 (LAPI's task id).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// The name of a context in the job: the address of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The task.
    pub task: TaskId,
    /// The context inside the task.
    pub context: ContextNumber,
}

impl Endpoint {
    /// Context `context` of `task`.
    #[inline(always)]
    #[must_use]
    pub fn new(task: TaskId, context: ContextNumber) -> Self {
        Self { task, context }
    }
}

/// The target of a message: a context by its name, or a task. A bare task means its context with the sender's context number: all tasks
/// must open their contexts in the same order.
pub trait Target: Copy {
    /// The context that a sender in context `own` means.
    fn seen_from(self, own: ContextNumber) -> Endpoint;
}

impl Target for Endpoint {
    #[inline(always)]
    fn seen_from(self, _own: ContextNumber) -> Endpoint {
        self
    }
}

impl Target for TaskId {
    #[inline(always)]
    fn seen_from(self, own: ContextNumber) -> Endpoint {
        Endpoint::new(self, own)
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
