//! NAS EP: pairs of Gaussian deviates from uniform random numbers, and how many of them lie in each square ring.
//!
//! What it teaches: the structure of a program that hardly communicates. Each task jumps to the beginning of its part of one long sequence
//! of random numbers and draws it, and one reduction adds up the sums at the end.
//!
//! ```text
//! cargo amrun -n 4 --example nas_ep
//! cargo amrun -n 4 --example nas_ep -- --class A --variant counters
//! ```
//!
//! You should see time, Mop/s, and `VERIFICATION SUCCESSFUL`: both sums are the official ones to 8 digits.
//!
//! After D. Bailey et al., "The NAS Parallel Benchmarks", RNR-94-007, section 2.2.

use std::process::ExitCode;

use am_examples::Failure;
use am_examples::nas::{self, Class, Generator, Outcome, first_of, timed};
use mpi_over_am::{Communicator, op};

const SEED: u64 = 271_828_183;
/// The binary logarithm of the number of pairs in a batch.
const LOG_BATCH: u32 = 16;

/// The binary logarithm of the number of pairs, and the official sums.
fn problem(class: Class) -> (u32, [f64; 2]) {
    match class {
        Class::S => (24, [-3.247_834_652_034_74e3, -6.958_407_078_382_297e3]),
        Class::W => (25, [-2.863_319_731_645_753e3, -6.320_053_679_109_499e3]),
        Class::A => (28, [-4.295_875_165_629_892e3, -1.580_732_573_678_431e4]),
    }
}

fn main() -> ExitCode {
    nas::main("nas_ep", "NAS EP: Gaussian deviates, which hardly need communication", run)
}

fn run(world: &Communicator, class: Class) -> Result<Outcome, Failure> {
    let (log_pairs, expected) = problem(class);
    let batches = 1usize << (log_pairs - LOG_BATCH);
    let own =
        first_of(world.rank(), world.size(), batches)..first_of(world.rank() + 1, world.size(), batches);
    let ((sums, rings), seconds) = timed(world, || {
        let (mut sums, mut rings) = ([0.0f64; 2], [0u64; 10]);
        for batch in own {
            add_batch(Generator::new(SEED).skipped((batch as u64) << (LOG_BATCH + 1)), &mut sums, &mut rings);
        }
        world.allreduce_in_place(&mut sums, op::Sum)?;
        world.allreduce_in_place(&mut rings, op::Sum)?;
        Ok((sums, rings))
    })?;
    if world.rank() == 0 {
        println!(
            "sums {:.9e} {:.9e}, {} pairs in the rings {rings:?}",
            sums[0],
            sums[1],
            rings.iter().sum::<u64>()
        );
    }
    let is_verified =
        sums.iter().zip(expected).all(|(sum, expected)| ((sum - expected) / expected).abs() <= 1e-8);
    Ok(Outcome { is_verified, seconds, operations: 2f64.powf(f64::from(log_pairs) + 1.0) })
}

fn add_batch(mut generator: Generator, sums: &mut [f64; 2], rings: &mut [u64; 10]) {
    for _ in 0..1u64 << LOG_BATCH {
        let (x, y) = (2.0 * generator.next() - 1.0, 2.0 * generator.next() - 1.0);
        let square = x * x + y * y;
        if square <= 1.0 {
            let factor = (-2.0 * square.ln() / square).sqrt();
            let (x, y) = (x * factor, y * factor);
            // Deviates made from 46-bit numbers are below 10.
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the value is between 0 and 10"
            )]
            let ring = x.abs().max(y.abs()) as usize;
            rings[ring] += 1;
            sums[0] += x;
            sums[1] += y;
        }
    }
}
