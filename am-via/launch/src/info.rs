//! The text of `amrun info`: what this machine offers to a job, what limits it, and the settings.

use std::fmt::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use am_via_job::settings::{SettingError, SettingText, Settings, Table, in_binary_units, wrapped};
use am_via_ofi::{OfiError, Provider};
use am_via_os::limits::{self, Limit, Resource};
use am_via_os::{membarrier, private_memory, sched};

/// The word that the child reads in [`private_memory_way`]. It is an atomic in a static, so that it has a fixed address in memory.
static PROBED: AtomicU64 = AtomicU64::new(0);

/// Which settings are shown.
pub use am_via_job::settings::Wanted;

/// What this machine offers to a job, what limits it, and the settings.
///
/// # Errors
/// A setting in the environment has an invalid value, or no setting has the name.
pub fn info(wanted: &Wanted) -> Result<String, InfoError> {
    let settings = Settings::from_env()?;
    match wanted {
        Wanted::Changed => {
            let changed = settings.describe_changed("amrun info");
            Ok(format!("{}\nSettings\n{changed}", facts(machine(Detail::Brief), limits_that_bound())))
        }
        Wanted::All => {
            Ok(format!("{}\nSettings\n{}", facts(machine(Detail::Full), bounds()), settings.describe()))
        }
        Wanted::Named(name) => match settings.shown().iter().find(|setting| setting.is_called(name)) {
            Some(setting) => Ok(format!("{setting}\n")),
            None => Err(InfoError::NoSuchSetting { name: name.clone() }),
        },
        Wanted::Json => Ok(format!("{}\n", as_json(&settings.shown()))),
    }
}

/// An error of `amrun info`.
#[derive(Debug, thiserror::Error)]
pub enum InfoError {
    /// A setting in the environment has an invalid value.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// No setting of am-via has this name.
    #[error(
        "there is no setting {name}; `amrun info --all` lists the settings of the job, `mpiexec --info --all` also those of MPI"
    )]
    NoSuchSetting {
        /// The name given.
        name: String,
    },
}

/// How much a fact says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// What a job uses.
    Brief,
    /// Also shows what could be chosen instead.
    Full,
}

/// Facts about this machine: names and values.
fn machine(detail: Detail) -> Vec<(String, String)> {
    let cpus = sched::allowed_cpus();
    let quota = limits::cgroup_milli_cpus();
    let quota = quota.map_or("none".to_owned(), |milli| {
        format!("{}.{:03} processors (cgroup cpu.max)", milli / 1000, milli % 1000)
    });
    let handshake = if membarrier::register().is_ok() {
        "membarrier, so that senders need no fence"
    } else {
        "a fence after each post, because the kernel refuses membarrier"
    };
    [
        ("processors", format!("{} usable: {}", cpus.len(), ranges(&cpus))),
        ("cpu quota", quota),
        ("devices", "shm (shared memory) within a host, ofi (libfabric) between hosts".to_owned()),
        ("network", network(detail)),
        ("private memory", private_memory_way()),
        ("sleep handshake", handshake.to_owned()),
    ]
    .map(|(name, fact)| (name.to_owned(), fact))
    .into()
}

/// The network provider for messages between hosts, or why there is none.
fn network(detail: Detail) -> String {
    match am_via_ofi::providers() {
        Ok((Provider { name, domain }, all)) => {
            let used = format!("libfabric: {name} on {domain}, {}", waits());
            match detail {
                Detail::Brief => used,
                Detail::Full => format!("{used}; FI_PROVIDER selects another one of: {}", all.join(", ")),
            }
        }
        Err(error) => no_network(&error, detail),
    }
}

/// Why there is no network: one line of a screen if `detail` is brief.
fn no_network(error: &OfiError, detail: Detail) -> String {
    match (error, detail) {
        (OfiError::NoLibrary { .. }, Detail::Brief) => {
            "none: libfabric is missing (Debian: libfabric1)".to_owned()
        }
        _ => format!("none ({error})"),
    }
}

/// How a task waits for a message from another host.
fn waits() -> &'static str {
    match am_via_ofi::Endpoint::open().and_then(|mut endpoint| endpoint.can_wake_a_sleeper()) {
        Ok(true) => "which wakes a waiting task",
        Ok(false) => "which cannot wake a waiting task, so that the task looks every 200 us",
        Err(_) => "which cannot open an endpoint",
    }
}

/// The value of a limit that does not bound anything.
const UNLIMITED: &str = "unlimited";

