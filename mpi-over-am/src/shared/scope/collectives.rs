//! Collectives of a scope of several threads (MPI 5.0 section 6.12). All tasks start those of one communicator in the same order;
//! several may be under way. Operators run inside other calls, and can make none.

use am_core::fabric::Fabric;
use bytemuck::{AnyBitPattern, NoUninit};

use super::{ScopedRequest, SharedScope};
use crate::collective::{Collective, Datum, LayoutPart, Neighbours, Placement, slices};
use crate::error::Result;
use crate::op::{Op, Operation};

impl<'scope, F: Fabric> SharedScope<'scope, '_, F> {
    /// The memory in `collective` was lent for `'scope`.
    fn begin_collective(&'scope self, collective: &Collective) -> Result<ScopedRequest<'scope>> {
        self.begin(|inside| inside.icollective_data(collective))
    }

    /// Starts a [barrier](crate::Communicator::barrier) (`MPI_Ibarrier`).
    ///
    /// # Errors
    /// What progress reports.
    pub fn ibarrier(&'scope self) -> Result<ScopedRequest<'scope>> {
        self.begin_collective(&Collective::Barrier)
    }

    /// Starts a [broadcast](crate::Communicator::broadcast) (`MPI_Ibcast`).
    ///
    /// # Errors
    /// As there.
    pub fn ibroadcast<T: Datum>(
        &'scope self,
        buffer: &'scope mut [T],
        root: u32,
    ) -> Result<ScopedRequest<'scope>> {
        self.begin_collective(&slices::broadcast(buffer, root)?)
    }

    /// Starts a [gather](crate::Communicator::gather) (`MPI_Igather`).
    ///
    /// # Errors
    /// As there.
    pub fn igather<T: Datum>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
        root: u32,
    ) -> Result<ScopedRequest<'scope>> {
        self.begin_collective(&slices::gather(self.communicator.place, send, recv, root)?)
    }

    /// Starts a [gatherv](crate::Communicator::gatherv) (`MPI_Igatherv`).
    ///
    /// # Errors
    /// As there.
    pub fn igatherv<T: Datum>(
        &'scope self,
        send: &'scope [T],
        (recv, placement): (&'scope mut [T], Placement<'_>),
        root: u32,
    ) -> Result<ScopedRequest<'scope>> {
        self.begin_collective(&slices::gatherv(self.communicator.place, send, (recv, placement), root)?)
    }

    /// Starts a [scatter](crate::Communicator::scatter) (`MPI_Iscatter`).
    ///
    /// # Errors
    /// As there.
    pub fn iscatter<T: Datum>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
        root: u32,
    ) -> Result<ScopedRequest<'scope>> {
        self.begin_collective(&slices::scatter(self.communicator.place, send, recv, root)?)
    }

    /// Starts a [scatterv](crate::Communicator::scatterv) (`MPI_Iscatterv`).
    ///
    /// # Errors
    /// As there.
    pub fn iscatterv<T: Datum>(
        &'scope self,
        (send, placement): (&'scope [T], Placement<'_>),
        recv: &'scope mut [T],
        root: u32,
    ) -> Result<ScopedRequest<'scope>> {
        self.begin_collective(&slices::scatterv(self.communicator.place, (send, placement), recv, root)?)
    }

    /// Starts an [allgather](crate::Communicator::allgather) (`MPI_Iallgather`).
    ///
    /// # Errors
    /// As there.
    pub fn iallgather<T: Datum>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
    ) -> Result<ScopedRequest<'scope>> {
        self.begin_collective(&slices::allgather(send, recv)?)
    }

    /// Starts an [allgatherv](crate::Communicator::allgatherv) (`MPI_Iallgatherv`).
    ///
    /// # Errors
    /// As there.
    pub fn iallgatherv<T: Datum>(
        &'scope self,
        send: &'scope [T],
        (recv, placement): (&'scope mut [T], Placement<'_>),
    ) -> Result<ScopedRequest<'scope>> {
        self.begin_collective(&slices::allgatherv(send, (recv, placement))?)
    }

    /// Starts an [alltoall](crate::Communicator::alltoall) (`MPI_Ialltoall`).
    ///
    /// # Errors
    /// As there.
    pub fn ialltoall<T: Datum>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
    ) -> Result<ScopedRequest<'scope>> {
        self.begin_collective(&slices::alltoall(self.communicator.place, send, recv)?)
    }

    /// Starts an [alltoallv](crate::Communicator::alltoallv) (`MPI_Ialltoallv`).
    ///
    /// # Errors
    /// As there.
    pub fn ialltoallv<T: Datum>(
        &'scope self,
        (send, from): (&'scope [T], Placement<'_>),
        (recv, to): (&'scope mut [T], Placement<'_>),
    ) -> Result<ScopedRequest<'scope>> {
        self.begin_collective(&slices::alltoallv((send, from), (recv, to))?)
    }

    /// Starts an [alltoallw](crate::Communicator::alltoallw) (`MPI_Ialltoallw`).
    ///
    /// # Errors
    /// As there.
    pub fn ialltoallw<T: NoUninit, U: AnyBitPattern>(
        &'scope self,
        (send, from): (&'scope [T], &[LayoutPart<'_>]),
        (recv, to): (&'scope mut [U], &[LayoutPart<'_>]),
    ) -> Result<ScopedRequest<'scope>> {
        self.begin_collective(&slices::alltoallw((send, from), (recv, to))?)
    }

    /// Starts a [reduce](crate::Communicator::reduce) (`MPI_Ireduce`).
    ///
    /// # Errors
    /// As there.
    pub fn ireduce<T: Datum>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
        op: impl Operation<T> + Send + Sync + 'static,
        root: u32,
    ) -> Result<ScopedRequest<'scope>> {
        self.begin_collective(&slices::reduce(
            self.communicator.place,
            send,
            recv,
            Op::from_operation(op),
            root,
        )?)
    }

    /// Starts an [allreduce](crate::Communicator::allreduce) (`MPI_Iallreduce`).
    ///
    /// # Errors
    /// As there.
    pub fn iallreduce<T: Datum>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
        op: impl Operation<T> + Send + Sync + 'static,
    ) -> Result<ScopedRequest<'scope>> {
        self.begin_collective(&slices::allreduce(send, recv, Op::from_operation(op))?)
    }

    /// Starts a [reduce_scatter_block](crate::Communicator::reduce_scatter_block) (`MPI_Ireduce_scatter_block`).
    ///
    /// # Errors
    /// As there.
    pub fn ireduce_scatter_block<T: Datum>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
        op: impl Operation<T> + Send + Sync + 'static,
    ) -> Result<ScopedRequest<'scope>> {
        self.begin_collective(&slices::reduce_scatter_block(send, recv, Op::from_operation(op))?)
    }

    /// Starts a [reduce_scatter](crate::Communicator::reduce_scatter) (`MPI_Ireduce_scatter`).
    ///
    /// # Errors
    /// As there.
    pub fn ireduce_scatter<T: Datum>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
        counts: &[usize],
        op: impl Operation<T> + Send + Sync + 'static,
    ) -> Result<ScopedRequest<'scope>> {
        self.begin_collective(&slices::reduce_scatter(
            self.communicator.place,
            send,
            recv,
            (counts, Op::from_operation(op)),
        )?)
    }

    /// Starts a [scan](crate::Communicator::scan) (`MPI_Iscan`).
    ///
    /// # Errors
    /// As there.
    pub fn iscan<T: Datum>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
        op: impl Operation<T> + Send + Sync + 'static,
    ) -> Result<ScopedRequest<'scope>> {
        self.begin_collective(&slices::scan(send, recv, Op::from_operation(op))?)
    }

    /// Starts an [exscan](crate::Communicator::exscan) (`MPI_Iexscan`).
    ///
    /// # Errors
    /// As there.
    pub fn iexscan<T: Datum>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
        op: impl Operation<T> + Send + Sync + 'static,
    ) -> Result<ScopedRequest<'scope>> {
        self.begin_collective(&slices::exscan(send, recv, Op::from_operation(op))?)
    }

    /// Starts a [neighbor_allgather](crate::Communicator::neighbor_allgather) (`MPI_Ineighbor_allgather`).
    ///
    /// # Errors
    /// As there.
    pub fn ineighbor_allgather<T: Datum>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
        neighbours: &Neighbours,
    ) -> Result<ScopedRequest<'scope>> {
        self.begin_collective(&slices::neighbor_allgather(send, recv, neighbours)?)
    }

    /// Starts a [neighbor_alltoall](crate::Communicator::neighbor_alltoall) (`MPI_Ineighbor_alltoall`).
    ///
    /// # Errors
    /// As there.
    pub fn ineighbor_alltoall<T: Datum>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
        neighbours: &Neighbours,
    ) -> Result<ScopedRequest<'scope>> {
        self.begin_collective(&slices::neighbor_alltoall(send, recv, neighbours)?)
    }

    /// Starts a [neighbor_alltoallw](crate::Communicator::neighbor_alltoallw) (`MPI_Ineighbor_alltoallw`).
    ///
    /// # Errors
    /// As there.
    pub fn ineighbor_alltoallw<T: NoUninit, U: AnyBitPattern>(
        &'scope self,
        (send, from): (&'scope [T], &[LayoutPart<'_>]),
        (recv, to): (&'scope mut [U], &[LayoutPart<'_>]),
        neighbours: &Neighbours,
    ) -> Result<ScopedRequest<'scope>> {
        self.begin_collective(&slices::neighbor_alltoallw((send, from), (recv, to), neighbours)?)
    }
}
