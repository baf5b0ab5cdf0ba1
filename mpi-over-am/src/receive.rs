//! Receives that wait: into memory of the caller, and into memory of their own.

use am_core::buffer::RawBuffer;
use am_core::fabric::Fabric;

use crate::blocking;
use crate::buffer::{Buffer, BufferMut, Equivalence, Receiving};
use crate::communicator::Communicator;
use crate::context_id::Space;
use crate::error::{Error, Result};
use crate::matching::Pattern;
use crate::message::{Receive, Room};
use crate::policy::LockPolicy;
use crate::rank::{PROC_NULL, Source};
use crate::request::from_nobody;
use crate::state::State;
use crate::status::Status;
use crate::tag::Tag;

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Receives a message from `source` with `tag` into `buffer` (`MPI_Recv`). The message may be shorter than the buffer; the
    /// status tells its length. `None` as `source` is [`PROC_NULL`], whose message is empty.
    ///
    /// # Errors
    /// A message longer than the buffer, which then holds its beginning; an unknown rank, a tag out of range, a dead sender.
    #[inline]
    pub fn recv<B: BufferMut + ?Sized>(
        &self,
        buffer: &mut B,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Status> {
        let (source, tag) = (source.into(), tag.into());
        buffer.incoming()?.lend(|buffer| {
            let buffer = match buffer {
                Receiving::Bytes(buffer) => buffer,
                Receiving::Elements(data) => return self.recv_data(&data, source, tag),
            };
            let pattern = match self.pattern(Space::PointToPoint, source, tag) {
                Ok(pattern) => pattern,
                Err(error) => return from_nobody(source, tag, error),
            };
            let mut state = self.state()?;
            match self.receive_in_line(&mut state, source, &pattern, buffer) {
                Some(status) => Ok(status),
                None => blocking::receive(&mut state, Receive { pattern, room: Room::Bytes(buffer) }),
            }
        })
    }

    /// As [`recv`](Self::recv), of bytes, for the C interface: the shortest way where the threads of the task take no turns. `None` where
    /// `recv_data` takes another way, or finds an error: nothing has happened then.
    #[inline(always)]
    pub fn try_recv_bytes(
        &self,
        buffer: RawBuffer,
        source: Source,
        tag: Tag,
    ) -> Option<std::result::Result<Status, Box<Error>>> {
        let pattern = self.pattern_now(source, tag).filter(|_| !L::takes_turns())?;
        let mut state = self.state_briefly()?;
        if let Some(status) = self.receive_in_line(&mut state, source, &pattern, buffer) {
            return Some(Ok(status));
        }
        let receive = Receive { pattern, room: Room::Bytes(buffer) };
        Some(blocking::receive_in_one_turn(&mut state, receive))
    }

    /// Receives from one rank past the queues, where that is possible and no other thread may be in a call.
    #[inline(always)]
    fn receive_in_line(
        &self,
        state: &mut State<F>,
        source: Source,
        pattern: &Pattern,
        buffer: RawBuffer,
    ) -> Option<Status> {
        match source {
            Source::Rank(rank) if !L::takes_turns() => {
                blocking::receive_in_line(state, self.task_now(rank)?, pattern, buffer)
            }
            _ => None,
        }
    }

    /// Receives a message of any number of values, which it allocates (`MPI_Mprobe` and `MPI_Mrecv`).
    ///
    /// ```
    /// # use mpi_over_am::{Environment, Source};
    /// # let environment = Environment::init()?;
    /// # let world = environment.world();
    /// let sending = world.isend_owned(vec![1.5, 2.5, 3.5], world.rank(), 0)?;
    /// let (values, status) = world.recv_vec::<f64>(Source::Any, 0)?;
    /// assert_eq!((values, status.source()), (vec![1.5, 2.5, 3.5], world.rank()));
    /// # sending.wait()?;
    /// # environment.finalize()
    /// # ; Ok::<(), mpi_over_am::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`recv`](Self::recv); a message that does not end with a value is [`Error::Truncated`].
    pub fn recv_vec<T: Equivalence + Default>(
        &self,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<(Vec<T>, Status)> {
        let (message, status) = self.mprobe(source, tag)?;
        let each = T::default().outgoing()?.packed_len();
        let count = usize::try_from(status.len().checked_div(each).unwrap_or(0))
            .map_err(|_| Error::TooLarge { call: "recv_vec" })?;
        let mut values = Vec::new();
        values.resize_with(count, T::default);
        let status = self.mrecv(&mut values, message)?;
        Ok((values, status))
    }

    /// Receives a message of one value.
    ///
    /// # Errors
    /// Those of [`recv`](Self::recv); [`Error::Count`]: a message that is shorter than a value. From [`PROC_NULL`] the value is the
    /// default.
    pub fn recv_value<T: Equivalence + Default>(
        &self,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<(T, Status)> {
        let mut value = T::default();
        let status = self.recv(&mut value, source, tag)?;
        if status.source() != PROC_NULL && status.len() != value.outgoing()?.packed_len() {
            return Err(Error::Count { call: "recv_value", given: 0, expected: 1 });
        }
        Ok((value, status))
    }
}
