//! A communicator of an environment for one thread cannot go to another thread; the error names the environment for several threads.
#![forbid(unsafe_code)]

use mpi_over_am::Environment;

fn wrong() -> mpi_over_am::Result<()> {
    let environment = Environment::init()?;
    let world = environment.world();
    std::thread::scope(|threads| {
        threads.spawn(|| world.send(&1u8, 0, 0));
    });
    Ok(())
}

fn main() {
    let _ = wrong;
}
