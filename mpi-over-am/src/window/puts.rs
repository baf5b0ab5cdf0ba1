//! Which puts of a window are in place.

use std::cell::{Cell, RefCell};

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

/// The puts of a window so far. One batch is enough for a thread that waits for all; where other threads go on to put, who waits closes
/// the batch, so that it does not wait for what comes later, nor takes that for what it waits for.
#[derive(Debug)]
pub(super) struct Puts {
    /// The batch of those that come.
    open: Cell<Batch>,
    /// Those that a thread has waited for, or still waits for.
    closed: RefCell<Vec<Batch>>,
}

impl Puts {
    pub(super) fn new(placed: Counter) -> Self {
        Self { open: Cell::new(Batch { placed, puts: 0 }), closed: RefCell::default() }
    }

    /// What the next put bumps.
    #[inline]
    pub(super) fn counter(&self) -> Counter {
        self.open.get().placed
    }

    /// A put was begun.
    #[inline]
    pub(super) fn add(&self) {
        let Batch { placed, puts } = self.open.get();
        self.open.set(Batch { placed, puts: puts + 1 });
    }

    /// Whether all are in place.
    pub(super) fn are_placed<F: Fabric, H: HandlerSet>(&self, context: &Context<F, H>) -> bool {
        self.open.get().is_placed(context)
            && self.closed.borrow().iter().all(|batch| batch.is_placed(context))
    }

    /// Those that are not in place, in batches that get no more.
    ///
    /// # Errors
    /// Too many counters.
    pub(super) fn close<F: Fabric, H: HandlerSet>(&self, context: &mut Context<F, H>) -> Result<Vec<Batch>> {
        let mut closed = self.closed.borrow_mut();
        closed.retain(|batch| {
            let is_placed = batch.is_placed(context);
            if is_placed {
                context.remove_counter(batch.placed);
            }
            !is_placed
        });
        let open = self.open.get();
        if !open.is_placed(context) {
            self.open.set(Batch { placed: context.counter()?, puts: 0 });
            closed.push(open);
        }
        Ok(closed.clone())
    }

    pub(super) fn remove<F: Fabric, H: HandlerSet>(&self, context: &mut Context<F, H>) {
        context.remove_counter(self.counter());
        self.closed.borrow().iter().for_each(|batch| context.remove_counter(batch.placed));
    }
}
