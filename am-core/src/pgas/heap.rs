//! Memory with the same layout in every task.

use std::sync::Arc;

use bytemuck::Pod;

use super::common::Common;
use super::segment::Segment;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::fabric::Fabric;
use crate::handler::HandlerSet;
use crate::task::{Endpoint, TaskId};

/// Each segment begins on its own cache line, so that two segments share none.
const ALIGN: u64 = 64;

/// An exposed region, of the same size in every task. Each task allocates from its own region. All tasks allocate in the same order, so
/// that an allocation has the same offset in every task, and no message is needed.
///
/// The memory is zero at first. Pages that were never touched cost nothing.
#[derive(Debug)]
pub struct SymmetricHeap {
    memory: Arc<Common>,
    free: FreeList,
    /// A digest of all calls on the heap so far, which must be equal in all tasks.
    digest: u64,
}

impl SymmetricHeap {
    /// Collective: a heap of at least `bytes` in every task.
    ///
    /// # Errors
    /// Too little memory in a task, or tasks that passed different sizes; no task gets a heap then. The failure of a task; a call inside a
    /// handler.
    pub fn new<F: Fabric, H: HandlerSet>(context: &mut Context<F, H>, bytes: u64) -> Result<Self> {
        let len = round_up(bytes).unwrap_or(u64::MAX);
        let memory = Common::new(context, len)?;
        memory.keep(context);
        Ok(Self { memory: Arc::new(memory), free: FreeList::new(len), digest: len })
    }

    /// Allocates `count` elements in every task. No message is sent, so every task must make the same calls in the same order
    /// ([`check_symmetry`](Self::check_symmetry) checks this). Memory that was used before keeps its contents.
    ///
    /// # Errors
    /// [`Error::Exhausted`]: the heap has no free piece of that size.
    pub fn alloc<T: Pod>(&mut self, count: u64) -> Result<Segment<T>> {
        let bytes = count.saturating_mul(size_of::<T>() as u64);
        let place = round_up(bytes).and_then(|len| self.free.take(len));
        self.note(bytes);
        let Some(offset) = place else {
            return Err(Error::Exhausted {
                resource: "bytes in one piece of the symmetric heap",
                needed: bytes,
                available: self.free.longest(),
                remedy: "make the heap larger, or free segments",
            });
        };
        Ok(Segment::within(Arc::clone(&self.memory), offset, count))
    }

    /// Frees a segment. Every task must free the same segments in the same order, after a fence: a global pointer into a freed segment
    /// refers to whatever is allocated there next.
    ///
    /// # Errors
    /// The segment, if it belongs to another heap.
    pub fn free<T: Pod>(&mut self, segment: Segment<T>) -> Result<(), Segment<T>> {
        if !Arc::ptr_eq(&self.memory, segment.memory()) {
            return Err(segment);
        }
        let (offset, bytes) = segment.place();
        self.note(offset ^ u64::MAX);
        if let Some(len) = round_up(bytes) {
            self.free.give_back(offset, len);
        }
        Ok(())
    }

    /// Collective: checks that all tasks have made the same calls on the heap in the same order.
    ///
    /// # Errors
    /// A task's calls differ from those of this task; the error names the first such task. Those of [`Context::exchange`].
    pub fn check_symmetry<F: Fabric, H: HandlerSet>(&self, context: &mut Context<F, H>) -> Result<()> {
        let all = context.exchange(&self.digest.to_le_bytes())?;
        match all.iter().zip(context.first_task().0..).find(|(digest, _)| **digest != self.digest.to_le_bytes()) {
            None => Ok(()),
            Some((_, task)) => Err(Error::Protocol {
                peer: Endpoint::new(TaskId(task), context.endpoint().context),
                what: "its calls on the symmetric heap differ from those of this task: all tasks must make the same calls in the same order".to_owned(),
            }),
        }
    }

    /// Collective: ends the heap after a fence of all tasks. `Ok(Err(heap))` if this task still holds segments of it.
    ///
    /// # Errors
    /// Those of [`Context::gfence`] and [`Context::unexpose`].
    pub fn close<F: Fabric, H: HandlerSet>(self, context: &mut Context<F, H>) -> Result<Result<(), Self>> {
        let Self { memory, free, digest } = self;
        match Arc::try_unwrap(memory) {
            Ok(memory) => memory.close(context).map(Ok),
            Err(memory) => {
                context.gfence()?;
                Ok(Err(Self { memory, free, digest }))
            }
        }
    }

    fn note(&mut self, what: u64) {
        self.digest = (self.digest.rotate_left(5) ^ what).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl<T: Pod> Segment<T> {
    /// Collective: a segment with a heap of its own.
    ///
    /// # Errors
    /// Those of [`SymmetricHeap::new`].
    pub fn new<F: Fabric, H: HandlerSet>(context: &mut Context<F, H>, count: u64) -> Result<Self> {
        SymmetricHeap::new(context, count.saturating_mul(size_of::<T>() as u64))?.alloc(count)
    }
}

/// Rounds up to a multiple of [`ALIGN`]; at least one line, so that segments begin at different offsets.
fn round_up(bytes: u64) -> Option<u64> {
    bytes.max(1).checked_next_multiple_of(ALIGN)
}

/// Free pieces by ascending offset; an allocation takes the first that is long enough. The same calls give the same results in every task.
#[derive(Debug)]
struct FreeList {
    pieces: Vec<(u64, u64)>,
}

impl FreeList {
    fn new(len: u64) -> Self {
        Self { pieces: vec![(0, len)] }
    }

    fn take(&mut self, len: u64) -> Option<u64> {
        let at = self.pieces.iter().position(|piece| piece.1 >= len)?;
        let (offset, free) = self.pieces[at];
        if free == len {
            self.pieces.remove(at);
        } else {
            self.pieces[at] = (offset + len, free - len);
        }
        Some(offset)
    }

    fn give_back(&mut self, offset: u64, len: u64) {
        let at = self.pieces.partition_point(|piece| piece.0 < offset);
        self.pieces.insert(at, (offset, len));
        // Merges the returned piece with the next piece, then with the previous one.
        for left in [at, at.wrapping_sub(1)] {
            if let (Some(&(start, len)), Some(&(next, next_len))) =
                (self.pieces.get(left), self.pieces.get(left.wrapping_add(1)))
                && start + len == next
            {
                self.pieces[left].1 += next_len;
                self.pieces.remove(left + 1);
            }
        }
    }

    fn longest(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.1).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_that_come_back_grow_together() {
        let mut list = FreeList::new(640);
        let places: Vec<u64> = (0..10).map(|_| list.take(64).unwrap()).collect();
        assert_eq!(places, (0..10).map(|at| at * 64).collect::<Vec<_>>());
        assert_eq!((list.take(64), list.longest()), (None, 0));
        for at in [3, 1, 2, 9] {
            list.give_back(at * 64, 64);
        }
        assert_eq!(list.pieces, [(64, 192), (576, 64)]);
        assert_eq!(list.take(128), Some(64));
        assert_eq!(list.longest(), 64);
        for at in [0, 1, 2, 4, 5, 6, 7, 8] {
            list.give_back(at * 64, 64);
        }
        assert_eq!(list.pieces, [(0, 640)]);
    }

    #[test]
    fn an_empty_segment_takes_a_line_and_too_much_is_no_number() {
        assert_eq!(round_up(0), Some(64));
        assert_eq!(round_up(65), Some(128));
        assert_eq!(round_up(u64::MAX - 3), None);
    }
}
