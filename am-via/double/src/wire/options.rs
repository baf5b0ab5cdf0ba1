//! The properties of a wire, chosen when it is made.

use am_via_shm::regions::Claim;

use super::WireFaults;

/// How the NICs of a wire access registered memory of peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// In the call, before it returns. If all accesses are direct, the memory is also mapped.
    Direct,
    /// Later: before the end is reported, and before the peer sees an entry that was posted after a write.
    Posted,
    /// Not at all: the layers above send the bytes.
    Staged,
    /// One of the other three, by the number of the registration.
    Mixed,
}

impl Reach {
    /// How this registration is accessed: not [`Mixed`](Self::Mixed).
    pub(super) fn of(self, Claim { region, .. }: Claim) -> Self {
        match (self, region % 3) {
            (Self::Mixed, 0) => Self::Direct,
            (Self::Mixed, 1) => Self::Posted,
            (Self::Mixed, _) => Self::Staged,
            (reach, _) => reach,
        }
    }
}

/// Properties of a wire, the same for all its NICs.
#[derive(Clone, Copy, Debug)]
pub struct WireOptions {
    /// Number of tasks on the wire.
    pub num_tasks: u32,
    /// The number of each task's host. Tasks beyond the list are on host 0.
    pub hosts: &'static [u32],
    /// Bytes of one slot of a receive area.
    pub slot_bytes: u32,
    /// Capacity of the receive ring of a VI, in entries.
    pub ring_lines: u32,
    /// Maximum number of registrations of a task.
    pub regions_max: u32,
    /// Number of polls until a connection is made; 0: in the call.
    pub connect_polls: u64,
    /// How the NICs write and read memory of peers. Where they can't, all data are sent through the receive areas.
    pub reach: Reach,
    /// How the NICs carry out atomic operations.
    pub atomics: Reach,
    /// Whether the wire recommends to send data as several entries rather than to have them read.
    pub prefers_pieces: bool,
    /// Whether an entry with this immediate word may overtake earlier ones of its VI that may, too. Such entries then arrive in any order.
    pub may_overtake: Option<fn(u32) -> bool>,
    /// The faults.
    pub faults: WireFaults,
}

impl WireOptions {
    /// A faultless wire for `num_tasks` tasks.
    #[must_use]
    pub fn new(num_tasks: u32) -> Self {
        Self {
            num_tasks,
            hosts: &[],
            slot_bytes: 4096,
            ring_lines: 128,
            regions_max: 4096,
            connect_polls: 3,
            reach: Reach::Posted,
            atomics: Reach::Posted,
            prefers_pieces: false,
            may_overtake: None,
            faults: WireFaults::default(),
        }
    }

    /// The same wire, whose NICs access memory of peers, and carry out atomic operations, in this way.
    #[must_use]
    pub fn with_reach(self, reach: Reach) -> Self {
        Self { reach, atomics: reach, ..self }
    }
}
