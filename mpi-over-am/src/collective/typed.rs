//! Blocking collectives of slices.

use std::any::TypeId;
use std::ops::Range;

use am_core::fabric::Fabric;

use super::prepared::Position;
use super::{Datum, Neighbours, Parts, slices};
use crate::buffer::Equivalence;
use crate::communicator::Communicator;
use crate::error::{Error, Result};
use crate::op::Operation;
use crate::policy::LockPolicy;
use mpi_datatype::{Datatype, Predefined};

/// The MPI type of `T`. For a Rust type without an MPI type, a type of the same size.
pub(crate) fn element_type<T: 'static>() -> Result<Datatype> {
    let is = |other: TypeId| TypeId::of::<T>() == other;
    Ok(match size_of::<T>() {
        1 if is(TypeId::of::<i8>()) => Predefined::Int8.into(),
        2 if is(TypeId::of::<i16>()) => Predefined::Int16.into(),
        4 if is(TypeId::of::<i32>()) => Predefined::Int32.into(),
        4 if is(TypeId::of::<f32>()) => Predefined::Float.into(),
        8 if is(TypeId::of::<i64>()) => Predefined::Int64.into(),
        8 if is(TypeId::of::<f64>()) => Predefined::Double.into(),
        1 => Predefined::Uint8.into(),
        2 => Predefined::Uint16.into(),
        4 => Predefined::Uint32.into(),
        8 => Predefined::Uint64.into(),
        16 => Predefined::Integer16.into(),
        size => Datatype::contiguous(size as u64, &Predefined::Byte.into())?,
    })
}

/// The lengths and positions of the parts of a slice, one part for each rank or neighbour.
#[derive(Clone, Copy, Debug)]
pub struct Placement<'a> {
    /// Number of elements of each part.
    pub counts: &'a [usize],
    /// Index of the first element of each part.
    pub displacements: &'a [usize],
}

