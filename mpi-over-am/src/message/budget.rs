//! The budget of early arrivals: how many bytes from each sender a receiver stores before the receives for them are posted.
//!
//! The receiver's memory is divided among the senders, and each sender limits itself to its part. A sender counts the bytes that it has
//! sent eagerly, and the receiver reports how many of them have been received. A message beyond the part is announced instead, so no stop
//! message is needed. When half of its part is used, a sender asks for a report. A header handler answers when the receiver next makes
//! progress.
//!
//! The receiver counts the stored bytes of each sender. It drops messages beyond a sender's part, and reports an error that names the
//! sender. Announced messages take little memory, and programs may begin many, so their number has a separate limit.
//!
//! An eager message costs the sender one addition and one comparison, and the receiver one addition.

use am_core::fabric::PeerIndex;

/// What to do with a message that is eligible for the eager protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Whether to send the message eagerly; otherwise it is announced.
    pub(crate) eager: bool,
    /// Whether to ask for a report, too.
    pub(crate) ask: bool,
}

/// Maximum number of announced messages of one sender that wait for their receives.
const ANNOUNCED_MAX: u32 = 1 << 20;

/// The index of a peer whose index the fabric has not been asked for yet. No peer has this index.
pub(crate) const UNKNOWN: PeerIndex = PeerIndex(u32::MAX);

/// This task's account with one peer, in bytes since the start. An account is one cache line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(align(64))]
struct Peer {
    /// Bytes sent eagerly to the peer.
    sent: u64,
    /// If a message would raise `sent` above this, [`Budget::charge`] has to check further.
    attention_at: u64,
    /// Bytes that the peer has received, according to its last report.
    reported: u64,
    /// Whether a report was asked for, and has not arrived.
    asked: bool,
    /// Eager bytes from the peer that the program has received.
    received: u64,
    /// `received` when [`has_answered`](Budget::has_answered) was last called.
    received_before: u64,
    /// Eager bytes from the peer that wait for their receives.
    kept: u64,
    /// Number of announced messages from the peer that wait for their receives.
    announced: u32,
    /// The fabric's index of the peer, or [`UNKNOWN`]. It is stored here because each message reads this line anyway.
    index: PeerIndex,
}

impl Peer {
    fn new(window: u64) -> Self {
        Self {
            sent: 0,
            attention_at: window / 2,
            reported: 0,
            asked: false,
            received: 0,
            received_before: 0,
            kept: 0,
            announced: 0,
            index: UNKNOWN,
        }
    }
}

/// The accounts with each task, as sender and as receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    /// A sender's part: the maximum bytes that it may have sent to a task and that the task has not received yet.
    window: u64,
    /// Bytes that a message uses besides the buffer for its data.
    entry_bytes: u64,
    /// Grows with the tasks that are started later.
    peers: Vec<Peer>,
}

impl Budget {
    /// Accounts with the `num_tasks` tasks that the job begins with, each of which grants `bytes_max` bytes to all senders together. A
    /// message uses `entry_bytes` besides the buffer for its data.
    pub(crate) fn new(num_tasks: u32, bytes_max: u64, entry_bytes: u64) -> Self {
        let window = bytes_max / u64::from(num_tasks.max(1));
        Self { window, entry_bytes, peers: vec![Peer::new(window); num_tasks as usize] }
    }

    /// Makes the accounts with all tasks up to this one, if there are none. A task may also send before this task knows of a communicator
    /// with it.
    #[cold]
    #[inline(never)]
    pub(crate) fn make_room(&mut self, task: u32) {
        let count = self.peers.len().max(task as usize + 1);
        self.peers.resize(count, Peer::new(self.window));
    }

    /// Closes the account with a task that has ended, of which nothing is kept: another task may get its number.
    pub(crate) fn forget(&mut self, task: u32) {
        if let Some(peer) = self.peers.get_mut(task as usize) {
            *peer = Peer { index: peer.index, ..Peer::new(self.window) };
        }
    }

    /// The fabric's index of `task`, or [`UNKNOWN`].
    #[inline(always)]
    pub(crate) fn index(&self, task: u32) -> PeerIndex {
        self.peers.get(task as usize).map_or(UNKNOWN, |peer| peer.index)
    }

    /// Stores the fabric's index of `task`.
    pub(crate) fn set_index(&mut self, task: u32, index: PeerIndex) {
        if let Some(peer) = self.peers.get_mut(task as usize) {
            peer.index = index;
        }
    }

