//! `oshrun`: starts the PEs of an OpenSHMEM program, as `mpiexec` starts tasks.

fn main() -> std::process::ExitCode {
    mpi_abi::tools::run("oshrun")
}
