//! How long a wait spins before it sleeps. The limit adapts to the waits of this task: it grows to twice the length of a wait that a longer
//! spin would have covered, and halves after a wait longer than the longest spin. So recurring short waits never pay for a wake-up, and a
//! task that is blocked for long uses little processor time.
//!
//! While other threads want the processor, a wait sleeps after its first polls. A spin would use up the thread's share of the processor,
//! and the scheduler then lets the others run at the moment at which the awaited message arrives. A sleeper keeps its share, and runs at
//! once when an event wakes it.

use std::time::{Duration, Instant};

use am_via_os::atomics::spin_loop;
use am_via_os::sched;

/// What a task does between two empty polls: it spins or yields for a while, then sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitPolicy {
    /// The longest spin. Zero: a wait does not spin.
    pub spin_max: Duration,
    /// Number of polls that yield the processor before a sleep, if the task does not spin.
    pub yield_polls_max: u32,
}

impl WaitPolicy {
    /// Number of consecutive empty polls without a pause and without reading the clock: about 30 us.
    #[inline(always)]
    #[must_use]
    pub fn eager_polls(self) -> u32 {
        if self.spin_max.is_zero() { 0 } else { EAGER_POLLS }
    }
}

/// Number of empty polls that means "sleep at once", as in the layers above.
pub const NO_SPIN: u32 = u32::MAX / 2;

/// Number of polls before the first pause. A pause after each poll would delay arrivals. A poll of an unoptimised build takes many times
/// as long: with the same number, each wait of a test would keep a processor from other
/// tasks for about a millisecond.
const EAGER_POLLS: u32 = if cfg!(debug_assertions) { 100 } else { 2000 };
/// Number of polls between two readings of the clock: about 1 us.
const POLLS_BETWEEN_LOOKS: u32 = 32;
/// Number of polls between two yields.
const POLLS_BETWEEN_YIELDS: u32 = 1024;

/// Minimum limit, if the policy allows spinning: waking an idle core takes a quarter of this time.
const LIMIT_MIN: Duration = Duration::from_micros(100);
/// The limit before the first wait.
const LIMIT_AT_FIRST: Duration = Duration::from_millis(1);
/// If the clock advances by more than this between two readings, another thread wants the processor.
const JUMP: Duration = Duration::from_micros(500);
/// For this time after such a jump, and after the second of two losses of the processor within this time, waits do not spin.
const KEPT_SHORT: Duration = Duration::from_millis(100);
/// If another thread wants the processor within [`KEPT_SHORT`] after waits have begun to spin again, the next time without spins is
/// twice as long, up to this one: what computes beside the task goes on for long, and each attempt costs the task its processor once.
const KEPT_SHORT_MAX: Duration = Duration::from_millis(1600);

/// The state of a task's spins.
#[derive(Debug)]
pub struct Spin {
    max: Duration,
    limit: Duration,
    /// Whether the present wait still spins.
    is_on: bool,
    began: Instant,
    looked: Instant,
    /// Until this time, another thread is assumed to want the processor.
    short_until: Instant,
    /// How long the last time without spins was, apart from what prolonged it; zero: there was none.
    kept_short: Duration,
    /// How often the thread had lost its processor at the beginning of an earlier spin, and when this number was seen to grow.
    losses: u64,
    lost: Option<Instant>,
}

impl Spin {
    /// Spins of at most `max`.
    #[must_use]
    pub fn new(max: Duration) -> Self {
        let now = Instant::now();
        Self {
            max,
            limit: LIMIT_AT_FIRST.min(max),
            is_on: false,
            began: now,
            looked: now,
            short_until: now,
            kept_short: Duration::ZERO,
            losses: sched::involuntary_switches(),
            lost: None,
        }
    }

