//! Tasks that take turns: one thread of a job runs at a time, chosen by a seed. Over a network whose faults a seed determines, equal seeds
//! give equal runs, packet for packet.
//!
//! A task keeps its turn from one call of its fabric to the next, and may lose it in a poll, a post or a wait. Its other work must depend
//! neither on the clock nor on threads of its own.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::resume_unwind;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::{Random, conformance, is_long, threads};
use am_core::buffer::{
    Access, Arrived, ForEngine, Grant, InlineBytes, JobBuffer, KeepsPromises, MappedRange, RawBuffer,
    RawBytes, RemoteAddress,
};
use am_core::error::Result;
use am_core::fabric::{
    Arrival, Event, Fabric, Limits, Memory, Peer, PeerIndex, Post, SystemError, Traffic, Waker, World,
};
use am_core::task::{Endpoint, TaskId};
use am_core::transfer::{AtomicOp, Body, Class, OpId, Posted, Transfer, Width};

/// One in this many posts, and one in this many polls that return an event, ends the turn. An empty poll always does.
const TURN_ENDS_ONE_IN: u32 = 5;

/// Checks that use the clock, or a thread besides that of their task, so that turns do not make them repeatable. They run in turns like the
/// others.
const NOT_REPEATED: [&str; 5] = [
    "completions_panic_ends_the_operation_only",
    "completions_thread",
    "counters_wait_has_a_limit",
    "fence_ops_waits_for_handlers",
    "queries_and_settings",
];

/// A fabric whose owner takes turns with its peers.
#[derive(Debug)]
pub struct InTurn<F: Fabric> {
    fabric: F,
    /// Declared after the fabric, so that the fabric is dropped in its owner's turn.
    turn: Turn,
}

/// Wraps fabrics so that their owners take turns as `seed` determines, and returns the record of the run.
#[must_use]
pub fn in_turn<F: Fabric>(fabrics: Vec<F>, seed: u64) -> (Record, Vec<InTurn<F>>) {
    let tasks = fabrics.len();
    let state = State {
        random: Random::new(seed),
        running: (0..tasks).collect(),
        now: 0,
        steps: 0,
        digest: DefaultHasher::new(),
    };
    let turns =
        Arc::new(Turns { state: Mutex::new(state), news: (0..tasks).map(|_| Condvar::new()).collect() });
    let in_turn = |(own, fabric)| {
        let turn = Turn { turns: Arc::clone(&turns), own, has: false };
        InTurn { fabric, turn }
    };
    let fabrics = fabrics.into_iter().enumerate().map(in_turn).collect();
    (Record(turns), fabrics)
}

/// How a check ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The check's name.
    pub check: &'static str,
    /// Number of recorded calls of fabrics.
    pub calls: u64,
    /// Digest of these calls and their results.
    pub digest: u64,
}

/// Runs every third of the checks whose name contains `filter` (all of these if [`is_long`]), each over a new network from `make`, with
/// tasks that take turns as `seed` determines. Returns a record of each.
///
/// # Panics
/// If a check failed, or none matched.
pub fn record_checks<F: Fabric + Send>(filter: &str, seed: u64, make: impl Fn() -> Vec<F>) -> Vec<Recorded> {
    let checks = conformance::checks::<InTurn<F>>().into_iter().filter(|(name, _)| name.contains(filter));
    let checks = checks.step_by(if is_long() { 1 } else { 3 });
    let recorded = checks.map(|(check, body)| {
        let (record, fabrics) = in_turn(make(), seed);
        threads::run(fabrics, |context| conformance::run(check, body, context));
        let (calls, digest) = record.so_far();
        Recorded { check, calls, digest }
    });
    let recorded: Vec<_> = recorded.collect();
    assert!(!recorded.is_empty(), "no check has {filter:?} in its name");
    recorded
}

/// Asserts that runs are determined by their seed: two runs with one seed have to be equal call for call, and one with another seed has to
/// differ in most checks. `record` performs a run with a seed.
///
/// # Panics
/// If the two runs with one seed differ, if the run with the other seed differs in too few checks, or if nothing was recorded.
pub fn same_seed_same_run(seed: u64, other: u64, record: impl Fn(u64) -> Vec<Recorded> + Sync) {
    println!("seed {seed} twice, seed {other}");
    let (first, again, other) = thread::scope(|scope| {
        let record = &record;
        let runs = [seed, seed, other].map(|seed| scope.spawn(move || record(seed)));
        let [first, again, other] = runs.map(|run| run.join().unwrap_or_else(|panic| resume_unwind(panic)));
        (first, again, other)
    });
    let mut others = 0;
    for ((first, again), other) in first.iter().zip(&again).zip(&other) {
        if NOT_REPEATED.contains(&first.check) {
            continue;
        }
        assert!(first.calls > 0, "{first:?}");
        assert_eq!(first, again, "seed {seed}");
        others += usize::from(first != other);
    }
    assert!(others > first.len() / 2, "another seed, and {others} of {} checks ran otherwise", first.len());
}

