//! The faults of the emulated wire: chosen when the network is made, and drawn from one seed.

/// The kinds of faults, and their frequencies per thousand frames or posts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireFaults {
    /// The seed. The same seed and the same order of calls give the same faults.
    pub seed: u64,
    /// Frames lost.
    pub drop: u16,
    /// Frames that arrive twice.
    pub duplicate: u16,
    /// Frames overtaken by later ones.
    pub reorder: u16,
    /// Frames that arrive late, and delay all frames behind them.
    pub delay: u16,
    /// Posts, and direct accesses to memory of peers, that return Retry.
    pub refuse: u16,
    /// Polls that return nothing although there may be an event.
    pub hold_back: u16,
    /// Frames that find the receive ring full for a moment.
    pub overrun: u16,
    /// Frames whose line and area arrive apart, each with a delay of its own.
    pub apart: u16,
    /// Posts that break their connection: both ends get an event, and may make a new connection.
    pub cut: u16,
    /// A task that dies.
    pub kill: Option<Kill>,
}

/// The death of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// The task.
    pub task: u32,
    /// Number of polls of the network before the task's death.
    pub at_poll: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FrameFaults {
    pub(super) dropped: bool,
    pub(super) duplicated: bool,
    pub(super) overrun: bool,
    /// Number of polls by which this frame alone is delayed.
    pub(super) late_polls: u64,
    /// Number of polls by which this frame and those behind it are delayed.
    pub(super) delay_polls: u64,
    /// Numbers of polls by which line and area are delayed in addition, if they arrive apart.
    pub(super) apart: Option<[u64; 2]>,
}

/// Maximum delay of a frame in polls.
const LATE_POLLS_MAX: u64 = 40;

/// Draws faults at random.
#[derive(Debug)]
pub(super) struct FaultGenerator {
    faults: WireFaults,
    state: u64,
}

impl FaultGenerator {
    pub(super) fn new(faults: WireFaults) -> Self {
        Self { faults, state: faults.seed }
    }

    /// Whether frames are ever affected. If not, they arrive at once.
    pub(super) fn touches_frames(&self) -> bool {
        let WireFaults { drop, duplicate, reorder, delay, overrun, apart, .. } = self.faults;
        drop | duplicate | reorder | delay | overrun | apart != 0
    }

    pub(super) fn kill(&self) -> Option<Kill> {
        self.faults.kill
    }

    /// Whether to refuse this post.
    pub(super) fn refuses(&mut self) -> bool {
        self.happens(self.faults.refuse)
    }

    /// Whether a poll returns nothing.
    pub(super) fn holds_back(&mut self) -> bool {
        self.happens(self.faults.hold_back)
    }

    /// One of `count` events that may overtake each other: 0 if there are none.
    pub(super) fn one_of(&mut self, count: usize) -> usize {
        let chosen = if count > 1 { self.below(count as u64) } else { 0 };
        usize::try_from(chosen).unwrap_or(0)
    }

    /// Number of polls by which a transfer is late, on a wire that holds events back.
    pub(super) fn late_polls(&mut self) -> u64 {
        if self.faults.hold_back == 0 { 0 } else { self.below(LATE_POLLS_MAX) }
    }

    /// Where the news of a death stands among `events` that a NIC has not polled: behind them, unless the wire holds events back.
    pub(super) fn place_of_death(&mut self, events: usize) -> usize {
        if self.faults.hold_back == 0 { events } else { self.one_of(events + 1) }
    }

    /// Whether a post breaks its connection.
    pub(super) fn cuts(&mut self) -> bool {
        self.happens(self.faults.cut)
    }

    /// Whether the wire loses an acknowledgement or a transfer. These have no other faults.
    pub(super) fn loses(&mut self) -> bool {
        self.happens(self.faults.drop)
    }

    pub(super) fn frame_faults(&mut self) -> FrameFaults {
        let WireFaults { drop, duplicate, reorder, delay, overrun, apart, .. } = self.faults;
        let late_polls = if self.happens(reorder) { self.below(LATE_POLLS_MAX) + 1 } else { 0 };
        let delay_polls = if self.happens(delay) { self.below(LATE_POLLS_MAX) + 1 } else { 0 };
        FrameFaults {
            dropped: self.happens(drop),
            duplicated: self.happens(duplicate),
            overrun: self.happens(overrun),
            late_polls,
            delay_polls,
            apart: self.happens(apart).then(|| [(); 2].map(|()| self.below(LATE_POLLS_MAX) + 1)),
        }
    }

    fn happens(&mut self, per_thousand: u16) -> bool {
        per_thousand != 0 && self.below(1000) < u64::from(per_thousand)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// Counts since the network was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireStatistics {
    /// Frames posted.
    pub frames: u64,
    /// Frames and acknowledgements lost.
    pub dropped: u64,
    /// Frames that the wire duplicated.
    pub duplicated: u64,
    /// Frames that later frames could overtake.
    pub reordered: u64,
    /// Frames delayed together with all frames behind them.
    pub delayed: u64,
    /// Posts refused although the ring had a free line.
    pub refused: u64,
    /// Frames that found the receive ring full.
    pub overruns: u64,
    /// Frames whose area came before their line.
    pub area_first: u64,
    /// Frames whose line came before their area.
    pub line_first: u64,
    /// Connections broken.
    pub cuts: u64,
    /// Frames sent again because they were not acknowledged.
    pub retransmitted: u64,
    /// Frames dropped because they had already arrived.
    pub duplicates_suppressed: u64,
    /// Writes, reads and atomics carried out.
    pub transfers: u64,
    /// Polls: the wire's clock.
    pub polls: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_draws_the_same_faults_again() {
        let faults = WireFaults { seed: 11, drop: 100, duplicate: 100, reorder: 300, ..Default::default() };
        let draw = |faults| {
            let mut generator = FaultGenerator::new(faults);
            (0..200).map(|_| generator.frame_faults()).collect::<Vec<_>>()
        };
        assert_eq!(draw(faults), draw(faults));
        assert_ne!(draw(faults), draw(WireFaults { seed: 12, ..faults }));
        let dropped = draw(faults).iter().filter(|frame_faults| frame_faults.dropped).count();
        assert!((1..100).contains(&dropped), "{dropped} of 200 dropped at one in ten");
    }

    #[test]
    fn no_faults_touch_nothing() {
        let mut generator = FaultGenerator::new(WireFaults { seed: 1, ..Default::default() });
        assert!(!generator.touches_frames() && !generator.refuses());
        assert!((0..1000).all(|_| generator.frame_faults() == FrameFaults::default()));
    }
}
