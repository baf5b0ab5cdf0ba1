//! Which puts to a window are in place.

use am_core::Context;
use am_core::counter::Counter;
use am_core::fabric::Fabric;
use am_core::handler::HandlerSet;

use crate::error::Result;

/// Puts that are counted together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    /// Incremented when the bytes of a put are in place.
    placed: Counter,
    puts: u64,
}

impl Batch {
    /// Whether all of them are in place. A counter that no longer exists belonged to a batch that was complete.
    pub(crate) fn is_placed<F: Fabric, H: HandlerSet>(&self, context: &Context<F, H>) -> bool {
        context.counter_value(self.placed).map_or(true, |placed| placed >= self.puts)
    }
}

/// The unfinished puts to a window. One batch is enough for a thread that waits for all of them; where other threads may go on to put, the
/// waiting thread closes the batch, so that puts started later neither make it wait longer nor count as those it waits for.
#[derive(Debug)]
pub(super) struct Puts {
    /// The batch for new puts.
    open: Batch,
    /// Batches that a thread has waited for, or still waits for.
    closed: Vec<Batch>,
}

impl Puts {
    pub(super) fn new(placed: Counter) -> Self {
        Self { open: Batch { placed, puts: 0 }, closed: Vec::new() }
    }

    /// The counter that the next put is to increment.
    #[inline]
    pub(super) fn counter(&self) -> Counter {
        self.open.placed
    }

    /// Counts a put that was started.
    #[inline]
    pub(super) fn add(&mut self) {
        self.open.puts += 1;
    }

    /// Whether no put was counted since the last flush. Puts to mapped memory are in place at once, and are not counted.
    #[inline(always)]
    pub(super) fn are_none(&self) -> bool {
        self.open.puts == 0 && self.closed.is_empty()
    }

    /// Whether all puts are in place.
    #[inline]
    pub(super) fn are_placed<F: Fabric, H: HandlerSet>(&self, context: &Context<F, H>) -> bool {
        (self.open.puts == 0 || self.open.is_placed(context))
            && self.closed.iter().all(|batch| batch.is_placed(context))
    }

    /// Closes the open batch, and returns the batches that are not complete.
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
