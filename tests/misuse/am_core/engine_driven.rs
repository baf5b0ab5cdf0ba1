//! A program cannot drive the engine in safe code: engine and fabric pass memory without a lifetime to each other.
#![forbid(unsafe_code)]

use am_core_engine::{fabric::Fabric, protocol::Engine, user_code::UserCode};

fn drive<F: Fabric, U: UserCode>(fabric: &F, user: U) -> Engine<U> {
    Engine::new(fabric, user)
}

fn main() {}
