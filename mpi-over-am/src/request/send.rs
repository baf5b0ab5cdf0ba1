//! Blocking sends, one for each mode (MPI 5.0 section 3.4).

use am_core::fabric::Fabric;

use crate::communicator::Communicator;
use crate::context_id::Space;
use crate::data::buffer::{Buffer, Sending};
use crate::error::Result;
use crate::message::attached_buffers::{BufferOwner, SendBuffer};
use crate::message::protocol;
use crate::message::route::Mode;
use crate::policy::LockPolicy;
use crate::rank::{Source, rank_or_null};
use crate::request::blocking::{self, detach, flush};
use crate::tag::Tag;

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Sends `data` to rank `dest` in standard mode (`MPI_Send`). Returns when `data` may be changed; if the message is sent by rendezvous,
    /// its receive has then started. `None` as `dest` is [`PROC_NULL`](crate::PROC_NULL).
    ///
    /// ```
    /// # fn f(world: &mpi_over_am::Communicator) -> mpi_over_am::Result<()> {
    /// let values = vec![1.0, 2.0];
    /// world.send(&values, 1, 0)?;
    /// world.send(&7u32, 1, 0)?;
    /// world.send("text", 1, 0)?;
    /// world.send(&(3u8, [0.5f32; 3]), None, 0)
    /// # }
    /// ```
    ///
    /// # Errors
    /// An unknown rank, a tag out of range, a dead receiver.
    #[inline]
    pub fn send<B: Buffer + ?Sized>(&self, data: &B, dest: impl Into<Option<u32>>, tag: i32) -> Result<()> {
        self.send_in_mode(Mode::Standard, data, dest, tag)
    }

    /// Sends in synchronous mode (`MPI_Ssend`): returns when the receive has started.
    ///
    /// # Errors
    /// Those of [`send`](Self::send).
    pub fn ssend<B: Buffer + ?Sized>(&self, data: &B, dest: impl Into<Option<u32>>, tag: i32) -> Result<()> {
        self.send_in_mode(Mode::Synchronous, data, dest, tag)
    }

    /// Sends in ready mode (`MPI_Rsend`): the receive must have been posted. If it has not, the message is lost, and both sides get
    /// [`Error::NotReady`](crate::Error::NotReady): the receiver when it receives, this task from one of its next calls.
    ///
    /// # Errors
    /// Those of [`send`](Self::send).
    pub fn rsend<B: Buffer + ?Sized>(&self, data: &B, dest: impl Into<Option<u32>>, tag: i32) -> Result<()> {
        self.send_in_mode(Mode::Ready, data, dest, tag)
    }

    /// Sends in buffered mode (`MPI_Bsend`): copies the message into the attached buffer of this communicator, of its session, or of the
    /// process ([`BufferOwner`]), and returns independently of the receiver.
    ///
    /// # Errors
    /// No buffer is attached, or the buffer has no free piece for the message and its overhead, at most
    /// [`BSEND_OVERHEAD_BYTES`](crate::BSEND_OVERHEAD_BYTES); those of [`send`](Self::send).
    pub fn bsend<B: Buffer + ?Sized>(&self, data: &B, dest: impl Into<Option<u32>>, tag: i32) -> Result<()> {
        self.send_in_mode(Mode::Buffered, data, dest, tag)
    }

    /// Gives the library memory for this communicator's buffered sends (`MPI_Comm_attach_buffer`).
    ///
    /// # Errors
    /// [`Error::BufferAttached`](crate::Error::BufferAttached): the communicator already has a buffer.
    pub fn attach_buffer(&self, memory: impl Into<SendBuffer>) -> Result<()> {
        let owner = self.buffer_owner()?;
        self.state()?.handlers().attached.attach(owner, memory.into())
    }

    /// Waits until all messages in this communicator's own buffer have been sent (`MPI_Comm_flush_buffer`).
    ///
    /// # Errors
    /// The first error of the messages; an error while making progress.
    pub fn flush_buffer(&self) -> Result<()> {
        let owner = self.buffer_owner()?;
        flush(&mut self.state()?, owner)
    }

    /// Waits until all messages in this communicator's own buffer have been sent, and returns the buffer (`MPI_Comm_detach_buffer`); `None`
    /// if no buffer is attached.
    ///
    /// # Errors
    /// Those of [`flush_buffer`](Self::flush_buffer); the buffer then stays attached.
    pub fn detach_buffer(&self) -> Result<Option<SendBuffer>> {
        let owner = self.buffer_owner()?;
        detach(&mut self.state()?, owner)
    }

    /// Waits until all messages of this communicator are complete, also those whose requests have been freed, and those in its own buffer,
    /// which is then detached (`MPI_Comm_disconnect`).
    ///
    /// # Errors
    /// The first error of the messages in the buffer; an error while making progress.
    pub fn wait_for_messages(&self) -> Result<()> {
        let context_id = self.context_id_of(Space::PointToPoint);
        let mut state = self.state()?;
        for request in state.handlers().requests.unfinished_of(context_id) {
            state.wait_over(request)?;
        }
        detach(&mut state, BufferOwner::Communicator(context_id.0)).map(drop)
    }

    /// This communicator as the owner of a buffer, for [`Environment::attach_buffer_for`](crate::Environment::attach_buffer_for) and
    /// similar calls.
    ///
    /// # Errors
    /// Those of every call.
    pub fn buffer_owner(&self) -> Result<BufferOwner> {
        let pattern = self.pattern(Space::PointToPoint, Source::Any, Tag::Any)?;
        Ok(BufferOwner::Communicator(pattern.context_id().0))
    }

    /// Sends in any mode.
    ///
    /// # Errors
    /// Those of the send of that mode.
    #[inline(always)]
    pub fn send_in_mode<B: Buffer + ?Sized>(
        &self,
        mode: Mode,
        data: &B,
        dest: impl Into<Option<u32>>,
        tag: i32,
    ) -> Result<()> {
        let dest = rank_or_null(dest);
        data.outgoing()?.lend(|data| match data {
            Sending::Bytes(bytes) => self.send_bytes(mode, bytes, dest, tag),
            Sending::Elements(data, _) => self.send_data(mode, &data, dest, tag),
        })
    }

    /// Sends bytes in any mode, for the C interface.
    ///
    /// # Errors
    /// Those of the send of that mode.
    #[inline(always)]
    pub fn send_bytes(&self, mode: Mode, bytes: &[u8], dest: u32, tag: i32) -> Result<()> {
        if mode == Mode::Standard && self.try_send(bytes, dest, tag) {
            return Ok(());
        }
        self.send_bytes_slowly(mode, bytes, dest, tag)
    }

    /// Sends a message in standard mode as one packet, if that is possible at once; returns whether the message was sent. If not, nothing
    /// was sent, and [`send_bytes_slowly`](Self::send_bytes_slowly) or [`isend_bytes_slowly`](Self::isend_bytes_slowly) sends the message,
    /// or reports the error. This function is inlined and, until a short message is sent, calls no other function.
    #[inline(always)]
    pub fn try_send(&self, bytes: &[u8], dest: u32, tag: i32) -> bool {
        let Some(route) = self.route_now(dest, tag) else { return false };
        let Some(mut state) = self.state_briefly() else { return false };
        protocol::try_send_packet(&mut state, &route, bytes)
    }

    /// Sends bytes in standard mode that [`try_send`](Self::try_send) has not sent, as one packet or in pieces, if that is possible at
    /// once; returns whether the bytes were sent. If not, nothing was sent.
    #[inline]
    pub fn try_send_again(&self, bytes: &[u8], dest: u32, tag: i32) -> bool {
        let Some(route) = self.route_now(dest, tag) else { return false };
        let Some(mut state) = self.state_briefly() else { return false };
        protocol::try_send_again(&mut state, &route, bytes)
    }

    /// Sends bytes in any mode that [`try_send`](Self::try_send) has not sent.
    ///
    /// # Errors
    /// Those of the send of that mode.
    #[inline(never)]
    pub fn send_bytes_slowly(&self, mode: Mode, bytes: &[u8], dest: u32, tag: i32) -> Result<()> {
        let Some(route) = self.route_or_nobody(dest, tag)? else { return Ok(()) };
        let mut state = self.state_to_start()?;
        match mode {
            Mode::Buffered => blocking::send_buffered(&mut state, &route, bytes),
            _ => blocking::send_bytes(&mut state, mode, &route, bytes),
        }
    }
}