/// The record of all tasks' calls, in the order of their turns.
#[derive(Debug)]
pub struct Record(Arc<Turns>);

impl Record {
    /// The number of recorded calls of fabrics, and a digest of their arguments and results.
    #[must_use]
    pub fn so_far(&self) -> (u64, u64) {
        let state = self.0.lock();
        (state.steps, state.digest.finish())
    }
}

#[derive(Debug)]
struct Turns {
    state: Mutex<State>,
    /// One condition variable per task.
    news: Vec<Condvar>,
}

#[derive(Debug)]
struct State {
    random: Random,
    /// Tasks whose fabrics are open.
    running: Vec<usize>,
    now: usize,
    steps: u64,
    digest: DefaultHasher,
}

impl Turns {
    /// Locks the state, even after a panic: the thread that panicked has reported it, and the other threads still have to end.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the turn of a random task, which may be the caller's.
    fn next(&self, state: &mut State) {
        let at = state.random.below(state.running.len());
        if let Some(&next) = state.running.get(at) {
            state.now = next;
            self.news[next].notify_all();
        }
    }
}

#[derive(Debug)]
struct Turn {
    turns: Arc<Turns>,
    own: usize,
    has: bool,
}

impl Turn {
    #[inline]
    fn begin(&mut self) {
        if !self.has {
            self.has = true;
            self.wait(self.turns.lock());
        }
    }

