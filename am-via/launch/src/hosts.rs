//! The hosts of a job, as its caller names them, and the number of tasks on each.

use std::path::{Path, PathBuf};

/// A host, and the number of its tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The name for the launch agent.
    pub name: String,
    /// The number of the host's tasks; `None`: an even share.
    pub slots: Option<u32>,
    /// Maximum number of the host's tasks if there are more tasks than slots; `None`: no limit.
    pub slots_max: Option<u32>,
}

impl Host {
    /// A host with this number of tasks.
    pub(super) fn with_slots(name: &str, slots: u32) -> Self {
        Self { name: name.to_owned(), slots: Some(slots), slots_max: None }
    }
}

/// An error in a list of hosts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostsError {
    /// An element without the name of a host, or with an invalid number of tasks.
    #[error(
        "{text:?} is not a valid host: write NAME or NAME:TASKS, with TASKS at least 1, and an IPv6 address in brackets"
    )]
    NoHost {
        /// The text.
        text: String,
    },
    /// A line of a file that does not name a host.
    #[error(
        "{}:{line}: {text:?}: {wrong:?} is not understood: write NAME, NAME:TASKS, or NAME slots=TASKS max_slots=TASKS, with TASKS at least 1, and an IPv6 address in brackets",
        file.display()
    )]
    Line {
        /// The file.
        file: PathBuf,
        /// The number of the line, counted from 1.
        line: usize,
        /// The line.
        text: String,
        /// The part of the line that is not understood.
        wrong: String,
    },
    /// A file of hosts cannot be read.
    #[error("the file of hosts {} cannot be read: {why}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The system's error.
        why: String,
    },
    /// No hosts.
    #[error("the list of hosts is empty")]
    Empty,
    /// More tasks than the hosts take.
    #[error(
        "the job has {tasks} tasks, but the hosts take {slots}; name more hosts, give hosts more tasks, or start more tasks than the hosts have slots (--oversubscribe; max_slots is a limit even then)"
    )]
    TooFew {
        /// Tasks of the job.
        tasks: u32,
        /// Tasks that the hosts take.
        slots: u32,
    },
}

fn host(text: &str) -> Option<Host> {
    // An IPv6 address has colons, and so is in brackets: [fe80::1]:4.
    let address = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (name, slots) = match address {
        Some((name, "")) => (name, None),
        Some((name, rest)) => (name, Some(rest.strip_prefix(':')?)),
        None => text.rsplit_once(':').map_or((text, None), |(name, slots)| (name, Some(slots))),
    };
    let slots = slots.map(number).map_or(Some(None), |slots| slots.map(Some))?;
    let is_word = |c: char| (c != ':' || address.is_some()) && !c.is_whitespace();
    let is_name = !name.is_empty() && !name.starts_with('-') && name.chars().all(is_word);
    is_name.then(|| Host { name: name.to_owned(), slots, slots_max: None })
}

/// A number of tasks.
fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|&tasks| tasks > 0)
}

/// Reads a list of hosts such as `a,b:4`. A host that is named several times takes the sum of its tasks, one where no number is given.
///
/// # Errors
/// [`HostsError::NoHost`].
pub fn parse_hosts(text: &str) -> Result<Vec<Host>, HostsError> {
    let read = |element: &str| {
        let element = element.trim();
        host(element).ok_or_else(|| HostsError::NoHost { text: element.to_owned() })
    };
    text.split(',').map(read).collect::<Result<_, _>>().map(merged)
}

/// Reads a file of hosts as people write them for MPICH and Open MPI: one host per line, as `NAME`, `NAME:TASKS` or `NAME slots=TASKS
/// max_slots=TASKS` (also `max-slots`), perhaps with blanks around the equals signs; a # begins a comment. A host of several lines takes
/// the sum of its tasks, one where no number is given.
///
/// # Errors
/// [`HostsError::Unreadable`]; [`HostsError::Line`].
pub fn read_hostfile(file: &Path) -> Result<Vec<Host>, HostsError> {
    let unreadable =
        |error: std::io::Error| HostsError::Unreadable { file: file.to_owned(), why: error.to_string() };
    parse_hostfile(&std::fs::read_to_string(file).map_err(unreadable)?, file)
}

fn parse_hostfile(text: &str, file: &Path) -> Result<Vec<Host>, HostsError> {
    let mut hosts = Vec::new();
    for (number, whole) in (1..).zip(text.lines()) {
        let line = whole.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        hosts.push(host_of_line(line).map_err(|wrong| HostsError::Line {
            file: file.to_owned(),
            line: number,
            text: line.to_owned(),
            wrong,
        })?);
    }
    Ok(merged(hosts))
}

