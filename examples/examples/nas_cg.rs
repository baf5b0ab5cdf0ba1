//! NAS CG: the smallest eigenvalue of a large sparse matrix, computed by the conjugate gradient method.
//!
//! What it teaches: an iterative solver. Each task has some rows of the matrix. A product needs all tasks' parts of the vector
//! (`allgatherv`), and each step needs two sums of one number over all tasks (`allreduce`), whose time is latency.
//!
//! ```text
//! cargo amrun -n 4 --example nas_cg
//! cargo amrun -n 4 --example nas_cg -- --class A --variant counters
//! ```
//!
//! You should see time, Mop/s, and `VERIFICATION SUCCESSFUL`: the estimate of the eigenvalue is the official one to 10 digits.
//!
//! After D. Bailey et al., "The NAS Parallel Benchmarks", RNR-94-007, section 2.4. The matrix is distributed by rows here, not in two
//! dimensions, so that any number of tasks will do.

#![expect(clippy::cast_precision_loss, reason = "orders and counts of a problem that fits into memory")]

use std::process::ExitCode;

use am_examples::Failure;
use am_examples::nas::{self, Class, Generator, Outcome, first_of, timed};
use mpi_over_am::{Communicator, Placement, op};

const SEED: u64 = 314_159_265;
const CONDITION: f64 = 0.1;
const ITERATIONS: u32 = 15;
const STEPS: u32 = 25;

/// A size of the problem.
#[derive(Clone, Copy)]
struct Problem {
    order: usize,
    nonzeros: usize,
    shift: f64,
    expected: f64,
}

fn problem(class: Class) -> Problem {
    match class {
        Class::S => Problem { order: 1400, nonzeros: 7, shift: 10.0, expected: 8.597_177_507_864_8 },
        Class::W => Problem { order: 7000, nonzeros: 8, shift: 12.0, expected: 10.362_595_087_124 },
        Class::A => Problem { order: 14000, nonzeros: 11, shift: 20.0, expected: 17.130_235_054_029 },
    }
}

fn main() -> ExitCode {
    nas::main("nas_cg", "NAS CG: the smallest eigenvalue of a sparse matrix", run)
}

fn run(world: &Communicator, class: Class) -> Result<Outcome, Failure> {
    let problem = problem(class);
    let mut solver = Solver::new(world, problem);
    // One run to warm up, which is not measured.
    solver.iteration(&vec![1.0; solver.matrix.rows()])?;
    let (estimate, seconds) = timed(world, || {
        let mut x = vec![1.0; solver.matrix.rows()];
        let mut estimate = 0.0;
        for _ in 0..ITERATIONS {
            estimate = solver.iteration(&x)?;
            let length = solver.dot(&solver.z, &solver.z)?.sqrt();
            x.iter_mut().zip(&solver.z).for_each(|(x, z)| *x = z / length);
        }
        Ok(estimate)
    })?;
    if world.rank() == 0 {
        println!("estimate {estimate:.13}, which should be {:.13}", problem.expected);
    }
    let is_verified = ((estimate - problem.expected) / problem.expected).abs() <= 1e-10;
    let nonzeros = (problem.nonzeros * (problem.nonzeros + 1)) as f64;
    let of_a_step = 3.0 + nonzeros + f64::from(STEPS) * (5.0 + nonzeros) + 3.0;
    let operations = f64::from(2 * ITERATIONS) * problem.order as f64 * of_a_step;
    Ok(Outcome { is_verified, seconds, operations })
}

/// One task's rows of the matrix.
struct Matrix {
    /// The index of each row's first element, and the end of the last row.
    starts: Vec<usize>,
    columns: Vec<usize>,
    values: Vec<f64>,
}

impl Matrix {
    fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    fn multiply(&self, vector: &[f64], product: &mut [f64]) {
        for (product, bounds) in product.iter_mut().zip(self.starts.windows(2)) {
            let (columns, values) = (&self.columns[bounds[0]..bounds[1]], &self.values[bounds[0]..bounds[1]]);
            *product = columns.iter().zip(values).map(|(&column, value)| value * vector[column]).sum();
        }
    }

