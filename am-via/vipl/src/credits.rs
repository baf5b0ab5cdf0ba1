//! The accounts of a VI with standing receives: packets that this side may send (credits), and slots reserved for answers.
//!
//! All numbers that allow a post are 0 unless the VI may send, so a post compares one number, which covers state, reliability level and
//! credit.
//!
//! With standing receives, the ring of a VI has three kinds of slots in one direction: `credits` for packets that the peer may send at any
//! time, `answers` for answers to requests of this side (reserved when the request is sent), and [`CREDIT_RETURNS`] for packets that only
//! return credits. Every post uses one of these slots, so a ring never overflows and an answer never waits.
//!
//! There are two kinds of returns, credits and reserved answer slots, and each has two of the [`CREDIT_RETURNS`] slots. Two are enough: a
//! return is sent only when half of the credits, or half of the answer slots, are owed, and the peer can use that half again only when it
//! has read the return. So at most two returns of one kind are unread.
//!
//! The immediate word of such a VI carries the accounts:
//!
//! ```text
//! bits 0..16   label: the user's
//! bits 16..18  class: 0 one-way, 1 request, 2 answer, 3 credits only
//! bits 18..25  credits returned
//! bits 25..32  reserved answer slots returned, for requests consumed without an answer
//! ```

#![expect(clippy::cast_possible_truncation, reason = "the fields of the immediate word are cut out of it")]

/// Maximum number of returns of either kind in one immediate word.
const RETURNED_MAX: u32 = 127;

const CREDITS_SHIFT: u32 = 18;
const CREDITS_FIELD: u32 = RETURNED_MAX << CREDITS_SHIFT;
const ANSWERS_SHIFT: u32 = 25;
const CLASS_SHIFT: u32 = 16;
/// The class of a word without a packet.
const CREDITS_ONLY: u32 = 3 << CLASS_SHIFT;

/// The slot of the peer's ring that a post takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// A slot paid for with a credit.
    OneWay = 0,
    /// A slot paid for with a credit. The request also reserves a slot in this side's own ring for the [`Answer`](Self::Answer).
    Request = 1,
    /// The slot that the request reserved.
    Answer = 2,
}

impl Class {
    #[inline(always)]
    fn bits(self) -> u32 {
        (self as u32) << CLASS_SHIFT
    }
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

    /// The class; `None` for credits only.
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
    pub(super) fn is_one_way(self, label: u16) -> bool {
        self.0 & ((1 << CREDITS_SHIFT) - 1) == Class::OneWay.bits() | u32::from(label)
    }

    #[inline(always)]
    fn credits(self) -> u32 {
        self.0 >> CREDITS_SHIFT & RETURNED_MAX
    }

    #[inline(always)]
    fn unused_answers(self) -> u32 {
        self.0 >> ANSWERS_SHIFT
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
pub(super) const CREDIT_RETURNS: u32 = 4;

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
        let credits = self.credits.clamp(1, (slots - 1).min(RETURNED_MAX));
        Self { credits, answers: self.answers.clamp(1, (slots - credits).min(RETURNED_MAX)) }
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
    /// Returns owed to the peer, in the form of the immediate word: consumed packets of the peer, and requests that will not be answered.
    owed: u32,
    /// Maxima of the two fields of `owed`. As soon as one is reached, the returns are sent without waiting for a packet that can carry
    /// them.
    credits_owed_max: u32,
    answers_owed_max: u32,
    /// Maxima of `credits` and `answer_slots`; 0 unless the VI may send.
    most: CreditPlan,
    /// Value of `most` while the VI may send.
    plan: CreditPlan,
    packets: Packets,
}

impl Credits {
    /// Accounts that allow nothing before [`open`](Self::open).
    pub(super) fn new(plan: CreditPlan) -> Self {
        Self {
            credits: 0,
            answer_slots: 0,
            may_answer: 0,
            owed: 0,
            credits_owed_max: plan.credits.div_ceil(2) << CREDITS_SHIFT,
            answers_owed_max: plan.answers.div_ceil(2) << ANSWERS_SHIFT,
            most: CreditPlan { credits: 0, answers: 0 },
            plan,
            packets: Packets::default(),
        }
    }

    /// The plan that applies while the VI may send.
    pub(super) fn plan(&self) -> CreditPlan {
        self.plan
    }

    /// Allows posts: the VI may send.
    pub(super) fn open(&mut self) {
        self.most = self.plan;
        (self.credits, self.answer_slots) = (self.most.credits, self.most.answers);
    }

    /// Stops posts: the VI may not send. Due answers are still posted: they have slots, and a peer that is gone reads nothing.
    pub(super) fn stop(&mut self) {
        self.most = CreditPlan { credits: 0, answers: 0 };
        (self.credits, self.answer_slots) = (0, 0);
    }

