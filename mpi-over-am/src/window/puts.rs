//! Tracks which of this task's puts to a window are complete.

use am_core::Context;
use am_core::counter::Counter;
use am_core::fabric::Fabric;
use am_core::handler::HandlerSet;

use crate::error::Result;

/// Puts that are counted together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    /// Bumped for each put when its bytes are stored.
    placed: Counter,
    puts: u64,
}

impl Batch {
    /// Whether all puts of the batch are stored. If its counter no longer exists, they are.
    pub(crate) fn is_placed<F: Fabric, H: HandlerSet>(&self, context: &Context<F, H>) -> bool {
        context.counter_value(self.placed).map_or(true, |placed| placed >= self.puts)
    }
}

/// The unfinished puts to a window. One batch is enough for a thread that waits for all of them. If other threads may continue to put, the
/// waiting thread closes the batch, so that it does not also wait for later puts.
#[derive(Debug)]
pub(super) struct Puts {
    /// The batch for new puts.
    open: Batch,
    /// Batches that a thread has waited for, or is waiting for.
    closed: Vec<Batch>,
}

impl Puts {
    pub(super) fn new(placed: Counter) -> Self {
        Self { open: Batch { placed, puts: 0 }, closed: Vec::new() }
    }

    /// The counter for the next put.
    #[inline]
    pub(super) fn counter(&self) -> Counter {
        self.open.placed
    }

    /// Counts a started put.
    #[inline]
    pub(super) fn add(&mut self) {
        self.open.puts += 1;
    }

    /// Whether all puts are stored.
    #[inline]
    pub(super) fn are_placed<F: Fabric, H: HandlerSet>(&self, context: &Context<F, H>) -> bool {
        (self.open.puts == 0 || self.open.is_placed(context))
            && self.closed.iter().all(|batch| batch.is_placed(context))
    }

    /// Closes the open batch unless its puts are stored, and returns the closed batches whose puts are not all stored.
    ///
    /// # Errors
    /// Too many counters.
    pub(super) fn close<F: Fabric, H: HandlerSet>(
        &mut self,
        context: &mut Context<F, H>,
    ) -> Result<Vec<Batch>> {
        self.closed.retain(|batch| {
            let is_placed = batch.is_placed(context);
            if is_placed {
                context.remove_counter(batch.placed);
            }
            !is_placed
        });
        if !self.open.is_placed(context) {
            let next = Batch { placed: context.counter()?, puts: 0 };
            self.closed.push(std::mem::replace(&mut self.open, next));
        }
        Ok(self.closed.clone())
    }

    pub(super) fn remove<F: Fabric, H: HandlerSet>(&self, context: &mut Context<F, H>) {
        context.remove_counter(self.counter());
        self.closed.iter().for_each(|batch| context.remove_counter(batch.placed));
    }
}
