//! Protection tags and registered memory of one NIC (`VipCreatePtag`, `VipRegisterMem` and the like).
//!
//! A registration shares its memory with the program that allocated it, so that the bytes stay in place until the registration and all its
//! transfers have ended, whatever the program drops. This makes safe code over raw copies sound.

use std::cell::Cell;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use am_via_nic::device::{ClaimFault, Device, DeviceError, HeapBlock, MemAttributes, MemHandle, Posted};
use am_via_shm::CheckedRange;

/// Number of tags made by this process. All NICs take the numbers of their tags from this counter: a peer's claim names a task, a
/// registration and a tag, so a tag common to two NICs would let a VI of one NIC access memory of the other NIC.
static TAGS_MADE: AtomicU32 = AtomicU32::new(0);

/// A protection tag: only VIs with the tag of a registration can access its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PTag {
    /// The NIC that made the tag. Other NICs refuse it.
    nic: u32,
    number: u32,
}

impl PTag {
    /// The tag's number, which registrations and claims contain.
    #[must_use]
    pub fn number(self) -> u32 {
        self.number
    }
}

/// Memory that can be registered. Peers may write it while it is registered, so this task accesses its bytes by copies only, in one thread.
#[derive(Debug)]
pub struct Memory(HeapBlock, PhantomData<Cell<()>>);

impl Memory {
    /// The memory of `block`, which is freed when its last user drops it.
    #[must_use]
    pub fn new(block: HeapBlock) -> Rc<Self> {
        Rc::new(Self(block, PhantomData))
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the length is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Copies `bytes` to `offset`; `None` if that range does not lie inside the memory.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Option<()> {
        self.0.range().part(offset, bytes.len()).map(|range| range.copy_from_slice(bytes))
    }

    /// Copies from `offset` to `bytes`; `None` if that range does not lie inside the memory.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Option<()> {
        self.0.range().part(offset, bytes.len()).map(|range| range.copy_to_slice(bytes))
    }
}

/// Why an operation on tags or registrations was refused. The caller is at fault, except for `NoTagLeft`, `NoBytesLeft` and `Device`.
#[derive(Debug, thiserror::Error)]
pub enum RegistrationFault {
    /// A tag that was never made, or was destroyed.
    #[error("protection tag {0} does not exist, or was destroyed")]
    UnknownTag(u32),
    /// A tag that is still in use.
    #[error("protection tag {tag} is in use by {users} registrations and VIs: end those first")]
    TagInUse {
        /// The tag.
        tag: u32,
        /// Number of users.
        users: u32,
    },
    /// A registration that was never made, or has ended.
    #[error("memory handle {:#x}:{:#x} is not registered", .0.region, .0.generation)]
    UnknownHandle(MemHandle),
    /// A range that is empty, or does not lie inside its memory.
    #[error(
        "{len} bytes at offset {offset} of memory of {memory_len} bytes cannot be registered: the range must not be empty, and must lie inside the memory"
    )]
    Range {
        /// The requested offset.
        offset: usize,
        /// The requested length.
        len: usize,
        /// The length of the memory.
        memory_len: usize,
    },
    /// All tags are in use.
    #[error("all {0} protection tags are in use: destroy one first")]
    NoTagLeft(u32),
    /// The limit of registered bytes is reached.
    #[error(
        "{len} bytes cannot be registered: {registered} of {bytes_max} are in use, deregister some first"
    )]
    NoBytesLeft {
        /// Bytes requested.
        len: u64,
        /// Bytes registered.
        registered: u64,
        /// Maximum.
        bytes_max: u64,
    },
    /// An error of the device.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

#[derive(Debug)]
struct Registered {
    memory: Rc<Memory>,
    offset: usize,
    len: usize,
    attributes: MemAttributes,
    /// Number of transfers in flight whose local end is in this memory.
    transfers: u32,
}

/// The tags and registrations of one NIC.
#[derive(Debug)]
pub(crate) struct Registrations {
    nic: u32,
    /// Number of users of each tag.
    tags: HashMap<u32, u32>,
    tags_max: u32,
    regions: HashMap<MemHandle, Registered>,
    /// Bytes of all registrations; memory registered twice counts twice.
    bytes: u64,
    bytes_max: u64,
}

