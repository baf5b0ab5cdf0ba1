//! The equations of the NAS application benchmarks: a synthetic gas that flows through a cube.
//!
//! The rate of change of a state is minus the sum of the differences of its fluxes along the three directions, plus second differences of
//! its diffusing quantities, plus a source that makes a known polynomial the steady state. Follows D. Bailey et al., "The NAS Parallel
//! Benchmarks", RNR-94-007, section 3.2. Where possible, derivatives are not formed as matrices but applied to a change of state, which
//! takes a fraction of the work.

/// Density, three components of momentum, energy.
pub type State = [f64; 5];

/// Rows of factors of the five numbers of a state.
pub type Matrix = [State; 5];

// The report's k1 to k5, and products of them.
const K1: f64 = 1.4;
const K2: f64 = 0.4;
const K3: f64 = 0.1;
const K4: f64 = 1.0;
const K5: f64 = 1.4;
const VISCOSITY: f64 = K3 * K4;
const CONDUCTION: f64 = K1 * K5;

/// The rate at which all five numbers diffuse along each direction.
const DIFFUSION: [f64; 3] = [0.75, 0.75, 1.0];

/// The weight of the fourth differences that damp the shortest waves.
pub const DAMPING: f64 = 0.25;

/// For each number of a state, the coefficients of the steady state: the constant, then those of x, y and z for each power.
const STEADY: [[f64; 13]; 5] = [
    [2.0, 0.0, 0.0, 4.0, 5.0, 3.0, 0.5, 0.02, 0.01, 0.03, 0.5, 0.4, 0.3],
    [1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.01, 0.03, 0.02, 0.4, 0.3, 0.5],
    [2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.04, 0.03, 0.05, 0.3, 0.5, 0.4],
    [2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.03, 0.05, 0.04, 0.2, 0.1, 0.3],
    [5.0, 4.0, 3.0, 2.0, 0.1, 0.4, 0.3, 0.05, 0.04, 0.03, 0.1, 0.3, 0.2],
];

/// The steady state at a point of the unit cube.
#[must_use]
pub fn steady([x, y, z]: [f64; 3]) -> State {
    STEADY.map(|c| {
        let along = |first: usize, at: f64| {
            at * (c[first] + at * (c[first + 3] + at * (c[first + 6] + at * c[first + 9])))
        };
        c[0] + along(1, x) + along(2, y) + along(3, z)
    })
}

/// The initial state inside the cube, blended from the steady states on the faces. As in the report, the products are of numbers with the
/// same index.
#[must_use]
pub fn blended([x, y, z]: [f64; 3]) -> State {
    let between = |low: State, high: State, at: f64| -> State {
        std::array::from_fn(|number| (1.0 - at) * low[number] + at * high[number])
    };
    let a = between(steady([0.0, y, z]), steady([1.0, y, z]), x);
    let b = between(steady([x, 0.0, z]), steady([x, 1.0, z]), y);
    let c = between(steady([x, y, 0.0]), steady([x, y, 1.0]), z);
    std::array::from_fn(|number| {
        let (a, b, c) = (a[number], b[number], c[number]);
        a + b + c - a * b - b * c - c * a + a * b * c
    })
}

/// Values derived from a state that are used more than once.
struct Motion {
    /// One over the density.
    volume: f64,
    velocity: [f64; 3],
    /// Half the square of the speed.
    half_square: f64,
    pressure: f64,
}

impl Motion {
    #[inline(always)]
    fn of(state: &State) -> Self {
        let volume = 1.0 / state[0];
        let velocity = [state[1] * volume, state[2] * volume, state[3] * volume];
        let half_square = 0.5 * dot(velocity, velocity);
        Self { volume, velocity, half_square, pressure: K2 * (state[4] - state[0] * half_square) }
    }

    /// The change of the pressure caused by a small change of the state.
    #[inline(always)]
    fn pressure_by(&self, by: &State) -> f64 {
        K2 * (by[4] - dot(self.velocity, [by[1], by[2], by[3]]) + self.half_square * by[0])
    }

    /// The square of the speed of sound.
    #[inline(always)]
    fn sound_square(&self) -> f64 {
        K1 * self.pressure * self.volume
    }
}

#[inline(always)]
fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// Viscosity acts on the component along a direction more than on those across it.
#[inline(always)]
fn stiffness(component: usize, direction: usize) -> f64 {
    if component == direction { 4.0 / 3.0 } else { 1.0 }
}

/// The pressure of a state.
#[must_use]
pub fn pressure(state: &State) -> f64 {
    Motion::of(state).pressure
}

/// The flux along a direction, and the quantities that diffuse along it.
#[inline(always)]
#[must_use]
pub fn flux_and_diffusion(state: &State, direction: usize) -> (State, State) {
    let Motion { volume, velocity, half_square, pressure } = Motion::of(state);
    let speed = velocity[direction];
    let mut flux = state.map(|number| number * speed);
    flux[1 + direction] += pressure;
    flux[4] += pressure * speed;
    let mut diffusion = state.map(|number| DIFFUSION[direction] * number);
    for component in 0..3 {
        diffusion[1 + component] += VISCOSITY * stiffness(component, direction) * velocity[component];
    }
    diffusion[4] +=
        VISCOSITY * ((1.0 - CONDUCTION) * half_square + speed * speed / 6.0 + CONDUCTION * state[4] * volume);
    (flux, diffusion)
}

