//! A program cannot get granted memory from a fabric: it cannot make the argument of type `ForEngine`.
#![forbid(unsafe_code)]
use am_core::buffer::{Access, Exposed, ForEngine};
use am_core::fabric::Fabric;

fn wrong(fabric: &impl Fabric, region: &Exposed) {
    let _ = fabric.granted(region.grant(), 0, 8, Access::OWNER, ForEngine(()));
}

fn main() {}
