//! Collectives, prepared with their arguments. A collective that borrows its buffers can be carried out by [`run`](Prepared::run), which
//! waits, or started in a scope by [`start`](Prepared::start). A collective that owns its buffer, a vector, can be started without a scope
//! by [`start_owned`](Prepared::start_owned), or made persistent, for repeated starts, by [`keep`](Prepared::keep). A barrier can be all of
//! these.
//!
//! ```
//! use mpi_over_am::{Environment, collective, op};
//!
//! # fn main() -> mpi_over_am::Result<()> {
//! # let environment = Environment::init()?;
//! let world = environment.world();
//! let (own, mut sums) = ([1u64, 2], [0; 2]);
//! // The short form of `collective::allreduce(&own, &mut sums, op::Sum).run(&world)?`.
//! world.allreduce(&own, &mut sums, op::Sum)?;
//! world.scope(|s| {
//!     let reduction = collective::allreduce(&own, &mut sums, op::Sum).start(s)?;
//!     // A computation here overlaps the reduction.
//!     s.wait(reduction)
//! })?;
//! let mut kept = collective::allreduce_in_place(vec![1u64, 2], op::Sum).keep(&world)?;
//! for _ in 0..10 {
//!     kept.start()?;
//!     kept.wait()?;
//! }
//! # drop(kept);
//! # environment.finalize()
//! # }
//! ```

use super::prepared::{Buffer, Make, NoOperator, Nothing, Position, Prepared, in_buffer, of_slices};
use super::typed::element_type;
use super::{Collective, Datum, LayoutPart, Neighbours, Parts, Placement};
use crate::buffer::{
    Equivalence, RecvData, SendData, elements_to_keep, elements_to_keep_mut, incoming_to_keep,
    layout_to_keep, layout_to_keep_mut, outgoing_to_keep,
};
use crate::error::{Error, Result};
use crate::op::{Operation, TypedOperation};
use bytemuck::{AnyBitPattern, NoUninit};

/// Prepares [`Communicator::barrier`](crate::Communicator::barrier), to be run, started or kept (`MPI_Barrier`, `MPI_Ibarrier`,
/// `MPI_Barrier_init`).
pub fn barrier() -> Prepared<Nothing, NoOperator, impl Make<Nothing>> {
    in_buffer(Nothing, NoOperator, |_, _, _| Ok(Collective::Barrier))
}

/// Prepares [`Communicator::broadcast`](crate::Communicator::broadcast), to be run or started, or, if `buffer` is a `Vec`, started or kept
/// (`MPI_Bcast`, `MPI_Ibcast`, `MPI_Bcast_init`).
pub fn broadcast<B: Buffer<Item: Equivalence>>(
    buffer: B,
    root: u32,
) -> Prepared<B, NoOperator, impl Make<B>> {
    in_buffer(buffer, NoOperator, move |buffer: &mut B, position, _| {
        let buffer = buffer.as_mut_slice();
        Ok(Collective::Broadcast { data: elements_mut(position, buffer)?, root })
    })
}

/// Prepares [`Communicator::gather`](crate::Communicator::gather), to be run or started (`MPI_Gather`, `MPI_Igather`).
pub fn gather<'a, T: Equivalence>(
    send: &'a [T],
    recv: &'a mut [T],
    root: u32,
) -> Prepared<(), NoOperator, impl Make<()>> {
    of_slices(NoOperator, move |position, _| {
        let recv = match position.is_root(root) {
            true => Some(parts_mut(
                position,
                "gather: the receive buffer",
                recv,
                send.len(),
                position.partners(),
            )?),
            false => None,
        };
        Ok(Collective::Gather { is_equal: true, send: Some(elements(position, send)?), recv, root })
    })
}

/// Prepares [`Communicator::gatherv`](crate::Communicator::gatherv), to be run or started (`MPI_Gatherv`, `MPI_Igatherv`).
pub fn gatherv<'a, T: Equivalence>(
    send: &'a [T],
    (recv, placement): (&'a mut [T], Placement<'a>),
    root: u32,
) -> Prepared<(), NoOperator, impl Make<()>> {
    of_slices(NoOperator, move |position, _| {
        let recv = if position.is_root(root) {
            Some(placed_mut(position, "gatherv", recv, placement)?)
        } else {
            None
        };
        Ok(Collective::Gather { is_equal: false, send: Some(elements(position, send)?), recv, root })
    })
}

