//! The multi-process test harness.

pub mod deaths;
pub mod harness;
pub mod programs;
pub mod real;
