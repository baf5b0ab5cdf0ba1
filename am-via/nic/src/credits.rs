//! The accounts of a VI with standing receives: packets that this side may send (credits), and slots reserved for answers.
//!
//! The credits are 0 unless the VI may send, so a post that finds a credit need not check the VI's state and reliability level.
//!
//! With standing receives, the ring of a VI has three kinds of slots in one direction: `credits` for packets that the peer may send at any
//! time, `answers` for answers to requests of this side (reserved when the request is sent), and [`CREDIT_RETURNS`] for packets that only
//! return credits. Every post uses one of these slots, so a ring never overflows and an answer never waits.
//!
//! There are two kinds of returns, credits and reserved answer slots, and each has two of the [`CREDIT_RETURNS`] slots. Two are enough: a
//! return is sent only when half of the credits, or half of the answer slots, are owed, and the peer can use that half again only when it
//! has read the return. So at most two returns of one kind are unread.
//!
//! The immediate word of such a VI carries the accounts. They are cumulative, so a word that is lost or comes twice changes nothing:
//!
//! ```text
//! bits 0..16   label: the user's
//! bits 16..18  class: 0 one-way, 1 request, 2 answer, 3 credits only
//! bits 18..24  number of requests consumed without an answer, whose reserved slots are free (wraps)
//! bits 24..32  number of one-way packets and requests consumed from the ring (wraps)
//! ```

#![expect(clippy::cast_possible_truncation, reason = "the fields of the immediate word are cut out of it")]

use am_contract::transfer::Class;

/// Maximum number of packets in flight: two counts of consumed packets in immediate words differ by at most this number.
const CREDITS_MAX: u32 = 255;
/// Maximum number of reserved slots: two counts of requests without an answer differ by at most this number.
const ANSWERS_MAX: u32 = 63;

const CREDITS_SHIFT: u32 = 24;
const ANSWERS_SHIFT: u32 = 18;
const ANSWERS_FIELD: u32 = ANSWERS_MAX << ANSWERS_SHIFT;
const CLASS_SHIFT: u32 = 16;
/// The class bits of an entry that only returns credits.
const CREDITS_ONLY: u32 = 3 << CLASS_SHIFT;

/// The class, in the field of an immediate word.
#[inline(always)]
fn class_bits(class: Class) -> u32 {
    (class as u32) << CLASS_SHIFT
}

/// The immediate word of an entry, which carries the accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Immediate(pub u32);

impl Immediate {
    /// The bits set by the user of the VI.
    #[inline(always)]
    #[must_use]
    pub fn label(self) -> u16 {
        self.0 as u16
    }

    /// The class of the packet; `None` if the entry only returns credits.
    #[inline(always)]
    #[must_use]
    pub fn class(self) -> Option<Class> {
        // The field is the number of the class, so the compiler needs no table.
        match self.0 >> CLASS_SHIFT & 3 {
            0 => Some(Class::OneWay),
            1 => Some(Class::Request),
            2 => Some(Class::Answer),
            _ => None,
        }
    }

    /// Whether this is the word of a one-way packet with this label: one comparison.
    #[inline(always)]
    pub(crate) fn is_one_way(self, label: u16) -> bool {
        self.0 & ((1 << ANSWERS_SHIFT) - 1) == class_bits(Class::OneWay) | u32::from(label)
    }

    /// Number of packets that the sender of this word had consumed (wraps).
    #[inline(always)]
    fn consumed(self) -> u8 {
        (self.0 >> CREDITS_SHIFT) as u8
    }

    /// Number of packets that the sender had consumed since the word `earlier`.
    #[inline(always)]
    fn consumed_since(self, earlier: Self) -> u32 {
        u32::from(self.consumed().wrapping_sub(earlier.consumed()))
    }

    /// Number of requests that the sender had consumed without an answer since the word `earlier`.
    #[inline(always)]
    fn unanswered_since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0) >> ANSWERS_SHIFT & ANSWERS_MAX
    }

    /// The accounts alone.
    #[inline(always)]
    fn accounts(self) -> Self {
        Self(self.0 >> ANSWERS_SHIFT << ANSWERS_SHIFT)
    }
}

/// Number of packets so far, in each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packets {
    /// Packets sent.
    pub sent: u64,
    /// Packets received.
    pub received: u64,
}

/// Number of slots in a ring for packets that only return credits: two for each kind of return.
pub(crate) const CREDIT_RETURNS: u32 = 4;