/// Prepares [`Communicator::scatter`](crate::Communicator::scatter), to be run or started (`MPI_Scatter`, `MPI_Iscatter`).
pub fn scatter<'a, T: Equivalence>(
    send: &'a [T],
    recv: &'a mut [T],
    root: u32,
) -> Prepared<(), NoOperator, impl Make<()>> {
    of_slices(NoOperator, move |position, _| {
        let send = match position.is_root(root) {
            true => Some(parts(position, "scatter: the send buffer", send, recv.len(), position.partners())?),
            false => None,
        };
        Ok(Collective::Scatter { is_equal: true, send, recv: Some(elements_mut(position, recv)?), root })
    })
}

/// Prepares [`Communicator::scatterv`](crate::Communicator::scatterv), to be run or started (`MPI_Scatterv`, `MPI_Iscatterv`).
pub fn scatterv<'a, T: Equivalence>(
    (send, placement): (&'a [T], Placement<'a>),
    recv: &'a mut [T],
    root: u32,
) -> Prepared<(), NoOperator, impl Make<()>> {
    of_slices(NoOperator, move |position, _| {
        let send = if position.is_root(root) {
            Some(placed_elements(position, "scatterv", send, placement)?)
        } else {
            None
        };
        Ok(Collective::Scatter { is_equal: false, send, recv: Some(elements_mut(position, recv)?), root })
    })
}

/// Prepares [`Communicator::allgather`](crate::Communicator::allgather), to be run or started (`MPI_Allgather`, `MPI_Iallgather`).
pub fn allgather<'a, T: Equivalence>(
    send: &'a [T],
    recv: &'a mut [T],
) -> Prepared<(), NoOperator, impl Make<()>> {
    of_slices(NoOperator, move |position, _| {
        let recv =
            parts_mut(position, "allgather: the receive buffer", recv, send.len(), position.partners())?;
        Ok(Collective::Allgather { send: Some(elements(position, send)?), recv })
    })
}

/// Prepares [`Communicator::allgather_in_place`](crate::Communicator::allgather_in_place), to be run or started, or, if `buffer` is a
/// `Vec`, started or kept (`MPI_Allgather` with `MPI_IN_PLACE`).
pub fn allgather_in_place<B: Buffer<Item: Equivalence>>(buffer: B) -> Prepared<B, NoOperator, impl Make<B>> {
    in_buffer(buffer, NoOperator, move |buffer: &mut B, position, _| {
        let buffer = buffer.as_mut_slice();
        Ok(Collective::Allgather { send: None, recv: position.equal_parts("allgather: the buffer", buffer)? })
    })
}

/// Prepares [`Communicator::allgatherv`](crate::Communicator::allgatherv), to be run or started (`MPI_Allgatherv`, `MPI_Iallgatherv`).
pub fn allgatherv<'a, T: Equivalence>(
    send: &'a [T],
    (recv, placement): (&'a mut [T], Placement<'a>),
) -> Prepared<(), NoOperator, impl Make<()>> {
    of_slices(NoOperator, move |position, _| {
        let recv = placed_mut(position, "allgatherv", recv, placement)?;
        Ok(Collective::Allgather { send: Some(elements(position, send)?), recv })
    })
}

/// Prepares [`Communicator::alltoall`](crate::Communicator::alltoall), to be run or started (`MPI_Alltoall`, `MPI_Ialltoall`).
pub fn alltoall<'a, T: Equivalence>(
    send: &'a [T],
    recv: &'a mut [T],
) -> Prepared<(), NoOperator, impl Make<()>> {
    of_slices(NoOperator, move |position, _| {
        let (count, partners) = (send.len() / position.partners(), position.partners());
        let send = Some(parts(position, "alltoall: the send buffer", send, count, partners)?);
        Ok(Collective::Alltoall {
            send,
            recv: parts_mut(position, "alltoall: the receive buffer", recv, count, partners)?,
        })
    })
}

