//! The contract of devices, for the layers above; am-via does not offer it to programs. The functions that keep memory without its lifetime
//! are unsafe, and so is the trait.

use std::ptr::NonNull;
use std::sync::Arc;

use super::*;

/// A slot of a peer that is free. Both functions post an entry and return whether it was posted, since a device may refuse the entry even
/// though the slot is free.
pub trait FreeSlot {
    /// Posts an entry with its payload.
    fn post(self, entry: Entry, payload: &Payload) -> bool;

    /// Posts an entry with its payload and with bytes outside of the entry. Their number must be the entry's length. Panics if the slot is
    /// too short.
    fn post_outside(self, entry: Entry, payload: &Payload, bytes: &[u8]) -> bool;
}

/// An emulated NIC, used by one thread at a time.
///
/// # Errors
/// Posting fails on a VI that is not connected, or whose peer is dead; set-up fails with the system's errors.
///
/// # Safety
/// A device must report the end of a transfer ([`News::Ended`], or [`Transfer::Done`]), and the end of a registration (`Posted::Done` of
/// [`deregister`](Self::deregister)), only when neither it nor a peer accesses the memory any more. When the device is dropped, it and its
/// peers no longer access any memory. Ranges that it lends, and blocks that it allocates, are live as long as their types say.
pub unsafe trait Device: World + std::fmt::Debug {
    /// The limits.
    fn attributes(&self) -> DeviceAttributes;

    /// Connects to a peer's NIC, peer to peer: if both NICs ask at the same time, one connection is made. A new connection gets the number
    /// `new`, which the caller must not have used for another connection; the number is also the index in the device's table. Returns the
    /// number of the connection; `None`: not yet, try again.
    fn connect(&mut self, new: ViNumber, to: Endpoint) -> Result<Option<ViNumber>, DeviceError>;

    /// Forgets all about a task that has ended: its connections with this NIC end, and their numbers may be used again. Nothing with the
    /// task may be under way. Another task may then get its number. A device whose tasks have their numbers for ever does nothing.
    ///
    /// # Errors
    /// The system's error.
    fn forget(&mut self, _task: TaskId) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Ends a connection. Posts of both ends are refused from then on; over shared memory, from when the ring is full. The peer gets an
    /// entry [`Operation::Disconnect`], unless its ring is full.
    fn disconnect(&mut self, vi: ViNumber) -> Result<(), DeviceError>;

    /// Sets whether later entries of this VI may be lost or reordered: VIA's Unreliable level. A device without losses ignores the call.
    fn allow_loss(&mut self, _vi: ViNumber, _allowed: bool) {}

    /// Posts an entry with its payload. Entries of a VI keep their order, unless [`allow_loss`](Self::allow_loss) has been set.
    fn post(&mut self, vi: ViNumber, entry: Entry, payload: &Payload) -> Result<Posted, DeviceError>;

    /// A free slot of a peer.
    type FreeSlot<'a>: FreeSlot
    where
        Self: 'a;

    /// The peer's next slot, if the device knows that the slot is free. A device whose `post` has to look for free slots does not look
    /// here: a function call on the fast path, even a rare one, makes its callers keep their values in memory.
    fn free_slot(&mut self, vi: ViNumber) -> Option<Self::FreeSlot<'_>>;

