//! For tests of this crate and of fabrics: a loopback network, and the suite that every fabric must pass.

pub mod conformance;
pub mod loopback;
mod random;
pub mod threads;
pub mod turns;
pub mod watchdog;

pub use random::Random;
