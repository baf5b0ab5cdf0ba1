//! Progress, and the completion of what goes to other hosts.

use std::sync::atomic::{Ordering, fence};

use crate::world::{self, fail_by, world};

/// Completes what goes to other hosts.
pub(crate) fn complete(call: &str) {
    if world::has_far()
        && let Err(error) = world(call).shared.with(|context| context.fence_data(None))
    {
        fail_by(call, &error);
    }
}

/// Makes progress: of messages of other hosts, and so that a program that tests in a loop notices the end of the job.
pub(crate) fn progress(call: &str) {
    let world = world(call);
    if world::has_far() {
        if let Err(error) = world.shared.msgpoll(1) {
            fail_by(call, &error);
        }
    } else if world.job.is_crowded() {
        std::thread::yield_now();
    }
    if world.exit_word(world.me).is_some_and(|word| word.load(Ordering::Relaxed) != 0) {
        world::leave(0);
    }
}

/// Everything that this PE stored is visible to all, and everything that it sent has arrived.
pub(crate) fn quiet(call: &str) {
    fence(Ordering::SeqCst);
    complete(call);
}