/// Prepares [`Communicator::alltoall_in_place`](crate::Communicator::alltoall_in_place), to be run or started, or, if `buffer` is a `Vec`,
/// started or kept (`MPI_Alltoall` with `MPI_IN_PLACE`).
pub fn alltoall_in_place<B: Buffer<Item: Equivalence>>(buffer: B) -> Prepared<B, NoOperator, impl Make<B>> {
    in_buffer(buffer, NoOperator, move |buffer: &mut B, position, _| {
        let buffer = buffer.as_mut_slice();
        Ok(Collective::Alltoall { send: None, recv: position.equal_parts("alltoall: the buffer", buffer)? })
    })
}

/// Prepares [`Communicator::alltoallv`](crate::Communicator::alltoallv), to be run or started (`MPI_Alltoallv`, `MPI_Ialltoallv`).
pub fn alltoallv<'a, T: Equivalence>(
    (send, from): (&'a [T], Placement<'a>),
    (recv, to): (&'a mut [T], Placement<'a>),
) -> Prepared<(), NoOperator, impl Make<()>> {
    of_slices(NoOperator, move |position, _| {
        let send = Some(placed_elements(position, "alltoallv: the send buffer", send, from)?);
        Ok(Collective::Alltoall {
            send,
            recv: placed_mut(position, "alltoallv: the receive buffer", recv, to)?,
        })
    })
}

/// Prepares [`Communicator::alltoallw`](crate::Communicator::alltoallw), to be run or started (`MPI_Alltoallw`, `MPI_Ialltoallw`).
pub fn alltoallw<'a, T: NoUninit, U: AnyBitPattern>(
    (send, from): (&'a [T], &'a [LayoutPart<'a>]),
    (recv, to): (&'a mut [U], &'a [LayoutPart<'a>]),
) -> Prepared<(), NoOperator, impl Make<()>> {
    of_slices(NoOperator, move |position, _| {
        Ok(Collective::Alltoall {
            send: Some(layouts(position, send, from)?),
            recv: layouts_mut(position, recv, to)?,
        })
    })
}

/// Prepares [`Communicator::reduce`](crate::Communicator::reduce), to be run or started (`MPI_Reduce`, `MPI_Ireduce`).
pub fn reduce<'a, T: Datum, O: Operation<T>>(
    send: &'a [T],
    recv: &'a mut [T],
    op: O,
    root: u32,
) -> Prepared<(), TypedOperation<T, O>, impl Make<()>> {
    of_slices(TypedOperation::new(op), move |position, op| {
        let recv = if position.is_root(root) { Some(results(position, recv)?) } else { None };
        Ok(Collective::Reduce { send: Some(operands(position, send)?), recv, op, root })
    })
}

/// Prepares [`Communicator::reduce_in_place`](crate::Communicator::reduce_in_place), to be run or started, or, if `buffer` is a `Vec`,
/// started or kept (`MPI_Reduce` with `MPI_IN_PLACE` at the root).
pub fn reduce_in_place<B: Buffer<Item: Datum>, O: Operation<B::Item>>(
    buffer: B,
    op: O,
    root: u32,
) -> Prepared<B, TypedOperation<B::Item, O>, impl Make<B>> {
    in_buffer(buffer, TypedOperation::new(op), move |buffer: &mut B, position, op| {
        let buffer = buffer.as_mut_slice();
        let (send, recv) = match position.is_root(root) {
            true => (None, Some(results(position, buffer)?)),
            false => (Some(operands(position, buffer)?), None),
        };
        Ok(Collective::Reduce { send, recv, op, root })
    })
}

/// Prepares [`Communicator::allreduce`](crate::Communicator::allreduce), to be run or started (`MPI_Allreduce`, `MPI_Iallreduce`).
pub fn allreduce<'a, T: Datum, O: Operation<T>>(
    send: &'a [T],
    recv: &'a mut [T],
    op: O,
) -> Prepared<(), TypedOperation<T, O>, impl Make<()>> {
    of_slices(TypedOperation::new(op), move |position, op| {
        Ok(Collective::Allreduce {
            send: Some(operands(position, send)?),
            recv: results(position, recv)?,
            op,
        })
    })
}

/// Prepares [`Communicator::allreduce_in_place`](crate::Communicator::allreduce_in_place), to be run or started, or, if `buffer` is a
/// `Vec`, started or kept (`MPI_Allreduce` with `MPI_IN_PLACE`).
pub fn allreduce_in_place<B: Buffer<Item: Datum>, O: Operation<B::Item>>(
    buffer: B,
    op: O,
) -> Prepared<B, TypedOperation<B::Item, O>, impl Make<B>> {
    in_buffer(buffer, TypedOperation::new(op), move |buffer: &mut B, position, op| {
        let buffer = buffer.as_mut_slice();
        Ok(Collective::Allreduce { send: None, recv: results(position, buffer)?, op })
    })
}

/// Prepares [`Communicator::reduce_scatter_block`](crate::Communicator::reduce_scatter_block), to be run or started
/// (`MPI_Reduce_scatter_block`, `MPI_Ireduce_scatter_block`).
pub fn reduce_scatter_block<'a, T: Datum, O: Operation<T>>(
    send: &'a [T],
    recv: &'a mut [T],
    op: O,
) -> Prepared<(), TypedOperation<T, O>, impl Make<()>> {
    of_slices(TypedOperation::new(op), move |position, op| {
        let count = recv.len() as u64;
        Ok(Collective::ReduceScatterBlock {
            send: Some(operands(position, send)?),
            recv: results(position, recv)?,
            count,
            op,
        })
    })
}

