//! The NIC as its user sees it: the door to everything else (`VipOpenNic`).

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use crate::device::{
    AtomicTransfer, ClaimFault, Completion, Device, DeviceAttributes, DeviceError, Entry, HeapBlock, Mapping,
    MemAttributes, MemHandle, News, NodeAddress, Operation, Payload, Posted, RemoteMemory, SharedFileName,
    Transfer, Waker, WordUpdate,
};
use crate::shm::copy::CheckedRange;
use crate::vipl::vi::{Vi, ViId, ViState};

/// An open NIC over device `D`.
#[derive(Debug)]
pub struct Nic<D: Device> {
    device: D,
    vis: Vec<Option<Vi>>,
}

/// A message that a standing receive took: a receive descriptor without data segments that is posted again by itself.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// The VI it came on.
    pub vi: ViId,
    /// The immediate data.
    pub immediate: u32,
    /// Bytes. A claim of the sender.
    pub length: u32,
    /// Whether the bytes came in the entry.
    pub is_inline: bool,
    /// The slot of the receive area that holds them otherwise.
    pub slot: u32,
}

/// What polling a NIC brings up.
#[derive(Clone, Copy, Debug)]
pub enum ViplEvent {
    /// A standing receive is done.
    Received(Received),
    /// A peer has connected.
    Connected(ViId, NodeAddress),
    /// A transfer that was posted has ended.
    Ended {
        /// The caller's number.
        id: u64,
        /// Whether it was carried out.
        result: Result<u64, ClaimFault>,
    },
    /// A connection has ended.
    Disconnected(ViId),
    /// The task at the other end of some VIs has died.
    TaskFailed(u32),
    /// A peer has rung ([`Nic::ring`]).
    Rung,
    /// The task at the other end of a VI has closed its NIC.
    PeerClosed(NodeAddress),
}

impl<D: Device> Nic<D> {
    /// Opens the NIC over `device`.
    #[must_use]
    pub fn open(device: D) -> Self {
        Self { device, vis: Vec::new() }
    }

    /// The NIC's address.
    #[must_use]
    pub(crate) fn address(&self) -> NodeAddress {
        self.device.address()
    }

    /// The limits (`VipQueryNic`).
    #[must_use]
    pub(crate) fn attributes(&self) -> DeviceAttributes {
        self.device.attributes()
    }

    /// Connects to a peer's NIC (`VipConnectPeerRequest`): both may ask at once. `None`: not yet, ask again
    /// (`VipConnectPeerDone`).
    ///
    /// # Errors
    /// An unknown peer, no VI left, or the system's word.
    pub(crate) fn connect_peer(&mut self, to: NodeAddress) -> Result<Option<ViId>, DeviceError> {
        let Some(number) = self.device.connect(to)? else { return Ok(None) };
        self.insert(ViId(number), to);
        Ok(Some(ViId(number)))
    }

    fn insert(&mut self, vi: ViId, peer: NodeAddress) {
        let index = vi.0.0 as usize;
        if self.vis.len() <= index {
            self.vis.resize_with(index + 1, || None);
        }
        self.vis[index].get_or_insert(Vi { state: ViState::Connected, peer });
    }

    /// Whom a VI is connected to.
    #[must_use]
    pub(crate) fn peer(&self, vi: ViId) -> Option<NodeAddress> {
        self.vis.get(vi.0.0 as usize).and_then(Option::as_ref).map(|vi| vi.peer)
    }

    /// Sends an immediate word and up to 40 bytes, without a descriptor: done when the call returns.
    ///
    /// # Errors
    /// The VI is not connected.
    #[inline(always)]
    pub(crate) fn post_inline(
        &mut self,
        vi: ViId,
        immediate: u32,
        payload: &Payload,
        length: u32,
    ) -> Result<Posted, DeviceError> {
        let entry = Entry { immediate, length, operation: Operation::Inline as u32, extra: 0 };
        self.device.post(vi.0, entry, payload)
    }

