//! MPI requests as futures, together with futures of the crate `futures`.
//!
//! What it teaches: requests that own their buffer are standard futures. `Communicator::block_on` makes MPI progress while it waits, and
//! sleeps when nothing arrives; any other executor can poll requests, too.
//!
//! ```text
//! cargo amrun -n 4 --example with_futures --features other-crates
//! ```
//!
//! You should see a line for each rank with a sum that one of its threads has computed and that all ranks have passed on, and as the last
//! line `verified`.

use std::process::ExitCode;
use std::thread;

use am_examples::Failure;
use am_examples::failure::exit_code;
use futures::channel::oneshot;
use futures::executor::LocalPool;
use futures::future;
use mpi_over_am::{Communicator, Environment};

fn main() -> ExitCode {
    exit_code("with_futures", &talk())
}

fn talk() -> Result<(), Failure> {
    let environment = Environment::init()?;
    let world = environment.world();
    let (rank, size) = (u64::from(world.rank()), u64::from(world.size()));

    // A thread that knows nothing of MPI computes something; the task awaits its answer, and talks to its neighbours meanwhile.
    let (answer, computed) = oneshot::channel();
    let thread = thread::spawn(move || answer.send((0..=1000 * rank).sum::<u64>()));
    let (own, neighbours) = world.block_on(future::join(computed, around(&world, vec![rank])))?;
    let own = own.map_err(|error| Failure::Wrong(error.to_string()))?;
    if neighbours? != size * (size - 1) / 2 {
        return Err(Failure::Wrong("the sum of the ranks".to_owned()));
    }
    if thread.join().is_err() {
        return Err(Failure::Wrong("the thread has panicked".to_owned()));
    }

    // Another executor: it polls the request again and again until the request is complete.
    let total = LocalPool::new().run_until(around(&world, vec![own]))?;
    println!("rank {rank}: {own} of {total}");
    let expected: u64 = (0..size).map(|rank| (0..=1000 * rank).sum::<u64>()).sum();
    if total != expected {
        return Err(Failure::Wrong(format!("{total} instead of {expected}")));
    }
    world.barrier()?;
    if rank == 0 {
        println!("verified");
    }
    Ok(environment.finalize()?)
}

/// Passes every rank's number around the ring of all ranks, and returns their sum.
async fn around(world: &Communicator, mut number: Vec<u64>) -> Result<u64, Failure> {
    let (rank, size) = (world.rank(), world.size());
    let mut sum = 0;
    for _ in 0..size {
        sum += number[0];
        let sending = world.isend_owned(number, (rank + 1) % size, 0)?;
        let receiving = world.irecv_owned(vec![0; 1], (rank + size - 1) % size, 0)?;
        let (sent, received) = future::join(sending, receiving).await;
        sent?;
        (number, _) = received?;
    }
    Ok(sum)
}
