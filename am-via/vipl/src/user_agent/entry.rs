//! The entries that the NICs of programs send to each other.
//!
//! Entries are of the device's two kinds, inline and area. The upper bits of an entry's operation word name the entry's connection at the
//! receiver: 0 is the fabric's VI with standing receives, and [`TO_NIC`] the NIC itself, which takes connection requests. The extra word
//! describes an entry of a program's VI:
//!
//! ```text
//! bits 0..4    of a message: its last piece, has immediate data, wants an acknowledgement, announces an RDMA write
//! bits 8..40   of a message: number of the piece
//! bits 0..56   of a request, an acceptance or a rejection: attributes of the VI, and the sender's connection
//! bits 56..64  the kind: 0 is a message
//! ```

use crate::address::{DISCRIMINATOR_BYTES_MAX, Discriminator};
use crate::attributes::ViAttributes;
use crate::error::VipError;
use am_via_nic::Reliability;
use am_via_nic::device::{Entry, Operation, Payload};

/// Where the number of a connection begins in an operation word.
const CONNECTION_SHIFT: u32 = 8;
/// Connection number of the NIC itself.
pub(crate) const TO_NIC: u32 = u32::MAX >> CONNECTION_SHIFT;
/// Where the kind begins in an extra word.
const KIND_SHIFT: u32 = 56;

/// The kind of an entry between VIs of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A send, a piece of a send, or the immediate data of an RDMA write.
    Message = 0,
    /// A VI asks for a connection.
    Request,
    /// A VI accepts the connection.
    Accept,
    /// The request is rejected.
    Reject,
    /// The VI withdraws its request.
    Withdraw,
    /// The VI at the other end disconnected.
    Disconnect,
    /// Acknowledges a message or a staged write that the receiver of this entry has sent: all its bytes have been stored.
    Acknowledge,
    /// The VI at the other end is in error.
    Broken,
    /// The sender of this entry tried to access memory of the receiver, and was refused; the connection stays.
    Refused,
    /// A piece of an RDMA write in the receive area, if the device cannot access the memory.
    StagedWrite,
    /// An RDMA read that the other end has to serve, if the device cannot access the memory.
    ReadRequest,
    /// A piece of the data of an RDMA read, in the receive area.
    ReadPiece,
}

impl Kind {
    const ALL: [Self; 12] = [
        Self::Message,
        Self::Request,
        Self::Accept,
        Self::Reject,
        Self::Withdraw,
        Self::Disconnect,
        Self::Acknowledge,
        Self::Broken,
        Self::Refused,
        Self::StagedWrite,
        Self::ReadRequest,
        Self::ReadPiece,
    ];

    /// The kind that an entry claims.
    pub(crate) fn of(entry: &Entry) -> Option<Self> {
        Self::ALL.get((entry.extra >> KIND_SHIFT) as usize).copied()
    }

    /// The kind's bits in the extra word.
    pub(crate) fn bits(self) -> u64 {
        (self as u64) << KIND_SHIFT
    }

    /// An inline entry of this kind for `connection`.
    pub(crate) fn entry(self, connection: u32) -> Entry {
        Entry { operation: word(Operation::Inline, connection), extra: self.bits(), ..Entry::default() }
    }
}

/// The operation word of an entry for `connection` at its receiver.
pub(crate) fn word(operation: Operation, connection: u32) -> u32 {
    operation as u32 | connection << CONNECTION_SHIFT
}

/// The operation that an entry claims to be, and the connection at its receiver that it claims to be for.
pub(crate) fn split(word: u32) -> (Option<Operation>, u32) {
    (Operation::of(word & ((1 << CONNECTION_SHIFT) - 1)), word >> CONNECTION_SHIFT)
}

/// Flags in the extra word of a message.
pub(crate) const LAST_PIECE: u64 = 1;
pub(crate) const HAS_IMMEDIATE: u64 = 2;
pub(crate) const WANTS_ACKNOWLEDGEMENT: u64 = 4;
/// The message announces an RDMA write, and has no bytes.
pub(crate) const WRITTEN: u64 = 8;
/// The position of the piece's number: 32 bits.
pub(crate) const PIECE_SHIFT: u32 = 8;

/// Attributes that the VI at the other end claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAttributes {
    /// The peer's reliability level; `None`: the peer claims a level that does not exist.
    pub reliability: Option<Reliability>,
    /// Bytes of the peer's largest transfer.
    pub transfer_bytes_max: u32,
    /// The peer's quality of service.
    pub qos: u16,
    /// The tag of the registrations that are accessible through the peer's VI.
    pub(crate) ptag: u32,
    /// Whether memory may be written through the peer's VI.
    pub rdma_write: bool,
    /// Whether memory may be read through the peer's VI.
    pub rdma_read: bool,
}

// The extra word of an entry that asks for or accepts a connection:
// bits 0..8 reliability level, 8..16 flags, 16..32 quality of service, 32..56 the sender's connection; 56..64 are the kind.
const RDMA_WRITE: u64 = 1 << 8;
const RDMA_READ: u64 = 1 << 9;
pub(crate) const PEER_TO_PEER: u64 = 1 << 10;
const QOS_SHIFT: u32 = 16;
pub(crate) const SENDER_SHIFT: u32 = 32;

