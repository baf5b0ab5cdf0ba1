//! Collectives of several threads: as those of [`Communicator`](crate::Communicator), with messages, in turns. Operators run inside
//! other calls, and can make none.

use am_core::fabric::Fabric;
use bytemuck::{AnyBitPattern, NoUninit};

use super::communicator::Handle;
use super::{SharedCommunicator, SharedPersistent, SharedRequest};
use crate::buffer::Equivalence;
use crate::collective::{Collective, Datum, LayoutPart, Neighbours, Placement, slices};
use crate::error::Result;
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
        self.carry_out(&slices::broadcast(buffer, root)?)
    }

    /// As [`Communicator::gather`](crate::Communicator::gather).
    ///
    /// # Errors
    /// As there.
    pub fn gather<T: Datum>(&self, send: &[T], recv: &mut [T], root: u32) -> Result<()> {
        self.carry_out(&slices::gather(self.place, send, recv, root)?)
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
        self.carry_out(&slices::gatherv(self.place, send, (recv, placement), root)?)
    }

    /// As [`Communicator::scatter`](crate::Communicator::scatter).
    ///
    /// # Errors
    /// As there.
    pub fn scatter<T: Datum>(&self, send: &[T], recv: &mut [T], root: u32) -> Result<()> {
        self.carry_out(&slices::scatter(self.place, send, recv, root)?)
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
        self.carry_out(&slices::scatterv(self.place, (send, placement), recv, root)?)
    }

    /// As [`Communicator::allgather`](crate::Communicator::allgather).
    ///
    /// # Errors
    /// As there.
    pub fn allgather<T: Datum>(&self, send: &[T], recv: &mut [T]) -> Result<()> {
        self.carry_out(&slices::allgather(send, recv)?)
    }

    /// As [`Communicator::allgather_in_place`](crate::Communicator::allgather_in_place).
    ///
    /// # Errors
    /// As there.
    pub fn allgather_in_place<T: Datum>(&self, buffer: &mut [T]) -> Result<()> {
        self.carry_out(&slices::allgather_in_place(self.place, buffer)?)
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
        self.carry_out(&slices::allgatherv(send, (recv, placement))?)
    }

    /// As [`Communicator::alltoall`](crate::Communicator::alltoall).
    ///
    /// # Errors
    /// As there.
    pub fn alltoall<T: Datum>(&self, send: &[T], recv: &mut [T]) -> Result<()> {
        self.carry_out(&slices::alltoall(self.place, send, recv)?)
    }

    /// As [`Communicator::alltoall_in_place`](crate::Communicator::alltoall_in_place).
    ///
    /// # Errors
    /// As there.
    pub fn alltoall_in_place<T: Datum>(&self, buffer: &mut [T]) -> Result<()> {
        self.carry_out(&slices::alltoall_in_place(self.place, buffer)?)
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
        self.carry_out(&slices::alltoallv((send, from), (recv, to))?)
    }

    /// As [`Communicator::alltoallw`](crate::Communicator::alltoallw).
    ///
    /// # Errors
    /// As there.
    pub fn alltoallw<T: NoUninit, U: AnyBitPattern>(
        &self,
        (send, from): (&[T], &[LayoutPart<'_>]),
        (recv, to): (&mut [U], &[LayoutPart<'_>]),
    ) -> Result<()> {
        self.carry_out(&slices::alltoallw((send, from), (recv, to))?)
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
        self.carry_out(&slices::reduce(self.place, send, recv, Op::from_operation(op), root)?)
    }

    /// As [`Communicator::reduce_in_place`](crate::Communicator::reduce_in_place).
    ///
    /// # Errors
    /// As there.
    pub fn reduce_in_place<T: Datum>(
        &self,
        buffer: &mut [T],
        op: impl Operation<T> + Send + Sync + 'static,
        root: u32,
    ) -> Result<()> {
        self.carry_out(&slices::reduce_in_place(self.place, buffer, Op::from_operation(op), root)?)
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
        self.carry_out(&slices::allreduce(send, recv, Op::from_operation(op))?)
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
        self.carry_out(&slices::allreduce_in_place(buffer, Op::from_operation(op))?)
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
        self.carry_out(&slices::reduce_scatter_block(send, recv, Op::from_operation(op))?)
    }

    /// As [`Communicator::reduce_scatter`](crate::Communicator::reduce_scatter).
    ///
    /// # Errors
    /// As there.
    pub fn reduce_scatter<T: Datum>(
        &self,
        send: &[T],
        recv: &mut [T],
        counts: &[usize],
        op: impl Operation<T> + Send + Sync + 'static,
    ) -> Result<()> {
        self.carry_out(&slices::reduce_scatter(self.place, send, recv, (counts, Op::from_operation(op)))?)
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
        self.carry_out(&slices::scan(send, recv, Op::from_operation(op))?)
    }

    /// As [`Communicator::scan_in_place`](crate::Communicator::scan_in_place).
    ///
    /// # Errors
    /// As there.
    pub fn scan_in_place<T: Datum>(
        &self,
        buffer: &mut [T],
        op: impl Operation<T> + Send + Sync + 'static,
    ) -> Result<()> {
        self.carry_out(&slices::scan_in_place(buffer, Op::from_operation(op))?)
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
        self.carry_out(&slices::exscan(send, recv, Op::from_operation(op))?)
    }

    /// As [`Communicator::neighbor_allgather`](crate::Communicator::neighbor_allgather).
    ///
    /// # Errors
    /// As there.
    pub fn neighbor_allgather<T: Datum>(
        &self,
        send: &[T],
        recv: &mut [T],
        neighbours: &Neighbours,
    ) -> Result<()> {
        self.carry_out(&slices::neighbor_allgather(send, recv, neighbours)?)
    }

    /// As [`Communicator::neighbor_allgatherv`](crate::Communicator::neighbor_allgatherv).
    ///
    /// # Errors
    /// As there.
    pub fn neighbor_allgatherv<T: Datum>(
        &self,
        send: &[T],
        (recv, placement): (&mut [T], Placement<'_>),
        neighbours: &Neighbours,
    ) -> Result<()> {
        self.carry_out(&slices::neighbor_allgatherv(send, (recv, placement), neighbours)?)
    }

    /// As [`Communicator::neighbor_alltoall`](crate::Communicator::neighbor_alltoall).
    ///
    /// # Errors
    /// As there.
    pub fn neighbor_alltoall<T: Datum>(
        &self,
        send: &[T],
        recv: &mut [T],
        neighbours: &Neighbours,
    ) -> Result<()> {
        self.carry_out(&slices::neighbor_alltoall(send, recv, neighbours)?)
    }

    /// As [`Communicator::neighbor_alltoallv`](crate::Communicator::neighbor_alltoallv).
    ///
    /// # Errors
    /// As there.
    pub fn neighbor_alltoallv<T: Datum>(
        &self,
        (send, from): (&[T], Placement<'_>),
        (recv, to): (&mut [T], Placement<'_>),
        neighbours: &Neighbours,
    ) -> Result<()> {
        self.carry_out(&slices::neighbor_alltoallv((send, from), (recv, to), neighbours)?)
    }

    /// As [`Communicator::neighbor_alltoallw`](crate::Communicator::neighbor_alltoallw).
    ///
    /// # Errors
    /// As there.
    pub fn neighbor_alltoallw<T: NoUninit, U: AnyBitPattern>(
        &self,
        (send, from): (&[T], &[LayoutPart<'_>]),
        (recv, to): (&mut [U], &[LayoutPart<'_>]),
        neighbours: &Neighbours,
    ) -> Result<()> {
        self.carry_out(&slices::neighbor_alltoallw((send, from), (recv, to), neighbours)?)
    }

    /// As [`Communicator::broadcast_fields`](crate::Communicator::broadcast_fields).
    ///
    /// # Errors
    /// As there.
    pub fn broadcast_fields<T: Equivalence>(&self, values: &mut [T], root: u32) -> Result<()> {
        self.carry_out(&slices::broadcast_fields(values, root)?)
    }

    /// As [`Communicator::gather_fields`](crate::Communicator::gather_fields).
    ///
    /// # Errors
    /// As there.
    pub fn gather_fields<T: Equivalence>(&self, send: &[T], recv: &mut [T], root: u32) -> Result<()> {
        self.carry_out(&slices::gather_fields(self.place, send, recv, root)?)
    }

    /// As [`Communicator::scatter_fields`](crate::Communicator::scatter_fields).
    ///
    /// # Errors
    /// As there.
    pub fn scatter_fields<T: Equivalence>(&self, send: &[T], recv: &mut [T], root: u32) -> Result<()> {
        self.carry_out(&slices::scatter_fields(self.place, send, recv, root)?)
    }

    /// As [`Communicator::allgather_fields`](crate::Communicator::allgather_fields).
    ///
    /// # Errors
    /// As there.
    pub fn allgather_fields<T: Equivalence>(&self, send: &[T], recv: &mut [T]) -> Result<()> {
        self.carry_out(&slices::allgather_fields(self.place, send, recv)?)
    }

    /// As [`Communicator::alltoall_fields`](crate::Communicator::alltoall_fields).
    ///
    /// # Errors
    /// As there.
    pub fn alltoall_fields<T: Equivalence>(&self, send: &[T], recv: &mut [T]) -> Result<()> {
        self.carry_out(&slices::alltoall_fields(self.place, send, recv)?)
    }
}

/// Collectives that do not wait: what is sent lies where the result comes. All tasks start their collectives of one communicator in
/// the same order.
impl<F: Fabric> SharedCommunicator<F> {
    /// Starts a barrier (`MPI_Ibarrier`).
    ///
    /// # Errors
    /// What progress reports.
    pub fn ibarrier(&self) -> Result<SharedRequest<(), F>> {
        self.start(Vec::new(), |_| Ok(Collective::Barrier))
    }

    /// Starts a [`broadcast`](Self::broadcast) in `buffer`, which comes back with the wait (`MPI_Ibcast`).
    ///
    /// # Errors
    /// As there.
    pub fn ibroadcast_owned<T: Datum + Send>(
        &self,
        buffer: Vec<T>,
        root: u32,
    ) -> Result<SharedRequest<T, F>> {
        self.start(buffer, |buffer| slices::broadcast(buffer, root))
    }

    /// Starts an [`allgather_in_place`](Self::allgather_in_place) in `buffer`, which comes back with the wait (`MPI_Iallgather`).
    ///
    /// # Errors
    /// As there.
    pub fn iallgather_owned<T: Datum + Send>(&self, buffer: Vec<T>) -> Result<SharedRequest<T, F>> {
        self.start(buffer, |buffer| slices::allgather_in_place(self.place, buffer))
    }

    /// Starts an [`alltoall_in_place`](Self::alltoall_in_place) in `buffer`, which comes back with the wait (`MPI_Ialltoall`).
    ///
    /// # Errors
    /// As there.
    pub fn ialltoall_owned<T: Datum + Send>(&self, buffer: Vec<T>) -> Result<SharedRequest<T, F>> {
        self.start(buffer, |buffer| slices::alltoall_in_place(self.place, buffer))
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
        self.start(buffer, |buffer| slices::allreduce_in_place(buffer, Op::from_operation(op)))
    }

    /// Starts a [`reduce_in_place`](Self::reduce_in_place) in `buffer`, which comes back with the wait (`MPI_Ireduce`).
    ///
    /// # Errors
    /// As there.
    pub fn ireduce_owned<T: Datum + Send>(
        &self,
        buffer: Vec<T>,
        op: impl Operation<T> + Send + Sync + 'static,
        root: u32,
    ) -> Result<SharedRequest<T, F>> {
        self.start(buffer, |buffer| slices::reduce_in_place(self.place, buffer, Op::from_operation(op), root))
    }

    /// Starts a [`scan_in_place`](Self::scan_in_place) in `buffer`, which comes back with the wait (`MPI_Iscan`).
    ///
    /// # Errors
    /// As there.
    pub fn iscan_owned<T: Datum + Send>(
        &self,
        buffer: Vec<T>,
        op: impl Operation<T> + Send + Sync + 'static,
    ) -> Result<SharedRequest<T, F>> {
        self.start(buffer, |buffer| slices::scan_in_place(buffer, Op::from_operation(op)))
    }

    fn start<T: Datum + Send>(
        &self,
        mut buffer: Vec<T>,
        collective: impl FnOnce(&mut [T]) -> Result<Collective>,
    ) -> Result<SharedRequest<T, F>> {
        let Handle { shared, number } = &*self.handle;
        let collective = collective(&mut buffer)?;
        let id = shared.inner.with(*number, |inside| {
            let id = inside.icollective_data(&collective)?;
            inside.keep(id, buffer)
        })?;
        Ok(SharedRequest::new(&self.handle, id))
    }
}

/// Persistent collectives: what is sent lies where the result comes (MPI 5.0 section 6.13). All tasks make these calls in the same
/// order; they may start them in any order.
impl<F: Fabric> SharedCommunicator<F> {
    /// A persistent barrier (`MPI_Barrier_init`).
    ///
    /// # Errors
    /// What progress reports.
    pub fn barrier_init(&self) -> Result<SharedPersistent<u8, F>> {
        self.keep(Vec::new(), |_| Ok(Collective::Barrier))
    }

    /// A persistent [`broadcast`](Self::broadcast) (`MPI_Bcast_init`).
    ///
    /// # Errors
    /// As there.
    pub fn broadcast_init<T: Datum + Send>(
        &self,
        buffer: Vec<T>,
        root: u32,
    ) -> Result<SharedPersistent<T, F>> {
        self.keep(buffer, |buffer| slices::broadcast(buffer, root))
    }

    /// A persistent [`allgather_in_place`](Self::allgather_in_place) (`MPI_Allgather_init`).
    ///
    /// # Errors
    /// As there.
    pub fn allgather_init<T: Datum + Send>(&self, buffer: Vec<T>) -> Result<SharedPersistent<T, F>> {
        self.keep(buffer, |buffer| slices::allgather_in_place(self.place, buffer))
    }

    /// A persistent [`alltoall_in_place`](Self::alltoall_in_place) (`MPI_Alltoall_init`).
    ///
    /// # Errors
    /// As there.
    pub fn alltoall_init<T: Datum + Send>(&self, buffer: Vec<T>) -> Result<SharedPersistent<T, F>> {
        self.keep(buffer, |buffer| slices::alltoall_in_place(self.place, buffer))
    }

    /// A persistent [`allreduce_in_place`](Self::allreduce_in_place) (`MPI_Allreduce_init`).
    ///
    /// # Errors
    /// As there.
    pub fn allreduce_init<T: Datum + Send>(
        &self,
        buffer: Vec<T>,
        op: impl Operation<T> + Send + Sync + 'static,
    ) -> Result<SharedPersistent<T, F>> {
        self.keep(buffer, |buffer| slices::allreduce_in_place(buffer, Op::from_operation(op)))
    }

    /// A persistent [`reduce_in_place`](Self::reduce_in_place) (`MPI_Reduce_init`).
    ///
    /// # Errors
    /// As there.
    pub fn reduce_init<T: Datum + Send>(
        &self,
        buffer: Vec<T>,
        op: impl Operation<T> + Send + Sync + 'static,
        root: u32,
    ) -> Result<SharedPersistent<T, F>> {
        self.keep(buffer, |buffer| slices::reduce_in_place(self.place, buffer, Op::from_operation(op), root))
    }

    /// A persistent [`scan_in_place`](Self::scan_in_place) (`MPI_Scan_init`).
    ///
    /// # Errors
    /// As there.
    pub fn scan_init<T: Datum + Send>(
        &self,
        buffer: Vec<T>,
        op: impl Operation<T> + Send + Sync + 'static,
    ) -> Result<SharedPersistent<T, F>> {
        self.keep(buffer, |buffer| slices::scan_in_place(buffer, Op::from_operation(op)))
    }

    fn keep<T: Datum + Send>(
        &self,
        mut buffer: Vec<T>,
        collective: impl FnOnce(&mut [T]) -> Result<Collective>,
    ) -> Result<SharedPersistent<T, F>> {
        let collective = collective(&mut buffer)?;
        SharedPersistent::new(&self.handle, buffer, |inside| inside.collective_init_data(&collective))
    }
}
