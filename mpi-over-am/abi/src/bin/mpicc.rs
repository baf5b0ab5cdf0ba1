//! `mpicc`: the C compiler, for programs of MPI.

use mpi_abi::tools::wrapper::Wrapper;

fn main() -> std::process::ExitCode {
    Wrapper { name: "mpicc", variable: "AM_CC", compiler: "cc", is_fortran: false }.run()
}
