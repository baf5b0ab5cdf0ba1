//! MPI semantics over am-core.
pub mod matching;
