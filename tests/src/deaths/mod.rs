//! Seeded rounds of deaths: a job of `amrun` in which one process dies, and a judge of what is left and of what was said.
//!
//! Each round is drawn from a seed and its number: how many tasks, who dies, in which way, during what, behind which wrapper. A round
//! passes if
//! - the job ends, and none of its processes and files is left;
//! - `amrun` says once, in its last line, which task failed first and how, and exits with that task's code;
//! - no survivor's line blames another survivor without naming the task that died.
//!
//! `cargo build -p am-via-launch && cargo run -p am-tests --bin death-rounds -- --rounds 1000 --seed 7` runs them; the tasks are that same
//! program, and `amrun` lies beside it.

mod judge;
mod plan;
mod round;
mod task;

pub use plan::{Phase, Plan, Victim, Way, Wrapper};
pub use round::run;
pub use task::{be_a_task, is_task};

/// Tells a process of a job which round it plays in: `SEED:ROUND`.
const ROUND: &str = "DEATH_ROUND";
/// In the environment of every process of a round's job, with a value of its own: by this they are found.
const MARK: &str = "DEATH_MARK";
/// What a survivor that returns from `main` with its error exits with: no cause of a death has this code.
const SURVIVOR_CODE: u8 = 57;
/// The code with which a task that dies by [`Way::Exit`] exits.
const VICTIM_CODE: u8 = 3;
