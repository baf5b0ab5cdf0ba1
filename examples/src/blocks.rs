//! Equations along a line in which the five numbers of a point depend on each other and on those of both neighbours: a block tridiagonal
//! matrix of 5 x 5 blocks, solved by Gaussian elimination without pivoting.

use crate::directions::{Elimination, Piece};
use crate::gas::{Matrix, State, derivatives};

/// Elimination with the derivatives of flux and diffusion as blocks.
#[derive(Debug, Default)]
pub struct Blocks {
    /// Derivatives at the states of a piece.
    derivatives: Vec<(Matrix, Matrix)>,
}

/// A row for each of the five numbers of a point: the number is the last entry minus the sum of the products of the other entries with the
/// five numbers of the next point.
type Row = [[f64; 6]; 5];

impl Elimination for Blocks {
    const REACH: usize = 1;
    type Row = Row;

    fn eliminate(&mut self, piece: &Piece<'_>, rows: &mut [Row]) {
        let [of_flux, of_diffusion] = piece.weights;
        self.derivatives.clear();
        self.derivatives.extend(piece.states.iter().map(|state| derivatives(state, piece.direction)));
        for (at, (goal, around)) in piece.goals.iter().zip(self.derivatives.windows(3)).enumerate() {
            let (done, left) = rows.split_at_mut(at + 1);
            let (before, row) = (&done[at], &mut left[0]);
            // The point's own block, and the right-hand side.
            let mut own = Row::default();
            for (i, (own, diffusion)) in own.iter_mut().zip(&around[1].1).enumerate() {
                own.iter_mut().zip(diffusion).for_each(|(own, by)| *own = 2.0 * of_diffusion * by);
                own[i] += 1.0;
                own[5] = goal[i];
            }
            // Eliminates the previous point with that point's row.
            for (own, factors) in own.iter_mut().zip(&weighted(&around[0], of_flux, of_diffusion)) {
                for (factor, row) in factors.iter().zip(before) {
                    own.iter_mut().zip(row).for_each(|(own, entry)| *own += factor * entry);
                }
            }
            let behind = weighted(&around[2], of_flux, -of_diffusion);
            for (row, (own, behind)) in row.iter_mut().zip(own.iter().zip(&behind)) {
                row[..5].copy_from_slice(behind);
                row[5] = own[5];
            }
            solve(&mut own, row);
        }
    }

    #[inline(always)]
    fn unknown(row: &Row, behind: &[State]) -> State {
        row.map(|row| row[5] - (0..5).map(|at| row[at] * behind[0][at]).sum::<f64>())
    }
}

#[inline(always)]
fn weighted((flux, diffusion): &(Matrix, Matrix), of_flux: f64, of_diffusion: f64) -> Matrix {
    let mut sum = Matrix::default();
    for (sum, (flux, diffusion)) in sum.iter_mut().zip(flux.iter().zip(diffusion)) {
        for (sum, (flux, diffusion)) in sum.iter_mut().zip(flux.iter().zip(diffusion)) {
            *sum = of_flux * flux + of_diffusion * diffusion;
        }
    }
    sum
}

/// Eliminates the point's own block from `row`, which holds the block of the next point and the right-hand side.
#[inline(always)]
fn solve(own: &mut Row, row: &mut Row) {
    for pivot in 0..5 {
        let inverse = 1.0 / own[pivot][pivot];
        own[pivot][pivot + 1..5].iter_mut().for_each(|entry| *entry *= inverse);
        row[pivot].iter_mut().for_each(|entry| *entry *= inverse);
        let (of_pivot, row_of_pivot) = (own[pivot], row[pivot]);
        for below in pivot + 1..5 {
            let factor = own[below][pivot];
            (pivot + 1..5).for_each(|column| own[below][column] -= factor * of_pivot[column]);
            subtract(&mut row[below], factor, &row_of_pivot);
        }
    }
    for pivot in (1..5).rev() {
        let row_of_pivot = row[pivot];
        (0..pivot).for_each(|above| subtract(&mut row[above], own[above][pivot], &row_of_pivot));
    }
}

#[inline(always)]
fn subtract(from: &mut [f64; 6], factor: f64, row: &[f64; 6]) {
    from.iter_mut().zip(row).for_each(|(from, entry)| *from -= factor * entry);
}
