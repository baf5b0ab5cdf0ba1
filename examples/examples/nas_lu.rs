//! NAS LU: the flow of a synthetic gas through a cube, by successive over-relaxation.
//!
//! What it teaches: a wavefront. A task can begin with a plane of its part of the cube when its neighbours have sent it the edges
//! of theirs; so there are very many messages of a kilobyte or so, and each one that is late makes all behind it late. Tasks
//! form a grid (a Cartesian topology), in which some have nobody on a side.
//!
//! ```text
//! cargo amrun -n 4 --example nas_lu
//! cargo amrun -n 4 --example nas_lu -- --class A --variant counters
//! ```
//!
//! You should see eleven numbers beside those that they should be, time, Mop/s, and `VERIFICATION SUCCESSFUL`: they are equal to 8
//! digits.
//!
//! After D. Bailey et al., "The NAS Parallel Benchmarks", RNR-94-007, section 3. Any number of tasks will do; those that would
//! have less than two points along a side have none. Mop/s are counted as the benchmark says, as if derivatives were matrices.

#![expect(clippy::cast_precision_loss, reason = "sizes of a problem that fits into memory")]

use std::process::ExitCode;

use am_examples::Failure;
use am_examples::gas::{self, State};
use am_examples::nas::{self, Choice, Class, Outcome, timed};
use am_examples::ssor::Solver;
use am_examples::tiles::{Tile, grid_of};
use clap::Parser;
use mpi_over_am::{Communicator, op};

/// NAS LU: the flow of a synthetic gas, by successive over-relaxation.
#[derive(Parser)]
#[command(name = PROGRAM)]
struct Arguments {
    #[command(flatten)]
    choice: Choice,
}

const PROGRAM: &str = "nas_lu";
const TOLERANCE: f64 = 1e-8;
const NAMES: [&str; RESULTS] = [
    "change of density",
    "change of momentum x",
    "change of momentum y",
    "change of momentum z",
    "change of energy",
    "error of density",
    "error of momentum x",
    "error of momentum y",
    "error of momentum z",
    "error of energy",
    "pressure on a surface",
];
/// Norms of changes, norms of errors, one integral.
const RESULTS: usize = 11;

/// A size of the problem.
struct Problem {
    /// Points along a side.
    size: usize,
    steps: u32,
    time_step: f64,
    expected: [f64; RESULTS],
}

fn problem(class: Class) -> Problem {
    match class {
        Class::S => Problem {
            size: 12,
            steps: 50,
            time_step: 0.5,
            expected: [
                1.619_634_321_097_670_2e-2,
                2.197_674_516_482_132e-3,
                1.517_992_765_339_918_5e-3,
                1.502_958_443_599_432_3e-3,
                3.426_407_315_589_646e-2,
                6.422_331_995_796_092e-4,
                8.414_434_204_734_793e-5,
                5.858_826_961_648_518_6e-5,
                5.847_422_259_515_735e-5,
                1.310_334_791_411_129_4e-3,
                7.841_892_886_593_708,
            ],
        },
        Class::W => Problem {
            size: 33,
            steps: 300,
            time_step: 1.5e-3,
            expected: [
                12.365_116_381_92,
                1.317_228_477_799,
                2.550_120_713_095,
                2.326_187_750_252,
                28.267_994_441_89,
                0.486_787_714_421_6,
                0.050_646_528_809_82,
                0.092_818_181_019_6,
                0.085_701_265_427_33,
                1.084_277_417_792,
                11.613_993_110_23,
            ],
        },
        Class::A => Problem {
            size: 64,
            steps: 250,
            time_step: 2.0,
            expected: [
                7.790_210_760_668_937e2,
                6.340_276_525_969_287e1,
                1.949_924_972_729_248e2,
                1.784_530_116_041_853_7e2,
                1.838_476_034_946_424_7e3,
                2.996_408_568_547_194_3e1,
                2.819_457_636_500_335,
                7.347_341_269_877_474,
                6.713_922_568_777_705,
                7.071_531_568_839_258e1,
                2.603_092_560_488_627_7e1,
            ],
        },
    }
}

