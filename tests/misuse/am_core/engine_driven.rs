//! A program does not drive the engine without a promise: engine and fabric hand memory without a lifetime to each other.
#![forbid(unsafe_code)]

use am_core_engine::{fabric::Fabric, protocol::Engine, user_code::UserCode};

fn drive<F: Fabric, U: UserCode>(fabric: &F, user: U) -> Engine<U> {
    Engine::new(fabric, user)
}

fn main() {}
