//! Persistent collectives that own their buffer: what is sent lies where the result comes (MPI 5.0 section 6.13).

use am_core::fabric::Fabric;

use super::{Collective, Datum, slices};
use crate::communicator::Communicator;
use crate::error::Result;
use crate::op::{Op, Operation};
use crate::policy::LockPolicy;
use crate::request::Persistent;

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// A persistent [`barrier`](Self::barrier) (`MPI_Barrier_init`). All tasks make these calls in the same order.
    ///
    /// # Errors
    /// What progress reports.
    pub fn barrier_init(&self) -> Result<Persistent<u8, F, L>> {
        self.keep_in(Vec::new(), |_| Ok(Collective::Barrier))
    }

    /// A persistent [`broadcast`](Self::broadcast) (`MPI_Bcast_init`).
    ///
    /// # Errors
    /// An unknown root.
    pub fn broadcast_init<T: Datum + Send>(&self, buffer: Vec<T>, root: u32) -> Result<Persistent<T, F, L>> {
        self.keep_in(buffer, |buffer| slices::broadcast(buffer, root))
    }

    /// A persistent [`allgather_in_place`](Self::allgather_in_place) (`MPI_Allgather_init`).
    ///
    /// # Errors
    /// As for [`allgather`](Self::allgather).
    pub fn allgather_init<T: Datum + Send>(&self, buffer: Vec<T>) -> Result<Persistent<T, F, L>> {
        self.keep_in(buffer, |buffer| slices::allgather_in_place(self.place(), buffer))
    }

    /// A persistent [`alltoall_in_place`](Self::alltoall_in_place) (`MPI_Alltoall_init`).
    ///
    /// # Errors
    /// As for [`alltoall`](Self::alltoall).
    pub fn alltoall_init<T: Datum + Send>(&self, buffer: Vec<T>) -> Result<Persistent<T, F, L>> {
        self.keep_in(buffer, |buffer| slices::alltoall_in_place(self.place(), buffer))
    }

    /// A persistent [`allreduce_in_place`](Self::allreduce_in_place) (`MPI_Allreduce_init`).
    ///
    /// # Errors
    /// As for [`allreduce`](Self::allreduce).
    pub fn allreduce_init<T: Datum + Send>(
        &self,
        buffer: Vec<T>,
        op: impl Operation<T> + Send + Sync + 'static,
    ) -> Result<Persistent<T, F, L>> {
        self.keep_in(buffer, |buffer| slices::allreduce_in_place(buffer, Op::from_operation(op)))
    }

    /// A persistent [`reduce_in_place`](Self::reduce_in_place) (`MPI_Reduce_init`).
    ///
    /// # Errors
    /// As for [`reduce_in_place`](Self::reduce_in_place).
    pub fn reduce_init<T: Datum + Send>(
        &self,
        buffer: Vec<T>,
        op: impl Operation<T> + Send + Sync + 'static,
        root: u32,
    ) -> Result<Persistent<T, F, L>> {
        let op = Op::from_operation(op);
        self.keep_in(buffer, |buffer| slices::reduce_in_place(self.place(), buffer, op, root))
    }

    /// A persistent [`scan_in_place`](Self::scan_in_place) (`MPI_Scan_init`).
    ///
    /// # Errors
    /// As for [`scan`](Self::scan).
    pub fn scan_init<T: Datum + Send>(
        &self,
        buffer: Vec<T>,
        op: impl Operation<T> + Send + Sync + 'static,
    ) -> Result<Persistent<T, F, L>> {
        self.keep_in(buffer, |buffer| slices::scan_in_place(buffer, Op::from_operation(op)))
    }

    fn keep_in<T: Datum + Send>(
        &self,
        mut buffer: Vec<T>,
        collective: impl FnOnce(&mut [T]) -> Result<Collective>,
    ) -> Result<Persistent<T, F, L>> {
        let id = self.collective_init_data(&collective(&mut buffer)?)?;
        Ok(Persistent::of_request(self, id, buffer))
    }
}
