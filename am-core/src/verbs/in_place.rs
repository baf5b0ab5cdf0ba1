//! Accesses in place: to elements of memory of all tasks that this context has mapped. They are a few checks and the access, and end in
//! their call. Where one declines, the general path carries the operation out, or says why it cannot.
//!
//! No function here calls another that is not inlined, around which the compiler would have to save the caller's values.

use bytemuck::Pod;

use crate::buffer::MappedPart;
use crate::context::Context;
use crate::fabric::Fabric;
use crate::handler::HandlerSet;
use crate::transfer::{AtomicOp, Width};

/// Number of accesses that return a value for each round of progress: see [`Context::is_round_due`]. A round takes as long as a hundred.
const ACCESSES_PER_ROUND: u32 = 1024;

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Stores an element, if the caller's marks allow calls; returns whether it is stored.
    #[inline(always)]
    pub(crate) fn store_mapped<T: Pod>(&mut self, is_unmarked: bool, part: &MappedPart<T>, value: T) -> bool {
        let is_stored = is_unmarked && self.engine.allows_all_targets() && self.mapped.store(part, value);
        if is_stored {
            self.engine.statistics.puts += 1;
        }
        is_stored
    }

    /// Loads an element, if the caller's marks allow calls.
    #[inline(always)]
    pub(crate) fn load_mapped<T: Pod>(&mut self, is_unmarked: bool, part: &MappedPart<T>) -> Option<T> {
        if is_unmarked && self.engine.allows_all_targets() { self.mapped.load(part) } else { None }
    }

    /// Operates on an element, if the caller's marks allow calls; returns the old value. The operation is made where it is carried out, so
    /// that the compiler knows it there.
    #[inline(always)]
    pub(crate) fn update_mapped<T: Pod>(
        &mut self,
        is_unmarked: bool,
        part: &MappedPart<T>,
        width: Width,
        operation: impl Fn() -> AtomicOp,
    ) -> Option<u64> {
        if is_unmarked && self.engine.allows_all_targets() {
            self.mapped.update(part, width, operation())
        } else {
            None
        }
    }

    /// Counts an access that returns a value; returns whether a round of progress is due ([`make_round`](Self::make_round)). Programs
    /// poll by such accesses: a lock taken by rmw, a flag that is read. The other task may need this task's progress.
    #[inline(always)]
    pub(crate) fn is_round_due(&mut self) -> bool {
        self.accesses_to_round = self.accesses_to_round.wrapping_sub(1);
        self.accesses_to_round == 0
    }

    /// Makes a round of progress if one is due, and the caller's marks allow calls.
    pub(crate) fn make_round(&mut self, is_unmarked: bool) {
        if self.accesses_to_round == 0 {
            self.accesses_to_round = ACCESSES_PER_ROUND;
            if is_unmarked {
                self.progress_in_passing();
            }
        }
    }
}
