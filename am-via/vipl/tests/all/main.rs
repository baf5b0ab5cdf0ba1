//! User agents in one thread, over a wire and over shared memory.

#![expect(clippy::unwrap_used, reason = "a test: a failure panics")]

mod connections;
mod errors;
mod faults;
mod hostile;
mod moves;
mod order;

use std::rc::Rc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use am_double::wire::{Reach, Wire, WireNetwork, WireOptions};
use am_via_job::Job;
use am_via_nic::Device;
use am_via_nic::device::shm::{OwnHeap, Shm, ShmOptions};
use am_via_os::test_aids::guarded;
use am_via_shm::WaitPolicy;
use am_via_shm::regions::Ways;
use am_via_vipl::{ContextNumber, Endpoint, MemAttributes, MemHandle, TaskId};
use am_via_vipl::{
    CqHandle, DataSegment, Descriptor, Discriminator, Reliability, Status, UserAgent, ViAttributes, ViHandle,
    ViState, VipError,
};
use am_via_vipl::{Memory, PTag};

/// Number of rounds of progress after which a test is considered to hang.
const ROUNDS_MAX: u32 = 2_000_000;

/// One side of a test.
struct End<D: Device> {
    agent: UserAgent<D>,
    tag: PTag,
    vi: ViHandle,
}

/// Registered memory of a side.
struct Region {
    memory: Rc<Memory>,
    handle: MemHandle,
}

impl<D: Device> End<D> {
    fn new(device: D, attributes: fn(PTag) -> ViAttributes) -> Self {
        Self::with_cqs(device, attributes, |_| (None, None))
    }

    fn with_cqs(
        device: D,
        attributes: fn(PTag) -> ViAttributes,
        cqs: impl FnOnce(&mut UserAgent<D>) -> (Option<CqHandle>, Option<CqHandle>),
    ) -> Self {
        let mut agent = UserAgent::open(device);
        let tag = agent.create_ptag().unwrap();
        let (send_cq, receive_cq) = cqs(&mut agent);
        let vi = agent.create_vi(attributes(tag), send_cq, receive_cq).unwrap();
        Self { agent, tag, vi }
    }

    fn region(&mut self, len: usize) -> Region {
        let memory = self.agent.alloc(len).unwrap();
        self.register(memory)
    }

    fn private_region(&mut self, len: usize) -> Region {
        let memory = self.agent.alloc_private(len).unwrap();
        self.register(memory)
    }

    fn register(&mut self, memory: Rc<Memory>) -> Region {
        let rights = MemAttributes { ptag: 0, rdma_write: true, rdma_read: true };
        let handle = self.agent.register_mem(&memory, (0, memory.len()), self.tag, rights).unwrap();
        Region { memory, handle }
    }

    /// Asks for a connection between two endpoints with empty discriminators, without a time limit.
    fn ask(&mut self, vi: ViHandle, to: Endpoint) -> Result<(), VipError> {
        self.agent.connect_peer_request(vi, Discriminator::default(), to, None)
    }

    fn state(&self) -> ViState {
        self.agent.query_vi(self.vi).unwrap().state
    }

    fn post_send(&mut self, descriptor: Box<Descriptor>) {
        self.agent.post_send(self.vi, descriptor).unwrap();
    }

    fn post_recv(&mut self, descriptor: Box<Descriptor>) {
        self.agent.post_recv(self.vi, descriptor).unwrap();
    }
}

impl Region {
    fn segment(&self, offset: u64, length: u32) -> DataSegment {
        DataSegment { handle: self.handle, offset, length }
    }

    fn fill(&self, seed: u8) -> Vec<u8> {
        let bytes: Vec<u8> =
            (0..=250).cycle().map(|at: u8| at.wrapping_mul(31) ^ seed).take(self.memory.len()).collect();
        self.memory.write(0, &bytes).unwrap();
        bytes
    }

    fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.read(offset, &mut bytes).unwrap();
        bytes
    }
}

fn delivery(tag: PTag) -> ViAttributes {
    ViAttributes::new(tag)
}

fn reception(tag: PTag) -> ViAttributes {
    ViAttributes { reliability: Reliability::ReliableReception, ..ViAttributes::new(tag) }
}

