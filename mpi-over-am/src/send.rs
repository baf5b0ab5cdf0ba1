//! Blocking sends.

use am_core::fabric::Fabric;
use bytemuck::NoUninit;

use crate::buffer::bytes_of;
use crate::communicator::{Communicator, Space};
use crate::error::Result;
use crate::protocol::send_eager;

impl<F: Fabric> Communicator<F> {
    /// Sends `data` to rank `dest` in standard mode (`MPI_Send`). Returns when `data` may be changed again.
    ///
    /// # Errors
    /// An unknown rank, a tag out of range, a dead receiver.
    #[inline]
    pub fn send<T: NoUninit>(&self, data: &[T], dest: u32, tag: i32) -> Result<()> {
        let route = self.route(Space::PointToPoint, dest, tag)?;
        send_eager(&mut *self.state()?, &route, bytes_of(data))
    }
}
