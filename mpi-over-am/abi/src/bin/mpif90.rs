//! `mpif90`: another name of `mpifort`.

fn main() -> std::process::ExitCode {
    mpi_abi::tools::run("mpif90")
}
