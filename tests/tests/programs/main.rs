//! Tests of programs in C, C++ and Fortran, and of the commands that build and start them, in one binary: separate binaries would each link
//! the whole stack, and a test that waits would not run beside the others.

mod c_abi_values;
mod c_bad_input;
mod c_compared;
mod c_profiler;
mod c_programs;
mod deaths;
mod debuggers;
mod error_classes;
mod failures;
mod fortran;
mod fortran_f08;
mod hangs;
mod install;
mod long_parts;
mod other_abis;
mod processes;
mod shmem;
mod wheel;
mod wrappers;
