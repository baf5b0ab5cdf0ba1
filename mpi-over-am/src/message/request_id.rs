//! The number of a request, which is its C handle.

use crate::message::status::Status;

/// Names an operation. Valid in the environment that returned it, until a wait or a test has ended the operation; for a persistent
/// operation, until the request is freed.
///
/// ```text
/// bits  0..24   slot
/// bits 24..30   generation of the slot
/// bit  30       set
/// ```
///
/// The number is also the C handle: it is larger than all predefined handles, and smaller than 2^31.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub(crate) u32);

/// Set in the number of a request.
const LIVE: u32 = 1 << 30;
const SLOT_BITS: u32 = 24;
pub(crate) const SLOTS_MAX: usize = 1 << SLOT_BITS;
const GENERATION: u32 = 1 << SLOT_BITS;
/// The bit of [`LIVE`] in a generation.
pub(crate) const LIVE_BIT: u8 = (LIVE >> SLOT_BITS) as u8;
/// Number of slots reserved for operations that the library itself starts.
pub(crate) const SLOTS_KEPT: usize = 1 << 16;

impl RequestId {
    /// The receive of a blocking call. There is at most one at a time, and its slot is never allocated.
    pub(crate) const BLOCKING_RECEIVE: Self = Self(LIVE);
    /// The request of every send or transfer of a window that was complete when the call that started it returned. It has no record of its
    /// own, and can be waited for, copied and freed any number of times.
    pub const ENDED_SEND: Self = Self(LIVE | 2);
    /// The request of every receive from [`PROC_NULL`](crate::PROC_NULL), which is complete at once. See [`ENDED_SEND`](Self::ENDED_SEND).
    pub const RECEIVED_FROM_NOBODY: Self = Self(LIVE | 3);
    pub(crate) const RESERVED: u32 = 4;
    /// Maximum number of operations that a program can have under way.
    pub(crate) const MAX: i64 = (SLOTS_MAX - SLOTS_KEPT) as i64;

    /// The request of a C handle. If the handle names no request, the call that uses the result fails.
    #[inline(always)]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the cut bits were compared")]
    pub const fn from_handle(handle: usize) -> Self {
        if handle >> LIVE.trailing_zeros() == 1 { Self(handle as u32) } else { Self(0) }
    }

    /// The C handle of the request.
    #[inline(always)]
    #[must_use]
    pub const fn handle(self) -> usize {
        self.0 as usize
    }

    /// The number that am-core gets for the request, and returns when the operation completes.
    #[inline(always)]
    pub(crate) fn number(self) -> u64 {
        u64::from(self.0)
    }

    /// The request with this number in am-core.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "am-core returns the number it got")]
    pub(crate) fn from_number(number: u64) -> Self {
        Self(number as u32)
    }

    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        self.slot() as usize
    }

    #[inline(always)]
    pub(crate) fn slot(self) -> u32 {
        self.0 & (GENERATION - 1)
    }

    /// The generation, with the bit of [`LIVE`].
    #[inline(always)]
    pub(crate) const fn generation(self) -> u8 {
        (self.0 >> SLOT_BITS) as u8
    }

    #[inline(always)]
    pub(crate) fn of_slot(slot: u32, generation: u8) -> Self {
        Self(u32::from(generation) << SLOT_BITS | slot)
    }

    /// The status of an operation that was complete at once; `None` if the operation has a record of its own.
    #[inline(always)]
    pub(crate) const fn ended_status(self) -> Option<Status> {
        match self {
            Self::ENDED_SEND => Some(Status::EMPTY),
            Self::RECEIVED_FROM_NOBODY => Some(Status::OF_PROC_NULL),
            _ => None,
        }
    }
}

/// Properties of a request, for layers above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestFacts {
    /// Whether the request is persistent: a wait does not free it, and it can be started again.
    pub is_persistent: bool,
    /// Whether the request is persistent, and not active.
    pub is_inactive: bool,
    /// Whether the program carries the operation out (`MPI_Grequest_start`).
    pub is_generalized: bool,
    /// A context id of the operation's communicator; `None` if the operation has no communicator.
    pub context_id: Option<u32>,
}
