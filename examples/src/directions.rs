//! Time steps that solve along one direction after the other, for the synthetic gas on tiles of a cube.
//!
//! The equations of a step are approximated by a product of three parts, one for each direction; the equations of such a part connect only
//! the points of one line. They are solved by elimination: forward along the line, where the equation of a point needs the reduced
//! equations of the points before it, and back, where each change needs the changes of the points after it. If a line is cut, its rows are
//! sent from task to task, forward and back. Lines are processed plane by plane, so that all tasks have work before the first plane is
//! done.

use bytemuck::Zeroable;
use mpi_over_am::{Equivalence, OwnedRequest};

use crate::Failure;
use crate::application::Method;
use crate::flow::Flow;
use crate::gas::State;
use crate::tiles::{Side, Tile};

/// Tags of the rows of equations, which go forward, and of the solutions, which come back.
const FORWARD_TAG: i32 = 4;
const BACKWARD_TAG: i32 = 5;

/// One task's piece of a line.
#[derive(Debug)]
pub struct Piece<'a> {
    /// Direction of the line.
    pub direction: usize,
    /// Position of the first point.
    pub first: usize,
    /// Points along a side of the cube.
    pub size: usize,
    /// Length of a step.
    pub time_step: f64,
    /// The length of a step times the factors of first and of second differences.
    pub weights: [f64; 2],
    /// The states of the points, and of one more point on each side.
    pub states: &'a [State],
    /// The right-hand side at each point, for this direction's part of the equations.
    pub goals: &'a [State],
}

/// How the equations along a line are solved.
pub trait Elimination {
    /// Number of points on each side of a point that occur in the point's equation.
    const REACH: usize;
    /// A point's equation after elimination: gives the point's unknown from those of the points after it. A row of zeros gives zero.
    type Row: Equivalence + Copy + Send + Zeroable + 'static;

    /// Computes the rows of a piece's points. In `rows`, the rows of the [`REACH`](Self::REACH) points before the piece come first.
    fn eliminate(&mut self, piece: &Piece<'_>, rows: &mut [Self::Row]);

    /// The unknown of a point, from the point's row and the unknowns of the points after it.
    fn unknown(row: &Self::Row, behind: &[State]) -> State;

    /// The change of a state that the unknown stands for in the equations along a direction.
    #[inline(always)]
    fn change(_state: &State, _direction: usize, unknown: State) -> State {
        unknown
    }
}

/// Solves a step along one direction after the other.
#[derive(Debug)]
pub struct Directions<E: Elimination> {
    elimination: E,
    time_step: f64,
    /// Rows after elimination, by plane and line. In each line, the rows of the points before the piece come first. If lines along the
    /// direction are not cut, only one plane is kept.
    rows: Vec<E::Row>,
    /// States of one piece.
    states: Vec<State>,
    goals: Vec<State>,
    unknowns: Vec<State>,
}

impl<E: Elimination> Directions<E> {
    /// Steps of this length.
    #[must_use]
    pub fn new(elimination: E, time_step: f64) -> Self {
        Self {
            elimination,
            time_step,
            rows: Vec::new(),
            states: Vec::new(),
            goals: Vec::new(),
            unknowns: Vec::new(),
        }
    }

    /// Solves the part of the equations that belongs to one direction.
    fn solve(&mut self, flow: &mut Flow<'_>, direction: usize) -> Result<(), Failure> {
        let tile = flow.tile();
        let planes = tile.planes(direction);
        let is_cut = tile.own(direction).len() < tile.size();
        let kept = if is_cut { planes.len() } else { 1 };
        let lines = planes.clone().next().map_or(0, |plane| tile.lines(direction, plane).len());
        let needed = kept * lines * (E::REACH + tile.inside(direction).len());
        if self.rows.len() < needed {
            self.rows.resize(needed, E::Row::zeroed());
        }
        // A task starts the next plane before the next task has received the message about this plane.
        let (mut going_forward, mut going_back) = (Vec::new(), Vec::new());
        for (number, plane) in planes.clone().enumerate() {
            going_forward.extend(self.go_forward(flow, direction, plane, number % kept)?);
            if !is_cut {
                self.go_back(flow, direction, plane, 0)?;
            }
        }
        if is_cut {
            for (number, plane) in planes.enumerate() {
                going_back.extend(self.go_back(flow, direction, plane, number)?);
            }
        }
        going_forward.into_iter().try_for_each(|sent| sent.wait().map(drop))?;
        going_back.into_iter().try_for_each(|sent| sent.wait().map(drop))?;
        Ok(())
    }

    /// Computes the rows of the lines in `plane`, keeps them as plane `number`, and starts to send the rows that the next task needs.
    /// Returns the send, if there is a next task.
    fn go_forward(
        &mut self,
        flow: &Flow<'_>,
        direction: usize,
        plane: usize,
        number: usize,
    ) -> Result<Option<OwnedRequest<E::Row>>, Failure> {
        let tile = flow.tile();
        let (stride, places) = (tile.strides()[direction], tile.inside(direction));
        let lines = tile.lines(direction, plane);
        let row_len = E::REACH + places.len();
        let kept = &mut self.rows[number * lines.len() * row_len..][..lines.len() * row_len];
        let mut edge = receive(tile, direction, Side::Low, FORWARD_TAG, lines.len() * E::REACH)?;
        for ((start, rows), edge) in
            lines.zip(kept.chunks_exact_mut(row_len)).zip(edge.chunks_exact_mut(E::REACH))
        {
            let points = |count: usize| (0..count).map(move |step| start + step * stride);
            self.states.clear();
            self.states.extend(points(places.len() + 2).map(|at| flow.states()[at - stride]));
            self.goals.clear();
            self.goals.extend(points(places.len()).map(|at| flow.changes()[at]));
            rows[..E::REACH].copy_from_slice(edge);
            let piece = Piece {
                direction,
                first: places.start,
                size: tile.size(),
                time_step: self.time_step,
                weights: flow.differences().map(|factor| self.time_step * factor),
                states: &self.states,
                goals: &self.goals,
            };
            self.elimination.eliminate(&piece, rows);
            edge.copy_from_slice(&rows[places.len()..]);
        }
        send(tile, direction, Side::High, FORWARD_TAG, edge)
    }

