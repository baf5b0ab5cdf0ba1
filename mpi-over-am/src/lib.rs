//! MPI semantics over am-core.
