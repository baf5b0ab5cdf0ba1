//! The doorbell: how a task sleeps until somebody has news for it, without making senders pay when it is awake.
//!
//! The protocol is Dekker's: the sleeper stores `sleeping = 1`, then looks at its rings again; a sender stores a line, then
//! looks at `sleeping`. One of the two must see the other, which needs a full fence on both sides, or, cheaper for the side
//! that runs often, a barrier on all processors by the sleeper and only a compiler fence in the sender ("sleep handshake").
//!
//! Linux's barrier on all processors has a hole: where a thread of a registered process ends and another of the same process runs
//! next on that processor, the processor passes for one without registered threads and is left out, until another process has run there.
//! What then is missed lies in a store buffer, which empties by itself within microseconds. So a caller that relies on the barrier looks a
//! second time, some time later: a sleeper after a first, short sleep; the others after [`SETTLE`].

use std::io;
use std::time::{Duration, Instant};

use crate::segment::SharedAtomics;
use am_via_os::atomics::{AtomicU32, Ordering, fence, spin_loop};
use am_via_os::{futex, membarrier};

/// The line a task sleeps on. In shared memory, zeroed at first.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Doorbell {
    /// The futex word: changed by every ring.
    word: AtomicU32,
    /// Whether the owner sleeps or is about to.
    sleeping: AtomicU32,
}

// SAFETY: repr(C), atomics only.
unsafe impl SharedAtomics for Doorbell {}

/// Longer than a store waits in its processor's buffer: each of some dozen entries goes to memory within some 100 ns.
const SETTLE: Duration = Duration::from_micros(20);

/// The first sleep's limit, after which the sleeper looks again: the same, without burning a processor.
const FIRST_SLEEP: Duration = Duration::from_millis(1);

/// Which side of the sleep handshake pays for the fence, and of that of region hazards. The launcher decides, and writes it into the job
/// file: with two tasks of which one relies on a barrier that the other cannot receive, both handshakes would fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SleepBarrier {
    /// The sleeper runs a barrier on all processors; senders pay nothing.
    Membarrier,
    /// Each sender runs a full fence after each post.
    SenderFence,
}

impl SleepBarrier {
    /// What this machine offers: for the launcher, and tests.
    #[must_use]
    pub fn probe() -> Self {
        if cfg!(not(loom)) && membarrier::register().is_ok() { Self::Membarrier } else { Self::SenderFence }
    }

    /// Prepares this process for what its job uses. Called once at start.
    ///
    /// # Errors
    /// The system refuses: this process cannot be a task of the job.
    pub fn join(self) -> io::Result<()> {
        match self {
            Self::Membarrier => membarrier::register(),
            Self::SenderFence => Ok(()),
        }
    }

    /// The choice as the job file has it; never 0.
    #[must_use]
    pub fn to_word(self) -> u32 {
        match self {
            Self::Membarrier => 1,
            Self::SenderFence => 2,
        }
    }

    /// The choice that [`to_word`](Self::to_word) made into this word.
    #[must_use]
    pub fn from_word(word: u32) -> Option<Self> {
        [Self::Membarrier, Self::SenderFence].into_iter().find(|barrier| barrier.to_word() == word)
    }

    /// The sender's half, between its store of a line and its look at a flag of the receiver.
    #[inline(always)]
    pub fn after_store(self) {
        match self {
            // The processor's reordering is undone by the sleeper's barrier; only the compiler must be held.
            #[cfg(not(loom))]
            Self::Membarrier => am_via_os::atomics::compiler_fence(Ordering::SeqCst),
            // The other side's barrier is a full fence here, wherever this side is: so it is one here.
            #[cfg(loom)]
            Self::Membarrier => fence(Ordering::SeqCst),
            Self::SenderFence => fence(Ordering::SeqCst),
        }
    }

    /// Receiver's half of the handshake for a caller that does not sleep: a full barrier between setting its flag and its last look at
    /// the queue. Set-up path: it takes some microseconds.
    pub fn before_look(self) {
        self.before_first_look();
        if self == Self::Membarrier && cfg!(not(loom)) {
            // The second look, which the barrier's hole asks for, is the only one here.
            let begun = Instant::now();
            while begun.elapsed() < SETTLE {
                spin_loop();
            }
        }
    }

    /// The sleeper's half, between its store of a flag and its look at the rings; it looks again after [`FIRST_SLEEP`].
    fn before_first_look(self) {
        fence(Ordering::SeqCst);
        if self == Self::Membarrier {
            membarrier::barrier();
        }
    }
}