    /// RDMA write with immediate data into the peer's receive area, gathered by `fill`: the slot that belongs to the next
    /// receive. Done when the call returns.
    ///
    /// # Errors
    /// The VI is not connected.
    #[inline(always)]
    pub(crate) fn post_rdma_write_area(
        &mut self,
        vi: ViId,
        immediate: u32,
        len: usize,
        fill: impl FnOnce(CheckedRange<'_>) -> usize,
    ) -> Result<Posted, DeviceError> {
        let entry = Entry { immediate, operation: Operation::Area as u32, ..Entry::default() };
        self.device.post_area(vi.0, entry, len, fill)
    }

    /// The next event; the bytes of an inline message are copied to `payload`. Never blocks.
    #[inline(always)]
    pub(crate) fn poll(&mut self, payload: &mut Payload) -> Option<ViplEvent> {
        match self.device.poll(payload)? {
            News::Entry(completion) => self.entry(&completion),
            news => self.rare(Box::new(news)).map(|event| *event),
        }
    }

    #[inline(always)]
    fn entry(&mut self, completion: &Completion) -> Option<ViplEvent> {
        let Completion { vi, slot, entry } = completion;
        let is_inline = match Operation::of(entry.operation) {
            Some(Operation::Inline) => true,
            Some(Operation::Area) => false,
            other => return self.rare_entry(ViId(*vi), other).map(|event| *event),
        };
        Some(ViplEvent::Received(Received {
            vi: ViId(*vi),
            immediate: entry.immediate,
            length: entry.length,
            is_inline,
            slot: *slot,
        }))
    }

    #[cold]
    #[inline(never)]
    fn rare_entry(&mut self, vi: ViId, operation: Option<Operation>) -> Option<Box<ViplEvent>> {
        self.device.release(vi.0);
        if operation == Some(Operation::Disconnect) {
            if let Some(Some(found)) = self.vis.get_mut(vi.0.0 as usize) {
                found.state = ViState::Error;
            }
            return Some(Box::new(ViplEvent::Disconnected(vi)));
        }
        None
    }

    #[cold]
    #[inline(never)]
    #[expect(
        clippy::boxed_local,
        reason = "by value it would keep the frequent kind in memory: see `poll_rest` of the device"
    )]
    fn rare(&mut self, news: Box<News>) -> Option<Box<ViplEvent>> {
        let event = match *news {
            News::Connected(number, peer) => {
                self.insert(ViId(number), peer);
                ViplEvent::Connected(ViId(number), peer)
            }
            News::Ended { id, result } => ViplEvent::Ended { id, result },
            News::TaskFailed(task) => {
                for vi in self.vis.iter_mut().flatten().filter(|vi| vi.peer.task == task) {
                    vi.state = ViState::Error;
                }
                ViplEvent::TaskFailed(task)
            }
            News::Rung => ViplEvent::Rung,
            News::PeerClosed(peer) => {
                for vi in self.vis.iter_mut().flatten().filter(|vi| vi.peer == peer) {
                    vi.state = ViState::Error;
                }
                ViplEvent::PeerClosed(peer)
            }
            News::Entry(completion) => return self.entry(&completion).map(Box::new),
        };
        Some(Box::new(event))
    }

    /// The bytes of a received area message.
    #[inline(always)]
    #[must_use]
    pub(crate) fn area(&self, vi: ViId, slot: u32, length: u32) -> CheckedRange<'_> {
        self.device.area(vi.0, slot, length)
    }

    /// Posts the standing receive of the oldest received message again: its slot belongs to the peer from now on.
    #[inline(always)]
    pub(crate) fn release(&mut self, vi: ViId) {
        self.device.release(vi.0);
    }

    /// Allocates memory that peers reach the fastest way.
    ///
    /// # Errors
    /// No memory left.
    pub(crate) fn alloc(&mut self, len: usize) -> Result<HeapBlock, DeviceError> {
        self.device.alloc(len)
    }

    /// Whether `len` bytes from `at` on lie in memory of [`alloc`](Self::alloc), which is registered whole when the NIC is opened.
    #[must_use]
    pub(crate) fn is_job_memory(&self, at: NonNull<u8>, len: usize) -> bool {
        self.device.is_job_memory(at, len)
    }

    /// Makes a memory file that other tasks can map as well; `None` if the device has none such.
    ///
    /// # Errors
    /// The system's.
    pub fn make_shared_file(
        &mut self,
        len: usize,
    ) -> Result<Option<(SharedFileName, Arc<Mapping>)>, DeviceError> {
        self.device.make_shared_file(len)
    }

    /// Maps a memory file that another task has made.
    ///
    /// # Errors
    /// The system's; it is not there.
    pub fn open_shared_file(&mut self, name: SharedFileName) -> Result<Arc<Mapping>, DeviceError> {
        self.device.open_shared_file(name)
    }

    /// All tasks have opened the file.
    pub fn close_shared_file(&mut self, inode: u64) {
        self.device.close_shared_file(inode);
    }

    /// Registrations name this file no more.
    pub fn forget_shared_file(&mut self, inode: u64) {
        self.device.forget_shared_file(inode);
    }

    /// Whether the system has to be asked for `len` bytes from `at` on when peers reach them: they lie in no memory file.
    #[must_use]
    pub fn is_private(&self, at: NonNull<u8>, len: usize) -> bool {
        !self.device.is_job_memory(at, len) && !self.device.is_in_shared_file(at, len)
    }

    /// Registers memory (`VipRegisterMem`). The caller keeps it alive until it is deregistered.
    ///
    /// # Errors
    /// No registration left.
    pub(crate) fn register_mem(
        &mut self,
        memory: CheckedRange<'_>,
        attributes: MemAttributes,
        only: Option<u32>,
    ) -> Result<MemHandle, DeviceError> {
        self.device.register(memory, attributes, only)
    }

    /// Ends a registration (`VipDeregisterMem`); [`Posted::Retry`] while a peer still copies, unless the caller knows that
    /// none does (`finished`).
    ///
    /// # Errors
    /// No such registration.
    pub(crate) fn deregister_mem(
        &mut self,
        handle: MemHandle,
        finished: bool,
    ) -> Result<Posted, DeviceError> {
        self.device.deregister(handle, finished)
    }

    /// The memory of an own registration (`VipQueryMem`), if it allows peers all that `need` names.
    ///
    /// # Errors
    /// No such registration, not that much of it, or not that right.
    #[inline(always)]
    pub(crate) fn registered(
        &self,
        handle: MemHandle,
        offset: u64,
        len: u64,
        need: MemAttributes,
    ) -> Result<CheckedRange<'_>, ClaimFault> {
        self.device.registered(handle, offset, len, need)
    }

    /// RDMA write without immediate data: silent at the peer.
    ///
    /// # Errors
    /// A protection error.
    pub(crate) fn rdma_write(
        &mut self,
        to: RemoteMemory,
        from: CheckedRange<'_>,
        id: u64,
    ) -> Result<Transfer, DeviceError> {
        self.device.rdma_write(to, from, id)
    }

    /// RDMA read.
    ///
    /// # Errors
    /// A protection error.
    pub(crate) fn rdma_read(
        &mut self,
        from: RemoteMemory,
        to: CheckedRange<'_>,
        id: u64,
    ) -> Result<Transfer, DeviceError> {
        self.device.rdma_read(from, to, id)
    }

    /// Updates a word of a peer's registered memory atomically (beyond VIA 1.0).
    ///
    /// # Errors
    /// A protection error.
    pub(crate) fn atomic(
        &mut self,
        at: RemoteMemory,
        bytes: u64,
        update: WordUpdate,
        id: u64,
    ) -> Result<AtomicTransfer, DeviceError> {
        self.device.atomic(at, bytes, update, id)
    }

    /// Between two polls that brought nothing.
    #[inline(always)]
    pub(crate) fn wait(&mut self, polls: u32, limit: Duration) {
        self.device.wait(polls, limit);
    }

    /// How a task has died, if it has.
    #[must_use]
    pub(crate) fn failure(&self, task: u32) -> Option<String> {
        self.device.failure(task)
    }

    /// Whether the process of a task has certainly ended.
    #[must_use]
    pub fn has_ended(&self, task: u32) -> bool {
        self.device.has_ended(task)
    }

    /// Ends the wait of a peer, or the next one that it begins.
    ///
    /// # Errors
    /// No such task.
    pub fn ring(&mut self, to: NodeAddress) -> Result<(), DeviceError> {
        self.device.ring(to)
    }

    /// Marks this task as failed.
    pub(crate) fn fail(&mut self, why: &str) {
        self.device.fail(why);
    }

    /// Wakes the NIC's user from another thread.
    #[must_use]
    pub(crate) fn waker(&self) -> Waker {
        self.device.waker()
    }
}
