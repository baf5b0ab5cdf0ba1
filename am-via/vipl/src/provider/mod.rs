//! VIA's provider on the set-up path: kernel agent, registration of memory, and name service. No message uses it.

mod kernel_agent;
mod name_service;
#[expect(unsafe_code, reason = "registers memory that the table keeps")]
mod registration;

pub(crate) use kernel_agent::KernelAgent;
pub use kernel_agent::NicLimits;
pub(crate) use name_service::NameService;
pub use registration::{Memory, PTag};
pub(crate) use registration::{RegistrationFault, Registrations};
