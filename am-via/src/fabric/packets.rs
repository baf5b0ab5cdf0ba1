//! The immediate word of the fabric's messages.
//!
//! ```text
//! bits 0..16   label: the engine's
//! bits 16..18  class: 0 one-way, 1 request, 2 answer, 3 credits only
//! bits 18..25  credits given back
//! bits 25..32  reserved answer slots given back, because a request was consumed without an answer
//! ```

#![expect(clippy::cast_possible_truncation, reason = "the fields of the immediate word are cut out of it")]

use am_core::transfer::Class;

/// The most that one immediate word gives back of either kind.
pub(super) const RETURNED_MAX: u32 = 127;

/// The word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Immediate(pub(super) u32);

impl Immediate {
    #[inline(always)]
    pub(super) fn new(class: Class, label: u16, credits: u32, unused_answers: u32) -> Self {
        let class = match class {
            Class::OneWay => 0,
            Class::Request => 1,
            Class::Answer => 2,
        };
        Self(u32::from(label) | class << 16 | credits << 18 | unused_answers << 25)
    }

    pub(super) fn credits_only(credits: u32, unused_answers: u32) -> Self {
        Self(3 << 16 | credits << 18 | unused_answers << 25)
    }

    #[inline(always)]
    pub(super) fn label(self) -> u16 {
        self.0 as u16
    }

    /// The class; `None` for credits only.
    #[inline(always)]
    pub(super) fn class(self) -> Option<Class> {
        // Two bits and two tests, the frequent class first: a table of jumps would be one that is hard to foresee.
        match (self.0 >> 17 & 1, self.0 >> 16 & 1) {
            (0, 0) => Some(Class::OneWay),
            (0, _) => Some(Class::Request),
            (_, 0) => Some(Class::Answer),
            _ => None,
        }
    }

    #[inline(always)]
    pub(super) fn credits(self) -> u32 {
        self.0 >> 18 & RETURNED_MAX
    }

    #[inline(always)]
    pub(super) fn unused_answers(self) -> u32 {
        self.0 >> 25
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_survives() {
        for class in [Class::OneWay, Class::Request, Class::Answer] {
            let word = Immediate::new(class, 0xabcd, RETURNED_MAX, 3);
            assert_eq!((word.class(), word.label()), (Some(class), 0xabcd));
            assert_eq!((word.credits(), word.unused_answers()), (RETURNED_MAX, 3));
        }
        let word = Immediate::credits_only(5, RETURNED_MAX);
        assert_eq!((word.class(), word.credits(), word.unused_answers()), (None, 5, RETURNED_MAX));
    }
}
