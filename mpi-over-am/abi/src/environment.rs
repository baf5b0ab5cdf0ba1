//! Starting and ending MPI, its versions, clock and error handling (MPI 5.0 chapters 9 and 11).
//!
//! SAFETY: every function here is called by C, under the contract that the standard gives it: pointers are good for what the
//! standard says they are for, buffers are left alone until their operation has ended, and one thread at a time is inside
//! (`state`).

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};

use mpi_over_am::ErrorClass;

use crate::errors::{Failure, MEANINGS, Outcome, no_communicator, on_communicator, on_process};
use crate::state::{self, CommunicatorObject, Mpi};
use crate::types::{
    Callback, MPI_Comm, MPI_ERRORS_ARE_FATAL, MPI_ERRORS_RETURN, MPI_Errhandler, MPI_SUCCESS,
    MPI_THREAD_FUNNELED, MPI_THREAD_MULTIPLE, MPI_THREAD_SERIALIZED, MPI_THREAD_SINGLE,
};

/// An error handler of the program: `void f(Handle *, int *, ...)`.
type ErrorFunction = unsafe extern "C" fn(*mut MPI_Comm, *mut c_int, ...);

/// Runs the error handler of a communicator; the code that the call returns, if it does.
#[cold]
#[inline(never)]
pub(crate) fn raise(object: Option<&CommunicatorObject>, function: &str, failure: &Failure) -> c_int {
    let handler = object.map_or(MPI_ERRORS_ARE_FATAL, |object| object.errhandler.get());
    let handle = object.map_or(0x101, |object| object.communicator.handle() as usize);
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
    of: impl FnOnce() -> String,
    function: &str,
    failure: &Failure,
) -> c_int {
    let Failure { code, what } = failure;
    if handler == MPI_ERRORS_RETURN {
        LAST.with_borrow_mut(|last| *last = Some((*code, format!("{function}: {what}"))));
        return *code;
    }
    let user = state::enter(function).ok().and_then(|mpi| mpi.errhandlers.get(handler.0));
    if let Some(user) = user {
        let mut number = handle;
        let mut code = *code;
        // SAFETY: the program gave a function of this type to MPI_Comm_create_errhandler or its like, whose functions differ
        // only in what the first pointer is to, a handle (MPI 5.0 section 9.3).
        let function: ErrorFunction = unsafe { std::mem::transmute(user.function) };
        unsafe { function((&raw mut number).cast(), &raw mut code) };
        return code;
    }
    eprintln!("{function}, called by {}: {what} ({})", of(), meaning(*code));
    std::process::exit(*code)
}

thread_local! {
    /// The last error of this thread that a call has returned, for `MPI_Error_string` to say more than the class.
    static LAST: RefCell<Option<(c_int, String)>> = const { RefCell::new(None) };
}

fn meaning(code: c_int) -> String {
    let known = usize::try_from(code).ok().and_then(|code| MEANINGS.get(code));
    known
        .map(|known| (*known).to_owned())
        .or_else(|| crate::error_codes::text_of(code))
        .unwrap_or_else(|| format!("error {code}"))
}

/// An error handler that the program has made, for objects of one kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrhandlerObject {
    pub(crate) function: Callback,
}

fn start(function: &str, required: c_int) -> c_int {
    if crate::sessions::adopt() {
        return MPI_SUCCESS;
    }
    let (started, _) = state::stage();
    if started {
        eprintln!("{function} was called, but MPI has been started before");
        std::process::exit(16);
    }
    let level = required.clamp(MPI_THREAD_SINGLE, MPI_THREAD_MULTIPLE);
    match Mpi::start(level) {
        Ok(mpi) => {
            state::begin(mpi);
            MPI_SUCCESS
        }
        Err(error) => {
            eprintln!("{function}: {error}");
            std::process::exit(16)
        }
    }
}

pub(crate) unsafe fn mpi_init(_argc: *mut c_int, _argv: *mut *mut *mut c_char) -> c_int {
    start("MPI_Init", MPI_THREAD_SINGLE)
}

pub(crate) unsafe fn mpi_init_thread(
    _argc: *mut c_int,
    _argv: *mut *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    let levels = [MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE];
    let level = levels.into_iter().find(|&level| level >= required).unwrap_or(MPI_THREAD_MULTIPLE);
    unsafe { *provided = level };
    start("MPI_Init_thread", level)
}