/// Prepares [`Communicator::reduce_scatter`](crate::Communicator::reduce_scatter), to be run or started (`MPI_Reduce_scatter`,
/// `MPI_Ireduce_scatter`).
pub fn reduce_scatter<'a, T: Datum, O: Operation<T>>(
    send: &'a [T],
    recv: &'a mut [T],
    counts: &'a [usize],
    op: O,
) -> Prepared<(), TypedOperation<T, O>, impl Make<()>> {
    of_slices(TypedOperation::new(op), move |position, op| {
        if let Some(&expected) = counts.get(position.rank as usize)
            && expected != recv.len()
        {
            let call = "reduce_scatter: the receive buffer";
            return Err(Error::Count { call, given: recv.len(), expected });
        }
        let counts = counts.iter().map(|&count| count as u64).collect();
        Ok(Collective::ReduceScatter {
            send: Some(operands(position, send)?),
            recv: results(position, recv)?,
            counts,
            op,
        })
    })
}

/// Prepares [`Communicator::scan`](crate::Communicator::scan), to be run or started (`MPI_Scan`, `MPI_Iscan`).
pub fn scan<'a, T: Datum, O: Operation<T>>(
    send: &'a [T],
    recv: &'a mut [T],
    op: O,
) -> Prepared<(), TypedOperation<T, O>, impl Make<()>> {
    of_slices(TypedOperation::new(op), move |position, op| {
        Ok(Collective::Scan { send: Some(operands(position, send)?), recv: results(position, recv)?, op })
    })
}

/// Prepares [`Communicator::scan_in_place`](crate::Communicator::scan_in_place), to be run or started, or, if `buffer` is a `Vec`, started
/// or kept (`MPI_Scan` with `MPI_IN_PLACE`).
pub fn scan_in_place<B: Buffer<Item: Datum>, O: Operation<B::Item>>(
    buffer: B,
    op: O,
) -> Prepared<B, TypedOperation<B::Item, O>, impl Make<B>> {
    in_buffer(buffer, TypedOperation::new(op), move |buffer: &mut B, position, op| {
        let buffer = buffer.as_mut_slice();
        Ok(Collective::Scan { send: None, recv: results(position, buffer)?, op })
    })
}

/// Prepares [`Communicator::exscan`](crate::Communicator::exscan), to be run or started (`MPI_Exscan`, `MPI_Iexscan`).
pub fn exscan<'a, T: Datum, O: Operation<T>>(
    send: &'a [T],
    recv: &'a mut [T],
    op: O,
) -> Prepared<(), TypedOperation<T, O>, impl Make<()>> {
    of_slices(TypedOperation::new(op), move |position, op| {
        Ok(Collective::ExclusiveScan {
            send: Some(operands(position, send)?),
            recv: results(position, recv)?,
            op,
        })
    })
}

