//! NAS BT: the flow of a synthetic gas through a cube. Each step solves along one direction after the other, for all five numbers of a
//! point together.
//!
//! What it teaches: lines that cross several tasks. Tasks form a grid, so that lines along two of the three directions are cut: each task
//! sends its last reduced equations to the next task, and the solution comes back. Planes of lines follow each other, so that all tasks
//! have work. In class A a message has up to 15 kilobytes forward, and a sixth of that back.
//!
//! ```text
//! cargo amrun -n 4 --example nas_bt
//! cargo amrun -n 4 --example nas_bt -- --class A --variant counters
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
use am_examples::blocks::Blocks;
use am_examples::directions::Directions;
use am_examples::nas::{self, Class, Outcome};
use mpi_over_am::Communicator;

fn problem(class: Class) -> Problem {
    match class {
        Class::S => Problem {
            size: 12,
            steps: 60,
            time_step: 0.01,
            expected: &[
                1.703_428_370_954_131_2e-1,
                1.297_525_207_003_409_6e-2,
                3.252_792_698_948_605_4e-2,
                2.643_642_127_516_68e-2,
                1.921_178_413_174_443e-1,
                4.997_691_334_581_158e-4,
                4.519_566_678_296_193e-5,
                7.397_376_517_292_135e-5,
                7.382_123_863_243_973e-5,
                8.926_963_098_749_145e-4,
            ],
        },
        Class::W => Problem {
            size: 24,
            steps: 200,
            time_step: 8e-4,
            expected: &[
                1.125_590_409_344e2,
                1.180_007_595_731e1,
                2.710_329_767_846e1,
                2.469_174_937_669e1,
                2.638_427_874_317e2,
                4.419_655_736_008,
                4.638_531_260_002e-1,
                1.011_551_749_967,
                9.235_878_729_944e-1,
                1.018_045_837_718e1,
            ],
        },
        Class::A => Problem {
            size: 64,
            steps: 200,
            time_step: 8e-4,
            expected: &[
                1.080_634_671_463_726_4e2,
                1.131_973_090_122_081_3e1,
                2.597_435_451_158_246_5e1,
                2.366_562_254_467_891e1,
                2.527_896_321_174_834_5e2,
                4.234_841_604_052_502_5,
                4.439_028_249_699_57e-1,
                9.669_248_013_634_565e-1,
                8.830_206_303_976_548e-1,
                9.737_990_177_082_928,
            ],
        },
    }
}

fn main() -> ExitCode {
    nas::main("nas_bt", "NAS BT: the flow of a synthetic gas, computed along lines of 5 x 5 blocks", run)
}

fn run(world: &Communicator, class: Class) -> Result<Outcome, Failure> {
    let problem = problem(class);
    let side = problem.size as f64;
    let operations = 3478.8 * side.powi(3) - 17655.7 * side.powi(2) + 28023.7 * side;
    application::run(world, &problem, operations, Directions::new(Blocks::default(), problem.time_step))
}
