//! What the programs beside the library share: compiler wrappers and starters.

pub mod fortran;
pub mod install;
pub mod standard_output;
pub mod starter;
pub mod wrapper;