/// Prepares [`Communicator::neighbor_allgather`](crate::Communicator::neighbor_allgather), to be run or started
/// (`MPI_Neighbor_allgather`, `MPI_Ineighbor_allgather`).
pub fn neighbor_allgather<'a, T: Equivalence>(
    send: &'a [T],
    recv: &'a mut [T],
    neighbours: &'a Neighbours,
) -> Prepared<(), NoOperator, impl Make<()>> {
    of_slices(NoOperator, move |position, _| {
        let sources = neighbours.sources.len();
        let recv = parts_mut(position, "neighbor_allgather: the receive buffer", recv, send.len(), sources)?;
        Ok(Collective::NeighbourAllgather {
            send: elements(position, send)?,
            recv,
            neighbours: neighbours.clone(),
        })
    })
}

/// Prepares [`Communicator::neighbor_allgatherv`](crate::Communicator::neighbor_allgatherv), to be run or started
/// (`MPI_Neighbor_allgatherv`, `MPI_Ineighbor_allgatherv`).
pub fn neighbor_allgatherv<'a, T: Equivalence>(
    send: &'a [T],
    (recv, placement): (&'a mut [T], Placement<'a>),
    neighbours: &'a Neighbours,
) -> Prepared<(), NoOperator, impl Make<()>> {
    of_slices(NoOperator, move |position, _| {
        let recv = placed_mut(position, "neighbor_allgatherv", recv, placement)?;
        Ok(Collective::NeighbourAllgather {
            send: elements(position, send)?,
            recv,
            neighbours: neighbours.clone(),
        })
    })
}

/// Prepares [`Communicator::neighbor_alltoall`](crate::Communicator::neighbor_alltoall), to be run or started (`MPI_Neighbor_alltoall`,
/// `MPI_Ineighbor_alltoall`).
pub fn neighbor_alltoall<'a, T: Equivalence>(
    send: &'a [T],
    recv: &'a mut [T],
    neighbours: &'a Neighbours,
) -> Prepared<(), NoOperator, impl Make<()>> {
    of_slices(NoOperator, move |position, _| {
        let (destinations, sources) = (neighbours.destinations.len(), neighbours.sources.len());
        let blocks = [(send.len(), destinations), (recv.len(), sources)];
        let count = blocks.map(|(len, parts)| len.checked_div(parts)).into_iter().flatten().next();
        let count = count.unwrap_or(0);
        let send = parts(position, "neighbor_alltoall: the send buffer", send, count, destinations)?;
        let recv = parts_mut(position, "neighbor_alltoall: the receive buffer", recv, count, sources)?;
        Ok(Collective::NeighbourAlltoall { send, recv, neighbours: neighbours.clone() })
    })
}

/// Prepares [`Communicator::neighbor_alltoallv`](crate::Communicator::neighbor_alltoallv), to be run or started
/// (`MPI_Neighbor_alltoallv`, `MPI_Ineighbor_alltoallv`).
pub fn neighbor_alltoallv<'a, T: Equivalence>(
    (send, from): (&'a [T], Placement<'a>),
    (recv, to): (&'a mut [T], Placement<'a>),
    neighbours: &'a Neighbours,
) -> Prepared<(), NoOperator, impl Make<()>> {
    of_slices(NoOperator, move |position, _| {
        let send = placed_elements(position, "neighbor_alltoallv: the send buffer", send, from)?;
        let recv = placed_mut(position, "neighbor_alltoallv: the receive buffer", recv, to)?;
        Ok(Collective::NeighbourAlltoall { send, recv, neighbours: neighbours.clone() })
    })
}

