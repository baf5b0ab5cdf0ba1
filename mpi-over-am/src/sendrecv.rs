//! Sending one message and receiving another at the same time (MPI 4.1 section 3.10).

use am_core::fabric::Fabric;
use bytemuck::{AnyBitPattern, NoUninit};

use crate::buffer::{bytes_of, lend_to_receive};
use crate::communicator::{Communicator, Space};
use crate::error::Result;
use crate::policy::LockPolicy;
use crate::protocol::{self, Receive, Room};
use crate::rank::Source;
use crate::request::{from_nobody, to_nobody};
use crate::status::Status;
use crate::tag::Tag;

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Sends `data` to rank `dest` with `send_tag`, and receives a message from `source` with `recv_tag` into `buffer`, in
    /// whatever order they go (`MPI_Sendrecv`): tasks that do this around a ring do not wait for each other in a circle.
    ///
    /// # Errors
    /// As for [`send`](Self::send) and [`recv`](Self::recv).
    pub fn sendrecv<S: NoUninit, R: AnyBitPattern>(
        &self,
        (data, dest, send_tag): (&[S], u32, i32),
        (buffer, source, recv_tag): (&mut [R], impl Into<Source>, impl Into<Tag>),
    ) -> Result<Status> {
        let (source, recv_tag) = (source.into(), recv_tag.into());
        let route = match self.route(Space::PointToPoint, dest, send_tag) {
            Ok(route) => route,
            Err(error) => {
                to_nobody(dest, send_tag, error)?;
                return self.recv(buffer, source, recv_tag);
            }
        };
        let pattern = match self.pattern(Space::PointToPoint, source, recv_tag) {
            Ok(pattern) => pattern,
            Err(error) => {
                let status = from_nobody(source, recv_tag, error)?;
                return self.send(data, dest, send_tag).map(|()| status);
            }
        };
        let mut state = self.state()?;
        lend_to_receive(buffer, |buffer| {
            protocol::send_receive(
                &mut state,
                &route,
                bytes_of(data),
                Receive { pattern, room: Room::Bytes(buffer) },
            )
        })
    }
}