/// The limits that bound something, and the names of the others.
fn limits_that_bound() -> Vec<(String, String)> {
    let (unlimited, mut limited): (Vec<_>, Vec<_>) =
        bounds().into_iter().partition(|(_, value)| value == UNLIMITED);
    if !unlimited.is_empty() {
        let names: Vec<_> = unlimited.into_iter().map(|(name, _)| name).collect();
        limited.push((UNLIMITED.to_owned(), names.join(", ")));
    }
    limited
}

/// Limits of processes on this machine: names and values.
fn bounds() -> Vec<(String, String)> {
    let of = |resource: Resource| {
        let Limit { soft, hard } = limits::limit(resource);
        let number =
            |value: u64| if resource.is_bytes() { in_binary_units(value) } else { value.to_string() };
        let show = |value: Option<u64>| value.map_or(UNLIMITED.to_owned(), number);
        let raisable =
            if soft == hard { String::new() } else { format!(", can be raised to {}", show(hard)) };
        (resource.to_string(), format!("{}{raisable}", show(soft)))
    };
    let memory = limits::cgroup_memory_bytes().map_or(UNLIMITED.to_owned(), in_binary_units);
    Resource::ALL.into_iter().map(of).chain([("cgroup memory".to_owned(), memory)]).collect()
}

fn facts(machine: Vec<(String, String)>, limits: Vec<(String, String)>) -> String {
    let mut text = String::new();
    for (title, facts) in [("Machine", machine), ("\nLimits", limits)] {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{title}");
        for (name, fact) in facts {
            let _ = writeln!(text, "  {name:<16} {}", wrapped(&fact, 19));
        }
    }
    text
}

fn as_json(shown: &[SettingText]) -> serde_json::Value {
    let object = |facts: Vec<(String, String)>| {
        facts.into_iter().map(|(name, fact)| (name, fact.into())).collect::<serde_json::Map<_, _>>()
    };
    let settings: Vec<_> = shown.iter().map(SettingText::as_json).collect();
    serde_json::json!({ "machine": object(machine(Detail::Full)), "limits": object(bounds()), "settings": settings })
}

/// How private memory of a peer is reached: lets a child try to read this process's memory, as one task reads another's.
fn private_memory_way() -> String {
    let expected = u64::from(std::process::id()) << 32 | 0x5eed;
    PROBED.store(expected, Ordering::Relaxed);
    private_memory::allow_descendants_of(std::process::id());
    let address = (&raw const PROBED).addr();
    let output = Command::new("/proc/self/exe")
        .args(["--answer-probe", &format!("{}:{address}:{expected}", std::process::id())])
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) if output.status.success() => {
            "kernel copy (process_vm_readv and process_vm_writev)".to_owned()
        }
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stdout);
            format!("staged in pieces: the kernel refuses process_vm_readv ({})", why.trim())
        }
        Err(error) => format!("unknown: no second process could be started ({error})"),
    }
}

/// The child's side of the trial that [`info`] makes. `question` is `PID:ADDRESS:EXPECTED`: the child reads the word at this address of
/// that process, and compares it with EXPECTED.
///
/// # Errors
/// The word cannot be read, or has another value; `question` has another form.
pub fn answer_probe(question: &str) -> Result<(), String> {
    let fields: Vec<u64> = question.split(':').filter_map(|field| field.parse().ok()).collect();
    let [pid, address, expected] = fields[..] else { return Err("not a question".to_owned()) };
    let pid = i32::try_from(pid).map_err(|error| error.to_string())?;
    let found = private_memory::read_word(pid, address).map_err(|error| error.to_string())?;
    if found == expected { Ok(()) } else { Err("it read another value".to_owned()) }
}

/// Numbers in ascending order as ranges: `0-3,8`.
fn ranges(numbers: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let show = |&(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    parts.iter().map(show).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_libfabric_the_line_fits_on_a_screen() {
        let error = OfiError::NoLibrary { why: "libfabric.so.1: cannot open shared object file".repeat(2) };
        assert_eq!(no_network(&error, Detail::Brief), "none: libfabric is missing (Debian: libfabric1)");
        assert!(no_network(&error, Detail::Full).contains("cannot open shared object file"));
    }

    #[test]
    fn processors_are_shown_as_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(ranges(&[]), "");
    }

    #[test]
    fn a_question_that_is_none_is_refused() {
        for question in ["", "1:2", "a:b:c", "1:2:3:4"] {
            assert!(answer_probe(question).is_err());
        }
        PROBED.store(7, Ordering::Relaxed);
        let own = format!("{}:{}", std::process::id(), (&raw const PROBED).addr());
        assert_eq!(answer_probe(&format!("{own}:7")), Ok(()));
        assert!(answer_probe(&format!("{own}:8")).is_err());
    }
}
