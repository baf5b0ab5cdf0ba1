//! Partitioned communication of several threads (MPI 5.0 chapter 4): each thread fills parts of one message, and marks them ready;
//! each goes when it is ready, and arrives by itself.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use am_core::Context;
use am_core::fabric::Fabric;
use bytemuck::{AnyBitPattern, NoUninit};

use super::communicator::Handle;
use super::{SharedCommunicator, Waiting};
use crate::buffer::{NotFree, PartsToReceive, PartsToSend, RecvData, SeenPart, SendData, TakenPart};
use crate::communicator::Communicator;
use crate::environment::JobFabric;
use crate::error::{Error, Result};
use crate::handlers::MpiHandlers;
use crate::request::{RequestId, has_arrived, part_len};
use crate::state::is_over;
use crate::status::Status;

/// A partitioned send and its buffer, for any number of threads. A thread [takes](Self::part) a part, fills it, and says that it
/// is [ready](OwnPart::ready); one of them starts the rounds, and waits for their ends.
///
/// ```
/// # use mpi_over_am::SharedEnvironment;
/// # fn main() -> mpi_over_am::Result<()> {
/// # let environment = SharedEnvironment::init()?;
/// # let world = environment.world()?;
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
/// A part that is ready is out of reach:
///
/// ```compile_fail,E0382
/// # fn f(send: mpi_over_am::SharedPartitionedSend<u8>) -> mpi_over_am::Result<()> {
/// let mut part = send.part(0)?;
/// part.ready()?;
/// part[0] = 1;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct SharedPartitionedSend<T: NoUninit + Send, F: Fabric = JobFabric> {
    /// Until the drop.
    parts: Option<PartsToSend<T>>,
    operation: Operation<F>,
}

/// A partitioned receive and its buffer, for any number of threads, which look at parts that have arrived.
///
/// A part that somebody looks at does not outlive the buffer:
///
/// ```compile_fail,E0505
/// # fn f(receive: mpi_over_am::SharedPartitionedReceive<u8>) -> mpi_over_am::Result<()> {
/// let part = receive.arrived(0)?;
/// drop(receive);
/// assert!(part.is_some());
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct SharedPartitionedReceive<T: AnyBitPattern + Send + Sync, F: Fabric = JobFabric> {
    /// Until the drop.
    parts: Option<PartsToReceive<T>>,
    partitions: usize,
    operation: Operation<F>,
}

/// A part of a partitioned send that this thread has, to write to. Dropped, it is free again, and not ready.
#[must_use = "the part goes when it is ready"]
#[derive(Debug)]
pub struct OwnPart<'a, T: NoUninit, F: Fabric> {
    part: TakenPart<'a, T>,
    operation: &'a Operation<F>,
}

/// A part of a partitioned receive that has arrived. While there is one, the next round cannot start.
#[derive(Debug)]
pub struct ArrivedPart<'a, T>(SeenPart<'a, T>);

/// A persistent request that all threads share.
#[derive(Debug)]
struct Operation<F: Fabric> {
    handle: Arc<Handle<F>>,
    id: RequestId,
}

impl<F: Fabric> SharedCommunicator<F> {
    /// A partitioned send of the elements of `data`, in `partitions` parts of the same length (`MPI_Psend_init`).
    ///
    /// # Errors
    /// As for [`Communicator::psend_init`].
    pub fn psend_init<T: NoUninit + Send>(
        &self,
        data: Vec<T>,
        partitions: usize,
        dest: u32,
        tag: i32,
    ) -> Result<SharedPartitionedSend<T, F>> {
        let count = part_len("psend_init", data.len(), partitions)?;
        let parts = PartsToSend::new(data, partitions, count);
        let bytes = SendData::from_bytes(parts.bytes());
        let each = (partitions as u64, (count * size_of::<T>()) as u64);
        let operation =
            Operation::new(&self.handle, |inside| inside.psend_init_data(&bytes, each, dest, tag))?;
        Ok(SharedPartitionedSend { parts: Some(parts), operation })
    }