    /// Whether a message with a buffer of `footprint` bytes may be sent eagerly to `task`, and if so, charges it.
    #[inline(always)]
    pub(crate) fn charge(&mut self, task: u32, footprint: u64) -> Verdict {
        let Some(peer) = self.peers.get_mut(task as usize) else {
            return Verdict { eager: true, ask: false };
        };
        let sent = peer.sent + footprint + self.entry_bytes;
        if sent > peer.attention_at {
            return look_closer(peer, sent, self.window);
        }
        peer.sent = sent;
        Verdict { eager: true, ask: false }
    }

    /// Like [`charge`](Self::charge), but only if the message is within the part and no report is due. Returns the fabric's index of the
    /// task, and what [`set_back`](Self::set_back) needs. `None`: nothing is charged.
    #[inline(always)]
    pub(crate) fn charge_quietly(&mut self, task: u32, footprint: u64) -> Option<(PeerIndex, u64)> {
        let peer = self.peers.get_mut(task as usize)?;
        let before = peer.sent;
        let sent = before + self.entry_bytes + footprint;
        if sent > peer.attention_at {
            return None;
        }
        peer.sent = sent;
        Some((peer.index, before))
    }

    /// Takes back the last charge, of a message that was not sent; `before` is from [`charge_quietly`](Self::charge_quietly).
    #[inline(always)]
    pub(crate) fn set_back(&mut self, task: u32, before: u64) {
        if let Some(peer) = self.peers.get_mut(task as usize) {
            peer.sent = before;
        }
    }

    /// Takes back the last charge, of a message that was not sent.
    #[inline(always)]
    pub(crate) fn take_back(&mut self, task: u32, footprint: u64) {
        if let Some(peer) = self.peers.get_mut(task as usize) {
            peer.sent -= footprint + self.entry_bytes;
        }
    }

    /// Counts an eager message of `task` that the program has received.
    #[inline(always)]
    pub(crate) fn received(&mut self, task: u32, footprint: u64) {
        if let Some(peer) = self.peers.get_mut(task as usize) {
            peer.received += footprint + self.entry_bytes;
        }
    }

    /// Whether an early eager message of `task` is within the sender's part; if so, counts it.
    #[inline(always)]
    #[must_use]
    pub(crate) fn keep(&mut self, task: u32, footprint: u64) -> bool {
        let Some(peer) = self.peers.get_mut(task as usize) else { return self.keep_first(task, footprint) };
        let kept = peer.kept + footprint + self.entry_bytes;
        let is_within = kept <= self.window;
        if is_within {
            peer.kept = kept;
        }
        is_within
    }

    /// Counts an early message of `task` that the program has received, and that [`keep`](Self::keep) had counted as kept.
    #[inline(always)]
    pub(crate) fn take(&mut self, task: u32, footprint: u64) {
        if let Some(peer) = self.peers.get_mut(task as usize) {
            let taken = footprint + self.entry_bytes;
            peer.received += taken;
            peer.kept -= taken;
        }
    }

    /// Counts that a stored message of `task` was dropped.
    pub(crate) fn drop_kept(&mut self, task: u32, footprint: u64) {
        if let Some(peer) = self.peers.get_mut(task as usize) {
            peer.kept = peer.kept.saturating_sub(footprint + self.entry_bytes);
        }
    }

    /// Like [`keep`](Self::keep), for a task that has no account yet.
    #[cold]
    #[inline(never)]
    fn keep_first(&mut self, task: u32, footprint: u64) -> bool {
        self.make_room(task);
        let (window, needed) = (self.window, footprint + self.entry_bytes);
        let peer = self.peers.get_mut(task as usize).filter(|_| needed <= window);
        peer.map(|peer| peer.kept = needed).is_some()
    }

    /// Whether one more announced message of `task` may wait for its receive; if so, counts it.
    #[must_use]
    pub(crate) fn announce(&mut self, task: u32) -> bool {
        self.make_room(task);
        let Some(peer) = self.peers.get_mut(task as usize) else { return false };
        let is_within = peer.announced < ANNOUNCED_MAX;
        peer.announced += u32::from(is_within);
        is_within
    }

    /// Counts that an announced message of `task` no longer waits.
    pub(crate) fn drop_announced(&mut self, task: u32) {
        if let Some(peer) = self.peers.get_mut(task as usize) {
            peer.announced = peer.announced.saturating_sub(1);
        }
    }

