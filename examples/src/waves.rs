//! Equations along a line, separated by waves: the change at a point is a sum of five waves that travel at their own speeds, and in each
//! kind of wave a point is coupled to two points on each side. So there are five pentadiagonal matrices.

use crate::directions::{Elimination, Piece};
use crate::flow::damping_at;
use crate::gas::{self, DAMPING, State};

/// Elimination for each kind of wave by itself.
#[derive(Debug)]
pub struct Waves;

/// For each wave of a point: the wave is the last entry minus the sum of the products of the other two with the same wave at the next two
/// points.
type Row = [State; 3];

impl Elimination for Waves {
    const REACH: usize = 2;
    type Row = Row;

    fn eliminate(&mut self, piece: &Piece<'_>, rows: &mut [Row]) {
        let [of_speed, of_diffusion] = piece.weights;
        let transport = |state: &State| {
            let strength = of_diffusion * gas::strongest_diffusion(state, piece.direction);
            (gas::wave_speeds(state, piece.direction).map(|speed| of_speed * speed), strength)
        };
        let mut before = transport(&piece.states[0]);
        let mut here = transport(&piece.states[1]);
        for (at, goal) in piece.goals.iter().enumerate() {
            let behind = transport(&piece.states[at + 2]);
            let goal = gas::waves(&piece.states[at + 1], goal, piece.direction);
            let damping = damping_at(piece.first + at, piece.size).map(|d| piece.time_step * DAMPING * d);
            let [farther, nearer, row] = &mut rows[at..at + 3] else { unreachable!("three rows") };
            for wave in 0..5 {
                let far = damping[0];
                let mut near = damping[1] - before.0[wave] - before.1;
                let mut own = 1.0 + damping[2] + 2.0 * here.1;
                let mut next = damping[3] + behind.0[wave] - behind.1;
                let mut goal = goal[wave];
                // Eliminates the two previous points with those points' rows.
                near -= far * farther[0][wave];
                own -= far * farther[1][wave];
                goal -= far * farther[2][wave];
                own -= near * nearer[0][wave];
                next -= near * nearer[1][wave];
                goal -= near * nearer[2][wave];
                let inverse = 1.0 / own;
                row[0][wave] = next * inverse;
                row[1][wave] = damping[4] * inverse;
                row[2][wave] = goal * inverse;
            }
            (before, here) = (here, behind);
        }
    }

    #[inline(always)]
    fn unknown(row: &Row, behind: &[State]) -> State {
        std::array::from_fn(|wave| {
            row[2][wave] - row[0][wave] * behind[0][wave] - row[1][wave] * behind[1][wave]
        })
    }

    #[inline(always)]
    fn change(state: &State, direction: usize, unknown: State) -> State {
        gas::change_of_waves(state, &unknown, direction)
    }
}
