//! NAS LU: the flow of a synthetic gas through a cube, computed by successive over-relaxation.
//!
//! What it teaches: a wavefront. A task can begin with a plane of its part of the cube when its neighbours have sent the edges of their
//! planes. So there are very many messages of about a kilobyte, and a late message delays all that follow. Tasks form a grid (a Cartesian
//! topology), in which some tasks have no neighbour on a side.
//!
//! ```text
//! cargo amrun -n 4 --example nas_lu
//! cargo amrun -n 4 --example nas_lu -- --class A --variant counters
//! ```
//!
//! You should see eleven numbers beside the expected ones, time, Mop/s, and `VERIFICATION SUCCESSFUL`: the numbers agree with the expected
//! ones to 8 digits.
//!
//! After D. Bailey et al., "The NAS Parallel Benchmarks", RNR-94-007, section 3. Any number of tasks will do; tasks that would have fewer
//! than two points along a side have no part of the cube. Mop/s are counted by the benchmark's rule, as if derivatives were formed as
//! matrices, which they are not here.

#![expect(clippy::cast_precision_loss, reason = "sizes of a problem that fits into memory")]

use std::process::ExitCode;

use am_examples::Failure;
use am_examples::application::{self, Method, Problem};
use am_examples::flow::Flow;
use am_examples::gas;
use am_examples::nas::{self, Class, Outcome};
use am_examples::ssor::Relaxation;
use mpi_over_am::{Communicator, op};

fn problem(class: Class) -> Problem {
    match class {
        Class::S => Problem {
            size: 12,
            steps: 50,
            time_step: 0.5,
            expected: &[
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
            expected: &[
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
            expected: &[
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
    nas::main("nas_lu", "NAS LU: the flow of a synthetic gas, computed by successive over-relaxation", run)
}

fn run(world: &Communicator, class: Class) -> Result<Outcome, Failure> {
    let problem = problem(class);
    let side = problem.size as f64;
    let operations = 1984.77 * side.powi(3) - 10923.3 * side.powi(2) + 27770.9 * side - 144_010.0;
    application::run(world, &problem, operations, Lu(Relaxation::new(problem.time_step)))
}

struct Lu(Relaxation);

impl Method for Lu {
    const FURTHER: &[&str] = &["pressure on a surface"];

    fn step(&mut self, flow: &mut Flow<'_>) -> Result<(), Failure> {
        self.0.step(flow)
    }

    fn further_results(&self, flow: &Flow<'_>) -> Result<Vec<f64>, Failure> {
        Ok(vec![surface_integral(flow)?])
    }
}

/// The integral of the pressure over the surface of a box inside the cube, by the trapezoidal rule. Collective.
fn surface_integral(flow: &Flow<'_>) -> Result<f64, Failure> {
    let tile = flow.tile();
    let last = tile.size() - 1;
    let corners = [[1, last - 1], [1, last - 2], [2, last - 1]];
    // The weight of a point by its position along a direction: half at the ends, zero outside.
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
                    sum[0] += of_faces * gas::pressure(flow.state(place));
                }
            }
        }
    }
    tile.grid().allreduce_in_place(&mut sum, op::Sum)?;
    Ok(sum[0] / (last * last) as f64)
}
