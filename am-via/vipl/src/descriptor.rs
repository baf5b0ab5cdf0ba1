//! Descriptors: requests to a VI to send, receive, write or read (VIA 1.0 appendix A, "descriptor format").
//!
//! A descriptor belongs to the provider from its post until it is dequeued: a post takes it by value and the dequeue returns it, so that it
//! cannot be changed meanwhile. VIA names local memory by virtual address and handle; here it is named by handle and offset, so that a
//! program cannot make up an address.

use std::fmt;

use smallvec::SmallVec;

use am_via_nic::device::MemHandle;

/// The bits of the control field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control(pub u16);

impl Control {
    /// A send or a receive (`VIP_CONTROL_OP_SENDRECV`).
    pub const SEND_RECEIVE: Self = Self(0);
    /// An RDMA write.
    pub const RDMA_WRITE: Self = Self(1);
    /// An RDMA read.
    pub const RDMA_READ: Self = Self(2);
    /// The descriptor has immediate data, which are sent, too.
    pub const IMMEDIATE: Self = Self(4);
    /// The descriptor starts after earlier RDMA reads are done. Here every descriptor does, because a send queue is carried out in order.
    pub const QUEUE_FENCE: Self = Self(8);

    const OPERATION: u16 = 3;
    const RESERVED: u16 = !15;

    /// The operation bits.
    #[must_use]
    pub fn operation(self) -> Self {
        Self(self.0 & Self::OPERATION)
    }

    /// Whether all bits of `other` are set.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(super) fn is_well_formed(self) -> bool {
        self.0 & Self::RESERVED == 0 && self.operation().0 != 3
    }
}

impl std::ops::BitOr for Control {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The bits of the status field.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Status(pub u32);

impl Status {
    /// The provider has finished with the descriptor, with or without an error.
    pub const DONE: Self = Self(0x1);
    /// The descriptor is malformed.
    pub const FORMAT_ERROR: Self = Self(0x2);
    /// A data segment does not lie in memory that is registered with the VI's protection tag.
    pub const PROTECTION_ERROR: Self = Self(0x4);
    /// More data arrived than the receive can hold, or the length is not the sum of the segments.
    pub const LENGTH_ERROR: Self = Self(0x8);
    /// Some data were moved before the error.
    pub const PARTIAL_ERROR: Self = Self(0x10);
    /// The VI left the connected state before the descriptor was carried out.
    pub const DESC_FLUSHED_ERROR: Self = Self(0x20);
    /// The connection was lost.
    pub const TRANSPORT_ERROR: Self = Self(0x40);
    /// Access to the peer's memory was refused.
    pub const RDMA_PROT_ERROR: Self = Self(0x80);
    /// The peer's receive descriptor was missing, too short or malformed.
    pub const REMOTE_DESC_ERROR: Self = Self(0x100);
    /// Operation field: a receive.
    pub const OP_RECEIVE: Self = Self(1 << 16);
    /// Operation field: an RDMA write.
    pub const OP_RDMA_WRITE: Self = Self(2 << 16);
    /// Operation field, of a receive descriptor: the immediate data of a peer's RDMA write have completed the receive.
    pub const OP_REMOTE_RDMA_WRITE: Self = Self(3 << 16);
    /// Operation field: an RDMA read.
    pub const OP_RDMA_READ: Self = Self(4 << 16);
    /// Operation field: a send.
    pub const OP_SEND: Self = Self(0);
    /// The immediate data are valid.
    pub const IMMEDIATE: Self = Self(0x8_0000);

    const ERRORS: u32 = 0x1fe;
    const OPERATION: u32 = 7 << 16;

    /// Whether the provider has finished with the descriptor.
    #[must_use]
    pub fn is_done(self) -> bool {
        self.contains(Self::DONE)
    }

    /// Whether the descriptor was carried out without an error.
    #[must_use]
    pub fn is_success(self) -> bool {
        self.is_done() && self.0 & Self::ERRORS == 0
    }

    /// The error bits.
    #[must_use]
    pub fn errors(self) -> Self {
        Self(self.0 & Self::ERRORS)
    }

    /// The operation field.
    #[must_use]
    pub fn operation(self) -> Self {
        Self(self.0 & Self::OPERATION)
    }

