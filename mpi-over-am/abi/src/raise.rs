//! Error handlers, and how a failure calls one (MPI 5.0 section 9.3). The handlers belong to the process, because a session may need one
//! before MPI is started.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use mpi_over_am::ErrorClass;

use crate::codes::meaning;
use crate::constants::{
    MPI_COMM_SELF, MPI_ERRHANDLER_NULL, MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL, MPI_ERRORS_RETURN,
    MPI_FILE_NULL,
};
use crate::face::Handle as _;
use crate::failure::{Failure, Outcome, call_program, not_null};
use crate::handles::{Handles, ObjectKind};
use crate::types::{Callback, MPI_Comm, MPI_Errhandler, MPI_File, MPI_Session, MPI_Win};

/// An error handler of the program: `void f(Handle *, int *, ...)`.
type ErrorFunction = unsafe extern "C-unwind" fn(*mut usize, *mut c_int, ...);

/// The kinds of objects that have error handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    Communicator,
    Window,
    Session,
    File,
}

/// An object's handle, for a function of the program.
fn word(on: On, handle: usize) -> usize {
    match on {
        On::Communicator => MPI_Comm(handle).to_word(),
        On::Window => MPI_Win(handle).to_word(),
        On::Session => MPI_Session(handle).to_word(),
        On::File => MPI_File(handle).to_word(),
    }
}

/// An error handler that the program has made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrhandlerObject {
    pub(crate) function: Callback,
    pub(crate) on: On,
    /// Number of handles that the program has and must free; 0: the program cannot use the handler any more.
    pub(crate) by_program: u32,
    /// Number of objects that have the handler.
    pub(crate) by_objects: u32,
}

static ERRHANDLERS: Mutex<Handles<ErrhandlerObject>> = Mutex::new(Handles::new(ObjectKind::ErrorHandler));

pub(crate) fn errhandlers() -> MutexGuard<'static, Handles<ErrhandlerObject>> {
    ERRHANDLERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Changes the counts of the program's error handler, and removes the handler when nothing uses it any more. Does nothing for a predefined
/// handler.
pub(crate) fn change(handle: MPI_Errhandler, change: impl FnOnce(&mut ErrhandlerObject)) {
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

/// The error handler that an object has. The handler lives at least as long as this value.
#[derive(Debug)]
pub(crate) struct KeptErrhandler {
    handle: AtomicUsize,
    was_set: AtomicBool,
}

impl KeptErrhandler {
    /// The error handler of an object that exists from the start: a predefined one.
    pub(crate) const fn predefined(handle: MPI_Errhandler) -> Self {
        Self { handle: AtomicUsize::new(handle.0), was_set: AtomicBool::new(false) }
    }

    pub(crate) fn new(handle: MPI_Errhandler) -> Self {
        change(handle, |object| object.by_objects += 1);
        Self::predefined(handle)
    }

    pub(crate) fn get(&self) -> MPI_Errhandler {
        // Relaxed: the number publishes nothing; the handler that it names is behind a lock.
        MPI_Errhandler(self.handle.load(Ordering::Relaxed))
    }

    /// Whether the program has set the handler.
    pub(crate) fn was_set(&self) -> bool {
        self.was_set.load(Ordering::Relaxed)
    }

    /// Sets another handler.
    ///
    /// # Errors
    /// The handle is invalid, or is that of a handler for another kind of object.
    pub(crate) fn set(&self, on: On, handle: MPI_Errhandler) -> Outcome<()> {
        check_errhandler(on, handle)?;
        change(handle, |object| object.by_objects += 1);
        let older = self.handle.swap(handle.0, Ordering::Relaxed);
        self.was_set.store(true, Ordering::Relaxed);
        change(MPI_Errhandler(older), |object| object.by_objects -= 1);
        Ok(())
    }

    /// Gives the program a handle, which it must free.
    ///
    /// # Errors
    /// The pointer for the handle is null.
    pub(crate) fn give(&self, at: *mut MPI_Errhandler) -> Outcome<()> {
        let at = not_null(at)?;
        change(self.get(), |object| object.by_program += 1);
        // SAFETY: `at` is not null, and the program gave it for this result.
        unsafe { *at = self.get() };
        Ok(())
    }
}

impl Drop for KeptErrhandler {
    fn drop(&mut self) {
        change(self.get(), |object| object.by_objects -= 1);
    }
}

/// Checks an error handler for this kind of object.
///
/// # Errors
/// The handle is invalid, or is that of a handler for another kind of object.
pub(crate) fn check_errhandler(on: On, handle: MPI_Errhandler) -> Outcome<()> {
    let what = match handle {
        MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT | MPI_ERRORS_RETURN => return Ok(()),
        MPI_ERRHANDLER_NULL => "the error handler is MPI_ERRHANDLER_NULL".to_owned(),
        MPI_Errhandler(other) => match errhandlers().get(other).filter(|object| object.by_program > 0) {
            Some(object) if object.on == on => return Ok(()),
            Some(object) => {
                format!("the error handler 0x{other:x} was made for another kind of object: {:?}", object.on)
            }
            None => format!("0x{other:x} is not an error handler: it was freed, or never was one"),
        },
    };
    Err(Failure::new(ErrorClass::ErrorHandler, what))
}

/// The environment variable with which the launcher sets the initial error handler: the handler of the first communicators, and of errors
/// that concern no object with a handler (MPI 5.0 section 11.6, `mpiexec -initial-errhandler`).
pub(crate) const INITIAL: &str = "MPI_INITIAL_ERRHANDLER";

/// The values of [`INITIAL`], and their handlers.
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

/// Runs the initial error handler while MPI is not running. If the handler returns, returns the error code that the MPI call is to return.
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

/// Reports a call before `MPI_Init` or after `MPI_Finalize` to the initial error handler.
#[cold]
pub(crate) fn raise_outside(function: &str, after: bool) -> c_int {
    let what = if after { "it was called after MPI_Finalize" } else { "it was called before MPI_Init" };
    raise_initial(function, &Failure::new(ErrorClass::Other, what))
}

/// The rank in `MPI_COMM_WORLD`, once MPI has been started.
static RANK: OnceLock<u32> = OnceLock::new();

/// Records the rank in `MPI_COMM_WORLD`. Only the first call has an effect.
pub(crate) fn set_rank(rank: u32) {
    RANK.get_or_init(|| rank);
}

/// The rank in the job. Before MPI has been started, it is the launcher's number; 0 for a program started without a launcher.
pub(crate) fn rank_in_job() -> u32 {
    let by_launcher = || std::env::var("AM_TASK").ok().and_then(|task| task.parse().ok());
    RANK.get().copied().or_else(by_launcher).unwrap_or(0)
}

/// Runs an error handler for the object that `handle` names: a function of the program, or a predefined handler, which returns or ends the
/// job. If the handler returns, returns the error code that the MPI call must return; [`last_said`] then has the text of the error.
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
        let (mut number, mut code) = (word(user.on, handle), *code);
        // SAFETY: the program gave a function of this type to MPI_Comm_create_errhandler or the same call for another kind of object. The
        // functions for the different kinds of objects differ only in the type of the handle that the first pointer points to (MPI 5.0
        // section 9.3).
        let function: ErrorFunction = unsafe { std::mem::transmute(user.function) };
        // SAFETY: both arguments live until the function returns, and no other arguments are passed.
        call_program("an error handler", || unsafe { function(&raw mut number, &raw mut code) });
        return code;
    }
    if handler != MPI_ERRORS_RETURN {
        end_job(&format!("{function}, called by {}: {what} ({})", of(), meaning(*code)), *code);
    }
    *code
}

