//! Tags of the messages of collectives: which collective a message belongs to. Two bits say of what series it is.

/// Numbers of a series, after which they begin anew.
const NUMBERS: u32 = 1 << 29;
/// What the tags of each series begin with; those that do not wait have none.
const WAITED: u32 = NUMBERS;
const PERSISTENT: u32 = 2 * NUMBERS;
const ALARM: u32 = 3 * NUMBERS;

/// Of those that wait, while their communicator has no lanes: messages of a pair do not overtake each other, every task calls them
/// in the same order, and their caller makes no other before this one is over.
pub(super) const WITHOUT_LANES: i32 = 0;

/// Of what tasks tell each other of their lanes; the numbers of persistent ones begin with 1.
pub(super) const LANES: i32 = PERSISTENT.cast_signed();

/// Of those that do not wait.
pub(super) fn started(number: u32) -> i32 {
    (number % (NUMBERS - 1) + 1).cast_signed()
}

/// Of those that wait, on a communicator that has lanes.
pub(super) fn waited(number: u32) -> i32 {
    (WAITED + number % NUMBERS).cast_signed()
}

/// Of persistent ones.
pub(super) fn persistent(number: u32) -> i32 {
    (PERSISTENT + number % (NUMBERS - 1) + 1).cast_signed()
}

/// Of the news that tasks disagree about the way of one that waits.
pub(super) fn alarm(number: u32) -> i32 {
    (ALARM + number % NUMBERS).cast_signed()
}
