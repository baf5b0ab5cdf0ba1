//! A network inside one process, with delivery that a seed determines, for tests: am-core's fabric over the device `wire` of am-via.
//!
//! It delivers as unfavourably as [`Fabric`](am_core::fabric::Fabric) allows:
//!
//! * Packets of one sender arrive in the order in which they were posted, each once. With [`Config::reorder_pieces`], packets of different
//!   senders arrive in any order, and consecutive `Piece` packets of one sender may be reordered among themselves.
//! * A post, or an access to a peer's memory, may be refused at random ([`Config::retry_one_in`]); a post also without a credit. A poll may
//!   return nothing although a packet has arrived ([`Config::delay_one_in`]).
//! * Memory is accessed as [`Config::reach`] says. A posted write is performed late: before its sender's next packet arrives.
//! * A task can be killed at any time ([`Network::kill`]). No packet of it arrives after the event of its death.
//!
//! The bytes of a packet are overwritten when the packet is released, and the end of a grant whose user still copies panics.

#[expect(unsafe_code, reason = "transfers and registrations of memory that outlives a call")]
pub mod wire;

use std::time::Duration;

use am_core::buffer::InlineBytes;
use am_core::fabric::{Post, World};
use am_core::task::{ContextNumber, Endpoint, TaskId};
use am_core::transfer::Class;
use am_core_engine::protocol::packet::Kind;
use am_via::fabric::{CreditPlan, ViaFabric};
use am_via_nic::Immediate;

pub use wire::Reach;
use wire::{Wire, WireFaults, WireNetwork, WireOptions};

/// The fabric of one task.
pub type Double = ViaFabric<Wire>;

/// The properties of a network.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Tasks in the job.
    pub tasks: u32,
    /// The seed of all random decisions.
    pub seed: u64,
    /// Bytes of the largest packet.
    pub packet_bytes_max: u32,
    /// Maximum number of packets of one sender that one target has not consumed; at most 255.
    pub credits: u32,
    /// Maximum number of unanswered requests per peer; at most 63.
    pub requests_max: u32,
    /// One post or access in this many is refused although there is a credit; 0: none.
    pub retry_one_in: u16,
    /// One poll in this many returns nothing although a packet may have arrived; 0: none.
    pub delay_one_in: u16,
    /// Whether pieces of data may be reordered.
    pub reorder_pieces: bool,
    /// How puts, gets and announced data are carried.
    pub reach: Reach,
    /// How rmws are performed; `Staged`: by the owner.
    pub atomics: Reach,
    /// The number of each task's host. Tasks beyond the list are on host 0.
    pub hosts: &'static [u32],
}

impl Config {
    /// A network that refuses, delays and reorders nothing.
    #[must_use]
    pub fn new(tasks: u32) -> Self {
        Self {
            tasks,
            seed: 1,
            packet_bytes_max: 4096,
            credits: 16,
            requests_max: 8,
            retry_one_in: 0,
            delay_one_in: 0,
            reorder_pieces: false,
            reach: Reach::Direct,
            atomics: Reach::Direct,
            hosts: &[],
        }
    }

    /// A network with all the faults that the contract allows, chosen by this seed.
    #[must_use]
    pub fn hostile(tasks: u32, seed: u64) -> Self {
        Self {
            seed,
            credits: 2,
            requests_max: 2,
            retry_one_in: 5,
            delay_one_in: 4,
            reorder_pieces: true,
            reach: Reach::Mixed,
            atomics: Reach::Mixed,
            ..Self::new(tasks)
        }
    }

    fn options(&self) -> WireOptions {
        let per_thousand = |one_in: u16| 1000_u16.checked_div(one_in).map_or(0, |rate| rate.max(1));
        let faults = WireFaults {
            seed: self.seed,
            refuse: per_thousand(self.retry_one_in),
            hold_back: per_thousand(self.delay_one_in),
            ..WireFaults::default()
        };
        WireOptions {
            hosts: self.hosts,
            slot_bytes: self.packet_bytes_max,
            ring_lines: RING_LINES,
            regions_max: 1 << 20,
            connect_polls: 0,
            reach: self.reach,
            atomics: self.atomics,
            prefers_pieces: self.retry_one_in == 0,
            may_overtake: self.reorder_pieces.then_some(is_piece),
            faults,
            ..WireOptions::new(self.tasks)
        }
    }
}

/// Enough for all credits and answers, and the returns of credits.
const RING_LINES: u32 = 512;

/// Whether this is the immediate word of a piece of data.
fn is_piece(word: u32) -> bool {
    let word = Immediate(word);
    word.class() == Some(Class::OneWay) && Kind::of(word.label()) == Kind::Piece
}

/// A handle of the network, to kill tasks, and to look at them.
#[derive(Clone, Debug)]
pub struct Network(WireNetwork);

impl Network {
    /// Kills a task: its calls fail from now on, and the other tasks get an event.
    pub fn kill(&self, TaskId(task): TaskId) {
        self.0.fail_task(task, "it was killed");
    }

    /// Number of times that a task has slept, and the longest limit of such a sleep.
    #[must_use]
    pub fn sleeps(&self, TaskId(task): TaskId) -> (u64, Duration) {
        self.0.sleeps(Endpoint::new(TaskId(task), ContextNumber(0)))
    }

    /// Makes the next end of a grant of this task fail with an error of the system.
    pub fn fail_next_revoke(&self, TaskId(task): TaskId) {
        self.0.fail_next_deregister(task);
    }
}

/// Creates a network, and the fabrics of its tasks in the order of their numbers.
///
/// # Panics
/// Never: each NIC is opened once.
#[must_use]
pub fn network(config: Config) -> (Network, Vec<Double>) {
    unequal_network(config, |_| config.requests_max)
}

/// Connects each fabric to each, so that the first poll of a test may return a packet.
fn connect_all(fabrics: &mut [Double]) {
    let endpoints: Vec<_> = fabrics.iter().map(|fabric: &Double| fabric.world().endpoint()).collect();
    for fabric in &mut *fabrics {
        for &peer in &endpoints {
            fabric.connect(peer).expect("all tasks live");
        }
    }
    // The news that the connections are made; a network that delays them may return nothing in several polls.
    for fabric in fabrics {
        for _ in 0..10 * endpoints.len() {
            let event = fabric.poll(&mut InlineBytes::new());
            assert!(event.is_none(), "no task has sent anything: {event:?}");
        }
    }
}

/// Like [`network`], but each task has its own maximum of unanswered requests: a peer whose maximum is higher breaks the agreement.
///
/// # Panics
/// Never: each NIC is opened once.
#[must_use]
pub fn unequal_network(config: Config, requests_max: impl Fn(TaskId) -> u32) -> (Network, Vec<Double>) {
    let network = WireNetwork::new(config.options());
    let open = |task| {
        let device =
            network.open(Endpoint::new(TaskId(task), ContextNumber(0))).expect("each NIC is opened once");
        ViaFabric::new(device, CreditPlan { credits: config.credits, answers: requests_max(TaskId(task)) })
    };
    let mut fabrics: Vec<_> = (0..config.tasks).map(open).collect();
    connect_all(&mut fabrics);
    (Network(network), fabrics)
}
