//! The plan of a round, drawn from a seed.
//!
//! To add a phase or a way to die, add a variant, its entry in `ALL`, and its arm in `task` (a phase) or in `task` or `round` (a way).

use std::fmt;
use std::time::Duration;

/// The activity of the tasks when the process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The tasks join the job.
    Init,
    /// Each task sends its first message to each other task.
    Connection,
    /// Each task exposes private memory, puts into a peer's memory, and ends the exposure.
    Registration,
    /// A ring of short messages.
    Eager,
    /// A ring of messages of a megabyte.
    Rendezvous,
    /// A ring of messages of 16 megabytes through pipes: sender and receiver copy them at the same time. A task that ends itself does so
    /// after its messages have begun and before they are complete.
    Pipe,
    /// Collectives of all kinds: the death occurs between two messages of a collective, or between two collectives.
    Collective,
    /// All tasks request the lock of one window; the task that dies holds the lock.
    WindowLock,
    /// The tasks start other tasks, merge with them and disconnect, again and again.
    Spawn,
    /// The tasks finalize MPI and leave the job.
    Finalize,
}

impl Phase {
    /// All phases.
    pub const ALL: [Self; 10] = [
        Self::Init,
        Self::Connection,
        Self::Registration,
        Self::Eager,
        Self::Rendezvous,
        Self::Pipe,
        Self::Collective,
        Self::WindowLock,
        Self::Spawn,
        Self::Finalize,
    ];

    /// Additional options for the launcher.
    #[must_use]
    pub fn options(self) -> &'static [&'static str] {
        match self {
            // If tasks outnumber processors, waits do not spin, and pipes are not used. This setting makes waits spin, and so enables
            // pipes.
            Self::Pipe => &["--env", "AM_SPIN_MICROSECONDS_MAX=200"],
            _ => &[],
        }
    }
}

/// How a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// SIGKILL from outside, at any moment.
    Kill,
    /// SIGSTOP from outside, and SIGKILL a while later.
    StopThenKill,
    /// SIGSEGV from outside, at any moment, sent until the process ends: Rust's handler ignores the first one, since no access has caused
    /// it.
    Segv,
    /// `abort` by a second thread, at any moment.
    Abort,
    /// A second thread uses up its stack.
    StackOverflow,
    /// A panic of the main thread.
    Panic,
    /// `exit` with a code between two calls.
    Exit,
    /// `exit(0)` between two calls.
    ExitZero,
}

impl Way {
    /// All ways.
    pub const ALL: [Self; 8] = [
        Self::Kill,
        Self::StopThenKill,
        Self::Segv,
        Self::Abort,
        Self::StackOverflow,
        Self::Panic,
        Self::Exit,
        Self::ExitZero,
    ];

    /// Whether a signal from outside ends the task; otherwise the task ends itself.
    #[must_use]
    pub fn is_from_outside(self) -> bool {
        matches!(self, Self::Kill | Self::StopThenKill | Self::Segv)
    }
}

/// The process that dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// This task, in this way.
    Task(u32, Way),
    /// The process that the user sees as `amrun`, killed by SIGKILL.
    Guard,
    /// The process that starts the tasks, killed by SIGKILL.
    Launcher,
}

/// The process between the launcher and each task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrapper {
    /// Nothing.
    None,
    /// A shell that exits with the code of its program.
    Honest,
    /// A shell that exits with 0 whatever its program did.
    Silent,
}

impl Wrapper {
    /// The wrapper's words before the program's own.
    #[must_use]
    pub fn words(self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::Honest => &["sh", "-c", "\"$0\" \"$@\"; exit $?"],
            Self::Silent => &["sh", "-c", "\"$0\" \"$@\"; exit 0"],
        }
    }
}

