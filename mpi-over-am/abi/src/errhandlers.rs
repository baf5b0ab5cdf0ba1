//! Error handlers of communicators, windows, sessions and files (MPI 5.0 section 9.3). The handlers themselves belong to the
//! process: a session may need one before there is anything else of MPI.
//!
//! SAFETY: every function here is called by C, under the contract that the standard gives it: pointers are good for what the
//! standard says they are for, buffers are left alone until their operation has ended, and one thread at a time is inside
//! (`state`).

use std::cell::RefCell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mpi_over_am::ErrorClass;

use crate::communicators::with_pending;
use crate::constants::{
    MPI_COMM_SELF, MPI_COMM_WORLD, MPI_ERRHANDLER_NULL, MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL,
    MPI_ERRORS_RETURN, MPI_FILE_NULL, MPI_SESSION_NULL, MPI_SUCCESS,
};
use crate::error_codes::{finish, meaning};
use crate::errors::{Failure, Outcome, call_program, no_communicator, on_communicator, place};
use crate::handles::{Handles, ObjectKind};
use crate::sessions::on_session;
use crate::state::{CommunicatorObject, enter};
use crate::types::{Callback, MPI_Comm, MPI_Errhandler, MPI_File, MPI_Session, MPI_Win};
use crate::windows::on_window;

/// An error handler of the program: `void f(Handle *, int *, ...)`.
type ErrorFunction = unsafe extern "C-unwind" fn(*mut usize, *mut c_int, ...);

/// What an error handler may be set on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    Communicator,
    Window,
    Session,
    File,
}

/// An error handler that the program has made.
#[derive(Clone, Copy, Debug)]
struct ErrhandlerObject {
    function: Callback,
    on: On,
    /// How many handles the program has that it must free; none: it cannot use the handler any more.
    by_program: u32,
    /// How many objects have it.
    by_objects: u32,
}

static ERRHANDLERS: Mutex<Handles<ErrhandlerObject>> = Mutex::new(Handles::new(ObjectKind::ErrorHandler));

fn errhandlers() -> MutexGuard<'static, Handles<ErrhandlerObject>> {
    ERRHANDLERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Changes what is known of an error handler of the program; it goes when nobody has it any more.
fn change(handle: MPI_Errhandler, change: impl FnOnce(&mut ErrhandlerObject)) {
    let all = errhandlers();
    if let Some(mut object) = all.get(handle.0) {
        change(&mut object);
        if object.by_program + object.by_objects == 0 {
            all.remove(handle.0);
        } else {
            all.fill(handle.0, object);
        }
    }
}

/// The error handler of an object, which stays as long as the object has it.
#[derive(Debug)]
pub(crate) struct KeptErrhandler(AtomicUsize);

impl KeptErrhandler {
    pub(crate) fn new(handle: MPI_Errhandler) -> Self {
        change(handle, |object| object.by_objects += 1);
        Self(AtomicUsize::new(handle.0))
    }

    pub(crate) fn get(&self) -> MPI_Errhandler {
        // Relaxed: the number is all there is; what it names lies behind a lock.
        MPI_Errhandler(self.0.load(Ordering::Relaxed))
    }

    /// Sets another one.
    ///
    /// # Errors
    /// It is none, or one for other objects.
    fn set(&self, on: On, handle: MPI_Errhandler) -> Outcome<()> {
        check_errhandler(on, handle)?;
        change(handle, |object| object.by_objects += 1);
        let older = self.0.swap(handle.0, Ordering::Relaxed);
        change(MPI_Errhandler(older), |object| object.by_objects -= 1);
        Ok(())
    }

    /// Gives the program a handle, which it has to free.
    ///
    /// # Errors
    /// There is no place for it.
    fn give(&self, at: *mut MPI_Errhandler) -> Outcome<()> {
        let at = place(at)?;
        change(self.get(), |object| object.by_program += 1);
        unsafe { *at = self.get() };
        Ok(())
    }
}

impl Drop for KeptErrhandler {
    fn drop(&mut self) {
        change(self.get(), |object| object.by_objects -= 1);
    }
}

