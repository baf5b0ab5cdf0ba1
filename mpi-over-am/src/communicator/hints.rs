//! The hints that the library knows, with their defaults (MPI 5.0 sections 7.4.4, 11.3.1, 11.4.3 and 12.2.7).
//!
//! An inquiry returns a value for each known hint with a default (MPI 5.0 section 7.4.4), and the program's value for the others. Hints
//! with other keys, and values that a hint cannot have, are ignored, so that a program can tell from an inquiry what is there.

use crate::communicator::attribute::ObjectKind;
use crate::communicator::info::Info;

/// The kinds of memory from which the library takes and into which it puts data: that of the library itself, and the system's.
const MEMORY_KINDS: &str = "mpi,system";

/// A hint that the library knows.
struct Hint {
    key: &'static str,
    default: Option<&'static str>,
    values: Values,
}

/// The values that a hint can have.
enum Values {
    /// `true` or `false`.
    Boolean,
    /// One of these words.
    One(&'static [&'static str]),
    /// One or more of these words, separated by commas, in any order; or `none`.
    Several(&'static [&'static str]),
    /// A number that is not negative.
    Number,
    /// A list of kinds of memory that are all there.
    MemoryKinds,
    /// The library's value: the program cannot change it.
    Fixed,
}

const fn hint(key: &'static str, default: Option<&'static str>, values: Values) -> Hint {
    Hint { key, default, values }
}

const FALSE: Option<&str> = Some("false");

/// Hints of communicators, windows and sessions.
const OF_ALL: [Hint; 1] = [hint("mpi_memory_alloc_kinds", Some(MEMORY_KINDS), Values::Fixed)];

const OF_COMMUNICATORS: [Hint; 7] = [
    hint("mpi_assert_no_any_tag", FALSE, Values::Boolean),
    hint("mpi_assert_no_any_source", FALSE, Values::Boolean),
    hint("mpi_assert_exact_length", FALSE, Values::Boolean),
    hint("mpi_assert_allow_overtaking", FALSE, Values::Boolean),
    hint("mpi_assert_strict_persistent_collective_ordering", FALSE, Values::Boolean),
    hint("mpi_assert_memory_alloc_kinds", None, Values::MemoryKinds),
    // The resource of a communicator that `MPI_Comm_split_type` has made.
    hint("mpi_hw_resource_type", None, Values::One(&["mpi_shared_memory"])),
];

const OF_WINDOWS: [Hint; 8] = [
    hint("no_locks", FALSE, Values::Boolean),
    hint("accumulate_ordering", Some("rar,raw,war,waw"), Values::Several(&["rar", "raw", "war", "waw"])),
    hint("accumulate_ops", Some("same_op_no_op"), Values::One(&["same_op", "same_op_no_op"])),
    hint("mpi_accumulate_granularity", Some("0"), Values::Number),
    hint("same_size", FALSE, Values::Boolean),
    hint("same_disp_unit", FALSE, Values::Boolean),
    hint("alloc_shared_noncontig", FALSE, Values::Boolean),
    hint("mpi_assert_memory_alloc_kinds", None, Values::MemoryKinds),
];

const THREAD_LEVELS: [&str; 4] =
    ["MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"];
const OF_SESSIONS: [Hint; 1] =
    [hint("thread_level", Some("MPI_THREAD_MULTIPLE"), Values::One(&THREAD_LEVELS))];

/// Hints of files (MPI 5.0 section 14.2.8, and those of ROMIO that programs set).
const OF_FILES: [Hint; 7] = [
    hint("access_style", None, Values::Several(&ACCESS_STYLES)),
    hint("collective_buffering", None, Values::Boolean),
    hint("cb_nodes", None, Values::Number),
    hint("cb_buffer_size", Some("16777216"), Values::Number),
    hint("romio_cb_read", Some("automatic"), Values::One(&["automatic", "enable", "disable"])),
    hint("romio_cb_write", Some("automatic"), Values::One(&["automatic", "enable", "disable"])),
    hint("striping_unit", Some("4096"), Values::Number),
];
const ACCESS_STYLES: [&str; 6] =
    ["read_once", "write_once", "read_mostly", "write_mostly", "sequential", "reverse_sequential"];

impl Hint {
    /// The value in the form in which an inquiry returns it; `None` if the hint cannot have this value.
    fn normalised(&self, value: &str) -> Option<String> {
        let value = value.trim();
        let parts = || value.split(',').map(str::trim);
        let is_valid = match self.values {
            Values::Boolean => matches!(value, "true" | "false"),
            Values::One(words) => words.contains(&value),
            Values::Several(words) => {
                if value != "none" && !parts().all(|part| words.contains(&part)) {
                    return None;
                }
                let chosen: Vec<_> =
                    words.iter().copied().filter(|word| parts().any(|part| part == *word)).collect();
                return Some(if chosen.is_empty() { "none".to_owned() } else { chosen.join(",") });
            }
            Values::Number => return value.parse().ok().map(|number: u32| number.to_string()),
            Values::MemoryKinds => {
                if !parts().all(is_memory_kind) {
                    return None;
                }
                return Some(parts().collect::<Vec<_>>().join(","));
            }
            Values::Fixed => false,
        };
        is_valid.then(|| value.to_owned())
    }
}

