//! `mpirun`: starts MPI programs.

fn main() -> std::process::ExitCode {
    mpi_abi::tools::run("mpirun")
}
