//! The names that most programs need: `use am_core::prelude::*;`.

pub use crate::pgas::{GlobalPointer, Segment, Session, SymmetricHeap, join_all};
pub use crate::{
    Access, AmOptions, Amsend, Answer, AtomicOp, Completion, Context, Counter, CounterName, Endpoint,
    Exposed, Function, Get, GetOptions, HandlerId, JobBuffer, Local, Message, Put, PutOptions, RemoteAddress,
    Reply, SharedContext, TaskId, Width,
};
