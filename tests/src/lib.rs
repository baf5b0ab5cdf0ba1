//! The multi-process harness, rounds of deaths, programs in other languages, real programs, and a count of lines of code.

pub mod code_lines;
pub mod deaths;
pub mod harness;
pub mod programs;
pub mod real;