/// The function that ends the job while MPI runs, and tells the other tasks at once; it returns if MPI does not run.
static END: OnceLock<fn(&str, c_int)> = OnceLock::new();

/// Sets the function that ends the job while MPI runs. Only the first call has an effect.
pub(crate) fn set_end(end: fn(&str, c_int)) {
    END.get_or_init(|| end);
}

thread_local! {
    /// The exit code with which this thread is ending the process; 0: it is not.
    static ENDING: Cell<c_int> = const { Cell::new(0) };
}

/// Ends the job for an error that the program does not handle. If an exit function of the program causes another error while the process
/// ends for the first one, the process ends at once, as the first error demands.
fn end_job(said: &str, code: c_int) -> ! {
    match ENDING.replace(code) {
        0 => {}
        // SAFETY: _exit takes an integer. The process is ending already; only exit functions of the program are left out.
        first => unsafe { libc::_exit(first) },
    }
    if let Some(end) = END.get() {
        end(said, code);
    }
    mpi_over_am::complain!("{said}");
    std::process::exit(code)
}

thread_local! {
    /// This thread's last error that a call has returned: `MPI_Error_string` adds the error's text to the text of the class.
    static LAST: RefCell<Option<(c_int, String)>> = const { RefCell::new(None) };
}

/// The text of this thread's last error, if the error had this code.
pub(crate) fn last_said(code: c_int) -> Option<String> {
    LAST.with_borrow(|last| last.clone()).filter(|(last, _)| *last == code).map(|(_, said)| said)
}

/// The error handler of `MPI_FILE_NULL`, which new files get.
pub(crate) static FILES: KeptErrhandler = KeptErrhandler::predefined(MPI_ERRORS_RETURN);

/// Runs the error handler of `MPI_FILE_NULL` for a failure that belongs to no open file.
#[cold]
pub(crate) fn raise_on_no_file(function: &str, failure: &Failure) -> c_int {
    let of = || format!("rank {} of the job", rank_in_job());
    raise_through(FILES.get(), MPI_FILE_NULL.0, of, function, failure)
}
