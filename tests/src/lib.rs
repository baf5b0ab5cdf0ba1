//! The multi-process test harness, and the checks of the workspace on itself.

pub mod harness;
pub mod law;
pub mod programs;
pub mod real;
