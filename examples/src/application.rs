//! What the NAS applications BT, SP and LU have in common: running a problem in time steps, and verifying the results.

use mpi_over_am::Communicator;

use crate::Failure;
use crate::flow::Flow;
use crate::nas::{Outcome, timed};
use crate::tiles::{Tile, grid_of};

/// Relative tolerance of the results.
const TOLERANCE: f64 = 1e-8;
/// The norms that are the first results of every application.
const NORMS: [&str; 10] = [
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
];

/// A size of the problem.
#[derive(Debug)]
pub struct Problem {
    /// Points along a side.
    pub size: usize,
    /// Number of time steps.
    pub steps: u32,
    /// Length of a time step.
    pub time_step: f64,
    /// The official results: norms of changes, norms of errors, further results.
    pub expected: &'static [f64],
}

/// A method that does time steps.
pub trait Method {
    /// The names of results beyond the norms.
    const FURTHER: &[&str] = &[];

    /// Does one time step: advances the states, and computes their new rates of change. Collective.
    ///
    /// # Errors
    /// An error of MPI.
    fn step(&mut self, flow: &mut Flow<'_>) -> Result<(), Failure>;

    /// The results beyond the norms. Collective.
    ///
    /// # Errors
    /// An error of MPI.
    fn further_results(&self, _flow: &Flow<'_>) -> Result<Vec<f64>, Failure> {
        Ok(Vec::new())
    }
}

/// Runs `problem` with `method`, on as many tasks as the cube can use. `operations` is the benchmark's number of operations in a step. The
/// first task prints each result with the official value. Collective.
///
/// # Errors
/// An error of MPI.
pub fn run<M: Method>(
    world: &Communicator,
    problem: &Problem,
    operations: f64,
    mut method: M,
) -> Result<Outcome, Failure> {
    let names = || NORMS.iter().chain(M::FURTHER);
    assert_eq!(names().count(), problem.expected.len(), "an official value for each result");
    let [along_x, along_y] = grid_of(world.size(), problem.size);
    let grid = world.create_cartesian(&[along_y, along_x], &[false; 2])?;
    let mut flow = match &grid {
        Some(grid) => {
            let mut flow = Flow::new(Tile::new(grid, problem.size)?);
            flow.begin();
            // One step to warm up, not measured.
            method.step(&mut flow)?;
            flow.begin();
            Some(flow)
        }
        None => None,
    };
    let (changes, seconds) = timed(world, || {
        let Some(flow) = &mut flow else { return Ok([0.0; 5]) };
        (0..problem.steps).try_for_each(|_| method.step(flow))?;
        flow.norms_of_changes()
    })?;
    let mut results = vec![0.0; problem.expected.len()];
    if let Some(flow) = &flow {
        results[..5].copy_from_slice(&changes);
        results[5..10].copy_from_slice(&flow.norms_of_errors()?);
        results[10..].copy_from_slice(&method.further_results(flow)?);
    }
    // Tasks outside the grid need the results, too.
    world.broadcast(&mut results, 0)?;
    if world.rank() == 0 {
        println!("{along_x} x {along_y} of {} tasks have a part of the cube", world.size());
        for ((name, result), expected) in names().zip(&results).zip(problem.expected) {
            println!("{name:<21} {result:.13e}, which should be {expected:.13e}");
        }
    }
    let is_near = |(result, expected): (&f64, &f64)| ((result - expected) / expected).abs() <= TOLERANCE;
    let is_verified = results.iter().zip(problem.expected).all(is_near);
    Ok(Outcome { is_verified, seconds, operations: f64::from(problem.steps) * operations })
}
