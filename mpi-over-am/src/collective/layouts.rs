//! The collectives whose parts have places and types of their own, for slices: those with w in their names, and those of neighbours
//! with v.

use am_core::fabric::Fabric;
use bytemuck::{AnyBitPattern, NoUninit};

use super::typed::{elements, placed_elements, placed_room};
use super::{Collective, Datum, Neighbours, Parts, Placement};
use crate::buffer::{RecvData, SendData, layout_room_to_keep, layout_to_keep};
use crate::communicator::Communicator;
use crate::datatype::Datatype;
use crate::error::Result;

/// One part of a slice: elements that a datatype picks, counted from a byte of it.
#[derive(Clone, Copy, Debug)]
pub struct LayoutPart<'a> {
    /// Bytes from the beginning of the slice.
    pub displacement_bytes: usize,
    /// How many elements.
    pub count: u64,
    /// Of what type.
    pub datatype: &'a Datatype,
}

impl<F: Fabric> Communicator<F> {
    /// Sends the `r`th part of `send` to rank `r`, and receives its part for this task at the `r`th of `recv`, each with a type of
    /// its own (`MPI_Alltoallw`). The parts of `recv` do not overlap.
    ///
    /// # Errors
    /// Parts outside of the slices, or as many as there are no ranks; lengths that do not fit, the death of a task.
    pub fn alltoallw<T: NoUninit, U: AnyBitPattern>(
        &self,
        (send, from): (&[T], &[LayoutPart<'_>]),
        (recv, to): (&mut [U], &[LayoutPart<'_>]),
    ) -> Result<()> {
        let (send, recv) = (Some(layouts(send, from)?), layout_rooms(recv, to)?);
        self.collective_data(&Collective::Alltoall { send, recv })
    }

    /// As [`neighbor_allgather`](Self::neighbor_allgather), with parts of any length and place (`MPI_Neighbor_allgatherv`).
    ///
    /// # Errors
    /// As for [`neighbor_allgather`](Self::neighbor_allgather).
    pub fn neighbor_allgatherv<T: Datum>(
        &self,
        send: &[T],
        (recv, placement): (&mut [T], Placement<'_>),
        neighbours: &Neighbours,
    ) -> Result<()> {
        let recv = placed_room("neighbor_allgatherv", recv, placement)?;
        let (send, neighbours) = (elements(send)?, neighbours.clone());
        self.collective_data(&Collective::NeighbourAllgather { send, recv, neighbours })
    }

    /// As [`neighbor_alltoall`](Self::neighbor_alltoall), with parts of any length and place (`MPI_Neighbor_alltoallv`).
    ///
    /// # Errors
    /// As for [`neighbor_allgather`](Self::neighbor_allgather).
    pub fn neighbor_alltoallv<T: Datum>(
        &self,
        (send, from): (&[T], Placement<'_>),
        (recv, to): (&mut [T], Placement<'_>),
        neighbours: &Neighbours,
    ) -> Result<()> {
        let send = placed_elements("neighbor_alltoallv: the send buffer", send, from)?;
        let recv = placed_room("neighbor_alltoallv: the receive buffer", recv, to)?;
        let neighbours = neighbours.clone();
        self.collective_data(&Collective::NeighbourAlltoall { send, recv, neighbours })
    }

    /// As [`neighbor_alltoallv`](Self::neighbor_alltoallv), each part with a type of its own (`MPI_Neighbor_alltoallw`).
    ///
    /// # Errors
    /// As for [`alltoallw`](Self::alltoallw).
    pub fn neighbor_alltoallw<T: NoUninit, U: AnyBitPattern>(
        &self,
        (send, from): (&[T], &[LayoutPart<'_>]),
        (recv, to): (&mut [U], &[LayoutPart<'_>]),
        neighbours: &Neighbours,
    ) -> Result<()> {
        let (send, recv) = (layouts(send, from)?, layout_rooms(recv, to)?);
        let neighbours = neighbours.clone();
        self.collective_data(&Collective::NeighbourAlltoall { send, recv, neighbours })
    }
}

fn layouts<T: NoUninit>(memory: &[T], parts: &[LayoutPart<'_>]) -> Result<Parts<SendData>> {
    let part =
        |part: &LayoutPart<'_>| layout_to_keep(memory, part.displacement_bytes, (part.count, part.datatype));
    Ok(Parts::Listed(parts.iter().map(part).collect::<Result<_>>()?))
}

fn layout_rooms<T: AnyBitPattern>(memory: &mut [T], parts: &[LayoutPart<'_>]) -> Result<Parts<RecvData>> {
    let part = |part: &LayoutPart<'_>| {
        layout_room_to_keep(memory, part.displacement_bytes, (part.count, part.datatype))
    };
    Ok(Parts::Listed(parts.iter().map(part).collect::<Result<_>>()?))
}
