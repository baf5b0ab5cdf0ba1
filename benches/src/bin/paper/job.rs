//! The jobs behind the curves: their programs, settings, and results in every round.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use am_examples::Failure;
use am_via_launch::{Bind, Launch, LaunchError};
use mpi_over_am::{JobSettings, Settings, Table};

use crate::curve::Point;
use crate::measure::Measure;

/// Limit for a job, which only a job that hangs reaches.
const PATIENCE: Duration = Duration::from_secs(120);
/// Maximum number of runs of a kernel, of which the best counts.
const KERNEL_ROUNDS_MAX: u32 = 5;

/// The extent of the measurements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Number of runs of each job.
    pub(crate) rounds: u32,
    /// Measuring time of a task per length.
    pub(crate) milliseconds: u32,
    /// Whether to measure fewer lengths, and the smallest kernels.
    pub(crate) is_quick: bool,
}

impl Effort {
    pub(crate) const QUICK: Self = Self { rounds: 3, milliseconds: 3, is_quick: true };

    pub(crate) const FULL: Self = Self { rounds: 7, milliseconds: 15, is_quick: false };
}

/// The program of the tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Program {
    /// This program, at these lengths.
    Measure(Measure, &'static [usize]),
    /// A NAS kernel of the examples, in a class that takes about a tenth of a second. `x` is its position on the figure's x axis.
    Kernel { name: &'static str, class: &'static str, x: usize },
}

/// A job of the launcher.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Job {
    pub(crate) tasks: u32,
    pub(crate) settings: &'static [(&'static str, &'static str)],
    pub(crate) program: Program,
}

impl Job {
    /// The shell command that runs the job alone.
    pub(crate) fn command(&self, effort: &Effort) -> String {
        let settings: String = self.settings.iter().map(|(name, value)| format!("{name}={value} ")).collect();
        let program = match self.program {
            Program::Measure(..) => "target/release/paper".to_owned(),
            Program::Kernel { name, .. } => format!("--example {name} --"),
        };
        let arguments = self.arguments(effort).join(" ");
        format!("{settings}cargo amrun -n {} --bind core {program} {arguments}", self.tasks)
    }

    fn arguments(&self, effort: &Effort) -> Vec<String> {
        match self.program {
            Program::Measure(measure, lengths) => {
                let lengths: Vec<String> =
                    some_of(lengths, effort).map(|length| length.to_string()).collect();
                vec![
                    "task".to_owned(),
                    measure.name(),
                    format!("--lengths={}", lengths.join(",")),
                    format!("--milliseconds={}", effort.milliseconds),
                ]
            }
            Program::Kernel { class, .. } => {
                vec![format!("--class={}", if effort.is_quick { "S" } else { class })]
            }
        }
    }

    /// Runs the job once, and returns the values that task 0 has printed.
    fn run(&self, program: &Path, folder: &Path, effort: &Effort) -> Result<Run, Failure> {
        let mut launch = Launch::new(program, self.arguments(effort))
            .tasks(self.tasks)
            .bind(Bind::Cores(1))
            .capture(folder)
            .timeout(PATIENCE);
        for (name, value) in self.settings {
            launch = launch.env(name, value);
        }
        let report = launch.run().map_err(|error| not_started(&error))?;
        if !report.is_success() {
            let said = (0..self.tasks).filter_map(|task| report.stderr(task)).collect::<String>();
            let command = self.command(effort);
            return Err(Failure::Wrong(format!("{command} failed: {report}\n{said}")));
        }
        let output = report.stdout(0).unwrap_or_default();
        let values: Run = match self.program {
            Program::Measure(..) => output.lines().filter_map(pair).collect(),
            Program::Kernel { x, .. } => {
                output.lines().filter_map(speed).map(|speed| (x as f64, speed)).collect()
            }
        };
        if values.is_empty() || values.iter().any(|(_, value)| !value.is_finite() || *value <= 0.0) {
            let command = self.command(effort);
            return Err(Failure::Wrong(format!("{command} printed no valid number:\n{output}")));
        }
        Ok(values)
    }
}

fn not_started(error: &LaunchError) -> Failure {
    Failure::Input(format!("a job could not be started: {error}"))
}

/// `LENGTH VALUE`, as a task prints it.
fn pair(line: &str) -> Option<(f64, f64)> {
    let (x, value) = line.split_once(' ')?;
    Some((x.parse().ok()?, value.parse().ok()?))
}

/// The line of a kernel that gives millions of operations per second.
fn speed(line: &str) -> Option<f64> {
    line.strip_prefix("Mop/s total")?.trim_start().strip_prefix('=')?.trim().parse().ok()
}

