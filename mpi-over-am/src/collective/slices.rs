//! Collectives of slices, as values: what the typed calls of each kind of communicator hand on, whichever way it is carried out.
//!
//! Who makes one borrows its slices until the collective has ended.

use super::typed::element_type;
use super::{Collective, Datum, LayoutPart, Neighbours, Parts, Placement};
use crate::buffer::{
    Equivalence, RecvData, SendData, elements_to_keep, field_room_to_keep, fields_to_keep,
    layout_room_to_keep, layout_to_keep, room_to_keep,
};
use crate::error::{Error, Result};
use crate::op::Op;
use crate::rank::ROOT;
use bytemuck::{AnyBitPattern, NoUninit};

/// Where a task stands in its communicator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    /// Tasks of the other side, in an inter-communicator.
    pub(crate) remote: Option<u32>,
}

impl Place {
    /// Whether this task is the root that its side names.
    fn is_root(self, root: u32) -> bool {
        if self.remote.is_some() { root == ROOT } else { self.rank == root }
    }

    /// Ranks that this task exchanges parts with.
    fn partners(self) -> usize {
        self.remote.unwrap_or(self.size) as usize
    }

    /// A slice in as many parts as there are tasks.
    fn equal_parts<T: Datum>(self, buffer: &mut [T]) -> Result<Parts<RecvData>> {
        let count = (buffer.len() / self.size as usize) as u64;
        Ok(Parts::Equal { all: room(buffer)?, count })
    }
}

#[inline]
pub(crate) fn elements<T: Datum>(data: &[T]) -> Result<SendData> {
    Ok(elements_to_keep(data, &element_type::<T>()?))
}

#[inline]
pub(crate) fn room<T: Datum>(data: &mut [T]) -> Result<RecvData> {
    Ok(room_to_keep(data, &element_type::<T>()?))
}

fn placed_room<T: Datum>(
    call: &'static str,
    recv: &mut [T],
    placement: Placement<'_>,
) -> Result<Parts<RecvData>> {
    let all = room(recv)?;
    placement.of(call, all.count(), |first, count| all.part(first, count))
}

fn placed_elements<T: Datum>(
    call: &'static str,
    send: &[T],
    placement: Placement<'_>,
) -> Result<Parts<SendData>> {
    let all = elements(send)?;
    placement.of(call, all.count(), |first, count| all.part(first, count))
}

#[inline]
pub(crate) fn broadcast<T: Datum>(buffer: &mut [T], root: u32) -> Result<Collective> {
    Ok(Collective::Broadcast { data: room(buffer)?, root })
}

pub(crate) fn gather<T: Datum>(place: Place, send: &[T], recv: &mut [T], root: u32) -> Result<Collective> {
    let recv = match place.is_root(root) {
        true => Some(Parts::Equal { all: room(recv)?, count: send.len() as u64 }),
        false => None,
    };
    Ok(Collective::Gather { send: Some(elements(send)?), recv, root })
}

