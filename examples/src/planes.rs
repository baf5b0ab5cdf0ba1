//! A periodic cube of numbers whose planes are distributed over the tasks, with a layer of copies around each task's part.
//!
//! Tasks may have unequal numbers of planes. A task without planes may still need the two planes around its empty range. Indices count the
//! copies: the planes of the task, and the rows and elements of a plane, begin at 1.

use std::ops::Range;

use mpi_over_am::Communicator;

use crate::Failure;
use crate::nas::first_of;

/// The distribution of the planes of a cube over the tasks, from the view of one task.
#[derive(Clone, Debug)]
pub struct Share {
    /// Number of planes, of rows in a plane, and of elements in a row.
    size: usize,
    /// This task's planes.
    own: Range<usize>,
    /// The tasks that have the plane before this task's planes and the plane after them; `None` if this task does not need these planes.
    sources: Option<[u32; 2]>,
    /// Planes of this task that other tasks need: the plane's index in [`Cube`], the other task, and on which side of that task's planes.
    wanted: Vec<(usize, u32, usize)>,
}

impl Share {
    /// The shares of task `rank` in cubes of `size`, of half that size, and so on, down to 2. The planes of a smaller cube are every second
    /// plane of the larger cube, and belong to the same tasks.
    #[must_use]
    pub fn halved(size: usize, rank: u32, tasks: u32) -> Vec<Self> {
        let mut bounds: Vec<usize> = (0..=tasks).map(|rank| first_of(rank, tasks, size)).collect();
        let mut is_active = vec![false; tasks as usize];
        let mut shares = Vec::new();
        let mut size = size;
        while size >= 2 {
            // A task with planes of the larger cube needs the planes of the smaller cube around them.
            for (is_active, bounds) in is_active.iter_mut().zip(bounds.windows(2)) {
                *is_active |= bounds[0] < bounds[1];
            }
            shares.push(Self::new(size, rank, &bounds, &is_active));
            is_active = bounds.windows(2).map(|bounds| bounds[0] < bounds[1]).collect();
            bounds.iter_mut().for_each(|bound| *bound /= 2);
            size /= 2;
        }
        shares
    }

    fn new(size: usize, rank: u32, bounds: &[usize], is_active: &[bool]) -> Self {
        let around = |task: usize| [(bounds[task] + size - 1) % size, bounds[task + 1] % size];
        let owner_of = |plane: usize| {
            (0..).zip(bounds.windows(2)).find(|(_, bounds)| bounds[0] <= plane && plane < bounds[1])
        };
        let sources = |task: usize| {
            around(task).map(|plane| owner_of(plane).map(|(task, _)| task).expect("each plane has its owner"))
        };
        let place = rank as usize;
        let own = bounds[place]..bounds[place + 1];
        let mut wanted = Vec::new();
        for (task, _) in (0_u32..).zip(is_active).filter(|(task, is_active)| **is_active && *task != rank) {
            for (side, plane) in around(task as usize).into_iter().enumerate() {
                if own.contains(&plane) {
                    wanted.push((plane - own.start + 1, task, side));
                }
            }
        }
        Self { size, own, sources: is_active[place].then(|| sources(place)), wanted }
    }

    /// Elements of a row, without the copies.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// This task's planes.
    #[must_use]
    pub fn own(&self) -> Range<usize> {
        self.own.clone()
    }
}

/// The numbers of one task.
#[derive(Debug)]
pub struct Cube {
    share: Share,
    values: Vec<f64>,
}

impl Cube {
    /// A cube of zeros.
    #[must_use]
    pub fn new(share: &Share) -> Self {
        let row = share.size + 2;
        Self { share: share.clone(), values: vec![0.0; row * row * (share.own.len() + 2)] }
    }

    /// The distribution of the cube over the tasks.
    #[must_use]
    pub fn share(&self) -> &Share {
        &self.share
    }

    /// All numbers, copies too.
    pub fn values_mut(&mut self) -> &mut [f64] {
        &mut self.values
    }

    /// This task's planes, as indices.
    #[must_use]
    pub fn planes(&self) -> Range<usize> {
        1..self.share.own.len() + 1
    }

    /// The indices of the rows of a plane that are not copies, and of the elements of a row.
    #[must_use]
    pub fn inside(&self) -> Range<usize> {
        1..self.share.size + 1
    }