    fn wait(&self, mut state: MutexGuard<'_, State>) {
        while state.now != self.own {
            state = self.turns.news[self.own].wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn end(&self) {
        let mut state = self.turns.lock();
        self.turns.next(&mut state);
        self.wait(state);
    }

    /// Records a call and its result, and may then end the turn.
    fn note(&self, what: impl Hash, ends_one_in: u32) {
        let mut state = self.turns.lock();
        state.steps += 1;
        (self.own, what).hash(&mut state.digest);
        let ends = state.random.one_in(ends_one_in);
        drop(state);
        if ends {
            self.end();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.begin();
        let mut state = self.turns.lock();
        let own = self.own;
        state.running.retain(|&task| task != own);
        self.turns.next(&mut state);
    }
}

/// The result of a call as text, with all values.
fn words<T: std::fmt::Debug>(result: &Result<T>) -> String {
    format!("{result:?}")
}

// SAFETY: each call is passed on to a fabric that keeps the promises.
#[allow(unsafe_code, reason = "the promise of every fabric")]
unsafe impl<F: Fabric> KeepsPromises for InTurn<F> {}

impl<F: Fabric> Post for InTurn<F> {
    type World = Self;

    fn world(&self) -> &Self {
        self
    }

    fn world_mut(&mut self) -> &mut Self {
        self
    }

    fn limits(&self) -> Limits {
        self.fabric.limits()
    }

    fn traffic(&self, peer: PeerIndex) -> Traffic {
        self.fabric.traffic(peer)
    }

    fn peer(&mut self, endpoint: Endpoint) -> Result<Peer> {
        self.fabric.peer(endpoint)
    }

    fn post_inline(
        &mut self,
        to: PeerIndex,
        class: Class,
        label: u16,
        bytes: &InlineBytes,
    ) -> Result<Posted> {
        self.turn.begin();
        let posted = self.fabric.post_inline(to, class, label, bytes);
        self.turn.note(("inline", to, label, bytes.as_slice(), words(&posted)), TURN_ENDS_ONE_IN);
        posted
    }

    fn post_packet(
        &mut self,
        to: PeerIndex,
        class: Class,
        label: u16,
        head: &InlineBytes,
        body: &mut impl Body,
    ) -> Result<Posted> {
        self.turn.begin();
        let len = body.len();
        let posted = self.fabric.post_packet(to, class, label, head, body);
        self.turn.note(("packet", to, label, head.as_slice(), len, words(&posted)), TURN_ENDS_ONE_IN);
        posted
    }

    fn poll(&mut self, inline: &mut InlineBytes) -> Option<Event> {
        self.turn.begin();
        let event = self.fabric.poll(inline);
        let ends_one_in = if event.is_some() { TURN_ENDS_ONE_IN } else { 1 };
        self.turn.note(("poll", format!("{event:?}")), ends_one_in);
        event
    }

    fn shares_cache(&mut self, to: PeerIndex) -> bool {
        self.fabric.shares_cache(to)
    }

    fn takes_pieces(&mut self, to: PeerIndex, len: usize, packets: u32) -> Result<bool> {
        self.turn.begin();
        self.fabric.takes_pieces(to, len, packets)
    }

    fn pieces_may_wait(&mut self, to: PeerIndex, len: usize, packets: u32) -> bool {
        self.fabric.pieces_may_wait(to, len, packets)
    }

    fn arrived(&self, arrival: &Arrival) -> Arrived<'_> {
        self.fabric.arrived(arrival)
    }

    fn release(&mut self, arrival: Arrival) {
        self.turn.begin();
        self.fabric.release(arrival);
    }

    fn waive(&mut self, origin: PeerIndex) {
        self.turn.begin();
        self.fabric.waive(origin);
    }
}

impl<F: Fabric> Memory for InTurn<F> {
    fn alloc(&mut self, len: usize) -> Result<JobBuffer> {
        self.turn.begin();
        self.fabric.alloc(len)
    }

    fn grant(&mut self, memory: RawBuffer, access: Access, user: Option<PeerIndex>) -> Result<Option<Grant>> {
        self.turn.begin();
        let granted = self.fabric.grant(memory, access, user);
        self.turn.note(("grant", memory.len(), words(&granted)), 0);
        granted
    }

    fn revoke(&mut self, grant: Grant) -> Result<Posted> {
        self.turn.begin();
        self.fabric.revoke(grant)
    }

    fn revoke_in_use(&mut self, grant: Grant) -> Result<Posted> {
        self.turn.begin();
        self.fabric.revoke_in_use(grant)
    }

    fn granted(
        &self,
        grant: Grant,
        offset: u64,
        len: u64,
        access: Access,
        engine: ForEngine,
    ) -> Result<RawBuffer> {
        self.fabric.granted(grant, offset, len, access, engine)
    }

    fn write(&mut self, to: RemoteAddress, from: RawBytes, op: OpId) -> Result<Transfer> {
        self.turn.begin();
        let done = self.fabric.write(to, from, op);
        self.turn.note(("write", to.to_bytes(), from.len(), words(&done)), 0);
        done
    }

    fn read(&mut self, from: RemoteAddress, to: RawBuffer, op: OpId) -> Result<Transfer> {
        self.turn.begin();
        let done = self.fabric.read(from, to, op);
        self.turn.note(("read", from.to_bytes(), to.len(), words(&done)), 0);
        done
    }

    fn find_mapped(&mut self, at: RemoteAddress, len: u64, need: Access) -> Result<bool> {
        self.turn.begin();
        let found = self.fabric.find_mapped(at, len, need);
        self.turn.note(("find_mapped", at.to_bytes(), len, words(&found)), 0);
        found
    }

    fn lend_mapped<R>(
        &mut self,
        at: RemoteAddress,
        len: u64,
        call: impl FnOnce(MappedRange<'_>) -> R,
    ) -> Option<R> {
        self.turn.begin();
        let returned = self.fabric.lend_mapped(at, len, call);
        self.turn.note(("lend_mapped", at.to_bytes(), len, returned.is_some()), 0);
        returned
    }

    fn write_mapped(&mut self, at: RemoteAddress, bytes: &[u8]) -> bool {
        self.turn.begin();
        let done = self.fabric.write_mapped(at, bytes);
        self.turn.note(("write_mapped", at.to_bytes(), bytes.len(), done), 0);
        done
    }

    fn read_mapped(&mut self, from: RemoteAddress, to: &mut [u8]) -> bool {
        self.turn.begin();
        let done = self.fabric.read_mapped(from, to);
        self.turn.note(("read_mapped", from.to_bytes(), to.len(), done), 0);
        done
    }

    fn atomic_mapped(&mut self, at: RemoteAddress, width: Width, operation: AtomicOp) -> Option<u64> {
        self.turn.begin();
        let old = self.fabric.atomic_mapped(at, width, operation);
        self.turn.note(("atomic_mapped", at.to_bytes(), width.bytes(), old), 0);
        old
    }

    fn atomic(
        &mut self,
        at: RemoteAddress,
        width: Width,
        operation: AtomicOp,
        op: OpId,
    ) -> Result<Transfer<u64>> {
        self.turn.begin();
        let done = self.fabric.atomic(at, width, operation, op);
        self.turn.note(("atomic", at.to_bytes(), format!("{operation:?}"), words(&done)), 0);
        done
    }
}

impl<F: Fabric> World for InTurn<F> {
    fn endpoint(&self) -> Endpoint {
        self.fabric.world().endpoint()
    }

    fn num_tasks(&self) -> u32 {
        self.fabric.world().num_tasks()
    }

    fn host(&self, task: TaskId) -> u32 {
        self.fabric.world().host(task)
    }

    fn wait(&mut self, polls: u32, _limit: Duration) -> bool {
        self.turn.begin();
        // The task whose turn it is must not sleep, since no other task runs.
        let is_long = self.fabric.world_mut().wait(polls, Duration::ZERO);
        self.turn.end();
        is_long
    }

    fn failure(&self, task: TaskId) -> Option<String> {
        self.fabric.world().failure(task)
    }

    fn has_ended(&self, task: TaskId) -> bool {
        self.fabric.world().has_ended(task)
    }

    fn ring(&mut self, to: Endpoint) -> Result<(), SystemError> {
        self.turn.begin();
        self.fabric.world_mut().ring(to)
    }

    fn fail(&mut self, why: &str) {
        self.turn.begin();
        self.fabric.world_mut().fail(why);
    }

    fn waker(&self) -> Waker {
        self.fabric.world().waker()
    }
}
