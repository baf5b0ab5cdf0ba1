//! Detects a program that was built for another MPI library. Such a program does not know the job: each of its tasks runs as a job of one,
//! without an error.

use std::fs;
use std::path::{Path, PathBuf};

use am_via_job::JOB_VARIABLE;

/// Names of the libraries that offer MPI to C programs, without their versions.
const NAMES: [&str; 3] = ["libmpi.so", "libmpich.so", "libmpi_abi.so"];
/// Maximum number of levels of child processes, below a task's first process, in which an MPI library is looked for.
const DEPTH_MAX: u32 = 8;

/// The MPI library, this one or another, that a process or one of its descendants has mapped.
pub(super) fn mapped_by(pid: u32) -> Option<PathBuf> {
    mapped_below(pid, DEPTH_MAX)
}

fn mapped_below(pid: u32, depth_max: u32) -> Option<PathBuf> {
    // If the file is unreadable, the process has ended or is another user's.
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let found = library_in(&maps);
    if found.is_some() || depth_max == 0 {
        return found;
    }
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let mut children = children.split_whitespace().filter_map(|child| child.parse().ok());
    children.find_map(|child| mapped_below(child, depth_max - 1))
}

/// The first MPI library in the text of a process's mappings.
fn library_in(maps: &str) -> Option<PathBuf> {
    let mut paths = maps.lines().filter_map(|line| Some(Path::new(&line[line.find('/')?..])));
    let is_mpi = |path: &&Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        NAMES.iter().any(|known| {
            name.strip_prefix(known).is_some_and(|version| version.is_empty() || version.starts_with('.'))
        })
    };
    paths.find(is_mpi).map(Path::to_owned)
}

/// Whether a library is this project's: every version of it contains the name of the variable by which a task finds its job.
pub(super) fn is_ours(library: &Path) -> bool {
    let bytes = fs::read(library).unwrap_or_default();
    bytes.windows(JOB_VARIABLE.len()).any(|window| window == JOB_VARIABLE.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_of_mpi_is_found_among_mappings_and_nothing_else_is() {
        let maps = "\
55d0-55d1 r--p 00000000 08:01 1 /usr/bin/prog
7f00-7f01 r--p 00000000 08:01 2 /usr/lib/libmpi_malloc.so
7f01-7f02 rw-p 00000000 00:00 0
7f02-7f03 r-xp 00000000 08:01 3 /opt/my mpi/libmpi.so.12.1.8
7f03-7f04 rw-p 00000000 00:00 0 [stack]
";
        assert_eq!(library_in(maps), Some(PathBuf::from("/opt/my mpi/libmpi.so.12.1.8")));
        for other in ["libmpi_cxx.so.40", "libmpi.sorted", "libmpiwrap.so", "libm.so.6"] {
            assert_eq!(library_in(&format!("7f02-7f03 r-xp 0 08:01 3 /usr/lib/{other}\n")), None);
        }
    }

    #[test]
    fn a_library_is_ours_if_it_knows_the_job() {
        assert!(is_ours(&std::env::current_exe().unwrap()));
        assert!(!is_ours(Path::new("/bin/sh")));
    }
}
