//! The wire format of the engine's packets. Little-endian; every field read from a packet is a claim.
//!
//! The label in the immediate word has the kind in its low 4 bits, and the handler in its high 12.
//!
//! ```text
//! kind        bytes of the packet                                                   class
//! Message     fixed uhdr udata                a whole message in one packet         OneWay, Request, or Answer (a reply)
//! Request     short len(8) op(4) region(4) generation(4) uhdr                       Request
//!             handler 0xFFF of a put: uhdr is region(4) generation(4) offset(8) at the target, and for an
//!             accumulation the code of its operation(8), which is that of an rmw;
//!             0x100(8) block(8) stride(8) count(8), or 0x101(8) and for each block offset(8) length(8): several blocks
//! Put         region(4) generation(4) offset(8) target counter(4) spare(4) bytes    OneWay: where the origin has no mapping
//! Notify      counter(4)                      a put or get that its origin has done  OneWay
//! CounterAck  counter(4) counter(4)           for the origin of a whole message     Answer, OneWay
//! Fetched     op(4) counter(4) counter(4)     an announced message is whole         Answer, OneWay
//! Accepted    op(4) incoming(4) bytes(8)      send this number of bytes as pieces   Answer, OneWay
//! Piece       0: incoming(4) offset(8) bytes  of an announced message               OneWay; the last one Request
//!             1: op(4) offset(8) bytes        of a get                              OneWay
//! Ask         0: region(4) generation(4) offset(8) len(8) op(4) counter(4): a get   Request
//!             rmw: region(4) generation(4) offset(8) op(4) operand(8) new(8)        Request
//! Told        op(4) value(8)                  the Ask was carried out               Answer
//! Fence       op(4)                           0: data; 1: handlers too              Request
//! Fenced      op(4)                           (Refused instead, if a one-way message was refused)  Answer
//! Barrier     round(4)                                                              OneWay
//! Exchange    epoch(4) then for each task: task(4) length(1) bytes(length)          OneWay
//! Withdraw    op(4)                           the origin withdraws an announcement  Request
//!             1: nothing                      the sender purges its operations with the receiver  Request
//!             2: nothing                      the answer to a purge, after all earlier packets  Answer
//!             3: incoming(4)                  no more pieces of this message come        OneWay
//! Refused     op(4) reason(4) value(8) value(8)                                     Answer, OneWay
//!
//! fixed       uhdr length(2) flags(1) spare(1) target counter(4) [completion counter(4) if flag 1]
//! short       uhdr length(2) flags(1) spare(1) [completion counter(4) if flag 1] [target counter(4) if flag 2]
//! ```
//!
//! The short form is for announcements: with a user header of 16 bytes, as MPI has, an announcement still fits into a completion
//! entry. A whole message has the fixed form, which is stored and loaded as one word.
//!
//! A packet longer than its entry has its head (everything before the user data) in the entry, and the rest in the NIC's buffer. A head of
//! more than 40 bytes is in the buffer, before the data, and the entry is empty.
//!
//! The number after a kind (Piece 0, Ask 0) is in the handler field. The user data of a Message are the rest of the packet, so their length
//! is not sent. An rmw's handler field is 1 + operation + 16 x width, with the numbers of `atomic_code`. A region with number 0xFFFF_FFFF
//! in a Request means that nothing is granted: the target has to ask for pieces. `op` is the origin's number of an operation, `incoming`
//! the target's number of a message; 0 names none.

use crate::buffer::{Grant, InlineBytes, RemoteAddress};
use crate::handler::HandlerId;
use crate::vector::{Block, Layout};
use alloc::vec::Vec;

