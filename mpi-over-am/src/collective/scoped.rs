//! Collectives that do not wait, on borrowed slices, inside a scope (MPI 5.0 section 6.12). All tasks start them in the same
//! order; several may be under way. Operators run inside other calls, and can make none.

use am_core::fabric::Fabric;
use bytemuck::{AnyBitPattern, NoUninit};

use super::slices::{self, Place};
use super::typed::Placement;
use super::{Collective, Datum, LayoutPart, Neighbours, Series};
use crate::error::Result;
use crate::op::{Op, Operation};
use crate::policy::LockPolicy;
use crate::request::{Request, Scope};

impl<'scope, F: Fabric, L: LockPolicy> Scope<'scope, '_, F, L> {
    /// The memory in `collective` was lent for `'scope`.
    fn begin(&'scope self, collective: &Collective) -> Result<Request<'scope>> {
        self.begin_of(Series::Started, collective)
    }

    fn begin_of(&'scope self, series: Series, collective: &Collective) -> Result<Request<'scope>> {
        let id = self.communicator().start_collective(collective, series, self.number())?;
        Ok(self.opened(id))
    }

    /// An [`ialltoall`](Self::ialltoall) of the library's own: what tasks tell each other of their lanes.
    pub(super) fn tell_of_lanes<T: Datum>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
    ) -> Result<Request<'scope>> {
        self.begin_of(Series::Lanes, &slices::alltoall(self.place(), send, recv)?)
    }

    fn place(&self) -> Place {
        self.communicator().place()
    }

    /// Starts a [barrier](crate::Communicator::barrier) (`MPI_Ibarrier`).
    ///
    /// # Errors
    /// What progress reports.
    pub fn ibarrier(&'scope self) -> Result<Request<'scope>> {
        self.begin(&Collective::Barrier)
    }

    /// Starts a [broadcast](crate::Communicator::broadcast) (`MPI_Ibcast`).
    ///
    /// # Errors
    /// As there.
    pub fn ibroadcast<T: Datum>(&'scope self, buffer: &'scope mut [T], root: u32) -> Result<Request<'scope>> {
        self.begin(&slices::broadcast(buffer, root)?)
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
    ) -> Result<Request<'scope>> {
        self.begin(&slices::gather(self.place(), send, recv, root)?)
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
    ) -> Result<Request<'scope>> {
        self.begin(&slices::gatherv(self.place(), send, (recv, placement), root)?)
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
    ) -> Result<Request<'scope>> {
        self.begin(&slices::scatter(self.place(), send, recv, root)?)
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
    ) -> Result<Request<'scope>> {
        self.begin(&slices::scatterv(self.place(), (send, placement), recv, root)?)
    }

    /// Starts an [allgather](crate::Communicator::allgather) (`MPI_Iallgather`).
    ///
    /// # Errors
    /// As there.
    pub fn iallgather<T: Datum>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
    ) -> Result<Request<'scope>> {
        self.begin(&slices::allgather(send, recv)?)
    }

    /// Starts an [allgatherv](crate::Communicator::allgatherv) (`MPI_Iallgatherv`).
    ///
    /// # Errors
    /// As there.
    pub fn iallgatherv<T: Datum>(
        &'scope self,
        send: &'scope [T],
        (recv, placement): (&'scope mut [T], Placement<'_>),
    ) -> Result<Request<'scope>> {
        self.begin(&slices::allgatherv(send, (recv, placement))?)
    }

    /// Starts an [alltoall](crate::Communicator::alltoall) (`MPI_Ialltoall`).
    ///
    /// # Errors
    /// As there.
    pub fn ialltoall<T: Datum>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
    ) -> Result<Request<'scope>> {
        self.begin(&slices::alltoall(self.place(), send, recv)?)
    }

    /// Starts an [alltoallv](crate::Communicator::alltoallv) (`MPI_Ialltoallv`).
    ///
    /// # Errors
    /// As there.
    pub fn ialltoallv<T: Datum>(
        &'scope self,
        (send, from): (&'scope [T], Placement<'_>),
        (recv, to): (&'scope mut [T], Placement<'_>),
    ) -> Result<Request<'scope>> {
        self.begin(&slices::alltoallv((send, from), (recv, to))?)
    }

    /// Starts an [alltoallw](crate::Communicator::alltoallw) (`MPI_Ialltoallw`).
    ///
    /// # Errors
    /// As there.
    pub fn ialltoallw<T: NoUninit, U: AnyBitPattern>(
        &'scope self,
        (send, from): (&'scope [T], &[LayoutPart<'_>]),
        (recv, to): (&'scope mut [U], &[LayoutPart<'_>]),
    ) -> Result<Request<'scope>> {
        self.begin(&slices::alltoallw((send, from), (recv, to))?)
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
    ) -> Result<Request<'scope>> {
        self.begin(&slices::reduce(self.place(), send, recv, Op::from_operation(op), root)?)
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
    ) -> Result<Request<'scope>> {
        self.begin(&slices::allreduce(send, recv, Op::from_operation(op))?)
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
    ) -> Result<Request<'scope>> {
        self.begin(&slices::reduce_scatter_block(send, recv, Op::from_operation(op))?)
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
    ) -> Result<Request<'scope>> {
        self.begin(&slices::reduce_scatter(self.place(), send, recv, (counts, Op::from_operation(op)))?)
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
    ) -> Result<Request<'scope>> {
        self.begin(&slices::scan(send, recv, Op::from_operation(op))?)
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
    ) -> Result<Request<'scope>> {
        self.begin(&slices::exscan(send, recv, Op::from_operation(op))?)
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
    ) -> Result<Request<'scope>> {
        self.begin(&slices::neighbor_allgather(send, recv, neighbours)?)
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
    ) -> Result<Request<'scope>> {
        self.begin(&slices::neighbor_alltoall(send, recv, neighbours)?)
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
    ) -> Result<Request<'scope>> {
        self.begin(&slices::neighbor_alltoallw((send, from), (recv, to), neighbours)?)
    }
}
