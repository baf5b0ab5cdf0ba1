//! NAS FT: a heat equation in three dimensions, solved by Fourier transforms.
//!
//! What it teaches: an exchange of all data between all tasks. A task has some planes of the block and transforms along x and y alone;
//! before the transform along z the tasks exchange the whole block (`alltoallv`), once in each iteration. The time of this exchange depends
//! on bandwidth.
//!
//! ```text
//! cargo amrun -n 4 --example nas_ft
//! cargo amrun -n 4 --example nas_ft -- --class A --variant counters
//! ```
//!
//! You should see a checksum for each of 6 iterations, time, Mop/s, and `VERIFICATION SUCCESSFUL`: all checksums are the official ones to
//! 12 digits.
//!
//! After D. Bailey et al., "The NAS Parallel Benchmarks", RNR-94-007, section 2.5. Any number of tasks will do.

#![expect(clippy::cast_precision_loss, reason = "sizes of a problem that fits into memory")]

use std::f64::consts::PI;
use std::process::ExitCode;

use am_examples::Failure;
use am_examples::fft::{Complex, Direction, Plan};
use am_examples::nas::{self, Class, Generator, Outcome, timed};
use am_examples::turn::Turn;
use mpi_over_am::{Communicator, op};

const SEED: u64 = 314_159_265;
const DIFFUSIVITY: f64 = 1e-6;
const ITERATIONS: usize = 6;
/// Number of elements that a checksum adds up.
const TESTED: usize = 1024;
const TOLERANCE: f64 = 1e-12;

/// A size of the problem.
#[derive(Clone, Copy)]
struct Problem {
    /// Number of elements along x, y and z.
    sizes: [usize; 3],
    /// The checksum after each iteration: real and imaginary part.
    expected: [[f64; 2]; ITERATIONS],
}

impl Problem {
    fn elements(&self) -> usize {
        self.sizes.iter().product()
    }
}

fn problem(class: Class) -> Problem {
    match class {
        Class::S => Problem {
            sizes: [64, 64, 64],
            expected: [
                [554.608_700_496_4, 484.536_333_197_8],
                [554.638_540_918_9, 486.530_426_951_1],
                [554.614_840_617_1, 488.391_072_233_6],
                [554.542_360_741_5, 490.127_316_904_6],
                [554.425_503_962_4, 491.747_585_799_3],
                [554.268_341_190_2, 493.259_724_494_1],
            ],
        },
        Class::W => Problem {
            sizes: [128, 128, 32],
            expected: [
                [567.361_217_894_4, 529.324_684_917_5],
                [563.143_688_527_1, 528.214_998_662_9],
                [559.402_408_997_0, 527.099_655_803_7],
                [556.069_804_702_0, 526.002_790_492_5],
                [553.089_899_125_0, 524.940_084_563_3],
                [550.415_973_453_8, 523.921_224_708_6],
            ],
        },
        Class::A => Problem {
            sizes: [256, 256, 128],
            expected: [
                [504.673_500_819_3, 511.404_790_551_0],
                [505.941_231_973_4, 509.880_966_643_3],
                [506.937_689_628_7, 509.814_404_221_3],
                [507.789_286_847_4, 510.133_613_075_9],
                [508.523_309_539_1, 510.491_465_519_4],
                [509.148_709_995_9, 510.791_784_280_3],
            ],
        },
    }
}

fn main() -> ExitCode {
    nas::main("nas_ft", "NAS FT: a heat equation in three dimensions, solved by Fourier transforms", run)
}

fn run(world: &Communicator, class: Class) -> Result<Outcome, Failure> {
    let problem = problem(class);
    let mut solver = Solver::new(world, problem);
    // Draws the initial values once without measuring, to touch the memory.
    solver.begin()?;
    let (checksums, seconds) = timed(world, || {
        solver.begin()?;
        (0..ITERATIONS).map(|_| solver.iteration()).collect::<Result<Vec<_>, _>>()
    })?;
    if world.rank() == 0 {
        for (iteration, [re, im]) in checksums.iter().enumerate() {
            println!("checksum {}: {re:.12e} {im:.12e}", iteration + 1);
        }
    }
    let is_near = |(sum, expected): (&f64, &f64)| ((sum - expected) / expected).abs() <= TOLERANCE;
    let is_verified = checksums.iter().flatten().zip(problem.expected.iter().flatten()).all(is_near);
    let elements = problem.elements() as f64;
    let of_the_beginning = 14.8157 + 7.19641 * elements.ln();
    let of_an_iteration = 5.23518 + 7.21113 * elements.ln();
    let operations = elements * (of_the_beginning + of_an_iteration * ITERATIONS as f64);
    Ok(Outcome { is_verified, seconds, operations })
}

