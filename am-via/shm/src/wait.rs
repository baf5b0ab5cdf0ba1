//! The doorbell: how a task sleeps until it is rung, without a cost to senders while it is awake.
//!
//! The protocol is Dekker's: the sleeper stores `sleeping = 1`, then checks its rings again; a sender stores a line, then checks
//! `sleeping`. One of the two must see the other. This needs either a full fence on both sides, or a barrier on all processors by the
//! sleeper and only a compiler fence in the sender. The second form is cheaper for the sender, the side that runs often ("sleep
//! handshake").
//!
//! Linux's barrier on all processors has a gap: if a thread of a registered process ends and another thread of that process runs next on
//! the processor, the barrier skips that processor until another process has run there. A store that the barrier misses is in a store
//! buffer, which drains within microseconds. So a caller that relies on the barrier looks a little later: a sleeper looks a second time,
//! after a first, short sleep; other callers look only after [`SETTLE`].

use std::io;
use std::time::{Duration, Instant};

use crate::segment::SharedAtomics;
use am_via_os::atomics::{AtomicU32, Ordering, fence, spin_loop};
use am_via_os::{futex, membarrier};

/// The line on which a task sleeps. In shared memory, zeroed initially.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Doorbell {
    /// The futex word, changed by every ring.
    word: AtomicU32,
    /// Whether the owner sleeps or is about to.
    sleeping: AtomicU32,
}

// SAFETY: repr(C), atomics only.
unsafe impl SharedAtomics for Doorbell {}

/// Delay of a look that relies on the barrier: longer than a store stays in its processor's store buffer, which has some dozen entries,
/// each written to memory within about 100 ns.
const SETTLE: Duration = Duration::from_micros(20);

/// Limit of the first sleep, after which the sleeper looks again: like [`SETTLE`], without using the processor.
const FIRST_SLEEP: Duration = Duration::from_millis(1);

/// The side that pays for the fence of the sleep handshake and of the region-hazard handshake. The launcher decides, and writes the choice
/// into the job file: if one task relied on a barrier that another task cannot receive, both handshakes would fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SleepBarrier {
    /// The sleeper runs a barrier on all processors; senders pay nothing.
    Membarrier,
    /// Each sender runs a full fence after each post.
    SenderFence,
}

impl SleepBarrier {
    /// The best choice on this machine, for the launcher and for tests.
    #[must_use]
    pub fn probe() -> Self {
        if cfg!(not(loom)) && membarrier::register().is_ok() { Self::Membarrier } else { Self::SenderFence }
    }

    /// Prepares this process for the job's choice. Must be called once, at the start.
    ///
    /// # Errors
    /// The system refuses: this process cannot be a task of the job.
    pub fn join(self) -> io::Result<()> {
        match self {
            Self::Membarrier => membarrier::register(),
            Self::SenderFence => Ok(()),
        }
    }

    /// The choice as a word of the job file; never 0.
    #[must_use]
    pub fn to_word(self) -> u32 {
        match self {
            Self::Membarrier => 1,
            Self::SenderFence => 2,
        }
    }

    /// Decodes a word made by [`to_word`](Self::to_word).
    #[must_use]
    pub fn from_word(word: u32) -> Option<Self> {
        [Self::Membarrier, Self::SenderFence].into_iter().find(|barrier| barrier.to_word() == word)
    }

    /// The sender's half, between its store of a line and its load of a flag of the receiver.
    #[inline(always)]
    pub fn after_store(self) {
        match self {
            // The sleeper's barrier prevents reordering by the processor; the compiler has to be prevented here.
            #[cfg(not(loom))]
            Self::Membarrier => am_via_os::atomics::compiler_fence(Ordering::SeqCst),
            // In a model the other side's barrier is a full fence, so this side needs one, too.
            #[cfg(loom)]
            Self::Membarrier => fence(Ordering::SeqCst),
            Self::SenderFence => fence(Ordering::SeqCst),
        }
    }

    /// Receiver's half of the handshake for a caller that does not sleep: a full barrier between setting its flag and its last look at the
    /// queue. For the set-up path: it takes some microseconds.
    pub fn before_look(self) {
        self.before_first_look();
        if self == Self::Membarrier && cfg!(not(loom)) {
            // Because of the barrier's gap, the caller may look only after this delay.
            let begun = Instant::now();
            while begun.elapsed() < SETTLE {
                spin_loop();
            }
        }
    }

