//! `mpicxx`: the C++ compiler, for programs of MPI.

use mpi_abi::tools::wrapper::Wrapper;

fn main() -> std::process::ExitCode {
    Wrapper { name: "mpicxx", variable: "AM_CXX", compiler: "c++", is_fortran: false }.run()
}
