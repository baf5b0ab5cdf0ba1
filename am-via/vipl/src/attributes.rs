//! Attributes of VIs, and what a query returns.

use am_via_nic::{Reliability, ViState};

use crate::provider::PTag;

/// Attributes of a VI (`VIP_VI_ATTRIBUTES`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViAttributes {
    /// The reliability level, which must be the same at both ends.
    pub reliability: Reliability,
    /// Maximum bytes of a transfer, which must be the same at both ends.
    pub transfer_bytes_max: u32,
    /// Quality of service: a number whose meaning the programs agree on. It must be the same at both ends.
    pub qos: u16,
    /// The tag of the memory that this VI can access.
    pub ptag: PTag,
    /// Whether the peer may write memory of this tag.
    pub rdma_write: bool,
    /// Whether the peer may read memory of this tag.
    pub rdma_read: bool,
}

impl ViAttributes {
    /// Reliable delivery of transfers of any size, and RDMA both ways, for memory of this tag.
    #[must_use]
    pub fn new(ptag: PTag) -> Self {
        Self {
            reliability: Reliability::ReliableDelivery,
            transfer_bytes_max: u32::MAX,
            qos: 0,
            ptag,
            rdma_write: true,
            rdma_read: true,
        }
    }
}

/// The result of `VipQueryVi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViInfo {
    /// The state.
    pub state: ViState,
    /// The attributes.
    pub attributes: ViAttributes,
    /// Whether the send queue holds no descriptor.
    pub send_queue_empty: bool,
    /// Whether the receive queue holds no descriptor.
    pub receive_queue_empty: bool,
}
