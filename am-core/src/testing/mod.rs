//! For tests of this crate and of fabrics: a loopback network, and the conformance suite for fabrics.

pub mod conformance;
pub mod loopback;
mod pairs;
mod pattern;
mod random;
pub mod threads;
pub mod turns;
pub mod watchdog;

pub use pairs::{is_long, pairs};
pub use pattern::pattern;
pub use random::Random;