/// Refuses what is no error handler for such an object.
///
/// # Errors
/// As said.
pub(crate) fn check_errhandler(on: On, handle: MPI_Errhandler) -> Outcome<()> {
    let what = match handle {
        MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT | MPI_ERRORS_RETURN => return Ok(()),
        MPI_ERRHANDLER_NULL => "the error handler is MPI_ERRHANDLER_NULL".to_owned(),
        MPI_Errhandler(other) => match errhandlers().get(other).filter(|object| object.by_program > 0) {
            Some(object) if object.on == on => return Ok(()),
            Some(object) => {
                format!("the error handler 0x{other:x} was made for another kind of object: {:?}", object.on)
            }
            None => format!("0x{other:x} is no error handler: it was freed, or never was one"),
        },
    };
    Err(Failure::new(ErrorClass::ErrorHandler, what))
}

/// The variable by which the launcher says what the error handler of errors is that no object of the program's has one for, and of
/// the first communicators (MPI 5.0 section 11.6, `mpiexec -initial-errhandler`).
pub(crate) const INITIAL: &str = "MPI_INITIAL_ERRHANDLER";

/// The words that it may be, and their handlers.
pub(crate) const INITIAL_WORDS: [(&str, MPI_Errhandler); 3] = [
    ("mpi_errors_are_fatal", MPI_ERRORS_ARE_FATAL),
    ("mpi_errors_abort", MPI_ERRORS_ABORT),
    ("mpi_errors_return", MPI_ERRORS_RETURN),
];

/// The initial error handler.
pub(crate) fn initial() -> MPI_Errhandler {
    let word = std::env::var(INITIAL).unwrap_or_default();
    let known = INITIAL_WORDS.into_iter().find(|(known, _)| *known == word);
    known.map_or(MPI_ERRORS_ARE_FATAL, |(_, handler)| handler)
}

/// Runs the initial error handler, where MPI is not running; the code that the call returns, if it does.
#[cold]
pub(crate) fn raise_initial(function: &str, failure: &Failure) -> c_int {
    raise_through(
        initial(),
        MPI_COMM_SELF.0,
        || format!("rank {} of the job", rank_in_job()),
        function,
        failure,
    )
}

/// What the launcher tells a task, also where MPI is not running. A program started without one is alone.
fn rank_in_job() -> u32 {
    std::env::var("AM_TASK").ok().and_then(|task| task.parse().ok()).unwrap_or(0)
}

/// Runs the error handler of a communicator; the code that the call returns, if it does.
#[cold]
#[inline(never)]
pub(crate) fn raise(object: Option<&CommunicatorObject>, function: &str, failure: &Failure) -> c_int {
    let handler = object.map_or_else(initial, |object| object.errhandler.get());
    let handle = object.map_or(MPI_COMM_WORLD.0, |object| object.communicator.handle() as usize);
    let of = || {
        object.map_or("MPI".to_owned(), |object| {
            let name = object.communicator.name();
            let name = if name.is_empty() { "a communicator".to_owned() } else { name };
            format!("rank {} of {name}", object.communicator.rank())
        })
    };
    raise_through(handler, handle, of, function, failure)
}

/// Runs an error handler about the object that `handle` names; the code that the call returns, if it does.
#[cold]
#[inline(never)]
pub(crate) fn raise_through(
    handler: MPI_Errhandler,
    handle: usize,
    of: impl Fn() -> String,
    function: &str,
    failure: &Failure,
) -> c_int {
    let (code, what) = (&failure.code(), failure.what());
    let user = errhandlers().get(handler.0);
    if user.is_some() || handler == MPI_ERRORS_RETURN {
        let said = format!("{function}, called by {}: {what}", of());
        LAST.with_borrow_mut(|last| *last = Some((*code, said)));
    }
    if let Some(user) = user {
        let (mut number, mut code) = (handle, *code);
        // SAFETY: the program gave a function of this type to MPI_Comm_create_errhandler or its like, whose functions differ
        // only in what the first pointer is to, a handle (MPI 5.0 section 9.3).
        let function: ErrorFunction = unsafe { std::mem::transmute(user.function) };
        call_program("an error handler", || unsafe { function(&raw mut number, &raw mut code) });
        return code;
    }
    if handler != MPI_ERRORS_RETURN {
        eprintln!("{function}, called by {}: {what} ({})", of(), meaning(*code));
        std::process::exit(*code);
    }
    *code
}

