//! Persistent and partitioned operations that own their buffer: what [`Communicator::start`] does, in safe Rust.

use am_core::fabric::Fabric;
use bytemuck::{AnyBitPattern, NoUninit};

use super::id::RequestId;
use crate::buffer::{RecvData, SendData, buffer_to_keep, bytes_to_keep, part_of, part_of_mut};
use crate::communicator::Communicator;
use crate::error::{Error, Result};
use crate::protocol::Mode;
use crate::rank::Source;
use crate::status::Status;
use crate::tag::Tag;

/// A persistent operation and its buffer (MPI 5.0 section 3.9). It is started, and waited for, as often as wanted; in between the
/// buffer is the program's. Dropped while it is under way, it goes on by itself.
#[derive(Debug)]
pub struct Persistent<'env, T: 'static, F: Fabric> {
    communicator: &'env Communicator<F>,
    id: RequestId,
    buffer: Vec<T>,
    is_under_way: bool,
}

/// A partitioned send and its buffer (MPI 5.0 chapter 4): each part is the program's until it is marked ready.
#[derive(Debug)]
pub struct PartitionedSend<'env, T: 'static, F: Fabric> {
    all: Persistent<'env, T, F>,
    ready: Vec<bool>,
    count: usize,
}

/// A partitioned receive and its buffer.
#[derive(Debug)]
pub struct PartitionedReceive<'env, T: 'static, F: Fabric> {
    all: Persistent<'env, T, F>,
    count: usize,
}

impl<F: Fabric> Communicator<F> {
    /// A persistent send of the elements of `data` in any mode (`MPI_Send_init`).
    ///
    /// # Errors
    /// An unknown rank, a tag out of range.
    pub fn send_init<T: NoUninit>(
        &self,
        mode: Mode,
        data: Vec<T>,
        dest: u32,
        tag: i32,
    ) -> Result<Persistent<'_, T, F>> {
        let bytes = SendData::from_bytes(bytes_to_keep(&data));
        let id = self.send_init_data(mode, &bytes, dest, tag)?;
        Ok(Persistent { communicator: self, id, buffer: data, is_under_way: false })
    }

    /// A persistent receive into the elements of `buffer` (`MPI_Recv_init`).
    ///
    /// # Errors
    /// An unknown rank, a tag out of range.
    pub fn recv_init<T: AnyBitPattern>(
        &self,
        mut buffer: Vec<T>,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Persistent<'_, T, F>> {
        let room = RecvData::from_buffer(buffer_to_keep(&mut buffer));
        let id = self.recv_init_data(&room, source, tag)?;
        Ok(Persistent { communicator: self, id, buffer, is_under_way: false })
    }

    /// A partitioned send of the elements of `data`, in `partitions` parts of the same length (`MPI_Psend_init`).
    ///
    /// # Errors
    /// An unknown rank, a tag out of range, parts that are not equally long.
    pub fn psend_init<T: NoUninit + AnyBitPattern>(
        &self,
        data: Vec<T>,
        partitions: usize,
        dest: u32,
        tag: i32,
    ) -> Result<PartitionedSend<'_, T, F>> {
        let count = part_len("psend_init", data.len(), partitions)?;
        let bytes = SendData::from_bytes(bytes_to_keep(&data));
        let bytes_each = (count * size_of::<T>()) as u64;
        let id = self.psend_init_data(&bytes, (partitions as u64, bytes_each), dest, tag)?;
        let all = Persistent { communicator: self, id, buffer: data, is_under_way: false };
        Ok(PartitionedSend { all, ready: vec![false; partitions], count })
    }

    /// A partitioned receive into the elements of `buffer`, in `partitions` parts of the same length (`MPI_Precv_init`).
    ///
    /// # Errors
    /// An unknown rank, a tag out of range, parts that are not equally long.
    pub fn precv_init<T: NoUninit + AnyBitPattern>(
        &self,
        mut buffer: Vec<T>,
        partitions: usize,
        source: u32,
        tag: i32,
    ) -> Result<PartitionedReceive<'_, T, F>> {
        let count = part_len("precv_init", buffer.len(), partitions)?;
        let room = RecvData::from_buffer(buffer_to_keep(&mut buffer));
        let bytes_each = (count * size_of::<T>()) as u64;
        let id = self.precv_init_data(&room, (partitions as u64, bytes_each), source, tag)?;
        let all = Persistent { communicator: self, id, buffer, is_under_way: false };
        Ok(PartitionedReceive { all, count })
    }
}

