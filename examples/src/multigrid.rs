//! A multigrid cycle for a periodic problem on cubes whose planes are distributed over the tasks.
//!
//! All operators except the interpolation weigh the 27 points around a point by their distance: the point itself, those with a common face,
//! a common edge, a common corner. Each cube has half as many points along a side as the one before it.

use mpi_over_am::Communicator;

use crate::Failure;
use crate::planes::{Cube, Share};

/// Weights of a point itself, and of the points with a common face, a common edge, and a common corner.
pub type Weights = [f64; 4];

/// Restriction of residuals to the next smaller cube.
const RESTRICTION: Weights = [0.5, 0.25, 0.125, 0.0625];

/// The equation and how the program solves it.
#[derive(Clone, Copy, Debug)]
pub struct Operators {
    /// The operator of the equation.
    pub operator: Weights,
    /// An approximate inverse of the operator, for short waves.
    pub smoother: Weights,
}

/// Cubes of all sizes.
#[derive(Debug)]
pub struct Multigrid<'a> {
    world: &'a Communicator,
    operators: Operators,
    /// The solution, followed by corrections of it, from the largest cube to the smallest.
    solutions: Vec<Cube>,
    /// The residuals, likewise.
    residuals: Vec<Cube>,
    /// The right-hand side.
    goal: Cube,
}

impl<'a> Multigrid<'a> {
    /// Prepares the solution for a right-hand side; the first guess is zero. Collective.
    ///
    /// # Errors
    /// An error of MPI.
    pub fn new(world: &'a Communicator, operators: Operators, goal: Cube) -> Result<Self, Failure> {
        let shares = Share::halved(goal.share().size(), world.rank(), world.size());
        let cubes = || shares.iter().map(Cube::new).collect();
        let mut grid = Self { world, operators, solutions: cubes(), residuals: cubes(), goal };
        grid.find_residual()?;
        Ok(grid)
    }

    /// Starts again from a solution of zero. Collective.
    ///
    /// # Errors
    /// An error of MPI.
    pub fn reset(&mut self) -> Result<(), Failure> {
        self.solutions[0].values_mut().fill(0.0);
        self.find_residual()
    }

    /// The sum of the squares of the residual at this task's points.
    #[must_use]
    pub fn sum_of_squares(&self) -> f64 {
        self.residuals[0].sum_of_squares()
    }

    /// One cycle: down to the smallest cube with the residual, and back with corrections. Collective.
    ///
    /// # Errors
    /// An error of MPI.
    pub fn cycle(&mut self) -> Result<(), Failure> {
        let smallest = self.residuals.len() - 1;
        for level in 0..smallest {
            let (larger, smaller) = self.residuals.split_at_mut(level + 1);
            restrict(&larger[level], &mut smaller[0]);
            smaller[0].refresh(self.world)?;
        }
        self.solutions[smallest].values_mut().fill(0.0);
        self.smooth(smallest)?;
        for level in (0..smallest).rev() {
            let (larger, smaller) = self.solutions.split_at_mut(level + 1);
            if level > 0 {
                larger[level].values_mut().fill(0.0);
            }
            interpolate(&smaller[0], &mut larger[level]);
            match level {
                0 => self.find_residual()?,
                _ => self.correct_residual(level)?,
            }
            self.smooth(level)?;
        }
        self.find_residual()
    }

    /// Computes the residual of the largest cube.
    fn find_residual(&mut self) -> Result<(), Failure> {
        let (residual, goal) = (&mut self.residuals[0], &self.goal);
        each_row(&self.solutions[0], self.operators.operator, |plane, row, applied| {
            let residual = residual.row_mut(plane, row).iter_mut();
            for ((residual, goal), applied) in residual.zip(goal.row(plane, row)).zip(applied) {
                *residual = goal - applied;
            }
        });
        residual.refresh(self.world)
    }

    /// Subtracts the effect of the correction from the residual of a smaller cube.
    fn correct_residual(&mut self, level: usize) -> Result<(), Failure> {
        let residual = &mut self.residuals[level];
        each_row(&self.solutions[level], self.operators.operator, |plane, row, applied| {
            residual
                .row_mut(plane, row)
                .iter_mut()
                .zip(applied)
                .for_each(|(residual, applied)| *residual -= applied);
        });
        residual.refresh(self.world)
    }

    fn smooth(&mut self, level: usize) -> Result<(), Failure> {
        let solution = &mut self.solutions[level];
        each_row(&self.residuals[level], self.operators.smoother, |plane, row, applied| {
            solution
                .row_mut(plane, row)
                .iter_mut()
                .zip(applied)
                .for_each(|(solution, applied)| *solution += applied);
        });
        solution.refresh(self.world)
    }
}

