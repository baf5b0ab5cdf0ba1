//! The common code of the example programs: arguments, failures, statistics, a progress bar, text, and parts of the kernels.

#![forbid(unsafe_code)]

pub mod alltoallv;
pub mod application;
pub mod arguments;
pub mod blocks;
pub mod directions;
pub mod failure;
pub mod fft;
pub mod flow;
pub mod gas;
pub mod graph500;
pub mod kernel;
pub mod kmers;
pub mod kronecker;
pub mod mixture;
pub mod multigrid;
pub mod nas;
pub mod planes;
pub mod progress;
pub mod random;
pub mod random_access;
pub mod ssor;
pub mod statistics;
pub mod text;
pub mod tiles;
pub mod turn;
pub mod user_header;
pub mod waves;
pub mod word_table;

pub use failure::Failure;
