//! Names of exposed memory: rights, ranges and addresses.

use crate::task::{ContextNumber, Endpoint, TaskId};

/// What peers may do with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Whether peers may read the range (get).
    pub read: bool,
    /// Whether peers may write the range (put, rmw).
    pub write: bool,
    /// Whether the right belongs to one operation of the engine, not to programs: see [`Grant::is_for_operation`].
    pub for_operation: bool,
}

impl Access {
    /// No access for peers. The engine asks for this to access its own task's memory, whatever peers may do there.
    pub const OWNER: Self = Self { read: false, write: false, for_operation: false };
    /// Reading only.
    pub const READ: Self = Self { read: true, write: false, for_operation: false };
    /// Writing only.
    pub const WRITE: Self = Self { read: false, write: true, for_operation: false };
    /// Reading and writing.
    pub const READ_WRITE: Self = Self { read: true, write: true, for_operation: false };

    /// Whether this right covers all of `asked`.
    #[inline(always)]
    #[must_use]
    pub const fn covers(self, asked: Self) -> bool {
        (self.read || !asked.read) && (self.write || !asked.write)
    }

    /// The same right for one operation of the engine.
    #[must_use]
    pub const fn for_operation(self) -> Self {
        Self { for_operation: true, ..self }
    }
}

/// Names a right of peers to one range of a task's memory: a slot in the task's region table, and the slot's generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The slot.
    pub region: u32,
    /// How many times the slot has been used. A claim with another generation is rejected.
    pub generation: u32,
}

impl Grant {
    /// The bit of `region` that marks a grant for one operation.
    pub const OPERATION_BIT: u32 = 1 << 31;

    /// Whether the grant was made for one operation of the engine. Programs cannot name such a grant in a put, get or rmw: the calls reject
    /// it. Only the peer of that operation uses the grant, and the peer reports when it has finished, so revoking the grant needs no check
    /// for copies by other tasks.
    #[inline(always)]
    #[must_use]
    pub fn is_for_operation(self) -> bool {
        self.region & Self::OPERATION_BIT != 0
    }
}

/// The task that carries out atomic operations and accumulations on the words of a region. Chosen when the region is exposed, and part of
/// the region's addresses, so that all tasks agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Executor {
    /// Any task that can reach the words; for other tasks, the owner. This has the lowest latency.
    #[default]
    Anyone,
    /// The owner: it takes the operations from messages when it next makes progress. Words that are updated often stay in the owner's
    /// cache, and operations on a whole array take one message.
    Owner,
}

/// An address in the exposed memory of a task. `LAPI_Address_init` exchanges such addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RemoteAddress {
    /// The task that has the memory.
    pub task: TaskId,
    /// The context that exposed the memory. It serves requests for this memory and has the target counters of puts and gets.
    pub context: ContextNumber,
    /// The task that carries out atomic operations on the memory.
    pub executor: Executor,
    /// The region.
    pub grant: Grant,
    /// Bytes from the region's start.
    pub offset: u64,
}

/// The first word of an encoded address: task, context, executor.
const TASK_BITS: u32 = (1 << CONTEXT_SHIFT) - 1;
const CONTEXT_SHIFT: u32 = 24;
const CONTEXT_BITS: u32 = 0xF << CONTEXT_SHIFT;
const OWNER_BIT: u32 = 1 << 31;

impl RemoteAddress {
    /// Bytes of the encoded form.
    pub const BYTES: usize = 20;

    /// The address `bytes` further on.
    #[must_use]
    pub fn plus(self, bytes: u64) -> Self {
        Self { offset: self.offset.wrapping_add(bytes), ..self }
    }

    /// The context that has exposed the memory.
    #[inline(always)]
    #[must_use]
    pub fn owner(self) -> Endpoint {
        Endpoint::new(self.task, self.context)
    }

    /// The encoded form, for sending. It has 24 bits for the task number.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let owner = if self.executor == Executor::Owner { OWNER_BIT } else { 0 };
        let context = u32::from(self.context.0) << CONTEXT_SHIFT & CONTEXT_BITS;
        bytes[0..4].copy_from_slice(&(self.task.0 & TASK_BITS | context | owner).to_le_bytes());
        bytes[4..8].copy_from_slice(&self.grant.region.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.grant.generation.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    /// Decodes an address. It is only a claim: it is checked at each use.
    #[must_use]
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Self {
            task: TaskId(word(0) & TASK_BITS),
            context: ContextNumber(((word(0) & CONTEXT_BITS) >> CONTEXT_SHIFT) as u8),
            executor: if word(0) & OWNER_BIT == 0 { Executor::Anyone } else { Executor::Owner },
            grant: Grant { region: word(4), generation: word(8) },
            offset: u64::from(word(12)) | u64::from(word(16)) << 32,
        }
    }
}

/// A part of this task's own exposed memory, as a destination for data. It can be copied freely; it is checked at each use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExposedRange {
    /// The region.
    pub grant: Grant,
    /// Bytes from the region's start.
    pub offset: u64,
    /// The length in bytes.
    pub len: u64,
}
