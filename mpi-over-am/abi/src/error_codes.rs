//! Error classes and codes of the program's own, and the error handlers of windows, files and sessions (MPI 5.0 sections 9.3
//! to 9.5).
//!
//! SAFETY: every function here is called by C, under the contract that the standard gives it: pointers are good for what the
//! standard says they are for, buffers are left alone until their operation has ended, and one thread at a time is inside
//! (`state`).

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mpi_over_am::ErrorClass;

use crate::environment::{check_errhandler, keep_errhandler, raise_through};
use crate::errors::{Failure, Outcome, finish_alone, on_process};
use crate::sessions::on_session;
use crate::state::{Mpi, enter};
use crate::types::{
    Callback, MPI_ERRORS_RETURN, MPI_Errhandler, MPI_File, MPI_SUCCESS, MPI_Session, MPI_Win,
};
use crate::windows::on_window;

/// The first number that programs get: above all that the binary interface keeps for itself.
const OWN_FROM: c_int = 0x4000;

/// A class or a code of the program's.
#[derive(Clone, Debug)]
struct Own {
    class: c_int,
    is_class: bool,
    text: String,
}

/// What the program has added; the largest number ever given stays in use (MPI 5.0 section 9.5).
#[derive(Debug)]
struct Added {
    by_number: BTreeMap<c_int, Own>,
    last: c_int,
}

/// For all threads, and before `MPI_Init` too.
static ADDED: Mutex<Added> = Mutex::new(Added { by_number: BTreeMap::new(), last: OWN_FROM - 1 });

fn added() -> MutexGuard<'static, Added> {
    ADDED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The class of a code; `None` for a number that is none.
pub(crate) fn class_of(code: c_int) -> Option<c_int> {
    if (0..crate::errors::MEANINGS.len() as c_int).contains(&code) {
        return Some(code);
    }
    added().by_number.get(&code).map(|own| own.class)
}

/// The largest code or class that is in use (`MPI_LASTUSEDCODE`).
pub(crate) fn last_used() -> c_int {
    added().last
}

/// What the program says of one of its codes.
pub(crate) fn text_of(code: c_int) -> Option<String> {
    added().by_number.get(&code).map(|own| own.text.clone())
}

/// Reports through the error handler of the process where there is one: these calls are allowed before `MPI_Init` too.
pub(crate) fn finish(function: &str, outcome: Outcome<()>) -> c_int {
    match outcome {
        Ok(()) => MPI_SUCCESS,
        Err(failure) if crate::state::stage() == (true, false) => match enter(function) {
            Ok(mpi) => finish_alone(&mpi, function, Err(failure)),
            Err(code) => code,
        },
        Err(failure) => failure.code,
    }
}

fn add(class: Option<c_int>) -> c_int {
    let mut added = added();
    added.last += 1;
    let number = added.last;
    let own = Own { class: class.unwrap_or(number), is_class: class.is_none(), text: String::new() };
    added.by_number.insert(number, own);
    number
}

pub(crate) unsafe fn mpi_add_error_class(class: *mut c_int) -> c_int {
    unsafe { *class = add(None) };
    MPI_SUCCESS
}

fn unknown(number: c_int, what: &str) -> Failure {
    Failure::new(ErrorClass::Argument, format!("{number} is no error {what} that the program has added"))
}

pub(crate) unsafe fn mpi_add_error_code(class: c_int, code: *mut c_int) -> c_int {
    let known = class_of(class).filter(|&known| known == class);
    let outcome = known.ok_or_else(|| unknown(class, "class"));
    finish("MPI_Add_error_code", outcome.map(|class| unsafe { *code = add(Some(class)) }))
}

pub(crate) unsafe fn mpi_add_error_string(code: c_int, text: *const c_char) -> c_int {
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    let outcome = match added().by_number.get_mut(&code) {
        Some(own) => {
            own.text = text;
            Ok(())
        }
        None => Err(unknown(code, "code or class")),
    };
    finish("MPI_Add_error_string", outcome)
}

pub(crate) unsafe fn mpi_remove_error_class(class: c_int) -> c_int {
    let outcome = {
        let mut added = added();
        let is_used = added.by_number.values().any(|own| !own.is_class && own.class == class);
        match added.by_number.get(&class) {
            Some(own) if own.is_class && !is_used => {
                added.by_number.remove(&class);
                Ok(())
            }
            Some(own) if own.is_class => Err(Failure::new(
                ErrorClass::Argument,
                format!("class {class} still has codes: remove them first"),
            )),
            _ => Err(unknown(class, "class")),
        }
    };
    finish("MPI_Remove_error_class", outcome)
}

pub(crate) unsafe fn mpi_remove_error_code(code: c_int) -> c_int {
    let outcome = {
        let mut added = added();
        match added.by_number.get(&code) {
            Some(own) if !own.is_class => {
                added.by_number.remove(&code);
                Ok(())
            }
            _ => Err(unknown(code, "code")),
        }
    };
    finish("MPI_Remove_error_code", outcome)
}

pub(crate) unsafe fn mpi_remove_error_string(code: c_int) -> c_int {
    let outcome = match added().by_number.get_mut(&code) {
        Some(own) if !own.text.is_empty() => {
            own.text.clear();
            Ok(())
        }
        _ => Err(unknown(code, "code with a string")),
    };
    finish("MPI_Remove_error_string", outcome)
}

