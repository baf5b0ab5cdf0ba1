//! `mpicxx`: the C++ compiler, with the options for MPI programs.

fn main() -> std::process::ExitCode {
    mpi_abi::tools::run("mpicxx")
}
