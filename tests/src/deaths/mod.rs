//! Seeded rounds of deaths: a job of `amrun` in which one process dies; afterwards, checks of what is left and of all messages.
//!
//! The seed and the number of a round determine the number of tasks, the process that dies, how and in which phase it dies, and the wrapper
//! of the tasks. A round passes if
//! - the job ends, and none of its processes and files is left;
//! - `amrun` says once, in its last line, which task failed first and how, and exits with that task's code;
//! - each survivor's line names the task that died, and how it died.
//!
//! `cargo build -p am-via-launch && cargo run -p am-tests --bin death-rounds -- --rounds 1000 --seed 7` runs such rounds. The tasks run the
//! same program, and `amrun` is in the same folder.

mod judge;
mod plan;
mod round;
mod task;

pub use plan::{Phase, Plan, Victim, Way, Wrapper};
pub use round::run;
pub use task::{be_a_task, is_task};

/// Environment variable with the round of a job: `SEED:ROUND`.
const ROUND: &str = "DEATH_ROUND";
/// A variable in the environment of every process of a round's job. Its value is unique, so that the processes can be found.
const MARK: &str = "DEATH_MARK";
/// Exit code of a survivor that returns an error from `main`; no cause of a death has this code.
const SURVIVOR_CODE: u8 = 57;
/// The code with which a task that dies by [`Way::Exit`] exits.
const VICTIM_CODE: u8 = 3;
