//! `mpifort`: the Fortran compiler, for programs of MPI.

use mpi_abi::tools::wrapper::Wrapper;

fn main() -> std::process::ExitCode {
    Wrapper { name: "mpifort", variable: "AM_FC", compiler: "gfortran", is_fortran: true }.run()
}
