//! Red-black relaxation (Gauss-Seidel) of a line of points, with one point of each neighbour as halo.
//!
//! What it teaches: a halo exchange by one MPI call in each step. Single elements of a vector are sent and received directly.
//!
//! ```text
//! cargo amrun -n 4 --example halo
//! ```
//!
//! You should see after how many steps all points are near their mean, and as the last line `verified`.
//!
//! The problem is that of `rb1d.cpp` in the UPC++ programmer's guide, on a ring.

use std::process::ExitCode;

use am_examples::failure::exit_code;
use am_examples::{Failure, random};
use mpi_over_am::{Environment, op};

/// Points of each task; an even number.
const BLOCK: usize = 256;
const STEPS_MAX: u32 = 1 << 20;
const VALUE_MAX: u64 = 100;
const MEAN: f64 = VALUE_MAX as f64 / 2.0;
/// Maximum relative difference between a point and the mean at the end.
const EPSILON: f64 = 0.1;
const SEED: u64 = 1;

fn main() -> ExitCode {
    exit_code("halo", &relax())
}

fn relax() -> Result<(), Failure> {
    let environment = Environment::init()?;
    let world = environment.world();
    let (rank, size) = (world.rank(), world.size());
    let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
    let first = u64::from(rank) * BLOCK as u64;
    let mut points = vec![0.0; BLOCK + 2];
    for (number, point) in (first..).zip(&mut points[1..=BLOCK]) {
        *point = 0.5 + random::below(random::at(SEED, number), VALUE_MAX) as f64;
    }
    for step in 0..STEPS_MAX {
        let phase = step as usize % 2;
        // Each phase reads one neighbour's point, which the previous phase has changed.
        let (low, high) = (points[1], points[BLOCK]);
        match phase {
            0 => world.sendrecv(&high, right, 0, &mut points[0], left, 0)?,
            _ => world.sendrecv(&low, left, 1, &mut points[BLOCK + 1], right, 1)?,
        };
        for at in (1 + phase..=BLOCK).step_by(2) {
            points[at] = (points[at - 1] + points[at + 1]) / 2.0;
        }
        if step % 10 == 0 {
            let mut error =
                [points[1..=BLOCK].iter().fold(0.0_f64, |most, point| most.max((point - MEAN).abs()))];
            world.allreduce_in_place(&mut error, op::Max)?;
            if error[0] <= EPSILON * MEAN {
                if rank == 0 {
                    println!("{} points are near their mean after {step} steps", BLOCK * size as usize);
                    println!("verified");
                }
                return Ok(environment.finalize()?);
            }
        }
    }
    Err(Failure::Wrong(format!("after {STEPS_MAX} steps points are still far from their mean")))
}
