//! Persistent operations that own their buffer: [`Communicator::start`] in safe Rust.

use am_core::fabric::Fabric;
use bytemuck::{AnyBitPattern, NoUninit};

use super::{one, persistent};
use crate::communicator::Communicator;
use crate::data::buffer::{KeptVec, RecvData, SendData, buffer_to_keep, bytes_to_keep};
use crate::error::{Error, Result};
use crate::job::JobFabric;
use crate::message::request_id::RequestId;
use crate::message::route::Mode;
use crate::message::status::Status;
use crate::policy::{LockPolicy, OneThread};
use crate::rank::Source;
use crate::tag::Tag;

/// A persistent operation and its buffer (MPI 5.0 section 3.9). It can be started and waited for any number of times; in between, the
/// program has access to the buffer. If this value is dropped while the operation is under way, the operation still completes.
///
/// A borrow of the buffer ends before the next start:
///
/// ```compile_fail,E0499
/// # fn f(mut receive: mpi_over_am::Persistent<u8>) -> mpi_over_am::Result<()> {
/// let elements = receive.buffer()?;
/// receive.start()?;
/// elements[0] = 1;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Persistent<T: Send + 'static, F: Fabric = JobFabric, L: LockPolicy = OneThread> {
    communicator: Communicator<F, L>,
    id: RequestId,
    buffer: Vec<T>,
}

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// A persistent send of the elements of `data` in any mode (`MPI_Send_init`, `MPI_Ssend_init` and the like).
    ///
    /// # Errors
    /// An unknown rank, a tag out of range.
    pub fn send_init<T: NoUninit + Send>(
        &self,
        mode: Mode,
        data: Vec<T>,
        dest: u32,
        tag: i32,
    ) -> Result<Persistent<T, F, L>> {
        let bytes = SendData::from_bytes(bytes_to_keep(self, &data));
        let id = self.init_send(mode, &bytes, dest, tag)?;
        Ok(Persistent::of_request(self, id, data))
    }

    /// A persistent receive into the elements of `buffer` (`MPI_Recv_init`).
    ///
    /// # Errors
    /// An unknown rank, a tag out of range.
    pub fn recv_init<T: AnyBitPattern + Send>(
        &self,
        mut buffer: Vec<T>,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Persistent<T, F, L>> {
        let data = RecvData::from_buffer(buffer_to_keep(self, &mut buffer));
        let id = self.init_receive(&data, source.into(), tag.into())?;
        Ok(Persistent::of_request(self, id, buffer))
    }
}

impl<T: Send + 'static, F: Fabric, L: LockPolicy> Persistent<T, F, L> {
    /// Wraps a persistent request that is held and not started, and its buffer.
    pub(crate) fn of_request(communicator: &Communicator<F, L>, id: RequestId, buffer: Vec<T>) -> Self {
        Self { communicator: communicator.clone(), id, buffer }
    }

    /// Starts the operation (`MPI_Start`).
    ///
    /// # Errors
    /// [`Error::NotStartable`]: the operation is under way; the errors of the operation's start.
    pub fn start(&mut self) -> Result<()> {
        persistent::start(&mut *self.communicator.state_to_start_again(self.id)?, self.id)
    }

    /// Starts all requests, in order (`MPI_Startall`).
    ///
    /// # Errors
    /// Those of [`start`](Self::start), for the first request that fails; the requests before it have been started.
    pub fn start_all<'a>(requests: impl IntoIterator<Item = &'a mut Self>) -> Result<()>
    where
        F: 'a,
    {
        requests.into_iter().try_for_each(Self::start)
    }

    /// Waits until the operation is complete (`MPI_Wait`). Returns at once if the operation was not started.
    ///
    /// # Errors
    /// The operation's error; an error while making progress, after which the operation is still under way.
    pub fn wait(&mut self) -> Result<Status> {
        one::wait(&mut self.communicator.state()?, self.id)
    }

    /// Waits until all operations are complete (`MPI_Waitall`); returns their statuses in order.
    ///
    /// # Errors
    /// The first error of the operations, after all are complete; an error while making progress.
    pub fn wait_all<'a>(requests: impl IntoIterator<Item = &'a mut Self>) -> Result<Vec<Status>>
    where
        F: 'a,
    {
        let ended: Vec<_> = requests.into_iter().map(Self::wait).collect();
        ended.into_iter().collect()
    }

    /// Makes progress, and returns the status if the operation is complete (`MPI_Test`).
    ///
    /// # Errors
    /// Those of [`wait`](Self::wait).
    pub fn test(&mut self) -> Result<Option<Status>> {
        one::test(&mut self.communicator.state()?, self.id)
    }

    /// The buffer, while the operation is not under way.
    ///
    /// # Errors
    /// [`Error::NotStartable`]: the operation is under way.
    pub fn buffer(&mut self) -> Result<&mut [T]> {
        if self.communicator.is_under_way(self.id) {
            return Err(Error::NotStartable { request: self.id.number(), is_persistent: true });
        }
        Ok(&mut self.buffer)
    }
}

impl<T: Send + 'static, F: Fabric, L: LockPolicy> Drop for Persistent<T, F, L> {
    fn drop(&mut self) {
        self.communicator.free_with(self.id, KeptVec::new(std::mem::take(&mut self.buffer)));
    }
}
