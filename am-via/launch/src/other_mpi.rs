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

/// The first MPI library in the text of a process's mappings. Only mappings with code count: in a wheel, libraries without code stand for
/// links to a library, under the names of other MPI libraries.
fn library_in(maps: &str) -> Option<PathBuf> {
    let has_code = |line: &&str| line.split(' ').nth(1).is_some_and(|rights| rights.contains('x'));
    let with_code = maps.lines().filter(has_code);
    let mut paths = with_code.filter_map(|line| Some(Path::new(&line[line.find('/')?..])));
    let is_mpi = |path: &&Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        NAMES.iter().any(|known| {
            name.strip_prefix(known).is_some_and(|version| version.is_empty() || version.starts_with('.'))
        })
    };
    paths.find(is_mpi).map(Path::to_owned)
}

/// What a user can do about a program that has loaded a library of another project.
pub(super) fn advice(library: &Path) -> String {
    let name = library.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_version =
        |known: &str| name.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let interface = match () {
        () if ["libmpi.so.12", "libmpich.so.12"].into_iter().any(is_version) => "mpich",
        () if is_version("libmpi.so.40") => "openmpi",
        () => return "build the program with mpicc, mpicxx or mpifort".to_owned(),
    };
    format!(
        "mpiexec --abi {interface} makes tasks load this project's library instead, and a program that mpicc, mpicxx or mpifort has built needs no option"
    )
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
7f02-7f03 r--p 00000000 08:01 4 /home/user/environment/lib/libmpi.so.12
7f02-7f03 r-xp 00000000 08:01 3 /opt/my mpi/libmpi.so.12.1.8
7f03-7f04 rw-p 00000000 00:00 0 [stack]
";
        assert_eq!(library_in(maps), Some(PathBuf::from("/opt/my mpi/libmpi.so.12.1.8")));
        for other in ["libmpi_cxx.so.40", "libmpi.sorted", "libmpiwrap.so", "libm.so.6"] {
            assert_eq!(library_in(&format!("7f02-7f03 r-xp 0 08:01 3 /usr/lib/{other}\n")), None);
        }
    }

    #[test]
    fn the_advice_names_the_interface_of_the_library() {
        for (library, expected) in [
            ("/opt/mpich/lib/libmpi.so.12.1.8", "--abi mpich"),
            ("/usr/lib/libmpich.so.12", "--abi mpich"),
            ("/usr/lib/libmpi.so.40.30.4", "--abi openmpi"),
            ("/usr/lib/libmpi.so.120", "build the program"),
            ("/usr/lib/libmpi_abi.so.0", "build the program"),
        ] {
            assert!(
                advice(Path::new(library)).contains(expected),
                "{library}: {}",
                advice(Path::new(library))
            );
        }
    }

    #[test]
    fn a_library_is_ours_if_it_knows_the_job() {
        assert!(is_ours(&std::env::current_exe().unwrap()));
        assert!(!is_ours(Path::new("/bin/sh")));
    }
}