    /// Number of packets so far, in each direction.
    pub(super) fn packets(&self) -> Packets {
        self.packets
    }

    /// Whether a packet of this class may be posted.
    #[inline(always)]
    pub(super) fn may_send(&self, class: Class) -> bool {
        match class {
            Class::OneWay => self.credits > 0,
            Class::Request => self.credits > 0 && self.answer_slots > 0,
            Class::Answer => self.may_answer > 0,
        }
    }

    /// Whether this number of one-way packets may be posted.
    pub(super) fn may_send_several(&self, packets: u32) -> bool {
        packets <= self.credits
    }

    /// The immediate word of the next packet, including returns; [`sent`](Self::sent) books the returns.
    #[inline(always)]
    pub(super) fn immediate(&self, class: Class, label: u32) -> u32 {
        label | class.bits() | self.owed
    }

    /// Books a posted packet of this class, with the word of [`immediate`](Self::immediate).
    #[inline(always)]
    pub(super) fn sent(&mut self, class: Class) {
        self.packets.sent += 1;
        self.owed = 0;
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
    pub(super) fn returned(&mut self, word: Immediate) {
        // The usual case: a one-way stream of messages returns nothing.
        if word.0 >> CREDITS_SHIFT == 0 {
            return;
        }
        self.credits = (self.credits + word.credits()).min(self.most.credits);
        let unused_answers = word.unused_answers();
        if unused_answers > 0 {
            self.answer_slots = (self.answer_slots + unused_answers).min(self.most.answers);
        }
    }

    /// Counts a consumed packet of the peer. Returns whether enough credits are owed for a packet of their own.
    #[inline(always)]
    #[must_use = "the peer may be waiting for credits"]
    pub(super) fn consumed(&mut self, class: Class) -> bool {
        self.packets.received += 1;
        if class == Class::Answer {
            self.answer_slots = (self.answer_slots + 1).min(self.most.answers);
            return false;
        }
        self.may_answer += u32::from(class == Class::Request);
        self.owed += 1 << CREDITS_SHIFT;
        self.owed & CREDITS_FIELD >= self.credits_owed_max
    }

    /// Books a request that will not be answered. Returns whether enough slots are owed for a packet of their own.
    #[inline(always)]
    #[must_use = "the peer may be waiting for slots"]
    pub(super) fn waive(&mut self) -> bool {
        if self.may_answer == 0 {
            return false;
        }
        self.may_answer -= 1;
        self.owed += 1 << ANSWERS_SHIFT;
        self.owed >= self.answers_owed_max
    }

    /// Takes the owed returns: an immediate word without a packet.
    pub(super) fn take_owed(&mut self) -> Immediate {
        Immediate(std::mem::take(&mut self.owed) | CREDITS_ONLY)
    }

    /// Books returns that could not be sent. A correct peer is never owed more than its plan; for other peers the fields are limited, so
    /// that they do not overflow into each other.
    pub(super) fn owe(&mut self, word: Immediate) {
        let credits = word.credits().min(RETURNED_MAX - 1);
        let answers = word.unused_answers().min(RETURNED_MAX - 1);
        self.owed = credits << CREDITS_SHIFT | answers << ANSWERS_SHIFT;
    }
}

#[cfg(test)]
mod tests {
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
        origin.returned(target.take_owed());
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

    #[test]
    fn every_field_survives() {
        let plan = CreditPlan { credits: 2, answers: 2 };
        for class in [Class::OneWay, Class::Request, Class::Answer] {
            let mut credits = open(plan);
            assert!(credits.consumed(Class::Request) && credits.consumed(Class::Request) && credits.waive());
            let word = Immediate(credits.immediate(class, 0xabcd));
            assert_eq!((word.class(), word.label()), (Some(class), 0xabcd));
            assert_eq!((word.credits(), word.unused_answers()), (2, 1));
        }
        let word = Immediate(u32::MAX);
        assert_eq!((word.class(), word.credits(), word.unused_answers()), (None, RETURNED_MAX, RETURNED_MAX));
    }

    /// A peer that ignores its credits while no returns can be sent to it.
    #[test]
    fn what_is_owed_never_leaves_its_field() {
        let mut credits = open(CreditPlan { credits: RETURNED_MAX, answers: RETURNED_MAX });
        for _ in 0..1000 {
            if credits.consumed(Class::Request) | credits.waive() {
                let word = credits.take_owed();
                assert!(word.credits() <= RETURNED_MAX && word.unused_answers() <= RETURNED_MAX);
                assert_eq!(word.class(), None);
                credits.owe(word);
            }
        }
        assert_eq!(
            credits.take_owed(),
            Immediate(
                (RETURNED_MAX - 1) << CREDITS_SHIFT | (RETURNED_MAX - 1) << ANSWERS_SHIFT | CREDITS_ONLY
            )
        );
    }
}
