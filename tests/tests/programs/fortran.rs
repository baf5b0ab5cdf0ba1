//! Fortran programs, by the module `mpi` and by `mpif.h`, in both source forms: each is built with the wrapper `mpifort` of this build and
//! run with 1, 2 and 3 tasks.

use std::process::Command;

use am_tests::programs::{self, Scratch, run};

fn test(source: &str) {
    programs::compile_and_run("mpifort", &["-O1", "-Wall", "-Wno-argument-mismatch"], source);
}

#[test]
#[cfg_attr(not(has_gfortran), ignore = "no gfortran was found")]
fn point_to_point_by_module() {
    test("fortran/f_point.f90");
}

#[test]
#[cfg_attr(not(has_gfortran), ignore = "no gfortran was found")]
fn collectives_in_fixed_form() {
    test("fortran/f_collective.f");
}

#[test]
#[cfg_attr(not(has_gfortran), ignore = "no gfortran was found")]
fn communicators_by_module() {
    test("fortran/f_communicators.f90");
}

#[test]
#[cfg_attr(not(has_gfortran), ignore = "no gfortran was found")]
fn requests_by_module() {
    test("fortran/f_requests.f90");
}

#[test]
#[cfg_attr(not(has_gfortran), ignore = "no gfortran was found")]
fn files_by_module() {
    test("fortran/f_files.f90");
}

#[test]
#[cfg_attr(not(has_gfortran), ignore = "no gfortran was found")]
fn processes_by_module() {
    test("fortran/f_processes.f90");
}

#[test]
#[cfg_attr(not(has_gfortran), ignore = "no gfortran was found")]
fn ports_by_module() {
    test("fortran/f_ports.F90");
}

/// A program whose default integers have 8 bytes is warned once in a job.
#[test]
#[cfg_attr(not(has_gfortran), ignore = "no gfortran was found")]
fn integers_of_eight_bytes_are_detected() {
    programs::build();
    let scratch = Scratch::new("t_long_integers");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/fortran/t_long_integers.f");
    for (options, warnings) in [(&["-fdefault-integer-8"][..], 1), (&[], 0)] {
        let program = scratch.path().join("program");
        let mut compile = Command::new(programs::folder().join("mpifort"));
        let (good, said) = run(compile.args(options).arg(source).arg("-o").arg(&program));
        assert!(good, "{said}");
        let mut start = Command::new(programs::folder().join("mpiexec"));
        let (good, said) = run(start.args(["-n", "2", "--timeout", "60"]).arg(&program));
        assert!(good, "{said}");
        assert_eq!(said.matches("default integers of 8 bytes").count(), warnings, "{said}");
    }
}

#[test]
#[cfg_attr(not(has_gfortran), ignore = "no gfortran was found")]
fn datatypes_by_module() {
    test("fortran/f_datatypes.f90");
}
