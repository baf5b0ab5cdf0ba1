//! `oshcc`: the C compiler, with the options for OpenSHMEM programs.

fn main() -> std::process::ExitCode {
    mpi_abi::tools::run("oshcc")
}
