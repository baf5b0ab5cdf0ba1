//! Protection tags and memory registration (`VipCreatePtag`, `VipRegisterMem` and the like), and the ranges that data
//! segments name.

use std::rc::Rc;

use smallvec::SmallVec;

use crate::descriptor::DataSegment;
use crate::error::VipError;
use crate::provider::{Memory, PTag, RegistrationFault, Registrations};
use crate::user_agent::UserAgent;
use am_via_nic::Nic;
use am_via_nic::device::{ClaimFault, Device, HeapBlock, MemAttributes, MemHandle, Posted};
use am_via_shm::CheckedRange;

impl<D: Device> UserAgent<D> {
    /// Makes a protection tag (`VipCreatePtag`).
    ///
    /// # Errors
    /// No tag left.
    pub fn create_ptag(&mut self) -> Result<PTag, VipError> {
        Ok(self.kernel.registrations.create_ptag()?)
    }

    /// Destroys a protection tag (`VipDestroyPtag`).
    ///
    /// # Errors
    /// No such tag, or a VI or a registration still uses it.
    pub fn destroy_ptag(&mut self, tag: PTag) -> Result<(), VipError> {
        Ok(self.kernel.registrations.destroy_ptag(tag)?)
    }

    /// Allocates `len` zeroed bytes of the kind that peers access fastest when registered.
    ///
    /// # Errors
    /// No memory left.
    pub fn alloc(&mut self, len: usize) -> Result<Rc<Memory>, VipError> {
        Ok(Memory::new(self.nic.device.alloc(len)?))
    }

    /// Allocates `len` zeroed bytes of this process's private memory, like other buffers of a program.
    ///
    /// # Errors
    /// No memory left.
    pub fn alloc_private(&mut self, len: usize) -> Result<Rc<Memory>, VipError> {
        HeapBlock::private(len).map(Memory::new).ok_or(VipError::ErrorResource {
            resource: "memory for the buffer",
            available: 0,
            remedy: "free some memory, or ask for less",
        })
    }

    /// Registers `offset..offset + len` of `memory` (`VipRegisterMem`). The memory stays allocated until it is deregistered. `rights.ptag`
    /// is ignored: `tag` is used.
    ///
    /// # Errors
    /// An empty range or one outside the memory, an unknown tag, no registration or no bytes left, or an error of the device.
    pub fn register_mem(
        &mut self,
        memory: &Rc<Memory>,
        (offset, len): (usize, usize),
        tag: PTag,
        rights: MemAttributes,
    ) -> Result<MemHandle, VipError> {
        let Self { nic: Nic { device, .. }, kernel, .. } = self;
        Ok(kernel.registrations.register(device, memory, offset, len, (tag, rights))?)
    }

    /// Ends a registration (`VipDeregisterMem`); [`Posted::Retry`] while a transfer that uses the registration is in flight, or a peer is
    /// still copying.
    ///
    /// # Errors
    /// No such registration, or an error of the device.
    pub fn deregister_mem(&mut self, handle: MemHandle) -> Result<Posted, VipError> {
        let Self { nic: Nic { device, .. }, kernel, .. } = self;
        Ok(kernel.registrations.deregister(device, handle)?)
    }

    /// Tag, rights and length of a registration (`VipQueryMem`).
    ///
    /// # Errors
    /// No such registration.
    pub fn query_mem(&self, handle: MemHandle) -> Result<(MemAttributes, usize), VipError> {
        let found = self.kernel.registrations.query(handle);
        found.ok_or(VipError::Registration(RegistrationFault::UnknownHandle(handle)))
    }

    /// Changes the tag and the rights of a registration (`VipSetMemAttributes`).
    ///
    /// # Errors
    /// No such registration or tag, or an error of the device.
    pub fn set_mem_attributes(
        &mut self,
        handle: MemHandle,
        tag: PTag,
        rights: MemAttributes,
    ) -> Result<(), VipError> {
        let Self { nic: Nic { device, .. }, kernel, .. } = self;
        Ok(kernel.registrations.set_attributes(device, handle, (tag, rights))?)
    }
}

/// The length of a transfer as VIA's 32-bit number.
pub(crate) fn bytes_count(len: usize) -> u32 {
    u32::try_from(len).expect("the segments of a descriptor add up to its 32-bit length")
}

/// The ranges of a descriptor's data segments, in order.
#[derive(Debug)]
pub(crate) struct Segments<'a>(SmallVec<[CheckedRange<'a>; 4]>);

impl<'a> Segments<'a> {
    /// Translates each segment.
    ///
    /// # Errors
    /// Why the first invalid segment is refused.
    pub(crate) fn translate(
        registrations: &'a Registrations,
        segments: &[DataSegment],
        tag: PTag,
    ) -> Result<Self, ClaimFault> {
        let need = MemAttributes { ptag: tag.number(), ..MemAttributes::default() };
        let ranges = segments.iter().map(|&DataSegment { handle, offset, length }| {
            registrations.translate(handle, offset, u64::from(length), need)
        });
        ranges.collect::<Result<_, _>>().map(Self)
    }

    /// The number of the segment that contains byte `from` of the descriptor's data, and the segment's range from that byte on; `None` at
    /// the end of the data.
    pub(crate) fn run(&self, from: u32) -> Option<(usize, CheckedRange<'a>)> {
        let mut skip = from as usize;
        for (number, range) in self.0.iter().enumerate() {
            if skip < range.len() {
                return range.part(skip, range.len() - skip).map(|run| (number, run));
            }
            skip -= range.len();
        }
        None
    }

    /// Copies the data from byte `from` on to `into`, up to the end of either; returns the number of bytes.
    pub(crate) fn gather(&self, from: u32, into: CheckedRange<'_>) -> usize {
        self.each_run(from, into.len(), |at, run| {
            into.part(at, run.len()).is_some_and(|to| to.copy_from(run))
        })
    }

    /// Copies `bytes` into the ranges from byte `from` on; returns the number of bytes that fit.
    pub(crate) fn scatter(&self, from: u32, bytes: CheckedRange<'_>) -> usize {
        self.each_run(from, bytes.len(), |at, run| {
            bytes.part(at, run.len()).is_some_and(|part| run.copy_from(part))
        })
    }

    /// Copies the first bytes of the data to `bytes`, up to the end of either; returns the number of bytes.
    pub(crate) fn gather_slice(&self, bytes: &mut [u8]) -> usize {
        self.each_run(0, bytes.len(), |at, run| {
            run.copy_to_slice(&mut bytes[at..at + run.len()]);
            true
        })
    }

    /// Copies `bytes` into the ranges from byte `from` on; returns the number of bytes that fit.
    pub(crate) fn scatter_slice(&self, from: u32, bytes: &[u8]) -> usize {
        self.each_run(from, bytes.len(), |at, run| {
            run.copy_from_slice(&bytes[at..at + run.len()]);
            true
        })
    }

    fn each_run(
        &self,
        from: u32,
        len: usize,
        mut copy: impl FnMut(usize, CheckedRange<'_>) -> bool,
    ) -> usize {
        let mut done = 0;
        while done < len {
            let Some((_, run)) = self.run(from + bytes_count(done)) else { break };
            let Some(run) = run.part(0, run.len().min(len - done)) else { break };
            if !copy(done, run) {
                break;
            }
            done += run.len();
        }
        done
    }
}