/// One round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The seed of all rounds.
    pub seed: u64,
    /// The number of this round.
    pub round: u64,
    /// Tasks of the job.
    pub tasks: u32,
    /// The process that dies.
    pub victim: Victim,
    /// The phase in which the victim dies.
    pub phase: Phase,
    /// The wrapper of each task.
    pub wrapper: Wrapper,
    /// The way of copying private memory: the setting `AM_MEMORY`.
    pub memory: &'static str,
    /// For a task that ends itself in the main thread: the number of steps of the phase before its end.
    pub steps: u32,
    /// For a signal from outside, or an end by a second thread: the delay after the beginning of the phase.
    pub delay: Duration,
    /// Whether survivors panic with their error; otherwise they return it from `main`.
    pub survivors_panic: bool,
}

impl Plan {
    /// The round `round` of `seed`.
    #[must_use]
    pub fn draw(seed: u64, round: u64) -> Self {
        let mut random = SplitMix(seed ^ round.wrapping_mul(0xa076_1d64_78bd_642f));
        let tasks = match random.below(4) {
            0 => 2,
            1 => 2 + random.below(3),
            2 => 2 + random.below(7),
            _ => 2 + random.below(15),
        };
        let victim = match random.below(8) {
            0 => Victim::Guard,
            1 => Victim::Launcher,
            _ => Victim::Task(random.below(tasks), random.one_of(&Way::ALL)),
        };
        let phase = random.one_of(&Phase::ALL);
        let wrapper = random.one_of(&[Wrapper::None, Wrapper::None, Wrapper::Honest, Wrapper::Silent]);
        Self {
            seed,
            round,
            tasks,
            victim,
            phase,
            wrapper: if wrapper == Wrapper::Silent && !system_tells() { Wrapper::Honest } else { wrapper },
            memory: match (random.one_of(&["auto", "auto", "kernel", "staged"]), phase) {
                // Only `auto` uses pipes.
                (_, Phase::Pipe) => "auto",
                (memory, _) => memory,
            },
            // Starting tasks takes long.
            steps: random.below(if phase == Phase::Spawn { 5 } else { 40 }),
            delay: Duration::from_micros(u64::from(random.below(8000))),
            survivors_panic: random.below(3) == 0,
        }
    }

    /// The task that reports the beginning of the phase: the task that dies, or task 0 if no task dies.
    #[must_use]
    pub fn marked_task(&self) -> u32 {
        match self.victim {
            Victim::Task(task, _) => task,
            Victim::Guard | Victim::Launcher => 0,
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, round, tasks, victim, phase, wrapper, memory, steps, delay, .. } = self;
        write!(
            f,
            "round {round} of seed {seed}: {victim:?} of {tasks} tasks in {phase:?}, wrapper {wrapper:?}, AM_MEMORY={memory}, \
             {steps} steps, {delay:?}"
        )
    }
}

/// Whether the launcher can learn how a process that is not its child has ended: on Linux 6.15 and later.
fn system_tells() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    numbers.next().zip(numbers.next()).is_some_and(|version| version >= (6, 15))
}

/// A small generator of random numbers: enough to draw plans.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: u32) -> u32 {
        u32::try_from(self.next() % u64::from(limit)).expect("the remainder is below a 32-bit number")
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        let count = u32::try_from(all.len()).expect("a short list");
        all[self.below(count) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_drawn_again_the_same_and_all_kinds_are_drawn() {
        let plans: Vec<Plan> = (0..1000).map(|round| Plan::draw(1, round)).collect();
        assert_eq!(plans[7], Plan::draw(1, 7));
        for phase in Phase::ALL {
            for way in Way::ALL {
                let is_it = |plan: &&Plan| {
                    plan.phase == phase && matches!(plan.victim, Victim::Task(_, drawn) if drawn == way)
                };
                assert!(plans.iter().any(|plan| is_it(&plan)), "{phase:?} {way:?}");
            }
            for victim in [Victim::Guard, Victim::Launcher] {
                assert!(plans.iter().any(|plan| plan.phase == phase && plan.victim == victim), "{victim:?}");
            }
        }
        assert!(plans.iter().all(|plan| (2..=16).contains(&plan.tasks) && plan.marked_task() < plan.tasks));
        assert!((2..=16).all(|tasks| plans.iter().any(|plan| plan.tasks == tasks)));
    }
}