    /// Whether all bits of `other` are set.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for Status {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(Status, &str); 10] = [
            (Status::DONE, "DONE"),
            (Status::FORMAT_ERROR, "FORMAT_ERROR"),
            (Status::PROTECTION_ERROR, "PROTECTION_ERROR"),
            (Status::LENGTH_ERROR, "LENGTH_ERROR"),
            (Status::PARTIAL_ERROR, "PARTIAL_ERROR"),
            (Status::DESC_FLUSHED_ERROR, "DESC_FLUSHED_ERROR"),
            (Status::TRANSPORT_ERROR, "TRANSPORT_ERROR"),
            (Status::RDMA_PROT_ERROR, "RDMA_PROT_ERROR"),
            (Status::REMOTE_DESC_ERROR, "REMOTE_DESC_ERROR"),
            (Status::IMMEDIATE, "IMMEDIATE"),
        ];
        const OPERATIONS: [&str; 5] = ["SEND", "RECEIVE", "RDMA_WRITE", "REMOTE_RDMA_WRITE", "RDMA_READ"];
        let operation = OPERATIONS.get((self.operation().0 >> 16) as usize).copied().unwrap_or("?");
        write!(f, "{operation}")?;
        NAMES.iter().filter(|(bit, _)| self.contains(*bit)).try_for_each(|(_, name)| write!(f, "|{name}"))
    }
}

/// A range of registered local memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataSegment {
    /// The registration.
    pub handle: MemHandle,
    /// Bytes from the start of the registered memory.
    pub offset: u64,
    /// Length in bytes.
    pub length: u32,
}

/// A range of the peer's registered memory: the address segment of an RDMA descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressSegment {
    /// The peer's registration, whose handle the peer has sent.
    pub handle: MemHandle,
    /// Bytes from the start of the registered memory.
    pub offset: u64,
}

/// A descriptor: a control segment, for RDMA an address segment, and data segments.
#[repr(align(64))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    pub(super) control: Control,
    pub(super) status: Status,
    pub(super) immediate: u32,
    pub(super) length: u32,
    pub(super) address: Option<AddressSegment>,
    pub(super) segments: SmallVec<[DataSegment; 2]>,
}

/// `VIP_DESCRIPTOR_ALIGNMENT`.
const _: () = assert!(align_of::<Descriptor>() == 64);

impl Descriptor {
    fn new(control: Control, address: Option<AddressSegment>) -> Box<Self> {
        Box::new(Self {
            control,
            status: Status::default(),
            immediate: 0,
            length: 0,
            address,
            segments: SmallVec::new(),
        })
    }

    /// A send, for a send queue.
    #[must_use]
    pub fn send() -> Box<Self> {
        Self::new(Control::SEND_RECEIVE, None)
    }

    /// A receive, for a receive queue.
    #[must_use]
    pub fn receive() -> Box<Self> {
        Self::new(Control::SEND_RECEIVE, None)
    }

    /// An RDMA write to `address`.
    #[must_use]
    pub fn rdma_write(address: AddressSegment) -> Box<Self> {
        Self::new(Control::RDMA_WRITE, Some(address))
    }

    /// An RDMA read from `address`.
    #[must_use]
    pub fn rdma_read(address: AddressSegment) -> Box<Self> {
        Self::new(Control::RDMA_READ, Some(address))
    }

    /// Adds a data segment, from which a send or an RDMA write gathers, or into which a receive or an RDMA read scatters. The segment's
    /// length is added to the descriptor's.
    #[must_use]
    pub fn with_segment(mut self: Box<Self>, segment: DataSegment) -> Box<Self> {
        self.segments.push(segment);
        self.length = self.length.saturating_add(segment.length);
        self
    }

    /// Adds immediate data.
    #[must_use]
    pub fn with_immediate(mut self: Box<Self>, immediate: u32) -> Box<Self> {
        self.control = self.control | Control::IMMEDIATE;
        self.immediate = immediate;
        self
    }

    /// Replaces the control bits.
    #[must_use]
    pub fn with_control(mut self: Box<Self>, control: Control) -> Box<Self> {
        self.control = control;
        self
    }

    /// Sets a length that is not computed from the segments. A length other than their sum is an error.
    #[must_use]
    pub fn with_length(mut self: Box<Self>, length: u32) -> Box<Self> {
        self.length = length;
        self
    }

    /// Prepares the descriptor for another post: the length, which was the number of bytes moved, is reset to the sum of the segments.
    #[must_use]
    pub fn again(mut self: Box<Self>) -> Box<Self> {
        self.length = u32::try_from(self.capacity()).unwrap_or(u32::MAX);
        self
    }

