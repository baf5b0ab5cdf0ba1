//! The kernel agent: what a NIC has of everything, and who owns it (VIA 1.0 chapter 2, `VipOpenNic` and `VipQueryNic`).

use std::sync::atomic::{AtomicU32, Ordering};

use crate::device::{Device, DeviceAttributes};

use super::registration::Registrations;

/// NICs opened by this process so far.
static NICS_OPENED: AtomicU32 = AtomicU32::new(0);

/// What a NIC can do and how much of everything it has (`VIP_NIC_ATTRIBUTES`). Does not change while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicLimits {
    /// VIs at once.
    pub vis_max: u32,
    /// Descriptors in one work queue, those done and not yet dequeued included.
    pub descriptors_per_queue_max: u32,
    /// Data segments of a descriptor.
    pub segments_per_descriptor_max: u32,
    /// Completion queues at once.
    pub cqs_max: u32,
    /// Entries of a completion queue.
    pub cq_entries_max: u32,
    /// Bytes of one transfer: what VIA's 32-bit length can say.
    pub transfer_bytes_max: u32,
    /// Bytes that travel in one piece.
    pub native_mtu_bytes: u32,
    /// Protection tags at once.
    pub ptags_max: u32,
    /// Bytes in all registrations together (VIA's MaxRegisterBytes).
    pub register_bytes_max: u64,
    /// Bytes of one registration (VIA's MaxRegisterBlockBytes): no memory of a process is longer.
    pub register_block_bytes_max: u64,
    /// Registrations at once.
    pub regions_max: u32,
    /// Bytes of a discriminator.
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
            register_bytes_max: u64::MAX,
            register_block_bytes_max: isize::MAX.unsigned_abs() as u64,
            regions_max: device.regions_max,
            discriminator_bytes_max: 16,
        }
    }
}

/// What the provider keeps for one open NIC.
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
        // Relaxed: only the number has to be this NIC's alone.
        let nic = NICS_OPENED.fetch_add(1, Ordering::Relaxed);
        Self {
            nic,
            limits,
            registrations: Registrations::new(nic, limits.ptags_max, limits.register_bytes_max),
        }
    }

    /// Lets at most `bytes` be registered at once.
    pub(crate) fn limit_registered_bytes(&mut self, bytes: u64) {
        self.limits.register_bytes_max = bytes;
        self.limits.register_block_bytes_max = self.limits.register_block_bytes_max.min(bytes);
        self.registrations.limit_bytes(bytes);
    }

    /// A number that no other NIC of this process has: by it foreign handles are known.
    #[must_use]
    pub(crate) fn nic(&self) -> u32 {
        self.nic
    }

    /// The limits.
    #[must_use]
    pub(crate) fn limits(&self) -> &NicLimits {
        &self.limits
    }
}
