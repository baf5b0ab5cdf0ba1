//! The multi-process harness, rounds of deaths, programs in other languages, and real programs.

pub mod deaths;
pub mod harness;
pub mod programs;
pub mod real;