/// The change of `of_flux` times the flux plus `of_diffusion` times the diffusing quantities, caused by a small change of a state.
#[inline(always)]
#[must_use]
pub fn change(state: &State, by: &State, direction: usize, of_flux: f64, of_diffusion: f64) -> State {
    let motion = Motion::of(state);
    let Motion { volume, velocity, pressure, .. } = motion;
    let speed = velocity[direction];
    let pressure_by = motion.pressure_by(by);
    // The part of the momentum's changes that the change of the density does not explain.
    let pushed: [f64; 3] = std::array::from_fn(|component| by[1 + component] - velocity[component] * by[0]);
    let velocity_by = pushed.map(|pushed| pushed * volume);
    let across = pushed[direction];
    let same = of_flux * speed + of_diffusion * DIFFUSION[direction];
    let viscous = of_diffusion * VISCOSITY;
    let mut sum = by.map(|number| number * same);
    sum[0] += of_flux * across;
    for component in 0..3 {
        sum[1 + component] += of_flux * velocity[component] * across
            + viscous * stiffness(component, direction) * velocity_by[component];
    }
    sum[1 + direction] += of_flux * pressure_by;
    let enthalpy = (state[4] + pressure) * volume;
    sum[4] += of_flux * (pressure_by * speed + enthalpy * across);
    sum[4] += viscous
        * ((1.0 - CONDUCTION) * dot(velocity, velocity_by)
            + speed * velocity_by[direction] / 3.0
            + CONDUCTION * volume * (by[4] - state[4] * volume * by[0]));
    sum
}

/// The derivatives of the flux along a direction, and of the quantities that diffuse along it.
#[inline(always)]
#[must_use]
pub fn derivatives(state: &State, direction: usize) -> (Matrix, Matrix) {
    let Motion { volume, velocity, half_square, pressure } = Motion::of(state);
    let (speed, [u, v, w]) = (velocity[direction], velocity);
    let (mut flux, mut diffusion) = ([[0.0; 5]; 5], [[0.0; 5]; 5]);
    // If the momentum grows and the density does not, the gas is faster, and carries more of each quantity.
    let carried = [1.0, u, v, w, (state[4] + pressure) * volume];
    let pressure_by = [half_square, -u, -v, -w, 1.0].map(|factor| K2 * factor);
    for number in 0..5 {
        flux[number][0] -= carried[number] * speed;
        flux[number][1 + direction] += carried[number];
        flux[number][number] += speed;
        flux[1 + direction][number] += pressure_by[number];
        flux[4][number] += pressure_by[number] * speed;
        diffusion[number][number] += DIFFUSION[direction];
    }
    let conducted = VISCOSITY * volume * CONDUCTION;
    diffusion[4][0] -= conducted * state[4] * volume;
    diffusion[4][4] += conducted;
    for component in 0..3 {
        let along = if component == direction { 1.0 / 3.0 } else { 0.0 };
        let viscous = VISCOSITY * volume * stiffness(component, direction);
        let heating = VISCOSITY * volume * velocity[component] * (1.0 - CONDUCTION + along);
        diffusion[1 + component][0] -= viscous * velocity[component];
        diffusion[1 + component][1 + component] += viscous;
        diffusion[4][0] -= heating * velocity[component];
        diffusion[4][1 + component] += heating;
    }
    (flux, diffusion)
}

/// A small change of a state as waves along a direction, which the flux does not mix. Entropy and the velocities across the direction
/// travel with the gas. The element of the velocity along the direction holds the forward sound wave, and the last element the backward
/// sound wave.
#[inline(always)]
#[must_use]
pub fn waves(state: &State, by: &State, direction: usize) -> State {
    let motion = Motion::of(state);
    let Motion { volume, velocity, .. } = motion;
    let (pressure_by, sound_square) = (motion.pressure_by(by), motion.sound_square());
    let velocity_by = |component: usize| volume * (by[1 + component] - velocity[component] * by[0]);
    let (along, pushed) = (velocity_by(direction), volume * pressure_by / sound_square.sqrt());
    let mut waves =
        [by[0] - pressure_by / sound_square, velocity_by(0), velocity_by(1), velocity_by(2), pushed - along];
    waves[1 + direction] = pushed + along;
    waves
}

/// The small change of a state that is the sum of these [`waves`].
#[inline(always)]
#[must_use]
pub fn change_of_waves(state: &State, waves: &State, direction: usize) -> State {
    let motion = Motion::of(state);
    let Motion { velocity, half_square, .. } = motion;
    let sound_square = motion.sound_square();
    let (forward, back) = (waves[1 + direction], waves[4]);
    let mut velocity_by = [waves[1], waves[2], waves[3]];
    velocity_by[direction] = 0.5 * (forward - back);
    let pressure_by = 0.5 * (forward + back) * state[0] * sound_square.sqrt();
    let density = waves[0] + pressure_by / sound_square;
    let momentum: [f64; 3] =
        std::array::from_fn(|component| state[0] * velocity_by[component] + velocity[component] * density);
    let energy = pressure_by / K2 + dot(velocity, momentum) - half_square * density;
    [density, momentum[0], momentum[1], momentum[2], energy]
}