impl Registrations {
    /// No tags and no registrations yet. At most `tags_max` tags and `bytes_max` registered bytes are allowed. `nic` is the NIC's number,
    /// unique in this process.
    #[must_use]
    pub(crate) fn new(nic: u32, tags_max: u32, bytes_max: u64) -> Self {
        Self { nic, tags: HashMap::new(), tags_max, regions: HashMap::new(), bytes: 0, bytes_max }
    }

    /// Limits the registered bytes from now on; existing registrations stay.
    pub(crate) fn limit_bytes(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
    }

    /// Makes a tag.
    ///
    /// # Errors
    /// All tags are in use.
    pub(crate) fn create_ptag(&mut self) -> Result<PTag, RegistrationFault> {
        if self.tags.len() >= self.tags_max as usize {
            return Err(RegistrationFault::NoTagLeft(self.tags_max));
        }
        let tag = loop {
            // Relaxed: the number only has to be unique. Tag 0 marks memory registered without a tag.
            let tag = TAGS_MADE.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            if tag != 0 && !self.tags.contains_key(&tag) {
                break tag;
            }
        };
        self.tags.insert(tag, 0);
        Ok(PTag { nic: self.nic, number: tag })
    }

    /// Destroys a tag.
    ///
    /// # Errors
    /// The tag does not exist, or is still in use.
    pub(crate) fn destroy_ptag(&mut self, tag: PTag) -> Result<(), RegistrationFault> {
        match self.tags.get(&tag.number).filter(|_| tag.nic == self.nic) {
            None => Err(RegistrationFault::UnknownTag(tag.number)),
            Some(&users) if users > 0 => Err(RegistrationFault::TagInUse { tag: tag.number, users }),
            Some(_) => {
                self.tags.remove(&tag.number);
                Ok(())
            }
        }
    }

    /// Adds a registration or VI as a user of the tag.
    ///
    /// # Errors
    /// The tag does not exist.
    pub(crate) fn use_ptag(&mut self, tag: PTag) -> Result<(), RegistrationFault> {
        let users = self.tags.get_mut(&tag.number).filter(|_| tag.nic == self.nic);
        let users = users.ok_or(RegistrationFault::UnknownTag(tag.number))?;
        *users += 1;
        Ok(())
    }

    /// Removes a user of the tag.
    pub(crate) fn leave_ptag(&mut self, tag: PTag) {
        self.leave(tag.number);
    }

    fn leave(&mut self, tag: u32) {
        if let Some(users) = self.tags.get_mut(&tag) {
            *users -= 1;
        }
    }

    /// Registers `offset..offset + len` of `memory`.
    ///
    /// # Errors
    /// An empty range or one outside the memory, an unknown tag, no registration or no bytes left, or an error of the device.
    pub(crate) fn register(
        &mut self,
        device: &mut impl Device,
        memory: &Rc<Memory>,
        offset: usize,
        len: usize,
        (tag, attributes): (PTag, MemAttributes),
    ) -> Result<MemHandle, RegistrationFault> {
        let refused = RegistrationFault::Range { offset, len, memory_len: memory.len() };
        let Some(range) = memory.0.range().part(offset, len).filter(|_| len > 0) else {
            return Err(refused);
        };
        let registered = self.bytes.checked_add(len as u64).filter(|&bytes| bytes <= self.bytes_max);
        let Some(registered) = registered else {
            let (registered, bytes_max) = (self.bytes, self.bytes_max);
            return Err(RegistrationFault::NoBytesLeft { len: len as u64, registered, bytes_max });
        };
        self.use_ptag(tag)?;
        let attributes = MemAttributes { ptag: tag.number, ..attributes };
        // SAFETY: the entry of the table keeps the memory until the device has ended the registration, or is dropped (`deregister`,
        // `close`).
        // The program accesses it by copies only (`Memory`).
        match unsafe { device.register(range, attributes.registration()) } {
            Ok(handle) => {
                let memory = Rc::clone(memory);
                self.bytes = registered;
                self.regions.insert(handle, Registered { memory, offset, len, attributes, transfers: 0 });
                Ok(handle)
            }
            Err(error) => {
                self.leave_ptag(tag);
                Err(error.into())
            }
        }
    }

