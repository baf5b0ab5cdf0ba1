//! The public operations, one a file.

mod amsend;
mod put;

pub use amsend::AmOptions;
pub use put::PutOptions;