pub(crate) unsafe fn mpi_query_thread(provided: *mut c_int) -> c_int {
    on_process("MPI_Query_thread", |mpi| {
        unsafe { *provided = mpi.level };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_is_thread_main(flag: *mut c_int) -> c_int {
    unsafe { *flag = c_int::from(state::is_main_thread()) };
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_initialized(flag: *mut c_int) -> c_int {
    unsafe { *flag = c_int::from(state::stage().0 && !crate::sessions::alone()) };
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_finalized(flag: *mut c_int) -> c_int {
    unsafe { *flag = c_int::from(state::stage().1) };
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_finalize() -> c_int {
    let outcome = {
        let mpi = match state::enter("MPI_Finalize") {
            Ok(mpi) => mpi,
            Err(code) => return code,
        };
        let environment = mpi.environment.borrow_mut().take();
        environment.map_or(Ok(()), mpi_over_am::Environment::finalize)
    };
    drop(state::end());
    match outcome {
        Ok(()) => MPI_SUCCESS,
        Err(error) => raise(None, "MPI_Finalize", &error.into()),
    }
}

pub(crate) unsafe fn mpi_abort(comm: MPI_Comm, errorcode: c_int) -> c_int {
    match state::enter("MPI_Abort") {
        Ok(mpi) => match mpi.communicator(comm) {
            Some(object) => object.communicator.abort(errorcode),
            None => mpi.world.communicator.abort(errorcode),
        },
        Err(code) => code,
    }
}

pub(crate) unsafe fn mpi_get_version(version: *mut c_int, subversion: *mut c_int) -> c_int {
    unsafe { (*version, *subversion) = (5, 0) };
    MPI_SUCCESS
}

/// Stores a string of the library's in a buffer that has room for `max` bytes, the final zero included.
///
/// # Safety
/// `to` has that room; `len` is null or the program's.
pub(crate) unsafe fn give_string(text: &str, to: *mut c_char, max: usize, len: *mut c_int) {
    let bytes = &text.as_bytes()[..text.floor_char_boundary_at(max - 1)];
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), to, bytes.len());
        *to.add(bytes.len()) = 0;
        if !len.is_null() {
            *len = bytes.len() as c_int;
        }
    }
}

/// Cutting text between characters.
trait FloorBoundary {
    fn floor_char_boundary_at(&self, max: usize) -> usize;
}

impl FloorBoundary for str {
    fn floor_char_boundary_at(&self, max: usize) -> usize {
        (0..=max.min(self.len())).rev().find(|&at| self.is_char_boundary(at)).unwrap_or(0)
    }
}

pub(crate) unsafe fn mpi_get_library_version(version: *mut c_char, len: *mut c_int) -> c_int {
    let text = concat!(
        "mpi-over-am ",
        env!("CARGO_PKG_VERSION"),
        ": MPI 5.0 over active messages (am-core, am-via), ",
        env!("MPI_FUNCTIONS_THERE"),
        " of its ",
        env!("MPI_FUNCTIONS"),
        " functions"
    );
    unsafe { give_string(text, version, 8192, len) };
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_get_processor_name(name: *mut c_char, len: *mut c_int) -> c_int {
    let mut host = [0u8; 256];
    let known = unsafe { libc::gethostname(host.as_mut_ptr().cast(), host.len() - 1) } == 0;
    let end = host.iter().position(|&byte| byte == 0).unwrap_or(0);
    let text =
        if known { String::from_utf8_lossy(&host[..end]).into_owned() } else { "localhost".to_owned() };
    unsafe { give_string(&text, name, 256, len) };
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_wtime() -> f64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

pub(crate) unsafe fn mpi_wtick() -> f64 {
    1e-9
}

pub(crate) unsafe fn mpi_alloc_mem(size: i64, _info: crate::types::MPI_Info, baseptr: *mut c_void) -> c_int {
    on_process("MPI_Alloc_mem", |_| {
        let size = usize::try_from(size)
            .map_err(|_| Failure::new(ErrorClass::Argument, format!("the size is {size}, below zero")))?;
        // Good for any type; freed by MPI_Free_mem.
        let at = unsafe { libc::memalign(64, size.max(1)) };
        if at.is_null() {
            return Err(Failure::new(ErrorClass::NoMemory, format!("{size} bytes are not to be had")));
        }
        unsafe { *baseptr.cast::<*mut c_void>() = at };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_free_mem(base: *mut c_void) -> c_int {
    // Memory of MPI_Alloc_mem, by the program's promise; free takes null too.
    unsafe { libc::free(base) };
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_pcontrol(_level: c_int) -> c_int {
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_aint_add(base: i64, displacement: i64) -> i64 {
    base.wrapping_add(displacement)
}

pub(crate) unsafe fn mpi_aint_diff(first: i64, second: i64) -> i64 {
    first.wrapping_sub(second)
}

pub(crate) unsafe fn mpi_get_address(location: *const c_void, address: *mut i64) -> c_int {
    unsafe { *address = location.expose_provenance() as i64 };
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_error_class(code: c_int, class: *mut c_int) -> c_int {
    // A number that is no code has no class; it is an error of whoever made it.
    unsafe { *class = crate::error_codes::class_of(code).unwrap_or(14) };
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_error_string(code: c_int, text: *mut c_char, len: *mut c_int) -> c_int {
    let last = LAST.with_borrow(|last| last.clone()).filter(|(last, _)| *last == code);
    let said = last.map_or_else(|| meaning(code), |(_, said)| format!("{}; {said}", meaning(code)));
    unsafe { give_string(&said, text, 512, len) };
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_comm_create_errhandler(function: Callback, handler: *mut MPI_Errhandler) -> c_int {
    on_process("MPI_Comm_create_errhandler", |mpi| {
        unsafe { *handler = keep_errhandler(mpi, function)? };
        Ok(())
    })
}

/// A handle for an error handler of the program.
///
/// # Errors
/// There are a million.
pub(crate) fn keep_errhandler(mpi: &Mpi, function: Callback) -> Outcome<MPI_Errhandler> {
    let handle = mpi.errhandlers.insert(ErrhandlerObject { function });
    let what = || Failure::new(ErrorClass::NoMemory, "a million error handlers exist");
    Ok(MPI_Errhandler(handle.ok_or_else(what)?))
}

pub(crate) unsafe fn mpi_errhandler_free(handler: *mut MPI_Errhandler) -> c_int {
    on_process("MPI_Errhandler_free", |mpi| {
        let handle = unsafe { *handler };
        check_errhandler(mpi, handle)?;
        // One that an object still uses goes on working: the numbers of those in use are not given out again.
        unsafe { *handler = MPI_Errhandler(0x140) };
        Ok(())
    })
}

/// Refuses what is no error handler.
///
/// # Errors
/// A handle of none.
pub(crate) fn check_errhandler(mpi: &Mpi, handle: MPI_Errhandler) -> Outcome<()> {
    if matches!(handle.0, 0x141..=0x143) || mpi.errhandlers.get(handle.0).is_some() {
        return Ok(());
    }
    Err(Failure::new(ErrorClass::ErrorHandler, format!("0x{:x} is no error handler", handle.0)))
}

pub(crate) unsafe fn mpi_comm_set_errhandler(comm: MPI_Comm, handler: MPI_Errhandler) -> c_int {
    on_communicator("MPI_Comm_set_errhandler", comm, |mpi, object| {
        check_errhandler(mpi, handler)?;
        object.errhandler.set(handler);
        Ok(())
    })
}

pub(crate) unsafe fn mpi_comm_get_errhandler(comm: MPI_Comm, handler: *mut MPI_Errhandler) -> c_int {
    on_communicator("MPI_Comm_get_errhandler", comm, |_, object| {
        unsafe { *handler = object.errhandler.get() };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_comm_call_errhandler(comm: MPI_Comm, code: c_int) -> c_int {
    let mpi = match state::enter("MPI_Comm_call_errhandler") {
        Ok(mpi) => mpi,
        Err(code) => return code,
    };
    let failure = Failure { code, what: format!("the program has called the error handler with {code}") };
    match mpi.communicator(comm) {
        Some(object) => {
            raise(Some(&object), "MPI_Comm_call_errhandler", &failure);
            MPI_SUCCESS
        }
        None => raise(Some(&mpi.alone), "MPI_Comm_call_errhandler", &no_communicator(comm)),
    }
}