    /// Ends a registration. [`Posted::Retry`]: a transfer that uses the registration is in flight, or a peer is still copying; try again.
    ///
    /// # Errors
    /// No such registration, or an error of the device.
    pub(crate) fn deregister(
        &mut self,
        device: &mut impl Device,
        handle: MemHandle,
    ) -> Result<Posted, RegistrationFault> {
        let found = self.regions.get(&handle).ok_or(RegistrationFault::UnknownHandle(handle))?;
        if found.transfers > 0 || device.deregister(handle, false)? == Posted::Retry {
            return Ok(Posted::Retry);
        }
        let tag = found.attributes.ptag;
        self.bytes -= found.len as u64;
        self.regions.remove(&handle);
        self.leave(tag);
        Ok(Posted::Done)
    }

    /// Changes the tag and the rights of a registration.
    ///
    /// # Errors
    /// No such registration or tag, or an error of the device.
    pub(crate) fn set_attributes(
        &mut self,
        device: &mut impl Device,
        handle: MemHandle,
        (tag, attributes): (PTag, MemAttributes),
    ) -> Result<(), RegistrationFault> {
        let old = self.query(handle).ok_or(RegistrationFault::UnknownHandle(handle))?.0.ptag;
        let attributes = MemAttributes { ptag: tag.number, ..attributes };
        self.use_ptag(tag)?;
        if let Err(error) = device.set_registration(handle, attributes.registration()) {
            self.leave_ptag(tag);
            return Err(error.into());
        }
        self.leave(old);
        if let Some(found) = self.regions.get_mut(&handle) {
            found.attributes = attributes;
        }
        Ok(())
    }

    /// Attributes and length of a registration.
    #[must_use]
    pub(crate) fn query(&self, handle: MemHandle) -> Option<(MemAttributes, usize)> {
        self.regions.get(&handle).map(|found| (found.attributes, found.len))
    }

    /// The bytes that a descriptor's data segment, or a peer's staged claim, names. `need` has the required tag and rights.
    ///
    /// # Errors
    /// Why the claim is refused.
    pub(crate) fn translate(
        &self,
        handle: MemHandle,
        offset: u64,
        len: u64,
        need: MemAttributes,
    ) -> Result<CheckedRange<'_>, ClaimFault> {
        let found = self.regions.get(&handle).ok_or(ClaimFault::Stale)?;
        let MemAttributes { ptag, rdma_write, rdma_read } = found.attributes;
        if ptag != need.ptag {
            return Err(ClaimFault::Tag);
        }
        if need.rdma_write && !rdma_write {
            return Err(ClaimFault::NotWritable);
        }
        if need.rdma_read && !rdma_read {
            return Err(ClaimFault::NotReadable);
        }
        let bounds = ClaimFault::Bounds { len: found.len as u64 };
        let (Ok(offset), Ok(len)) = (usize::try_from(offset), usize::try_from(len)) else {
            return Err(bounds);
        };
        let whole = found.memory.0.range().part(found.offset, found.len);
        whole.and_then(|whole| whole.part(offset, len)).ok_or(bounds)
    }

    /// Notes the start of a transfer that uses the registration locally: the registration cannot end before the transfer.
    pub(crate) fn begin_transfer(&mut self, handle: MemHandle) {
        if let Some(found) = self.regions.get_mut(&handle) {
            found.transfers += 1;
        }
    }

    /// Notes the end of a transfer that used the registration.
    pub(crate) fn end_transfer(&mut self, handle: MemHandle) {
        if let Some(found) = self.regions.get_mut(&handle) {
            found.transfers = found.transfers.saturating_sub(1);
        }
    }

    /// Ends all registrations, because the NIC closes. Memory that a peer may still be copying, or that a transfer still uses, is leaked.
    pub(crate) fn close(&mut self, device: &mut impl Device) {
        for (handle, found) in self.regions.drain() {
            // After an error it is not known whether a peer copies.
            let quiet =
                (0..CLOSE_TRIES).any(|_| matches!(device.deregister(handle, false), Ok(Posted::Done)));
            if !quiet || found.transfers > 0 {
                tracing::warn!(region = handle.region, "memory in use by a peer is leaked");
                std::mem::forget(found.memory);
            }
        }
        self.tags.clear();
        self.bytes = 0;
    }
}

/// Number of times that a closing NIC checks whether a peer has finished with a registration.
const CLOSE_TRIES: u32 = 1000;
