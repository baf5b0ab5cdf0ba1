//! A program does not drive the engine: it would be the level below that is handed memory without a lifetime.
#![forbid(unsafe_code)]

fn main() {
    let _ = am_core::engine::Engine::new;
}
