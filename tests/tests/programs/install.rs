//! An installation under a prefix: its programs work from there, and pkg-config and CMake find it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use am_tests::programs::{self, Scratch, run};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/c/t_programs.c");

fn said(command: &mut Command) -> String {
    let (good, said) = run(command);
    assert!(good, "{command:?}: {said}");
    said
}

/// Runs a program by the installed launcher, without `LD_LIBRARY_PATH`, and checks its output.
fn runs(prefix: &Path, program: &Path) {
    let mut start = Command::new(prefix.join("bin/mpiexec"));
    let text = said(start.args(["-n", "2"]).arg(program).arg("3").env_remove("LD_LIBRARY_PATH"));
    assert!(text.contains("task 1 of 2: program 0, nothing, sum 6"), "{text}");
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn wrappers_use_what_is_installed() {
    let scratch = installed("mpi-prefix-wrappers");
    let prefix = scratch.path();
    let shown = said(Command::new(prefix.join("bin/mpicc")).arg("-show"));
    for part in ["include", "lib"] {
        assert!(shown.contains(&prefix.join(part).display().to_string()), "{shown}");
    }
    let program = prefix.join("by-wrapper");
    let _ = said(Command::new(prefix.join("bin/mpicc")).arg(SOURCE).arg("-o").arg(&program));
    runs(prefix, &program);
}

#[test]
fn programs_are_one_file_with_manual_pages_completions_and_licences() {
    let scratch = installed("mpi-prefix-files");
    let prefix = scratch.path();
    for name in ["mpicc", "mpicxx", "mpic++", "mpifort", "mpif90", "mpif77", "mpirun"] {
        let link =
            prefix.join("bin").join(name).read_link().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(link, Path::new("mpiexec"), "{name}");
    }
    for page in ["mpiexec", "mpirun", "mpicc", "mpicxx", "mpifort", "amrun"] {
        let text = std::fs::read_to_string(prefix.join(format!("share/man/man1/{page}.1"))).unwrap();
        assert!(text.contains(".TH") && text.contains(".SH"), "{page}: {text}");
    }
    for (name, option) in [("mpiexec", "--hang-report"), ("amrun", "--hang-report")] {
        let text =
            std::fs::read_to_string(prefix.join("share/bash-completion/completions").join(name)).unwrap();
        assert!(text.contains(option) && text.contains("complete "), "{name}: {text}");
    }
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        assert!(prefix.join("share/doc/mpi-over-am").join(name).metadata().unwrap().len() > 1000);
    }
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
#[cfg_attr(all(has_cc, not(has_pkg_config)), ignore = "no pkg-config was found")]
fn a_prefix_may_be_moved() {
    let scratch = installed("mpi-prefix-from");
    let to = Scratch::new("mpi-prefix-to");
    let prefix = to.path().join("moved");
    std::fs::rename(scratch.path(), &prefix).unwrap();
    let mut ask = Command::new("pkg-config");
    let words =
        said(ask.args(["--cflags", "--libs", "mpi"]).env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")));
    let by_pkg_config = prefix.join("by-pkg-config");
    let mut compile = Command::new("cc");
    let _ = said(compile.arg(SOURCE).args(words.split_whitespace()).arg("-o").arg(&by_pkg_config));
    runs(&prefix, &by_pkg_config);
    let by_wrapper = prefix.join("by-wrapper");
    let _ = said(Command::new(prefix.join("bin/mpicc")).arg(SOURCE).arg("-o").arg(&by_wrapper));
    runs(&prefix, &by_wrapper);
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
#[cfg_attr(all(has_cc, not(has_pkg_config)), ignore = "no pkg-config was found")]
fn pkg_config_finds_it() {
    let scratch = installed("mpi-prefix-pkg-config");
    let prefix = scratch.path();
    let packages = prefix.join("lib/pkgconfig");
    let mut ask = Command::new("pkg-config");
    let words = said(ask.args(["--cflags", "--libs", "mpi"]).env("PKG_CONFIG_PATH", packages));
    let program = prefix.join("by-pkg-config");
    let mut compile = Command::new("cc");
    let _ = said(compile.arg(SOURCE).args(words.split_whitespace()).arg("-o").arg(&program));
    runs(prefix, &program);
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
#[cfg_attr(all(has_cc, not(has_cmake)), ignore = "no cmake was found")]
#[cfg_attr(all(has_cc, has_cmake, not(has_make)), ignore = "no make was found")]
fn cmake_finds_it() {
    let scratch = installed("mpi-prefix-cmake");
    let prefix = scratch.path();
    let folder = prefix.join("cmake");
    let path = env::join_paths(
        [prefix.join("bin")].into_iter().chain(env::split_paths(&env::var_os("PATH").unwrap_or_default())),
    )
    .expect("the test's folder has no colon in its name");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/cmake")).arg("-B").arg(&folder);
    configure.args(["-G", "Unix Makefiles"]).arg(format!("-DWITH_FORTRAN={}", u8::from(cfg!(has_gfortran))));
    let text = said(configure.env("PATH", &path).env("XDG_CACHE_HOME", prefix));
    assert!(text.contains(&prefix.join("lib/libmpi_abi.so").display().to_string()), "{text}");
    assert!(text.contains("module mpi_f08: TRUE") || cfg!(not(has_gfortran)), "{text}");
    let _ = said(Command::new("cmake").arg("--build").arg(&folder).env("XDG_CACHE_HOME", prefix));
    let mut test = Command::new("ctest");
    let text = said(test.arg("--output-on-failure").current_dir(&folder));
    assert!(text.contains("100% tests passed"), "{text}");
}

/// The modules are compiled at installation, and no program is kept waiting for them.
#[test]
#[cfg_attr(not(has_gfortran), ignore = "no gfortran was found")]
fn modules_of_fortran_are_installed() {
    let scratch = installed("mpi-prefix-fortran");
    let (prefix, cache) = (scratch.path(), scratch.path().join("cache"));
    let shown = said(
        Command::new(prefix.join("bin/mpifort"))
            .arg("-show")
            .env("XDG_CACHE_HOME", &cache)
            .env_remove("AM_FC"),
    );
    let modules = prefix.join("lib/mpi-over-am/fortran").display().to_string();
    assert!(shown.contains(&format!("-I{modules}")) && shown.contains(&format!("-L{modules}")), "{shown}");
    assert!(!cache.exists(), "{shown}");
}

/// A target folder that the caller has named relative to another folder is not used: mpi-install installs what lies beside it.
#[test]
fn what_is_installed_is_built_into_its_own_folder() {
    programs::build();
    let scratch = Scratch::new("mpi-prefix-build");
    let [cargo, words] = ["cargo", "words"].map(|name| scratch.path().join(name));
    fs::write(&cargo, "#!/bin/sh\nprintf '%s\\n' \"$@\" > \"$WORDS\"\n").expect("a test can write here");
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).expect("the file is ours");
    let mut install = Command::new(programs::folder().join("mpi-install"));
    install.arg("--prefix").arg(scratch.path().join("prefix")).envs([("CARGO", &cargo), ("WORDS", &words)]);
    let _ = said(install.env("CARGO_TARGET_DIR", "elsewhere"));
    let words = fs::read_to_string(&words).expect("the build was started");
    let folder = programs::folder().canonicalize().expect("the path exists");
    let profile = if folder.ends_with("debug") { "dev" } else { "release" };
    let target = folder.parent().expect("target/PROFILE").display().to_string();
    let end = ["--profile", profile, "--target-dir", &target];
    assert!(words.lines().collect::<Vec<_>>().ends_with(&end), "{words}");
}

/// Installs under a prefix of this test's own.
fn installed(name: &str) -> Scratch {
    programs::build();
    let scratch = Scratch::new(name);
    let mut install = Command::new(programs::folder().join("mpi-install"));
    // mpi-install builds everything first if cargo runs it, which it detects by this variable. Here everything is built already.
    let _ = said(install.arg("--prefix").arg(scratch.path()).env_remove("CARGO"));
    scratch
}