    /// The descriptor's status.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    /// Before the post, the number of bytes requested; after completion, the number of bytes moved.
    #[must_use]
    pub fn length(&self) -> u32 {
        self.length
    }

    /// The immediate data to send; for a receive that is done, those received. Data set on a receive before its post have no effect.
    #[must_use]
    pub fn immediate(&self) -> Option<u32> {
        let operation = self.status.operation();
        let is_received = operation == Status::OP_RECEIVE || operation == Status::OP_REMOTE_RDMA_WRITE;
        let valid = if self.status.is_done() && is_received {
            self.status.contains(Status::IMMEDIATE)
        } else {
            self.control.contains(Control::IMMEDIATE)
        };
        valid.then_some(self.immediate)
    }

    /// The data segments.
    #[must_use]
    pub fn segments(&self) -> &[DataSegment] {
        &self.segments
    }

    /// The error that the provider finds when the descriptor is posted.
    pub(super) fn flaw(&self, is_send_queue: bool, segments_max: u32) -> Option<Status> {
        let rdma = self.control.operation() != Control::SEND_RECEIVE;
        let misplaced = rdma && !is_send_queue || self.address.is_some() != rdma;
        let reads_immediate = self.control.contains(Control::RDMA_READ | Control::IMMEDIATE);
        if !self.control.is_well_formed()
            || misplaced
            || reads_immediate
            || self.segments.len() > segments_max as usize
        {
            return Some(Status::FORMAT_ERROR);
        }
        (self.capacity() != u64::from(self.length)).then_some(Status::LENGTH_ERROR)
    }

    /// The sum of the segments in bytes.
    pub(super) fn capacity(&self) -> u64 {
        self.segments.iter().map(|segment| u64::from(segment.length)).sum()
    }

    /// The operation field of the status, for a descriptor of a send queue.
    pub(super) fn send_operation(&self) -> Status {
        match self.control.operation() {
            Control::RDMA_WRITE => Status::OP_RDMA_WRITE,
            Control::RDMA_READ => Status::OP_RDMA_READ,
            _ => Status::OP_SEND,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(length: u32) -> DataSegment {
        DataSegment { handle: MemHandle { region: 0, generation: 1 }, offset: 0, length }
    }

    #[test]
    fn flaws_are_seen_before_anything_moves() {
        let address = AddressSegment { handle: MemHandle { region: 0, generation: 1 }, offset: 0 };
        let good = Descriptor::send().with_segment(segment(8)).with_segment(segment(4)).with_immediate(1);
        assert_eq!((good.flaw(true, 2), good.length()), (None, 12));
        assert_eq!(good.flaw(true, 1), Some(Status::FORMAT_ERROR));
        assert_eq!(good.clone().with_length(13).flaw(true, 2), Some(Status::LENGTH_ERROR));
        assert_eq!(good.clone().with_control(Control(16)).flaw(true, 2), Some(Status::FORMAT_ERROR));
        assert_eq!(good.clone().with_control(Control(3)).flaw(true, 2), Some(Status::FORMAT_ERROR));
        assert_eq!(good.with_control(Control::RDMA_WRITE).flaw(true, 2), Some(Status::FORMAT_ERROR));
        assert_eq!(Descriptor::rdma_write(address).flaw(false, 2), Some(Status::FORMAT_ERROR));
        assert_eq!(Descriptor::rdma_write(address).with_immediate(5).flaw(true, 2), None);
        assert_eq!(
            Descriptor::rdma_read(address).with_immediate(5).flaw(true, 2),
            Some(Status::FORMAT_ERROR)
        );
        let huge = Descriptor::send().with_segment(segment(u32::MAX)).with_segment(segment(1));
        assert_eq!(huge.flaw(true, 2), Some(Status::LENGTH_ERROR), "more than fits into 32 bits");
    }

    #[test]
    fn a_status_reads_as_its_bits() {
        let status = Status::DONE | Status::OP_REMOTE_RDMA_WRITE | Status::IMMEDIATE;
        assert!(status.is_success());
        assert_eq!(status.operation(), Status::OP_REMOTE_RDMA_WRITE);
        assert_eq!(format!("{status:?}"), "REMOTE_RDMA_WRITE|DONE|IMMEDIATE");
        assert!(!(status | Status::DESC_FLUSHED_ERROR).is_success());
    }
}
