//! The blocking receive.

use am_core::fabric::Fabric;
use bytemuck::AnyBitPattern;

use crate::buffer::lend_to_receive;
use crate::communicator::{Communicator, Space};
use crate::error::Result;
use crate::protocol::{self, Receive};
use crate::rank::Source;
use crate::status::Status;
use crate::tag::Tag;

impl<F: Fabric> Communicator<F> {
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
        let pattern = self.pattern(Space::PointToPoint, source.into(), tag.into())?;
        let mut state = self.state()?;
        lend_to_receive(buffer, |buffer| protocol::receive(&mut state, Receive { pattern, buffer }))
    }
}