/// Whether a kind of memory is there; a kind can be restricted to memory of some calls (MPI 5.0 section 11.4.3).
fn is_memory_kind(kind: &str) -> bool {
    let mut parts = kind.split(':');
    match parts.next() {
        Some("system") => parts.next().is_none(),
        Some("mpi") => parts.all(|by| matches!(by, "alloc_mem" | "win_allocate" | "win_allocate_shared")),
        _ => false,
    }
}

fn known(kind: ObjectKind) -> impl Iterator<Item = &'static Hint> {
    let (all, own): (&[Hint], &[Hint]) = match kind {
        ObjectKind::Communicator => (&OF_ALL, &OF_COMMUNICATORS),
        ObjectKind::Window => (&OF_ALL, &OF_WINDOWS),
        ObjectKind::Session => (&OF_ALL, &OF_SESSIONS),
        ObjectKind::File => (&[], &OF_FILES),
        ObjectKind::Datatype => (&[], &[]),
    };
    all.iter().chain(own)
}

/// Of the hints that a program gives, those that the library knows, with normalised values.
pub(crate) fn accepted(kind: ObjectKind, given: &Info) -> Info {
    let mut info = Info::new();
    for hint in known(kind) {
        let value = given.iter().find(|&(key, _)| key == hint.key);
        if let Some(value) = value.and_then(|(_, value)| hint.normalised(value)) {
            info.put(hint.key, &value);
        }
    }
    info
}

/// The hints in use: those that the program has given, and the defaults of the others.
pub(crate) fn in_use(kind: ObjectKind, given: &Info) -> Info {
    let mut info = Info::new();
    for hint in known(kind) {
        let value = given.iter().find(|&(key, _)| key == hint.key).map(|(_, value)| value);
        if let Some(value) = value.or(hint.default) {
            info.put(hint.key, value);
        }
    }
    info
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted_value(kind: ObjectKind, key: &str, value: &str) -> Option<String> {
        let mut given = Info::new();
        given.set(key, value).unwrap();
        accepted(kind, &given).get(key).unwrap().map(str::to_owned)
    }

    #[test]
    fn values_are_checked_and_normalised() {
        use ObjectKind::{Communicator, Datatype, Session, Window};
        for (kind, key, given, expected) in [
            (Communicator, "mpi_assert_no_any_tag", " true ", Some("true")),
            (Communicator, "mpi_assert_no_any_tag", "yes", None),
            (Communicator, "no_locks", "true", None),
            (Communicator, "bogus", "1", None),
            (Communicator, "mpi_memory_alloc_kinds", "cuda:device", None),
            (
                Communicator,
                "mpi_assert_memory_alloc_kinds",
                "system, mpi:alloc_mem",
                Some("system,mpi:alloc_mem"),
            ),
            (Communicator, "mpi_assert_memory_alloc_kinds", "system,cuda", None),
            (Communicator, "mpi_assert_memory_alloc_kinds", "", None),
            (Window, "no_locks", "true", Some("true")),
            (Window, "accumulate_ordering", "waw, rar", Some("rar,waw")),
            (Window, "accumulate_ordering", "none", Some("none")),
            (Window, "accumulate_ordering", "rar,none", None),
            (Window, "accumulate_ops", "same_op", Some("same_op")),
            (Window, "accumulate_ops", "all", None),
            (Window, "mpi_accumulate_granularity", "08", Some("8")),
            (Window, "mpi_accumulate_granularity", "-8", None),
            (Session, "thread_level", "MPI_THREAD_SINGLE", Some("MPI_THREAD_SINGLE")),
            (Datatype, "mpi_memory_alloc_kinds", "mpi", None),
        ] {
            let found = accepted_value(kind, key, given);
            assert_eq!(found.as_deref(), expected, "{key}={given}");
        }
    }

    #[test]
    fn the_library_says_which_memory_there_is() {
        for kind in [ObjectKind::Communicator, ObjectKind::Window, ObjectKind::Session] {
            let used = in_use(kind, &Info::new());
            assert_eq!(used.get("mpi_memory_alloc_kinds").unwrap(), Some("mpi,system"));
        }
        assert!(in_use(ObjectKind::Datatype, &Info::new()).is_empty());
    }
}
