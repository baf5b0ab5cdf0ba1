//! The common code of the NAS kernels: sizes, the generator of random numbers, the three variants of the paper, the report.

use std::fmt;
use std::process::ExitCode;

use am_via::Task;
use clap::{Args, Command, ValueEnum};
use mpi_over_am::{Communicator, CompletionVariant, Environment, Settings, op};

use crate::{Failure, arguments};

/// The sizes of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub enum Class {
    /// Sample.
    S,
    /// Workstation.
    W,
    /// The smallest of the sizes for measurements.
    A,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// How a receive learns that its message has arrived: the three variants of the MPI-LAPI paper, section 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Variant {
    /// By a completion handler, on the thread of such handlers.
    Base,
    /// By target counters.
    Counters,
    /// By a predefined handler in context.
    InContext,
}

/// The arguments of a kernel.
#[derive(Clone, Copy, Debug, Args)]
pub struct Choice {
    /// The size of the problem.
    #[arg(long, value_enum, ignore_case = true, default_value_t = Class::S)]
    pub class: Class,
    /// How receives learn that their messages have arrived. Default: the setting AM_COMPLETION.
    #[arg(long, value_enum)]
    pub variant: Option<Variant>,
}

/// The result of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Whether the result is the official one.
    pub is_verified: bool,
    /// Seconds of the slowest task.
    pub seconds: f64,
    /// Operations of all tasks, by the benchmark's count.
    pub operations: f64,
}

/// Runs a kernel as `program`: joins the job, parses the arguments, and reports the result. `about` is the first line of the program's
/// help.
pub fn main(
    program: &'static str,
    about: &'static str,
    kernel: impl Fn(&Communicator, Class) -> Result<Outcome, Failure>,
) -> ExitCode {
    let command = Choice::augment_args(Command::new(program)).about(about);
    arguments::main_with(program, command, |task, choice| run(task, program, choice, kernel))
}

fn run(
    task: &Task,
    program: &str,
    choice: &Choice,
    kernel: impl Fn(&Communicator, Class) -> Result<Outcome, Failure>,
) -> Result<(), Failure> {
    let mut settings = Settings::try_from(task.job().variables())?;
    if let Some(variant) = choice.variant {
        settings.completion = match variant {
            Variant::Base => CompletionVariant::Thread,
            Variant::Counters => CompletionVariant::Counter,
            Variant::InContext => CompletionVariant::InContext,
        };
    }
    let environment = Environment::with_fabric(task.fabric(0)?, &settings)?;
    let world = environment.world();
    let outcome = kernel(&world, choice.class)?;
    let Outcome { is_verified, seconds, operations } = outcome;
    if world.rank() == 0 {
        println!(
            "{program}, class {}, {} tasks, receives complete by {:?}",
            choice.class,
            world.size(),
            settings.completion
        );
        println!("Time in seconds = {seconds:.3}");
        println!("Mop/s total     = {:.2}", operations / seconds / 1e6);
        println!("VERIFICATION {}", if is_verified { "SUCCESSFUL" } else { "FAILED" });
    }
    drop(world);
    environment.finalize()?;
    if is_verified { Ok(()) } else { Err(Failure::Wrong("the result is not the official value".to_owned())) }
}

/// Runs the measured part after a barrier; returns its result and the seconds of the slowest task.
///
/// # Errors
/// The error of the measured part; an error of MPI.
pub fn timed<R>(
    world: &Communicator,
    part: impl FnOnce() -> Result<R, Failure>,
) -> Result<(R, f64), Failure> {
    world.barrier()?;
    let start = std::time::Instant::now();
    let result = part()?;
    let mut seconds = [start.elapsed().as_secs_f64()];
    world.allreduce_in_place(&mut seconds, op::Max)?;
    Ok((result, seconds[0]))
}

/// The first item of task `rank`, if `items` items are shared among `tasks` tasks. For `rank == tasks`, the end of the items.
#[must_use]
pub fn first_of(rank: u32, tasks: u32, items: usize) -> usize {
    items * rank as usize / tasks as usize
}

/// The multiplier of the benchmarks' generator, 5^13.
pub const MULTIPLIER: u64 = 1_220_703_125;
const MASK: u64 = (1 << 46) - 1;

/// The benchmarks' generator: x' = a x modulo 2^46. It yields the same numbers as the original's floating-point arithmetic.
#[derive(Clone, Copy, Debug)]
pub struct Generator {
    state: u64,
}

impl Generator {
    /// A generator that starts from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed & MASK }
    }

    /// Skips `count` numbers.
    #[must_use]
    pub fn skipped(self, count: u64) -> Self {
        Self { state: product(self.state, power(MULTIPLIER, count)) }
    }

    /// The next number, between 0 and 1.
    #[inline(always)]
    #[expect(clippy::should_implement_trait, reason = "the sequence never ends, so it is not an iterator")]
    #[expect(clippy::cast_precision_loss, reason = "46 bits fit into a double")]
    pub fn next(&mut self) -> f64 {
        const SCALE: f64 = 1.0 / (1u64 << 46) as f64;
        self.state = product(self.state, MULTIPLIER);
        self.state as f64 * SCALE
    }
}

/// The product modulo 2^46: the lowest 46 bits of the machine's product modulo 2^64.
#[inline(always)]
fn product(a: u64, b: u64) -> u64 {
    a.wrapping_mul(b) & MASK
}

fn power(mut base: u64, mut exponent: u64) -> u64 {
    let mut result = 1;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = product(result, base);
        }
        base = product(base, base);
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_skipped_are_those_that_would_have_been_drawn() {
        let mut drawn = Generator::new(314_159_265);
        for count in 0..100 {
            assert_eq!(Generator::new(314_159_265).skipped(count).state, drawn.state);
            let number = drawn.next();
            assert!((0.0..1.0).contains(&number));
        }
    }

    #[test]
    fn parts_cover_all_items() {
        for tasks in 1..10 {
            assert_eq!(first_of(0, tasks, 1000), 0);
            assert_eq!(first_of(tasks, tasks, 1000), 1000);
        }
    }
}
