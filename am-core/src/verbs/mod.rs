//! The public operations, one a file.

mod address_init;
mod amsend;
mod fence;
mod get;
mod memory;
mod put;
mod rmw;

pub use amsend::AmOptions;
pub use get::GetOptions;
pub use put::PutOptions;
pub use rmw::RmwHandle;