    /// Pauses briefly between two polls; returns false when the wait should sleep. `polls` is the number of consecutive empty polls, at
    /// least [`WaitPolicy::eager_polls`].
    pub fn pause(&mut self, polls: u32) -> bool {
        if self.max.is_zero() || polls >= NO_SPIN {
            return false;
        }
        if polls == EAGER_POLLS {
            self.begin(Instant::now(), sched::involuntary_switches());
        }
        if self.is_on && polls.is_multiple_of(POLLS_BETWEEN_LOOKS) {
            let is_long = self.look(Instant::now());
            // A spin that has reached the minimum limit yields to other threads from time to time. If the yield takes long, the next
            // reading of the clock ends the spin.
            if is_long && polls.is_multiple_of(POLLS_BETWEEN_YIELDS) {
                sched::yield_now();
            }
        }
        spin_loop();
        self.is_on
    }

    /// Lets a spin that has reached its limit begin again, unless another thread wants the processor or waits do not spin. Returns whether
    /// the spin begins again.
    pub fn prolong(&mut self, polls: u32) -> bool {
        let now = Instant::now();
        if self.max.is_zero() || polls >= NO_SPIN || now < self.short_until {
            return false;
        }
        self.begin(now, sched::involuntary_switches());
        self.is_on
    }

    /// Begins a spin, unless another thread wants the processor. `losses`: how often this thread has lost its processor so far, also while
    /// the program computed. One loss alone may be due to the system's own short work.
    fn begin(&mut self, now: Instant, losses: u64) {
        if losses != self.losses {
            let is_second = self.lost.is_some_and(|lost| now.duration_since(lost) < KEPT_SHORT);
            if is_second || self.has_just_resumed(now) {
                self.keep_short(now);
            }
            (self.losses, self.lost) = (losses, Some(now));
        }
        (self.is_on, self.began, self.looked) = (now >= self.short_until, now, now);
    }

    /// Whether waits have spun again for a short time only.
    fn has_just_resumed(&self, now: Instant) -> bool {
        !self.kept_short.is_zero() && (self.short_until..self.short_until + KEPT_SHORT).contains(&now)
    }

    /// Lets no wait spin for a time.
    fn keep_short(&mut self, now: Instant) {
        if self.has_just_resumed(now) {
            self.kept_short = (self.kept_short * 2).min(KEPT_SHORT_MAX);
        } else if now >= self.short_until {
            self.kept_short = KEPT_SHORT;
        }
        self.short_until = now + self.kept_short;
    }

    /// Decides whether the wait continues to spin. Returns whether the wait spins on, and is longer than [`LIMIT_MIN`].
    fn look(&mut self, now: Instant) -> bool {
        if now.duration_since(self.looked) > JUMP {
            self.keep_short(now);
        }
        self.looked = now;
        let length = now.duration_since(self.began);
        self.is_on = length < self.limit && now >= self.short_until;
        self.is_on && length >= LIMIT_MIN
    }

    /// Adapts the limit after a wait of `polls` empty polls and a sleep, which an event has ended.
    pub fn news_after_sleep(&mut self, polls: u32) {
        // A caller that never spins gives no information about spinning.
        if polls < NO_SPIN {
            self.follow(Instant::now().duration_since(self.began));
        }
    }

