//! `mpicxx`: the C++ compiler, for programs of MPI.

fn main() -> std::process::ExitCode {
    mpi_abi::tools::run("mpicxx")
}
