//! Blocking receives: into memory of the caller, and into new memory.

use am_core::buffer::RawBuffer;
use am_core::fabric::Fabric;
use am_core::task::TaskId;

use crate::communicator::Communicator;
use crate::data::buffer::{Buffer, BufferMut, Equivalence, Receiving};
use crate::error::{Error, Result};
use crate::message::status::Status;
use crate::policy::LockPolicy;
use crate::rank::{PROC_NULL, Source};
use crate::request::blocking;
use crate::tag::Tag;

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Receives a message from `source` with `tag` into `buffer` (`MPI_Recv`). The message may be shorter than the buffer; the status has
    /// its length. `None` as `source` is [`PROC_NULL`], whose message is empty.
    ///
    /// # Errors
    /// A message longer than the buffer, which then holds the message's beginning; an unknown rank, a tag out of range, a dead sender.
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
            let Some(pattern) = self.pattern_or_nobody(source, tag)? else { return Ok(Status::OF_PROC_NULL) };
            blocking::receive(&mut self.state_to_start()?, self.source_task(source), pattern, buffer)
        })
    }

    /// The fast path of [`recv`](Self::recv) for bytes, used by the C interface. Only for a policy whose threads take no turns. `None`:
    /// nothing was done; call `recv_data`.
    #[inline(always)]
    pub fn try_recv_bytes(
        &self,
        buffer: RawBuffer,
        source: Source,
        tag: Tag,
    ) -> Option<std::result::Result<Status, Box<Error>>> {
        debug_assert!(!L::takes_turns(), "this receive waits in its turn");
        let pattern = self.pattern_now(source, tag)?;
        let mut state = self.state_briefly()?;
        Some(blocking::receive_in_one_turn(&mut state, self.source_task(source), pattern, buffer))
    }

    /// The only task that can send a message from `source`, if it is known.
    #[inline(always)]
    pub(crate) fn source_task(&self, source: Source) -> Option<TaskId> {
        match source {
            Source::Rank(rank) => self.task_now(rank),
            Source::Any => None,
        }
    }

    /// Receives a message of any number of values, into a new vector (`MPI_Mprobe` and `MPI_Mrecv`).
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
    /// Those of [`recv`](Self::recv); [`Error::Truncated`] for a message that ends within a value.
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

    /// Receives a message of one value. From [`PROC_NULL`], returns the default value.
    ///
    /// # Errors
    /// Those of [`recv`](Self::recv); [`Error::Count`]: the message is shorter than a value.
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
