//! A conformance suite for the provider, in the three levels of VIA's own suite: Early Adopter, Functional, Full.
//!
//! Each check has a name, a level and the clause of VIA that it tests. A check runs on two sides at once: as two processes over shared
//! memory or the network, started through the launcher, and as two threads over the emulated wire, where the checks of a faulty wire also
//! run. The program `am-conform` only calls this crate.
//!
//! ```
//! let plan = am_via_conform::Plan { only: Some("inline".to_owned()), over_shm: false, ..am_via_conform::Plan::default() };
//! let score = am_via_conform::run(&plan, |line| println!("{line}"))?;
//! assert!(score.is_perfect(), "{score}");
//! # Ok::<(), std::io::Error>(())
//! ```

mod checks;
mod line;
mod pair;
mod processes;
mod session;
mod suite;
mod threads;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::time::Duration;

use am_double::wire::Wire;

pub use processes::run_as_task;
pub use suite::{LEVELS, Level};

/// The selection of checks and devices.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Run only checks whose names contain this text.
    pub only: Option<String>,
    /// The seed of random numbers and faults.
    pub seed: u64,
    /// How long a check waits for an event. Only a failing check waits for all of this time.
    pub patience: Duration,
    /// Whether to run over shared memory, in two processes.
    pub over_shm: bool,
    /// Whether to run over the network, in two processes of this host. Needs libfabric.
    pub over_ofi: bool,
    /// Whether to run over the emulated wire, in one process.
    pub over_wire: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            only: None,
            seed: 1,
            patience: Duration::from_secs(40),
            over_shm: true,
            over_ofi: false,
            over_wire: true,
        }
    }
}

impl Plan {
    fn terms(&self) -> Terms {
        Terms { seed: self.seed, patience: self.patience }
    }
}

/// What both sides of a check know of the plan.
#[derive(Clone, Copy, Debug)]
struct Terms {
    seed: u64,
    patience: Duration,
}

/// The properties of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// The name of the check.
    pub name: &'static str,
    /// The conformance level of the check.
    pub level: Level,
    /// The call or term of VIA that the check covers.
    pub clause: &'static str,
    /// Whether the check needs a faulty wire, and so cannot run over shared memory or the network.
    pub on_wire_only: bool,
}

/// All checks, by level.
#[must_use]
pub fn list() -> Vec<Description> {
    let describe = |check: suite::Check<Wire>| Description {
        name: check.name,
        level: check.level,
        clause: check.clause,
        on_wire_only: matches!(check.needs, suite::Needs::Faults(_)),
    };
    checks::all::<Wire>().into_iter().map(describe).collect()
}

/// A check, and the reason for each of its runs that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Result {
    description: Description,
    failures: Vec<String>,
}

/// The outcome of a run. As text: the failed checks with their clauses, then the score.
#[derive(Clone, Debug)]
pub struct Score {
    results: Vec<Result>,
}

impl Score {
    /// The number of checks of a level that passed in all runs, and the number that were run.
    #[must_use]
    pub fn of(&self, level: Level) -> (usize, usize) {
        let of_level = || self.results.iter().filter(|result| result.description.level == level);
        (of_level().filter(|result| result.failures.is_empty()).count(), of_level().count())
    }

    /// Whether at least one check was run, and all passed.
    #[must_use]
    pub fn is_perfect(&self) -> bool {
        !self.results.is_empty() && self.results.iter().all(|result| result.failures.is_empty())
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Result { description: Description { name, level, clause, .. }, failures } in &self.results {
            for failure in failures {
                writeln!(f, "FAILED {name} ({level}) {failure}\n       clause: {clause}")?;
            }
        }
        let scores = LEVELS.map(|level| {
            let (right, all) = self.of(level);
            format!("{level} {right}/{all}")
        });
        f.write_str(&scores.join("  "))
    }
}

/// The results of one run, over shared memory, the network or the wire: for each check, the reason if it failed.
type Verdicts = BTreeMap<String, Option<String>>;

/// Runs the plan, and calls `said` with the name of each check when the check starts.
///
/// # Errors
/// The processes could not be started, or the connection to them failed. A failed check is not an error.
pub fn run(plan: &Plan, mut said: impl FnMut(&str)) -> io::Result<Score> {
    let chosen: Vec<_> = list()
        .into_iter()
        .filter(|check| plan.only.as_ref().is_none_or(|only| check.name.contains(only)))
        .collect();
    let mut results: Vec<_> =
        chosen.iter().map(|&description| Result { description, failures: Vec::new() }).collect();
    let mut note = |way: &str, verdicts: &Verdicts, expected: &dyn Fn(&Description) -> bool| {
        for result in results.iter_mut().filter(|result| expected(&result.description)) {
            match verdicts.get(result.description.name) {
                Some(None) => {}
                Some(Some(why)) => result.failures.push(format!("{way}: {why}")),
                None => result.failures.push(format!("{way}: it was not run")),
            }
        }
    };
    let by_processes = [("shm", plan.over_shm), ("ofi", plan.over_ofi)];
    for (device, _) in by_processes.into_iter().filter(|&(_, wanted)| wanted) {
        let names: Vec<_> =
            chosen.iter().filter(|check| !check.on_wire_only).map(|check| check.name).collect();
        let verdicts = processes::run(device, &names, plan.terms(), &mut said)?;
        note(&format!("two processes over {device}"), &verdicts, &|check| !check.on_wire_only);
    }
    if plan.over_wire {
        let names: Vec<_> = chosen.iter().map(|check| check.name).collect();
        let verdicts = threads::run(&names, plan.terms(), &mut said);
        note("one process over wire", &verdicts, &|_| true);
    }
    Ok(Score { results })
}

/// Adds the verdict of one side on a check.
fn add(verdicts: &mut Verdicts, check: &str, failure: Option<String>) {
    let known = verdicts.entry(check.to_owned()).or_default();
    *known = match (known.take(), failure) {
        (Some(one), Some(other)) => Some(format!("{one}; and {other}")),
        (one, other) => one.or(other),
    };
}
