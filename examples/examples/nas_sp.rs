//! NAS SP: the flow of a synthetic gas through a cube. Each step solves along one direction after the other, for each kind of wave by
//! itself.
//!
//! What it teaches: like `nas_bt`, lines that cross several tasks. An equation connects a point with two points on each side. So each line
//! sends two rows of 15 numbers forward, as much as the one row of 30 in `nas_bt`, and two points back instead of one. Messages matter more
//! than there, because there is less work at each point.
//!
//! ```text
//! cargo amrun -n 4 --example nas_sp
//! cargo amrun -n 4 --example nas_sp -- --class A --variant counters
//! ```
//!
//! You should see ten numbers beside the expected ones, time, Mop/s, and `VERIFICATION SUCCESSFUL`: the numbers agree with the expected
//! ones to 8 digits.
//!
//! After D. Bailey et al., "The NAS Parallel Benchmarks", RNR-94-007, section 3. Any number of tasks will do; tasks that would have fewer
//! than two points along a side have no part of the cube.

#![expect(clippy::cast_precision_loss, reason = "sizes of a problem that fits into memory")]

use std::process::ExitCode;

use am_examples::Failure;
use am_examples::application::{self, Problem};
use am_examples::directions::Directions;
use am_examples::nas::{self, Class, Outcome};
use am_examples::waves::Waves;
use mpi_over_am::Communicator;

fn problem(class: Class) -> Problem {
    match class {
        Class::S => Problem {
            size: 12,
            steps: 100,
            time_step: 0.015,
            expected: &[
                2.747_031_545_133_948e-2,
                1.036_074_670_528_541_7e-2,
                1.623_574_506_509_553_2e-2,
                1.584_055_722_445_561_5e-2,
                3.484_904_060_936_246e-2,
                2.728_925_855_737_722_5e-5,
                1.036_444_664_083_728_5e-5,
                1.615_479_828_716_647e-5,
                1.575_070_499_448_01e-5,
                3.417_766_618_339_053e-5,
            ],
        },
        Class::W => Problem {
            size: 36,
            steps: 400,
            time_step: 1.5e-3,
            expected: &[
                1.893_253_733_584e-3,
                1.717_075_447_775e-4,
                2.778_153_350_936e-4,
                2.887_475_409_984e-4,
                3.143_611_161_242e-3,
                7.542_088_599_534e-5,
                6.512_852_253_086e-6,
                1.049_092_285_688e-5,
                1.128_838_671_535e-5,
                1.212_845_639_773e-4,
            ],
        },
        Class::A => Problem {
            size: 64,
            steps: 400,
            time_step: 1.5e-3,
            expected: &[
                2.479_982_239_930_019_5,
                1.127_633_796_436_883_2,
                1.502_897_788_877_049_2,
                1.421_781_621_169_518,
                2.129_211_303_513_828,
                1.090_014_029_782_055e-4,
                3.734_395_176_928_209e-5,
                5.009_278_540_654_163e-5,
                4.767_109_393_952_825e-5,
                1.362_161_339_921_3e-4,
            ],
        },
    }
}

fn main() -> ExitCode {
    nas::main("nas_sp", "NAS SP: the flow of a synthetic gas, computed along lines, wave by wave", run)
}

fn run(world: &Communicator, class: Class) -> Result<Outcome, Failure> {
    let problem = problem(class);
    let side = problem.size as f64;
    let operations = 881.174 * side.powi(3) - 4683.91 * side.powi(2) + 11484.5 * side - 19272.4;
    application::run(world, &problem, operations, Directions::new(Waves, problem.time_step))
}