/// Runs the error handler that an object which is to be made was given; a handler that is none cannot hear of it.
#[cold]
pub(crate) fn raise_for_made(on: On, handler: MPI_Errhandler, function: &str, failure: Failure) -> c_int {
    if let Err(other) = check_errhandler(on, handler) {
        return finish(function, Err(other));
    }
    let (handle, made) = match on {
        On::Session => (MPI_SESSION_NULL.0, "a session"),
        _ => (MPI_COMM_SELF.0, "a communicator"),
    };
    let of = || format!("rank {} of the job for {made} to be made", rank_in_job());
    raise_through(handler, handle, of, function, &failure)
}

thread_local! {
    /// The last error of this thread that a call has returned, for `MPI_Error_string` to say more than the class.
    static LAST: RefCell<Option<(c_int, String)>> = const { RefCell::new(None) };
}

/// What the last call with this code has said.
pub(crate) fn last_said(code: c_int) -> Option<String> {
    LAST.with_borrow(|last| last.clone()).filter(|(last, _)| *last == code).map(|(_, said)| said)
}

fn create(function: &str, on: On, callback: Callback, at: *mut MPI_Errhandler) -> c_int {
    let make = || {
        let at = place(at)?;
        if callback == 0 {
            return Err(Failure::new(ErrorClass::Argument, "the error handler's function is null"));
        }
        let object = ErrhandlerObject { function: callback, on, by_program: 1, by_objects: 0 };
        let what = || Failure::new(ErrorClass::NoMemory, "a million error handlers exist");
        unsafe { *at = MPI_Errhandler(errhandlers().insert(object).ok_or_else(what)?) };
        Ok(())
    };
    finish(function, make())
}

pub(crate) unsafe fn mpi_comm_create_errhandler(callback: Callback, handler: *mut MPI_Errhandler) -> c_int {
    create("MPI_Comm_create_errhandler", On::Communicator, callback, handler)
}

pub(crate) unsafe fn mpi_win_create_errhandler(callback: Callback, handler: *mut MPI_Errhandler) -> c_int {
    create("MPI_Win_create_errhandler", On::Window, callback, handler)
}

pub(crate) unsafe fn mpi_file_create_errhandler(callback: Callback, handler: *mut MPI_Errhandler) -> c_int {
    create("MPI_File_create_errhandler", On::File, callback, handler)
}

pub(crate) unsafe fn mpi_session_create_errhandler(
    callback: Callback,
    handler: *mut MPI_Errhandler,
) -> c_int {
    create("MPI_Session_create_errhandler", On::Session, callback, handler)
}

pub(crate) unsafe fn mpi_errhandler_free(handler: *mut MPI_Errhandler) -> c_int {
    let free = || {
        let at = place(handler)?;
        let handle = unsafe { *at };
        // Predefined ones come out of the inquiries as others do, so they may be freed as others are.
        if !matches!(handle, MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT | MPI_ERRORS_RETURN) {
            if errhandlers().get(handle.0).is_none_or(|object| object.by_program == 0) {
                let what = format!("0x{:x} is no error handler: it was freed, or never was one", handle.0);
                return Err(Failure::new(ErrorClass::ErrorHandler, what));
            }
            change(handle, |object| object.by_program -= 1);
        }
        unsafe { *at = MPI_ERRHANDLER_NULL };
        Ok(())
    };
    finish("MPI_Errhandler_free", free())
}

/// What the program says when it calls an error handler itself.
fn called(code: c_int) -> Failure {
    Failure::with_code(code, format!("the program has called the error handler with {code}"))
}

/// Runs a call about the error handler of a communicator, which may be a duplicate that is still being made.
fn on_errhandler_of(function: &str, comm: MPI_Comm, call: impl Fn(&KeptErrhandler) -> Outcome<()>) -> c_int {
    let pending = enter(function).ok().and_then(|mpi| with_pending(&mpi, comm, &call));
    match pending {
        Some(outcome) => finish(function, outcome),
        None => on_communicator(function, comm, |_, object| call(&object.errhandler)),
    }
}

pub(crate) unsafe fn mpi_comm_set_errhandler(comm: MPI_Comm, handler: MPI_Errhandler) -> c_int {
    on_errhandler_of("MPI_Comm_set_errhandler", comm, |kept| kept.set(On::Communicator, handler))
}

pub(crate) unsafe fn mpi_comm_get_errhandler(comm: MPI_Comm, handler: *mut MPI_Errhandler) -> c_int {
    on_errhandler_of("MPI_Comm_get_errhandler", comm, |kept| kept.give(handler))
}

