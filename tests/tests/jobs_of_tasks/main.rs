//! The tests between processes, in one binary: separate binaries would each compile the whole stack again.

mod conformance_shm;
mod contexts;
mod copies;
mod dead_copiers;
mod global_pointers;
mod handler_panics;
mod harness;
mod hosts;
mod jobs;
mod long_messages;
mod mpi_datatypes;
mod mpi_failures;
mod mpi_files;
mod mpi_objects;
mod mpi_ports;
mod mpi_processes;
mod mpi_settings;
mod mpi_threads;
mod mpi_windows;
mod pmi;
mod purge;
mod records;
mod registration;
mod shared_contexts;
#[expect(unsafe_code, reason = "opens the files of a job")]
mod wrapped;
