//! An emulated Virtual Interface Architecture, and am-core's Fabric on it.

pub mod device;
pub mod fabric;
pub mod job;
pub mod launch;
pub mod limit;
pub mod settings;
pub mod shm;
pub mod start;
pub mod vipl;
#[cfg(test)]
mod watchdog;

pub use start::{ShmFabric, Task};