fn unreliable(tag: PTag) -> ViAttributes {
    ViAttributes { reliability: Reliability::Unreliable, rdma_read: false, ..ViAttributes::new(tag) }
}

fn task(task: u32) -> Endpoint {
    Endpoint::new(TaskId(task), ContextNumber(0))
}

/// Two unconnected sides on a wire.
fn on_wire(
    options: WireOptions,
    attributes: fn(PTag) -> ViAttributes,
) -> (WireNetwork, End<Wire>, End<Wire>) {
    let network = WireNetwork::new(options);
    let a = End::new(network.open(task(0)).unwrap(), attributes);
    let b = End::new(network.open(task(1)).unwrap(), attributes);
    (network, a, b)
}

/// Two connected sides on a faultless wire with small slots.
fn connected(attributes: fn(PTag) -> ViAttributes) -> (End<Wire>, End<Wire>) {
    let options = WireOptions { slot_bytes: 256, ring_lines: 16, ..WireOptions::new(2) };
    let (_, mut a, mut b) = on_wire(options, attributes);
    connect(&mut a, &mut b);
    (a, b)
}

/// Two unconnected sides on shared memory.
fn on_shm(ways: Ways, attributes: fn(PTag) -> ViAttributes) -> (End<Shm>, End<Shm>) {
    (End::new(shm_device(ways), attributes), End::new(shm_device(ways), attributes))
}

/// One more context of a job of one task. Each context is opened once, so the tests of this process have 16 in total.
fn shm_device(ways: Ways) -> Shm {
    static CONTEXTS_USED: AtomicU8 = AtomicU8::new(0);
    // Kept for the whole run: later attaches must find the same job, since it records which contexts are used.
    static JOB: OnceLock<(Arc<Job>, Arc<OwnHeap>)> = OnceLock::new();
    let (job, heap) = JOB.get_or_init(|| {
        let job = Job::attach().unwrap();
        let heap = OwnHeap::open(&job).unwrap();
        (job, heap)
    });
    let options = ShmOptions {
        context: ContextNumber(CONTEXTS_USED.fetch_add(1, Ordering::Relaxed)),
        packet_bytes: job.settings().packet_bytes,
        ways,
        wait: WaitPolicy { spin_max: Duration::ZERO, yield_polls_max: 10 },
        pipe_bytes_min: 0,
    };
    Shm::open(Arc::clone(job), Arc::clone(heap), options).unwrap()
}

fn connect<D: Device>(a: &mut End<D>, b: &mut End<D>) {
    let (here, there) = (a.agent.address(), b.agent.address());
    a.ask(a.vi, there).unwrap();
    b.ask(b.vi, here).unwrap();
    until(a, b, |a, b| {
        let there = a.agent.connect_peer_done(a.vi).unwrap().is_some();
        b.agent.connect_peer_done(b.vi).unwrap().is_some() && there
    });
}

/// Progress on both sides until `done`.
fn until<D: Device>(a: &mut End<D>, b: &mut End<D>, mut done: impl FnMut(&mut End<D>, &mut End<D>) -> bool) {
    for _ in 0..ROUNDS_MAX {
        if done(a, b) {
            return;
        }
        a.agent.progress();
        b.agent.progress();
    }
    panic!("nothing came in {ROUNDS_MAX} rounds: {:?} and {:?}", a.state(), b.state());
}

/// The next finished send of `a`, while both make progress.
fn sent<D: Device>(a: &mut End<D>, b: &mut End<D>) -> Box<Descriptor> {
    let mut found = None;
    until(a, b, |a, _| {
        found = a.agent.send_done(a.vi).unwrap();
        found.is_some()
    });
    found.unwrap()
}

/// The next finished receive of `b`, while both make progress.
fn received<D: Device>(a: &mut End<D>, b: &mut End<D>) -> Box<Descriptor> {
    let mut found = None;
    until(a, b, |_, b| {
        found = b.agent.recv_done(b.vi).unwrap();
        found.is_some()
    });
    found.unwrap()
}

fn success(operation: Status) -> Status {
    Status::DONE | operation
}
