//! Only the engine gets granted memory of a fabric as a range.
#![forbid(unsafe_code)]
use am_core::buffer::{Access, Exposed, ForEngine};
use am_core::fabric::Fabric;

fn wrong(fabric: &impl Fabric, region: &Exposed) {
    let _ = fabric.granted(region.grant(), 0, 8, Access::OWNER, ForEngine(()));
}

fn main() {}