    /// A partitioned receive into the elements of `buffer`, in `partitions` parts of the same length (`MPI_Precv_init`). The sender
    /// may have divided them otherwise.
    ///
    /// # Errors
    /// As for [`Communicator::precv_init`].
    pub fn precv_init<T: AnyBitPattern + Send + Sync>(
        &self,
        buffer: Vec<T>,
        partitions: usize,
        source: u32,
        tag: i32,
    ) -> Result<SharedPartitionedReceive<T, F>> {
        let count = part_len("precv_init", buffer.len(), partitions)?;
        let parts = PartsToReceive::new(buffer, count);
        let room = RecvData::from_buffer(parts.room());
        let each = (partitions as u64, (count * size_of::<T>()) as u64);
        let operation =
            Operation::new(&self.handle, |inside| inside.precv_init_data(&room, each, source, tag))?;
        Ok(SharedPartitionedReceive { parts: Some(parts), partitions, operation })
    }
}

impl<F: Fabric> Operation<F> {
    fn new(
        handle: &Arc<Handle<F>>,
        init: impl FnOnce(&Communicator<F>) -> Result<RequestId>,
    ) -> Result<Self> {
        let id = handle.shared.inner.with(handle.number, init)?;
        Ok(Self { handle: Arc::clone(handle), id })
    }

    fn with<R: Send>(&self, call: impl FnOnce(&Communicator<F>, RequestId) -> Result<R>) -> Result<R> {
        self.handle.shared.inner.with(self.handle.number, |inside| call(inside, self.id))
    }

    /// Waits for the end of a round; `over` runs in the turn in which it ends.
    fn wait(&self, over: impl FnOnce()) -> Result<Status> {
        let id = self.id;
        let is_there = |context: &mut Context<F, MpiHandlers>| is_over(context, id);
        let take = |inside: &Communicator<F>| Ok(ended(inside, id, inside.wait(id), over));
        self.handle
            .shared
            .inner
            .wait_until(self.handle.number, is_there, take)
            .map_err(Waiting::into_error)?
    }

    fn test(&self, over: impl FnOnce()) -> Result<Option<Status>> {
        self.with(|inside, id| ended(inside, id, inside.test(id), over))
    }
}

/// What a wait or a test has given; `over` runs if no round is under way any more.
fn ended<F: Fabric, R: Send>(
    inside: &Communicator<F>,
    request: RequestId,
    result: Result<R>,
    over: impl FnOnce(),
) -> Result<R> {
    if !inside.is_under_way(request) {
        over();
    }
    result
}

impl<T: NoUninit + Send, F: Fabric> SharedPartitionedSend<T, F> {
    fn parts(&self) -> &PartsToSend<T> {
        self.parts.as_ref().expect("they are there until the drop")
    }

    /// How many parts there are.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.parts().len()
    }

    /// Starts a round (`MPI_Start`).
    ///
    /// # Errors
    /// [`Error::NotStartable`]: the last one is under way.
    pub fn start(&self) -> Result<()> {
        self.operation.with(|inside, id| inside.start(id))
    }

    /// A part, for the calling thread, before it is ready: also before the round starts.
    ///
    /// # Errors
    /// [`Error::Partition`]: no such part, another thread has it, or it was marked ready in this round.
    pub fn part(&self, partition: usize) -> Result<OwnPart<'_, T, F>> {
        let part = self.parts().take(partition).map_err(|why| {
            let what = match why {
                NotFree::Unknown => "there is no such partition",
                NotFree::Taken => "another thread has it",
                NotFree::Leaving => "it was marked ready, and is not the program's before the wait",
            };
            self.operation.refused(partition, self.partitions(), what)
        })?;
        Ok(OwnPart { part, operation: &self.operation })
    }

    /// Marks a part as ready that no thread has: it goes (`MPI_Pready`).
    ///
    /// # Errors
    /// As for [`part`](Self::part) and [`OwnPart::ready`].
    pub fn ready(&self, partition: usize) -> Result<()> {
        self.part(partition)?.ready()
    }

    /// Waits until all parts were marked, and have gone (`MPI_Wait`). At once if no round was started.
    ///
    /// # Errors
    /// The operation's own; what progress reports, and then it is still under way.
    pub fn wait(&self) -> Result<Status> {
        self.operation.wait(|| self.parts().free_all())
    }

    /// Makes progress; the status if the round is over (`MPI_Test`).
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    pub fn test(&self) -> Result<Option<Status>> {
        self.operation.test(|| self.parts().free_all())
    }
}

impl<T: NoUninit, F: Fabric> OwnPart<'_, T, F> {
    /// Marks the part as ready: it goes (`MPI_Pready`).
    ///
    /// # Errors
    /// [`Error::Partition`]: no round was started; as a send. The part is free then.
    pub fn ready(self) -> Result<()> {
        let Self { part, operation } = self;
        operation.with(|inside, id| {
            inside.pready(id, part.number() as u64)?;
            // In the same turn: the round may be over, and another thread about to free all parts.
            part.hand_over();
            Ok(())
        })
    }
}

