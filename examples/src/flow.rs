//! The synthetic gas in one task's tile of the cube: its states, their rates of change, and their distance from the steady state.

use std::ops::Range;

use mpi_over_am::op;

use crate::Failure;
use crate::gas::{self, DAMPING, State, flux_and_diffusion};
use crate::tiles::{Side, Tile};

/// The gas in one task's tile.
#[derive(Debug)]
pub struct Flow<'a> {
    tile: Tile<'a>,
    states: Vec<State>,
    /// The rate of change of each state; during a step, the change of each state. Zero on the faces of the cube.
    changes: Vec<State>,
    source: Vec<State>,
    /// Flux and diffusion along one line.
    line: Vec<(State, State)>,
}

impl<'a> Flow<'a> {
    /// Computes the source that makes [`gas::steady`] the solution; the gas begins in that state.
    #[must_use]
    pub fn new(tile: Tile<'a>) -> Self {
        let nothing = || tile.field(|_| [0.0; 5]);
        let states = tile.field(|place| gas::steady(in_unit_cube(place, tile.size())));
        let (changes, source) = (nothing(), nothing());
        let mut flow = Self { tile, states, changes, source, line: Vec::new() };
        // The source must balance the changes of the steady state.
        flow.find_changes();
        flow.source = flow.changes.iter().map(|change| change.map(|number| -number)).collect();
        flow
    }

    /// Initial states by the benchmarks' rule: the steady state on the faces of the cube, and a blend of the faces' states inside.
    pub fn begin(&mut self) {
        let size = self.tile.size();
        self.states = self.tile.field(|place| {
            let is_on_face = place.iter().any(|place| *place == 0 || *place == size - 1);
            let at = in_unit_cube(place, size);
            if is_on_face { gas::steady(at) } else { gas::blended(at) }
        });
        self.find_changes();
    }

