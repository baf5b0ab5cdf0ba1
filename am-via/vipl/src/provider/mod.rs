//! VIA's provider on the set-up path: what a kernel agent, its registration of memory and a name service do. Nothing here is
//! called for a message.

mod kernel_agent;
mod name_service;
mod registration;

pub(crate) use kernel_agent::KernelAgent;
pub use kernel_agent::NicLimits;
pub(crate) use name_service::NameService;
pub use registration::{Memory, PTag};
pub(crate) use registration::{RegistrationFault, Registrations};
