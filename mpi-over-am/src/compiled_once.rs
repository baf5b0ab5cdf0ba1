//! The calls of MPI for one thread over the fabric of a job, compiled with this crate.
//!
//! Unoptimised builds share a generic function between crates if a crate below has already compiled it for the same types. Without this
//! module each test and each example would compile the whole stack again, which takes longer than its own code.

use crate::data::op::Sum;
use crate::window::{Assertion, Lock};
use crate::{Communicator, Environment, Info, JobFabric, OneThread, Result};

/// Calls what most programs call. It is never called itself.
///
/// # Errors
/// Those of the calls.
pub fn calls() -> Result<()> {
    let environment = Environment::init()?;
    let world = environment.world();
    messages(&world)?;
    collectives(&world)?;
    drop(world.dup()?);
    drop(world.split(Some(0), 0)?);
    let window = world.allocate_window(8, 1, &Info::default())?;
    window.fence(Assertion::default())?;
    window.lock(Lock::Shared, 0, Assertion::default())?;
    window.put(&[1_u64], 0, 0)?;
    window.get(&mut [1_u64], 0, 0)?;
    window.flush(0)?;
    window.unlock(0)?;
    drop(window.free()?);
    environment.finalize()
}

fn messages(world: &Communicator<JobFabric, OneThread>) -> Result<()> {
    let mut value = 0_u64;
    world.send(&value, 0, 0)?;
    world.recv(&mut value, 0, 0)?;
    world.send(&[0_u8][..], 0, 0)?;
    world.recv(&mut [0_u8][..], 0, 0)?;
    world.scope(|scope| {
        let receive = scope.irecv(&mut value, 0, 0)?;
        let send = scope.isend(&1_u64, 0, 0)?;
        scope.wait_all([receive, send])
    })?;
    Ok(())
}

fn collectives(world: &Communicator<JobFabric, OneThread>) -> Result<()> {
    world.barrier()?;
    world.broadcast(&mut [0_u64], 0)?;
    world.gather(&[0_u64], &mut [0], 0)?;
    world.allgather(&[0_u64], &mut [0])?;
    world.alltoall(&[0_u64], &mut [0])?;
    world.allreduce(&[0_u64], &mut [0], Sum)?;
    world.allreduce(&[0_f64], &mut [0.0], Sum)
}