struct Solver<'a> {
    world: &'a Communicator,
    problem: Problem,
    turn: Turn<'a>,
    /// The waves of this task's curtains.
    waves: Vec<Complex>,
    /// The factor by which a step reduces a wave is the product of three numbers, one for each dimension.
    decay: [Vec<f64>; 3],
    plane: Vec<Complex>,
    curtain: Vec<Complex>,
    scratch: Vec<Complex>,
}

impl<'a> Solver<'a> {
    fn new(world: &'a Communicator, problem: Problem) -> Self {
        let [width, height, depth] = problem.sizes;
        let turn = Turn::new(world, problem.sizes);
        let zeros = |len| vec![Complex::default(); len];
        Self {
            world,
            problem,
            waves: zeros(turn.own_curtains().len() * width * depth),
            turn,
            decay: problem.sizes.map(decay),
            plane: zeros(width * height),
            curtain: zeros(width * depth),
            scratch: zeros(width * height.max(depth)),
        }
    }

    /// Draws the initial values and transforms them.
    fn begin(&mut self) -> Result<(), Failure> {
        let [across, along, behind] = self.problem.sizes.map(|len| Plan::new(len, Direction::Forward));
        let len = self.plane.len();
        for z in self.turn.own_planes() {
            let mut random = Generator::new(SEED).skipped((2 * z * len) as u64);
            self.plane.fill_with(|| {
                let re = random.next();
                Complex { re, im: random.next() }
            });
            transform_rows(&across, &mut self.plane, &mut self.scratch, self.problem.sizes[0]);
            along.transform(&mut self.plane, &mut self.scratch[..len]);
            self.turn.put_plane(z, &self.plane);
        }
        self.turn.to_curtains()?;
        let len = self.curtain.len();
        for (y, waves) in self.turn.own_curtains().zip(self.waves.chunks_exact_mut(len)) {
            self.turn.take_curtain(y, waves);
            behind.transform(waves, &mut self.scratch[..len]);
        }
        Ok(())
    }

    /// Advances by one time step, and returns the checksum of the new block.
    fn iteration(&mut self) -> Result<[f64; 2], Failure> {
        let [across, along, behind] = self.problem.sizes.map(|len| Plan::new(len, Direction::Backward));
        let [width, height, _] = self.problem.sizes;
        let [by_x, by_y, by_z] = &self.decay;
        let len = self.curtain.len();
        for (y, waves) in self.turn.own_curtains().zip(self.waves.chunks_exact_mut(len)) {
            for (row, by_z) in waves.chunks_exact_mut(width).zip(by_z) {
                let left = by_y[y] * by_z;
                row.iter_mut().zip(by_x).for_each(|(wave, by_x)| *wave = wave.scaled(left * by_x));
            }
            self.curtain.copy_from_slice(waves);
            behind.transform(&mut self.curtain, &mut self.scratch[..len]);
            self.turn.put_curtain(y, &self.curtain);
        }
        self.turn.to_planes()?;
        let mut sum = Complex::default();
        for z in self.turn.own_planes() {
            self.turn.take_plane(z, &mut self.plane);
            along.transform(&mut self.plane, &mut self.scratch[..width * height]);
            transform_rows(&across, &mut self.plane, &mut self.scratch, width);
            sum = sum + self.tested_of(z);
        }
        let mut sum: [f64; 2] = sum.scaled(1.0 / self.problem.elements() as f64).into();
        self.world.allreduce_in_place(&mut sum, op::Sum)?;
        Ok(sum)
    }

    /// The sum of those elements of plane `z`, the current one, that belong to the checksum.
    fn tested_of(&self, z: usize) -> Complex {
        let [width, height, depth] = self.problem.sizes;
        let of_this_plane = (0..TESTED).filter(|number| 5 * number % depth == z);
        let place = |number: usize| number % width + width * (3 * number % height);
        of_this_plane.fold(Complex::default(), |sum, number| sum + self.plane[place(number)])
    }
}

/// Transforms each row by itself.
fn transform_rows(plan: &Plan, plane: &mut [Complex], scratch: &mut [Complex], width: usize) {
    plane.chunks_exact_mut(width).for_each(|row| plan.transform(row, &mut scratch[..width]));
}

/// The factor by which a step reduces each wave of one dimension. Indices above the middle are negative wave numbers.
fn decay(len: usize) -> Vec<f64> {
    let of_wave = |place: usize| {
        let number = place.min(len - place) as f64;
        (-4.0 * DIFFUSIVITY * PI * PI * number * number).exp()
    };
    (0..len).map(of_wave).collect()
}
