//! What most programs name: `use am_core::prelude::*;`.

pub use crate::pgas::{GlobalPointer, Segment, Session, SymmetricHeap, join_all};
pub use crate::{
    Access, AmOptions, Answer, AtomicOp, Completion, Context, Counter, CounterName, Endpoint, Exposed,
    Function, GetOptions, HandlerId, JobBuffer, Local, Message, PutOptions, RemoteAddress, Reply,
    SharedContext, TaskId, Width,
};