    /// Posts `entry` with `payload` and at most `len` bytes. `fill` writes these bytes into the peer's receive area (or where the device
    /// gathers them); its argument says how to store them. `fill` returns the number of bytes, which becomes the entry's length, or `None`
    /// to post nothing: this call then returns [`Posted::Retry`]. If the post returns [`Posted::Retry`] for another reason, `fill` was not
    /// called.
    fn post_area(
        &mut self,
        vi: ViNumber,
        entry: Entry,
        payload: &Payload,
        len: usize,
        fill: impl FnOnce(CheckedRange<'_>, Storing) -> Option<usize>,
    ) -> Result<Posted, DeviceError>;

    /// Returns the next event, without blocking. The payload of an entry is copied to `payload`. An entry keeps its slot only if its bytes
    /// are in the slot ([`Completion::keeps_slot`]).
    fn poll(&mut self, payload: &mut Payload) -> Option<News>;

    /// Borrows one connection to receive from it in line. `None`: there is no such connection, or this device does not support it.
    #[inline(always)]
    fn link(&mut self, _vi: ViNumber) -> Option<impl Link> {
        None::<NoLink>
    }

    /// The bytes of an area entry. `len` is the peer's claim; the range never exceeds the slot.
    ///
    /// # Safety
    /// `slot` must be that of an entry of `vi` that has arrived, keeps its slot, and has not been [released](Self::release): the peer,
    /// which
    /// may be a thread of this process, writes the other slots.
    unsafe fn area(&self, vi: ViNumber, slot: u32, len: u32) -> CheckedRange<'_>;

    /// Returns the oldest kept slot of a VI to its peer.
    fn release(&mut self, vi: ViNumber);

    /// Allocates `len` zeroed bytes of the memory that peers access fastest.
    fn alloc(&mut self, len: usize) -> Result<HeapBlock, DeviceError>;

    /// Whether `len` bytes from `at` on are memory of [`alloc`](Self::alloc) that all tasks map. `false` for a device without such memory.
    fn is_job_memory(&self, _at: NonNull<u8>, _len: usize) -> bool {
        false
    }

    /// Whether `len` bytes reach a peer sooner as this number of entries (0: not known yet) than if the peer reads them.
    fn prefers_pieces(&self, _to: Endpoint, _len: usize, _entries: u32) -> bool {
        false
    }

    /// Whether entries that [`prefers_pieces`](Self::prefers_pieces) prefers are sooner there even if they first wait for credits.
    fn pieces_may_wait(&self, _to: Endpoint) -> bool {
        false
    }

    /// Whether this task's processor and that of the peer share a cache, as far as the device knows.
    fn shares_cache(&self, _vi: ViNumber) -> bool {
        false
    }

    /// Announces that the caller is about to post this number of entries to a peer, so that a device can send them together.
    fn expect_posts(&mut self, _to: Endpoint, _entries: u32) {}

    /// Makes a memory file that other tasks can map; returns its name, and the mapping here. `None`: not supported by this device.
    fn make_shared_file(
        &mut self,
        _len: usize,
    ) -> Result<Option<(SharedFileName, Arc<Mapping>)>, DeviceError> {
        Ok(None)
    }

    /// Maps a memory file that another task has made.
    fn open_shared_file(&mut self, _name: SharedFileName) -> Result<Arc<Mapping>, DeviceError> {
        let source = std::io::Error::other("this device does not support it");
        Err(DeviceError::System { doing: "opening a shared memory file", source })
    }

    /// Closes the descriptor by which other tasks open a file. Must be called only when all tasks that use the file have opened it.
    fn close_shared_file(&mut self, _inode: u64) {}

    /// Forgets a file that no registration names any more. The file stays mapped while its mapping is held.
    fn forget_shared_file(&mut self, _inode: u64) {}

    /// Registers `memory` for peers.
    ///
    /// # Safety
    /// The memory must stay alive, and be left to the copies of peers that `registration` and later
    /// [`set_registration`](Self::set_registration) allow, until [`deregister`](Self::deregister) has returned `Posted::Done` or the
    /// device is dropped. If `finished` was passed to `deregister`, no peer may be copying then.
    unsafe fn register(
        &mut self,
        memory: CheckedRange<'_>,
        registration: Registration,
    ) -> Result<MemHandle, DeviceError>;

    /// Changes the rights and the protection tag of a registration.
    fn set_registration(&mut self, handle: MemHandle, registration: Registration) -> Result<(), DeviceError>;

    /// Announces that `by` will read the registration `handle` once, from front to back. A device that can speed this up starts now, and
    /// continues when it is polled.
    fn expect_one_read(&mut self, _by: Endpoint, _handle: MemHandle, _ptag: u32) {}

    /// Ends a registration. [`Posted::Retry`]: a peer is still copying, try again. `finished`: the caller knows that no peer is copying.
    fn deregister(&mut self, handle: MemHandle, finished: bool) -> Result<Posted, DeviceError>;

    /// The memory of a registration of this NIC that `claim` names, if the registration has the claim's protection tag and all rights of
    /// `need` ([`ACCESS_READ`], [`ACCESS_WRITE`]): 0 for the NIC's owner itself.
    fn registered(&self, claim: Claim, need: u32) -> Result<CheckedRange<'_>, ClaimFault>;

    /// RDMA write: copies `from` into registered memory of a task, which the claim names with the length of `from`. The bytes are stored
    /// before the peer sees any later entry.
    ///
    /// # Safety
    /// If the outcome is [`Transfer::Posted`], `from` must stay live and unchanged until [`News::Ended`], or until the device is dropped.
    unsafe fn rdma_write(
        &mut self,
        to: (TaskId, Claim),
        from: CheckedRange<'_>,
        id: u64,
    ) -> Result<Transfer, DeviceError>;

    /// RDMA read: copies registered memory of a task, which the claim names with the length of `to`.
    ///
    /// # Safety
    /// If the outcome is [`Transfer::Posted`], `to` must stay live and unused until [`News::Ended`], or until the device is dropped.
    unsafe fn rdma_read(
        &mut self,
        from: (TaskId, Claim),
        to: CheckedRange<'_>,
        id: u64,
    ) -> Result<Transfer, DeviceError>;

    /// Several RDMA writes to a region, each to its offset there, where that takes fewer system calls than one by one. The range of the
    /// claim does not matter. If this returns `false`, the caller must write each piece.
    ///
    /// # Errors
    /// [`DeviceError::Refused`]: the range from the first piece to the last is not registered for writing.
    fn rdma_write_pieces<'a>(
        &mut self,
        _to: (TaskId, Claim),
        _pieces: impl Iterator<Item = (u64, CheckedRange<'a>)> + Clone,
    ) -> Result<bool, DeviceError> {
        Ok(false)
    }

    /// Like [`rdma_write_pieces`](Self::rdma_write_pieces), for reads.
    ///
    /// # Errors
    /// [`DeviceError::Refused`]: the range from the first piece to the last is not registered for reading.
    fn rdma_read_pieces<'a>(
        &mut self,
        _from: (TaskId, Claim),
        _pieces: impl Iterator<Item = (u64, CheckedRange<'a>)> + Clone,
    ) -> Result<bool, DeviceError> {
        Ok(false)
    }

    /// Finds registered memory of a task, for [`lend_mapped`](Self::lend_mapped); returns whether the memory is mapped here.
    ///
    /// # Errors
    /// [`DeviceError::Refused`]: the memory is not registered with the rights of `need`.
    fn find_mapped(&mut self, _at: (TaskId, Claim), _need: u32) -> Result<bool, DeviceError> {
        Ok(false)
    }

    /// Lends `call` memory of a registration that [`find_mapped`](Self::find_mapped) found; the registration cannot end during the call.
    /// `None`, without calling `call`: the registration was not found for reading and writing, or has ended.
    fn lend_mapped<R>(
        &mut self,
        _at: (TaskId, Claim),
        _call: impl FnOnce(CheckedRange<'_>) -> R,
    ) -> Option<R> {
        None
    }

    /// Writes `bytes`, as many as the claim has, to memory of a registration that [`find_mapped`](Self::find_mapped) found; returns whether
    /// they were written. If not, the registration was not found for writing, or has ended.
    fn write_mapped(&mut self, _at: (TaskId, Claim), _bytes: &[u8]) -> bool {
        false
    }

    /// Fills `to`, which has the length of the claim, with memory of a registration that [`find_mapped`](Self::find_mapped) found; returns
    /// whether it did. If not, the registration was not found for reading, or has ended.
    fn read_mapped(&mut self, _at: (TaskId, Claim), _to: &mut [u8]) -> bool {
        false
    }

    /// Operates atomically on a word of a registration that [`find_mapped`](Self::find_mapped) found; returns the old value. `None`: the
    /// registration was not found for reading and writing, or has ended, or the word is not aligned to its size.
    fn atomic_mapped(&mut self, _at: (TaskId, Claim), _operation: AtomicOp) -> Option<u64> {
        None
    }

    /// Operates atomically on a word of 1, 2, 4 or 8 bytes in registered memory of a task.
    fn atomic(
        &mut self,
        at: (TaskId, Claim),
        operation: AtomicOp,
        id: u64,
    ) -> Result<Transfer<u64>, DeviceError>;
}

/// One connection, borrowed to receive from it in line: its entries are taken without a poll.
pub trait Link {
    /// The next entry, which stays in the ring until [`take`](Self::take) or a poll takes it. If `waits`, waits briefly for an entry.
    /// `None`: no entry arrived in time, or something else needs a poll.
    fn look(&self, waits: bool) -> Option<Seen<'_>>;

    /// The `len` bytes of the area entry that was looked at; `len` is the peer's claim. The range never exceeds the slot.
    ///
    /// # Safety
    /// [`look`](Self::look) must have found an area entry, which is not yet [taken](Self::take).
    unsafe fn area(&self, len: u32) -> CheckedRange<'_>;

    /// Consumes the entry that was looked at, and frees its slot.
    fn take(&mut self);

    /// Posts an entry for which a slot is reserved; returns whether it was posted.
    fn post_reserved(&mut self, entry: Entry) -> bool;

    /// Lets the next polls begin with the entries of other connections.
    fn end_turn(&mut self);
}

/// The link of a device that has none.
enum NoLink {}

impl Link for NoLink {
    fn look(&self, _waits: bool) -> Option<Seen<'_>> {
        match *self {}
    }

    unsafe fn area(&self, _len: u32) -> CheckedRange<'_> {
        match *self {}
    }

    fn take(&mut self) {
        match *self {}
    }

    fn post_reserved(&mut self, _entry: Entry) -> bool {
        match *self {}
    }

    fn end_turn(&mut self) {
        match *self {}
    }
}