/// The host of a line, or the part of the line that is not understood.
fn host_of_line(line: &str) -> Result<Host, String> {
    let joined = line.split('=').map(str::trim).collect::<Vec<_>>().join("=");
    let mut words = joined.split_whitespace();
    let first = words.next().unwrap_or("");
    let mut found = host(first).ok_or_else(|| first.to_owned())?;
    for word in words {
        let value = |value: &str| number(value).ok_or_else(|| word.to_owned());
        match word.split_once('=') {
            Some(("slots", slots)) => found.slots = Some(value(slots)?),
            Some(("max_slots" | "max-slots", slots)) => found.slots_max = Some(value(slots)?),
            _ => return Err(word.to_owned()),
        }
    }
    if let (Some(slots), Some(most)) = (found.slots, found.slots_max)
        && most < slots
    {
        return Err(format!("max_slots={most}"));
    }
    Ok(found)
}

/// These hosts, each of them once.
pub(super) fn merged(hosts: Vec<Host>) -> Vec<Host> {
    let mut once: Vec<Host> = Vec::new();
    for host in hosts {
        match once.iter_mut().find(|known| known.name == host.name) {
            Some(known) => {
                let slots = known.slots.unwrap_or(1).saturating_add(host.slots.unwrap_or(1));
                known.slots = Some(slots);
                known.slots_max = known.slots_max.or(host.slots_max).map(|most| most.max(slots));
            }
            None => once.push(host),
        }
    }
    once
}

/// Whether all of these hosts are this machine, under one of its usual names, so that no agent and no network are needed.
#[must_use]
pub fn only_this_machine(hosts: &[Host]) -> bool {
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let is_here = |host: &Host| {
        ["localhost", "127.0.0.1", "::1"].contains(&host.name.as_str()) || is_name_of(&host.name, own.trim())
    };
    !hosts.is_empty() && hosts.iter().all(is_here)
}

/// Whether a machine that calls itself `own` is meant by `name`. One of the two may have a domain that the other does not have.
fn is_name_of(name: &str, own: &str) -> bool {
    let short = |name: &str| name.split_once('.').map(|(short, _)| short.to_owned());
    name == own || short(name).is_some_and(|name| name == own) || short(own).is_some_and(|own| name == own)
}

/// These hosts with the number of tasks that each of them takes in a job of this number of tasks; hosts without a task are left out. The
/// first tasks run on the first host. Hosts without a number share evenly the tasks that the others leave. `oversubscribe`: if the hosts
/// have fewer slots than there are tasks, the other tasks are distributed evenly, up to each host's `slots_max`.
///
/// # Errors
/// [`HostsError::TooFew`]; [`HostsError::Empty`].
pub fn fit_hosts(hosts: &[Host], tasks: u32, oversubscribe: bool) -> Result<Vec<Host>, HostsError> {
    if hosts.is_empty() {
        return Err(HostsError::Empty);
    }
    let named: u32 = hosts.iter().filter_map(|host| host.slots).fold(0, u32::saturating_add);
    let mut sharers =
        u32::try_from(hosts.iter().filter(|host| host.slots.is_none()).count()).unwrap_or(u32::MAX);
    let (mut left, mut shared) = (tasks, tasks.saturating_sub(named));
    let mut counts = Vec::new();
    for host in hosts {
        let wanted = host.slots.unwrap_or_else(|| {
            let share = shared.div_ceil(sharers.max(1)).min(host.slots_max.unwrap_or(u32::MAX));
            (shared, sharers) = (shared - share, sharers - 1);
            share
        });
        counts.push(wanted.min(left));
        left -= wanted.min(left);
    }
    while left > 0 {
        let before = left;
        for (count, host) in counts.iter_mut().zip(hosts) {
            let may_have_more = oversubscribe || host.slots.is_none();
            if left > 0 && may_have_more && host.slots_max.is_none_or(|most| *count < most) {
                (*count, left) = (*count + 1, left - 1);
            }
        }
        if left == before {
            return Err(HostsError::TooFew { tasks, slots: tasks - left });
        }
    }
    let with_count = |(host, count): (&Host, u32)| Host { slots: Some(count), ..host.clone() };
    Ok(hosts.iter().zip(counts).map(with_count).filter(|host| host.slots != Some(0)).collect())
}