impl<T: NoUninit, F: Fabric> Deref for OwnPart<'_, T, F> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.part
    }
}

impl<T: NoUninit, F: Fabric> DerefMut for OwnPart<'_, T, F> {
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

impl<T: AnyBitPattern + Send + Sync, F: Fabric> SharedPartitionedReceive<T, F> {
    fn parts(&self) -> &PartsToReceive<T> {
        self.parts.as_ref().expect("they are there until the drop")
    }

    /// How many parts there are.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.partitions
    }

    /// Starts a round (`MPI_Start`).
    ///
    /// # Errors
    /// [`Error::NotStartable`]: the last one is under way, or somebody still looks at a part of it.
    pub fn start(&self) -> Result<()> {
        self.operation.with(|inside, id| {
            // In the same turn, so that nobody begins to look meanwhile.
            if self.parts().is_seen() {
                return Err(Error::NotStartable { request: id.number(), is_persistent: true });
            }
            inside.start(id)
        })
    }

    /// Makes progress; a part, if it has arrived (`MPI_Parrived`).
    ///
    /// # Errors
    /// [`Error::Partition`]: no such part; what progress reports.
    pub fn arrived(&self, partition: usize) -> Result<Option<ArrivedPart<'_, T>>> {
        self.check(partition)?;
        self.operation.with(|inside, id| {
            // Nothing writes to a part that has arrived before the next round, which starts in another turn.
            let has_arrived = inside.parrived(id, partition as u64)?;
            Ok(has_arrived.then(|| ArrivedPart(self.parts().see(partition))))
        })
    }

    /// Waits until a part has arrived.
    ///
    /// # Errors
    /// As for [`arrived`](Self::arrived).
    pub fn wait_for(&self, partition: usize) -> Result<ArrivedPart<'_, T>> {
        self.check(partition)?;
        let Operation { handle, id } = &self.operation;
        let is_there = |context: &mut Context<F, MpiHandlers>| has_arrived(context, *id, partition as u64);
        // In the same turn, as in `arrived`.
        let see = |_: &Communicator<F>| Ok(ArrivedPart(self.parts().see(partition)));
        handle.shared.inner.wait_until(handle.number, is_there, see).map_err(Waiting::into_error)
    }

    fn check(&self, partition: usize) -> Result<()> {
        if partition < self.partitions {
            return Ok(());
        }
        Err(self.operation.refused(partition, self.partitions, "there is no such partition"))
    }

    /// Waits until all parts are here (`MPI_Wait`). At once if no round was started.
    ///
    /// # Errors
    /// The operation's own; what progress reports, and then it is still under way.
    pub fn wait(&self) -> Result<Status> {
        self.operation.wait(|| ())
    }

    /// Makes progress; the status if the round is over (`MPI_Test`).
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    pub fn test(&self) -> Result<Option<Status>> {
        self.operation.test(|| ())
    }

    /// The buffer, between two rounds.
    ///
    /// # Errors
    /// [`Error::NotStartable`]: a round is under way.
    pub fn buffer(&mut self) -> Result<&mut [T]> {
        let is_under_way = self.operation.with(|inside, id| Ok(inside.is_under_way(id)))?;
        if is_under_way {
            return Err(Error::NotStartable { request: self.operation.id.number(), is_persistent: true });
        }
        Ok(self.parts.as_mut().expect("they are there until the drop").all())
    }
}

impl<F: Fabric> Operation<F> {
    fn refused(&self, partition: usize, partitions: usize, what: &'static str) -> Error {
        let [partition, partitions] = [partition, partitions].map(|number| number as u64);
        Error::Partition { request: self.id.number(), partition, partitions, what }
    }
}

impl<T: NoUninit + Send, F: Fabric> Drop for SharedPartitionedSend<T, F> {
    fn drop(&mut self) {
        let Operation { handle, id } = &self.operation;
        handle.give_back(*id, self.parts.take());
    }
}

impl<T: AnyBitPattern + Send + Sync, F: Fabric> Drop for SharedPartitionedReceive<T, F> {
    fn drop(&mut self) {
        let Operation { handle, id } = &self.operation;
        handle.give_back(*id, self.parts.take());
    }
}