    /// The tile.
    #[must_use]
    pub fn tile(&self) -> &Tile<'a> {
        &self.tile
    }

    /// The states: a field of the tile, with current copies of the neighbours' states.
    #[must_use]
    pub fn states(&self) -> &[State] {
        &self.states
    }

    /// The rate of change of each state, or its change during a step. The copies of neighbours' values are those of the last
    /// [`receive_edges`](Self::receive_edges).
    #[must_use]
    pub fn changes(&self) -> &[State] {
        &self.changes
    }

    /// The rates of change, which a method replaces by the changes of a step.
    pub fn changes_mut(&mut self) -> &mut [State] {
        &mut self.changes
    }

    /// Receives the changes in plane `z` next to this task's tile on `side`, from the neighbours along x and y. `line` is a buffer.
    ///
    /// # Errors
    /// An error of MPI.
    pub fn receive_edges(&mut self, z: usize, side: Side, line: &mut Vec<State>) -> Result<(), Failure> {
        self.tile.receive_edges(&mut self.changes, z, side, line)
    }

    /// The state at one of this task's points.
    #[must_use]
    pub fn state(&self, place: [usize; 3]) -> &State {
        &self.states[self.tile.at(place)]
    }

    /// The factors of first and of second differences.
    #[inline(always)]
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "points of a problem that fits into memory")]
    pub fn differences(&self) -> [f64; 2] {
        let steps = (self.tile.size() - 1) as f64;
        [0.5 * steps, steps * steps]
    }

    /// Multiplies the rates of change inside the cube by `time`: they become changes.
    pub fn scale_changes(&mut self, time: f64) {
        for row in rows(&self.tile) {
            self.changes[row].as_flattened_mut().iter_mut().for_each(|number| *number *= time);
        }
    }

    /// Collective: adds `weight` times the changes to the states, and finds the new rates of change.
    ///
    /// # Errors
    /// An error of MPI.
    pub fn advance(&mut self, weight: f64) -> Result<(), Failure> {
        for row in rows(&self.tile) {
            let states = self.states[row.clone()].as_flattened_mut();
            let changes = self.changes[row].as_flattened();
            states.iter_mut().zip(changes).for_each(|(state, change)| *state += weight * change);
        }
        self.tile.refresh(&mut self.states)?;
        self.find_changes();
        Ok(())
    }

    /// The norms of the remaining rates of change. Collective.
    ///
    /// # Errors
    /// An error of MPI.
    pub fn norms_of_changes(&self) -> Result<State, Failure> {
        self.norms(|place| self.changes[self.tile.at(place)])
    }

    /// The norms of the differences from the steady state. Collective.
    ///
    /// # Errors
    /// An error of MPI.
    pub fn norms_of_errors(&self) -> Result<State, Failure> {
        self.norms(|place| {
            let (steady, state) = (gas::steady(in_unit_cube(place, self.tile.size())), self.state(place));
            std::array::from_fn(|number| steady[number] - state[number])
        })
    }

    /// The norms of `value` over the points inside the cube. Collective.
    #[expect(clippy::cast_precision_loss, reason = "points of a problem that fits into memory")]
    fn norms(&self, value: impl Fn([usize; 3]) -> State) -> Result<State, Failure> {
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

    /// Computes the rate of change of each state inside the cube.
    fn find_changes(&mut self) {
        let Self { tile, changes, source, .. } = self;
        for row in rows(tile) {
            changes[row.clone()].copy_from_slice(&source[row]);
        }
        for direction in 0..3 {
            self.add_differences(direction);
        }
    }

    /// Adds the differences of flux and diffusion along a direction, and the damping.
    fn add_differences(&mut self, direction: usize) {
        let [first, second] = self.differences();
        let Self { tile, states, changes, line, .. } = self;
        let (stride, places) = (tile.strides()[direction], tile.inside(direction));
        for start in tile.planes(direction).flat_map(|plane| tile.lines(direction, plane)) {
            let points = (0..places.len() + 2).map(|step| &states[start - stride + step * stride]);
            line.clear();
            line.extend(points.map(|state| flux_and_diffusion(state, direction)));
            for (step, (place, around)) in places.clone().zip(line.windows(3)).enumerate() {
                let at = start + step * stride;
                let damping = damping_at(place, tile.size());
                let near: [&State; 5] = std::array::from_fn(|step| &states[at + step * stride - 2 * stride]);
                let [(flux_before, before), (_, here), (flux_behind, behind)] =
                    [&around[0], &around[1], &around[2]];
                for (number, change) in changes[at].iter_mut().enumerate() {
                    let damped: f64 = (0..5).map(|step| damping[step] * near[step][number]).sum();
                    *change += first * (flux_before[number] - flux_behind[number])
                        + second * (before[number] - 2.0 * here[number] + behind[number])
                        - DAMPING * damped;
                }
            }
        }
    }
}

/// The weights of the fourth difference at a point. Points on the faces of the cube and beyond have no weight.
#[must_use]
pub fn damping_at(place: usize, size: usize) -> [f64; 5] {
    match (place, size - 1 - place) {
        (1, _) => [0.0, 0.0, 5.0, -4.0, 1.0],
        (2, _) => [0.0, -4.0, 6.0, -4.0, 1.0],
        (_, 1) => [1.0, -4.0, 5.0, 0.0, 0.0],
        (_, 2) => [1.0, -4.0, 6.0, -4.0, 0.0],
        _ => [1.0, -4.0, 6.0, -4.0, 1.0],
    }
}

/// The indices of the points inside the cube in a field, as contiguous ranges.
fn rows(tile: &Tile<'_>) -> impl Iterator<Item = Range<usize>> {
    let len = tile.inside(0).len();
    tile.planes(0).flat_map(|plane| tile.lines(0, plane)).map(move |start| start..start + len)
}

#[expect(clippy::cast_precision_loss, reason = "points of a problem that fits into memory")]
fn in_unit_cube(place: [usize; 3], size: usize) -> [f64; 3] {
    place.map(|place| place as f64 / (size - 1) as f64)
}
