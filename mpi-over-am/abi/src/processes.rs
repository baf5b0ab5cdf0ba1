//! Processes that a program starts (MPI 5.0 sections 11.8 and 11.9).
//!
//! SAFETY: each `mpi_*` function here is called under the contract that the standard gives it: pointers are valid for the accesses that the
//! standard specifies, and an array that is significant at the root only is read there only.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results and read arrays at the program's pointers; blocks that do more have a note"
)]

use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::os::unix::ffi::OsStrExt as _;

use mpi_over_am::{Command, ErrorClass};

use crate::communicators::{keep_communicator, make};
use crate::constants::{MPI_COMM_NULL, MPI_ERR_SPAWN, MPI_SUCCESS};
use crate::errors::on_process;
use crate::failure::{Failure, Outcome, elements, not_null};
use crate::infos::info_of;
use crate::types::{MPI_Comm, MPI_Info};

/// A word of the program, as it is.
unsafe fn word_at(at: *const c_char, what: &str) -> Outcome<OsString> {
    if at.is_null() {
        return Err(Failure::new(ErrorClass::Argument, format!("{what} is null")));
    }
    // SAFETY: not null, and a NUL-terminated string of the program.
    Ok(OsStr::from_bytes(unsafe { CStr::from_ptr(at) }.to_bytes()).to_owned())
}

/// A program with its arguments, which a null pointer ends; `MPI_ARGV_NULL` is null.
unsafe fn command_of(
    program: *const c_char,
    arguments: *const *mut c_char,
    maxprocs: c_int,
    info: MPI_Info,
) -> Outcome<Command> {
    let program = unsafe { word_at(program, "the name of the program")? };
    let name = program.to_string_lossy().into_owned();
    let info = info_of(info)?;
    let tasks = u32::try_from(maxprocs).ok().filter(|&tasks| tasks > 0).ok_or_else(|| {
        Failure::new(ErrorClass::Argument, format!("{name}: maxprocs is {maxprocs}, and must be at least 1"))
    })?;
    let mut words = Vec::new();
    let mut at = arguments;
    while !at.is_null() && !unsafe { *at }.is_null() {
        words.push(unsafe { word_at(*at, "an argument")? });
        // SAFETY: a null pointer, which has not come yet, ends the array.
        at = unsafe { at.add(1) };
    }
    Ok(Command { program, arguments: words, tasks, info })
}

/// Stores a code for each task that was asked for, command by command.
unsafe fn give_codes(mut codes: *mut c_int, asked: &[u32], started: &[u32]) {
    if codes.is_null() {
        return;
    }
    for (at, &asked) in asked.iter().enumerate() {
        let started = started.get(at).copied().unwrap_or_default();
        for number in 0..asked {
            unsafe { *codes = if number < started { MPI_SUCCESS } else { MPI_ERR_SPAWN } };
            // SAFETY: the program gives room for a code of each task.
            codes = unsafe { codes.add(1) };
        }
    }
}

/// Starts the tasks of the commands, which matter at the root, and stores their codes in all tasks. Of the tasks that were asked for, some
/// may not be started: the program said that fewer will do.
unsafe fn spawn(
    function: &str,
    (comm, root): (MPI_Comm, c_int),
    (new, codes): (*mut MPI_Comm, *mut c_int),
    commands: impl FnOnce() -> Outcome<Vec<Command>>,
) -> c_int {
    make(function, comm, new, |_, communicator| {
        let is_root = u32::try_from(root) == Ok(communicator.rank());
        let root = u32::try_from(root)
            .map_err(|_| Failure::new(ErrorClass::Root, format!("the root is {root}, below zero")))?;
        let commands = if is_root { commands() } else { Ok(Vec::new()) };
        let commands = commands.as_deref().map_err(Failure::to_error);
        let (asked, spawned) = communicator.spawn_or_tell(commands, root);
        let started = spawned.as_ref().map_or(&[][..], |(_, started)| started);
        unsafe { give_codes(codes, &asked, started) };
        Ok(Some(spawned?.0))
    })
}

#[expect(clippy::too_many_arguments, reason = "the standard's function has them")]
pub(crate) unsafe fn mpi_comm_spawn(
    command: *const c_char,
    argv: *mut *mut c_char,
    maxprocs: c_int,
    info: MPI_Info,
    root: c_int,
    comm: MPI_Comm,
    new: *mut MPI_Comm,
    codes: *mut c_int,
) -> c_int {
    let commands = || {
        let command = unsafe { command_of(command, argv.cast_const(), maxprocs, info)? };
        Ok(vec![command])
    };
    unsafe { spawn("MPI_Comm_spawn", (comm, root), (new, codes), commands) }
}

#[expect(clippy::too_many_arguments, reason = "the standard's function has them")]
pub(crate) unsafe fn mpi_comm_spawn_multiple(
    count: c_int,
    programs: *mut *mut c_char,
    arguments: *mut *mut *mut c_char,
    maxprocs: *const c_int,
    infos: *const MPI_Info,
    root: c_int,
    comm: MPI_Comm,
    new: *mut MPI_Comm,
    codes: *mut c_int,
) -> c_int {
    let commands = || {
        if count < 1 {
            return Err(Failure::new(
                ErrorClass::Argument,
                format!("the number of programs is {count}, and must be at least 1"),
            ));
        }
        let (programs, maxprocs) =
            unsafe { (elements(programs.cast_const(), count)?, elements(maxprocs, count)?) };
        let infos = unsafe { elements(infos, count)? };
        let all =
            programs.iter().zip(maxprocs).zip(infos).enumerate().map(|(at, ((&program, &most), &info))| {
                let arguments =
                    if arguments.is_null() { std::ptr::null_mut() } else { unsafe { *arguments.add(at) } };
                unsafe { command_of(program, arguments.cast_const(), most, info) }
            });
        all.collect()
    };
    unsafe { spawn("MPI_Comm_spawn_multiple", (comm, root), (new, codes), commands) }
}

pub(crate) unsafe fn mpi_comm_get_parent(parent: *mut MPI_Comm) -> c_int {
    on_process("MPI_Comm_get_parent", |mpi| {
        let at = not_null(parent)?;
        if mpi.parent.get() == MPI_COMM_NULL {
            let known = mpi.environment.borrow().as_ref().and_then(crate::engine::Environment::parent);
            if let Some(known) = known {
                known.properties().set_error_handler(mpi_over_am::ErrorHandler::Fatal);
                mpi.parent.set(keep_communicator(mpi, Some(known), crate::raise::initial())?);
            }
        }
        unsafe { *at = mpi.parent.get() };
        Ok(())
    })
}
