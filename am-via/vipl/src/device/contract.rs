//! What every device does. Its methods are given memory without a lifetime, or hand it out: programs can name neither the trait nor
//! what it needs, so that only the layers above call it and only the devices here implement it.

use std::ptr::NonNull;
use std::time::Duration;

use am_via_job::WaitFacts;

use super::*;

/// An emulated NIC. One thread at a time.
///
/// # Errors
/// Posting fails on a VI that is not connected, or whose peer is dead; set-up fails with the system's errors.
pub trait Device: std::fmt::Debug {
    /// The NIC's address.
    fn address(&self) -> NodeAddress;

    /// The limits.
    fn attributes(&self) -> DeviceAttributes;

    /// Connects to a peer's NIC, peer to peer: both may ask at once and get one connection. A new connection gets the number `new`,
    /// which the caller has given to no other one; its place in the device is that number. Returns the number of the connection, or
    /// `None`: not yet, ask again.
    fn connect(&mut self, new: ViNumber, to: NodeAddress) -> Result<Option<ViNumber>, DeviceError>;

    /// Ends a connection. The peer's posts are refused from now on.
    fn disconnect(&mut self, vi: ViNumber) -> Result<(), DeviceError>;

    /// Whether entries that are posted on this VI from now on may be lost, or come in another order: VIA's Unreliable level.
    /// A device that loses none has nothing to do.
    fn allow_loss(&mut self, _vi: ViNumber, _allowed: bool) {}

    /// Posts an entry with what it carries. The sequence of entries on a VI is kept.
    fn post(&mut self, vi: ViNumber, entry: Entry, payload: &Payload) -> Result<Posted, DeviceError>;

