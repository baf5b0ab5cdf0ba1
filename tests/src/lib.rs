//! The multi-process test harness.

pub mod harness;
pub mod programs;
pub mod real;