/// Number of slots for standing receives between each pair of NICs; the same in all tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreditPlan {
    /// Maximum number of unconsumed packets at the target, at least 1.
    pub credits: u32,
    /// Maximum number of unanswered requests, at least 1.
    pub answers: u32,
}

impl CreditPlan {
    /// The plan, reduced to the capacity of a ring of `lines`.
    #[must_use]
    pub fn within(self, lines: u32) -> Self {
        let slots = lines.saturating_sub(CREDIT_RETURNS).max(2);
        let credits = self.credits.clamp(1, (slots - 1).min(CREDITS_MAX));
        Self { credits, answers: self.answers.clamp(1, (slots - credits).min(ANSWERS_MAX)) }
    }
}

/// Numbers of packets and of answers that may be owed to the peer without telling it.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
struct Untold {
    packets: i32,
    answers: i32,
}

impl Untold {
    /// Half of the slots of each kind.
    fn half_of(plan: CreditPlan) -> Self {
        let half = |slots: u32| i32::try_from(slots.div_ceil(2)).unwrap_or(i32::MAX);
        Self { packets: half(plan.credits), answers: half(plan.answers) }
    }
}

/// The accounts of one VI.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credits {
    /// Packets that this side may send now.
    credits: u32,
    /// Free slots for answers in this side's ring.
    answer_slots: u32,
    /// Consumed requests of the peer that may still be answered.
    may_answer: u32,
    /// Number of the peer's packets consumed so far, and number of its requests that will not be answered, as in the immediate word.
    accounts: Immediate,
    /// The peer's accounts, as last received. Not trusted.
    peers: Immediate,
    /// The packets, and the requests without an answer, that may still be counted before the peer must be told. When one of the two
    /// numbers reaches 0, the accounts are sent at once, without waiting for a packet that can carry them.
    untold: Untold,
    /// Value of `untold` when the peer has just been told.
    untold_max: Untold,
    /// Maxima of `credits` and `answer_slots`; 0 unless the VI may send.
    most: CreditPlan,
    /// Value of `most` while the VI may send.
    plan: CreditPlan,
    packets: Packets,
}

impl Credits {
    /// Accounts that allow nothing before [`open`](Self::open).
    pub(crate) fn new(plan: CreditPlan) -> Self {
        let untold_max = Untold::half_of(plan);
        Self {
            credits: 0,
            answer_slots: 0,
            may_answer: 0,
            accounts: Immediate(0),
            peers: Immediate(0),
            untold: untold_max,
            untold_max,
            most: CreditPlan { credits: 0, answers: 0 },
            plan,
            packets: Packets::default(),
        }
    }

    /// The plan that applies while the VI may send.
    pub(crate) fn plan(&self) -> CreditPlan {
        self.plan
    }

    /// Allows posts: the VI may send.
    pub(crate) fn open(&mut self) {
        self.most = self.plan;
        (self.credits, self.answer_slots) = (self.most.credits, self.most.answers);
    }

    /// Stops posts of one-way packets and requests: the VI may no longer send. Answers that are due may still be posted: they have slots,
    /// and a peer that is gone reads nothing.
    pub(crate) fn stop(&mut self) {
        self.most = CreditPlan { credits: 0, answers: 0 };
        (self.credits, self.answer_slots) = (0, 0);
    }

    /// Number of packets so far, in each direction.
    pub(crate) fn packets(&self) -> Packets {
        self.packets
    }

    /// Whether a packet of this class may be posted.
    #[inline(always)]
    pub(crate) fn may_send(&self, class: Class) -> bool {
        match class {
            Class::OneWay => self.credits > 0,
            Class::Request => self.credits > 0 && self.answer_slots > 0,
            Class::Answer => self.may_answer > 0,
        }
    }

    /// Whether this number of one-way packets may be posted.
    pub(crate) fn may_send_several(&self, packets: u32) -> bool {
        packets <= self.credits
    }

    /// The immediate word of the next packet, which contains the accounts. After the packet has been posted, [`sent`](Self::sent) must be
    /// called: it records that the peer gets these accounts.
    #[inline(always)]
    pub(crate) fn immediate(&self, class: Class, label: u32) -> u32 {
        label | class_bits(class) | self.accounts.0
    }

    /// Books a posted packet of this class, with the word of [`immediate`](Self::immediate).
    #[inline(always)]
    pub(crate) fn sent(&mut self, class: Class) {
        self.packets.sent += 1;
        self.untold = self.untold_max;
        match class {
            Class::OneWay => self.credits -= 1,
            Class::Request => {
                self.credits -= 1;
                self.answer_slots -= 1;
            }
            Class::Answer => self.may_answer -= 1,
        }
    }

