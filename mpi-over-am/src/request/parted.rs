//! Partitioned operations that own their buffer (MPI 5.0 chapter 4): each part is sent when it is marked ready, and arrives separately. If
//! the environment is for several threads, they can fill parts of one message concurrently.

use std::ops::{Deref, DerefMut};

use am_core::fabric::Fabric;
use bytemuck::{AnyBitPattern, NoUninit};

use super::partitioned::{self, part_len};
use super::{one, persistent};
use crate::communicator::Communicator;
use crate::data::buffer::{NotFree, PartsToReceive, PartsToSend, RecvData, SeenPart, SendData, TakenPart};
use crate::error::{Error, Result};
use crate::job::JobFabric;
use crate::message::progress::has_arrived;
use crate::message::request_id::RequestId;
use crate::message::state::State;
use crate::message::status::Status;
use crate::message::turn::Turn;
use crate::policy::{LockPolicy, OneThread};

/// A partitioned send and its buffer, for any number of threads. A thread [takes](Self::part) a part, fills it, and marks it
/// [ready](OwnPart::ready). One thread starts each round, and waits until the round is over.
///
/// ```
/// # use mpi_over_am::Environment;
/// # fn main() -> mpi_over_am::Result<()> {
/// # let environment = Environment::init_threads()?;
/// # let world = environment.world();
/// # let (right, left) = ((world.rank() + 1) % world.size(), (world.rank() + world.size() - 1) % world.size());
/// let receive = world.precv_init(vec![0u32; 4000], 4, left, 1)?;
/// let send = world.psend_init(vec![0u32; 4000], 4, right, 1)?;
/// for round in 0..3 {
///     receive.start()?;
///     send.start()?;
///     std::thread::scope(|threads| {
///         for thread in 0..4 {
///             let send = &send;
///             threads.spawn(move || -> mpi_over_am::Result<()> {
///                 let mut part = send.part(thread)?;
///                 part.fill(round);
///                 part.ready()
///             });
///         }
///     });
///     send.wait()?;
///     receive.wait()?;
///     assert_eq!(receive.arrived(3)?.expect("the round is over")[999], round);
/// }
/// # environment.finalize()
/// # }
/// ```
///
/// A part that is ready is inaccessible:
///
/// ```compile_fail,E0382
/// # fn f(send: mpi_over_am::PartitionedSend<u8>) -> mpi_over_am::Result<()> {
/// let mut part = send.part(0)?;
/// part.ready()?;
/// part[0] = 1;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct PartitionedSend<T: NoUninit + Send, F: Fabric = JobFabric, L: LockPolicy = OneThread> {
    /// `None` only during the drop.
    parts: Option<PartsToSend<T>>,
    operation: Operation<F, L>,
}

/// A partitioned receive and its buffer, for any number of threads, which read parts that have arrived.
///
/// A borrowed part cannot outlive the buffer:
///
/// ```compile_fail,E0505
/// # fn f(receive: mpi_over_am::PartitionedReceive<u8>) -> mpi_over_am::Result<()> {
/// let part = receive.arrived(0)?;
/// drop(receive);
/// assert!(part.is_some());
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct PartitionedReceive<
    T: AnyBitPattern + Send + Sync,
    F: Fabric = JobFabric,
    L: LockPolicy = OneThread,
> {
    /// `None` only during the drop.
    parts: Option<PartsToReceive<T>>,
    partitions: usize,
    operation: Operation<F, L>,
}

/// A part of a partitioned send that this thread has taken to write to. If this value is dropped, the part is not ready, and can be taken
/// again.
#[must_use = "the part is sent when it is marked ready"]
#[derive(Debug)]
pub struct OwnPart<'a, T: NoUninit, F: Fabric, L: LockPolicy> {
    part: TakenPart<'a, T>,
    operation: &'a Operation<F, L>,
}

/// A part of a partitioned receive that has arrived. While it exists, the next round cannot start.
#[derive(Debug)]
pub struct ArrivedPart<'a, T>(SeenPart<'a, T>);