/// The kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A whole message.
    Message = 0,
    /// The announcement of a message whose data are fetched or sent afterwards.
    Request = 1,
    /// A tiny put to memory that the origin has not mapped; the target stores the bytes.
    Put = 2,
    /// The origin has carried out a put or get: adds 1 to the target's counter.
    Notify = 3,
    /// The target is done: adds 1 to up to two counters at the origin.
    CounterAck = 4,
    /// The answer to a request: the target has fetched the data, or does not want any.
    Fetched = 5,
    /// The answer to a request: send the data as packets, to this incoming message.
    Accepted = 6,
    /// A piece of data.
    Piece = 7,
    /// A get (or rmw) for the owner to carry out.
    Ask = 8,
    /// The answer to an ask.
    Told = 9,
    /// Asks whether everything that the sender sent before is done.
    Fence = 10,
    /// The answer to a fence: everything is done.
    Fenced = 11,
    /// One round of a barrier.
    Barrier = 12,
    /// The origin withdraws an announcement that was not accepted yet, or sends no more pieces; or a purge, or the answer to one.
    Withdraw = 13,
    /// Contributions to an exchange of addresses.
    Exchange = 14,
    /// The target refused a packet: the origin's operation ends with an error.
    Refused = 15,
}

impl Kind {
    /// The kind that a label claims.
    #[inline(always)]
    #[must_use]
    pub fn of(label: u16) -> Self {
        match label & 15 {
            0 => Self::Message,
            1 => Self::Request,
            2 => Self::Put,
            3 => Self::Notify,
            4 => Self::CounterAck,
            5 => Self::Fetched,
            6 => Self::Accepted,
            7 => Self::Piece,
            8 => Self::Ask,
            9 => Self::Told,
            10 => Self::Fence,
            11 => Self::Fenced,
            12 => Self::Barrier,
            13 => Self::Withdraw,
            14 => Self::Exchange,
            _ => Self::Refused,
        }
    }
}

/// Whether a label claims this kind.
#[inline(always)]
#[must_use]
pub(crate) fn is(label: u16, kind: Kind) -> bool {
    label & 15 == kind as u16
}

/// The label of a packet of this kind, for this handler.
#[inline(always)]
#[must_use]
pub(crate) fn label(kind: Kind, handler: HandlerId) -> u16 {
    kind as u16 | handler.0 << 4
}

/// The handler that a label names.
#[inline(always)]
#[must_use]
pub(crate) fn handler_of(label: u16) -> HandlerId {
    HandlerId(label >> 4)
}

/// Flag of a head: a completion counter follows.
const FLAG_COMPLETION: u8 = 1;
/// Flag of the short form: a target counter follows.
const FLAG_TARGET: u8 = 2;

/// The head of a Message, before the user header; the first fields of a Request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageHead {
    /// Bytes of user header.
    pub(crate) uhdr_len: u16,
    /// The counter to bump at the target; 0: none.
    pub(crate) target_counter: u32,
    /// The counter to bump at the origin when the target is done; 0: none.
    pub(crate) completion_counter: u32,
}

impl MessageHead {
    /// Minimum length of the fixed form, in bytes.
    pub(crate) const BYTES_MIN: usize = 8;
    /// Maximum length of either form, in bytes.
    pub(crate) const BYTES_MAX: usize = 12;

    /// Bytes of this head in the fixed form.
    #[inline(always)]
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        if self.completion_counter == 0 { 8 } else { 12 }
    }

    /// The first 8 bytes of the fixed form, as one word.
    #[inline(always)]
    #[must_use]
    pub(crate) fn word(&self) -> u64 {
        let flags = if self.completion_counter == 0 { 0 } else { FLAG_COMPLETION };
        u64::from(self.uhdr_len) | u64::from(flags) << 16 | u64::from(self.target_counter) << 32
    }

    /// Appends the fixed form to an inline packet; returns whether it fits.
    #[inline(always)]
    #[must_use]
    pub(crate) fn push_to(&self, packet: &mut InlineBytes) -> bool {
        packet.push_word(self.word())
            && (self.completion_counter == 0 || packet.push(&self.completion_counter.to_le_bytes()))
    }

    /// Appends the short form to an inline packet; returns whether it fits.
    #[must_use]
    pub(crate) fn push_short_to(&self, packet: &mut InlineBytes) -> bool {
        let counters = [(self.completion_counter, FLAG_COMPLETION), (self.target_counter, FLAG_TARGET)];
        let named = counters.into_iter().filter(|&(counter, _)| counter != 0);
        let flags = named.clone().fold(0, |flags, (_, flag)| flags | flag);
        let [low, high] = self.uhdr_len.to_le_bytes();
        let mut fitted = packet.push(&[low, high, flags, 0]);
        for (counter, _) in named {
            fitted &= packet.push(&counter.to_le_bytes());
        }
        fitted
    }

    /// Parses the short form; returns it and the bytes after it. `None` if `bytes` are too short.
    #[must_use]
    pub(crate) fn parse_short(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (&[low, high, flags, _], rest) = bytes.split_first_chunk::<4>()?;
        let mut fields = Fields(rest);
        let mut counter = |flag| if flags & flag != 0 { fields.u32() } else { Some(0) };
        let (completion_counter, target_counter) = (counter(FLAG_COMPLETION)?, counter(FLAG_TARGET)?);
        let uhdr_len = u16::from_le_bytes([low, high]);
        Some((Self { uhdr_len, target_counter, completion_counter }, fields.0))
    }

    /// Parses the fixed form; `None` if `bytes` are too short.
    #[inline(always)]
    #[must_use]
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let word = u64::from_le_bytes(bytes.first_chunk::<8>().copied()?);
        let completion_counter = if (word >> 16) as u8 & FLAG_COMPLETION != 0 {
            u32::from_le_bytes(*bytes.get(8..)?.first_chunk::<4>()?)
        } else {
            0
        };
        Some(Self { uhdr_len: word as u16, target_counter: (word >> 32) as u32, completion_counter })
    }
}

