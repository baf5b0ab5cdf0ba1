//! Redistributes a block of numbers over the tasks from planes to curtains: the exchange in the middle of a three-dimensional transform.
//!
//! A plane has one z, a curtain has one y. Element (x, y, z) belongs to the task that has its z while the block is distributed by planes,
//! and to the task that has its y while the block is distributed by curtains. Rows along x stay whole, so copies are always contiguous.
//! Tasks may have unequal shares, or none: any number of tasks will do.

use std::ops::Range;

use mpi_over_am::{Communicator, Placement};

use crate::Failure;
use crate::fft::Complex;
use crate::nas::first_of;

/// An element of a message.
type Pair = [f64; 2];

/// The distribution of a block, and the messages of one exchange.
#[derive(Debug)]
pub struct Turn<'a> {
    world: &'a Communicator,
    width: usize,
    /// The number of each task's first plane, and one past the last plane.
    planes: Vec<usize>,
    /// The number of each task's first curtain, and one past the last curtain.
    curtains: Vec<usize>,
    /// For each task, the part of its curtains that lies in this task's planes.
    on_planes: Vec<Pair>,
    /// For each task, the part of its planes that lies in this task's curtains.
    on_curtains: Vec<Pair>,
}

impl<'a> Turn<'a> {
    /// Prepares the exchange for a block of `width` times `height` times `depth` elements along x, y and z.
    #[must_use]
    pub fn new(world: &'a Communicator, [width, height, depth]: [usize; 3]) -> Self {
        let shares = |of: usize| (0..=world.size()).map(|rank| first_of(rank, world.size(), of)).collect();
        let (planes, curtains): (Vec<usize>, Vec<usize>) = (shares(depth), shares(height));
        let rank = world.rank() as usize;
        let vector =
            |own: &[usize], across| vec![Pair::default(); (own[rank + 1] - own[rank]) * across * width];
        let (on_planes, on_curtains) = (vector(&planes, height), vector(&curtains, depth));
        Self { world, width, planes, curtains, on_planes, on_curtains }
    }

    /// This task's planes, by z.
    #[must_use]
    pub fn own_planes(&self) -> Range<usize> {
        own(self.world, &self.planes)
    }

    /// This task's curtains, by y.
    #[must_use]
    pub fn own_curtains(&self) -> Range<usize> {
        own(self.world, &self.curtains)
    }

    /// Copies plane `z`, one of this task's, by rows, into the messages.
    pub fn put_plane(&mut self, z: usize, plane: &[Complex]) {
        let (width, at) = (self.width, z - self.own_planes().start);
        let depth = self.own_planes().len();
        for range in shares(&self.curtains) {
            let slots = part(&range, at, depth, width);
            let rows = &plane[range.start * width..range.end * width];
            for (to, from) in self.on_planes[slots].iter_mut().zip(rows) {
                *to = (*from).into();
            }
        }
    }

    /// Copies plane `z`, one of this task's, out of the messages.
    pub fn take_plane(&self, z: usize, plane: &mut [Complex]) {
        let (width, at) = (self.width, z - self.own_planes().start);
        let depth = self.own_planes().len();
        for range in shares(&self.curtains) {
            let rows = &mut plane[range.start * width..range.end * width];
            for (to, from) in rows.iter_mut().zip(&self.on_planes[part(&range, at, depth, width)]) {
                *to = (*from).into();
            }
        }
    }

    /// Copies curtain `y`, one of this task's, out of the messages; its rows are by z.
    pub fn take_curtain(&self, y: usize, curtain: &mut [Complex]) {
        for (z, row) in curtain.chunks_exact_mut(self.width).enumerate() {
            for (to, from) in row.iter_mut().zip(&self.on_curtains[self.row_of_curtain(y, z)]) {
                *to = (*from).into();
            }
        }
    }

    /// Copies curtain `y`, one of this task's, into the messages.
    pub fn put_curtain(&mut self, y: usize, curtain: &[Complex]) {
        for (z, row) in curtain.chunks_exact(self.width).enumerate() {
            let place = self.row_of_curtain(y, z);
            for (to, from) in self.on_curtains[place].iter_mut().zip(row) {
                *to = (*from).into();
            }
        }
    }

    /// Collective: redistributes the block from planes to curtains.
    ///
    /// # Errors
    /// An error of MPI.
    pub fn to_curtains(&mut self) -> Result<(), Failure> {
        let (here, there) = self.placements();
        self.world
            .alltoallv((&self.on_planes, here.placement()), (&mut self.on_curtains, there.placement()))?;
        Ok(())
    }

    /// Collective: redistributes the block from curtains to planes.
    ///
    /// # Errors
    /// An error of MPI.
    pub fn to_planes(&mut self) -> Result<(), Failure> {
        let (here, there) = self.placements();
        self.world
            .alltoallv((&self.on_curtains, there.placement()), (&mut self.on_planes, here.placement()))?;
        Ok(())
    }

    /// The row at `z` of curtain `y` in the messages. The messages are stored one after the other in the order of their planes, like one
    /// long message.
    fn row_of_curtain(&self, y: usize, z: usize) -> Range<usize> {
        let own = self.own_curtains();
        let start = (z * own.len() + y - own.start) * self.width;
        start..start + self.width
    }

    /// Where the messages lie in `on_planes`, and where in `on_curtains`.
    fn placements(&self) -> (Parts, Parts) {
        let (depth, height) = (self.own_planes().len(), self.own_curtains().len());
        let parts = |bounds: &[usize], across: usize| Parts {
            counts: shares(bounds).map(|range| range.len() * across * self.width).collect(),
            displacements: shares(bounds).map(|range| range.start * across * self.width).collect(),
        };
        (parts(&self.curtains, depth), parts(&self.planes, height))
    }
}

struct Parts {
    counts: Vec<usize>,
    displacements: Vec<usize>,
}

impl Parts {
    fn placement(&self) -> Placement<'_> {
        Placement { counts: &self.counts, displacements: &self.displacements }
    }
}

fn shares(bounds: &[usize]) -> impl Iterator<Item = Range<usize>> + use<'_> {
    bounds.windows(2).map(|bounds| bounds[0]..bounds[1])
}

fn own(world: &Communicator, bounds: &[usize]) -> Range<usize> {
    let rank = world.rank() as usize;
    bounds[rank]..bounds[rank + 1]
}

/// The range of plane `at` of `depth` in the message to the task that has these curtains.
fn part(curtains: &Range<usize>, at: usize, depth: usize, width: usize) -> Range<usize> {
    let start = (curtains.start * depth + at * curtains.len()) * width;
    start..start + curtains.len() * width
}
