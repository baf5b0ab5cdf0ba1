//! Finds the tools that tests need besides cargo: `cfg(has_gfortran)` and the like. A test whose tool is missing is compiled as ignored,
//! with the reason. With `TESTS_NEED_TOOLS` set, as in `.ci/run`, no test is ignored: it fails if its tool is missing.

use std::env;
use std::path::PathBuf;

const TOOLS: [&str; 10] =
    ["cc", "c++", "gfortran", "python3", "valgrind", "nm", "readelf", "pkg-config", "cmake", "make"];

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
    // Runs again when a folder of PATH changes, since a missing tool may have been installed.
    if any_is_missing {
        for folder in folders.iter().filter(|folder| folder.is_dir()) {
            println!("cargo::rerun-if-changed={}", folder.display());
        }
    }
}
