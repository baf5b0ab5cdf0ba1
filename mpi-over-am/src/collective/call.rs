//! Collectives with their arguments, for blocking, non-blocking and persistent calls.

use crate::data::buffer::{RecvData, SendData};
use crate::data::op::{Op, PredefinedOp};
use crate::error::{Error, Result};
use mpi_datatype::Datatype;

use crate::rank::{PROC_NULL, ROOT};

use super::parts::{Neighbours, Parts, same_count};

/// A collective, with this task's arguments. All tasks of a communicator must make the same calls in the same order.
///
/// Memory that only some tasks have, such as the root's, is `None` at the other tasks. Data to send are also `None` if the memory of the
/// result holds them (`MPI_IN_PLACE`).
#[derive(Clone, Debug)]
pub enum Collective {
    /// `MPI_Barrier`
    Barrier,
    /// `MPI_Bcast`
    Broadcast {
        /// At the root: the data to send. At the other tasks: the memory for these data.
        data: RecvData,
        /// The root.
        root: u32,
    },
    /// `MPI_Gather`, `MPI_Gatherv`
    Gather {
        /// Whether all parts have the same length. In `MPI_Gatherv` only the root knows the lengths.
        is_equal: bool,
        /// This task's part.
        send: Option<SendData>,
        /// At the root: the parts of all tasks.
        recv: Option<Parts<RecvData>>,
        /// The root.
        root: u32,
    },
    /// `MPI_Scatter`, `MPI_Scatterv`
    Scatter {
        /// Whether all parts have the same length. In `MPI_Scatterv` only the root knows the lengths.
        is_equal: bool,
        /// At the root: the parts of all tasks.
        send: Option<Parts<SendData>>,
        /// This task's part. `None` at the root if the part stays where it is.
        recv: Option<RecvData>,
        /// The root.
        root: u32,
    },
    /// `MPI_Allgather`, `MPI_Allgatherv`
    Allgather {
        /// This task's part.
        send: Option<SendData>,
        /// The parts of all tasks.
        recv: Parts<RecvData>,
    },
    /// `MPI_Alltoall`, `MPI_Alltoallv`, `MPI_Alltoallw`
    Alltoall {
        /// The part for each rank.
        send: Option<Parts<SendData>>,
        /// The part from each rank.
        recv: Parts<RecvData>,
    },
    /// `MPI_Reduce`
    Reduce {
        /// This task's vector.
        send: Option<SendData>,
        /// At the root: the result.
        recv: Option<RecvData>,
        /// The operation.
        op: Op,
        /// The root.
        root: u32,
    },
    /// `MPI_Allreduce`
    Allreduce {
        /// This task's vector.
        send: Option<SendData>,
        /// The result.
        recv: RecvData,
        /// The operation.
        op: Op,
    },
    /// `MPI_Reduce_scatter_block`
    ReduceScatterBlock {
        /// This task's vector: as many blocks as there are tasks.
        send: Option<SendData>,
        /// This task's block of the result. If `send` is `None`, `recv` initially holds the whole vector.
        recv: RecvData,
        /// The number of elements of a block.
        count: u64,
        /// The operation.
        op: Op,
    },
    /// `MPI_Reduce_scatter`
    ReduceScatter {
        /// This task's vector.
        send: Option<SendData>,
        /// This task's part of the result. If `send` is `None`, `recv` initially holds the whole vector.
        recv: RecvData,
        /// The number of elements of each task's part.
        counts: Vec<u64>,
        /// The operation.
        op: Op,
    },
    /// `MPI_Scan`
    Scan {
        /// This task's vector.
        send: Option<SendData>,
        /// The result for the ranks up to this one.
        recv: RecvData,
        /// The operation.
        op: Op,
    },
    /// `MPI_Exscan`
    ExclusiveScan {
        /// This task's vector.
        send: Option<SendData>,
        /// The result for the ranks before this one; untouched at rank 0.
        recv: RecvData,
        /// The operation.
        op: Op,
    },
    /// `MPI_Neighbor_allgather`, `MPI_Neighbor_allgatherv`
    NeighbourAllgather {
        /// The data for every destination.
        send: SendData,
        /// The data from each source.
        recv: Parts<RecvData>,
        /// The neighbours.
        neighbours: Neighbours,
    },
    /// `MPI_Neighbor_alltoall`, `MPI_Neighbor_alltoallv`, `MPI_Neighbor_alltoallw`
    NeighbourAlltoall {
        /// The data for each destination.
        send: Parts<SendData>,
        /// The data from each source.
        recv: Parts<RecvData>,
        /// The neighbours.
        neighbours: Neighbours,
    },
}

