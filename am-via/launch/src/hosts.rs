//! The hosts of a job, as its caller names them.

/// A host, and the number of its tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The name for the launch agent.
    pub name: String,
    /// The number of the host's tasks; `None`: an even share.
    pub slots: Option<u32>,
}

/// An error in a list of hosts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostsError {
    /// A line or an element without the name of a host, or with an invalid number of tasks.
    #[error(
        "{text:?} is not a valid host: write NAME, NAME:TASKS, or in a file NAME slots=TASKS, with TASKS at least 1, and an IPv6 address in brackets"
    )]
    NoHost {
        /// The text.
        text: String,
    },
    /// No hosts.
    #[error("the list of hosts is empty")]
    Empty,
    /// More tasks than the hosts take.
    #[error(
        "the job has {tasks} tasks, but the hosts take {slots}; name more hosts, or give hosts more tasks"
    )]
    TooFew {
        /// Tasks of the job.
        tasks: u32,
        /// Tasks that the hosts take.
        slots: u32,
    },
}

fn host(text: &str) -> Result<Host, HostsError> {
    let wrong = || HostsError::NoHost { text: text.to_owned() };
    // An IPv6 address has colons, and so is in brackets: [fe80::1]:4.
    let address = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (name, slots) = match address {
        Some((name, "")) => (name, None),
        Some((name, rest)) => (name, Some(rest.strip_prefix(':').ok_or_else(wrong)?)),
        None => text.rsplit_once(':').map_or((text, None), |(name, slots)| (name, Some(slots))),
    };
    let slots = slots.map(str::parse).transpose().map_err(|_| wrong())?;
    let is_word = |c: char| (c != ':' || address.is_some()) && !c.is_whitespace();
    let is_name = !name.is_empty() && !name.starts_with('-') && name.chars().all(is_word);
    if is_name && slots != Some(0) { Ok(Host { name: name.to_owned(), slots }) } else { Err(wrong()) }
}

/// Reads a list of hosts such as `a,b:4`.
///
/// # Errors
/// [`HostsError::NoHost`].
pub fn parse_hosts(text: &str) -> Result<Vec<Host>, HostsError> {
    text.split(',').map(|element| host(element.trim())).collect()
}

/// Reads a file of hosts, one per line, as `NAME`, `NAME:TASKS` or `NAME slots=TASKS`; a # begins a comment.
///
/// # Errors
/// [`HostsError::NoHost`].
pub fn parse_hostfile(text: &str) -> Result<Vec<Host>, HostsError> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or("").trim());
    let hosts = lines.filter(|line| !line.is_empty()).map(|line| {
        let mut words = line.split_whitespace();
        let mut found = host(words.next().unwrap_or(""))?;
        for word in words {
            let wrong = || HostsError::NoHost { text: line.to_owned() };
            let slots = word.strip_prefix("slots=").ok_or_else(wrong)?;
            found.slots = Some(slots.parse().ok().filter(|&slots| slots > 0).ok_or_else(wrong)?);
        }
        Ok(found)
    });
    hosts.collect()
}

/// Whether all of these hosts are this machine, under one of its usual names, so that no agent and no network are needed.
#[must_use]
pub fn only_this_machine(hosts: &[Host]) -> bool {
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let is_here = |host: &Host| ["localhost", "127.0.0.1", own.trim()].contains(&host.name.as_str());
    !hosts.is_empty() && hosts.iter().all(is_here)
}

/// Checks that the hosts take these tasks.
///
/// # Errors
/// [`HostsError::TooFew`]; [`HostsError::Empty`].
pub fn check_hosts(hosts: &[Host], tasks: u32) -> Result<(), HostsError> {
    place(hosts, tasks).map(drop)
}

/// The host of each task: the first tasks on the first host. Hosts without a number share the remaining tasks evenly.
pub(super) fn place(hosts: &[Host], tasks: u32) -> Result<Vec<u32>, HostsError> {
    if hosts.is_empty() {
        return Err(HostsError::Empty);
    }
    let named: u32 = hosts.iter().filter_map(|host| host.slots).fold(0, u32::saturating_add);
    let sharing = u32::try_from(hosts.iter().filter(|host| host.slots.is_none()).count()).unwrap_or(u32::MAX);
    if sharing == 0 && named < tasks {
        return Err(HostsError::TooFew { tasks, slots: named });
    }
    let (mut left, mut shared, mut sharers) = (tasks, tasks.saturating_sub(named), sharing);
    let mut placed = Vec::new();
    for (number, host) in (0..).zip(hosts) {
        let here = host.slots.unwrap_or_else(|| {
            let share = shared.div_ceil(sharers.max(1));
            (shared, sharers) = (shared - share, sharers - 1);
            share
        });
        let here = here.min(left);
        left -= here;
        placed.extend((0..here).map(|_| number));
    }
    Ok(placed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(hosts: &str, tasks: u32) -> Result<Vec<u32>, HostsError> {
        place(&parse_hosts(hosts)?, tasks)
    }

    #[test]
    fn tasks_fill_the_hosts_in_order() {
        assert_eq!(placed("a,b", 5), Ok(vec![0, 0, 0, 1, 1]));
        assert_eq!(placed("a:1,b:4", 4), Ok(vec![0, 1, 1, 1]));
        assert_eq!(placed("a,b:2,c", 6), Ok(vec![0, 0, 1, 1, 2, 2]));
        assert_eq!(placed("a,b,c", 1), Ok(vec![0]));
        assert_eq!(placed("a:2,b:1", 4), Err(HostsError::TooFew { tasks: 4, slots: 3 }));
    }

    #[test]
    fn a_list_or_a_file_names_hosts_and_nothing_else() {
        let two =
            vec![Host { name: "a".into(), slots: None }, Host { name: "10.0.0.2".into(), slots: Some(4) }];
        assert_eq!(parse_hosts("a, 10.0.0.2:4"), Ok(two.clone()));
        assert_eq!(parse_hostfile("# ours\na\n\n10.0.0.2 slots=4 # large\n"), Ok(two.clone()));
        assert_eq!(parse_hostfile("a\n10.0.0.2:4"), Ok(two));
        let six = |slots| Ok(vec![Host { name: "fe80::1%eth0".into(), slots }]);
        assert_eq!(parse_hosts("[fe80::1%eth0]"), six(None));
        assert_eq!(parse_hosts("[fe80::1%eth0]:3"), six(Some(3)));
        assert_eq!(parse_hostfile("[fe80::1%eth0] slots=3"), six(Some(3)));
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
        assert!(parse_hostfile("a slots=0").is_err() && parse_hostfile("a cores=2").is_err());
    }
}
