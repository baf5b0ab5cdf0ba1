//! The blocking receive.

use am_core::fabric::Fabric;
use bytemuck::AnyBitPattern;

use crate::buffer::lend_to_receive;
use crate::communicator::{Communicator, Space};
use crate::error::Result;
use crate::policy::LockPolicy;
use crate::protocol::{self, Receive, Room};
use crate::rank::Source;
use crate::request::from_nobody;
use crate::status::Status;
use crate::tag::Tag;

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Receives a message from `source` with `tag` into `buffer` (`MPI_Recv`). The message may be shorter than the buffer; the
    /// status tells its length.
    ///
    /// # Errors
    /// A message longer than the buffer, which then holds its beginning; an unknown rank, a tag out of range, a dead sender.
    #[inline]
    pub fn recv<T: AnyBitPattern>(
        &self,
        buffer: &mut [T],
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Status> {
        let (source, tag) = (source.into(), tag.into());
        let pattern = match self.pattern(Space::PointToPoint, source, tag) {
            Ok(pattern) => pattern,
            Err(error) => return from_nobody(source, tag, error),
        };
        let mut state = self.state()?;
        lend_to_receive(buffer, |buffer| {
            protocol::receive(&mut state, Receive { pattern, room: Room::Bytes(buffer) })
        })
    }
}
