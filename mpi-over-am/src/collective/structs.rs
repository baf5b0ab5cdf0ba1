//! The collectives that hand data on, for structs that derive [`Equivalence`].

use am_core::fabric::Fabric;

use super::slices;
use crate::buffer::Equivalence;
use crate::communicator::Communicator;
use crate::error::Result;
use crate::policy::LockPolicy;

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// As [`broadcast`](Self::broadcast), of the fields of `values`.
    ///
    /// # Errors
    /// As there.
    pub fn broadcast_fields<T: Equivalence>(&self, values: &mut [T], root: u32) -> Result<()> {
        slices::broadcast_fields(values, root).run(self)
    }

    /// As [`gather`](Self::gather), of the fields of `send`. `recv` counts at the root.
    ///
    /// # Errors
    /// As there.
    pub fn gather_fields<T: Equivalence>(&self, send: &[T], recv: &mut [T], root: u32) -> Result<()> {
        slices::gather_fields(send, recv, root).run(self)
    }

    /// As [`scatter`](Self::scatter), of the fields of `send`, which counts at the root.
    ///
    /// # Errors
    /// As there.
    pub fn scatter_fields<T: Equivalence>(&self, send: &[T], recv: &mut [T], root: u32) -> Result<()> {
        slices::scatter_fields(send, recv, root).run(self)
    }

    /// As [`allgather`](Self::allgather), of the fields of `send`.
    ///
    /// # Errors
    /// As there.
    pub fn allgather_fields<T: Equivalence>(&self, send: &[T], recv: &mut [T]) -> Result<()> {
        slices::allgather_fields(send, recv).run(self)
    }

    /// As [`alltoall`](Self::alltoall), of the fields of `send`.
    ///
    /// # Errors
    /// As there.
    pub fn alltoall_fields<T: Equivalence>(&self, send: &[T], recv: &mut [T]) -> Result<()> {
        slices::alltoall_fields(send, recv).run(self)
    }
}