impl Placement<'_> {
    /// The parts of a slice of `len` elements.
    ///
    /// # Errors
    /// [`Error::Count`]: a part is not inside the slice, or the numbers of displacements and counts differ. [`Error::TooLarge`]: the end of
    /// a part overflows.
    pub(super) fn of<D>(
        &self,
        call: &'static str,
        len: usize,
        mut part: impl FnMut(Range<usize>) -> Result<D>,
    ) -> Result<Parts<D>> {
        if self.counts.len() != self.displacements.len() {
            let (given, expected) = (self.displacements.len(), self.counts.len());
            return Err(Error::Count { call, given, expected });
        }
        let parts = self.counts.iter().zip(self.displacements).map(|(&count, &first)| {
            let end = first.checked_add(count).ok_or(Error::TooLarge { call })?;
            if end > len {
                return Err(Error::Count { call, given: len, expected: end });
            }
            part(first..end)
        });
        Ok(Parts::Listed(parts.collect::<Result<_>>()?))
    }
}

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Waits until all tasks of the communicator have called `barrier` (`MPI_Barrier`).
    ///
    /// # Errors
    /// The death of a task; an error while making progress.
    pub fn barrier(&self) -> Result<()> {
        slices::barrier().run(self)
    }

    /// Copies the elements of rank `root`'s `buffer` to the `buffer` of every other task (`MPI_Bcast`). All buffers must have the same
    /// length.
    ///
    /// # Errors
    /// An unknown root, buffers of different lengths, the death of a task.
    pub fn broadcast<T: Equivalence>(&self, buffer: &mut [T], root: u32) -> Result<()> {
        slices::broadcast(buffer, root).run(self)
    }

    /// Collects the elements of every task's `send` in rank `root`'s `recv`, in the order of the ranks (`MPI_Gather`). All parts must have
    /// the same length; the other tasks' `recv` is unused.
    ///
    /// # Errors
    /// An unknown root, buffers that do not match, the death of a task.
    pub fn gather<T: Equivalence>(&self, send: &[T], recv: &mut [T], root: u32) -> Result<()> {
        slices::gather(send, recv, root).run(self)
    }

    /// Like [`gather`](Self::gather), into a new vector, which rank `root` gets; the other ranks get `None`.
    ///
    /// ```
    /// # let environment = mpi_over_am::Environment::init()?;
    /// # let world = environment.world();
    /// if let Some(ranks) = world.gather_vec(&[world.rank()], 0)? {
    ///     assert_eq!(ranks, Vec::from_iter(0..world.size()));
    /// }
    /// # environment.finalize()
    /// # ; Ok::<(), mpi_over_am::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`gather`](Self::gather).
    pub fn gather_vec<T: Equivalence + Default>(&self, send: &[T], root: u32) -> Result<Option<Vec<T>>> {
        let mut all = Vec::new();
        let is_root = self.rank() == root;
        if is_root {
            all.resize_with(send.len() * self.size() as usize, T::default);
        }
        self.gather(send, &mut all, root)?;
        Ok(is_root.then_some(all))
    }

    /// Like [`gather`](Self::gather), with parts of any length and position (`MPI_Gatherv`). Only the root's `placement` is used.
    ///
    /// # Errors
    /// Those of [`gather`](Self::gather).
    pub fn gatherv<T: Equivalence>(
        &self,
        send: &[T],
        (recv, placement): (&mut [T], Placement<'_>),
        root: u32,
    ) -> Result<()> {
        slices::gatherv(send, (recv, placement), root).run(self)
    }

    /// Sends each task its part of rank `root`'s `send` (`MPI_Scatter`). All parts must have the same length; the other tasks' `send` is
    /// unused.
    ///
    /// # Errors
    /// Those of [`gather`](Self::gather).
    pub fn scatter<T: Equivalence>(&self, send: &[T], recv: &mut [T], root: u32) -> Result<()> {
        slices::scatter(send, recv, root).run(self)
    }

    /// Like [`scatter`](Self::scatter), with parts of any length and position (`MPI_Scatterv`). Only the root's `placement` is used.
    ///
    /// # Errors
    /// Those of [`gather`](Self::gather).
    pub fn scatterv<T: Equivalence>(
        &self,
        (send, placement): (&[T], Placement<'_>),
        recv: &mut [T],
        root: u32,
    ) -> Result<()> {
        slices::scatterv((send, placement), recv, root).run(self)
    }

    /// Collects the elements of every task's `send` in every task's `recv` (`MPI_Allgather`). All parts must have the same length.
    ///
    /// # Errors
    /// Buffers that do not match, the death of a task.
    pub fn allgather<T: Equivalence>(&self, send: &[T], recv: &mut [T]) -> Result<()> {
        slices::allgather(send, recv).run(self)
    }

    /// Like [`allgather`](Self::allgather), with one buffer for data and result: this task's part must already be at its position
    /// (`MPI_IN_PLACE`).
    ///
    /// # Errors
    /// Those of [`allgather`](Self::allgather).
    pub fn allgather_in_place<T: Equivalence>(&self, buffer: &mut [T]) -> Result<()> {
        slices::allgather_in_place(buffer).run(self)
    }

    /// Like [`allgather`](Self::allgather), with parts of any length and position (`MPI_Allgatherv`).
    ///
    /// # Errors
    /// Those of [`allgather`](Self::allgather).
    pub fn allgatherv<T: Equivalence>(
        &self,
        send: &[T],
        (recv, placement): (&mut [T], Placement<'_>),
    ) -> Result<()> {
        slices::allgatherv(send, (recv, placement)).run(self)
    }

    /// Sends the `r`th part of `send` to rank `r`, and receives the `r`th part of `recv` from that rank (`MPI_Alltoall`). All parts must
    /// have the same length.
    ///
    /// # Errors
    /// Buffers that do not match, the death of a task.
    pub fn alltoall<T: Equivalence>(&self, send: &[T], recv: &mut [T]) -> Result<()> {
        slices::alltoall(send, recv).run(self)
    }

    /// Like [`alltoall`](Self::alltoall), with one buffer for data and result (`MPI_IN_PLACE`).
    ///
    /// # Errors
    /// Those of [`alltoall`](Self::alltoall).
    pub fn alltoall_in_place<T: Equivalence>(&self, buffer: &mut [T]) -> Result<()> {
        slices::alltoall_in_place(buffer).run(self)
    }

    /// Like [`alltoall`](Self::alltoall), with parts of any length and position (`MPI_Alltoallv`).
    ///
    /// # Errors
    /// Those of [`alltoall`](Self::alltoall).
    pub fn alltoallv<T: Equivalence>(
        &self,
        (send, from): (&[T], Placement<'_>),
        (recv, to): (&mut [T], Placement<'_>),
    ) -> Result<()> {
        slices::alltoallv((send, from), (recv, to)).run(self)
    }

    /// Combines the elements of all tasks' `send`, index by index, into rank `root`'s `recv` (`MPI_Reduce`). All buffers must have the same
    /// length; the other tasks' `recv` is unused.
    ///
    /// # Errors
    /// An unknown root, buffers that do not match, the death of a task.
    pub fn reduce<T: Datum>(
        &self,
        send: &[T],
        recv: &mut [T],
        op: impl Operation<T>,
        root: u32,
    ) -> Result<()> {
        slices::reduce(send, recv, op, root).run(self)
    }

    /// Like [`reduce`](Self::reduce), with one buffer for data and result at the root (`MPI_IN_PLACE`); the buffers of other tasks are
    /// unchanged.
    ///
    /// # Errors
    /// Those of [`reduce`](Self::reduce).
    pub fn reduce_in_place<T: Datum>(
        &self,
        buffer: &mut [T],
        op: impl Operation<T>,
        root: u32,
    ) -> Result<()> {
        slices::reduce_in_place(buffer, op, root).run(self)
    }

    /// Combines the elements of all tasks' `send`, index by index, into every task's `recv` (`MPI_Allreduce`). All buffers must have the
    /// same length.
    ///
    /// # Errors
    /// Buffers of different lengths, the death of a task.
    pub fn allreduce<T: Datum>(&self, send: &[T], recv: &mut [T], op: impl Operation<T>) -> Result<()> {
        slices::allreduce(send, recv, op).run(self)
    }

    /// Like [`allreduce`](Self::allreduce), with one buffer for data and result (`MPI_IN_PLACE`).
    ///
    /// # Errors
    /// Those of [`allreduce`](Self::allreduce).
    pub fn allreduce_in_place<T: Datum>(&self, buffer: &mut [T], op: impl Operation<T>) -> Result<()> {
        slices::allreduce_in_place(buffer, op).run(self)
    }

    /// Combines the elements of all tasks' `send`, and stores one block of the result in each task's `recv` (`MPI_Reduce_scatter_block`).
    /// All blocks must have the same length.
    ///
    /// # Errors
    /// Those of [`allreduce`](Self::allreduce).
    pub fn reduce_scatter_block<T: Datum>(
        &self,
        send: &[T],
        recv: &mut [T],
        op: impl Operation<T>,
    ) -> Result<()> {
        slices::reduce_scatter_block(send, recv, op).run(self)
    }

    /// Like [`reduce_scatter_block`](Self::reduce_scatter_block), with `counts[r]` elements for rank `r` (`MPI_Reduce_scatter`).
    ///
    /// # Errors
    /// Those of [`allreduce`](Self::allreduce).
    pub fn reduce_scatter<T: Datum>(
        &self,
        send: &[T],
        recv: &mut [T],
        counts: &[usize],
        op: impl Operation<T>,
    ) -> Result<()> {
        slices::reduce_scatter(send, recv, counts, op).run(self)
    }

    /// Combines the elements of `send` of this rank and all lower ranks into `recv` (`MPI_Scan`). All buffers must have the same length.
    ///
    /// # Errors
    /// Those of [`allreduce`](Self::allreduce).
    pub fn scan<T: Datum>(&self, send: &[T], recv: &mut [T], op: impl Operation<T>) -> Result<()> {
        slices::scan(send, recv, op).run(self)
    }

    /// Like [`scan`](Self::scan), with one buffer for data and result (`MPI_IN_PLACE`).
    ///
    /// # Errors
    /// Those of [`allreduce`](Self::allreduce).
    pub fn scan_in_place<T: Datum>(&self, buffer: &mut [T], op: impl Operation<T>) -> Result<()> {
        slices::scan_in_place(buffer, op).run(self)
    }

    /// Combines the elements of `send` of all lower ranks into `recv`, which is unchanged at rank 0 (`MPI_Exscan`).
    ///
    /// # Errors
    /// Those of [`allreduce`](Self::allreduce).
    pub fn exscan<T: Datum>(&self, send: &[T], recv: &mut [T], op: impl Operation<T>) -> Result<()> {
        slices::exscan(send, recv, op).run(self)
    }

    /// Sends `send` to each neighbour, and receives a block of the same length from each (`MPI_Neighbor_allgather`).
    ///
    /// # Errors
    /// An unknown rank, buffers that do not match, the death of a task.
    pub fn neighbor_allgather<T: Equivalence>(
        &self,
        send: &[T],
        recv: &mut [T],
        neighbours: &Neighbours,
    ) -> Result<()> {
        slices::neighbor_allgather(send, recv, neighbours).run(self)
    }

    /// Sends a block to each neighbour, and receives one from each (`MPI_Neighbor_alltoall`). All blocks must have the same length.
    ///
    /// # Errors
    /// Those of [`neighbor_allgather`](Self::neighbor_allgather).
    pub fn neighbor_alltoall<T: Equivalence>(
        &self,
        send: &[T],
        recv: &mut [T],
        neighbours: &Neighbours,
    ) -> Result<()> {
        slices::neighbor_alltoall(send, recv, neighbours).run(self)
    }

    /// This task's position, for the arguments of collectives.
    #[inline]
    pub(crate) fn place(&self) -> Position {
        let remote = if self.is_inter() { self.remote_size().ok() } else { None };
        Position { rank: self.rank(), size: self.size(), remote }
    }
}
