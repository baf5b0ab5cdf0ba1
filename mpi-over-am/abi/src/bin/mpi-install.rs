//! `mpi-install`: installs the C and Fortran interfaces of MPI under a prefix.

fn main() -> std::process::ExitCode {
    mpi_abi::tools::run("mpi-install")
}
