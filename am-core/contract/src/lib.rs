//! The types by which am-core's engine, a fabric and the device below it understand each other, and the trait that a device implements for
//! both. Each exists once, here, so that no layer converts another's. Programs find the types that they need in am-core and am-via.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod task;
pub mod transfer;
pub mod wait;
pub mod world;
