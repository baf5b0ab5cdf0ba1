//! Collectives of slices in which each part has its own position: the neighbourhood collectives whose names end in v, and all collectives
//! whose names end in w. In the latter, each part also has its own type.

use am_core::fabric::Fabric;
use bytemuck::{AnyBitPattern, NoUninit};

use super::{Neighbours, Placement, slices};
use crate::buffer::Equivalence;
use crate::communicator::Communicator;
use crate::error::Result;
use crate::policy::LockPolicy;
use mpi_datatype::Datatype;

/// One part of a slice: elements of a datatype, from a displacement on.
#[derive(Clone, Copy, Debug)]
pub struct LayoutPart<'a> {
    /// Bytes from the start of the slice.
    pub displacement_bytes: usize,
    /// The number of elements.
    pub count: u64,
    /// The type of the elements.
    pub datatype: &'a Datatype,
}

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Sends the `r`th part of `send` to rank `r`, and receives the `r`th part of `recv` from it, each with its own type (`MPI_Alltoallw`).
    /// The parts of `recv` must not overlap.
    ///
    /// # Errors
    /// Parts outside the slices; a number of parts other than the number of ranks; lengths that do not match; the death of a task.
    pub fn alltoallw<T: NoUninit, U: AnyBitPattern>(
        &self,
        (send, from): (&[T], &[LayoutPart<'_>]),
        (recv, to): (&mut [U], &[LayoutPart<'_>]),
    ) -> Result<()> {
        slices::alltoallw((send, from), (recv, to)).run(self)
    }

    /// Like [`neighbor_allgather`](Self::neighbor_allgather), with parts of any length and position (`MPI_Neighbor_allgatherv`).
    ///
    /// # Errors
    /// Those of [`neighbor_allgather`](Self::neighbor_allgather).
    pub fn neighbor_allgatherv<T: Equivalence>(
        &self,
        send: &[T],
        (recv, placement): (&mut [T], Placement<'_>),
        neighbours: &Neighbours,
    ) -> Result<()> {
        slices::neighbor_allgatherv(send, (recv, placement), neighbours).run(self)
    }

    /// Like [`neighbor_alltoall`](Self::neighbor_alltoall), with parts of any length and position (`MPI_Neighbor_alltoallv`).
    ///
    /// # Errors
    /// Those of [`neighbor_allgather`](Self::neighbor_allgather).
    pub fn neighbor_alltoallv<T: Equivalence>(
        &self,
        (send, from): (&[T], Placement<'_>),
        (recv, to): (&mut [T], Placement<'_>),
        neighbours: &Neighbours,
    ) -> Result<()> {
        slices::neighbor_alltoallv((send, from), (recv, to), neighbours).run(self)
    }

    /// Like [`neighbor_alltoallv`](Self::neighbor_alltoallv), with a type for each part (`MPI_Neighbor_alltoallw`).
    ///
    /// # Errors
    /// Those of [`alltoallw`](Self::alltoallw).
    pub fn neighbor_alltoallw<T: NoUninit, U: AnyBitPattern>(
        &self,
        (send, from): (&[T], &[LayoutPart<'_>]),
        (recv, to): (&mut [U], &[LayoutPart<'_>]),
        neighbours: &Neighbours,
    ) -> Result<()> {
        slices::neighbor_alltoallw((send, from), (recv, to), neighbours).run(self)
    }
}