    /// A row, with the copies at both ends.
    #[inline(always)]
    #[must_use]
    pub fn row(&self, plane: usize, row: usize) -> &[f64] {
        let width = self.share.size + 2;
        &self.values[(plane * width + row) * width..][..width]
    }

    /// A row, with the copies at both ends.
    #[inline(always)]
    pub fn row_mut(&mut self, plane: usize, row: usize) -> &mut [f64] {
        let width = self.share.size + 2;
        &mut self.values[(plane * width + row) * width..][..width]
    }

    /// The sum of the squares of this task's elements.
    #[must_use]
    pub fn sum_of_squares(&self) -> f64 {
        let rows = self.planes().flat_map(|plane| self.inside().map(move |row| (plane, row)));
        rows.map(|(plane, row)| {
            self.row(plane, row)[self.inside()].iter().map(|value| value * value).sum::<f64>()
        })
        .sum()
    }

    /// Collective: updates the copies from the planes, rows and elements that they copy.
    ///
    /// # Errors
    /// An error of MPI.
    pub fn refresh(&mut self, world: &Communicator) -> Result<(), Failure> {
        for plane in self.planes() {
            self.close_rows(plane);
        }
        let of_plane = (self.share.size + 2) * (self.share.size + 2);
        let own_len = of_plane * self.share.own.len();
        let (below, rest) = self.values.split_at_mut(of_plane);
        let (own, above) = rest.split_at_mut(own_len);
        let own = &*own;
        let plane_of = |plane: usize| &own[(plane - 1) * of_plane..plane * of_plane];
        let mut sides = [below, above];
        if let Some(sources) = self.share.sources {
            // The plane before the first one is the last one, if the neighbour is this task.
            let neighbours = [self.share.own.len(), 1];
            for ((side, source), plane) in sides.iter_mut().zip(sources).zip(neighbours) {
                if source == world.rank() {
                    side.copy_from_slice(plane_of(plane));
                }
            }
        }
        world.scope(|scope| {
            let mut requests = Vec::with_capacity(2 + self.share.wanted.len());
            for (tag, (side, source)) in
                (0..).zip(sides.into_iter().zip(self.share.sources.into_iter().flatten()))
            {
                if source != world.rank() {
                    requests.push(scope.irecv(side, source, tag)?);
                }
            }
            for &(plane, task, side) in &self.share.wanted {
                requests.push(scope.isend(plane_of(plane), task, i32::from(side == 1))?);
            }
            scope.wait_all(requests)
        })?;
        Ok(())
    }

    /// Updates the copies at the ends of the rows of a plane, and the rows before the first and after the last one.
    fn close_rows(&mut self, plane: usize) {
        let size = self.share.size;
        for row in self.inside() {
            let row = self.row_mut(plane, row);
            (row[0], row[size + 1]) = (row[size], row[1]);
        }
        let width = size + 2;
        let plane = &mut self.values[plane * width * width..][..width * width];
        plane.copy_within(size * width..(size + 1) * width, 0);
        plane.copy_within(width..2 * width, (size + 1) * width);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plane_that_a_task_needs_is_sent_by_the_one_that_it_waits_for() {
        for tasks in [1, 2, 3, 5, 8, 11, 40] {
            let shares: Vec<_> = (0..tasks).map(|rank| Share::halved(32, rank, tasks)).collect();
            assert!(shares.iter().all(|of_task| of_task.len() == 5));
            for level in 0..5 {
                let size = shares[0][level].size;
                let planes: usize = shares.iter().map(|of_task| of_task[level].own.len()).sum();
                assert_eq!(planes, size);
                for rank in 0..tasks {
                    let share = &shares[rank as usize][level];
                    for (side, source) in share.sources.into_iter().flatten().enumerate() {
                        let plane = [(share.own.start + size - 1) % size, share.own.end % size][side];
                        let from = &shares[source as usize][level];
                        assert!(from.own.contains(&plane));
                        let sent = (plane - from.own.start + 1, rank, side);
                        assert_eq!(from.wanted.contains(&sent), source != rank);
                    }
                }
                let sent: usize = shares.iter().map(|of_task| of_task[level].wanted.len()).sum();
                let other = |(rank, share): (usize, &Vec<Share>)| {
                    share[level]
                        .sources
                        .into_iter()
                        .flatten()
                        .filter(|source| *source as usize != rank)
                        .count()
                };
                assert_eq!(sent, shares.iter().enumerate().map(other).sum::<usize>());
            }
        }
    }
}