impl Collective {
    /// The operation, if there is one.
    pub(super) fn op(&self) -> Option<&Op> {
        match self {
            Self::Reduce { op, .. }
            | Self::Allreduce { op, .. }
            | Self::ReduceScatterBlock { op, .. }
            | Self::ReduceScatter { op, .. }
            | Self::Scan { op, .. }
            | Self::ExclusiveScan { op, .. } => Some(op),
            _ => None,
        }
    }

    /// Checks the arguments, as far as this task can.
    ///
    /// # Errors
    /// An unknown root, `MPI_IN_PLACE` or missing memory where it is not allowed, lengths that do not match, an operation that is not
    /// defined for the type.
    pub(super) fn check(&self, rank: u32, size: u32) -> Result<()> {
        let ranks = size as usize;
        let at_root = |root: u32| {
            if root < size { Ok(rank == root) } else { Err(Error::UnknownRoot { root, size }) }
        };
        match self {
            Self::Barrier => Ok(()),
            Self::Broadcast { root, .. } => at_root(*root).map(|_| ()),
            Self::Gather { send, recv, root, .. } => match (at_root(*root)?, send, recv) {
                (true, _, None) => Err(missing("gather: the root's receive buffer")),
                (true, send, Some(recv)) => {
                    recv.check("gather: the receive buffer", ranks)?;
                    own_part("gather: the root's part", send.as_ref(), &recv.of(rank))
                }
                (false, None, _) => Err(missing("gather: the send buffer of a task that is not the root")),
                (false, Some(_), _) => Ok(()),
            },
            Self::Scatter { send, recv, root, .. } => match (at_root(*root)?, send, recv) {
                (true, None, _) => Err(missing("scatter: the root's send buffer")),
                (true, Some(send), recv) => {
                    send.check("scatter: the send buffer", ranks)?;
                    recv.as_ref().map_or(Ok(()), |recv| {
                        own_part("scatter: the root's part", Some(&send.of(rank)), recv)
                    })
                }
                (false, _, None) => {
                    Err(missing("scatter: the receive buffer of a task that is not the root"))
                }
                (false, _, Some(_)) => Ok(()),
            },
            Self::Allgather { send, recv } => {
                recv.check("allgather: the receive buffer", ranks)?;
                own_part("allgather: this task's part", send.as_ref(), &recv.of(rank))
            }
            Self::Alltoall { send, recv } => {
                recv.check("alltoall: the receive buffer", ranks)?;
                let Some(send) = send else { return Ok(()) };
                send.check("alltoall: the send buffer", ranks)?;
                own_part("alltoall: this task's part", Some(&send.of(rank)), &recv.of(rank))
            }
            Self::Reduce { send, recv, op, root } => match (at_root(*root)?, send, recv) {
                (true, _, None) => Err(missing("reduce: the root's receive buffer")),
                (true, send, Some(recv)) => reducible("reduce", send.as_ref(), recv, (op, recv.count())),
                (false, None, _) => Err(missing("reduce: the send buffer of a task that is not the root")),
                (false, Some(send), _) => check_op(op, send.datatype()),
            },
            Self::Allreduce { send, recv, op } => {
                let expected = send.as_ref().map_or(recv.count(), SendData::count);
                same_count("allreduce: the receive buffer", recv.count(), expected)?;
                check_op(op, recv.datatype())
            }
            Self::ReduceScatterBlock { send, recv, count, op } => {
                let call = "reduce_scatter_block";
                let all = count.checked_mul(u64::from(size)).ok_or(Error::TooLarge { call })?;
                reducible(call, send.as_ref(), recv, (op, all))
            }
            Self::ReduceScatter { send, recv, counts, op } => {
                let call = "reduce_scatter";
                same_count("reduce_scatter: the counts", counts.len() as u64, u64::from(size))?;
                let all = counts.iter().try_fold(0u64, |all, &count| all.checked_add(count));
                reducible(call, send.as_ref(), recv, (op, all.ok_or(Error::TooLarge { call })?))
            }
            Self::Scan { send, recv, op } => reducible("scan", send.as_ref(), recv, (op, recv.count())),
            Self::ExclusiveScan { send, recv, op } => {
                reducible("exscan", send.as_ref(), recv, (op, recv.count()))
            }
            Self::NeighbourAllgather { recv, neighbours, .. } => {
                neighbours.check(size)?;
                recv.check("neighbor_allgather: the receive buffer", neighbours.sources.len())
            }
            Self::NeighbourAlltoall { send, recv, neighbours } => {
                neighbours.check(size)?;
                send.check("neighbor_alltoall: the send buffer", neighbours.destinations.len())?;
                recv.check("neighbor_alltoall: the receive buffer", neighbours.sources.len())
            }
        }
    }