/// All lengths; for a quick page, every third and the longest.
fn some_of(lengths: &'static [usize], effort: &Effort) -> impl Iterator<Item = usize> {
    let (step, last) = (if effort.is_quick { 3 } else { 1 }, lengths.len().saturating_sub(1));
    lengths
        .iter()
        .enumerate()
        .filter(move |(place, _)| place % step == 0 || *place == last)
        .map(|(_, length)| *length)
}

/// Checks that every variable set by a job is a setting: if a setting had been renamed, two curves would be the same.
pub(crate) fn check_settings(jobs: &[Job]) -> Result<(), Failure> {
    let mut names = jobs.iter().flat_map(|job| job.settings).map(|(name, _)| *name);
    match names.find(|name| !JobSettings::knows(name) && !Settings::knows(name)) {
        None => Ok(()),
        Some(name) => {
            Err(Failure::Wrong(format!("a figure sets {name}, and `mpiexec --info` knows no such setting")))
        }
    }
}

/// What task 0 printed in one run: each x with its value.
type Run = Vec<(f64, f64)>;

/// The results of all rounds of all jobs.
pub(crate) struct Results(Vec<(Job, Vec<Run>)>);

impl Results {
    /// The points of a job: medians, and for a kernel the best.
    pub(crate) fn points(&self, job: &Job) -> Vec<Point> {
        let Some((_, rounds)) = self.0.iter().find(|(known, _)| known == job) else { return Vec::new() };
        let Some(first) = rounds.first() else { return Vec::new() };
        let at = |place: usize| -> Vec<f64> {
            rounds.iter().filter_map(|round| round.get(place)).map(|(_, value)| *value).collect()
        };
        let points = first.iter().enumerate().map(|(place, (x, _))| Point::of_rounds(*x, &at(place)));
        match job.program {
            Program::Measure(..) => points.collect(),
            Program::Kernel { .. } => points.map(|point| Point { y: point.high, ..point }).collect(),
        }
    }
}

/// Runs every job once per round; a kernel only in the first [`KERNEL_ROUNDS_MAX`] rounds.
pub(crate) fn run_all(jobs: &[Job], effort: &Effort) -> Result<Results, Failure> {
    let programs = programs(jobs)?;
    let folder = std::env::temp_dir().join(format!("am-paper-{}", std::process::id()));
    std::fs::create_dir_all(&folder)
        .map_err(|error| Failure::Input(format!("cannot write to {}: {error}", folder.display())))?;
    let results = run_rounds(jobs, &programs, &folder, effort);
    // Remaining temporary files are harmless.
    let _ = std::fs::remove_dir_all(&folder);
    results
}

fn run_rounds(
    jobs: &[Job],
    programs: &[PathBuf],
    folder: &Path,
    effort: &Effort,
) -> Result<Results, Failure> {
    let mut results: Vec<(Job, Vec<Run>)> = jobs.iter().map(|job| (*job, Vec::new())).collect();
    for round in 1..=effort.rounds {
        let start = Instant::now();
        for ((job, rounds), program) in results.iter_mut().zip(programs) {
            if round > KERNEL_ROUNDS_MAX && matches!(job.program, Program::Kernel { .. }) {
                continue;
            }
            rounds.push(job.run(program, folder, effort)?);
        }
        let seconds = start.elapsed().as_secs_f64();
        eprintln!("round {round} of {}: {} jobs in {seconds:.0} s", effort.rounds, jobs.len());
    }
    Ok(Results(results))
}

/// The file that the tasks of each job run. A kernel is built first if it is not up to date.
fn programs(jobs: &[Job]) -> Result<Vec<PathBuf>, Failure> {
    let own = std::env::current_exe().map_err(|error| {
        Failure::Input(format!("this program cannot find its own file, which the tasks run: {error}"))
    })?;
    let mut kernels: Vec<(&str, PathBuf)> = Vec::new();
    let mut programs = Vec::new();
    for job in jobs {
        programs.push(match job.program {
            Program::Measure(..) => own.clone(),
            Program::Kernel { name, .. } => match kernels.iter().find(|(built, _)| *built == name) {
                Some((_, file)) => file.clone(),
                None => {
                    let file = built(name, &own)?;
                    kernels.push((name, file.clone()));
                    file
                }
            },
        });
    }
    Ok(programs)
}

/// Builds an example in release mode. Its file is beside this program's, which is built in release mode, too.
fn built(example: &str, own: &Path) -> Result<PathBuf, Failure> {
    eprintln!("building {example}");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--release", "--package", "am-examples", "--example", example]);
    match cargo.status() {
        Ok(status) if status.success() => Ok(own.with_file_name("examples").join(example)),
        Ok(status) => Err(Failure::Input(format!("cargo could not build the example {example} ({status})"))),
        Err(error) => Err(Failure::Input(format!("cargo cannot be started: {error}"))),
    }
}