pub(crate) unsafe fn mpi_comm_call_errhandler(comm: MPI_Comm, code: c_int) -> c_int {
    const CALL: &str = "MPI_Comm_call_errhandler";
    let mpi = match enter(CALL) {
        Ok(mpi) => mpi,
        Err(code) => return code,
    };
    match mpi.communicator(comm) {
        Some(object) => {
            raise(Some(&object), CALL, &called(code));
            MPI_SUCCESS
        }
        None => raise(Some(&mpi.alone), CALL, &no_communicator(comm)),
    }
}

pub(crate) unsafe fn mpi_win_set_errhandler(win: MPI_Win, handler: MPI_Errhandler) -> c_int {
    on_window("MPI_Win_set_errhandler", win, |_, object| object.errhandler.set(On::Window, handler))
}

pub(crate) unsafe fn mpi_win_get_errhandler(win: MPI_Win, handler: *mut MPI_Errhandler) -> c_int {
    on_window("MPI_Win_get_errhandler", win, |_, object| object.errhandler.give(handler))
}

pub(crate) unsafe fn mpi_win_call_errhandler(win: MPI_Win, code: c_int) -> c_int {
    on_window("MPI_Win_call_errhandler", win, |_, object| {
        let of = || "a window".to_owned();
        raise_through(object.errhandler.get(), win.0, of, "MPI_Win_call_errhandler", &called(code));
        Ok(())
    })
}

pub(crate) unsafe fn mpi_session_set_errhandler(session: MPI_Session, handler: MPI_Errhandler) -> c_int {
    on_session("MPI_Session_set_errhandler", session, |_, object| object.errhandler.set(On::Session, handler))
}

pub(crate) unsafe fn mpi_session_get_errhandler(session: MPI_Session, handler: *mut MPI_Errhandler) -> c_int {
    on_session("MPI_Session_get_errhandler", session, |_, object| object.errhandler.give(handler))
}

pub(crate) unsafe fn mpi_session_call_errhandler(session: MPI_Session, code: c_int) -> c_int {
    on_session("MPI_Session_call_errhandler", session, |_, object| {
        let of = || "a session".to_owned();
        raise_through(object.errhandler.get(), session.0, of, "MPI_Session_call_errhandler", &called(code));
        Ok(())
    })
}

/// The error handler of `MPI_FILE_NULL`.
static FILES: KeptErrhandler = KeptErrhandler(AtomicUsize::new(MPI_ERRORS_RETURN.0));

/// What a failure about files does: there are none, so it is about `MPI_FILE_NULL`.
#[cold]
fn raise_on_no_file(function: &str, failure: &Failure) -> c_int {
    let handler = FILES.get();
    raise_through(handler, MPI_FILE_NULL.0, || "MPI_FILE_NULL".to_owned(), function, failure)
}

/// What a function about files returns.
#[cold]
pub(crate) fn no_files(function: &str) -> c_int {
    let what = format!("{function}: this library has no files (MPI 5.0 chapter 14)");
    raise_on_no_file(function, &Failure::new(ErrorClass::UnsupportedOperation, what))
}

fn on_no_file(function: &str, file: MPI_File, call: impl FnOnce(&KeptErrhandler) -> Outcome<()>) -> c_int {
    let outcome = if file == MPI_FILE_NULL {
        call(&FILES)
    } else {
        Err(Failure::new(ErrorClass::File, format!("0x{:x} is no file: this library has none", file.0)))
    };
    match outcome {
        Ok(()) => MPI_SUCCESS,
        Err(failure) => raise_on_no_file(function, &failure),
    }
}

pub(crate) unsafe fn mpi_file_set_errhandler(file: MPI_File, handler: MPI_Errhandler) -> c_int {
    on_no_file("MPI_File_set_errhandler", file, |files| files.set(On::File, handler))
}

pub(crate) unsafe fn mpi_file_get_errhandler(file: MPI_File, handler: *mut MPI_Errhandler) -> c_int {
    on_no_file("MPI_File_get_errhandler", file, |files| files.give(handler))
}

pub(crate) unsafe fn mpi_file_call_errhandler(file: MPI_File, code: c_int) -> c_int {
    on_no_file("MPI_File_call_errhandler", file, |_| {
        raise_on_no_file("MPI_File_call_errhandler", &called(code));
        Ok(())
    })
}