/// The fields of a Request after its [`MessageHead`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Announcement {
    /// Bytes of user data.
    pub(crate) len: u64,
    /// The origin's operation.
    pub(crate) op: u32,
    /// Where the target may read the data; `None` if it has to ask for pieces.
    pub(crate) grant: Option<Grant>,
}

impl Announcement {
    /// Bytes on the wire.
    pub(crate) const BYTES: usize = 20;
    const NOTHING_GRANTED: u32 = u32::MAX;

    /// Encodes the announcement.
    #[must_use]
    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let Grant { region, generation } =
            self.grant.unwrap_or(Grant { region: Self::NOTHING_GRANTED, generation: 0 });
        let mut bytes = [0; Self::BYTES];
        bytes[0..8].copy_from_slice(&self.len.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.op.to_le_bytes());
        bytes[12..16].copy_from_slice(&region.to_le_bytes());
        bytes[16..20].copy_from_slice(&generation.to_le_bytes());
        bytes
    }

    /// Parses the announcement; `None` if `bytes` are too short.
    #[must_use]
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let (len, op) = (fields.u64()?, fields.u32()?);
        let (region, generation) = (fields.u32()?, fields.u32()?);
        let grant = (region != Self::NOTHING_GRANTED).then_some(Grant { region, generation });
        Some(Self { len, op, grant })
    }
}

/// Handler field of a Request: the message is a put or an accumulation, which the engine stores.
pub(crate) const PUT_BY_PIECES: HandlerId = HandlerId(0xFFF);
/// Handler field of a Piece of an announced message, an Ask for a get, a Fence of data, a Withdraw of an announcement, and of kinds with
/// one form.
pub(crate) const FIRST: HandlerId = HandlerId(0);
/// Handler field of a Piece of a get, a Fence that waits for handlers too, and a Withdraw that purges.
pub(crate) const SECOND: HandlerId = HandlerId(1);
/// Handler field of a Withdraw: the answer to a purge.
pub(crate) const THIRD: HandlerId = HandlerId(2);
/// Handler field of a Withdraw: no more pieces of a message.
pub(crate) const FOURTH: HandlerId = HandlerId(3);
/// Bytes before the data of a Piece.
pub(crate) const PIECE_HEAD_BYTES: usize = 12;

/// Codes of a strided destination and of a list of blocks, in the field for an accumulation's operation.
const LAYOUT_STRIDED: u64 = 0x100;
const LAYOUT_LIST: u64 = 0x101;