fn main() -> ExitCode {
    nas::main(
        PROGRAM,
        |arguments: &Arguments| arguments.choice,
        |world, arguments| run(world, arguments.choice.class),
    )
}

fn run(world: &Communicator, class: Class) -> Result<Outcome, Failure> {
    let problem = problem(class);
    let [along_x, along_y] = grid_of(world.size(), problem.size);
    let grid = world.create_cartesian(&[along_y, along_x], &[false; 2])?;
    let mut solver = match &grid {
        Some(grid) => {
            let mut solver = Solver::new(Tile::new(grid, problem.size)?, problem.time_step, gas::steady);
            begin(&mut solver);
            // Once to warm up, not measured.
            solver.step()?;
            begin(&mut solver);
            Some(solver)
        }
        None => None,
    };
    let (norms, seconds) = timed(world, || {
        let Some(solver) = &mut solver else { return Ok([0.0; 5]) };
        (0..problem.steps).try_for_each(|_| solver.step())?;
        solver.norms_of_changes()
    })?;
    let mut results = [0.0; RESULTS];
    if let Some(solver) = &solver {
        results[..5].copy_from_slice(&norms);
        results[5..10].copy_from_slice(&errors(solver)?);
        results[10] = surface_integral(solver)?;
    }
    // Who is not in the grid is to know too.
    world.broadcast(&mut results, 0)?;
    if world.rank() == 0 {
        println!("{along_x} x {along_y} of {} tasks have a part of the cube", world.size());
        for ((name, result), expected) in NAMES.iter().zip(results).zip(problem.expected) {
            println!("{name:<21} {result:.13e}, which should be {expected:.13e}");
        }
    }
    let is_near = |(result, expected): (&f64, &f64)| ((result - expected) / expected).abs() <= TOLERANCE;
    let is_verified = results.iter().zip(&problem.expected).all(is_near);
    let side = problem.size as f64;
    let of_a_step = 1984.77 * side.powi(3) - 10923.3 * side.powi(2) + 27770.9 * side - 144_010.0;
    Ok(Outcome { is_verified, seconds, operations: f64::from(problem.steps) * of_a_step })
}

fn begin(solver: &mut Solver<'_>) {
    let last = solver.tile().size() - 1;
    solver.begin(|place, in_unit_cube| {
        let is_on_face = place.iter().any(|place| *place == 0 || *place == last);
        if is_on_face { gas::steady(in_unit_cube) } else { gas::blended(in_unit_cube) }
    });
}

/// The norms of what is still missing to the steady state.
fn errors(solver: &Solver<'_>) -> Result<State, Failure> {
    let last = (solver.tile().size() - 1) as f64;
    solver.norms(|place| {
        let (steady, state) = (gas::steady(place.map(|place| place as f64 / last)), solver.state(place));
        std::array::from_fn(|number| steady[number] - state[number])
    })
}

/// The integral of the pressure over the surface of a box inside of the cube, by the trapezoidal rule.
fn surface_integral(solver: &Solver<'_>) -> Result<f64, Failure> {
    let tile = solver.tile();
    let last = tile.size() - 1;
    let corners = [[1, last - 1], [1, last - 2], [2, last - 1]];
    // What a point weighs because of where it is along a direction: half at the ends.
    let weight = |direction: usize, place: usize| {
        let [low, high] = corners[direction];
        match place {
            _ if place < low || place > high => 0.0,
            _ if place == low || place == high => 0.5,
            _ => 1.0,
        }
    };
    let mut sum = [0.0];
    for z in tile.own(2) {
        for y in tile.own(1) {
            for x in tile.own(0) {
                let place = [x, y, z];
                let weights: [f64; 3] = std::array::from_fn(|direction| weight(direction, place[direction]));
                let is_end = |direction: usize| corners[direction].contains(&place[direction]);
                let faces = (0..3).filter(|direction| is_end(*direction));
                let of_faces: f64 = faces.map(|face| weights[(face + 1) % 3] * weights[(face + 2) % 3]).sum();
                if of_faces > 0.0 {
                    sum[0] += of_faces * gas::pressure(solver.state(place));
                }
            }
        }
    }
    tile.grid().allreduce_in_place(&mut sum, op::Sum)?;
    Ok(sum[0] / (last * last) as f64)
}
