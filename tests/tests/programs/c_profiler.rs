//! Tools that intercept calls (MPI 5.0 chapter 15): a shared object, loaded before the library, that defines some of the functions, counts
//! their calls, and forwards them under their other names. A last test checks that no exception unwinds through the library.

use std::process::Command;

use am_tests::programs::{self, Scratch, run};

fn compile(
    wrapper: &str,
    options: &[&str],
    source: &str,
    scratch: &Scratch,
    name: &str,
) -> std::path::PathBuf {
    let program = scratch.path().join(name);
    let mut command = Command::new(programs::folder().join(wrapper));
    command.args(options).arg(format!("{}/{source}", env!("CARGO_MANIFEST_DIR"))).arg("-o").arg(&program);
    let (good, said) = run(command.env("XDG_CACHE_HOME", scratch.path()).current_dir(scratch.path()));
    assert!(good, "{source} does not compile: {said}");
    program
}

/// Runs a program with the tool, which must count three sends and three receives of each task, and without it: then nothing is printed.
fn counts(wrapper: &str, source: &str) {
    programs::build();
    let scratch = Scratch::new(&source.replace(['/', '.'], "-"));
    let tool =
        compile("mpicc", &["-shared", "-fPIC", "-Wall", "-Werror"], "c/t_profiler.c", &scratch, "tool.so");
    let program = compile(wrapper, &[], source, &scratch, "program");
    let mut start = Command::new(programs::folder().join("mpiexec"));
    start.args(["-n", "2", "-x"]).arg(format!("LD_PRELOAD={}", tool.display())).arg(&program);
    let (good, said) = run(&mut start);
    assert!(good, "{said}");
    for task in 0..2 {
        let line = format!("task {task}: init 1 sends 3 receives 3");
        assert!(said.lines().any(|said| said == line), "{line} is missing in: {said}");
    }
    let (good, said) = run(Command::new(programs::folder().join("mpiexec")).args(["-n", "2"]).arg(&program));
    assert!(good && said.is_empty(), "{said}");
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn a_tool_sees_the_calls_of_c() {
    counts("mpicc", "c/t_profiled.c");
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
#[cfg_attr(all(has_cc, not(has_gfortran)), ignore = "no gfortran was found")]
fn a_tool_sees_the_calls_of_fortran() {
    counts("mpifort", "fortran/t_profiled.f90");
}

/// The arguments of Fortran calls are converted before they reach C functions: the tool replaces the library and checks them.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
#[cfg_attr(all(has_cc, not(has_gfortran)), ignore = "no gfortran was found")]
fn arguments_of_fortran_arrive_in_c() {
    programs::build();
    let scratch = Scratch::new("arguments");
    let tool =
        compile("mpicc", &["-shared", "-fPIC", "-Wall", "-Werror"], "c/t_arguments.c", &scratch, "tool.so");
    let program = compile("mpifort", &[], "fortran/t_arguments.f90", &scratch, "program");
    let mut start = Command::new(programs::folder().join("mpiexec"));
    start.args(["-n", "1", "-x"]).arg(format!("LD_PRELOAD={}", tool.display())).arg(&program);
    let (good, said) = run(&mut start);
    assert!(good && said == "all said\n", "{said}");
}

#[test]
#[cfg_attr(not(has_cxx), ignore = "no C++ compiler (c++) was found")]
fn nothing_unwinds_through_the_library() {
    programs::build();
    let scratch = Scratch::new("nothing-unwinds");
    let program = compile("mpicxx", &["-Wall", "-Werror"], "c/t_unwind.cpp", &scratch, "program");
    let functions = [
        ("operation", "an operation"),
        ("wide operation", "an operation"),
        ("error handler", "an error handler"),
        ("copy function", "a copy function of attributes"),
        ("delete function", "a delete function of attributes"),
        ("query function", "a query function"),
        ("free function", "a free function"),
        ("cancel function", "a cancel function"),
    ];
    for (function, named) in functions {
        let mut start = Command::new(programs::folder().join("mpiexec"));
        let (good, said) = run(start.args(["-n", "1"]).arg(&program).arg(function));
        let why = format!("{named} of this program has thrown an exception");
        assert!(!good && said.contains("SIGABRT") && said.contains(&why), "{function}: {said}");
        assert!(!said.contains("unwound") && !said.contains("went on"), "{function}: {said}");
    }
}
