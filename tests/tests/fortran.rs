//! Fortran programs, by the module `mpi` and by `mpif.h`, in both source forms: each is built with the wrapper `mpifort` of this
//! build and run with 1, 2 and 3 tasks.

use am_tests::programs;

fn test(source: &str) {
    if programs::has("gfortran") {
        programs::compile_and_run("mpifort", &["-O1", "-Wall", "-Wno-argument-mismatch"], source);
    }
}

#[test]
fn point_to_point_by_module() {
    test("fortran/f_point.f90");
}

#[test]
fn collectives_in_fixed_form() {
    test("fortran/f_collective.f");
}

#[test]
fn communicators_by_module() {
    test("fortran/f_communicators.f90");
}

#[test]
fn datatypes_by_module() {
    test("fortran/f_datatypes.f90");
}
