//! `mpirun`: starts programs of MPI.

fn main() -> std::process::ExitCode {
    mpi_abi::tools::run("mpirun")
}
