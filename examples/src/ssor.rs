//! Successive over-relaxation, forward and backward, for the synthetic gas on tiles of a cube.
//!
//! A step solves the linear equations of the change of state approximately: a sweep that begins in one corner of the cube, where
//! a point needs its three neighbours at smaller places, and one that comes back. So tasks work as a wave that goes over their
//! grid; it is cut into planes, so that all have work before the first one is done.

use mpi_over_am::op;

use crate::Failure;
use crate::gas::{DAMPING, State, change, flux_and_diffusion, solve_diffusion};
use crate::tiles::{Side, Tile};

/// By how much more than the equations say a point changes.
const RELAXATION: f64 = 1.2;

/// The gas in one task's tile.
#[derive(Debug)]
pub struct Solver<'a> {
    tile: Tile<'a>,
    time_step: f64,
    states: Vec<State>,
    /// How fast each state changes; while a step is under way, its change. Zero on the faces of the cube.
    changes: Vec<State>,
    source: Vec<State>,
    /// Flux and diffusion along one line.
    line: Vec<(State, State)>,
    edge: Vec<State>,
}

impl<'a> Solver<'a> {
    /// With the source that makes `steady` the solution; places are given in the unit cube.
    #[must_use]
    pub fn new(tile: Tile<'a>, time_step: f64, steady: impl Fn([f64; 3]) -> State) -> Self {
        let nothing = || tile.field(|_| [0.0; 5]);
        let states = tile.field(|place| steady(in_unit_cube(place, tile.size())));
        let (changes, source) = (nothing(), nothing());
        let mut solver =
            Self { tile, time_step, states, changes, source, line: Vec::new(), edge: Vec::new() };
        // What it would change by itself is what the source must make up for.
        solver.find_changes();
        solver.source = solver.changes.iter().map(|change| change.map(|number| -number)).collect();
        solver
    }

