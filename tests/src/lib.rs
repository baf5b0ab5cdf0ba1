//! The multi-process test harness.

pub mod law;
