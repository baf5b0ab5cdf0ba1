//! Finds what tests need besides cargo: `cfg(has_gfortran)` and the like for tools, `has_libfabric` for the library of jobs on several
//! hosts, and `may_unshare` if a test may make namespaces. A test that lacks something is compiled as ignored, with the reason. With
//! `TESTS_NEED_TOOLS` set, as in `.ci/run`, no test is ignored: it fails if something is missing.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const TOOLS: [&str; 12] = [
    "cc",
    "c++",
    "gfortran",
    "flang-new-19",
    "python3",
    "valgrind",
    "nm",
    "readelf",
    "pkg-config",
    "cmake",
    "make",
    "gdb",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=PATH");
    println!("cargo::rerun-if-env-changed=TESTS_NEED_TOOLS");
    let all_are_needed = env::var_os("TESTS_NEED_TOOLS").is_some();
    let folders: Vec<PathBuf> = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
    let mut any_is_missing = false;
    for tool in TOOLS {
        let name = tool.replace("c++", "cxx").replace('-', "_");
        println!("cargo::rustc-check-cfg=cfg(has_{name})");
        let found = folders.iter().map(|folder| folder.join(tool)).find(|path| path.is_file());
        if let Some(path) = &found {
            println!("cargo::rerun-if-changed={}", path.display());
        }
        if found.is_some() || all_are_needed {
            println!("cargo::rustc-cfg=has_{name}");
        }
        any_is_missing |= found.is_none();
    }
    println!("cargo::rustc-check-cfg=cfg(has_libfabric, has_venv, may_unshare)");
    println!("cargo::rerun-if-changed={CACHE_OF_LIBRARIES}");
    println!("cargo::rerun-if-env-changed=LD_LIBRARY_PATH");
    if all_are_needed || has_libfabric() {
        println!("cargo::rustc-cfg=has_libfabric");
    }
    if all_are_needed || has_venv() {
        println!("cargo::rustc-cfg=has_venv");
    }
    if all_are_needed || may_unshare() {
        println!("cargo::rustc-cfg=may_unshare");
    }
    // Runs again when a folder of PATH changes, since a missing tool may have been installed.
    if any_is_missing {
        for folder in folders.iter().filter(|folder| folder.is_dir()) {
            println!("cargo::rerun-if-changed={}", folder.display());
        }
    }
}

/// The dynamic linker's list of installed libraries.
const CACHE_OF_LIBRARIES: &str = "/etc/ld.so.cache";
const LIBFABRIC: &str = "libfabric.so.1";

fn has_libfabric() -> bool {
    let cache = std::fs::read(CACHE_OF_LIBRARIES).unwrap_or_default();
    let folders = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    cache.windows(LIBFABRIC.len()).any(|name| name == LIBFABRIC.as_bytes())
        || env::split_paths(&folders).any(|folder| folder.join(LIBFABRIC).is_file())
        || ["/lib", "/usr/lib", "/lib64", "/usr/lib64"]
            .iter()
            .any(|folder| Path::new(folder).join(LIBFABRIC).is_file())
}

/// Whether Python can make an environment with pip (Debian: `python3-venv`).
fn has_venv() -> bool {
    Command::new("python3")
        .args(["-c", "import ensurepip, venv"])
        .output()
        .is_ok_and(|output| output.status.success())
}

/// Whether a process may give its children a host name, a user and process ids of their own.
fn may_unshare() -> bool {
    [["--uts", "--fork"], ["--user", "--map-root-user"], ["--pid", "--fork"]].iter().all(|options| {
        Command::new("unshare").args(options).arg("true").output().is_ok_and(|output| output.status.success())
    })
}
