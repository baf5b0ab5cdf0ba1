//! The public operations, one a file.

mod address_init;
mod amsend;
mod fence;
mod get;
mod memory;
mod msgpoll;
mod owned;
mod put;
mod rmw;
mod scope;

pub use amsend::AmOptions;
pub use get::GetOptions;
pub use msgpoll::PollReason;
pub use owned::{OwnedHandle, Returned};
pub use put::PutOptions;
pub use rmw::RmwHandle;
pub use scope::Scope;
