//! Collectives of several threads: as those of [`Communicator`](crate::Communicator), with messages, in turns.

use am_core::fabric::Fabric;

use super::SharedCommunicator;
use super::communicator::Handle;
use crate::buffer::{RecvData, SendData, elements_to_keep, room_to_keep};
use crate::collective::{Collective, Datum, Parts, element_type};
use crate::error::{Error, Result};
use crate::op::{Op, Operation};

fn elements<T: Datum>(data: &[T]) -> Result<SendData> {
    Ok(elements_to_keep(data, &element_type::<T>()?))
}

fn room<T: Datum>(data: &mut [T]) -> Result<RecvData> {
    Ok(room_to_keep(data, &element_type::<T>()?))
}

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

    /// As [`Communicator::allgather`](crate::Communicator::allgather).
    ///
    /// # Errors
    /// As there.
    pub fn allgather<T: Datum>(&self, send: &[T], recv: &mut [T]) -> Result<()> {
        let recv = Parts::Equal { all: room(recv)?, count: send.len() as u64 };
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

    /// As [`Communicator::reduce`](crate::Communicator::reduce). The operator can make no call.
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

    /// As [`Communicator::allreduce`](crate::Communicator::allreduce). The operator can make no call.
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

    /// As [`Communicator::scan`](crate::Communicator::scan). The operator can make no call.
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
}
