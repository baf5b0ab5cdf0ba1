//! Sending one message and receiving another at the same time (MPI 5.0 section 3.11).

use am_core::fabric::Fabric;

use crate::communicator::Communicator;
use crate::data::buffer::{Buffer, BufferMut};
use crate::error::Result;
use crate::message::status::Status;
use crate::policy::LockPolicy;
use crate::rank::{Source, rank_or_null};
use crate::tag::Tag;

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Sends `data` to rank `dest` with `send_tag`, and receives a message from `source` with `recv_tag` into `buffer`, in any order
    /// (`MPI_Sendrecv`): tasks in a ring that do this cannot deadlock.
    ///
    /// # Errors
    /// Those of [`send`](Self::send) and [`recv`](Self::recv).
    pub fn sendrecv<S: Buffer + ?Sized, R: BufferMut + ?Sized>(
        &self,
        data: &S,
        dest: impl Into<Option<u32>>,
        send_tag: i32,
        buffer: &mut R,
        source: impl Into<Source>,
        recv_tag: impl Into<Tag>,
    ) -> Result<Status> {
        let (dest, source, recv_tag) = (rank_or_null(dest), source.into(), recv_tag.into());
        let (data, buffer) = (data.outgoing()?, buffer.incoming()?);
        data.lend_data(|data| {
            buffer
                .lend_data(|buffer| self.sendrecv_data((&data, dest, send_tag), (&buffer, source, recv_tag)))
        })
    }

    /// Sends elements to `dest`, and replaces them with the elements received from `source` (`MPI_Sendrecv_replace`).
    ///
    /// # Errors
    /// Those of [`sendrecv`](Self::sendrecv).
    pub fn sendrecv_replace<B: BufferMut + ?Sized>(
        &self,
        buffer: &mut B,
        dest: impl Into<Option<u32>>,
        send_tag: i32,
        source: impl Into<Source>,
        recv_tag: impl Into<Tag>,
    ) -> Result<Status> {
        let to = (rank_or_null(dest), send_tag);
        let from = (source.into(), recv_tag.into());
        buffer.incoming()?.lend_data(|data| self.sendrecv_replace_data(&data, to, from))
    }
}