/// Encodes the destination of a put's bytes from `position` of `layout` on, in at most `bytes_max` bytes. Returns the encoding, and the
/// number of bytes of the put that it covers.
pub(crate) fn scattered_destination(
    to: RemoteAddress,
    layout: &Layout,
    position: u64,
    bytes_max: usize,
) -> (Vec<u8>, u64) {
    let mut destination = Vec::with_capacity(bytes_max);
    let mut push = |word: u64| destination.extend_from_slice(&word.to_le_bytes());
    push(u64::from(to.grant.region) | u64::from(to.grant.generation) << 32);
    if let Some((offset, block, stride, count)) = layout.as_strided().filter(|_| position == 0) {
        push(to.offset.wrapping_add(offset));
        [LAYOUT_STRIDED, block, stride, count].into_iter().for_each(&mut push);
        return (destination, layout.len());
    }
    push(to.offset);
    push(LAYOUT_LIST);
    let mut len = 0;
    for _ in 0..bytes_max.saturating_sub(24) / 16 {
        let Some(block) = layout.block_at(position + len) else { break };
        push(block.offset);
        push(block.len);
        len += block.len;
    }
    (destination, len)
}

/// Decodes the fields after the code of a scattered destination; `None` if they are not a layout.
pub(crate) fn scattered_layout(code: u64, mut fields: Fields<'_>) -> Option<Layout> {
    match code {
        LAYOUT_STRIDED => {
            let (block, stride, count) = (fields.u64()?, fields.u64()?, fields.u64()?);
            Layout::strided(0, block, stride, count).ok()
        }
        LAYOUT_LIST => {
            let blocks = core::iter::from_fn(|| Some(Block { offset: fields.u64()?, len: fields.u64()? }));
            Layout::list(blocks).ok()
        }
        _ => None,
    }
}

/// Packs up to 40 bytes.
///
/// # Panics
/// If the parts together are longer. The parts of every format above fit.
#[must_use]
pub(crate) fn pack<const N: usize>(parts: [&[u8]; N]) -> InlineBytes {
    let mut packet = InlineBytes::new();
    for part in parts {
        let fitted = packet.push(part);
        assert!(fitted, "the fixed formats fit into an entry");
    }
    packet
}

/// A reader of the fixed-size fields at the front of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// The next 4 bytes as a number; `None` if fewer are left.
    #[inline(always)]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*bytes))
    }

    /// The next 8 bytes as a number; `None` if fewer are left.
    #[inline(always)]
    pub(crate) fn u64(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_name_kind_and_handler() {
        for number in 0..16 {
            let kind = Kind::of(number);
            assert_eq!(kind as u16, number);
            let label = label(kind, HandlerId(4095));
            assert_eq!((Kind::of(label), handler_of(label)), (kind, HandlerId(4095)));
        }
    }

    #[test]
    fn heads_survive_the_wire_and_short_packets_do_not_parse() {
        for completion_counter in [0, 9] {
            let head = MessageHead { uhdr_len: 960, target_counter: 77, completion_counter };
            let mut packet = InlineBytes::new();
            assert!(head.push_to(&mut packet));
            assert_eq!(packet.len(), head.len());
            assert_eq!(MessageHead::parse(packet.as_slice()), Some(head));
            assert_eq!(MessageHead::parse(&packet.as_slice()[..head.len() - 1]), None);
        }
    }

    #[test]
    fn announcements_name_only_the_counters_there_are() {
        for (target_counter, completion_counter) in [(0, 0), (77, 0), (0, 5), (77, 5)] {
            let head = MessageHead { uhdr_len: 16, target_counter, completion_counter };
            let mut packet = InlineBytes::new();
            assert!(head.push_short_to(&mut packet));
            let len = packet.len();
            assert_eq!(
                len,
                4 + 4 * usize::from(target_counter != 0) + 4 * usize::from(completion_counter != 0)
            );
            assert!(packet.push(&[9, 8]));
            assert_eq!(MessageHead::parse_short(packet.as_slice()), Some((head, &[9, 8][..])));
            assert_eq!(MessageHead::parse_short(&packet.as_slice()[..len - 1]), None);
        }
    }

    #[test]
    fn an_announcement_with_the_header_of_mpi_fits_into_an_entry() {
        let head = MessageHead { uhdr_len: 16, target_counter: 0, completion_counter: 0 };
        let announcement = Announcement { len: u64::MAX, op: u32::MAX, grant: None };
        let mut packet = InlineBytes::new();
        assert!(head.push_short_to(&mut packet) && packet.push(&announcement.to_bytes()));
        assert!(packet.push(&[0; 16]));
    }
}