impl Doorbell {
    /// Whether the owner sleeps or is about to: then [`ring`](Self::ring) is due. Called after
    /// [`SleepBarrier::after_store`].
    #[inline(always)]
    #[must_use]
    pub fn is_sleeping(&self) -> bool {
        self.sleeping.load(Ordering::Relaxed) != 0
    }

    /// Wakes the owner if it sleeps; one of several simultaneous callers pays for the system call.
    #[cold]
    #[inline(never)]
    pub fn ring(&self) {
        if self.sleeping.swap(0, Ordering::AcqRel) != 0 {
            self.ring_always();
        }
    }

    /// Wakes the owner whether it seems to sleep or not: for news that no ring carries (a death, a signal).
    pub fn ring_always(&self) {
        self.word.fetch_add(1, Ordering::Release);
        futex::wake(&self.word, u32::MAX >> 1);
    }

    /// Sleeps until rung, at most `timeout`, unless `has_news` says after the handshake that there is something to do.
    /// Called by the owner only, one thread at a time. Whether it slept to the end: nobody rang, and there is no news.
    pub fn sleep(
        &self,
        barrier: SleepBarrier,
        timeout: Duration,
        mut has_news: impl FnMut() -> bool,
    ) -> bool {
        let seen = self.word.load(Ordering::Acquire);
        self.sleeping.store(1, Ordering::Relaxed);
        barrier.before_first_look();
        if !has_news() {
            if barrier == SleepBarrier::Membarrier && timeout > FIRST_SLEEP {
                futex::wait(&self.word, seen, FIRST_SLEEP);
                if self.word.load(Ordering::Acquire) == seen && !has_news() {
                    futex::wait(&self.word, seen, timeout - FIRST_SLEEP);
                }
            } else {
                futex::wait(&self.word, seen, timeout);
            }
        }
        self.sleeping.store(0, Ordering::Relaxed);
        self.word.load(Ordering::Acquire) == seen && !has_news()
    }
}

/// How long nothing has come to a task that sleeps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet {
    /// The first sleep without news began, and the last one ended.
    time: Option<(Instant, Instant)>,
}

/// Between two sleeps of one wait less time passes.
const WITHIN_ONE_WAIT: Duration = Duration::from_millis(100);

impl Quiet {
    /// A sleep begins: when.
    pub fn begin_sleep(&mut self) -> Instant {
        let now = Instant::now();
        // Another wait, which has nothing to do with the one before.
        self.time = self.time.filter(|(_, end)| now.duration_since(*end) < WITHIN_ONE_WAIT);
        now
    }

    /// The sleep that began then has ended; how long nothing has come.
    pub fn end_sleep(&mut self, began: Instant, without_news: bool) -> Duration {
        if !without_news {
            self.time = None;
            return Duration::ZERO;
        }
        let now = Instant::now();
        let since = self.time.map_or(began, |(since, _)| since);
        self.time = Some((since, now));
        now.duration_since(since)
    }

    /// How long nothing has come, as of the last sleep's end.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.time.map_or(Duration::ZERO, |(since, end)| end.duration_since(since))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;
    use crate::ring::{Entry, Lines, Payload, RingReader, RingWriter};
    use am_via_os::test_aids::{Random, guarded};

    /// One side: sends a line, then sleeps until the answer is there, without a spin in between.
    fn play(
        (mut writer, mut reader): (RingWriter, RingReader),
        (own, theirs): (Arc<Doorbell>, Arc<Doorbell>),
        barrier: SleepBarrier,
        (first, rounds): (bool, u32),
    ) {
        let mut random = Random(u64::from(first));
        let mut payload = Payload::default();
        for round in 0..rounds {
            if !(first && round == 0) {
                // For ever, if a wake-up is lost: then the watchdog says so.
                while reader.poll(&mut payload).is_none() {
                    pause(&mut random);
                    own.sleep(barrier, Duration::from_secs(3600), || reader.is_ready());
                }
            }
            pause(&mut random);
            writer.write(Entry::default(), &payload);
            barrier.after_store();
            if theirs.is_sleeping() {
                theirs.ring();
            }
        }
    }

    /// Some nanoseconds more or less, so that one side's line meets the other's lying down at every distance.
    fn pause(random: &mut Random) {
        for _ in 0..random.below(64) {
            std::hint::black_box(());
        }
    }

    /// Threads of this process that come and go on all processors until it is dropped: where one ends and another goes on, the
    /// kernel's barrier has its hole.
    struct Storm {
        over: Arc<AtomicU32>,
        threads: Vec<thread::JoinHandle<()>>,
    }