pub(crate) fn gatherv<T: Datum>(
    place: Place,
    send: &[T],
    (recv, placement): (&mut [T], Placement<'_>),
    root: u32,
) -> Result<Collective> {
    let recv = if place.is_root(root) { Some(placed_room("gatherv", recv, placement)?) } else { None };
    Ok(Collective::Gather { send: Some(elements(send)?), recv, root })
}

pub(crate) fn scatter<T: Datum>(place: Place, send: &[T], recv: &mut [T], root: u32) -> Result<Collective> {
    let send = match place.is_root(root) {
        true => Some(Parts::Equal { all: elements(send)?, count: recv.len() as u64 }),
        false => None,
    };
    Ok(Collective::Scatter { send, recv: Some(room(recv)?), root })
}

pub(crate) fn scatterv<T: Datum>(
    place: Place,
    (send, placement): (&[T], Placement<'_>),
    recv: &mut [T],
    root: u32,
) -> Result<Collective> {
    let send = if place.is_root(root) { Some(placed_elements("scatterv", send, placement)?) } else { None };
    Ok(Collective::Scatter { send, recv: Some(room(recv)?), root })
}

#[inline]
pub(crate) fn allgather<T: Datum>(send: &[T], recv: &mut [T]) -> Result<Collective> {
    let recv = Parts::Equal { all: room(recv)?, count: send.len() as u64 };
    Ok(Collective::Allgather { send: Some(elements(send)?), recv })
}

pub(crate) fn allgather_in_place<T: Datum>(place: Place, buffer: &mut [T]) -> Result<Collective> {
    Ok(Collective::Allgather { send: None, recv: place.equal_parts(buffer)? })
}

pub(crate) fn allgatherv<T: Datum>(
    send: &[T],
    (recv, placement): (&mut [T], Placement<'_>),
) -> Result<Collective> {
    let recv = placed_room("allgatherv", recv, placement)?;
    Ok(Collective::Allgather { send: Some(elements(send)?), recv })
}

pub(crate) fn alltoall<T: Datum>(place: Place, send: &[T], recv: &mut [T]) -> Result<Collective> {
    let count = (send.len() / place.partners()) as u64;
    let send = Some(Parts::Equal { all: elements(send)?, count });
    Ok(Collective::Alltoall { send, recv: Parts::Equal { all: room(recv)?, count } })
}

pub(crate) fn alltoall_in_place<T: Datum>(place: Place, buffer: &mut [T]) -> Result<Collective> {
    Ok(Collective::Alltoall { send: None, recv: place.equal_parts(buffer)? })
}

pub(crate) fn alltoallv<T: Datum>(
    (send, from): (&[T], Placement<'_>),
    (recv, to): (&mut [T], Placement<'_>),
) -> Result<Collective> {
    let send = Some(placed_elements("alltoallv: the send buffer", send, from)?);
    Ok(Collective::Alltoall { send, recv: placed_room("alltoallv: the receive buffer", recv, to)? })
}

pub(crate) fn alltoallw<T: NoUninit, U: AnyBitPattern>(
    (send, from): (&[T], &[LayoutPart<'_>]),
    (recv, to): (&mut [U], &[LayoutPart<'_>]),
) -> Result<Collective> {
    Ok(Collective::Alltoall { send: Some(layouts(send, from)?), recv: layout_rooms(recv, to)? })
}

pub(crate) fn reduce<T: Datum>(
    place: Place,
    send: &[T],
    recv: &mut [T],
    op: Op,
    root: u32,
) -> Result<Collective> {
    let recv = if place.is_root(root) { Some(room(recv)?) } else { None };
    Ok(Collective::Reduce { send: Some(elements(send)?), recv, op, root })
}

pub(crate) fn reduce_in_place<T: Datum>(
    place: Place,
    buffer: &mut [T],
    op: Op,
    root: u32,
) -> Result<Collective> {
    let (send, recv) = match place.is_root(root) {
        true => (None, Some(room(buffer)?)),
        false => (Some(elements(buffer)?), None),
    };
    Ok(Collective::Reduce { send, recv, op, root })
}

#[inline]
pub(crate) fn allreduce<T: Datum>(send: &[T], recv: &mut [T], op: Op) -> Result<Collective> {
    Ok(Collective::Allreduce { send: Some(elements(send)?), recv: room(recv)?, op })
}

#[inline]
pub(crate) fn allreduce_in_place<T: Datum>(buffer: &mut [T], op: Op) -> Result<Collective> {
    Ok(Collective::Allreduce { send: None, recv: room(buffer)?, op })
}

pub(crate) fn reduce_scatter_block<T: Datum>(send: &[T], recv: &mut [T], op: Op) -> Result<Collective> {
    let count = recv.len() as u64;
    Ok(Collective::ReduceScatterBlock { send: Some(elements(send)?), recv: room(recv)?, count, op })
}

pub(crate) fn reduce_scatter<T: Datum>(
    place: Place,
    send: &[T],
    recv: &mut [T],
    (counts, op): (&[usize], Op),
) -> Result<Collective> {
    if let Some(&expected) = counts.get(place.rank as usize)
        && expected != recv.len()
    {
        let call = "reduce_scatter: the receive buffer";
        return Err(Error::Count { call, given: recv.len(), expected });
    }
    let counts = counts.iter().map(|&count| count as u64).collect();
    Ok(Collective::ReduceScatter { send: Some(elements(send)?), recv: room(recv)?, counts, op })
}

#[inline]
pub(crate) fn scan<T: Datum>(send: &[T], recv: &mut [T], op: Op) -> Result<Collective> {
    Ok(Collective::Scan { send: Some(elements(send)?), recv: room(recv)?, op })
}

pub(crate) fn scan_in_place<T: Datum>(buffer: &mut [T], op: Op) -> Result<Collective> {
    Ok(Collective::Scan { send: None, recv: room(buffer)?, op })
}

#[inline]
pub(crate) fn exscan<T: Datum>(send: &[T], recv: &mut [T], op: Op) -> Result<Collective> {
    Ok(Collective::ExclusiveScan { send: Some(elements(send)?), recv: room(recv)?, op })
}

pub(crate) fn neighbor_allgather<T: Datum>(
    send: &[T],
    recv: &mut [T],
    neighbours: &Neighbours,
) -> Result<Collective> {
    let recv = Parts::Equal { all: room(recv)?, count: send.len() as u64 };
    Ok(Collective::NeighbourAllgather { send: elements(send)?, recv, neighbours: neighbours.clone() })
}

pub(crate) fn neighbor_allgatherv<T: Datum>(
    send: &[T],
    (recv, placement): (&mut [T], Placement<'_>),
    neighbours: &Neighbours,
) -> Result<Collective> {
    let recv = placed_room("neighbor_allgatherv", recv, placement)?;
    Ok(Collective::NeighbourAllgather { send: elements(send)?, recv, neighbours: neighbours.clone() })
}

pub(crate) fn neighbor_alltoall<T: Datum>(
    send: &[T],
    recv: &mut [T],
    neighbours: &Neighbours,
) -> Result<Collective> {
    let blocks = [(send.len(), neighbours.destinations.len()), (recv.len(), neighbours.sources.len())];
    let count = blocks.map(|(len, parts)| len.checked_div(parts)).into_iter().flatten().next();
    let count = count.unwrap_or(0) as u64;
    let send = Parts::Equal { all: elements(send)?, count };
    let recv = Parts::Equal { all: room(recv)?, count };
    Ok(Collective::NeighbourAlltoall { send, recv, neighbours: neighbours.clone() })
}

pub(crate) fn neighbor_alltoallv<T: Datum>(
    (send, from): (&[T], Placement<'_>),
    (recv, to): (&mut [T], Placement<'_>),
    neighbours: &Neighbours,
) -> Result<Collective> {
    let send = placed_elements("neighbor_alltoallv: the send buffer", send, from)?;
    let recv = placed_room("neighbor_alltoallv: the receive buffer", recv, to)?;
    Ok(Collective::NeighbourAlltoall { send, recv, neighbours: neighbours.clone() })
}

pub(crate) fn neighbor_alltoallw<T: NoUninit, U: AnyBitPattern>(
    (send, from): (&[T], &[LayoutPart<'_>]),
    (recv, to): (&mut [U], &[LayoutPart<'_>]),
    neighbours: &Neighbours,
) -> Result<Collective> {
    let (send, recv) = (layouts(send, from)?, layout_rooms(recv, to)?);
    Ok(Collective::NeighbourAlltoall { send, recv, neighbours: neighbours.clone() })
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

pub(crate) fn broadcast_fields<T: Equivalence>(values: &mut [T], root: u32) -> Result<Collective> {
    Ok(Collective::Broadcast { data: field_room_to_keep(values)?, root })
}

// Each rank's part of fields is listed by itself: where the fields of values lie may differ from value to value, and all tasks must
// choose the same algorithm.

pub(crate) fn gather_fields<T: Equivalence>(
    place: Place,
    send: &[T],
    recv: &mut [T],
    root: u32,
) -> Result<Collective> {
    let recv = match place.is_root(root) {
        true => {
            let call = "gather_fields: the receive buffer";
            Some(field_rooms(call, recv, send.len(), place.partners())?)
        }
        false => None,
    };
    Ok(Collective::Gather { send: Some(fields_to_keep(send)?), recv, root })
}

pub(crate) fn scatter_fields<T: Equivalence>(
    place: Place,
    send: &[T],
    recv: &mut [T],
    root: u32,
) -> Result<Collective> {
    let send = match place.is_root(root) {
        true => {
            let call = "scatter_fields: the send buffer";
            Some(field_parts(call, send, recv.len(), place.partners())?)
        }
        false => None,
    };
    Ok(Collective::Scatter { send, recv: Some(field_room_to_keep(recv)?), root })
}

pub(crate) fn allgather_fields<T: Equivalence>(
    place: Place,
    send: &[T],
    recv: &mut [T],
) -> Result<Collective> {
    let recv = field_rooms("allgather_fields: the receive buffer", recv, send.len(), place.partners())?;
    Ok(Collective::Allgather { send: Some(fields_to_keep(send)?), recv })
}

pub(crate) fn alltoall_fields<T: Equivalence>(
    place: Place,
    send: &[T],
    recv: &mut [T],
) -> Result<Collective> {
    let partners = place.partners();
    let count = send.len() / partners;
    let send = Some(field_parts("alltoall_fields: the send buffer", send, count, partners)?);
    let recv = field_rooms("alltoall_fields: the receive buffer", recv, count, partners)?;
    Ok(Collective::Alltoall { send, recv })
}

/// `ranks` parts of `count` values, to be sent.
fn field_parts<T: Equivalence>(
    call: &'static str,
    values: &[T],
    count: usize,
    ranks: usize,
) -> Result<Parts<SendData>> {
    check_values(call, values.len(), count, ranks)?;
    let part = |rank: usize| fields_to_keep(&values[rank * count..][..count]);
    Ok(Parts::Listed((0..ranks).map(part).collect::<Result<_>>()?))
}

/// As [`field_parts`], to be received.
fn field_rooms<T: Equivalence>(
    call: &'static str,
    values: &mut [T],
    count: usize,
    ranks: usize,
) -> Result<Parts<RecvData>> {
    check_values(call, values.len(), count, ranks)?;
    let part = |rank: usize| field_room_to_keep(&mut values[rank * count..][..count]);
    Ok(Parts::Listed((0..ranks).map(part).collect::<Result<_>>()?))
}

fn check_values(call: &'static str, given: usize, count: usize, ranks: usize) -> Result<()> {
    let expected = count.checked_mul(ranks).ok_or(Error::TooLarge { call })?;
    if given == expected { Ok(()) } else { Err(Error::Count { call, given, expected }) }
}