impl PeerAttributes {
    pub(crate) fn parse(entry: &Entry) -> Self {
        let reliability = match entry.extra & 0xff {
            1 => Some(Reliability::Unreliable),
            2 => Some(Reliability::ReliableDelivery),
            4 => Some(Reliability::ReliableReception),
            _ => None,
        };
        Self {
            reliability,
            transfer_bytes_max: entry.immediate,
            qos: (entry.extra >> QOS_SHIFT & 0xffff) as u16,
            ptag: entry.length,
            rdma_write: entry.extra & RDMA_WRITE != 0,
            rdma_read: entry.extra & RDMA_READ != 0,
        }
    }

    pub(crate) fn check(&self, ours: &ViAttributes) -> Result<(), VipError> {
        if self.reliability != Some(ours.reliability) {
            return Err(VipError::InvalidReliabilityLevel {
                ours: ours.reliability,
                theirs: self.reliability,
            });
        }
        if self.transfer_bytes_max != ours.transfer_bytes_max {
            let (ours, theirs) = (ours.transfer_bytes_max, self.transfer_bytes_max);
            return Err(VipError::InvalidMtu { ours, theirs });
        }
        if self.qos != ours.qos {
            return Err(VipError::InvalidQos { ours: ours.qos, theirs: self.qos });
        }
        Ok(())
    }
}

/// `entry` with the attributes of `ours`, from connection `sender`.
pub(crate) fn introduce(entry: Entry, ours: &ViAttributes, sender: u32) -> Entry {
    let flag = |set: bool, bit: u64| if set { bit } else { 0 };
    let extra = u64::from(ours.reliability as u8)
        | flag(ours.rdma_write, RDMA_WRITE)
        | flag(ours.rdma_read, RDMA_READ)
        | u64::from(ours.qos) << QOS_SHIFT
        | u64::from(sender) << SENDER_SHIFT;
    let extra = entry.extra | extra;
    Entry { immediate: ours.transfer_bytes_max, length: ours.ptag.number(), extra, ..entry }
}

/// The connection number at the sender, from an entry.
pub(crate) fn sender(entry: &Entry) -> u32 {
    (entry.extra >> SENDER_SHIFT & 0xff_ffff) as u32
}

/// The lower half of a payload word.
#[expect(clippy::cast_possible_truncation, reason = "the upper half is not asked for")]
pub(crate) fn low_word(word: u64) -> u32 {
    word as u32
}

const fn discriminators_at(number: usize) -> usize {
    number * (DISCRIMINATOR_BYTES_MAX + 1)
}

/// The two discriminators of a request: each a length and 16 bytes.
#[expect(clippy::cast_possible_truncation, reason = "a discriminator has at most 16 bytes")]
pub(crate) fn put_discriminators(local: Discriminator, remote: Discriminator) -> Payload {
    let mut bytes = [0; size_of::<Payload>()];
    for (number, discriminator) in [local, remote].into_iter().enumerate() {
        let at = discriminators_at(number);
        let len = discriminator.bytes().len();
        bytes[at] = len as u8;
        bytes[at + 1..=at + len].copy_from_slice(discriminator.bytes());
    }
    let mut payload = Payload::default();
    for (word, bytes) in payload.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().expect("a chunk of exactly eight bytes"));
    }
    payload
}

pub(crate) fn get_discriminators(payload: &Payload) -> Option<[Discriminator; 2]> {
    let mut bytes = [0; size_of::<Payload>()];
    for (bytes, word) in bytes.chunks_exact_mut(8).zip(payload) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    let get = |number| {
        let at = discriminators_at(number);
        let len = usize::from(bytes[at]);
        let within = len <= DISCRIMINATOR_BYTES_MAX;
        within.then(|| Discriminator::new(&bytes[at + 1..=at + len]).ok()).flatten()
    };
    Some([get(0)?, get(1)?])
}

/// A request for a connection as its sender would post it, for peers in tests that post entries by hand.
#[must_use]
pub fn request_entry(attributes: &ViAttributes, connection: u32) -> (Entry, Payload) {
    let mut entry = introduce(Kind::Request.entry(TO_NIC), attributes, connection);
    entry.extra |= PEER_TO_PEER;
    (entry, put_discriminators(Discriminator::default(), Discriminator::default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The NIC may belong to a context: messages of programs must not look like packets of the fabric.
    #[test]
    fn what_goes_to_a_nic_or_a_connection_is_no_packet_of_a_standing_receive() {
        for kind in Kind::ALL {
            for connection in [1, 7, TO_NIC] {
                let entry = kind.entry(connection);
                assert!([Operation::Inline, Operation::Area].iter().all(|&of| entry.operation != of as u32));
                assert_eq!(
                    (Kind::of(&entry), split(entry.operation)),
                    (Some(kind), (Some(Operation::Inline), connection))
                );
            }
        }
        assert_eq!(Kind::of(&Entry { extra: 12 << KIND_SHIFT, ..Entry::default() }), None);
    }
}
