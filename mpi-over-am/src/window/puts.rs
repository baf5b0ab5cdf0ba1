//! Which puts of a window are in place.

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
    open: Batch,
    /// Those that a thread has waited for, or still waits for.
    closed: Vec<Batch>,
}

impl Puts {
    pub(super) fn new(placed: Counter) -> Self {
        Self { open: Batch { placed, puts: 0 }, closed: Vec::new() }
    }

    /// What the next put bumps.
    #[inline]
    pub(super) fn counter(&self) -> Counter {
        self.open.placed
    }

    /// A put was begun.
    #[inline]
    pub(super) fn add(&mut self) {
        self.open.puts += 1;
    }

    /// Whether no put was counted since the last flush. Those to mapped memory are in place at once, and are not counted.
    #[inline(always)]
    pub(super) fn are_none(&self) -> bool {
        self.open.puts == 0 && self.closed.is_empty()
    }

    /// Whether all are in place.
    #[inline]
    pub(super) fn are_placed<F: Fabric, H: HandlerSet>(&self, context: &Context<F, H>) -> bool {
        (self.open.puts == 0 || self.open.is_placed(context))
            && self.closed.iter().all(|batch| batch.is_placed(context))
    }

    /// Those that are not in place, in batches that get no more.
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
