//! An emulated Virtual Interface Architecture, and am-core's Fabric on it.

pub mod shm;