/// A persistent request that all threads share.
#[derive(Debug)]
struct Operation<F: Fabric, L: LockPolicy> {
    communicator: Communicator<F, L>,
    id: RequestId,
}

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// A partitioned send of the elements of `data`, in `partitions` parts of the same length (`MPI_Psend_init`).
    ///
    /// # Errors
    /// [`Error::Count`]: the parts would not have the same length; those of [`psend_init_data`](Self::psend_init_data).
    pub fn psend_init<T: NoUninit + Send>(
        &self,
        data: Vec<T>,
        partitions: usize,
        dest: u32,
        tag: i32,
    ) -> Result<PartitionedSend<T, F, L>> {
        let count = part_len("psend_init", data.len(), partitions)?;
        let parts = PartsToSend::new(data, partitions, count);
        let bytes = SendData::from_bytes(parts.bytes(self));
        let each = (partitions as u64, (count * size_of::<T>()) as u64);
        let operation = Operation::new(self, self.init_psend(&bytes, each, dest, tag)?);
        Ok(PartitionedSend { parts: Some(parts), operation })
    }

    /// A partitioned receive into the elements of `buffer`, in `partitions` parts of the same length (`MPI_Precv_init`). The sender may
    /// have divided them differently.
    ///
    /// # Errors
    /// [`Error::Count`]: the parts would not have the same length; those of [`precv_init_data`](Self::precv_init_data).
    pub fn precv_init<T: AnyBitPattern + Send + Sync>(
        &self,
        buffer: Vec<T>,
        partitions: usize,
        source: u32,
        tag: i32,
    ) -> Result<PartitionedReceive<T, F, L>> {
        let count = part_len("precv_init", buffer.len(), partitions)?;
        let parts = PartsToReceive::new(buffer, count);
        let data = RecvData::from_buffer(parts.buffer(self));
        let each = (partitions as u64, (count * size_of::<T>()) as u64);
        let operation = Operation::new(self, self.init_precv(&data, each, source, tag)?);
        Ok(PartitionedReceive { parts: Some(parts), partitions, operation })
    }
}

impl<F: Fabric, L: LockPolicy> Operation<F, L> {
    fn new(communicator: &Communicator<F, L>, id: RequestId) -> Self {
        Self { communicator: communicator.clone(), id }
    }

    fn turn(&self) -> Result<Turn<'_, F, L>> {
        self.communicator.state()
    }

    /// Waits for the end of a round. `over` runs in the turn in which the round ends.
    fn wait(&self, over: impl FnOnce(&State<F>)) -> Result<Status> {
        let mut turn = self.turn()?;
        let result = one::wait(&mut turn, self.id);
        self.end(turn, over);
        result
    }

    fn test(&self, over: impl FnOnce(&State<F>)) -> Result<Option<Status>> {
        let mut turn = self.turn()?;
        let result = one::test(&mut turn, self.id);
        self.end(turn, over);
        result
    }

    /// Runs `over` if no round is under way.
    fn end(&self, mut turn: Turn<'_, F, L>, over: impl FnOnce(&State<F>)) {
        if !turn.handlers().requests.is_active(self.id) {
            over(&turn);
        }
    }
}

impl<T: NoUninit + Send, F: Fabric, L: LockPolicy> PartitionedSend<T, F, L> {
    fn parts(&self) -> &PartsToSend<T> {
        self.parts.as_ref().expect("present until the drop")
    }

    /// Number of parts.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.parts().len()
    }

    /// Starts a round (`MPI_Start`).
    ///
    /// # Errors
    /// [`Error::NotStartable`]: the last round is under way.
    pub fn start(&self) -> Result<()> {
        persistent::start(&mut *self.operation.turn()?, self.operation.id)
    }

    /// Takes a part for the calling thread. A thread may take a part before the round starts.
    ///
    /// # Errors
    /// [`Error::Partition`]: no such part, another thread has taken it, or it was marked ready in this round.
    pub fn part(&self, partition: usize) -> Result<OwnPart<'_, T, F, L>> {
        let part = self.parts().take(partition).map_err(|why| {
            let what = match why {
                NotFree::Unknown => "there is no such partition",
                NotFree::Taken => "another thread has taken it",
                NotFree::Leaving => "it was marked ready, and is in use until the wait",
            };
            self.operation.refused(partition, self.partitions(), what)
        })?;
        Ok(OwnPart { part, operation: &self.operation })
    }

    /// Marks a part that no thread has taken as ready: the part is sent (`MPI_Pready`).
    ///
    /// # Errors
    /// Those of [`part`](Self::part) and [`OwnPart::ready`].
    pub fn ready(&self, partition: usize) -> Result<()> {
        self.part(partition)?.ready()
    }

    /// Waits until all parts have been marked ready and sent (`MPI_Wait`). Returns at once if no round was started.
    ///
    /// # Errors
    /// The operation's error; an error while making progress, after which the operation is still under way.
    pub fn wait(&self) -> Result<Status> {
        self.operation.wait(|turn| self.parts().free_all(turn))
    }

    /// Makes progress; returns the status if the round is over (`MPI_Test`).
    ///
    /// # Errors
    /// Those of [`wait`](Self::wait).
    pub fn test(&self) -> Result<Option<Status>> {
        self.operation.test(|turn| self.parts().free_all(turn))
    }
}

impl<T: NoUninit, F: Fabric, L: LockPolicy> OwnPart<'_, T, F, L> {
    /// Marks the part as ready: the part is sent (`MPI_Pready`).
    ///
    /// # Errors
    /// [`Error::Partition`]: no round was started; those of a send. After an error, the part can be taken again.
    pub fn ready(self) -> Result<()> {
        let Self { part, operation } = self;
        let mut turn = operation.turn()?;
        partitioned::pready(&mut *turn, operation.id, part.number() as u64)?;
        // In the same turn, because this may have been the round's last part: another thread may then end the round, and release all parts.
        part.hand_over();
        Ok(())
    }
}