    /// Books slots returned by the peer. The peer's numbers are not trusted: they are limited to what the plan allows.
    #[inline(always)]
    pub(crate) fn returned(&mut self, word: Immediate) {
        let accounts = word.accounts();
        // The usual case in a one-way stream of messages: nothing was returned since the last word.
        if accounts == self.peers {
            return;
        }
        self.credits = (self.credits + word.consumed_since(self.peers)).min(self.most.credits);
        let unanswered = word.unanswered_since(self.peers);
        if unanswered > 0 {
            self.answer_slots = (self.answer_slots + unanswered).min(self.most.answers);
        }
        self.peers = accounts;
    }

    /// Counts a consumed packet of the peer. Returns whether the credits owed to the peer must be returned at once.
    #[inline(always)]
    #[must_use = "the peer may be waiting for credits"]
    pub(crate) fn consumed(&mut self, class: Class) -> bool {
        self.packets.received += 1;
        if class == Class::Answer {
            self.answer_slots = (self.answer_slots + 1).min(self.most.answers);
            return false;
        }
        self.may_answer += u32::from(class == Class::Request);
        self.accounts.0 = self.accounts.0.wrapping_add(1 << CREDITS_SHIFT);
        self.untold.packets -= 1;
        self.untold.packets <= 0
    }

    /// Books that a request will not be answered; does nothing if no request waits for an answer. Returns whether the answer slots owed to
    /// the peer must be returned at once.
    #[inline(always)]
    #[must_use = "the peer may be waiting for slots"]
    pub(crate) fn waive(&mut self) -> bool {
        if self.may_answer == 0 {
            return false;
        }
        self.may_answer -= 1;
        let unanswered = self.accounts.0.wrapping_add(1 << ANSWERS_SHIFT) & ANSWERS_FIELD;
        self.accounts.0 = self.accounts.0 & !ANSWERS_FIELD | unanswered;
        self.untold.answers -= 1;
        self.untold.answers <= 0
    }

    /// The immediate word of an entry that carries only the accounts; [`told`](Self::told) books it.
    pub(crate) fn accounts_only(&self) -> Immediate {
        Immediate(self.accounts.0 | CREDITS_ONLY)
    }

    /// Books that all accounts were sent to the peer.
    pub(crate) fn told(&mut self) {
        self.untold = self.untold_max;
    }
}

#[cfg(test)]
mod tests {
    use am_via_os::test_aids::Random;

    use super::*;

    #[test]
    fn a_plan_fits_its_ring() {
        for lines in [8, 16, 128] {
            for (credits, answers) in [(1, 1), (64, 60), (1000, 1000)] {
                let plan = CreditPlan { credits, answers }.within(lines);
                assert!(plan.credits >= 1 && plan.answers >= 1);
                assert!(plan.credits + plan.answers + CREDIT_RETURNS <= lines);
            }
        }
    }

    fn open(plan: CreditPlan) -> Credits {
        let mut credits = Credits::new(plan);
        assert!(!credits.may_send(Class::OneWay), "nothing is allowed before `open`");
        credits.open();
        credits
    }

    #[test]
    fn an_answer_takes_the_slot_that_its_request_reserved() {
        let plan = CreditPlan { credits: 2, answers: 1 };
        let (mut origin, mut target) = (open(plan), open(plan));
        assert!(!target.may_send(Class::Answer));
        origin.sent(Class::Request);
        assert!(!origin.may_send(Class::Request), "the only slot for an answer is taken");
        assert!(origin.may_send(Class::OneWay));
        assert!(target.consumed(Class::Request), "half of the credits are owed");
        let word = Immediate(target.immediate(Class::Answer, 0));
        target.sent(Class::Answer);
        origin.returned(word);
        assert!(!origin.consumed(Class::Answer));
        assert!(origin.may_send(Class::Request));
        assert!(!target.may_send(Class::Answer));
    }

    #[test]
    fn an_unused_slot_comes_back_with_the_credits() {
        let plan = CreditPlan { credits: 1, answers: 1 };
        let (mut origin, mut target) = (open(plan), open(plan));
        origin.sent(Class::Request);
        assert!(target.consumed(Class::Request) && target.waive());
        origin.returned(target.accounts_only());
        assert!(origin.may_send(Class::Request));
    }

    #[test]
    fn a_stopped_vi_is_allowed_nothing_whatever_comes_back() {
        let plan = CreditPlan { credits: 3, answers: 3 };
        let mut credits = open(plan);
        credits.sent(Class::Request);
        credits.stop();
        credits.returned(Immediate(u32::MAX));
        assert!(!credits.consumed(Class::Answer));
        assert!(!credits.may_send(Class::OneWay) && !credits.may_send(Class::Request));
    }

