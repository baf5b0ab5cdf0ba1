//! The multi-process harness, rounds of deaths, programs in other languages, real programs, a count of lines of code, and the imports
//! between files.

pub mod abi_headers;
pub mod code_lines;
pub mod deaths;
pub mod harness;
pub mod imports;
pub mod programs;
pub mod real;
