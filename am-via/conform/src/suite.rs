//! The description of a check, its level, and the macro that lists checks.

use std::fmt;

use am_double::wire::WireOptions;
use am_via_nic::Device;

use super::pair::{Outcome, Pair};

/// VIA's three levels of conformance. Each includes the requirements of the level before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// NICs, memory, client-server connections, send and receive, RDMA write, completion queues.
    EarlyAdopter,
    /// In addition: protection tags, peers, asynchronous errors, resizing, the exact semantics of the reliability levels, repair of faults.
    Functional,
    /// In addition: notification, RDMA read, name service, management, hostile peers.
    Full,
}

/// All levels.
pub const LEVELS: [Level; 3] = [Level::EarlyAdopter, Level::Functional, Level::Full];

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EarlyAdopter => "Early Adopter",
            Self::Functional => "Functional",
            Self::Full => "Full",
        })
    }
}

/// What a check needs besides two NICs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Needs {
    Nothing,
    /// The death of side B.
    Death,
    /// A wire with faults, determined by a seed. Runs on the emulated wire only.
    Faults(fn(u64) -> WireOptions),
}

impl Needs {
    pub(super) fn is_nothing(self) -> bool {
        matches!(self, Self::Nothing)
    }

    pub(super) fn is_death(self) -> bool {
        matches!(self, Self::Death)
    }
}

/// A named check, run by both sides at once.
pub(super) struct Check<D: Device> {
    pub(super) name: &'static str,
    pub(super) level: Level,
    /// The call or term of VIA that the check covers.
    pub(super) clause: &'static str,
    pub(super) needs: Needs,
    pub(super) run: fn(&mut Pair<D>) -> Outcome,
}

/// A table of checks: for each level, the functions and their clauses.
macro_rules! table {
    ($($level:ident { $($name:ident: $clause:literal $([$needs:expr])?;)* })*) => {
        pub(crate) fn table<D: am_via_nic::Device>() -> Vec<$crate::suite::Check<D>> {
            vec![$($($crate::suite::Check {
                name: stringify!($name),
                level: $crate::suite::Level::$level,
                clause: $clause,
                needs: $crate::suite::needs(&[$($needs)?]),
                run: $name::<D>,
            },)*)*]
        }
    };
}
pub(super) use table;

/// The one need that is given, or `Nothing`.
pub(super) fn needs(named: &[Needs]) -> Needs {
    named.first().copied().unwrap_or(Needs::Nothing)
}