/// The speed of each of the [`waves`].
#[inline(always)]
#[must_use]
pub fn wave_speeds(state: &State, direction: usize) -> State {
    let motion = Motion::of(state);
    let (speed, sound) = (motion.velocity[direction], motion.sound_square().sqrt());
    let mut speeds = [speed; 5];
    speeds[1 + direction] += sound;
    speeds[4] -= sound;
    speeds
}

/// The highest rate of diffusion along a direction, which is that of heat.
#[inline(always)]
#[must_use]
pub fn strongest_diffusion(state: &State, direction: usize) -> f64 {
    DIFFUSION[direction] + VISCOSITY * CONDUCTION / state[0]
}

/// The change of a state for which the change, plus `weights` times its effect on the diffusion along each direction, is `goal`. Momentum
/// depends on density, and energy on both, but not the reverse, so no elimination is needed.
#[inline(always)]
#[must_use]
pub fn solve_diffusion(state: &State, weights: [f64; 3], goal: &State) -> State {
    let Motion { volume, velocity, .. } = Motion::of(state);
    let same = 1.0 + dot(weights, DIFFUSION);
    let viscous = weights.map(|weight| weight * VISCOSITY);
    let all = viscous[0] + viscous[1] + viscous[2];
    let density = goal[0] / same;
    let mut by = [density, 0.0, 0.0, 0.0, 0.0];
    let mut velocity_by = [0.0; 3];
    for component in 0..3 {
        // Along its own direction a component is 4/3 as stiff.
        let stiff = volume * (all + viscous[component] / 3.0);
        let momentum = (goal[1 + component] + stiff * velocity[component] * density) / (same + stiff);
        by[1 + component] = momentum;
        velocity_by[component] = (momentum - velocity[component] * density) * volume;
    }
    let along: f64 = (0..3).map(|at| viscous[at] * velocity[at] * velocity_by[at]).sum();
    let conducted = all * CONDUCTION * volume;
    let known = all * (1.0 - CONDUCTION) * dot(velocity, velocity_by) + along / 3.0
        - conducted * state[4] * volume * density;
    by[4] = (goal[4] - known) / (same + conducted);
    by
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY: State = [0.3, -0.2, 0.5, 0.1, -0.4];

    #[test]
    fn derivatives_are_limits_of_differences() {
        let state = steady([0.3, 0.6, 0.8]);
        let step = 1e-6;
        let at = |step: f64| -> State { std::array::from_fn(|number| state[number] + step * BY[number]) };
        for direction in 0..3 {
            let (flux_up, diffusion_up) = flux_and_diffusion(&at(step), direction);
            let (flux_down, diffusion_down) = flux_and_diffusion(&at(-step), direction);
            let (of_flux, of_diffusion) =
                (change(&state, &BY, direction, 1.0, 0.0), change(&state, &BY, direction, 0.0, 1.0));
            for number in 0..5 {
                let slope = |up: State, down: State| (up[number] - down[number]) / (2.0 * step);
                assert!((slope(flux_up, flux_down) - of_flux[number]).abs() < 1e-7);
                assert!((slope(diffusion_up, diffusion_down) - of_diffusion[number]).abs() < 1e-7);
            }
        }
    }

    #[test]
    fn matrices_of_derivatives_do_what_is_applied() {
        let state = steady([0.7, 0.1, 0.4]);
        for direction in 0..3 {
            let (flux, diffusion) = derivatives(&state, direction);
            let applied = change(&state, &BY, direction, 1.5, 2.5);
            for number in 0..5 {
                let by_matrix: f64 =
                    (0..5).map(|at| (1.5 * flux[number][at] + 2.5 * diffusion[number][at]) * BY[at]).sum();
                assert!((by_matrix - applied[number]).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn each_wave_travels_at_its_speed() {
        let state = steady([0.2, 0.9, 0.5]);
        for direction in 0..3 {
            let speeds = wave_speeds(&state, direction);
            let found = waves(&state, &BY, direction);
            let back = change_of_waves(&state, &found, direction);
            let flux = waves(&state, &change(&state, &BY, direction, 1.0, 0.0), direction);
            for number in 0..5 {
                assert!((back[number] - BY[number]).abs() < 1e-12);
                assert!((flux[number] - speeds[number] * found[number]).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn what_is_solved_gives_the_goal_back() {
        let (state, weights) = (steady([0.9, 0.2, 0.5]), [3.0, 0.5, 7.0]);
        let by = solve_diffusion(&state, weights, &BY);
        for number in 0..5 {
            let others: f64 =
                (0..3).map(|direction| change(&state, &by, direction, 0.0, weights[direction])[number]).sum();
            assert!((by[number] + others - BY[number]).abs() < 1e-12);
        }
    }
}