    /// Posts `entry` with `payload`, and with bytes, at most `len`, that `fill` writes into the peer's receive area (or where the device
    /// gathers them), stored as it is told; it returns how many it wrote, which becomes the entry's length. If it returns `None`, nothing is
    /// posted, and the result is [`Posted::Retry`]; in all other cases of that result `fill` is not called.
    fn post_area(
        &mut self,
        vi: ViNumber,
        entry: Entry,
        payload: &Payload,
        len: usize,
        fill: impl FnOnce(CheckedRange<'_>, Storing) -> Option<usize>,
    ) -> Result<Posted, DeviceError>;

    /// The next piece of news; the payload of an entry is copied to `payload`. The slot of an entry stays taken only if the entry says
    /// that its bytes are there ([`Completion::keeps_slot`]). Never blocks.
    fn poll(&mut self, payload: &mut Payload) -> Option<News>;

    /// Looks at the next entry of one VI as [`poll`](Self::poll) does; it stays there until a poll, or [`take_next`](Self::take_next). If
    /// `waits`, a moment is waited for it. `None`: nothing came in time, or something else wants a poll, or this device has no such way.
    #[inline(always)]
    fn look_at_next(&mut self, _vi: ViNumber, _payload: &mut Payload, _waits: bool) -> Option<Completion> {
        None
    }

    /// Consumes the entry that the last call of [`look_at_next`](Self::look_at_next) has returned, and gives its slot back.
    #[inline(always)]
    fn take_next(&mut self, _vi: ViNumber) {}

    /// The bytes of an area entry, at most `len` (a claim, cut to the slot).
    fn area(&self, vi: ViNumber, slot: u32, len: u32) -> CheckedRange<'_>;

    /// Gives the oldest slot that a VI has taken back to its peer.
    fn release(&mut self, vi: ViNumber);

    /// Allocates `len` zeroed bytes of memory that peers reach the fastest way; the range, and what takes it back.
    fn alloc(&mut self, len: usize) -> Result<HeapBlock, DeviceError>;

    /// Whether `len` bytes from `at` on lie in memory of [`alloc`](Self::alloc) that all tasks map. A device without such memory says no.
    fn is_job_memory(&self, _at: NonNull<u8>, _len: usize) -> bool {
        false
    }

    /// Makes a memory file that other tasks can map as well; its name, and the mapping here. `None`: this device has none such.
    fn make_shared_file(
        &mut self,
        _len: usize,
    ) -> Result<Option<(SharedFileName, Arc<Mapping>)>, DeviceError> {
        Ok(None)
    }

    /// Maps a memory file that another task has made.
    fn open_shared_file(&mut self, _name: SharedFileName) -> Result<Arc<Mapping>, DeviceError> {
        let source = std::io::Error::other("this device has none");
        Err(DeviceError::System { doing: "opening a shared memory file", source })
    }

    /// Gives back what other tasks open a file by: all have opened it.
    fn close_shared_file(&mut self, _inode: u64) {}

    /// Registrations name this file no more. It stays mapped while its mapping is held.
    fn forget_shared_file(&mut self, _inode: u64) {}

    /// Whether `len` bytes from `at` on lie in a memory file that this task has made or opened.
    fn is_in_shared_file(&self, _at: NonNull<u8>, _len: usize) -> bool {
        false
    }

    /// Registers `memory` for peers.
    fn register(
        &mut self,
        memory: CheckedRange<'_>,
        attributes: MemAttributes,
    ) -> Result<MemHandle, DeviceError>;

    /// Changes what a registration allows.
    fn set_mem_attributes(&mut self, handle: MemHandle, attributes: MemAttributes)
    -> Result<(), DeviceError>;

    /// One peer will read the registration `handle`, once and front to back. A device that can make that faster begins to, and goes on when
    /// it is polled.
    fn expect_one_read(&mut self, _handle: MemHandle) {}

    /// Ends a registration for new claims. [`Posted::Retry`]: a peer is still copying, ask again. With `finished`, the
    /// caller knows that no peer is.
    fn deregister(&mut self, handle: MemHandle, finished: bool) -> Result<Posted, DeviceError>;

    /// The memory of an own registration, if it has the protection tag of `need` and allows peers all that `need` names.
    fn registered(
        &self,
        handle: MemHandle,
        offset: u64,
        len: u64,
        need: MemAttributes,
    ) -> Result<CheckedRange<'_>, ClaimFault>;

    /// RDMA write: copies `from` into registered memory of a peer. The bytes are in place before any entry that is posted
    /// later is seen there. Where the outcome is [`Transfer::Posted`], `from` stays alive and unchanged until
    /// [`News::Ended`].
    fn rdma_write(
        &mut self,
        to: RemoteMemory,
        from: CheckedRange<'_>,
        id: u64,
    ) -> Result<Transfer, DeviceError>;

    /// RDMA read: copies registered memory of a peer to `to`. Where the outcome is [`Transfer::Posted`], `to` stays alive
    /// and left to the device until [`News::Ended`].
    fn rdma_read(
        &mut self,
        from: RemoteMemory,
        to: CheckedRange<'_>,
        id: u64,
    ) -> Result<Transfer, DeviceError>;

    /// Finds registered memory of a peer, for [`lend_mapped`](Self::lend_mapped); whether it is mapped here.
    ///
    /// # Errors
    /// It is not registered for reading and writing.
    fn find_mapped(&mut self, _at: RemoteMemory, _len: u64) -> Result<bool, DeviceError> {
        Ok(false)
    }

    /// Lets `call` use memory of a registration that [`find_mapped`](Self::find_mapped) has found, before the registration can end; `None`,
    /// without `call`, if it was not found or has ended.
    fn lend_mapped<R>(
        &mut self,
        _at: RemoteMemory,
        _len: u64,
        _call: impl FnOnce(CheckedRange<'_>) -> R,
    ) -> Option<R> {
        None
    }

    /// Operates atomically on a word of 1, 2, 4 or 8 `bytes` in registered memory of a peer.
    fn atomic(
        &mut self,
        at: RemoteMemory,
        bytes: u64,
        operation: AtomicOp,
        id: u64,
    ) -> Result<AtomicTransfer, DeviceError>;

    /// Between two polls that brought nothing: spins, yields or sleeps, at most `limit`. Whether nothing has come for so long that the
    /// task is to note what it waits for ([`note_wait`](Self::note_wait)).
    fn wait(&mut self, polls: u32, limit: Duration) -> bool;

    /// Notes what the task waits for, where its launcher can read it.
    fn note_wait(&mut self, facts: WaitFacts);

    /// Why a task is known to be dead, or `None` if it is not.
    fn failure(&self, task: u32) -> Option<String>;

    /// Why a task is dead whose memory a transfer has found gone. The launcher may not have reported it yet: waits a moment for the
    /// report, which names the cause.
    fn cause_of_death(&self, task: u32) -> Option<String> {
        self.failure(task)
    }

    /// Why the job is about to end: its first failure, unless the program asked that the job goes on.
    fn end_of_job(&self) -> Option<String> {
        None
    }

    /// Whether the job ends, or will in a moment: waits that long, since a task that fails takes its memory back before anybody can
    /// know that it fails.
    fn job_is_about_to_end(&self) -> bool {
        self.end_of_job().is_some()
    }

    /// Whether the process of a task has certainly ended; `false` where that can't be known.
    fn has_ended(&self, task: u32) -> bool;

    /// The number of the host that a task runs on: tasks of one host can share memory.
    fn host(&self, _task: u32) -> u32 {
        0
    }

    /// Ends the wait of a peer, or the next one that it begins. A device that carries writes by entries has nothing to do.
    fn ring(&mut self, _to: NodeAddress) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Marks this task as failed for all peers.
    fn fail(&mut self, why: &str);

    /// Wakes this device's owner from another thread.
    fn waker(&self) -> Waker;
}