    fn follow(&mut self, wait: Duration) {
        let limit = if wait < self.max { wait * 2 } else { self.limit / 2 };
        self.limit = limit.clamp(LIMIT_MIN.min(self.max), self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_millis(4);

    /// Converts microseconds after the start.
    struct Clock(Instant);

    impl Clock {
        fn at(&self, us: u64) -> Instant {
            self.0 + Duration::from_micros(us)
        }

        /// How long a wait that begins at `from` spins, in microseconds, with readings 10 us apart.
        fn spin(&self, spin: &mut Spin, from: u64) -> u64 {
            spin.begin(self.at(from), spin.losses);
            let mut us = 0;
            while spin.is_on {
                us += 10;
                spin.look(self.at(from + us));
            }
            us
        }
    }

    fn new() -> (Spin, Clock) {
        let spin = Spin::new(MAX);
        let clock = Clock(spin.began);
        (spin, clock)
    }

    #[test]
    fn the_limit_grows_to_catch_waits_that_it_may_catch() {
        let (mut spin, clock) = new();
        assert_eq!(clock.spin(&mut spin, 0), 1000, "at first");
        spin.follow(Duration::from_micros(1500));
        assert_eq!(clock.spin(&mut spin, 10_000), 3000, "twice the wait");
        spin.follow(Duration::from_micros(3100));
        assert_eq!(clock.spin(&mut spin, 20_000), 4000, "at most the policy's limit");
    }

    #[test]
    fn long_waits_leave_the_shortest_spin_only() {
        let (mut spin, clock) = new();
        let spins: Vec<_> = (0..6)
            .map(|wait| {
                let spun = clock.spin(&mut spin, wait * 100_000);
                spin.follow(Duration::from_millis(50));
                spun
            })
            .collect();
        assert_eq!(spins, [1000, 500, 250, 130, 100, 100]);
    }

    #[test]
    fn a_spin_ends_where_another_thread_has_had_the_processor_and_soon_after_none_begins() {
        let (mut spin, clock) = new();
        spin.begin(clock.at(0), spin.losses);
        assert!(spin.look(clock.at(150)) && spin.is_on, "after the minimum limit");
        spin.look(clock.at(900));
        assert!(!spin.is_on, "the clock has jumped by 750 us");
        assert_eq!(clock.spin(&mut spin, 50_000), 0, "soon after the jump");
        assert_eq!(clock.spin(&mut spin, 150_000), 1000, "long after the jump");
    }

    #[test]
    fn a_thread_that_keeps_losing_its_processor_between_its_spins_does_not_spin() {
        let (mut spin, clock) = new();
        let mut after_losses = |losses: u64, at: u64| {
            spin.begin(clock.at(at), spin.losses + losses);
            spin.is_on
        };
        assert!(after_losses(1, 200_000), "once, which the system's own work may do");
        assert!(after_losses(1, 400_000), "again, but much later");
        assert!(!after_losses(1, 450_000), "again, soon after");
        assert!(!after_losses(0, 500_000), "remembered by later waits");
        assert!(after_losses(0, 600_000), "nobody else has run for long");
        assert!(!after_losses(1, 620_000), "once, soon after spins have begun again");
        assert!(!after_losses(0, 810_000), "the second time is longer");
        assert!(!after_losses(1, 815_000), "one loss while no wait spins");
        assert!(after_losses(0, 830_000), "does not prolong it");
        assert!(after_losses(1, 1_100_000), "once, long after");
        assert!(!after_losses(1, 1_150_000), "again, soon after");
        assert!(after_losses(0, 1_260_000), "as short as the first time");
    }

    #[test]
    fn a_policy_without_a_spin_sleeps_at_once_and_a_short_one_is_kept() {
        let none = WaitPolicy { spin_max: Duration::ZERO, yield_polls_max: 0 };
        assert_eq!(none.eager_polls(), 0);
        assert!(!Spin::new(none.spin_max).pause(1));
        let mut short = Spin::new(Duration::from_micros(30));
        let clock = Clock(short.began);
        short.follow(Duration::from_micros(20));
        assert_eq!(clock.spin(&mut short, 0), 30);
    }

    #[test]
    fn a_spin_is_prolonged_unless_another_thread_wants_the_processor() {
        let (mut spin, clock) = new();
        assert!(!Spin::new(Duration::ZERO).prolong(EAGER_POLLS) && !spin.prolong(NO_SPIN));
        assert_eq!(clock.spin(&mut spin, 0), 1000, "its limit");
        assert!(!spin.is_on, "the limit is reached");
        assert!(spin.prolong(EAGER_POLLS));
        assert!(spin.is_on, "it begins again");
        spin.begin(clock.at(20_000), spin.losses);
        spin.look(clock.at(20_900));
        spin.short_until = Instant::now() + KEPT_SHORT;
        assert!(!spin.is_on && !spin.prolong(EAGER_POLLS), "the clock has jumped");
    }

    #[test]
    fn a_caller_that_never_spins_sleeps_at_once_and_changes_nothing() {
        let (mut spin, _) = new();
        let limit = spin.limit;
        spin.begin(Instant::now(), spin.losses);
        assert!(!spin.pause(NO_SPIN));
        spin.news_after_sleep(NO_SPIN);
        assert_eq!(spin.limit, limit);
    }
}
