//! NAS MG: Poisson's equation on a periodic cube, solved by a multigrid method.
//!
//! What it teaches: a halo exchange at all scales. A task has some planes of each cube and exchanges the outermost planes with its
//! neighbours: megabytes for the largest cube, a hundred bytes for the smallest, whose exchange costs only latency. Small cubes have fewer
//! planes than there are tasks; then some tasks have no plane, and neighbours are further away.
//!
//! ```text
//! cargo amrun -n 4 --example nas_mg
//! cargo amrun -n 4 --example nas_mg -- --class A --variant counters
//! ```
//!
//! You should see time, Mop/s, and `VERIFICATION SUCCESSFUL`: the norm of the residual is the official one to 8 digits.
//!
//! After D. Bailey et al., "The NAS Parallel Benchmarks", RNR-94-007, section 2.3. Any number of tasks will do.

#![expect(clippy::cast_precision_loss, reason = "sizes of a problem that fits into memory")]

use std::process::ExitCode;

use am_examples::Failure;
use am_examples::multigrid::{Multigrid, Operators};
use am_examples::nas::{self, Class, Generator, Outcome, timed};
use am_examples::planes::{Cube, Share};
use mpi_over_am::{Communicator, op};

const SEED: u64 = 314_159_265;
const ITERATIONS: u32 = 4;
/// Charges of each sign.
const CHARGES: usize = 10;
const OPERATORS: Operators = Operators {
    operator: [-8.0 / 3.0, 0.0, 1.0 / 6.0, 1.0 / 12.0],
    smoother: [-3.0 / 8.0, 1.0 / 32.0, -1.0 / 64.0, 0.0],
};
const OPERATIONS_PER_POINT: f64 = 58.0;

/// The points along a side, and the norm of the residual at the end.
fn problem(class: Class) -> (usize, f64) {
    match class {
        Class::S => (32, 0.530_770_700_573_4e-4),
        Class::W => (128, 0.646_732_937_533_9e-5),
        Class::A => (256, 0.243_336_530_906_9e-5),
    }
}

fn main() -> ExitCode {
    nas::main("nas_mg", "NAS MG: Poisson's equation on a periodic cube, solved by a multigrid method", run)
}

fn run(world: &Communicator, class: Class) -> Result<Outcome, Failure> {
    let (size, expected) = problem(class);
    let mut grid = Multigrid::new(world, OPERATORS, charges(world, size)?)?;
    // One run to warm up, which is not measured.
    grid.cycle()?;
    let points = (size * size * size) as f64;
    let (norm, seconds) = timed(world, || {
        grid.reset()?;
        for _ in 0..ITERATIONS {
            grid.cycle()?;
        }
        let mut sum = [grid.sum_of_squares()];
        world.allreduce_in_place(&mut sum, op::Sum)?;
        Ok((sum[0] / points).sqrt())
    })?;
    if world.rank() == 0 {
        println!("norm of the residual {norm:.13e}, which should be {expected:.13e}");
    }
    let is_verified = ((norm - expected) / expected).abs() <= 1e-8;
    Ok(Outcome { is_verified, seconds, operations: OPERATIONS_PER_POINT * f64::from(ITERATIONS) * points })
}

/// A random number, and the point of the cube that it belongs to.
type Drawn = (f64, usize);

/// The right-hand side: 1 at the points with the largest random numbers, -1 at those with the smallest, 0 elsewhere. Collective.
fn charges(world: &Communicator, size: usize) -> Result<Cube, Failure> {
    let share = Share::halved(size, world.rank(), world.size()).swap_remove(0);
    let points = share.own().start * size * size..share.own().end * size * size;
    let mut random = Generator::new(SEED).skipped(points.start as u64);
    let (mut smallest, mut largest) = (Vec::new(), Vec::new());
    for point in points.clone() {
        let number = random.next();
        keep(&mut smallest, (number, point), |a, b| a < b);
        keep(&mut largest, (number, point), |a, b| a > b);
    }
    let mut cube = Cube::new(&share);
    for (charge, own, is_better) in
        [(-1.0, smallest, (|a, b| a < b) as fn(f64, f64) -> bool), (1.0, largest, |a, b| a > b)]
    {
        for point in best_of_all(world, &own, is_better)?.into_iter().filter(|point| points.contains(point)) {
            let (plane, row, column) = (point / (size * size), point / size % size, point % size);
            cube.row_mut(plane - share.own().start + 1, row + 1)[column + 1] = charge;
        }
    }
    Ok(cube)
}

/// Inserts a number if it is among the best ones, which are sorted with the best first.
fn keep(best: &mut Vec<Drawn>, drawn: Drawn, is_better: impl Fn(f64, f64) -> bool) {
    if best.len() == CHARGES && !is_better(drawn.0, best[CHARGES - 1].0) {
        return;
    }
    best.truncate(CHARGES - 1);
    let place = best.partition_point(|other| is_better(other.0, drawn.0));
    best.insert(place, drawn);
}

/// The points with the best numbers of all tasks.
fn best_of_all(
    world: &Communicator,
    own: &[Drawn],
    is_better: impl Fn(f64, f64) -> bool,
) -> Result<Vec<usize>, Failure> {
    // A double holds every point number exactly. -1 means that this task has fewer points.
    let nothing = [0.0, -1.0];
    let mut send = [nothing; CHARGES];
    send.iter_mut().zip(own).for_each(|(send, &(number, point))| *send = [number, point as f64]);
    let mut all = vec![nothing; CHARGES * world.size() as usize];
    world.allgather(&send, &mut all)?;
    let mut best = Vec::new();
    for [number, point] in all {
        if point >= 0.0 {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was a point")]
            keep(&mut best, (number, point as usize), &is_better);
        }
    }
    Ok(best.into_iter().map(|(_, point)| point).collect())
}
