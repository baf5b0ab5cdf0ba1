//! An emulated Virtual Interface Architecture, and am-core's Fabric on it.

pub mod conform;
pub mod device;
pub mod fabric;
pub mod job;
pub mod launch;
pub mod limit;
pub mod provider;
pub mod settings;
pub mod shm;
pub mod start;
#[cfg(test)]
mod test_aids;
pub mod vipl;

pub use start::{ShmFabric, Task};