    /// A peer that breaks the protocol may send any word. No word gives this side more credits, or more slots for answers, than the plan
    /// has.
    #[test]
    fn forged_words_never_return_more_slots_than_the_plan_has() {
        let seed = 4711;
        println!("seed {seed}");
        let mut random = Random(seed);
        for plan in [(1, 1), (3, 2), (60, 60), (CREDITS_MAX, ANSWERS_MAX)] {
            let plan = CreditPlan { credits: plan.0, answers: plan.1 };
            let mut account = open(plan);
            let mut returned = 0;
            for round in 0..10_000 {
                while random.below(3) > 0 && account.may_send(Class::Request) {
                    account.sent(Class::Request);
                }
                let before = account.credits;
                account.returned(Immediate(random.next() as u32));
                returned += account.credits - before;
                if round % 5 == 0 {
                    let _ = account.consumed(Class::Answer);
                }
                let CreditPlan { credits, answers } = plan;
                assert!(account.credits <= credits && account.answer_slots <= answers, "{account:?}");
            }
            assert!(returned > 0, "forged words return slots as well");
        }
    }

    #[test]
    fn several_packets_are_posted_only_with_credits_for_all() {
        let plan = CreditPlan { credits: 8, answers: 2 };
        let (mut origin, mut target) = (open(plan), open(plan));
        assert!(origin.may_send_several(8) && !origin.may_send_several(9));
        for sent in 1..=8 {
            origin.sent(Class::OneWay);
            assert!(origin.may_send_several(8 - sent) && !origin.may_send_several(9 - sent));
        }
        for consumed in 1..=8 {
            let _ = target.consumed(Class::OneWay);
            origin.returned(target.accounts_only());
            assert!(origin.may_send_several(consumed) && !origin.may_send_several(consumed + 1));
        }
        origin.stop();
        assert!(!origin.may_send_several(1));
    }

    #[test]
    fn every_field_survives() {
        let plan = CreditPlan { credits: 2, answers: 2 };
        for class in [Class::OneWay, Class::Request, Class::Answer] {
            let mut credits = open(plan);
            let before = credits.accounts;
            assert!(credits.consumed(Class::Request) && credits.consumed(Class::Request) && credits.waive());
            let word = Immediate(credits.immediate(class, 0xabcd));
            assert_eq!((word.class(), word.label()), (Some(class), 0xabcd));
            assert_eq!((word.consumed_since(before), word.unanswered_since(before)), (2, 1));
        }
        let (none, all) = (Immediate(0), Immediate(u32::MAX));
        let seen = (all.class(), all.consumed_since(none), all.unanswered_since(none));
        assert_eq!(seen, (None, CREDITS_MAX, ANSWERS_MAX));
    }

    /// The accounts are cumulative: a word that is lost or comes twice changes nothing, also where the counts wrap.
    #[test]
    fn a_lost_word_and_a_repeated_one_change_nothing() {
        let plan = CreditPlan { credits: 3, answers: 3 };
        let (mut origin, mut target) = (open(plan), open(plan));
        for round in 0..1000 {
            let sent = round % plan.credits + 1;
            for _ in 0..sent {
                assert!(origin.may_send(Class::Request), "round {round}");
                origin.sent(Class::Request);
                let _ = target.consumed(Class::Request);
                let _lost = target.accounts_only();
                let _ = target.waive();
            }
            for _ in 0..2 {
                origin.returned(target.accounts_only());
            }
            target.told();
            assert_eq!((origin.credits, origin.answer_slots), (plan.credits, plan.answers), "round {round}");
        }
    }

    /// If a peer ignores its credits while no accounts can be sent to it, the counts do not overflow into each other.
    #[test]
    fn accounts_never_leave_their_fields() {
        let mut credits = open(CreditPlan { credits: CREDITS_MAX, answers: ANSWERS_MAX });
        let (mut consumed, mut unanswered) = (0_u32, 0_u32);
        for round in 0..1000 {
            let _ = credits.consumed(Class::Request);
            consumed += 1;
            if round % 3 > 0 {
                let _ = credits.waive();
                unanswered += 1;
            }
            let word = credits.accounts_only();
            let none = Immediate(0);
            assert_eq!(word.consumed_since(none), consumed % 256);
            assert_eq!(word.unanswered_since(none), unanswered % 64);
            assert_eq!(word.class(), None);
        }
    }
}