/// The host of each task of a job whose hosts have the numbers of their tasks ([`fit_hosts`]).
pub(super) fn place(hosts: &[Host]) -> Vec<u32> {
    (0..).zip(hosts).flat_map(|(number, host)| (0..host.slots.unwrap_or(1)).map(move |_| number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(hosts: &str, tasks: u32) -> Result<Vec<u32>, HostsError> {
        fit_hosts(&parse_hosts(hosts)?, tasks, false).map(|hosts| place(&hosts))
    }

    fn of_file(text: &str) -> Result<Vec<Host>, String> {
        parse_hostfile(text, Path::new("my/hosts")).map_err(|error| error.to_string())
    }

    #[test]
    fn tasks_fill_the_hosts_in_order() {
        assert_eq!(placed("a,b", 5), Ok(vec![0, 0, 0, 1, 1]));
        assert_eq!(placed("a:1,b:4", 4), Ok(vec![0, 1, 1, 1]));
        assert_eq!(placed("a,b:2,c", 6), Ok(vec![0, 0, 1, 1, 2, 2]));
        assert_eq!(placed("a,b,c", 1), Ok(vec![0]));
        assert_eq!(placed("a,b,a", 3), Ok(vec![0, 0, 1]), "a has two slots");
        assert_eq!(placed("a:2,b:1", 4), Err(HostsError::TooFew { tasks: 4, slots: 3 }));
    }

    #[test]
    fn more_tasks_than_slots_are_distributed_up_to_each_maximum() {
        let hosts = of_file("a slots=2\nb slots=1 max_slots=2").unwrap();
        let counts = |tasks| {
            let fit = fit_hosts(&hosts, tasks, true);
            fit.map(|hosts| hosts.iter().map(|host| host.slots.unwrap()).collect::<Vec<_>>())
        };
        assert_eq!(counts(2), Ok(vec![2]));
        assert_eq!(counts(4), Ok(vec![3, 1]));
        assert_eq!(counts(8), Ok(vec![6, 2]));
        let limited = of_file("a slots=1 max_slots=2").unwrap();
        assert_eq!(fit_hosts(&limited, 3, true), Err(HostsError::TooFew { tasks: 3, slots: 2 }));
        let limited = of_file("a max_slots=1\nb").unwrap();
        let fit = fit_hosts(&limited, 4, false).unwrap();
        assert_eq!(place(&fit), [0, 1, 1, 1], "without slots, the maximum is a limit, too");
    }

    #[test]
    fn a_list_or_a_file_names_hosts_and_nothing_else() {
        let plain = |name: &str| Host { name: name.into(), slots: None, slots_max: None };
        let two = vec![plain("a"), Host::with_slots("10.0.0.2", 4)];
        assert_eq!(parse_hosts("a, 10.0.0.2:4"), Ok(two.clone()));
        for text in [
            "# ours\na\n\n10.0.0.2 slots=4 # large\n",
            "a\n10.0.0.2:4",
            "a\n10.0.0.2 slots = 4\n",
            "a\r\n\t10.0.0.2\tslots= 4#x\r\n",
        ] {
            assert_eq!(of_file(text), Ok(two.clone()), "{text}");
        }
        for text in ["a slots=2 max_slots=8", "a slots=2 max-slots=8", "a:2 max-slots = 8"] {
            assert_eq!(
                of_file(text),
                Ok(vec![Host { slots_max: Some(8), ..Host::with_slots("a", 2) }]),
                "{text}"
            );
        }
        assert_eq!(of_file("a\nb\na\na slots=2"), Ok(vec![Host::with_slots("a", 4), plain("b")]));
        let six = |slots| Ok(vec![Host { slots, ..plain("fe80::1%eth0") }]);
        assert_eq!(parse_hosts("[fe80::1%eth0]"), six(None));
        assert_eq!(parse_hosts("[fe80::1%eth0]:3"), six(Some(3)));
        assert_eq!(of_file("[fe80::1%eth0] slots=3"), six(Some(3)).map_err(|_: HostsError| String::new()));
        for wrong in [
            "",
            "a,,b",
            "a:",
            "a:x",
            "a:0",
            "-oProxyCommand=x",
            "a b",
            "fe80::1",
            "::1",
            "[::1",
            "[::1]3",
            "[]",
            "[-x]",
        ] {
            assert!(parse_hosts(wrong).is_err(), "{wrong}");
        }
        for (wrong, part) in [
            ("a\n\nb slots=0", r#"my/hosts:3: "b slots=0": "slots=0" is not understood"#),
            ("a cores=2", r#"my/hosts:1: "a cores=2": "cores=2" is not"#),
            ("a slots=4 max_slots=2", r#""max_slots=2" is not"#),
            ("a slots=", r#""slots=" is not"#),
            ("-x", r#""-x" is not"#),
        ] {
            let said = of_file(wrong).unwrap_err();
            assert!(said.contains(part), "{wrong}: {said}");
        }
    }

    #[test]
    fn a_machine_has_a_name_with_and_without_its_domain() {
        for (name, own, is_own) in [
            ("n1", "n1", true),
            ("n1.cluster", "n1", true),
            ("n1", "n1.cluster", true),
            ("n1.x", "n1.y", false),
            ("n2", "n1", false),
        ] {
            assert_eq!(is_name_of(name, own), is_own, "{name} {own}");
        }
    }
}
