//! The reduction whose result everybody gets.
//!
//! Short vectors: recursive doubling. In each round a task exchanges all it has with a partner and combines, and after log n
//! rounds everybody has everything. Ranks are combined in their order, which also suits operations that do not commute.
//!
//! Long vectors: a ring (reduce-scatter, then allgather; Patarasuk, Yuan 2009). Each task sends each element about twice,
//! however many tasks there are. The order of the ranks is rotated, so the operation must commute.
//!
//! Both combine in an order that does not depend on who arrives when, and everybody ends with the same bits.

use std::ops::Range;

use am_core::fabric::Fabric;
use smallvec::{SmallVec, smallvec};

use super::{Datum, Kind};
use crate::communicator::Communicator;
use crate::error::{Error, Result};
use crate::op::Operation;

/// Up to this many bytes are doubled.
const DOUBLING_BYTES_MAX: usize = 16 << 10;

/// Room beside the caller's; a few elements need no allocation.
type Scratch<T> = SmallVec<[T; 16]>;

impl<F: Fabric> Communicator<F> {
    /// Combines every task's `send`, element by element, into everybody's `recv` (`MPI_Allreduce`). All are equally long.
    ///
    /// # Errors
    /// Buffers of different lengths, the death of a task.
    pub fn allreduce<T: Datum>(&self, send: &[T], recv: &mut [T], op: impl Operation<T>) -> Result<()> {
        if send.len() != recv.len() {
            let (given, expected) = (recv.len(), send.len());
            return Err(Error::Count { call: "allreduce: the receive buffer", given, expected });
        }
        recv.copy_from_slice(send);
        self.allreduce_in_place(recv, op)
    }

    /// As [`allreduce`](Self::allreduce), with one buffer for both (`MPI_IN_PLACE`).
    ///
    /// # Errors
    /// As for [`allreduce`](Self::allreduce).
    pub fn allreduce_in_place<T: Datum>(&self, buffer: &mut [T], op: impl Operation<T>) -> Result<()> {
        if self.size() == 1 {
            return Ok(());
        }
        let is_long = size_of_val(buffer) > DOUBLING_BYTES_MAX && buffer.len() >= self.size() as usize;
        if is_long && op.is_commutative() {
            self.allreduce_by_ring(buffer, &op)
        } else {
            self.allreduce_by_doubling(buffer, &op)
        }
    }

    /// The ranks beyond a power of two are folded in first: of each of the first pairs, the even rank gives its vector to the
    /// odd one, and gets the result at the end.
    fn allreduce_by_doubling<T: Datum>(&self, buffer: &mut [T], op: &impl Operation<T>) -> Result<()> {
        let (rank, size) = (self.rank(), self.size());
        let in_rounds = 1 << size.ilog2();
        let folded = size - in_rounds;
        if rank < 2 * folded && rank % 2 == 0 {
            self.part_out(Kind::Allreduce, buffer, rank + 1)?;
            return self.part_in(Kind::Allreduce, buffer, rank + 1);
        }
        let mut other: Scratch<T> = smallvec![T::zeroed(); buffer.len()];
        if rank < 2 * folded {
            self.part_in(Kind::Allreduce, &mut other, rank - 1)?;
            op.combine(&other, buffer);
        }
        let number = if rank < 2 * folded { rank / 2 } else { rank - folded };
        let mut distance = 1;
        while distance < in_rounds {
            let partner = number ^ distance;
            let partner_rank = if partner < folded { 2 * partner + 1 } else { partner + folded };
            self.parts_across(Kind::Allreduce, (buffer, partner_rank), (&mut other, partner_rank))?;
            if partner < number {
                op.combine(&other, buffer);
            } else {
                op.combine(buffer, &mut other);
                buffer.copy_from_slice(&other);
            }
            distance *= 2;
        }
        if rank < 2 * folded { self.part_out(Kind::Allreduce, buffer, rank - 1) } else { Ok(()) }
    }

    fn allreduce_by_ring<T: Datum>(&self, buffer: &mut [T], op: &impl Operation<T>) -> Result<()> {
        let (rank, size) = (self.rank() as usize, self.size() as usize);
        let ring = Ring { len: buffer.len(), size };
        let (right, left) = ((self.rank() + 1) % self.size(), (self.rank() + self.size() - 1) % self.size());
        let mut other: Scratch<T> = smallvec![T::zeroed(); ring.longest()];
        // Each chunk goes once around and is combined with every task's part; it ends left of where it began.
        for step in 0..size - 1 {
            let out = ring.chunk(rank + size - step);
            let into = ring.chunk(rank + size - step - 1);
            let other = &mut other[..into.len()];
            self.parts_across(Kind::Allreduce, (&buffer[out], right), (other, left))?;
            op.combine(other, &mut buffer[into]);
        }
        // Then once around again, as it is.
        for step in 0..size - 1 {
            let out = ring.chunk(rank + 1 + size - step);
            let into = ring.chunk(rank + size - step);
            let (out, into) = two_chunks(buffer, out, into);
            self.parts_across(Kind::Allreduce, (out, right), (into, left))?;
        }
        Ok(())
    }
}

/// Two chunks that do not overlap: one to read, one to write.
fn two_chunks<T>(buffer: &mut [T], read: Range<usize>, write: Range<usize>) -> (&[T], &mut [T]) {
    if read.start < write.start {
        let (front, back) = buffer.split_at_mut(write.start);
        (&front[read], &mut back[..write.len()])
    } else {
        let (front, back) = buffer.split_at_mut(write.end);
        (&back[read.start - write.end..read.end - write.end], &mut front[write])
    }
}

/// A vector in as many chunks as there are tasks.
#[derive(Clone, Copy, Debug)]
struct Ring {
    len: usize,
    size: usize,
}

impl Ring {
    /// The elements of a chunk, by its number around the ring.
    fn chunk(self, number: usize) -> Range<usize> {
        let (number, part, rest) = (number % self.size, self.len / self.size, self.len % self.size);
        // The first chunks have one element more, until none is left over.
        let start = number * part + number.min(rest);
        start..start + part + usize::from(number < rest)
    }

    fn longest(self) -> usize {
        self.len.div_ceil(self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_the_vector_in_order() {
        for size in 1..10 {
            for len in [0, 1, size, size + 1, 100] {
                let ring = Ring { len, size };
                let mut next = 0;
                for number in 0..size {
                    let chunk = ring.chunk(number);
                    assert_eq!(chunk.start, next);
                    assert!(chunk.len() <= ring.longest());
                    next = chunk.end;
                }
                assert_eq!(next, len);
                assert_eq!(ring.chunk(size), ring.chunk(0));
            }
        }
    }
}
