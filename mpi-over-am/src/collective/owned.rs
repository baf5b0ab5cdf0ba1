//! Collectives that do not wait and own their buffer: what is sent lies where the result comes. All tasks start their collectives of
//! one communicator in the same order.

use am_core::fabric::Fabric;

use super::{Collective, slices};
use crate::buffer::Datum;
use crate::communicator::Communicator;
use crate::error::Result;
use crate::op::{Op, Operation};
use crate::policy::LockPolicy;
use crate::request::OwnedRequest;

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Starts a barrier (`MPI_Ibarrier`).
    ///
    /// # Errors
    /// What progress reports.
    pub fn ibarrier(&self) -> Result<OwnedRequest<(), F, L>> {
        self.start_in(Vec::new(), |_| Ok(Collective::Barrier))
    }

    /// Starts a [`broadcast`](Self::broadcast) in `buffer`, which comes back with the wait (`MPI_Ibcast`).
    ///
    /// # Errors
    /// As for [`broadcast`](Self::broadcast).
    pub fn ibroadcast_owned<T: Datum + Send>(
        &self,
        buffer: Vec<T>,
        root: u32,
    ) -> Result<OwnedRequest<T, F, L>> {
        self.start_in(buffer, |buffer| slices::broadcast(buffer, root))
    }

    /// Starts an [`allgather_in_place`](Self::allgather_in_place) in `buffer`, which comes back with the wait (`MPI_Iallgather`).
    ///
    /// # Errors
    /// As for [`allgather_in_place`](Self::allgather_in_place).
    pub fn iallgather_owned<T: Datum + Send>(&self, buffer: Vec<T>) -> Result<OwnedRequest<T, F, L>> {
        self.start_in(buffer, |buffer| slices::allgather_in_place(self.place(), buffer))
    }

    /// Starts an [`alltoall_in_place`](Self::alltoall_in_place) in `buffer`, which comes back with the wait (`MPI_Ialltoall`).
    ///
    /// # Errors
    /// As for [`alltoall_in_place`](Self::alltoall_in_place).
    pub fn ialltoall_owned<T: Datum + Send>(&self, buffer: Vec<T>) -> Result<OwnedRequest<T, F, L>> {
        self.start_in(buffer, |buffer| slices::alltoall_in_place(self.place(), buffer))
    }

    /// Starts an [`allreduce_in_place`](Self::allreduce_in_place) in `buffer`, which comes back with the wait (`MPI_Iallreduce`).
    ///
    /// # Errors
    /// As for [`allreduce_in_place`](Self::allreduce_in_place).
    pub fn iallreduce_owned<T: Datum + Send>(
        &self,
        buffer: Vec<T>,
        op: impl Operation<T> + Send + Sync + 'static,
    ) -> Result<OwnedRequest<T, F, L>> {
        self.start_in(buffer, |buffer| slices::allreduce_in_place(buffer, Op::from_operation(op)))
    }

    /// Starts a [`reduce_in_place`](Self::reduce_in_place) in `buffer`, which comes back with the wait (`MPI_Ireduce`).
    ///
    /// # Errors
    /// As for [`reduce_in_place`](Self::reduce_in_place).
    pub fn ireduce_owned<T: Datum + Send>(
        &self,
        buffer: Vec<T>,
        op: impl Operation<T> + Send + Sync + 'static,
        root: u32,
    ) -> Result<OwnedRequest<T, F, L>> {
        let op = Op::from_operation(op);
        self.start_in(buffer, |buffer| slices::reduce_in_place(self.place(), buffer, op, root))
    }

    /// Starts a [`scan_in_place`](Self::scan_in_place) in `buffer`, which comes back with the wait (`MPI_Iscan`).
    ///
    /// # Errors
    /// As for [`scan_in_place`](Self::scan_in_place).
    pub fn iscan_owned<T: Datum + Send>(
        &self,
        buffer: Vec<T>,
        op: impl Operation<T> + Send + Sync + 'static,
    ) -> Result<OwnedRequest<T, F, L>> {
        self.start_in(buffer, |buffer| slices::scan_in_place(buffer, Op::from_operation(op)))
    }

    fn start_in<T: Datum + Send>(
        &self,
        mut buffer: Vec<T>,
        collective: impl FnOnce(&mut [T]) -> Result<Collective>,
    ) -> Result<OwnedRequest<T, F, L>> {
        let collective = collective(&mut buffer)?;
        let id = self.icollective_data(&collective)?;
        self.keep(id, buffer)
    }
}
