//! Fortran programs, by the module `mpi` and by `mpif.h`, in both source forms: each is built with the wrapper `mpifort` of this build and
//! run with 1, 2 and 3 tasks.

use am_tests::programs;

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
fn datatypes_by_module() {
    test("fortran/f_datatypes.f90");
}
