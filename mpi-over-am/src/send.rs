//! Blocking sends, one for each mode (MPI 4.1 section 3.4).

use am_core::fabric::Fabric;
use bytemuck::NoUninit;

use crate::buffer::bytes_of;
use crate::communicator::{Communicator, Space};
use crate::error::Result;
use crate::protocol::{self, Borrowed, Mode};
use crate::request::to_nobody;

impl<F: Fabric> Communicator<F> {
    /// Sends `data` to rank `dest` in standard mode (`MPI_Send`). Returns when `data` may be changed again, which for long
    /// messages means that the receive has started.
    ///
    /// # Errors
    /// An unknown rank, a tag out of range, a dead receiver.
    #[inline]
    pub fn send<T: NoUninit>(&self, data: &[T], dest: u32, tag: i32) -> Result<()> {
        self.send_in_mode(Mode::Standard, bytes_of(data), dest, tag)
    }

    /// Sends in synchronous mode (`MPI_Ssend`): returns when the receive has started.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn ssend<T: NoUninit>(&self, data: &[T], dest: u32, tag: i32) -> Result<()> {
        self.send_in_mode(Mode::Synchronous, bytes_of(data), dest, tag)
    }

    /// Sends in ready mode (`MPI_Rsend`): the receive has been posted. If it has not, the message is lost, and both sides get
    /// [`Error::NotReady`](crate::Error::NotReady): the receiver when it receives, this task with one of its next calls.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn rsend<T: NoUninit>(&self, data: &[T], dest: u32, tag: i32) -> Result<()> {
        self.send_in_mode(Mode::Ready, bytes_of(data), dest, tag)
    }

    /// Sends in buffered mode (`MPI_Bsend`): copies the message into the buffer attached by
    /// [`Environment::attach_buffer`](crate::Environment::attach_buffer), and returns whatever the receiver does.
    ///
    /// # Errors
    /// No buffer, or none with room for the message and [`BSEND_OVERHEAD_BYTES`](crate::BSEND_OVERHEAD_BYTES); as for
    /// [`send`](Self::send).
    pub fn bsend<T: NoUninit>(&self, data: &[T], dest: u32, tag: i32) -> Result<()> {
        self.send_in_mode(Mode::Buffered, bytes_of(data), dest, tag)
    }

    #[inline(always)]
    fn send_in_mode(&self, mode: Mode, bytes: &[u8], dest: u32, tag: i32) -> Result<()> {
        let route = match self.route(Space::PointToPoint, dest, tag) {
            Ok(route) => route,
            Err(error) => return to_nobody(dest, tag, error),
        };
        let mut state = self.state()?;
        match mode {
            Mode::Buffered => protocol::send_buffered(&mut state, &route, bytes),
            _ => protocol::send(&mut state, mode, &route, Borrowed(bytes)),
        }
    }
}
