//! The limits of this process: its resource limits, and those of its cgroup.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// A resource that can be limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Size of the files that the process makes (`RLIMIT_FSIZE`), in bytes.
    FileSize,
    /// The address space of the process (`RLIMIT_AS`), in bytes.
    AddressSpace,
    /// The open files of the process (`RLIMIT_NOFILE`).
    OpenFiles,
    /// Memory that the process locks (`RLIMIT_MEMLOCK`), in bytes.
    LockedMemory,
    /// Processes of the user (`RLIMIT_NPROC`).
    Processes,
    /// Size of a core dump (`RLIMIT_CORE`), in bytes.
    CoreSize,
}

impl Resource {
    /// All resources, in the order of `amrun info`.
    pub const ALL: [Self; 6] = [
        Self::FileSize,
        Self::AddressSpace,
        Self::OpenFiles,
        Self::LockedMemory,
        Self::Processes,
        Self::CoreSize,
    ];

    /// Whether the limit of this resource is a number of bytes.
    #[must_use]
    pub fn is_bytes(self) -> bool {
        !matches!(self, Self::OpenFiles | Self::Processes)
    }

    fn number(self) -> libc::__rlimit_resource_t {
        match self {
            Self::FileSize => libc::RLIMIT_FSIZE,
            Self::AddressSpace => libc::RLIMIT_AS,
            Self::OpenFiles => libc::RLIMIT_NOFILE,
            Self::LockedMemory => libc::RLIMIT_MEMLOCK,
            Self::Processes => libc::RLIMIT_NPROC,
            Self::CoreSize => libc::RLIMIT_CORE,
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FileSize => "RLIMIT_FSIZE",
            Self::AddressSpace => "RLIMIT_AS",
            Self::OpenFiles => "RLIMIT_NOFILE",
            Self::LockedMemory => "RLIMIT_MEMLOCK",
            Self::Processes => "RLIMIT_NPROC",
            Self::CoreSize => "RLIMIT_CORE",
        })
    }
}

/// The two values of a resource limit; `None`: unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The value in force.
    pub soft: Option<u64>,
    /// The maximum to which the process may raise the limit.
    pub hard: Option<u64>,
}

/// The limit on `resource`; unlimited if the system does not report one.
#[must_use]
pub fn limit(resource: Resource) -> Limit {
    let mut raw = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: getrlimit fills the rlimit it is given, a live local.
    unsafe { libc::getrlimit(resource.number(), &raw mut raw) };
    let finite = |value| (value != libc::RLIM_INFINITY).then_some(value);
    Limit { soft: finite(raw.rlim_cur), hard: finite(raw.rlim_max) }
}

/// Raises the soft limit to the hard one, and returns the limit that is then in force.
pub fn raise(resource: Resource) -> Limit {
    let now = limit(resource);
    if now.soft != now.hard {
        let most = now.hard.unwrap_or(libc::RLIM_INFINITY);
        let raw = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: setrlimit reads the rlimit it is given, a live local.
        unsafe { libc::setrlimit(resource.number(), &raw const raw) };
    }
    limit(resource)
}

/// The lowest memory limit of this process's cgroups, in bytes, each for all members of the cgroup together; `None`: no limit.
#[must_use]
pub fn cgroup_memory_bytes() -> Option<u64> {
    let v2 = smallest(&v2_folders(), "memory.max");
    // Version 1 writes "no limit" as a number near 2^63.
    let v1 = smallest(&v1_folders("memory"), "memory.limit_in_bytes").filter(|&bytes| bytes < 1 << 60);
    v2.into_iter().chain(v1).min()
}

/// How often the system has killed a process of this process's cgroup (with version 2 also of those below it) because memory was used up;
/// `None` if the system does not count this. Only the difference from an earlier value has a meaning.
#[must_use]
pub fn cgroup_memory_kills() -> Option<u64> {
    let own =
        |folders: Vec<PathBuf>, file: &str| kills(&fs::read_to_string(folders.first()?.join(file)).ok()?);
    own(v2_folders(), "memory.events").or_else(|| own(v1_folders("memory"), "memory.oom_control"))
}

/// The number in the line `oom_kill 3`.
fn kills(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// Processors that this process's cgroups allow (`cpu.max`; in version 1 `cpu.cfs_quota_us`), in thousandths; `None`: no limit.
#[must_use]
pub fn cgroup_milli_cpus() -> Option<u64> {
    let v2 = v2_folders()
        .iter()
        .filter_map(|folder| quota(&fs::read_to_string(folder.join("cpu.max")).ok()?))
        .min();
    let v1 = v1_folders("cpu")
        .iter()
        .filter_map(|folder| {
            let quota_us = fs::read_to_string(folder.join("cpu.cfs_quota_us")).ok()?;
            let period_us = fs::read_to_string(folder.join("cpu.cfs_period_us")).ok()?;
            quota(&format!("{} {}", quota_us.trim(), period_us.trim()))
        })
        .min();
    v2.into_iter().chain(v1).min()
}

/// Thousandths of a processor in a text like `150000 100000`; `None` for `max 100000` and `-1 100000`.
fn quota(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    let quota_us: u64 = words.next()?.parse().ok()?;
    let period_us: u64 = words.next()?.parse().ok()?;
    (quota_us * 1000).checked_div(period_us)
}

fn smallest(folders: &[PathBuf], file: &str) -> Option<u64> {
    folders.iter().filter_map(|folder| fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()).min()
}

/// The folders of this process's cgroup and of all cgroups above it, version 2.
fn v2_folders() -> Vec<PathBuf> {
    folders_of(Path::new("/sys/fs/cgroup"), |controllers| controllers.is_empty())
}

/// The folders of this process's cgroup of one controller and of all cgroups above it, version 1.
fn v1_folders(controller: &str) -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup").join(controller);
    folders_of(&root, |controllers| controllers.split(',').any(|name| name == controller))
}

fn folders_of(root: &Path, is_mine: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = membership.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        is_mine(controllers).then_some(path)
    });
    let Some(path) = path else { return Vec::new() };
    let below = Path::new(path).strip_prefix("/").unwrap_or(Path::new(path));
    below.ancestors().map(|ancestor| root.join(ancestor)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_read_in_both_forms() {
        assert_eq!(quota("150000 100000\n"), Some(1500));
        assert_eq!(quota("max 100000"), None);
        assert_eq!(quota("-1 100000"), None);
        assert_eq!(quota("1 0"), None);
        assert_eq!(quota(""), None);
    }

    #[test]
    fn kills_are_read_in_both_forms() {
        assert_eq!(kills("low 0\nhigh 0\nmax 7\noom 1\noom_kill 3\noom_group_kill 0\n"), Some(3));
        assert_eq!(kills("oom_kill_disable 0\nunder_oom 0\noom_kill 12\n"), Some(12));
        assert_eq!(kills("oom_kill_disable 0\nunder_oom 0\n"), None);
    }

    #[test]
    fn open_files_are_limited_and_can_be_raised_to_the_hard_limit() {
        let raised = raise(Resource::OpenFiles);
        assert_eq!(raised.soft, raised.hard);
        assert!(raised.soft.is_none_or(|files| files > 3));
    }
}