    /// Rows `first` to `end` of the sum of the outer products of random sparse vectors, with decreasing weights.
    fn new(problem: Problem, first: usize, end: usize) -> Self {
        let Problem { order, nonzeros, shift, .. } = problem;
        let mut generator = Generator::new(SEED);
        // The original draws one number before the matrix.
        let _ = generator.next();
        let ratio = CONDITION.powf(1.0 / order as f64);
        let mut weight = 1.0;
        let mut rows: Vec<Vec<(usize, f64)>> = vec![Vec::new(); end - first];
        for number in 0..order {
            let vector = sparse_vector(&mut generator, order, nonzeros, number);
            for &(row, value) in vector.iter().filter(|(row, _)| (first..end).contains(row)) {
                for &(column, other) in &vector {
                    let mut product = other * (value * weight);
                    if row == number && column == number {
                        product += CONDITION - shift;
                    }
                    rows[row - first].push((column, product));
                }
            }
            weight *= ratio;
        }
        let mut matrix = Self { starts: vec![0], columns: Vec::new(), values: Vec::new() };
        for mut row in rows {
            row.sort_by_key(|&(column, _)| column);
            for same in row.chunk_by(|a, b| a.0 == b.0) {
                matrix.columns.push(same[0].0);
                matrix.values.push(same.iter().map(|(_, value)| value).sum());
            }
            matrix.starts.push(matrix.columns.len());
        }
        matrix
    }
}

/// `nonzeros` random elements at random indices, and 0.5 at index `number`.
fn sparse_vector(
    generator: &mut Generator,
    order: usize,
    nonzeros: usize,
    number: usize,
) -> Vec<(usize, f64)> {
    let mut vector: Vec<(usize, f64)> = Vec::with_capacity(nonzeros + 1);
    let range = order.next_power_of_two() as f64;
    while vector.len() < nonzeros {
        let value = generator.next();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the index is below the range"
        )]
        let place = (range * generator.next()) as usize;
        if place < order && vector.iter().all(|&(other, _)| other != place) {
            vector.push((place, value));
        }
    }
    match vector.iter_mut().find(|(place, _)| *place == number) {
        Some(element) => element.1 = 0.5,
        None => vector.push((number, 0.5)),
    }
    vector
}

struct Solver<'a> {
    world: &'a Communicator,
    problem: Problem,
    matrix: Matrix,
    counts: Vec<usize>,
    displacements: Vec<usize>,
    whole: Vec<f64>,
    z: Vec<f64>,
}

impl<'a> Solver<'a> {
    fn new(world: &'a Communicator, problem: Problem) -> Self {
        let first = |rank| first_of(rank, world.size(), problem.order);
        let displacements: Vec<usize> = (0..world.size()).map(first).collect();
        let counts = (0..world.size()).map(|rank| first(rank + 1) - first(rank)).collect();
        let matrix = Matrix::new(problem, first(world.rank()), first(world.rank() + 1));
        let z = vec![0.0; matrix.rows()];
        Self { world, problem, matrix, counts, displacements, whole: vec![0.0; problem.order], z }
    }

    fn dot(&self, a: &[f64], b: &[f64]) -> Result<f64, Failure> {
        let mut sum = [a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>()];
        self.world.allreduce_in_place(&mut sum, op::Sum)?;
        Ok(sum[0])
    }

    /// This task's part of the product of the matrix and a vector that is distributed over all tasks.
    fn multiply(&mut self, part: &[f64], product: &mut [f64]) -> Result<(), Failure> {
        let placement = Placement { counts: &self.counts, displacements: &self.displacements };
        self.world.allgatherv(part, (&mut self.whole, placement))?;
        self.matrix.multiply(&self.whole, product);
        Ok(())
    }

    /// Solves A z = x for `z`, by a fixed number of steps. Returns the estimate of the eigenvalue.
    fn iteration(&mut self, x: &[f64]) -> Result<f64, Failure> {
        let mut z = vec![0.0; x.len()];
        let (mut r, mut p, mut q) = (x.to_vec(), x.to_vec(), vec![0.0; x.len()]);
        let mut rho = self.dot(&r, &r)?;
        for _ in 0..STEPS {
            self.multiply(&p, &mut q)?;
            let alpha = rho / self.dot(&p, &q)?;
            z.iter_mut().zip(&p).for_each(|(z, p)| *z += alpha * p);
            r.iter_mut().zip(&q).for_each(|(r, q)| *r -= alpha * q);
            let before = std::mem::replace(&mut rho, self.dot(&r, &r)?);
            let beta = rho / before;
            p.iter_mut().zip(&r).for_each(|(p, r)| *p = r + beta * *p);
        }
        // The benchmark also asks for the residual of the solution.
        self.multiply(&z, &mut q)?;
        let rest: Vec<f64> = x.iter().zip(&q).map(|(x, q)| x - q).collect();
        let residual = self.dot(&rest, &rest)?.sqrt();
        if !residual.is_finite() {
            return Err(Failure::Wrong("the solution is not finite".to_owned()));
        }
        let estimate = self.problem.shift + 1.0 / self.dot(x, &z)?;
        self.z = z;
        Ok(estimate)
    }
}
