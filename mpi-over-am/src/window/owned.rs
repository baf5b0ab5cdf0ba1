//! Window operations that own their buffer; a wait returns the buffer (MPI 5.0 section 12.3.5).

use am_core::fabric::Fabric;
use bytemuck::{AnyBitPattern, NoUninit};

use super::transfer::Started;
use super::{Number, TargetData, Window};
use crate::data::buffer::{buffer_to_keep, bytes_to_keep};
use crate::data::op::PredefinedOp;
use crate::error::{Error, Result};
use crate::message::request_id::RequestId;
use crate::policy::LockPolicy;
use crate::request::OwnedRequest;
use mpi_datatype::{Datatype, Predefined};

impl<F: Fabric, L: LockPolicy> Window<F, L> {
    /// Starts a put of elements, which the wait returns (`MPI_Rput`). They are stored at the target at the end of the epoch, or after a
    /// flush.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    pub fn rput_owned<T: NoUninit + Send>(
        &self,
        from: Vec<T>,
        rank: u32,
        displacement: i64,
    ) -> Result<OwnedRequest<T, F, L>> {
        let (bytes, datatype) =
            (bytes_to_keep(&self.communicator, &from), Datatype::predefined(Predefined::Byte));
        let target = TargetData { rank, displacement, count: bytes.len() as u64, datatype: &datatype };
        self.start_with(from, |started| self.start_put(bytes, target, started))
    }

    /// Starts a get into the elements of `to`, which the wait returns (`MPI_Rget`).
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn rget_owned<T: AnyBitPattern + Send>(
        &self,
        mut to: Vec<T>,
        rank: u32,
        displacement: i64,
    ) -> Result<OwnedRequest<T, F, L>> {
        let (into, datatype) =
            (buffer_to_keep(&self.communicator, &mut to), Datatype::predefined(Predefined::Byte));
        let target = TargetData { rank, displacement, count: into.len() as u64, datatype: &datatype };
        self.start_with(to, |started| self.start_get(into, target, started))
    }

    /// Like [`accumulate`](Self::accumulate), as a request, which is complete at once (`MPI_Raccumulate`).
    ///
    /// # Errors
    /// Those of [`accumulate`](Self::accumulate).
    pub fn raccumulate_owned<T: Number>(
        &self,
        values: Vec<T>,
        rank: u32,
        displacement: i64,
        op: PredefinedOp,
    ) -> Result<OwnedRequest<T, F, L>> {
        self.accumulate(&values, rank, displacement, op)?;
        self.start_with(values, |_| Ok(()))
    }

    /// Like [`get_accumulate`](Self::get_accumulate), as a request, which is complete at once (`MPI_Rget_accumulate`): the wait returns the
    /// old values.
    ///
    /// # Errors
    /// Those of [`get_accumulate`](Self::get_accumulate).
    pub fn rget_accumulate_owned<T: Number>(
        &self,
        values: &[T],
        rank: u32,
        displacement: i64,
        op: PredefinedOp,
    ) -> Result<OwnedRequest<T, F, L>> {
        let before = self.get_accumulate(values, rank, displacement, op)?;
        self.start_with(before, |_| Ok(()))
    }

    /// Starts a transfer. The request of its last piece keeps the memory; the other pieces have then been transferred.
    fn start_with<T: Send + 'static>(
        &self,
        memory: Vec<T>,
        start: impl FnOnce(&mut Vec<Started>) -> Result<()>,
    ) -> Result<OwnedRequest<T, F, L>> {
        let id = self.start_one(start)?.unwrap_or(RequestId::ENDED_SEND);
        // `state_to_end` instead of `state`: the transfer is under way, whatever an earlier call left behind.
        match self.communicator.state_to_end() {
            Some(state) => Ok(self.communicator.owned(state, id, memory)),
            None => {
                std::mem::forget(memory);
                Err(Error::Nested)
            }
        }
    }
}
