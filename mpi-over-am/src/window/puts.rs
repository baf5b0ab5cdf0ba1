//! Which puts of a window are in place.

use std::cell::RefCell;

use am_core::Context;
use am_core::counter::Counter;
use am_core::fabric::Fabric;
use am_core::handler::HandlerSet;

use crate::error::Result;

/// Puts that are counted together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    /// Bumped when the bytes of a put are in place.
    placed: Counter,
    puts: u64,
}

impl Batch {
    /// Whether all are in place. A counter that is gone was that of a batch that was.
    pub(crate) fn is_placed<F: Fabric, H: HandlerSet>(&self, context: &Context<F, H>) -> bool {
        context.counter_value(self.placed).map_or(true, |placed| placed >= self.puts)
    }
}

/// The puts of a window so far. The last batch takes those that come. One is enough for a thread that waits for all; where other threads
/// go on to put, who waits closes the batch, so that it does not wait for what comes later nor takes that for what it waits for.
#[derive(Debug)]
pub(super) struct Puts {
    batches: RefCell<Vec<Batch>>,
}

impl Puts {
    pub(super) fn new(placed: Counter) -> Self {
        Self { batches: RefCell::new(vec![Batch { placed, puts: 0 }]) }
    }

    /// What the next put bumps.
    pub(super) fn counter(&self) -> Counter {
        self.batches.borrow().last().expect("there is always one that is open").placed
    }

    /// A put was begun.
    pub(super) fn add(&self) {
        self.batches.borrow_mut().last_mut().expect("there is always one that is open").puts += 1;
    }

    /// Whether all are in place.
    pub(super) fn are_placed<F: Fabric, H: HandlerSet>(&self, context: &Context<F, H>) -> bool {
        self.batches.borrow().iter().all(|batch| batch.is_placed(context))
    }

    /// Those that are not in place, in batches that get no more.
    ///
    /// # Errors
    /// Too many counters.
    pub(super) fn close<F: Fabric, H: HandlerSet>(&self, context: &mut Context<F, H>) -> Result<Vec<Batch>> {
        let mut batches = self.batches.borrow_mut();
        let open = batches.pop().expect("there is always one that is open");
        let (over, left) = batches.drain(..).partition::<Vec<_>, _>(|batch| batch.is_placed(context));
        *batches = left;
        over.into_iter().for_each(|batch| context.remove_counter(batch.placed));
        if open.is_placed(context) {
            let closed = batches.clone();
            batches.push(open);
            return Ok(closed);
        }
        batches.push(open);
        let placed = context.counter()?;
        let closed = batches.clone();
        batches.push(Batch { placed, puts: 0 });
        Ok(closed)
    }

    pub(super) fn remove<F: Fabric, H: HandlerSet>(&self, context: &mut Context<F, H>) {
        self.batches.borrow().iter().for_each(|batch| context.remove_counter(batch.placed));
    }
}
