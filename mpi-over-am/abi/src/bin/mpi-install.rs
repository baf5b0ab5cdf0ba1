//! `mpi-install`: puts the C and Fortran interface of MPI under a prefix.

fn main() -> std::process::ExitCode {
    mpi_abi::tools::run("mpi-install")
}