    /// The tile.
    #[must_use]
    pub fn tile(&self) -> &Tile<'a> {
        &self.tile
    }

    /// The state at an own place.
    #[must_use]
    pub fn state(&self, place: [usize; 3]) -> &State {
        &self.states[self.tile.at(place)]
    }

    /// Begins with `state` of each place in the whole cube, given in the unit cube too.
    pub fn begin(&mut self, state: impl Fn([usize; 3], [f64; 3]) -> State) {
        let size = self.tile.size();
        self.states = self.tile.field(|place| state(place, in_unit_cube(place, size)));
        self.find_changes();
    }

    /// One step of time. Collective.
    ///
    /// # Errors
    /// What MPI reports.
    pub fn step(&mut self) -> Result<(), Failure> {
        let time_step = self.time_step;
        self.each_point(|_, change| change.iter_mut().for_each(|number| *number *= time_step));
        for z in self.tile.inside(2) {
            self.tile.receive_edges(&mut self.changes, z, Side::Low, &mut self.edge)?;
            self.sweep_forward(z);
            self.tile.send_edges(&self.changes, z, Side::High, &mut self.edge)?;
        }
        for z in self.tile.inside(2).rev() {
            self.tile.receive_edges(&mut self.changes, z, Side::High, &mut self.edge)?;
            self.sweep_backward(z);
            self.tile.send_edges(&self.changes, z, Side::Low, &mut self.edge)?;
        }
        let weight = 1.0 / (RELAXATION * (2.0 - RELAXATION));
        self.each_point(|state, change| {
            state.iter_mut().zip(change).for_each(|(state, change)| *state += weight * *change);
        });
        self.tile.refresh(&mut self.states)?;
        self.find_changes();
        Ok(())
    }

    /// The norms of the rates of change that are left. Collective.
    ///
    /// # Errors
    /// What MPI reports.
    pub fn norms_of_changes(&self) -> Result<State, Failure> {
        self.norms(|place| self.changes[self.tile.at(place)])
    }

    /// The norms of what `value` gives for each place inside of the cube. Collective.
    ///
    /// # Errors
    /// What MPI reports.
    #[expect(clippy::cast_precision_loss, reason = "points of a problem that fits into memory")]
    pub fn norms(&self, value: impl Fn([usize; 3]) -> State) -> Result<State, Failure> {
        let mut sums = [0.0; 5];
        for z in self.tile.inside(2) {
            for y in self.tile.inside(1) {
                for x in self.tile.inside(0) {
                    sums.iter_mut().zip(value([x, y, z])).for_each(|(sum, value)| *sum += value * value);
                }
            }
        }
        self.tile.grid().allreduce_in_place(&mut sums, op::Sum)?;
        let points = (self.tile.size() - 2).pow(3) as f64;
        Ok(sums.map(|sum| (sum / points).sqrt()))
    }

    /// Applies `body` to the state and the change of each own point inside of the cube.
    fn each_point(&mut self, body: impl Fn(&mut State, &mut State)) {
        for z in self.tile.inside(2) {
            for y in self.tile.inside(1) {
                let row = self.tile.inside(0);
                let range = self.tile.at([row.start, y, z])..self.tile.at([row.end, y, z]);
                let states = self.states[range.clone()].iter_mut();
                states.zip(&mut self.changes[range]).for_each(|(state, change)| body(state, change));
            }
        }
    }

    /// A point's neighbours at smaller places have their changes; then it gets its own.
    fn sweep_forward(&mut self, z: usize) {
        let (strides, weights) = (self.tile.strides(), self.weights());
        for y in self.tile.inside(1) {
            for x in self.tile.inside(0) {
                let at = self.tile.at([x, y, z]);
                let mut goal = self.changes[at];
                for (direction, stride) in strides.into_iter().enumerate() {
                    self.add_change(&mut goal, at - stride, direction, weights);
                }
                self.changes[at] = self.solved(at, &goal);
            }
        }
    }

    /// A point's neighbours at larger places have their final changes; then it gets its own.
    fn sweep_backward(&mut self, z: usize) {
        let (strides, [of_flux, of_diffusion]) = (self.tile.strides(), self.weights());
        for y in self.tile.inside(1).rev() {
            for x in self.tile.inside(0).rev() {
                let at = self.tile.at([x, y, z]);
                let mut goal = [0.0; 5];
                for (direction, stride) in strides.into_iter().enumerate() {
                    self.add_change(&mut goal, at + stride, direction, [-of_flux, of_diffusion]);
                }
                let more = self.solved(at, &goal);
                self.changes[at].iter_mut().zip(more).for_each(|(change, more)| *change += more);
            }
        }
    }

    #[inline(always)]
    fn add_change(&self, goal: &mut State, neighbour: usize, direction: usize, weights: [f64; 2]) {
        let (state, by) = (&self.states[neighbour], &self.changes[neighbour]);
        let added = change(state, by, direction, weights[0], weights[1]);
        goal.iter_mut().zip(added).for_each(|(goal, added)| *goal += added);
    }

    #[inline(always)]
    fn solved(&self, at: usize, goal: &State) -> State {
        let [_, second] = self.differences();
        solve_diffusion(&self.states[at], [2.0 * self.time_step * second; 3], goal)
    }

    /// What a neighbour's flux and diffusion weigh in the equations of a point.
    fn weights(&self) -> [f64; 2] {
        self.differences().map(|factor| RELAXATION * self.time_step * factor)
    }

    /// The factors of the differences of neighbours, and of second differences.
    #[inline(always)]
    #[expect(clippy::cast_precision_loss, reason = "points of a problem that fits into memory")]
    fn differences(&self) -> [f64; 2] {
        let steps = (self.tile.size() - 1) as f64;
        [0.5 * steps, steps * steps]
    }

    /// How fast each state inside of the cube changes.
    fn find_changes(&mut self) {
        let Self { tile, changes, source, .. } = self;
        for z in tile.inside(2) {
            for y in tile.inside(1) {
                let row = tile.at([tile.inside(0).start, y, z])..tile.at([tile.inside(0).end, y, z]);
                changes[row.clone()].copy_from_slice(&source[row]);
            }
        }
        for direction in 0..3 {
            let (outer, inner) = [(2, 1), (2, 0), (1, 0)][direction];
            for a in self.tile.inside(outer) {
                for b in self.tile.inside(inner) {
                    let mut place = [self.tile.inside(direction).start; 3];
                    (place[outer], place[inner]) = (a, b);
                    self.add_differences(self.tile.at(place), direction);
                }
            }
        }
    }

    /// Adds what the fluxes along one line, whose first inner point is at `start`, change.
    fn add_differences(&mut self, start: usize, direction: usize) {
        let (stride, places) = (self.tile.strides()[direction], self.tile.inside(direction));
        let [first, second] = self.differences();
        let states = &self.states;
        let points = (0..places.len() + 2).map(|step| &states[start - stride + step * stride]);
        self.line.clear();
        self.line.extend(points.map(|state| flux_and_diffusion(state, direction)));
        let size = self.tile.size();
        for (step, (place, around)) in places.zip(self.line.windows(3)).enumerate() {
            let at = start + step * stride;
            let damping = damping_at(place, size);
            let near: [&State; 5] = std::array::from_fn(|step| &states[at + step * stride - 2 * stride]);
            let [(flux_before, before), (_, here), (flux_behind, behind)] =
                [&around[0], &around[1], &around[2]];
            for (number, change) in self.changes[at].iter_mut().enumerate() {
                let damped: f64 = (0..5).map(|step| damping[step] * near[step][number]).sum();
                *change += first * (flux_before[number] - flux_behind[number])
                    + second * (before[number] - 2.0 * here[number] + behind[number])
                    - DAMPING * damped;
            }
        }
    }
}

/// The fourth difference at a place, without the points on the faces and beyond.
fn damping_at(place: usize, size: usize) -> [f64; 5] {
    match (place, size - 1 - place) {
        (1, _) => [0.0, 0.0, 5.0, -4.0, 1.0],
        (2, _) => [0.0, -4.0, 6.0, -4.0, 1.0],
        (_, 1) => [1.0, -4.0, 5.0, 0.0, 0.0],
        (_, 2) => [1.0, -4.0, 6.0, -4.0, 0.0],
        _ => [1.0, -4.0, 6.0, -4.0, 1.0],
    }
}

#[expect(clippy::cast_precision_loss, reason = "points of a problem that fits into memory")]
fn in_unit_cube(place: [usize; 3], size: usize) -> [f64; 3] {
    place.map(|place| place as f64 / (size - 1) as f64)
}
