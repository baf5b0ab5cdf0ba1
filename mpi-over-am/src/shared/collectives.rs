//! Collectives of several threads: as those of [`Communicator`](crate::Communicator), with messages, in turns. Operators run inside
//! other calls, and can make none.

use am_core::fabric::Fabric;

use super::communicator::Handle;
use super::{SharedCommunicator, SharedRequest};
use crate::buffer::RecvData;
use crate::collective::{Collective, Datum, Parts, Placement, elements, placed_elements, placed_room, room};
use crate::error::{Error, Result};
use crate::op::{Op, Operation};

impl<F: Fabric> SharedCommunicator<F> {
    /// The memory in `collective` is borrowed by the caller; nothing uses it any more when this returns or unwinds.
    fn carry_out(&self, collective: &Collective) -> Result<()> {
        let Handle { shared, number } = &*self.handle;
        shared.inner.carry_out(*number, |inside| inside.begin_collective_data(collective)).map(|_| ())
    }

    /// As [`Communicator::barrier`](crate::Communicator::barrier).
    ///
    /// # Errors
    /// As there.
    pub fn barrier(&self) -> Result<()> {
        self.carry_out(&Collective::Barrier)
    }

    /// As [`Communicator::broadcast`](crate::Communicator::broadcast).
    ///
    /// # Errors
    /// As there.
    pub fn broadcast<T: Datum>(&self, buffer: &mut [T], root: u32) -> Result<()> {
        self.carry_out(&Collective::Broadcast { data: room(buffer)?, root })
    }

    /// As [`Communicator::gather`](crate::Communicator::gather).
    ///
    /// # Errors
    /// As there.
    pub fn gather<T: Datum>(&self, send: &[T], recv: &mut [T], root: u32) -> Result<()> {
        let count = send.len() as u64;
        let recv = if self.rank() == root { Some(Parts::Equal { all: room(recv)?, count }) } else { None };
        self.carry_out(&Collective::Gather { send: Some(elements(send)?), recv, root })
    }