impl<T: NoUninit, F: Fabric, L: LockPolicy> Deref for OwnPart<'_, T, F, L> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.part
    }
}

impl<T: NoUninit, F: Fabric, L: LockPolicy> DerefMut for OwnPart<'_, T, F, L> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.part
    }
}

impl<T> Deref for ArrivedPart<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: AnyBitPattern + Send + Sync, F: Fabric, L: LockPolicy> PartitionedReceive<T, F, L> {
    fn parts(&self) -> &PartsToReceive<T> {
        self.parts.as_ref().expect("present until the drop")
    }

    /// Number of parts.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.partitions
    }

    /// Starts a round (`MPI_Start`).
    ///
    /// # Errors
    /// [`Error::NotStartable`]: the last round is under way, or a part of it is still borrowed.
    pub fn start(&self) -> Result<()> {
        let Operation { id, .. } = self.operation;
        let mut turn = self.operation.turn()?;
        // In the turn in which the round starts, so that no thread borrows a part between this check and the start.
        if self.parts().is_seen() {
            return Err(Error::NotStartable { request: id.number(), is_persistent: true });
        }
        persistent::start(&mut *turn, id)
    }

    /// Makes progress; returns a part if it has arrived (`MPI_Parrived`).
    ///
    /// # Errors
    /// [`Error::Partition`]: no such part; an error while making progress.
    pub fn arrived(&self, partition: usize) -> Result<Option<ArrivedPart<'_, T>>> {
        self.check(partition)?;
        let mut turn = self.operation.turn()?;
        // A part that has arrived is not written before the next round, which starts in another turn.
        let has_arrived = partitioned::parrived(&mut *turn, self.operation.id, partition as u64)?;
        Ok(has_arrived.then(|| ArrivedPart(self.parts().see(&*turn, partition))))
    }

    /// Waits until a part has arrived.
    ///
    /// # Errors
    /// Those of [`arrived`](Self::arrived).
    pub fn wait_for(&self, partition: usize) -> Result<ArrivedPart<'_, T>> {
        self.check(partition)?;
        let id = self.operation.id;
        let mut turn = self.operation.turn()?;
        turn.wait_for(&mut |context| has_arrived(context, id, partition as u64))?;
        // In the same turn, as in `arrived`.
        Ok(ArrivedPart(self.parts().see(&*turn, partition)))
    }

    fn check(&self, partition: usize) -> Result<()> {
        if partition < self.partitions {
            return Ok(());
        }
        Err(self.operation.refused(partition, self.partitions, "there is no such partition"))
    }

    /// Waits until all parts have arrived (`MPI_Wait`). Returns at once if no round was started.
    ///
    /// # Errors
    /// The operation's error; an error while making progress, after which the operation is still under way.
    pub fn wait(&self) -> Result<Status> {
        self.operation.wait(|_| ())
    }

    /// Makes progress; returns the status if the round is over (`MPI_Test`).
    ///
    /// # Errors
    /// Those of [`wait`](Self::wait).
    pub fn test(&self) -> Result<Option<Status>> {
        self.operation.test(|_| ())
    }

    /// The buffer, between rounds.
    ///
    /// # Errors
    /// [`Error::NotStartable`]: a round is under way.
    pub fn buffer(&mut self) -> Result<&mut [T]> {
        if self.operation.communicator.is_under_way(self.operation.id) {
            return Err(Error::NotStartable { request: self.operation.id.number(), is_persistent: true });
        }
        let parts = self.parts.as_mut().expect("present until the drop");
        Ok(parts.all(&self.operation.communicator))
    }
}

impl<F: Fabric, L: LockPolicy> Operation<F, L> {
    fn refused(&self, partition: usize, partitions: usize, what: &'static str) -> Error {
        let [partition, partitions] = [partition, partitions].map(|number| number as u64);
        Error::Partition { request: self.id.number(), partition, partitions, what }
    }
}

impl<T: NoUninit + Send, F: Fabric, L: LockPolicy> Drop for PartitionedSend<T, F, L> {
    fn drop(&mut self) {
        let Operation { communicator, id } = &self.operation;
        communicator
            .free_with(*id, crate::data::buffer::KeptVec::new(self.parts.take().into_iter().collect()));
    }
}

impl<T: AnyBitPattern + Send + Sync, F: Fabric, L: LockPolicy> Drop for PartitionedReceive<T, F, L> {
    fn drop(&mut self) {
        let Operation { communicator, id } = &self.operation;
        communicator
            .free_with(*id, crate::data::buffer::KeptVec::new(self.parts.take().into_iter().collect()));
    }
}
