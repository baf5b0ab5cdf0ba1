//! For tests of this crate and of fabrics: the conformance suite for fabrics, and tasks that are threads or take turns.

#![expect(
    clippy::cast_possible_truncation,
    reason = "lengths are u64 in messages and usize in memory, which have the same width here"
)]

pub mod conformance;
mod pairs;
mod pattern;
mod random;
pub mod threads;
pub mod turns;
pub mod watchdog;

pub use pairs::{is_long, pairs};
pub use pattern::pattern;
pub use random::Random;
