//! A cube of points whose columns along z are distributed over a grid of tasks, with two layers of copies around each task's tile.
//!
//! The grid is an MPI Cartesian topology that is not periodic: at the faces of the cube there is no neighbour, and a send to `None` or a
//! receive from `None` does nothing. Tasks that would have too few points are not in the grid.

use std::ops::Range;

use bytemuck::Zeroable;
use mpi_over_am::{Communicator, Equivalence};

use crate::Failure;
use crate::nas::first_of;

/// Number of layers of copies around a tile, and minimum number of points along a side of a tile.
const LAYERS: usize = 2;
/// Tags of the edges across x and y.
const EDGE_TAGS: [i32; 2] = [2, 3];

/// For the lines along each direction: the direction that numbers their planes, and the direction that numbers the lines of a plane.
const ACROSS: [[usize; 2]; 3] = [[2, 1], [2, 0], [1, 0]];

/// The side on which a neighbour lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The side of smaller indices.
    Low,
    /// The side of larger indices.
    High,
}

impl Side {
    /// The opposite side.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Low => Self::High,
            Self::High => Self::Low,
        }
    }
}

/// Number of tasks along x and y for a cube of `size` points along a side: as many of `tasks` as possible, in a grid that is as square as
/// possible.
#[must_use]
pub fn grid_of(tasks: u32, size: usize) -> [u32; 2] {
    let divided = |tasks: u32| {
        let along_x = (1..=tasks)
            .take_while(|x| x * x <= tasks)
            .filter(|x| tasks.is_multiple_of(*x))
            .max()
            .unwrap_or(1);
        [along_x, tasks / along_x]
    };
    let fits = |grid: &[u32; 2]| size / grid[1] as usize >= LAYERS;
    (1..=tasks).rev().map(divided).find(fits).unwrap_or([1, 1])
}

/// One task's part of the cube. Positions are those in the whole cube.
#[derive(Debug)]
pub struct Tile<'a> {
    grid: &'a Communicator,
    size: usize,
    own: [Range<usize>; 3],
    /// By direction: the neighbour at smaller indices, and the one at larger indices.
    neighbours: [[Option<u32>; 2]; 3],
}

impl<'a> Tile<'a> {
    /// This task's part of a cube of `size` points along a side. `grid` must have a Cartesian topology: tasks along y, then along x.
    ///
    /// # Errors
    /// An error of MPI.
    pub fn new(grid: &'a Communicator, size: usize) -> Result<Self, Failure> {
        let topology = grid.cartesian()?;
        let at = topology.coordinates(grid.rank())?;
        let own = |dimension: usize| {
            let (place, tasks) = (at[dimension], topology.dimensions()[dimension]);
            first_of(place, tasks, size)..first_of(place + 1, tasks, size)
        };
        let neighbours = |dimension| {
            let shift = topology.shift(grid.rank(), dimension, 1)?;
            Ok::<_, Failure>([shift.source, shift.dest])
        };
        let neighbours = [neighbours(1)?, neighbours(0)?, [None; 2]];
        Ok(Self { grid, size, own: [own(1), own(0), 0..size], neighbours })
    }

