//! The first program with MPI: a number is passed from rank to rank, and each rank adds its own rank to it.
//!
//! What it teaches: the beginning and the end of an MPI program, the world, send and receive.
//!
//! ```text
//! cargo amrun -n 3 --example hello_mpi
//! ```
//!
//! You should see one line for each rank, and one with the sum of all ranks. The ranks pass the number on in order; their lines may reach
//! the terminal in another order.

use std::process::ExitCode;

use mpi_over_am::{Environment, Result};

fn main() -> ExitCode {
    match pass_on() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hello_mpi: {error}");
            ExitCode::FAILURE
        }
    }
}

fn pass_on() -> Result<()> {
    let environment = Environment::init()?;
    let world = environment.world();
    let (rank, size) = (world.rank(), world.size());

    let mut sum = 0_u64;
    // The first rank receives from no rank, and the last one sends to no rank.
    world.recv(&mut sum, rank.checked_sub(1), 0)?;
    sum += u64::from(rank);
    println!("rank {rank} of {size} passes on {sum}");
    world.send(&sum, (rank + 1 < size).then_some(rank + 1), 0)?;
    if rank + 1 == size {
        println!("the sum of all ranks is {sum}");
    }
    environment.finalize()
}
