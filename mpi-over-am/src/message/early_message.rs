//! Messages that arrived before their receive, and the memory for them.

use am_core::buffer::Arrived;
use am_core::handler::Ticket;
use am_core::task::TaskId;

/// Maximum bytes kept inside the queue's entry: the data of a message that fits, with its header, into a completion entry.
pub(crate) const SHORT_BYTES_MAX: usize = 16;
/// Bytes of a kept message besides its data: its entry in the queue and in the queue's tables.
pub(crate) const ENTRY_BYTES: u64 = 128;
/// The smallest buffer.
const BUFFER_BYTES_MIN: usize = 64;
/// Number of buffer sizes, which are powers of two. The length of a kept message is a u32, so the largest size is 2^32.
const SIZES: usize = 33;
/// Maximum bytes of free buffers kept for later messages.
const SPARE_BYTES_MAX: usize = 4 << 20;

const _: () = assert!(size_of::<EarlyMessage>() <= 32);

/// A message that arrived before its receive.
#[derive(Debug)]
pub(crate) enum EarlyMessage {
    /// The bytes of the message are stored here. `synchronous`: the sender's request that waits for the match, or 0.
    Short { task: u32, len: u8, bytes: [u8; SHORT_BYTES_MAX], synchronous: u32 },
    /// The bytes of the message are in a buffer, which may be longer.
    Kept { task: u32, len: u32, buffer: Box<[u8]>, synchronous: u32 },
    /// The bytes of the message are at the sender.
    Announced { task: u32, ticket: Ticket, len: u64 },
    /// The message comes in pieces: its bytes are in the arrival with this number.
    InPieces { task: u32, number: u32, len: u64 },
    /// The message was sent in ready mode: its receiver gets an error.
    NotReady { task: u32, len: u64 },
}

impl EarlyMessage {
    /// Whether this is the message announced with this ticket. Its bytes are still at the sender.
    pub(crate) fn is_announced_as(&self, own: Ticket) -> bool {
        matches!(self, Self::Announced { ticket, .. } if *ticket == own)
    }

    /// Whether the request `name` of the task `sender` waits for the match of this message.
    pub(crate) fn is_waited_for_by(&self, sender: u32, name: u32) -> bool {
        match self {
            Self::Short { task, synchronous, .. } | Self::Kept { task, synchronous, .. } => {
                (*task, *synchronous) == (sender, name)
            }
            Self::Announced { .. } | Self::InPieces { .. } | Self::NotReady { .. } => false,
        }
    }

    /// The sender.
    pub(crate) fn task(&self) -> TaskId {
        match *self {
            Self::Short { task, .. }
            | Self::Kept { task, .. }
            | Self::Announced { task, .. }
            | Self::InPieces { task, .. }
            | Self::NotReady { task, .. } => TaskId(task),
        }
    }

    /// Bytes of the message.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Short { len, .. } => u64::from(*len),
            Self::Kept { len, .. } => u64::from(*len),
            Self::Announced { len, .. } | Self::InPieces { len, .. } | Self::NotReady { len, .. } => *len,
        }
    }
}

/// Bytes of memory that an early message of `len` bytes takes besides its entry. The sender charges them to its budget; the receiver
/// reports them to the sender.
#[inline(always)]
pub(crate) fn footprint(len: usize) -> u64 {
    if len <= SHORT_BYTES_MAX { 0 } else { buffer_bytes(len) as u64 }
}

/// Set in the number under which am-core reports the end of an early message's acknowledgement. Numbers of requests are lower.
const PART: u64 = 1 << 63;

/// The number for the acknowledgement of an early message of `task` with this [`footprint`]: when the acknowledgement has ended, the
/// message's part of the budget is free.
pub(crate) fn number_of_part(task: u32, footprint: u64) -> u64 {
    // A power of two, or 0.
    let size = if footprint == 0 { 0 } else { u64::from(footprint.trailing_zeros()) };
    PART | size << u32::BITS | u64::from(task)
}

/// The task and the footprint in a number made by [`number_of_part`]; `None` for the number of a request.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the task is the low half")]
pub(crate) fn part_of_number(number: u64) -> Option<(u32, u64)> {
    if number & PART == 0 {
        return None;
    }
    let size = number << 1 >> u32::BITS >> 1;
    Some((number as u32, if size == 0 { 0 } else { 1 << size }))
}

