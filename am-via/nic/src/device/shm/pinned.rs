//! The limit of registered private memory. A real NIC translates and pins registered pages, so their number is limited; the emulated NIC
//! only counts. Job memory and shared memory files do not count: a NIC registers all of them once.

use std::collections::HashMap;

use crate::device::DeviceError;

/// The private memory that one NIC has registered.
#[derive(Debug)]
pub(super) struct Pinned {
    pub(super) bytes_max: u64,
    bytes: u64,
    /// The bytes of each registration, by its region. Empty without a limit.
    of_regions: HashMap<u32, u64>,
}

impl Pinned {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, bytes: 0, of_regions: HashMap::new() }
    }

    pub(super) fn is_limited(&self) -> bool {
        self.bytes_max < u64::MAX
    }

    /// # Errors
    /// `Exhausted`: `bytes` more are above the limit.
    pub(super) fn check(&self, bytes: u64) -> Result<(), DeviceError> {
        let available = self.bytes_max - self.bytes;
        if bytes <= available {
            return Ok(());
        }
        Err(DeviceError::Exhausted {
            resource: "registered private memory, in bytes",
            needed: bytes,
            available,
            remedy: "unexpose memory that peers no longer need, wait for long sends to end, use memory of `alloc`, or raise the setting \
                     registered_bytes_max (AM_REGISTERED_BYTES_MAX)",
        })
    }

    /// Counts a registration whose bytes were checked.
    pub(super) fn add(&mut self, region: u32, bytes: u64) {
        self.bytes += bytes;
        self.of_regions.insert(region, bytes);
    }

    /// The registration has ended.
    pub(super) fn remove(&mut self, region: u32) {
        self.bytes -= self.of_regions.remove(&region).unwrap_or(0);
    }
}