impl<'env, T: 'static, F: Fabric> Persistent<'env, T, F> {
    /// A persistent request, which is not started, and the buffer that it works in.
    pub(crate) fn of_request(communicator: &'env Communicator<F>, id: RequestId, buffer: Vec<T>) -> Self {
        Self { communicator, id, buffer, is_under_way: false }
    }
}

impl<T: 'static, F: Fabric> Persistent<'_, T, F> {
    /// Starts the operation (`MPI_Start`).
    ///
    /// # Errors
    /// It is under way; as a start of the operation.
    pub fn start(&mut self) -> Result<()> {
        self.communicator.start(self.id)?;
        self.is_under_way = true;
        Ok(())
    }

    /// Waits until the operation is over (`MPI_Wait`). At once if it was not started.
    ///
    /// # Errors
    /// The operation's own; what progress reports, and then it is still under way.
    pub fn wait(&mut self) -> Result<Status> {
        let result = self.communicator.wait(self.id);
        self.is_under_way = self.communicator.is_active(self.id).unwrap_or(true);
        result
    }

    /// Makes progress; the status if the operation is over (`MPI_Test`).
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    pub fn test(&mut self) -> Result<Option<Status>> {
        let result = self.communicator.test(self.id);
        self.is_under_way = self.communicator.is_active(self.id).unwrap_or(true);
        result
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

impl<T: 'static, F: Fabric> Drop for Persistent<'_, T, F> {
    fn drop(&mut self) {
        self.communicator.free_with(self.id, Box::new(std::mem::take(&mut self.buffer)));
    }
}

impl<T: 'static, F: Fabric> PartitionedSend<'_, T, F> {
    /// Starts a round (`MPI_Start`).
    ///
    /// # Errors
    /// The last one is under way.
    pub fn start(&mut self) -> Result<()> {
        self.all.start()?;
        self.ready.fill(false);
        Ok(())
    }

    /// A part that is not on its way.
    ///
    /// # Errors
    /// [`Error::Partition`]: no such part, or it was marked ready.
    pub fn part(&mut self, partition: usize) -> Result<&mut [T]> {
        let what = match self.ready.get(partition) {
            None => "there is no such partition",
            Some(true) if self.all.is_under_way => {
                "it was marked ready, and is not the program's before the wait"
            }
            Some(_) => {
                return Ok(part_of_mut(&mut self.all.buffer, partition * self.count, self.count));
            }
        };
        let (request, partitions) = (self.all.id.number(), self.ready.len() as u64);
        Err(Error::Partition { request, partition: partition as u64, partitions, what })
    }

    /// Marks a part as ready: it goes (`MPI_Pready`).
    ///
    /// # Errors
    /// No such part, a part that is ready, no round under way; as a send.
    pub fn ready(&mut self, partition: usize) -> Result<()> {
        self.all.communicator.pready(self.all.id, partition as u64)?;
        self.ready[partition] = true;
        Ok(())
    }

    /// Waits until all parts were marked, and have gone (`MPI_Wait`).
    ///
    /// # Errors
    /// As for [`Persistent::wait`].
    pub fn wait(&mut self) -> Result<Status> {
        self.all.wait()
    }
}

impl<T: 'static, F: Fabric> PartitionedReceive<'_, T, F> {
    /// Starts a round (`MPI_Start`).
    ///
    /// # Errors
    /// The last one is under way.
    pub fn start(&mut self) -> Result<()> {
        self.all.start()
    }

    /// Makes progress; a part, if it has arrived (`MPI_Parrived`).
    ///
    /// # Errors
    /// No such part; what progress reports.
    pub fn arrived(&mut self, partition: usize) -> Result<Option<&[T]>> {
        let has_arrived = self.all.communicator.parrived(self.all.id, partition as u64)?;
        // Nobody writes to a part of this round any more.
        Ok(has_arrived.then(|| part_of(&self.all.buffer, partition * self.count, self.count)))
    }

    /// Waits until all parts are here (`MPI_Wait`).
    ///
    /// # Errors
    /// As for [`Persistent::wait`].
    pub fn wait(&mut self) -> Result<Status> {
        self.all.wait()
    }

    /// The buffer, between two rounds.
    ///
    /// # Errors
    /// [`Error::NotStartable`]: a round is under way.
    pub fn buffer(&mut self) -> Result<&mut [T]> {
        self.all.buffer()
    }
}

pub(crate) fn part_len(call: &'static str, len: usize, partitions: usize) -> Result<usize> {
    let count = len.checked_div(partitions).unwrap_or(0);
    if count * partitions == len {
        Ok(count)
    } else {
        Err(Error::Count { call, given: len, expected: count * partitions })
    }
}