/// Applies an operator to each row outside the halo (the layer of copies), and passes `hand_on` the indices of the plane and the row, and
/// the result. The first and the last element of the result are not meaningful.
fn each_row(cube: &Cube, weights: Weights, mut hand_on: impl FnMut(usize, usize, &[f64])) {
    let mut applied = Stencil::new(cube, weights);
    for plane in cube.planes() {
        for row in cube.inside() {
            hand_on(plane, row, applied.at(cube, plane, row));
        }
    }
}

/// An operator, and memory for a row.
struct Stencil {
    weights: Weights,
    /// Sums over the four rows that have a common face with a row, and over the four that have a common edge with it.
    faces: Vec<f64>,
    edges: Vec<f64>,
    applied: Vec<f64>,
}

impl Stencil {
    fn new(cube: &Cube, weights: Weights) -> Self {
        let vectors = || vec![0.0; cube.share().size() + 2];
        Self { weights, faces: vectors(), edges: vectors(), applied: vectors() }
    }

    /// The operator's result for one row. The points of other rows that share a face with a point of this row share an edge with the next
    /// point of this row, and those that share an edge with a point share a corner with the next one. So each sum over rows serves three
    /// points.
    #[inline(always)]
    fn at(&mut self, cube: &Cube, plane: usize, row: usize) -> &[f64] {
        let own = cube.row(plane, row);
        let [below, above] = [plane - 1, plane + 1].map(|plane| cube.row(plane, row));
        let [before, behind] = [row - 1, row + 1].map(|row| cube.row(plane, row));
        sum_of_rows([below, above, before, behind], &mut self.faces);
        let [a, b, c, d] = [(-1, -1), (-1, 1), (1, -1), (1, 1)]
            .map(|(z, y)| cube.row(plane.wrapping_add_signed(z), row.wrapping_add_signed(y)));
        sum_of_rows([a, b, c, d], &mut self.edges);
        let [of_point, of_faces, of_edges, of_corners] = self.weights;
        let inputs = own.windows(3).zip(self.faces.windows(3)).zip(self.edges.windows(3));
        for (applied, ((own, faces), edges)) in self.applied[1..].iter_mut().zip(inputs) {
            *applied = of_point * own[1]
                + of_faces * (own[0] + own[2] + faces[1])
                + of_edges * (faces[0] + faces[2] + edges[1])
                + of_corners * (edges[0] + edges[2]);
        }
        &self.applied
    }
}

#[inline(always)]
fn sum_of_rows([a, b, c, d]: [&[f64]; 4], sum: &mut [f64]) {
    for ((((sum, a), b), c), d) in sum.iter_mut().zip(a).zip(b).zip(c).zip(d) {
        *sum = a + b + c + d;
    }
}

/// Restricts residuals to the smaller cube, which has every second point. Each of its points gets a weighted sum of the same point of the
/// larger cube and that point's neighbours.
fn restrict(larger: &Cube, smaller: &mut Cube) {
    let mut applied = Stencil::new(larger, RESTRICTION);
    // The number of points before the first one of this task, in both cubes.
    let (before, before_smaller) = (larger.share().own().start, smaller.share().own().start);
    for plane in smaller.planes() {
        for row in smaller.inside() {
            let fine = applied.at(larger, 2 * (before_smaller + plane) - before, 2 * row);
            let coarse = smaller.row_mut(plane, row)[1..].iter_mut();
            coarse.zip(fine[2..].iter().step_by(2)).for_each(|(coarse, fine)| *coarse = *fine);
        }
    }
}

/// Interpolates from a smaller cube, and adds the result to a larger cube, including the copies in the larger cube.
fn interpolate(smaller: &Cube, larger: &mut Cube) {
    let (before, before_smaller) = (larger.share().own().start, smaller.share().own().start);
    let size = larger.share().size();
    let mut mean = vec![0.0; smaller.share().size() + 2];
    // A point that coincides with a point of the smaller cube has that point on both sides.
    let sides = |point: usize| [point / 2, point.div_ceil(2)];
    if larger.planes().is_empty() {
        return;
    }
    for plane in 0..larger.planes().end + 1 {
        let planes = sides(before + plane).map(|plane| plane - before_smaller);
        for row in 0..size + 2 {
            let rows = sides(row);
            let around = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(z, y)| smaller.row(planes[z], rows[y]));
            sum_of_rows(around, &mut mean);
            mean.iter_mut().for_each(|mean| *mean *= 0.25);
            let fine = larger.row_mut(plane, row);
            // The copies at both ends are treated like other points.
            for (pair, means) in fine.chunks_exact_mut(2).zip(mean.windows(2)) {
                pair[0] += means[0];
                pair[1] += 0.5 * (means[0] + means[1]);
            }
        }
    }
}
