//! Room, counted: who may send how much without asking (credits), and the reserved places for answers.
//!
//! The ring of a VI holds, for one direction: `credits` packets that the peer may send at will, `answers` packets that
//! answer requests of this side (this side reserved the place when it asked), and [`CREDIT_RETURNS`] that only give credits
//! back. Nothing is ever posted without one of the three, so a ring never overflows and an answer never waits.
//!
//! Two places for credit returns are enough: one is sent only when half of all credits are owed, and the peer must have read
//! it to send beyond the other half, so a third can't be on its way while two are unread.

use am_core::fabric::Traffic;
use am_core::transfer::Class;

use super::packets::{Immediate, RETURNED_MAX};

/// Places in a ring that are kept for messages that only return credits, in each of the two kinds of room.
pub(super) const CREDIT_RETURNS: u32 = 4;

/// How much room each pair of endpoints has; the same in all tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreditPlan {
    /// Packets that may be unconsumed at the target, at least 1.
    pub credits: u32,
    /// Requests that may be unanswered, at least 1.
    pub answers: u32,
}

impl CreditPlan {
    /// The plan cut to what a ring of `lines` holds.
    #[must_use]
    pub(super) fn within(self, lines: u32) -> Self {
        let room = lines.saturating_sub(CREDIT_RETURNS).max(2);
        let credits = self.credits.clamp(1, (room - 1).min(RETURNED_MAX));
        Self { credits, answers: self.answers.clamp(1, (room - credits).min(RETURNED_MAX)) }
    }
}

/// The accounts with one peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Credits {
    plan: CreditPlan,
    /// From here on what is owed goes back without waiting for a message to ride on.
    owed_max: u32,
    owed_unused_max: u32,
    /// Packets this side may send now.
    credits: u32,
    /// Places in this side's ring that are free for answers.
    answer_places: u32,
    /// Requests of the peer that were consumed and may still be answered.
    may_answer: u32,
    /// Packets of the peer that were consumed, and not given back yet.
    owed: u32,
    /// Requests of the peer that will not be answered, and whose places were not given back yet.
    owed_unused: u32,
    /// Packets so far, in each direction.
    traffic: Traffic,
}

impl Credits {
    pub(super) fn new(plan: CreditPlan) -> Self {
        Self {
            plan,
            owed_max: plan.credits.div_ceil(2),
            owed_unused_max: plan.answers.div_ceil(2),
            credits: plan.credits,
            answer_places: plan.answers,
            may_answer: 0,
            owed: 0,
            owed_unused: 0,
            traffic: Traffic::default(),
        }
    }

    /// Packets so far.
    pub(super) fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// The peer takes no packet any more.
    pub(super) fn stop(&mut self) {
        (self.plan.credits, self.plan.answers) = (0, 0);
        (self.credits, self.answer_places) = (0, 0);
    }

    /// Whether there is room for a packet of this class.
    #[inline(always)]
    pub(super) fn may_send(&self, class: Class) -> bool {
        match class {
            Class::OneWay => self.credits > 0,
            Class::Request => self.credits > 0 && self.answer_places > 0,
            Class::Answer => self.may_answer > 0,
        }
    }

    /// The immediate word of the next packet, with what it gives back; [`sent`](Self::sent) books it.
    #[inline(always)]
    pub(super) fn immediate(&self, class: Class, label: u16) -> Immediate {
        Immediate::new(class, label, self.owed.min(RETURNED_MAX), self.owed_unused.min(RETURNED_MAX))
    }

    /// A packet of this class was posted, with the word that [`immediate`](Self::immediate) made.
    #[inline(always)]
    pub(super) fn sent(&mut self, class: Class) {
        self.traffic.packets_sent += 1;
        self.owed -= self.owed.min(RETURNED_MAX);
        self.owed_unused -= self.owed_unused.min(RETURNED_MAX);
        match class {
            Class::OneWay => self.credits -= 1,
            Class::Request => {
                self.credits -= 1;
                self.answer_places -= 1;
            }
            Class::Answer => self.may_answer -= 1,
        }
    }

    /// The peer gave room back. Claims: they never make more than there is.
    #[inline(always)]
    pub(super) fn returned(&mut self, credits: u32, unused_answers: u32) {
        self.credits = (self.credits + credits).min(self.plan.credits);
        if unused_answers > 0 {
            self.answer_places = (self.answer_places + unused_answers).min(self.plan.answers);
        }
    }

    /// A packet of the peer was consumed.
    #[inline(always)]
    pub(super) fn consumed(&mut self, class: Class) {
        self.traffic.packets_received += 1;
        match class {
            Class::OneWay => self.owed += 1,
            Class::Request => {
                self.owed += 1;
                self.may_answer += 1;
            }
            Class::Answer => self.answer_places = (self.answer_places + 1).min(self.plan.answers),
        }
    }

    /// A request of the peer will not be answered.
    #[inline(always)]
    pub(super) fn waive(&mut self) {
        if self.may_answer > 0 {
            self.may_answer -= 1;
            self.owed_unused += 1;
        }
    }

    /// Whether so much is owed that it must be given back without waiting for a message to ride on.
    #[inline(always)]
    pub(super) fn must_return(&self) -> bool {
        self.owed >= self.owed_max || self.owed_unused >= self.owed_unused_max
    }

    /// What is owed, to be given back now.
    pub(super) fn take_owed(&mut self) -> (u32, u32) {
        let (credits, unused) = (self.owed.min(RETURNED_MAX), self.owed_unused.min(RETURNED_MAX));
        self.owed -= credits;
        self.owed_unused -= unused;
        (credits, unused)
    }

    /// What could not be given back after all.
    pub(super) fn owe(&mut self, credits: u32, unused: u32) {
        self.owed += credits;
        self.owed_unused += unused;
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

    #[test]
    fn an_answer_takes_the_place_that_its_request_reserved() {
        let plan = CreditPlan { credits: 2, answers: 1 };
        let (mut origin, mut target) = (Credits::new(plan), Credits::new(plan));
        assert!(!target.may_send(Class::Answer));
        origin.sent(Class::Request);
        assert!(!origin.may_send(Class::Request), "the only place for an answer is taken");
        assert!(origin.may_send(Class::OneWay));
        target.consumed(Class::Request);
        let word = target.immediate(Class::Answer, 0);
        target.sent(Class::Answer);
        origin.returned(word.credits(), word.unused_answers());
        origin.consumed(Class::Answer);
        assert!(origin.may_send(Class::Request));
        assert!(!target.may_send(Class::Answer));
    }

    #[test]
    fn an_unused_place_comes_back_with_the_credits() {
        let plan = CreditPlan { credits: 1, answers: 1 };
        let (mut origin, mut target) = (Credits::new(plan), Credits::new(plan));
        origin.sent(Class::Request);
        target.consumed(Class::Request);
        target.waive();
        assert!(target.must_return());
        let (credits, unused) = target.take_owed();
        origin.returned(credits, unused);
        assert!(origin.may_send(Class::Request));
    }
}
