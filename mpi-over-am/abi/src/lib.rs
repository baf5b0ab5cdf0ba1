//! The C bindings of MPI 5.0, with the standard ABI (MPI 5.0 chapter 20): `libmpi_abi.so.1`.
//!
//! A program, built by `mpicc` and run by `mpiexec -n 3`:
//!
#![doc = "```c"]
#![doc = include_str!("../hello.c")]
#![doc = "```"]
//!
//! `include/mpi.h` lists the functions and their parameters. From this header, the build script makes the exported functions, each under
//! its name and its profiling name. Each file here implements a part of the standard over mpi-over-am. If a function has two forms, only
//! the form with large counts is implemented here.
//!
//! Handles are numbers (`handles`), never addresses. Errors of mpi-over-am become error classes and go through the error handler of the
//! object that the call was about (`errors`). A panic does not leave the library: it prints its message and ends the process.

#![expect(unsafe_code, reason = "called from C")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the binary interface is that of 64-bit machines; handles and ranks are below 2^31"
)]
#![allow(clippy::exit, reason = "the fatal error handler ends the process")]
#![cfg_attr(
    not(test),
    warn(clippy::print_stdout, clippy::print_stderr, reason = "these panic if the reader has left")
)]
#![allow(non_camel_case_types, non_snake_case, reason = "C's names")]
#![allow(clippy::too_many_arguments, reason = "the standard's signatures")]

// The functions of OpenSHMEM, which this library exports, too. Both kinds of calls in one process are those of one task.
#[cfg(face = "standard")]
extern crate am_shmem as _;

mod attributes;
mod buffers;
mod categories;
mod codes;
mod collectives;
mod communicators;
mod control;
#[cfg(not(face = "standard"))]
mod conversions;
mod data;
mod datatypes;
mod engine;
mod environment;
mod errhandlers;
mod error_codes;
mod errors;
mod events;
mod face;
mod failure;
mod failures;
mod file_access;
mod files;
mod fortran;
mod generalized;
mod generalized_calls;
mod groups;
mod handles;
mod infos;
mod interface;
mod loaded;
mod mpi_t;
mod objects;
mod one_sided;
mod operations;
mod packing;
mod partitioned;
mod performance;
mod point_to_point;
mod ports;
mod processes;
mod properties;
mod raise;
mod refusals;
mod representations;
mod requests;
mod sessions;
mod shared_malloc;
mod shared_windows;
mod state;
mod statuses;
mod text;
#[cfg(face = "standard")]
pub mod tools;
mod topologies;
mod type_contents;
mod type_objects;
mod types;
mod variables;
mod windows;

/// All functions that the exports call.
mod implementation {
    pub(crate) use crate::attributes::*;
    pub(crate) use crate::buffers::*;
    pub(crate) use crate::categories::*;
    pub(crate) use crate::collectives::*;
    pub(crate) use crate::communicators::*;
    pub(crate) use crate::datatypes::*;
    pub(crate) use crate::environment::*;
    pub(crate) use crate::errhandlers::*;
    pub(crate) use crate::error_codes::*;
    pub(crate) use crate::events::*;
    pub(crate) use crate::failures::*;
    pub(crate) use crate::file_access::*;
    pub(crate) use crate::files::*;
    pub(crate) use crate::generalized_calls::*;
    pub(crate) use crate::groups::*;
    pub(crate) use crate::handles::*;
    pub(crate) use crate::infos::*;
    pub(crate) use crate::interface::*;
    pub(crate) use crate::one_sided::*;
    pub(crate) use crate::operations::*;
    pub(crate) use crate::packing::*;
    pub(crate) use crate::partitioned::*;
    pub(crate) use crate::performance::*;
    pub(crate) use crate::point_to_point::*;
    pub(crate) use crate::ports::*;
    pub(crate) use crate::processes::*;
    pub(crate) use crate::properties::*;
    pub(crate) use crate::representations::*;
    pub(crate) use crate::requests::*;
    pub(crate) use crate::sessions::*;
    pub(crate) use crate::shared_windows::*;
    pub(crate) use crate::statuses::*;
    pub(crate) use crate::topologies::*;
    pub(crate) use crate::type_contents::*;
    pub(crate) use crate::variables::*;
    pub(crate) use crate::windows::*;
}

/// The header's constants by their names in C, made by the build script. No other file of the library repeats their numbers.
mod constants {
    #![allow(dead_code, reason = "the header has more than the library names")]
    use std::ffi::c_int;

    use mpi_over_am::{BSEND_OVERHEAD_BYTES, INFO_KEY_BYTES_MAX, INFO_VALUE_BYTES_MAX, NAME_BYTES_MAX};

    use crate::types::*;

    include!(concat!(env!("OUT_DIR"), "/constants.rs"));

    // Values of mpi-over-am that programs of both languages see must equal C's.
    const _: () = {
        assert!(BSEND_OVERHEAD_BYTES <= MPI_BSEND_OVERHEAD as usize);
        assert!(INFO_KEY_BYTES_MAX + 1 >= MPI_MAX_INFO_KEY && INFO_VALUE_BYTES_MAX + 1 >= MPI_MAX_INFO_VAL);
        assert!(NAME_BYTES_MAX + 1 >= MPI_MAX_OBJECT_NAME);
        assert!(mpi_over_am::datatype::UNDEFINED == MPI_UNDEFINED as i64);
    };
}

/// The exported functions, made by the build script.
mod exports {
    #![expect(unreachable_pub, reason = "C reaches them")]
    #![expect(
        clippy::undocumented_unsafe_blocks,
        reason = "the standard is their contract, which each hands on to its implementation"
    )]
    use std::ffi::{c_char, c_int, c_void};

    use crate::types::*;

    include!(concat!(env!("OUT_DIR"), "/exports.rs"));
}

/// The exported routines of Fortran, made by the build script.
mod fortran_exports {
    #![expect(unreachable_pub, reason = "Fortran reaches them")]
    #![expect(clippy::type_complexity, reason = "the types of the C functions that they call")]
    #![expect(
        clippy::undocumented_unsafe_blocks,
        reason = "the standard is their contract, which each hands on to its implementation"
    )]
    use std::ffi::{c_char, c_int, c_void};

    use crate::face::{Handle as _, Raw};
    use crate::fortran::convert::Found;
    use crate::fortran::{callbacks, convert, sentinels, text};
    use crate::types::*;

    include!(concat!(env!("OUT_DIR"), "/fortran_exports.rs"));
}
