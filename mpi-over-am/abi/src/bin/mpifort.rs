//! `mpifort`: the Fortran compiler, for programs of MPI.

fn main() -> std::process::ExitCode {
    mpi_abi::tools::run("mpifort")
}