/// Prepares [`Communicator::neighbor_alltoallw`](crate::Communicator::neighbor_alltoallw), to be run or started
/// (`MPI_Neighbor_alltoallw`, `MPI_Ineighbor_alltoallw`).
pub fn neighbor_alltoallw<'a, T: NoUninit, U: AnyBitPattern>(
    (send, from): (&'a [T], &'a [LayoutPart<'a>]),
    (recv, to): (&'a mut [U], &'a [LayoutPart<'a>]),
    neighbours: &'a Neighbours,
) -> Prepared<(), NoOperator, impl Make<()>> {
    of_slices(NoOperator, move |position, _| {
        let (send, recv) = (layouts(position, send, from)?, layouts_mut(position, recv, to)?);
        Ok(Collective::NeighbourAlltoall { send, recv, neighbours: neighbours.clone() })
    })
}

/// The elements of a reduction, for sending.
#[inline]
fn operands<T: Datum>(position: Position, data: &[T]) -> Result<SendData> {
    Ok(elements_to_keep(&position, data, &element_type::<T>()?))
}

/// The elements of a reduction, for receiving.
#[inline]
fn results<T: Datum>(position: Position, data: &mut [T]) -> Result<RecvData> {
    Ok(elements_to_keep_mut(&position, data, &element_type::<T>()?))
}

#[inline]
fn elements<T: Equivalence>(position: Position, values: &[T]) -> Result<SendData> {
    outgoing_to_keep(&position, values)
}

#[inline]
fn elements_mut<T: Equivalence>(position: Position, values: &mut [T]) -> Result<RecvData> {
    incoming_to_keep(&position, values)
}

/// `ranks` parts of `count` values, for sending. All tasks must choose the same algorithm, so the type alone decides whether the parts are
/// one contiguous piece. The fields of other types may lie differently from value to value, so their parts are listed.
fn parts<T: Equivalence>(
    position: Position,
    call: &'static str,
    values: &[T],
    count: usize,
    ranks: usize,
) -> Result<Parts<SendData>> {
    if let Some((_, each)) = T::numbers() {
        return Ok(Parts::Equal { all: elements(position, values)?, count: count as u64 * each });
    }
    check_values(call, values.len(), count, ranks)?;
    let part = |rank: usize| elements(position, &values[rank * count..][..count]);
    Ok(Parts::Listed((0..ranks).map(part).collect::<Result<_>>()?))
}

/// Like [`parts`], for receiving.
pub(super) fn parts_mut<T: Equivalence>(
    position: Position,
    call: &'static str,
    values: &mut [T],
    count: usize,
    ranks: usize,
) -> Result<Parts<RecvData>> {
    if let Some((_, each)) = T::numbers() {
        return Ok(Parts::Equal { all: elements_mut(position, values)?, count: count as u64 * each });
    }
    check_values(call, values.len(), count, ranks)?;
    let part = |rank: usize| elements_mut(position, &mut values[rank * count..][..count]);
    Ok(Parts::Listed((0..ranks).map(part).collect::<Result<_>>()?))
}

fn check_values(call: &'static str, given: usize, count: usize, ranks: usize) -> Result<()> {
    let expected = count.checked_mul(ranks).ok_or(Error::TooLarge { call })?;
    if given == expected { Ok(()) } else { Err(Error::Count { call, given, expected }) }
}

fn placed_mut<T: Equivalence>(
    position: Position,
    call: &'static str,
    recv: &mut [T],
    placement: Placement<'_>,
) -> Result<Parts<RecvData>> {
    placement.of(call, recv.len(), |part| elements_mut(position, &mut recv[part]))
}

fn placed_elements<T: Equivalence>(
    position: Position,
    call: &'static str,
    send: &[T],
    placement: Placement<'_>,
) -> Result<Parts<SendData>> {
    placement.of(call, send.len(), |part| elements(position, &send[part]))
}

fn layouts<T: NoUninit>(
    position: Position,
    memory: &[T],
    parts: &[LayoutPart<'_>],
) -> Result<Parts<SendData>> {
    let part = |part: &LayoutPart<'_>| {
        layout_to_keep(&position, memory, part.displacement_bytes, (part.count, part.datatype))
    };
    Ok(Parts::Listed(parts.iter().map(part).collect::<Result<_>>()?))
}

fn layouts_mut<T: AnyBitPattern>(
    position: Position,
    memory: &mut [T],
    parts: &[LayoutPart<'_>],
) -> Result<Parts<RecvData>> {
    let part = |part: &LayoutPart<'_>| {
        layout_to_keep_mut(&position, memory, part.displacement_bytes, (part.count, part.datatype))
    };
    Ok(Parts::Listed(parts.iter().map(part).collect::<Result<_>>()?))
}