#[inline(always)]
fn buffer_bytes(len: usize) -> usize {
    len.max(BUFFER_BYTES_MIN).next_power_of_two()
}

/// Buffers for early messages, in sizes of powers of two, for reuse.
#[derive(Debug)]
pub(crate) struct EarlyBuffers {
    /// Free buffers of 2^i bytes at index i.
    spare: [Vec<Box<[u8]>>; SIZES],
    spare_bytes: usize,
}

impl Default for EarlyBuffers {
    fn default() -> Self {
        Self { spare: [const { Vec::new() }; SIZES], spare_bytes: 0 }
    }
}

impl EarlyBuffers {
    /// Keeps a copy of the bytes of a message from `task`; `None` if it is longer than any eager message. `synchronous`: the sender's
    /// request that waits for the match, or 0.
    pub(crate) fn keep(&mut self, task: u32, synchronous: u32, bytes: Arrived<'_>) -> Option<EarlyMessage> {
        if bytes.len() <= SHORT_BYTES_MAX {
            let mut short = [0; SHORT_BYTES_MAX];
            let len = u8::try_from(bytes.copy_to(&mut short)).expect("at most SHORT_BYTES_MAX");
            return Some(EarlyMessage::Short { task, len, bytes: short, synchronous });
        }
        let len = u32::try_from(bytes.len()).ok()?;
        let mut buffer = self.take(bytes.len());
        bytes.copy_to(&mut buffer);
        Some(EarlyMessage::Kept { task, len, buffer, synchronous })
    }

    /// A buffer for a message of `len` bytes, at most 2^32.
    pub(crate) fn take(&mut self, len: usize) -> Box<[u8]> {
        let size = buffer_bytes(len);
        match self.spare[size.trailing_zeros() as usize].pop() {
            Some(buffer) => {
                self.spare_bytes -= size;
                buffer
            }
            None => vec![0; size].into_boxed_slice(),
        }
    }

    /// Takes a buffer back for reuse. Frees it instead if the spare buffers would then have more than [`SPARE_BYTES_MAX`] bytes.
    pub(crate) fn give_back(&mut self, buffer: Box<[u8]>) {
        let size = buffer.len();
        if self.spare_bytes + size <= SPARE_BYTES_MAX {
            self.spare_bytes += size;
            self.spare[size.trailing_zeros() as usize].push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_footprint_covers_the_buffer_that_is_taken() {
        let mut buffers = EarlyBuffers::default();
        for len in [0, 1, SHORT_BYTES_MAX, SHORT_BYTES_MAX + 1, 64, 65, 8000, 8192, 8193] {
            let data = vec![7; len];
            let kept = buffers.keep(3, 0, Arrived::private(&data)).unwrap();
            assert_eq!(kept.len(), len as u64);
            let taken = match &kept {
                EarlyMessage::Kept { buffer, .. } => buffer.len() as u64,
                _ => 0,
            };
            assert_eq!(footprint(len), taken, "at length {len}");
            assert_eq!(part_of_number(number_of_part(u32::MAX, taken)), Some((u32::MAX, taken)));
            if let EarlyMessage::Kept { buffer, .. } = kept {
                buffers.give_back(buffer);
            }
        }
    }

    #[test]
    fn buffers_are_used_again_and_spare_ones_are_few() {
        let mut buffers = EarlyBuffers::default();
        let kept = buffers.keep(0, 0, Arrived::private(&[1; 100])).unwrap();
        let EarlyMessage::Kept { buffer, .. } = kept else { panic!("100 bytes need a buffer") };
        let at = buffer.as_ptr();
        buffers.give_back(buffer);
        let Some(EarlyMessage::Kept { buffer, .. }) = buffers.keep(0, 0, Arrived::private(&[2; 128])) else {
            panic!("128 bytes need a buffer")
        };
        assert_eq!(buffer.as_ptr(), at);
        for _ in 0..3 {
            buffers.give_back(vec![0; SPARE_BYTES_MAX / 2].into_boxed_slice());
        }
        assert_eq!(buffers.spare_bytes, SPARE_BYTES_MAX);
    }
}
