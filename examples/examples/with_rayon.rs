//! A picture of the Mandelbrot set, whose lines the threads of all tasks compute with the crate `rayon`.
//!
//! What it teaches: MPI calls in the closures of parallel iterators, which run in several threads of a task at once.
//!
//! ```text
//! cargo amrun -n 4 --example with_rayon --features other-crates
//! ```
//!
//! You should see a small picture, and `verified` as the last line. For this check, the first task computes all lines alone, and compares
//! them with the lines of the other tasks.
//!
//! By default, each task starts one thread for each processor of the machine. To start fewer, set `RAYON_NUM_THREADS`: the best value is
//! the number of processors divided by the number of tasks.

use std::collections::BTreeMap;
use std::process::ExitCode;

use am_examples::Failure;
use am_examples::failure::exit_code;
use mpi_over_am::{Environment, Source, Tag};
use rayon::prelude::*;

const WIDTH: usize = 256;
const HEIGHT: i32 = 96;
const ITERATIONS_MAX: u32 = 2000;

fn main() -> ExitCode {
    exit_code("with_rayon", &draw())
}

fn draw() -> Result<(), Failure> {
    // The communicators of this environment can be used by several threads.
    let environment = Environment::init_threads()?;
    let world = environment.world();
    let (rank, size) = (world.rank() as i32, world.size() as i32);
    let lines = (0..HEIGHT).into_par_iter().filter(|line| line % size == rank);
    if rank > 0 {
        // The thread that has computed a line sends it; the tag is the line's number.
        lines.try_for_each(|line| world.send(&computed(line), 0, line))?;
    } else {
        let mut picture: BTreeMap<_, _> = lines.map(|line| (line, computed(line))).collect();
        while picture.len() < HEIGHT as usize {
            let (counts, status) = world.recv_vec(Source::Any, Tag::Any)?;
            picture.insert(status.tag(), counts);
        }
        if let Some((wrong, _)) = picture.iter().find(|&(&line, counts)| *counts != computed(line)) {
            return Err(Failure::Wrong(format!("line {wrong} of the picture")));
        }
        for line in picture.values().step_by(8) {
            let letter = |&count: &u32| match count {
                ITERATIONS_MAX => '#',
                10.. => '+',
                5.. => '.',
                _ => ' ',
            };
            println!("{}", line.iter().step_by(4).map(letter).collect::<String>());
        }
        println!("verified");
    }
    Ok(environment.finalize()?)
}

/// The iterations after which each point of a line has left the circle of radius 2, or the largest number if it has not left it.
fn computed(line: i32) -> Vec<u32> {
    let count = |column: usize| {
        let (re, im) =
            (3.0 * column as f64 / WIDTH as f64 - 2.2, 2.4 * f64::from(line) / f64::from(HEIGHT) - 1.2);
        let (mut x, mut y, mut iterations) = (0.0, 0.0, 0);
        while x * x + y * y <= 4.0 && iterations < ITERATIONS_MAX {
            (x, y) = (x * x - y * y + re, 2.0 * x * y + im);
            iterations += 1;
        }
        iterations
    };
    (0..WIDTH).map(count).collect()
}
