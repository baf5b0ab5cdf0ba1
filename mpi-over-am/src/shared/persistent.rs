//! Persistent operations of several threads (MPI 5.0 section 3.9): each belongs to one thread at a time, and may go to another one.

use std::sync::Arc;

use am_core::fabric::Fabric;
use bytemuck::{AnyBitPattern, NoUninit};

use super::communicator::Handle;
use super::{SharedCommunicator, Waiting};
use crate::buffer::{RecvData, SendData, buffer_to_keep, bytes_to_keep};
use crate::communicator::Communicator;
use crate::environment::JobFabric;
use crate::error::{Error, Result};
use crate::protocol::Mode;
use crate::rank::Source;
use crate::request::RequestId;
use crate::state::is_over;
use crate::status::Status;
use crate::tag::Tag;

/// A persistent operation and its buffer. It is started, and waited for, as often as wanted; in between the buffer is the
/// program's. Dropped while it is under way, it goes on by itself.
///
/// What a thread gets of the buffer ends before the next start:
///
/// ```compile_fail,E0499
/// # fn f(mut receive: mpi_over_am::SharedPersistent<u8>) -> mpi_over_am::Result<()> {
/// let elements = receive.buffer()?;
/// receive.start()?;
/// elements[0] = 1;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct SharedPersistent<T: Send + 'static, F: Fabric = JobFabric> {
    handle: Arc<Handle<F>>,
    id: RequestId,
    buffer: Vec<T>,
    is_under_way: bool,
}

impl<F: Fabric> SharedCommunicator<F> {
    /// A persistent send of the elements of `data` in any mode (`MPI_Send_init`, `MPI_Ssend_init` and their like).
    ///
    /// # Errors
    /// As for [`Communicator::send_init`].
    pub fn send_init<T: NoUninit + Send>(
        &self,
        mode: Mode,
        data: Vec<T>,
        dest: u32,
        tag: i32,
    ) -> Result<SharedPersistent<T, F>> {
        let bytes = SendData::from_bytes(bytes_to_keep(&data));
        SharedPersistent::new(&self.handle, data, |inside| inside.send_init_data(mode, &bytes, dest, tag))
    }

    /// A persistent receive into the elements of `buffer` (`MPI_Recv_init`).
    ///
    /// # Errors
    /// As for [`Communicator::recv_init`].
    pub fn recv_init<T: AnyBitPattern + Send>(
        &self,
        mut buffer: Vec<T>,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<SharedPersistent<T, F>> {
        let room = RecvData::from_buffer(buffer_to_keep(&mut buffer));
        let (source, tag) = (source.into(), tag.into());
        SharedPersistent::new(&self.handle, buffer, |inside| inside.recv_init_data(&room, source, tag))
    }
}

impl<T: Send + 'static, F: Fabric> SharedPersistent<T, F> {
    /// `init` makes a persistent request that works in the elements of `buffer`.
    pub(super) fn new(
        handle: &Arc<Handle<F>>,
        buffer: Vec<T>,
        init: impl FnOnce(&Communicator<F>) -> Result<RequestId>,
    ) -> Result<Self> {
        let id = handle.shared.inner.with(handle.number, init)?;
        Ok(Self { handle: Arc::clone(handle), id, buffer, is_under_way: false })
    }

    /// Starts the operation (`MPI_Start`).
    ///
    /// # Errors
    /// [`Error::NotStartable`]: it is under way; as a start of the operation.
    pub fn start(&mut self) -> Result<()> {
        let Handle { shared, number } = &*self.handle;
        shared.inner.with(*number, |inside| inside.start(self.id))?;
        self.is_under_way = true;
        Ok(())
    }

    /// Starts them all, one after the other (`MPI_Startall`).
    ///
    /// # Errors
    /// As for [`start`](Self::start), for the first one that fails; those before it are under way.
    pub fn start_all<'a>(requests: impl IntoIterator<Item = &'a mut Self>) -> Result<()>
    where
        F: 'a,
    {
        requests.into_iter().try_for_each(Self::start)
    }

    /// Waits until the operation is over (`MPI_Wait`). At once if it was not started.
    ///
    /// # Errors
    /// The operation's own; what progress reports, and then it is still under way.
    pub fn wait(&mut self) -> Result<Status> {
        let Handle { shared, number } = &*self.handle;
        let id = self.id;
        let over = shared.inner.wait_until(
            *number,
            |context| is_over(context, id),
            // It is over, so this does not wait.
            |inside| Ok((inside.wait(id), inside.is_under_way(id))),
        );
        let (status, is_under_way) = over.map_err(Waiting::into_error)?;
        self.is_under_way = is_under_way;
        status
    }

    /// Waits until all are over (`MPI_Waitall`); their statuses, in their order.
    ///
    /// # Errors
    /// The first error of the operations, after all are over; what progress reports.
    pub fn wait_all<'a>(requests: impl IntoIterator<Item = &'a mut Self>) -> Result<Vec<Status>>
    where
        F: 'a,
    {
        let ended: Vec<_> = requests.into_iter().map(Self::wait).collect();
        ended.into_iter().collect()
    }

    /// Makes progress; the status if the operation is over (`MPI_Test`).
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    pub fn test(&mut self) -> Result<Option<Status>> {
        let Handle { shared, number } = &*self.handle;
        let id = self.id;
        let (status, is_under_way) =
            shared.inner.with(*number, |inside| Ok((inside.test(id), inside.is_under_way(id))))?;
        self.is_under_way = is_under_way;
        status
    }

    /// The buffer, between two rounds.
    ///
    /// # Errors
    /// [`Error::NotStartable`]: the operation is under way.
    pub fn buffer(&mut self) -> Result<&mut [T]> {
        if self.is_under_way {
            return Err(Error::NotStartable { request: self.id.number(), is_persistent: true });
        }
        Ok(&mut self.buffer)
    }
}

impl<T: Send + 'static, F: Fabric> Drop for SharedPersistent<T, F> {
    fn drop(&mut self) {
        self.handle.give_back(self.id, std::mem::take(&mut self.buffer));
    }
}

impl<F: Fabric> Handle<F> {
    /// Lets go of a persistent request. While its operation is under way, it keeps the memory; where that cannot be told (inside
    /// another call of the environment), the memory is given up.
    pub(super) fn give_back<M: 'static>(&self, id: RequestId, memory: M) {
        let mut memory = Some(memory);
        if let Ok(mut turn) = self.shared.inner.enter()
            && let Ok(inside) = turn.value().communicator(self.number)
            && let Some(memory) = memory.take()
        {
            inside.free_with(id, Box::new(memory));
        }
        std::mem::forget(memory);
    }
}