    /// [`check`](Self::check) for an inter-communicator whose local group has `size` tasks and whose remote group has `remote`.
    ///
    /// # Errors
    /// Those of [`check`](Self::check).
    pub(super) fn check_inter(&self, size: u32, remote: u32) -> Result<()> {
        let ranks = remote as usize;
        let knows_root = |root: u32| {
            let is_known = root < remote || root == ROOT || root == PROC_NULL;
            if is_known { Ok(()) } else { Err(Error::UnknownRoot { root, size: remote }) }
        };
        let given = |send: &Option<SendData>, op: &Op, count: Option<u64>| {
            let send = send.as_ref().ok_or_else(|| missing("the send buffer at an inter-communicator"))?;
            check_op(op, send.datatype())?;
            let expected = count.ok_or(Error::TooLarge { call: "a reduction" })?;
            same_count("a reduction between two groups", send.count(), expected)
        };
        match self {
            Self::Broadcast { root, .. } => knows_root(*root),
            Self::Gather { recv, send, root, .. } => match (*root, send, recv) {
                (ROOT, _, None) => Err(missing("gather: the root's receive buffer")),
                (ROOT, _, Some(recv)) => recv.check("gather: the receive buffer", ranks),
                (PROC_NULL, ..) => Ok(()),
                (_, None, _) => Err(missing("gather: the send buffer of a task outside the root's group")),
                (root, ..) => knows_root(root),
            },
            Self::Scatter { recv, send, root, .. } => match (*root, send, recv) {
                (ROOT, None, _) => Err(missing("scatter: the root's send buffer")),
                (ROOT, Some(send), _) => send.check("scatter: the send buffer", ranks),
                (PROC_NULL, ..) => Ok(()),
                (_, _, None) => {
                    Err(missing("scatter: the receive buffer of a task outside the root's group"))
                }
                (root, ..) => knows_root(root),
            },
            Self::Allgather { send: None, .. } | Self::Alltoall { send: None, .. } => {
                Err(missing("the send buffer at an inter-communicator"))
            }
            Self::Allgather { recv, .. } => recv.check("allgather: the receive buffer", ranks),
            Self::Alltoall { send: Some(send), recv } => {
                send.check("alltoall: the send buffer", ranks)?;
                recv.check("alltoall: the receive buffer", ranks)
            }
            Self::Reduce { send, recv, op, root } => match (*root, send, recv) {
                (ROOT, _, None) => Err(missing("reduce: the root's receive buffer")),
                (ROOT, _, Some(recv)) => check_op(op, recv.datatype()),
                (PROC_NULL, ..) => Ok(()),
                (_, None, _) => Err(missing("reduce: the send buffer of a task outside the root's group")),
                (root, Some(send), _) => {
                    knows_root(root)?;
                    check_op(op, send.datatype())
                }
            },
            Self::Allreduce { send, recv, op } => given(send, op, Some(recv.count())),
            Self::ReduceScatterBlock { send, count, op, .. } => {
                given(send, op, count.checked_mul(u64::from(size)))
            }
            Self::ReduceScatter { send, counts, op, .. } => {
                same_count("reduce_scatter: the counts", counts.len() as u64, u64::from(size))?;
                given(send, op, counts.iter().try_fold(0u64, |all, &count| all.checked_add(count)))
            }
            // `inter::perform` rejects the collectives that inter-communicators do not have.
            _ => Ok(()),
        }
    }
}

#[cold]
fn missing(what: &'static str) -> Error {
    Error::Missing { what }
}

/// Checks that a task's part for itself is as long as the memory that receives it.
fn own_part(call: &'static str, send: Option<&SendData>, recv: &RecvData) -> Result<()> {
    let expected = recv.packed_len();
    match send.map(SendData::packed_len) {
        Some(given) if given != expected => Err(Error::PartLength { call, given, expected }),
        _ => Ok(()),
    }
}

/// Checks that the operation is defined for the type. `MPI_REPLACE` and `MPI_NO_OP` are only for windows.
fn check_op(op: &Op, datatype: &Datatype) -> Result<()> {
    match op.as_predefined() {
        Some(op @ (PredefinedOp::Replace | PredefinedOp::NoOp)) => {
            Err(Error::Undefined { op: op.name(), datatype: "collectives" })
        }
        _ => op.check(datatype),
    }
}

/// Checks that the operation is defined for the vector's type, and that `send`, if there is one, has `count` elements.
fn reducible(
    call: &'static str,
    send: Option<&SendData>,
    recv: &RecvData,
    (op, count): (&Op, u64),
) -> Result<()> {
    check_op(op, recv.datatype())?;
    send.map_or(Ok(()), |send| same_count(call, send.count(), count))
}
