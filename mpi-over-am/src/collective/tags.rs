//! Tags of the messages of collectives: which collective a message belongs to. Two bits say of what series it is.

use super::lanes::{MARK_BITS, Mark};

/// Numbers of a series, after which they begin anew.
const NUMBERS: u32 = 1 << 29;
/// What the tags of each series begin with; those that do not wait have none.
const WAITED: u32 = NUMBERS;
const PERSISTENT: u32 = 2 * NUMBERS;
const ALARM: u32 = 3 * NUMBERS;

/// Numbers of those that wait, where their tags also say what they are.
const WAITED_NUMBERS: u32 = 1 << 16;

const _: () = assert!(WAITED_NUMBERS * Way::COUNT <= NUMBERS);

/// Of those that wait, while their communicator has no lanes: messages of a pair do not overtake each other, every task calls them
/// in the same order, and their caller makes no other before this one is over.
pub(super) const WITHOUT_LANES: i32 = 0;

/// Of what tasks tell each other of their lanes; the numbers of persistent ones begin with 1.
pub(super) const LANES: i32 = PERSISTENT.cast_signed();

/// Of those that do not wait.
pub(super) fn started(number: u32) -> i32 {
    (number % (NUMBERS - 1) + 1).cast_signed()
}

/// Of those that wait, on a communicator that has lanes: also what it is, so that another one with the same number is told apart.
#[inline]
pub(super) fn waited(number: u32, way: Way) -> i32 {
    (WAITED + number % WAITED_NUMBERS * Way::COUNT + way.bits()).cast_signed()
}

/// What a message says to a task in the collective with some number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// It belongs to this collective, and goes this way.
    Way(Way),
    /// Tasks disagree about this collective.
    Disagreement,
    /// Its sender is in a later one.
    Later,
    /// Nothing of these.
    Nothing,
}

/// Reads the tag of a message, in the collective with this number.
pub(super) fn said(tag: i32, number: u32) -> Said {
    match tag.cast_unsigned().checked_sub(WAITED) {
        Some(bits) if bits < WAITED_NUMBERS * Way::COUNT => {
            match (bits / Way::COUNT).wrapping_sub(number) % WAITED_NUMBERS {
                0 => Said::Way(Way::from_bits(bits % Way::COUNT)),
                later if later < WAITED_NUMBERS / 2 => Said::Later,
                _ => Said::Nothing,
            }
        }
        _ if tag == alarm(number) => Said::Disagreement,
        _ => Said::Nothing,
    }
}

/// How a task carries a collective out by messages: tasks that agree about their calls do it in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) mark: Mark,
    /// Whether its data have [`LONG_FROM_BYTES`] or more.
    pub(super) is_long: bool,
}

/// From about this length on collectives use other algorithms, so that tasks that differ about it wait for different messages.
pub(super) const LONG_FROM_BYTES: u64 = (16 << 10) + 1;

impl Way {
    const COUNT: u32 = 2 << MARK_BITS;

    fn bits(self) -> u32 {
        self.mark.bits() << 1 | u32::from(self.is_long)
    }

    fn from_bits(bits: u32) -> Self {
        Self { mark: Mark::from_bits(bits >> 1), is_long: bits & 1 == 1 }
    }
}

/// Of persistent ones.
pub(super) fn persistent(number: u32) -> i32 {
    (PERSISTENT + number % (NUMBERS - 1) + 1).cast_signed()
}

/// Of the news that tasks disagree about the way of one that waits.
pub(super) fn alarm(number: u32) -> i32 {
    (ALARM + number % NUMBERS).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_of_a_collective_that_waits_says_which_one_it_is_and_what() {
        let ways = || {
            [(0, 0), (1, 0), (1, 7), (2, 255), (6, 0)]
                .into_iter()
                .flat_map(|(collective, root)| {
                    [false, true].map(|is_long| (Mark::new(collective, root), is_long))
                })
                .map(|(mark, is_long)| Way { mark, is_long })
        };
        for number in [0, 1, 0x7FFF, 0xFFFF, 0x1_0000, u32::MAX] {
            for way in ways() {
                let tag = waited(number, way);
                assert_eq!(said(tag, number), Said::Way(way));
                assert_eq!(said(tag, number.wrapping_sub(1)), Said::Later);
                assert_eq!(said(tag, number.wrapping_sub(1000)), Said::Later);
                assert_eq!(said(tag, number.wrapping_add(1)), Said::Nothing);
                assert_eq!(said(tag, number.wrapping_add(1000)), Said::Nothing);
            }
            assert_eq!(said(alarm(number), number), Said::Disagreement);
            for other in
                [WITHOUT_LANES, LANES, started(number), persistent(number), alarm(number.wrapping_add(1))]
            {
                assert_eq!(said(other, number), Said::Nothing);
            }
        }
    }
}