    /// The communicator of the tasks that have tiles.
    #[must_use]
    pub fn grid(&self) -> &'a Communicator {
        self.grid
    }

    /// Points along a side of the cube.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// This task's positions along a direction.
    #[must_use]
    pub fn own(&self, direction: usize) -> Range<usize> {
        self.own[direction].clone()
    }

    /// This task's positions along a direction that are not on a face of the cube.
    #[inline(always)]
    #[must_use]
    pub fn inside(&self, direction: usize) -> Range<usize> {
        let own = &self.own[direction];
        own.start.max(1)..own.end.min(self.size - 1)
    }

    /// The planes inside the cube that hold lines along a direction.
    #[must_use]
    pub fn planes(&self, direction: usize) -> Range<usize> {
        self.inside(ACROSS[direction][0])
    }

    /// For each line along `direction` in `plane`: the index in a field of the line's first point inside the cube.
    pub fn lines(&self, direction: usize, plane: usize) -> impl ExactSizeIterator<Item = usize> + use<> {
        let [of_planes, of_lines] = ACROSS[direction];
        let mut place = [0, 1, 2].map(|direction| self.inside(direction).start);
        place[of_planes] = plane;
        let (first, apart) = (self.at(place), self.strides()[of_lines]);
        (0..self.inside(of_lines).len()).map(move |line| first + line * apart)
    }

    /// The task that has the positions next to this task's: `None` beyond the faces of the cube.
    #[must_use]
    pub fn neighbour(&self, direction: usize, side: Side) -> Option<u32> {
        self.neighbours[direction][side as usize]
    }

    /// Distance in a field between neighbours along each direction.
    #[inline(always)]
    #[must_use]
    pub fn strides(&self) -> [usize; 3] {
        let row = self.own[0].len() + 2 * LAYERS;
        [1, row, row * (self.own[1].len() + 2 * LAYERS)]
    }

    /// Index of a position in a field.
    #[inline(always)]
    #[must_use]
    pub fn at(&self, place: [usize; 3]) -> usize {
        let strides = self.strides();
        (0..3)
            .map(|direction| (place[direction] + LAYERS - self.own[direction].start) * strides[direction])
            .sum()
    }

    /// A field with `value` of each position, copies included; zero beyond the faces of the cube.
    #[must_use]
    pub fn field<T: Equivalence + Copy + Zeroable>(&self, value: impl Fn([usize; 3]) -> T) -> Vec<T> {
        let strides = self.strides();
        let mut field = vec![T::zeroed(); strides[2] * (self.size + 2 * LAYERS)];
        let known = |direction: usize| {
            let own = &self.own[direction];
            own.start.saturating_sub(LAYERS)..(own.end + LAYERS).min(self.size)
        };
        for z in known(2) {
            for y in known(1) {
                for x in known(0) {
                    field[self.at([x, y, z])] = value([x, y, z]);
                }
            }
        }
        field
    }

    /// Collective: updates the copies. Points beyond the tile in both x and y are not needed, and not sent.
    ///
    /// # Errors
    /// An error of MPI.
    pub fn refresh<T: Equivalence + Copy + Zeroable>(&self, field: &mut [T]) -> Result<(), Failure> {
        let (mut send, mut receive) = (Vec::new(), Vec::new());
        for direction in 0..2 {
            let own = self.own(direction);
            for (side, leaving, coming) in [
                (Side::Low, own.start..own.start + LAYERS, own.end..own.end + LAYERS),
                (Side::High, own.end - LAYERS..own.end, own.start.wrapping_sub(LAYERS)..own.start),
            ] {
                let (dest, source) =
                    (self.neighbour(direction, side), self.neighbour(direction, side.other()));
                send.clear();
                if dest.is_some() {
                    for layer in leaving {
                        send.extend(self.layer(direction, layer, self.own(2)).map(|at| field[at]));
                    }
                }
                let count = source.map_or(0, |_| LAYERS * self.across(direction) * self.size);
                receive.resize(count, T::zeroed());
                self.grid.sendrecv(&send, dest, side as i32, &mut receive, source, side as i32)?;
                if source.is_some() {
                    let places = coming.flat_map(|layer| self.layer(direction, layer, self.own(2)));
                    places.zip(&receive).for_each(|(at, value)| field[at] = *value);
                }
            }
        }
        Ok(())
    }

    /// Receives the copies in plane `z` next to this task's points on `side`, from the neighbours along x and y. `line` is a buffer.
    ///
    /// # Errors
    /// An error of MPI.
    pub fn receive_edges<T: Equivalence + Copy + Zeroable>(
        &self,
        field: &mut [T],
        z: usize,
        side: Side,
        line: &mut Vec<T>,
    ) -> Result<(), Failure> {
        for (direction, tag) in EDGE_TAGS.into_iter().enumerate() {
            let Some(source) = self.neighbour(direction, side) else { continue };
            let own = self.own(direction);
            let layer = if side == Side::Low { own.start - 1 } else { own.end };
            line.resize(self.across(direction), T::zeroed());
            self.grid.recv(line, source, tag)?;
            self.layer(direction, layer, z..z + 1).zip(&*line).for_each(|(at, value)| field[at] = *value);
        }
        Ok(())
    }

    /// Sends this task's outermost points on `side` in plane `z` to the neighbours along x and y. `line` is a buffer.
    ///
    /// # Errors
    /// An error of MPI.
    pub fn send_edges<T: Equivalence + Copy>(
        &self,
        field: &[T],
        z: usize,
        side: Side,
        line: &mut Vec<T>,
    ) -> Result<(), Failure> {
        for (direction, tag) in EDGE_TAGS.into_iter().enumerate() {
            let Some(dest) = self.neighbour(direction, side) else { continue };
            let own = self.own(direction);
            let layer = if side == Side::Low { own.start } else { own.end - 1 };
            line.clear();
            line.extend(self.layer(direction, layer, z..z + 1).map(|at| field[at]));
            self.grid.send(line, dest, tag)?;
        }
        Ok(())
    }

    /// Number of this task's positions along y if `direction` is x, and along x if it is y.
    fn across(&self, direction: usize) -> usize {
        self.own[1 - direction].len()
    }

    /// The indices of this task's points in a layer across `direction`, plane by plane.
    fn layer(
        &self,
        direction: usize,
        layer: usize,
        planes: Range<usize>,
    ) -> impl Iterator<Item = usize> + use<'_, 'a> {
        planes.flat_map(move |z| {
            self.own(1 - direction).map(move |across| {
                self.at(if direction == 0 { [layer, across, z] } else { [across, layer, z] })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_as_large_as_tiles_allow() {
        assert_eq!(grid_of(1, 12), [1, 1]);
        assert_eq!(grid_of(2, 12), [1, 2]);
        assert_eq!(grid_of(3, 12), [1, 3]);
        assert_eq!(grid_of(4, 12), [2, 2]);
        assert_eq!(grid_of(12, 12), [3, 4]);
        assert_eq!(grid_of(7, 12), [2, 3], "seven in a row would have less than two points each");
        assert_eq!(grid_of(1000, 12), [6, 6]);
    }
}
