//! Tasks, and the contexts that a task has opened.

pub use am_contract::task::{ContextNumber, Endpoint, TaskId};

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
