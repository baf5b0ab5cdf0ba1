//! VIA's provider on the set-up path: what a kernel agent, its registration of memory and a name service do. Nothing here is
//! called for a message.

pub mod kernel_agent;
pub mod name_service;
pub mod registration;

pub use kernel_agent::{KernelAgent, NicLimits};
pub use name_service::NameService;
pub use registration::{Memory, PTag, RegistrationFault, Registrations};
