//! Collectives that do not wait, on borrowed slices, inside a scope (MPI 5.0 section 6.12). All tasks start them in the same
//! order; several may be under way. Operators run inside other calls, and can make none.

use am_core::fabric::Fabric;

use super::typed::{Placement, element_type};
use super::{Collective, Datum, Parts, Series};
use crate::buffer::{RecvData, SendData, lend_elements_mut_to_scope, lend_elements_to_scope};
use crate::error::Result;
use crate::op::{Op, Operation};
use crate::request::{Request, Scope};

impl<'scope, F: Fabric> Scope<'scope, '_, F> {
    fn begin(&'scope self, collective: &Collective) -> Result<Request<'scope>> {
        self.begin_of(Series::Started, collective)
    }

    fn begin_of(&'scope self, series: Series, collective: &Collective) -> Result<Request<'scope>> {
        let id = self.communicator().start_collective(collective, series, self.number())?;
        Ok(self.opened(id))
    }

    fn lend<T: Datum>(&'scope self, data: &'scope [T]) -> Result<SendData> {
        lend_elements_to_scope(self, data, (data.len() as u64, &element_type::<T>()?))
    }

    fn lend_room<T: Datum>(&'scope self, data: &'scope mut [T]) -> Result<RecvData> {
        let count = data.len() as u64;
        lend_elements_mut_to_scope(self, data, (count, &element_type::<T>()?))
    }

    fn is_root(&self, root: u32) -> bool {
        self.communicator().place().is_root(root)
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
    /// As for the broadcast.
    pub fn ibroadcast<T: Datum>(&'scope self, buffer: &'scope mut [T], root: u32) -> Result<Request<'scope>> {
        let data = self.lend_room(buffer)?;
        self.begin(&Collective::Broadcast { data, root })
    }

    /// Starts a [gather](crate::Communicator::gather) (`MPI_Igather`).
    ///
    /// # Errors
    /// As for the gather.
    pub fn igather<T: Datum>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
        root: u32,
    ) -> Result<Request<'scope>> {
        let count = send.len() as u64;
        let recv = match self.is_root(root) {
            true => Some(Parts::Equal { all: self.lend_room(recv)?, count }),
            false => None,
        };
        self.begin(&Collective::Gather { send: Some(self.lend(send)?), recv, root })
    }

    /// Starts a [gatherv](crate::Communicator::gatherv) (`MPI_Igatherv`).
    ///
    /// # Errors
    /// As for the gatherv.
    pub fn igatherv<T: Datum>(
        &'scope self,
        send: &'scope [T],
        (recv, placement): (&'scope mut [T], Placement<'_>),
        root: u32,
    ) -> Result<Request<'scope>> {
        let recv = match self.is_root(root) {
            true => Some(self.placed_room("igatherv", recv, placement)?),
            false => None,
        };
        self.begin(&Collective::Gather { send: Some(self.lend(send)?), recv, root })
    }

    /// Starts a [scatter](crate::Communicator::scatter) (`MPI_Iscatter`).
    ///
    /// # Errors
    /// As for the scatter.
    pub fn iscatter<T: Datum>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
        root: u32,
    ) -> Result<Request<'scope>> {
        let count = recv.len() as u64;
        let send = match self.is_root(root) {
            true => Some(Parts::Equal { all: self.lend(send)?, count }),
            false => None,
        };
        self.begin(&Collective::Scatter { send, recv: Some(self.lend_room(recv)?), root })
    }

    /// Starts an [allgather](crate::Communicator::allgather) (`MPI_Iallgather`).
    ///
    /// # Errors
    /// As for the allgather.
    pub fn iallgather<T: Datum>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
    ) -> Result<Request<'scope>> {
        let recv = Parts::Equal { all: self.lend_room(recv)?, count: send.len() as u64 };
        self.begin(&Collective::Allgather { send: Some(self.lend(send)?), recv })
    }

    /// Starts an [alltoall](crate::Communicator::alltoall) (`MPI_Ialltoall`).
    ///
    /// # Errors
    /// As for the alltoall.
    pub fn ialltoall<T: Datum>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
    ) -> Result<Request<'scope>> {
        self.begin(&self.to_all(send, recv)?)
    }

    /// An [`ialltoall`](Self::ialltoall) of the library's own: what tasks tell each other of their lanes.
    pub(super) fn tell_of_lanes<T: Datum>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
    ) -> Result<Request<'scope>> {
        self.begin_of(Series::Lanes, &self.to_all(send, recv)?)
    }

    fn to_all<T: Datum>(&'scope self, send: &'scope [T], recv: &'scope mut [T]) -> Result<Collective> {
        let count = (send.len() / self.communicator().place().partners()) as u64;
        let send = Parts::Equal { all: self.lend(send)?, count };
        let recv = Parts::Equal { all: self.lend_room(recv)?, count };
        Ok(Collective::Alltoall { send: Some(send), recv })
    }

    /// Starts an [alltoallv](crate::Communicator::alltoallv) (`MPI_Ialltoallv`).
    ///
    /// # Errors
    /// As for the alltoallv.
    pub fn ialltoallv<T: Datum>(
        &'scope self,
        (send, from): (&'scope [T], Placement<'_>),
        (recv, to): (&'scope mut [T], Placement<'_>),
    ) -> Result<Request<'scope>> {
        let all = self.lend(send)?;
        let send =
            Some(from.of("ialltoallv: the send buffer", all.count(), |first, count| all.part(first, count))?);
        let recv = self.placed_room("ialltoallv: the receive buffer", recv, to)?;
        self.begin(&Collective::Alltoall { send, recv })
    }

    /// Starts a [reduction](crate::Communicator::reduce) (`MPI_Ireduce`).
    ///
    /// # Errors
    /// As for the reduction.
    pub fn ireduce<T: Datum>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
        op: impl Operation<T> + Send + Sync + 'static,
        root: u32,
    ) -> Result<Request<'scope>> {
        let recv = if self.is_root(root) { Some(self.lend_room(recv)?) } else { None };
        let (send, op) = (Some(self.lend(send)?), Op::from_operation(op));
        self.begin(&Collective::Reduce { send, recv, op, root })
    }

    /// Starts an [allreduce](crate::Communicator::allreduce) (`MPI_Iallreduce`).
    ///
    /// # Errors
    /// As for the allreduce.
    pub fn iallreduce<T: Datum>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
        op: impl Operation<T> + Send + Sync + 'static,
    ) -> Result<Request<'scope>> {
        let (send, recv, op) = (Some(self.lend(send)?), self.lend_room(recv)?, Op::from_operation(op));
        self.begin(&Collective::Allreduce { send, recv, op })
    }

    /// Starts a [reduction to blocks](crate::Communicator::reduce_scatter_block) (`MPI_Ireduce_scatter_block`).
    ///
    /// # Errors
    /// As for the reduction.
    pub fn ireduce_scatter_block<T: Datum>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
        op: impl Operation<T> + Send + Sync + 'static,
    ) -> Result<Request<'scope>> {
        let count = recv.len() as u64;
        let (send, recv, op) = (Some(self.lend(send)?), self.lend_room(recv)?, Op::from_operation(op));
        self.begin(&Collective::ReduceScatterBlock { send, recv, count, op })
    }

    /// Starts a [scan](crate::Communicator::scan) (`MPI_Iscan`).
    ///
    /// # Errors
    /// As for the scan.
    pub fn iscan<T: Datum>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
        op: impl Operation<T> + Send + Sync + 'static,
    ) -> Result<Request<'scope>> {
        let (send, recv, op) = (Some(self.lend(send)?), self.lend_room(recv)?, Op::from_operation(op));
        self.begin(&Collective::Scan { send, recv, op })
    }

    /// Starts an [exscan](crate::Communicator::exscan) (`MPI_Iexscan`).
    ///
    /// # Errors
    /// As for the exscan.
    pub fn iexscan<T: Datum>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
        op: impl Operation<T> + Send + Sync + 'static,
    ) -> Result<Request<'scope>> {
        let (send, recv, op) = (Some(self.lend(send)?), self.lend_room(recv)?, Op::from_operation(op));
        self.begin(&Collective::ExclusiveScan { send, recv, op })
    }

    fn placed_room<T: Datum>(
        &'scope self,
        call: &'static str,
        recv: &'scope mut [T],
        placement: Placement<'_>,
    ) -> Result<Parts<RecvData>> {
        let all = self.lend_room(recv)?;
        placement.of(call, all.count(), |first, count| all.part(first, count))
    }
}