    /// The sleeper's half, between its store of a flag and its look at the rings. The sleeper looks again after [`FIRST_SLEEP`].
    fn before_first_look(self) {
        fence(Ordering::SeqCst);
        if self == Self::Membarrier {
            membarrier::barrier();
        }
    }
}

impl Doorbell {
    /// Whether the owner sleeps or is about to: [`ring`](Self::ring) is then needed. Must be called after [`SleepBarrier::after_store`].
    #[inline(always)]
    #[must_use]
    pub fn is_sleeping(&self) -> bool {
        self.sleeping.load(Ordering::Relaxed) != 0
    }

    /// Wakes the owner if it sleeps; only one of several concurrent callers makes the system call.
    #[cold]
    #[inline(never)]
    pub fn ring(&self) {
        if self.sleeping.swap(0, Ordering::AcqRel) != 0 {
            self.ring_always();
        }
    }

    /// Wakes the owner even if it seems to be awake: for events that no ring buffer shows (a death, a signal).
    pub fn ring_always(&self) {
        self.word.fetch_add(1, Ordering::Release);
        futex::wake(&self.word, u32::MAX >> 1);
    }

    /// Sleeps until rung, at most `timeout`, unless `has_news` returns true after the handshake. Only for the owner, one thread at a time.
    /// Returns whether the owner was not rung, and still has no news.
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

/// How long a sleeping task has had no event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet {
    /// The beginning of the first sleep without an event, and the end of the last such sleep.
    time: Option<(Instant, Instant)>,
}

/// Maximum time between two sleeps of one wait.
const WITHIN_ONE_WAIT: Duration = Duration::from_millis(100);

impl Quiet {
    /// Begins a sleep; returns the time.
    pub fn begin_sleep(&mut self) -> Instant {
        let now = Instant::now();
        // A sleep that ended longer ago belonged to another wait.
        self.time = self.time.filter(|(_, end)| now.duration_since(*end) < WITHIN_ONE_WAIT);
        now
    }

    /// Ends the sleep that began at `began`; returns the time without an event so far.
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

    /// The time without an event, at the end of the last sleep.
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

    /// One side: sends a line, then sleeps until the answer has arrived, without spinning.
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
                // Waits for ever if a wake-up is lost: the watchdog then reports it.
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

    /// Varies the time by some nanoseconds, so that one side's line meets every phase of the other side's going to sleep.
    fn pause(random: &mut Random) {
        for _ in 0..random.below(64) {
            std::hint::black_box(());
        }
    }

    /// Starts and ends threads of this process on all processors until it is dropped: the gap of the kernel's barrier occurs when a
    /// processor switches from one thread of the process to another.
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

    /// The core of the handshake, with both halves started at the same moment: in no round may the sleeper miss the line while the sender
    /// misses the sleeper. On two cores this fails within some thousand rounds without the barriers, and once in some million without the
    /// delay after them.
    fn litmus(barrier: SleepBarrier) {
        guarded(move || {
            let _storm = Storm::new();
            let shared = Arc::new(Litmus::default());
            let other = Arc::clone(&shared);
            let sender = thread::spawn(move || {
                for round in 1..=LITMUS_ROUNDS {
                    other.meet(2 * round - 1);
                    // These stores, like data before a line, fill the store buffer for a while.
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

    const LITMUS_ROUNDS: u32 = 50_000;

    #[derive(Default)]
    struct Litmus {
        data: [crossbeam_utils::CachePadded<AtomicU32>; 16],
        line: crossbeam_utils::CachePadded<AtomicU32>,
        sleeping: crossbeam_utils::CachePadded<AtomicU32>,
        sender_saw: crossbeam_utils::CachePadded<AtomicU32>,
        met: crossbeam_utils::CachePadded<AtomicU32>,
    }

    impl Litmus {
        /// Both threads leave meeting `number` together.
        fn meet(&self, number: u32) {
            self.met.fetch_add(1, Ordering::AcqRel);
            let mut spins = 0_u32;
            while self.met.load(Ordering::Acquire) < 2 * number {
                spins += 1;
                // The other thread may need this processor.
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
        // If the kernel has no such barrier, this test repeats the other test.
        stress(barrier);
    }
}
