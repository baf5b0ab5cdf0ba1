//! Helpers that the checks share.

use std::sync::{Arc, Mutex, PoisonError};

use am_core::context::Context;
use am_core::counter::Counter;
use am_core::fabric::Fabric;
use am_core::handler::{Answer, HandlerId, Message};
use am_core::task::{Endpoint, TaskId};

/// Bytes that depend on the task and on their offset.
pub(super) fn pattern(task: u32, len: usize) -> Vec<u8> {
    crate::pattern(task.into(), len)
}

/// Fills memory that must stay unchanged.
pub(super) const UNTOUCHED: u8 = 0xEE;

/// Whether these bytes are unchanged since they were filled with [`UNTOUCHED`].
pub(super) fn untouched(bytes: &[u8]) -> bool {
    bytes == vec![UNTOUCHED; bytes.len()]
}

/// The message of [`panic_as_wanted`].
pub(super) const WANTED: &str = "as the check wants it";

/// A panic that a check wants, without the message and the back trace that `panic!` prints: the suite panics hundreds of times, and with
/// `RUST_BACKTRACE` each back trace takes as long as a short check.
pub(super) fn panic_as_wanted() -> ! {
    std::panic::resume_unwind(Box::new(WANTED))
}

/// The next task of the ring; in a job of one task, the task itself.
pub(super) fn next<F: Fabric>(context: &Context<F>) -> Endpoint {
    at_distance(context, 1)
}

/// The previous task of the ring.
pub(super) fn previous<F: Fabric>(context: &Context<F>) -> Endpoint {
    at_distance(context, context.num_tasks() - 1)
}

fn at_distance<F: Fabric>(context: &Context<F>, distance: u32) -> Endpoint {
    let task = TaskId((context.task().0 + distance) % context.num_tasks());
    Endpoint::new(task, context.endpoint().context)
}

/// Every task of the job.
pub(super) fn everyone<F: Fabric>(context: &Context<F>) -> impl Iterator<Item = Endpoint> + use<F> {
    let number = context.endpoint().context;
    (0..context.num_tasks()).map(move |task| Endpoint::new(TaskId(task), number))
}

/// Lengths around the limits at which the protocol changes: entries, packets, pieces.
pub(super) fn lengths<F: Fabric>(context: &Context<F>) -> Vec<usize> {
    let packet = context.limits().packet_bytes_max;
    let mut lengths = vec![0, 1, 7, 8, 19, 20, 21, 27, 28, 31, 32, 33, 39, 40, 41, 64, 1000];
    for border in [packet, 2 * packet] {
        lengths.extend(border.saturating_sub(34)..border.saturating_sub(6));
        lengths.extend([border - 1, border, border + 1]);
    }
    lengths.extend([64 << 10, (256 << 10) + 3, 1 << 20]);
    lengths
}

/// A value shared by handlers and the check.
#[derive(Debug)]
pub(super) struct Shared<T>(Arc<Mutex<T>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Default> Shared<T> {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(T::default())))
    }

    pub(super) fn with<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn take(&self) -> T {
        self.with(std::mem::take)
    }
}

/// Makes progress until `done` holds.
pub(super) fn until<F: Fabric>(context: &mut Context<F>, done: &mut dyn FnMut() -> bool) {
    context.wait_until(|_| Ok(done())).expect("progress");
}

/// Registers a header handler in every task, with a barrier before its first use.
pub(super) fn register<F: Fabric>(
    context: &mut Context<F>,
    handler: impl FnMut(&Message<'_>) -> Answer + Send + 'static,
) -> HandlerId {
    let id = context.register_handler(handler).expect("register");
    context.gfence().expect("gfence");
    id
}

/// Like [`register`], but returns the barrier's error: a handler may already have panicked here, for a message of a faster task.
pub(super) fn register_panicking<F: Fabric>(
    context: &mut Context<F>,
    handler: impl FnMut(&Message<'_>) -> Answer + Send + 'static,
) -> (HandlerId, Option<am_core::error::Error>) {
    let id = context.register_handler(handler).expect("register");
    (id, context.gfence().err())
}

/// A new counter in every task, with a barrier before its first use.
pub(super) fn new_counter<F: Fabric>(context: &mut Context<F>) -> Counter {
    let counter = context.counter().expect("counter");
    context.gfence().expect("gfence");
    counter
}
