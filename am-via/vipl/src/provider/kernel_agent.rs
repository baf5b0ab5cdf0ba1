//! The kernel agent: the limits of a NIC, and the owner of its resources (VIA 1.0 chapter 2, `VipOpenNic` and `VipQueryNic`).

use std::sync::atomic::{AtomicU32, Ordering};

use am_via_nic::device::{Device, DeviceAttributes};

use super::registration::Registrations;

/// Number of NICs opened by this process so far.
static NICS_OPENED: AtomicU32 = AtomicU32::new(0);

/// Capabilities and limits of a NIC (`VIP_NIC_ATTRIBUTES`), fixed while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicLimits {
    /// Maximum number of VIs.
    pub vis_max: u32,
    /// Maximum number of descriptors in a work queue, including those that are done and not dequeued.
    pub descriptors_per_queue_max: u32,
    /// Maximum number of data segments of a descriptor.
    pub segments_per_descriptor_max: u32,
    /// Maximum number of completion queues.
    pub cqs_max: u32,
    /// Maximum number of entries of a completion queue.
    pub cq_entries_max: u32,
    /// Maximum bytes of one transfer, limited by VIA's 32-bit length.
    pub transfer_bytes_max: u32,
    /// Bytes sent in one piece.
    pub native_mtu_bytes: u32,
    /// Maximum number of protection tags.
    pub ptags_max: u32,
    /// Maximum bytes of all registrations together (VIA's MaxRegisterBytes).
    pub register_bytes_max: u64,
    /// Maximum bytes of one registration (VIA's MaxRegisterBlockBytes).
    pub register_block_bytes_max: u64,
    /// Maximum number of registrations.
    pub regions_max: u32,
    /// Maximum bytes of a discriminator.
    pub discriminator_bytes_max: u32,
}

impl NicLimits {
    fn of(device: &DeviceAttributes) -> Self {
        Self {
            vis_max: 1024,
            descriptors_per_queue_max: 1024,
            segments_per_descriptor_max: 252,
            cqs_max: 1024,
            cq_entries_max: 65_536,
            transfer_bytes_max: u32::MAX,
            native_mtu_bytes: u32::try_from(device.slot_bytes).unwrap_or(u32::MAX),
            ptags_max: 1024,
            register_bytes_max: device.registered_bytes_max,
            register_block_bytes_max: (isize::MAX.unsigned_abs() as u64).min(device.registered_bytes_max),
            regions_max: device.regions_max,
            discriminator_bytes_max: 16,
        }
    }
}

/// The provider's state for one open NIC.
#[derive(Debug)]
pub(crate) struct KernelAgent {
    nic: u32,
    limits: NicLimits,
    /// Protection tags and registered memory.
    pub registrations: Registrations,
}

impl KernelAgent {
    /// The agent of a NIC over `device`.
    #[must_use]
    pub(crate) fn new(device: &impl Device) -> Self {
        let limits = NicLimits::of(&device.attributes());
        // Relaxed: the number only has to be unique.
        let nic = NICS_OPENED.fetch_add(1, Ordering::Relaxed);
        Self {
            nic,
            limits,
            registrations: Registrations::new(nic, limits.ptags_max, limits.register_bytes_max),
        }
    }

    /// Limits the bytes registered at a time.
    pub(crate) fn limit_registered_bytes(&mut self, bytes: u64) {
        self.limits.register_bytes_max = bytes;
        self.limits.register_block_bytes_max = self.limits.register_block_bytes_max.min(bytes);
        self.registrations.limit_bytes(bytes);
    }

    /// The NIC's number, unique in this process, by which foreign handles are detected.
    #[must_use]
    pub(crate) fn nic(&self) -> u32 {
        self.nic
    }

    #[must_use]
    pub(crate) fn limits(&self) -> &NicLimits {
        &self.limits
    }
}