    /// Computes the changes of the points in `plane` from the rows kept as plane `number`, and starts to send the unknowns that the
    /// previous task needs. Returns the send, if there is a previous task.
    fn go_back(
        &mut self,
        flow: &mut Flow<'_>,
        direction: usize,
        plane: usize,
        number: usize,
    ) -> Result<Option<OwnedRequest<State>>, Failure> {
        let tile = flow.tile();
        let (stride, len) = (tile.strides()[direction], tile.inside(direction).len());
        let lines = tile.lines(direction, plane);
        let row_len = E::REACH + len;
        let kept = &self.rows[number * lines.len() * row_len..];
        let mut edge = receive(tile, direction, Side::High, BACKWARD_TAG, lines.len() * E::REACH)?;
        self.unknowns.resize(len + E::REACH, [0.0; 5]);
        for ((start, rows), edge) in
            lines.zip(kept.chunks_exact(row_len)).zip(edge.chunks_exact_mut(E::REACH))
        {
            self.unknowns[len..].copy_from_slice(edge);
            for step in (0..len).rev() {
                let at = start + step * stride;
                let (to, behind) = self.unknowns[step..].split_at_mut(1);
                to[0] = E::unknown(&rows[E::REACH + step], &behind[..E::REACH]);
                let change = E::change(&flow.states()[at], direction, to[0]);
                flow.changes_mut()[at] = change;
            }
            edge.copy_from_slice(&self.unknowns[..E::REACH]);
        }
        send(flow.tile(), direction, Side::Low, BACKWARD_TAG, edge)
    }
}

impl<E: Elimination> Method for Directions<E> {
    fn step(&mut self, flow: &mut Flow<'_>) -> Result<(), Failure> {
        flow.scale_changes(self.time_step);
        (0..3).try_for_each(|direction| self.solve(flow, direction))?;
        flow.advance(1.0)
    }
}

/// `count` values from the neighbour on a side. Without a neighbour: zeros, because changes are zero on the faces of the cube.
fn receive<T: Equivalence + Copy + Zeroable>(
    tile: &Tile<'_>,
    direction: usize,
    side: Side,
    tag: i32,
    count: usize,
) -> Result<Vec<T>, Failure> {
    let mut values = vec![T::zeroed(); count];
    tile.grid().recv(&mut values, tile.neighbour(direction, side), tag)?;
    Ok(values)
}

/// Starts to send values to the neighbour on a side, if there is one.
fn send<T: Equivalence + Send + 'static>(
    tile: &Tile<'_>,
    direction: usize,
    side: Side,
    tag: i32,
    values: Vec<T>,
) -> Result<Option<OwnedRequest<T>>, Failure> {
    Ok(match tile.neighbour(direction, side) {
        None => None,
        dest => Some(tile.grid().isend_owned(values, dest, tag)?),
    })
}

#[cfg(test)]
mod tests {
    use am_tests::harness::job;
    use mpi_over_am::{Communicator, Environment};

    use super::*;
    use crate::blocks::Blocks;
    use crate::tiles::grid_of;
    use crate::waves::Waves;

    const SIZE: usize = 12;
    const TIME_STEP: f64 = 0.01;
    const STEPS: u32 = 3;

    /// The flow after some steps.
    fn flow_of(grid: &Communicator, mut method: impl Method) -> Flow<'_> {
        let mut flow = Flow::new(Tile::new(grid, SIZE).expect("a Cartesian topology"));
        flow.begin();
        (0..STEPS).for_each(|_| method.step(&mut flow).expect("all tasks do the step"));
        flow
    }

    /// Elimination processes a line in the same order however the line is cut, so results must be equal in every bit.
    fn has_states_of_a_task_alone<E: Elimination>(
        world: &Communicator,
        alone: &Communicator,
        elimination: impl Fn() -> E,
    ) {
        let method = || Directions::new(elimination(), TIME_STEP);
        let [along_x, along_y] = grid_of(world.size(), SIZE);
        let grid = world.create_cartesian(&[along_y, along_x], &[false; 2]).expect("all tasks make it");
        let grid = grid.expect("all these tasks have a part of the cube");
        let (shared, whole) = (flow_of(&grid, method()), flow_of(alone, method()));
        let tile = shared.tile();
        for z in tile.own(2) {
            for y in tile.own(1) {
                for x in tile.own(0) {
                    assert_eq!(shared.state([x, y, z]), whole.state([x, y, z]), "at {x}, {y}, {z}");
                }
            }
        }
    }

    #[test]
    fn any_number_of_tasks_finds_what_one_finds() {
        for tasks in [1, 2, 3, 4, 6] {
            job("any_number_of_tasks_finds_what_one_finds").tasks(tasks).run(|| {
                let environment = Environment::init().expect("a job");
                let world = environment.world();
                let alone = environment.alone().create_cartesian(&[1, 1], &[false; 2]);
                let alone = alone.expect("one task makes it").expect("the one task is in it");
                has_states_of_a_task_alone(&world, &alone, Blocks::default);
                has_states_of_a_task_alone(&world, &alone, || Waves);
                drop((world, alone));
                environment.finalize().expect("all tasks finalize");
            });
        }
    }
}