    /// As [`Communicator::gatherv`](crate::Communicator::gatherv).
    ///
    /// # Errors
    /// As there.
    pub fn gatherv<T: Datum>(
        &self,
        send: &[T],
        (recv, placement): (&mut [T], Placement<'_>),
        root: u32,
    ) -> Result<()> {
        let recv = if self.rank() == root { Some(placed_room("gatherv", recv, placement)?) } else { None };
        self.carry_out(&Collective::Gather { send: Some(elements(send)?), recv, root })
    }

    /// As [`Communicator::scatter`](crate::Communicator::scatter).
    ///
    /// # Errors
    /// As there.
    pub fn scatter<T: Datum>(&self, send: &[T], recv: &mut [T], root: u32) -> Result<()> {
        let count = recv.len() as u64;
        let send =
            if self.rank() == root { Some(Parts::Equal { all: elements(send)?, count }) } else { None };
        self.carry_out(&Collective::Scatter { send, recv: Some(room(recv)?), root })
    }

    /// As [`Communicator::scatterv`](crate::Communicator::scatterv).
    ///
    /// # Errors
    /// As there.
    pub fn scatterv<T: Datum>(
        &self,
        (send, placement): (&[T], Placement<'_>),
        recv: &mut [T],
        root: u32,
    ) -> Result<()> {
        let send =
            if self.rank() == root { Some(placed_elements("scatterv", send, placement)?) } else { None };
        self.carry_out(&Collective::Scatter { send, recv: Some(room(recv)?), root })
    }

    /// As [`Communicator::allgather`](crate::Communicator::allgather).
    ///
    /// # Errors
    /// As there.
    pub fn allgather<T: Datum>(&self, send: &[T], recv: &mut [T]) -> Result<()> {
        let recv = Parts::Equal { all: room(recv)?, count: send.len() as u64 };
        self.carry_out(&Collective::Allgather { send: Some(elements(send)?), recv })
    }

    /// As [`Communicator::allgatherv`](crate::Communicator::allgatherv).
    ///
    /// # Errors
    /// As there.
    pub fn allgatherv<T: Datum>(
        &self,
        send: &[T],
        (recv, placement): (&mut [T], Placement<'_>),
    ) -> Result<()> {
        let recv = placed_room("allgatherv", recv, placement)?;
        self.carry_out(&Collective::Allgather { send: Some(elements(send)?), recv })
    }

    /// As [`Communicator::alltoall`](crate::Communicator::alltoall).
    ///
    /// # Errors
    /// As there.
    pub fn alltoall<T: Datum>(&self, send: &[T], recv: &mut [T]) -> Result<()> {
        let count = (send.len() / self.size() as usize) as u64;
        let send = Some(Parts::Equal { all: elements(send)?, count });
        let recv = Parts::Equal { all: room(recv)?, count };
        self.carry_out(&Collective::Alltoall { send, recv })
    }

    /// As [`Communicator::alltoallv`](crate::Communicator::alltoallv).
    ///
    /// # Errors
    /// As there.
    pub fn alltoallv<T: Datum>(
        &self,
        (send, from): (&[T], Placement<'_>),
        (recv, to): (&mut [T], Placement<'_>),
    ) -> Result<()> {
        let send = Some(placed_elements("alltoallv: the send buffer", send, from)?);
        let recv = placed_room("alltoallv: the receive buffer", recv, to)?;
        self.carry_out(&Collective::Alltoall { send, recv })
    }

    /// As [`Communicator::reduce`](crate::Communicator::reduce).
    ///
    /// # Errors
    /// As there.
    pub fn reduce<T: Datum>(
        &self,
        send: &[T],
        recv: &mut [T],
        op: impl Operation<T> + Send + Sync + 'static,
        root: u32,
    ) -> Result<()> {
        let recv = if self.rank() == root { Some(room(recv)?) } else { None };
        let op = Op::from_operation(op);
        self.carry_out(&Collective::Reduce { send: Some(elements(send)?), recv, op, root })
    }

    /// As [`Communicator::allreduce`](crate::Communicator::allreduce).
    ///
    /// # Errors
    /// As there.
    pub fn allreduce<T: Datum>(
        &self,
        send: &[T],
        recv: &mut [T],
        op: impl Operation<T> + Send + Sync + 'static,
    ) -> Result<()> {
        if send.len() != recv.len() {
            let (given, expected) = (recv.len(), send.len());
            return Err(Error::Count { call: "allreduce: the receive buffer", given, expected });
        }
        let (send, recv, op) = (Some(elements(send)?), room(recv)?, Op::from_operation(op));
        self.carry_out(&Collective::Allreduce { send, recv, op })
    }

    /// As [`Communicator::allreduce_in_place`](crate::Communicator::allreduce_in_place).
    ///
    /// # Errors
    /// As there.
    pub fn allreduce_in_place<T: Datum>(
        &self,
        buffer: &mut [T],
        op: impl Operation<T> + Send + Sync + 'static,
    ) -> Result<()> {
        self.carry_out(&allreduce_of(room(buffer)?, op))
    }

    /// As [`Communicator::reduce_scatter_block`](crate::Communicator::reduce_scatter_block).
    ///
    /// # Errors
    /// As there.
    pub fn reduce_scatter_block<T: Datum>(
        &self,
        send: &[T],
        recv: &mut [T],
        op: impl Operation<T> + Send + Sync + 'static,
    ) -> Result<()> {
        let (count, op) = (recv.len() as u64, Op::from_operation(op));
        let (send, recv) = (Some(elements(send)?), room(recv)?);
        self.carry_out(&Collective::ReduceScatterBlock { send, recv, count, op })
    }

    /// As [`Communicator::scan`](crate::Communicator::scan).
    ///
    /// # Errors
    /// As there.
    pub fn scan<T: Datum>(
        &self,
        send: &[T],
        recv: &mut [T],
        op: impl Operation<T> + Send + Sync + 'static,
    ) -> Result<()> {
        let (send, recv, op) = (Some(elements(send)?), room(recv)?, Op::from_operation(op));
        self.carry_out(&Collective::Scan { send, recv, op })
    }

    /// As [`Communicator::exscan`](crate::Communicator::exscan).
    ///
    /// # Errors
    /// As there.
    pub fn exscan<T: Datum>(
        &self,
        send: &[T],
        recv: &mut [T],
        op: impl Operation<T> + Send + Sync + 'static,
    ) -> Result<()> {
        let (send, recv, op) = (Some(elements(send)?), room(recv)?, Op::from_operation(op));
        self.carry_out(&Collective::ExclusiveScan { send, recv, op })
    }

    /// Starts a barrier (`MPI_Ibarrier`). All tasks start their collectives of one communicator in the same order.
    ///
    /// # Errors
    /// What progress reports.
    pub fn ibarrier(&self) -> Result<SharedRequest<(), F>> {
        self.start(Vec::new(), |_| Collective::Barrier)
    }

    /// Starts a broadcast of `buffer`, which comes back with the wait (`MPI_Ibcast`).
    ///
    /// # Errors
    /// As for [`broadcast`](Self::broadcast).
    pub fn ibroadcast_owned<T: Datum + Send>(
        &self,
        buffer: Vec<T>,
        root: u32,
    ) -> Result<SharedRequest<T, F>> {
        self.start(buffer, |data| Collective::Broadcast { data, root })
    }

    /// Starts an [`allreduce_in_place`](Self::allreduce_in_place) in `buffer`, which comes back with the wait (`MPI_Iallreduce`).
    ///
    /// # Errors
    /// As there.
    pub fn iallreduce_owned<T: Datum + Send>(
        &self,
        buffer: Vec<T>,
        op: impl Operation<T> + Send + Sync + 'static,
    ) -> Result<SharedRequest<T, F>> {
        self.start(buffer, |recv| allreduce_of(recv, op))
    }

    fn start<T: Datum + Send>(
        &self,
        buffer: Vec<T>,
        collective: impl FnOnce(RecvData) -> Collective,
    ) -> Result<SharedRequest<T, F>> {
        let Handle { shared, number } = &*self.handle;
        let id = shared.inner.with(*number, |inside| inside.start_collective_owned(buffer, collective))?;
        Ok(SharedRequest::new(&self.handle, id))
    }
}

fn allreduce_of<T: Datum>(recv: RecvData, op: impl Operation<T> + Send + Sync + 'static) -> Collective {
    Collective::Allreduce { send: None, recv, op: Op::from_operation(op) }
}