    /// Whether an eager message of `task` was received since the last call.
    pub(crate) fn has_answered(&mut self, task: u32) -> bool {
        self.peers.get_mut(task as usize).is_some_and(|peer| {
            let before = std::mem::replace(&mut peer.received_before, peer.received);
            before != peer.received
        })
    }

    /// The number of received bytes to report to `task`.
    pub(crate) fn report_for(&self, task: u32) -> u64 {
        self.peers.get(task as usize).map_or(0, |peer| peer.received)
    }

    /// Records a report from `task`. The number is not trusted: it is taken as at least that of the last report, and at most what was sent.
    pub(crate) fn reported(&mut self, task: u32, received: u64) {
        let Some(peer) = self.peers.get_mut(task as usize) else { return };
        peer.reported = received.clamp(peer.reported, peer.sent);
        peer.asked = false;
        // If nothing was received, the next request for a report is due after another eighth of the window.
        let next = (peer.reported + self.window / 2).max(peer.sent + self.window / 8);
        peer.attention_at = next.min(peer.reported + self.window);
    }
}

#[cold]
#[inline(never)]
fn look_closer(peer: &mut Peer, sent: u64, window: u64) -> Verdict {
    let eager = sent - peer.reported <= window;
    // If everything has been reported as received, another report is useless.
    let ask = !peer.asked && peer.sent > peer.reported;
    peer.asked |= ask;
    peer.attention_at = if peer.asked { peer.reported + window } else { peer.attention_at };
    if eager {
        peer.sent = sent;
    }
    Verdict { eager, ask }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_asks_half_way_and_announces_beyond_its_window() {
        let mut budget = Budget::new(2, 2000, 0);
        let send = |budget: &mut Budget| budget.charge(1, 100);
        for _ in 0..5 {
            assert_eq!(send(&mut budget), Verdict { eager: true, ask: false });
        }
        assert_eq!(send(&mut budget), Verdict { eager: true, ask: true });
        for _ in 0..4 {
            assert_eq!(send(&mut budget), Verdict { eager: true, ask: false });
        }
        assert_eq!(send(&mut budget), Verdict { eager: false, ask: false });
        budget.reported(1, 300);
        for _ in 0..3 {
            assert!(send(&mut budget).eager);
        }
        assert!(!send(&mut budget).eager);
    }

    #[test]
    fn a_sender_that_does_not_keep_to_its_part_is_found() {
        let mut budget = Budget::new(2, 2000, 0);
        assert!((0..10).all(|_| budget.keep(1, 100)));
        assert!(!budget.keep(1, 100) && budget.keep(0, 100), "another sender has its own part");
        budget.take(1, 100);
        assert!(budget.keep(1, 100) && !budget.keep(1, 1));
        assert!((0..ANNOUNCED_MAX).all(|_| budget.announce(1)));
        assert!(!budget.announce(1) && budget.announce(0));
        budget.drop_announced(1);
        assert!(budget.announce(1));
    }

    #[test]
    fn no_window_means_no_eager_message_and_no_question() {
        let mut budget = Budget::new(4, 3, 0);
        assert_eq!(budget.charge(3, 128), Verdict { eager: false, ask: false });
    }

    #[test]
    fn a_report_is_a_claim() {
        let mut budget = Budget::new(1, 1000, 0);
        for _ in 0..10 {
            assert!(budget.charge(0, 100).eager);
        }
        budget.reported(0, u64::MAX);
        assert_eq!(budget.peers[0].reported, 1000);
        budget.reported(0, 5);
        assert_eq!(budget.peers[0].reported, 1000);
    }

    #[test]
    fn what_is_outstanding_never_exceeds_the_window() {
        let mut budget = Budget::new(1, 10_000, 0);
        let (mut sent, mut received) = (0u64, 0u64);
        let mut random = 12345u64;
        let mut asks = 0;
        for _ in 0..100_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let footprint = 128 + (random >> 40) % 900;
            let verdict = budget.charge(0, footprint);
            if verdict.eager {
                sent += footprint;
            }
            assert!(sent - received <= 10_000, "more is outstanding than the window allows");
            if (random >> 33).is_multiple_of(3) {
                received = sent - (random >> 50) % (sent - received + 1);
            }
            if verdict.ask {
                asks += 1;
                budget.reported(0, received);
            }
        }
        assert!(sent > 1_000_000 && asks > 10, "sent {sent}, asked {asks} times");
    }
}