fn create(function: &str, callback: Callback, handler: *mut MPI_Errhandler) -> c_int {
    on_process(function, |mpi| {
        unsafe { *handler = keep_errhandler(mpi, callback)? };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_win_create_errhandler(callback: Callback, handler: *mut MPI_Errhandler) -> c_int {
    create("MPI_Win_create_errhandler", callback, handler)
}

pub(crate) unsafe fn mpi_file_create_errhandler(callback: Callback, handler: *mut MPI_Errhandler) -> c_int {
    create("MPI_File_create_errhandler", callback, handler)
}

pub(crate) unsafe fn mpi_session_create_errhandler(
    callback: Callback,
    handler: *mut MPI_Errhandler,
) -> c_int {
    create("MPI_Session_create_errhandler", callback, handler)
}

pub(crate) unsafe fn mpi_win_set_errhandler(win: MPI_Win, handler: MPI_Errhandler) -> c_int {
    on_window("MPI_Win_set_errhandler", win, |mpi, object| {
        check_errhandler(mpi, handler)?;
        object.errhandler.set(handler);
        Ok(())
    })
}

pub(crate) unsafe fn mpi_win_get_errhandler(win: MPI_Win, handler: *mut MPI_Errhandler) -> c_int {
    on_window("MPI_Win_get_errhandler", win, |_, object| {
        unsafe { *handler = object.errhandler.get() };
        Ok(())
    })
}

/// What the program says when it calls an error handler itself.
fn called(code: c_int) -> Failure {
    Failure { code, what: format!("the program has called the error handler with {code}") }
}

pub(crate) unsafe fn mpi_win_call_errhandler(win: MPI_Win, code: c_int) -> c_int {
    on_window("MPI_Win_call_errhandler", win, |_, object| {
        let of = || "a window".to_owned();
        raise_through(object.errhandler.get(), win.0, of, "MPI_Win_call_errhandler", &called(code));
        Ok(())
    })
}

pub(crate) unsafe fn mpi_session_set_errhandler(session: MPI_Session, handler: MPI_Errhandler) -> c_int {
    on_session("MPI_Session_set_errhandler", session, |mpi, object| {
        check_errhandler(mpi, handler)?;
        object.errhandler.set(handler);
        Ok(())
    })
}

pub(crate) unsafe fn mpi_session_get_errhandler(session: MPI_Session, handler: *mut MPI_Errhandler) -> c_int {
    on_session("MPI_Session_get_errhandler", session, |_, object| {
        unsafe { *handler = object.errhandler.get() };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_session_call_errhandler(session: MPI_Session, code: c_int) -> c_int {
    on_session("MPI_Session_call_errhandler", session, |_, object| {
        let of = || "a session".to_owned();
        raise_through(object.errhandler.get(), session.0, of, "MPI_Session_call_errhandler", &called(code));
        Ok(())
    })
}

/// `MPI_FILE_NULL`: there is no other file.
const NO_FILE: MPI_File = MPI_File(0x118);

/// The error handler of `MPI_FILE_NULL`.
static FILES: AtomicUsize = AtomicUsize::new(MPI_ERRORS_RETURN.0);

fn of_files() -> MPI_Errhandler {
    MPI_Errhandler(FILES.load(Ordering::Relaxed))
}

/// What a function about files returns: there are none.
#[cold]
pub(crate) fn no_files(function: &str) -> c_int {
    let failure = Failure::new(
        ErrorClass::UnsupportedOperation,
        format!("{function}: this library has no files (MPI 5.0 chapter 14)"),
    );
    raise_through(of_files(), NO_FILE.0, || "MPI_FILE_NULL".to_owned(), function, &failure)
}

fn on_no_file(function: &str, file: MPI_File, call: impl FnOnce(&Mpi) -> Outcome<()>) -> c_int {
    let mpi = match enter(function) {
        Ok(mpi) => mpi,
        Err(code) => return code,
    };
    let outcome = if file == NO_FILE {
        call(&mpi)
    } else {
        Err(Failure::new(ErrorClass::File, format!("0x{:x} is no file: this library has none", file.0)))
    };
    match outcome {
        Ok(()) => MPI_SUCCESS,
        Err(failure) => {
            raise_through(of_files(), NO_FILE.0, || "MPI_FILE_NULL".to_owned(), function, &failure)
        }
    }
}

pub(crate) unsafe fn mpi_file_set_errhandler(file: MPI_File, handler: MPI_Errhandler) -> c_int {
    on_no_file("MPI_File_set_errhandler", file, |mpi| {
        check_errhandler(mpi, handler)?;
        FILES.store(handler.0, Ordering::Relaxed);
        Ok(())
    })
}

pub(crate) unsafe fn mpi_file_get_errhandler(file: MPI_File, handler: *mut MPI_Errhandler) -> c_int {
    on_no_file("MPI_File_get_errhandler", file, |_| {
        unsafe { *handler = of_files() };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_file_call_errhandler(file: MPI_File, code: c_int) -> c_int {
    on_no_file("MPI_File_call_errhandler", file, |_| {
        let of = || "MPI_FILE_NULL".to_owned();
        raise_through(of_files(), file.0, of, "MPI_File_call_errhandler", &called(code));
        Ok(())
    })
}
