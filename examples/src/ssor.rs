//! Successive over-relaxation, forward and backward, for the synthetic gas on tiles of a cube.
//!
//! A step solves the linear equations of the change of state approximately: a sweep from one corner of the cube, in which a point needs its
//! three neighbours at smaller indices, and a sweep back. So work passes over the grid of tasks as a wave. The work is cut into planes, so
//! that all tasks have work before the first task has finished.

use crate::Failure;
use crate::application::Method;
use crate::flow::Flow;
use crate::gas::{State, change, solve_diffusion};
use crate::tiles::Side;

/// Factor by which a change exceeds the solution of the equations.
const RELAXATION: f64 = 1.2;

/// Steps by over-relaxation.
#[derive(Debug)]
pub struct Relaxation {
    time_step: f64,
    edge: Vec<State>,
}

impl Relaxation {
    /// Steps of this length.
    #[must_use]
    pub fn new(time_step: f64) -> Self {
        Self { time_step, edge: Vec::new() }
    }

    /// The weights of a neighbour's flux and diffusion in the equations of a point.
    fn weights(&self, flow: &Flow<'_>) -> [f64; 2] {
        flow.differences().map(|factor| RELAXATION * self.time_step * factor)
    }

    /// Computes the change of each point in plane `z` from the changes of its neighbours at smaller indices.
    fn sweep_forward(&self, flow: &mut Flow<'_>, z: usize) {
        let (strides, weights) = (flow.tile().strides(), self.weights(flow));
        for y in flow.tile().inside(1) {
            for x in flow.tile().inside(0) {
                let at = flow.tile().at([x, y, z]);
                let mut goal = flow.changes()[at];
                for (direction, stride) in strides.into_iter().enumerate() {
                    add_change(flow, &mut goal, at - stride, direction, weights);
                }
                flow.changes_mut()[at] = self.solved(flow, at, &goal);
            }
        }
    }

    /// Computes the final change of each point in plane `z` from the final changes of its neighbours at larger indices.
    fn sweep_backward(&self, flow: &mut Flow<'_>, z: usize) {
        let (strides, [of_flux, of_diffusion]) = (flow.tile().strides(), self.weights(flow));
        for y in flow.tile().inside(1).rev() {
            for x in flow.tile().inside(0).rev() {
                let at = flow.tile().at([x, y, z]);
                let mut goal = [0.0; 5];
                for (direction, stride) in strides.into_iter().enumerate() {
                    add_change(flow, &mut goal, at + stride, direction, [-of_flux, of_diffusion]);
                }
                let more = self.solved(flow, at, &goal);
                flow.changes_mut()[at].iter_mut().zip(more).for_each(|(change, more)| *change += more);
            }
        }
    }

    #[inline(always)]
    fn solved(&self, flow: &Flow<'_>, at: usize, goal: &State) -> State {
        let [_, second] = flow.differences();
        solve_diffusion(&flow.states()[at], [2.0 * self.time_step * second; 3], goal)
    }
}

impl Method for Relaxation {
    fn step(&mut self, flow: &mut Flow<'_>) -> Result<(), Failure> {
        flow.scale_changes(self.time_step);
        for z in flow.tile().inside(2) {
            flow.receive_edges(z, Side::Low, &mut self.edge)?;
            self.sweep_forward(flow, z);
            flow.tile().send_edges(flow.changes(), z, Side::High, &mut self.edge)?;
        }
        for z in flow.tile().inside(2).rev() {
            flow.receive_edges(z, Side::High, &mut self.edge)?;
            self.sweep_backward(flow, z);
            flow.tile().send_edges(flow.changes(), z, Side::Low, &mut self.edge)?;
        }
        flow.advance(1.0 / (RELAXATION * (2.0 - RELAXATION)))
    }
}

#[inline(always)]
fn add_change(flow: &Flow<'_>, goal: &mut State, neighbour: usize, direction: usize, weights: [f64; 2]) {
    let (state, by) = (&flow.states()[neighbour], &flow.changes()[neighbour]);
    let added = change(state, by, direction, weights[0], weights[1]);
    goal.iter_mut().zip(added).for_each(|(goal, added)| *goal += added);
}
