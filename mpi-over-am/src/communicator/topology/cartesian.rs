//! Grids (MPI 5.0 sections 8.5.1 and 8.5.5 to 8.5.7).

use crate::error::{Error, ErrorClass, Result};

/// A grid of tasks in row-major order: the last dimension varies fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cartesian {
    dimensions: Vec<u32>,
    periods: Vec<bool>,
}

/// The two tasks with which a task exchanges data in a shift (`MPI_Cart_shift`); `None` beyond the edge of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shift {
    /// The rank from which this task receives.
    pub source: Option<u32>,
    /// The rank to which this task sends.
    pub dest: Option<u32>,
}

impl Cartesian {
    /// A grid of these sizes, periodic in the dimensions marked in `periods`. Without dimensions it has one task.
    ///
    /// # Errors
    /// A size of 0; 2^32 - 1 tasks or more; different numbers of periods and sizes.
    pub fn new(dimensions: &[u32], periods: &[bool]) -> Result<Self> {
        if dimensions.len() != periods.len() {
            let (given, expected) = (periods.len(), dimensions.len());
            return Err(Error::Count { call: "a grid's periods", given, expected });
        }
        let tasks = dimensions
            .iter()
            .try_fold(1u32, |all, &size| all.checked_mul(size).filter(|&all| all > 0 && all < u32::MAX));
        if tasks.is_none() {
            let what = "each dimension needs at least 1 task, and the grid fewer than 2^32 - 1; the value is the number of dimensions";
            return Err(Error::refused(ErrorClass::Dimensions, "a grid", what, length(dimensions.len())));
        }
        Ok(Self { dimensions: dimensions.to_vec(), periods: periods.to_vec() })
    }

    /// The sizes (`MPI_Cart_get`).
    #[must_use]
    pub fn dimensions(&self) -> &[u32] {
        &self.dimensions
    }

    /// For each dimension, whether it is periodic (`MPI_Cart_get`).
    #[must_use]
    pub fn periods(&self) -> &[bool] {
        &self.periods
    }

    /// Number of tasks.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.dimensions.iter().product()
    }

    /// The task at these coordinates (`MPI_Cart_rank`), which wrap around in periodic dimensions.
    ///
    /// # Errors
    /// Coordinates outside the grid; different numbers of coordinates and dimensions.
    pub fn rank(&self, coordinates: &[i32]) -> Result<u32> {
        if coordinates.len() != self.dimensions.len() {
            let (given, expected) = (coordinates.len(), self.dimensions.len());
            return Err(Error::Count { call: "Cartesian::rank", given, expected });
        }
        let mut rank = 0;
        for ((&at, &size), &is_round) in coordinates.iter().zip(&self.dimensions).zip(&self.periods) {
            let at = place(i64::from(at), size, is_round).ok_or_else(|| {
                let what =
                    "a coordinate is outside a dimension that is not periodic; the value is the coordinate";
                Error::refused(ErrorClass::Argument, "Cartesian::rank", what, i64::from(at))
            })?;
            rank = rank * size + at;
        }
        Ok(rank)
    }

    /// The coordinates of a task (`MPI_Cart_coords`).
    ///
    /// # Errors
    /// A rank that the grid does not have.
    pub fn coordinates(&self, rank: u32) -> Result<Vec<u32>> {
        if rank >= self.size() {
            return Err(Error::UnknownRank { rank, size: self.size() });
        }
        let mut rest = rank;
        let mut places: Vec<u32> = self
            .dimensions
            .iter()
            .rev()
            .map(|&size| {
                let at = rest % size;
                rest /= size;
                at
            })
            .collect();
        places.reverse();
        Ok(places)
    }

    /// The tasks with which `rank` exchanges data in a shift by `distance` along a dimension (`MPI_Cart_shift`).
    ///
    /// # Errors
    /// A dimension or a rank that the grid does not have.
    pub fn shift(&self, rank: u32, dimension: usize, distance: i32) -> Result<Shift> {
        let places = self.coordinates(rank)?;
        let Some((&size, &is_round)) = self.dimensions.get(dimension).zip(self.periods.get(dimension)) else {
            let what = "there is no such dimension; the value is the dimension";
            return Err(Error::refused(ErrorClass::Dimensions, "Cartesian::shift", what, length(dimension)));
        };
        let stride: u32 = self.dimensions[dimension + 1..].iter().product();
        let here = places[dimension];
        let at = |distance: i64| {
            let there = place(i64::from(here) + distance, size, is_round)?;
            Some(rank - here * stride + there * stride)
        };
        Ok(Shift { source: at(-i64::from(distance)), dest: at(i64::from(distance)) })
    }
}

fn place(at: i64, size: u32, is_round: bool) -> Option<u32> {
    let at = if is_round { at.rem_euclid(i64::from(size)) } else { at };
    u32::try_from(at).ok().filter(|&at| at < size)
}

fn length(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_ranks_are_each_others_reverse() {
        let grid = Cartesian::new(&[3, 1, 4], &[true, false, false]).unwrap();
        assert_eq!(grid.size(), 12);
        for rank in 0..12 {
            let places: Vec<i32> =
                grid.coordinates(rank).unwrap().iter().map(|at| at.cast_signed()).collect();
            assert_eq!(grid.rank(&places).unwrap(), rank);
        }
        assert_eq!(grid.rank(&[-1, 0, 3]).unwrap(), 11);
        assert_eq!(grid.rank(&[0, 0, 4]).unwrap_err().class(), ErrorClass::Argument);
        assert_eq!(grid.rank(&[0, 0]).unwrap_err().class(), ErrorClass::Count);
        assert_eq!(grid.coordinates(12).unwrap_err().class(), ErrorClass::Rank);
    }

    #[test]
    fn shifts_stop_at_edges_and_go_round() {
        let grid = Cartesian::new(&[3, 4], &[true, false]).unwrap();
        assert_eq!(grid.shift(1, 0, 1).unwrap(), Shift { source: Some(9), dest: Some(5) });
        assert_eq!(grid.shift(4, 1, 1).unwrap(), Shift { source: None, dest: Some(5) });
        assert_eq!(grid.shift(7, 1, 1).unwrap(), Shift { source: Some(6), dest: None });
        assert_eq!(grid.shift(5, 1, -2).unwrap(), Shift { source: Some(7), dest: None });
        assert_eq!(grid.shift(5, 0, 7).unwrap(), Shift { source: Some(1), dest: Some(9) });
        assert_eq!(grid.shift(0, 2, 1).unwrap_err().class(), ErrorClass::Dimensions);
    }

    #[test]
    fn grids_that_cannot_be_are_refused() {
        assert_eq!(Cartesian::new(&[], &[]).unwrap().size(), 1);
        assert_eq!(Cartesian::new(&[2, 0], &[true, true]).unwrap_err().class(), ErrorClass::Dimensions);
        assert_eq!(
            Cartesian::new(&[u32::MAX, 2], &[true, true]).unwrap_err().class(),
            ErrorClass::Dimensions
        );
        assert_eq!(Cartesian::new(&[2], &[]).unwrap_err().class(), ErrorClass::Count);
    }
}