    impl Storm {
        fn new() -> Self {
            let over = Arc::new(AtomicU32::new(0));
            let blow = |over: Arc<AtomicU32>| {
                move || {
                    while over.load(Ordering::Relaxed) == 0 {
                        thread::spawn(|| {}).join().expect("nothing goes wrong in it");
                        thread::sleep(Duration::from_micros(100));
                    }
                }
            };
            let threads = (0..2).map(|_| thread::spawn(blow(Arc::clone(&over)))).collect();
            Self { over, threads }
        }
    }

    impl Drop for Storm {
        fn drop(&mut self) {
            self.over.store(1, Ordering::Relaxed);
            self.threads.drain(..).for_each(|thread| thread.join().expect("nothing goes wrong in it"));
        }
    }

    fn stress(barrier: SleepBarrier) {
        guarded(move || {
            let _storm = Storm::new();
            let rings: [_; 2] = std::array::from_fn(|_| {
                let lines = Lines::private(4).expect("a power of two");
                (RingWriter::new(lines.clone()), RingReader::new(lines))
            });
            let bells: [_; 2] = std::array::from_fn(|_| Arc::new(Doorbell::default()));
            let [(there_writer, there_reader), (back_writer, back_reader)] = rings;
            let mirrored = (Arc::clone(&bells[1]), Arc::clone(&bells[0]));
            let peer = thread::spawn(move || {
                play((back_writer, there_reader), mirrored, barrier, (false, ROUNDS));
            });
            let [own, theirs] = bells;
            play((there_writer, back_reader), (own, theirs), barrier, (true, ROUNDS));
            peer.join().expect("the other side ends well");
        });
    }

    const ROUNDS: u32 = 50_000;

    /// The heart of the handshake, both halves let go at the same moment: in no round may the sleeper miss the line while the
    /// sender misses the sleeper. Without the barriers this fails within some thousand rounds, where there are two cores; without
    /// the time after them, in one of some million.
    fn litmus(barrier: SleepBarrier) {
        guarded(move || {
            let _storm = Storm::new();
            let shared = Arc::new(Litmus::default());
            let other = Arc::clone(&shared);
            let sender = thread::spawn(move || {
                for round in 1..=LITMUS_ROUNDS {
                    other.meet(2 * round - 1);
                    // As data before a line: they keep it in the store buffer for a while.
                    other.data.iter().for_each(|data| data.store(round, Ordering::Relaxed));
                    other.line.store(round, Ordering::Relaxed);
                    barrier.after_store();
                    let saw_sleeper = other.sleeping.load(Ordering::Relaxed) == round;
                    other.sender_saw.store(u32::from(saw_sleeper), Ordering::Relaxed);
                    other.meet(2 * round);
                }
            });
            for round in 1..=LITMUS_ROUNDS {
                shared.meet(2 * round - 1);
                shared.sleeping.store(round, Ordering::Relaxed);
                barrier.before_look();
                let saw_line = shared.line.load(Ordering::Relaxed) == round;
                shared.meet(2 * round);
                let saw_sleeper = shared.sender_saw.load(Ordering::Relaxed) != 0;
                assert!(shared.data.iter().all(|data| data.load(Ordering::Relaxed) == round));
                assert!(saw_line || saw_sleeper, "round {round}: neither saw the other");
            }
            sender.join().expect("the sender ends well");
        });
    }

    const LITMUS_ROUNDS: u32 = 100_000;

    #[derive(Default)]
    struct Litmus {
        data: [crossbeam_utils::CachePadded<AtomicU32>; 16],
        line: crossbeam_utils::CachePadded<AtomicU32>,
        sleeping: crossbeam_utils::CachePadded<AtomicU32>,
        sender_saw: crossbeam_utils::CachePadded<AtomicU32>,
        met: crossbeam_utils::CachePadded<AtomicU32>,
    }

    impl Litmus {
        /// Both threads leave the `number`th meeting together.
        fn meet(&self, number: u32) {
            self.met.fetch_add(1, Ordering::AcqRel);
            let mut spins = 0_u32;
            while self.met.load(Ordering::Acquire) < 2 * number {
                spins += 1;
                // The other thread may need this very processor.
                if spins.is_multiple_of(4096) {
                    thread::yield_now();
                }
            }
        }
    }

    #[test]
    fn neither_half_misses_the_other_with_the_senders_fence() {
        litmus(SleepBarrier::SenderFence);
    }

    #[test]
    fn neither_half_misses_the_other_with_the_barrier_on_all_processors() {
        litmus(SleepBarrier::probe());
    }

    #[test]
    fn no_wake_up_is_lost_with_the_senders_fence() {
        stress(SleepBarrier::SenderFence);
    }

    #[test]
    fn no_wake_up_is_lost_with_the_barrier_on_all_processors() {
        let barrier = SleepBarrier::probe();
        // Where the kernel has no such barrier this is the other test again.
        stress(barrier);
    }
}
