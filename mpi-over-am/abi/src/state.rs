//! The one state of MPI in this process, and the rules of its use.
//!
//! If the thread level is `MPI_THREAD_MULTIPLE`, or there is a progress thread, each call takes the lock of [`mpi_over_am::ByCall`], which
//! every wait of the engine releases for other threads. Otherwise nothing is locked: the program must ensure that one thread at a time
//! calls MPI.

use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use mpi_over_am::datatype::{Datatype, Predefined};
use mpi_over_am::op::Op;
use mpi_over_am::{BufferOwner, ByCall, Call, ErrorHandler, Group};

use crate::constants::{
    MPI_2DOUBLE_PRECISION, MPI_2INT, MPI_2INTEGER, MPI_2REAL, MPI_AINT, MPI_BYTE, MPI_C_BOOL,
    MPI_C_DOUBLE_COMPLEX, MPI_C_FLOAT_COMPLEX, MPI_C_LONG_DOUBLE_COMPLEX, MPI_CHAR, MPI_CHARACTER,
    MPI_COMM_NULL, MPI_COMM_SELF, MPI_COMM_WORLD, MPI_COMPLEX, MPI_COMPLEX4, MPI_COMPLEX8, MPI_COMPLEX16,
    MPI_COMPLEX32, MPI_COUNT, MPI_CXX_BOOL, MPI_CXX_DOUBLE_COMPLEX, MPI_CXX_FLOAT_COMPLEX,
    MPI_CXX_LONG_DOUBLE_COMPLEX, MPI_DATATYPE_NULL, MPI_DOUBLE, MPI_DOUBLE_COMPLEX, MPI_DOUBLE_INT,
    MPI_DOUBLE_PRECISION, MPI_FLOAT, MPI_FLOAT_INT, MPI_INT, MPI_INT8_T, MPI_INT16_T, MPI_INT32_T,
    MPI_INT64_T, MPI_INTEGER, MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8, MPI_INTEGER16,
    MPI_LOGICAL, MPI_LOGICAL1, MPI_LOGICAL2, MPI_LOGICAL4, MPI_LOGICAL8, MPI_LOGICAL16, MPI_LONG,
    MPI_LONG_DOUBLE, MPI_LONG_DOUBLE_INT, MPI_LONG_INT, MPI_LONG_LONG, MPI_OFFSET, MPI_PACKED, MPI_REAL,
    MPI_REAL2, MPI_REAL4, MPI_REAL8, MPI_REAL16, MPI_SHORT, MPI_SHORT_INT, MPI_SIGNED_CHAR, MPI_UINT8_T,
    MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T, MPI_UNSIGNED, MPI_UNSIGNED_CHAR, MPI_UNSIGNED_LONG,
    MPI_UNSIGNED_LONG_LONG, MPI_UNSIGNED_SHORT, MPI_WCHAR,
};
use crate::engine::{Communicator, Environment, Window};
use crate::handles::{Handles, ObjectKind};
use crate::objects::{
    CommunicatorObject, FileObject, Generalized, Keyvals, MessageObject, PendingObject, SessionObject,
    TypeObjects, WindowObject,
};
use crate::raise::{KeptErrhandler, initial, raise_outside, set_end, set_rank};
use crate::types::{MPI_Comm, MPI_Datatype, MPI_Errhandler, MPI_Win};

/// The state of MPI while it runs: the environment, and the objects that C's handles name.
#[derive(Debug)]
pub(crate) struct Mpi {
    pub(crate) environment: RefCell<Option<Environment>>,
    pub(crate) world: Rc<CommunicatorObject>,
    pub(crate) alone: Rc<CommunicatorObject>,
    /// The handle of the inter-communicator with the tasks that have started this task's world, once the program has asked for it.
    pub(crate) parent: Cell<MPI_Comm>,
    pub(crate) communicators: Handles<Rc<CommunicatorObject>>,
    /// Duplicates that are being made, by their reserved handles.
    pub(crate) pending_communicators: RefCell<BTreeMap<usize, PendingObject>>,
    pub(crate) predefined: Vec<Option<Datatype>>,
    /// Element sizes in bytes of the contiguous predefined datatypes; 0 for the others.
    dense_bytes: [u8; 512],
    pub(crate) datatypes: Handles<Datatype>,
    pub(crate) types: TypeObjects,
    pub(crate) generalized: RefCell<BTreeMap<usize, Generalized>>,
    pub(crate) messages: Handles<MessageObject>,
    pub(crate) operations: Handles<Op>,
    pub(crate) groups: Handles<Group>,
    pub(crate) windows: Handles<Rc<WindowObject>>,
    pub(crate) files: Handles<Rc<FileObject>>,
    pub(crate) sessions: Handles<Rc<SessionObject>>,
    pub(crate) keyvals: RefCell<Keyvals>,
    /// Memory lent by the program for buffered sends: address and length.
    pub(crate) lent: RefCell<BTreeMap<BufferOwner, (usize, i64)>>,
    pub(crate) level: c_int,
}

impl Mpi {
    /// MPI over an environment that has joined the job.
    pub(crate) fn new(environment: Environment, level: c_int) -> Self {
        let object = |communicator: Communicator, handle: MPI_Comm| {
            communicator.properties().set_handle(handle.0 as u64);
            communicator.properties().set_error_handler(ErrorHandler::Fatal);
            Rc::new(CommunicatorObject { communicator, errhandler: KeptErrhandler::new(initial()) })
        };
        let world = object(environment.world(), MPI_COMM_WORLD);
        let alone = object(environment.alone(), MPI_COMM_SELF);
        let (mut predefined, mut dense_bytes) = (vec![None; 512], [0; 512]);
        for (MPI_Datatype(number), kind) in NUMBERS.into_iter().zip(Predefined::ALL) {
            let datatype = Datatype::predefined(kind);
            dense_bytes[number & 511] = if datatype.is_dense() { datatype.size() as u8 } else { 0 };
            predefined[number & 511] = Some(datatype);
        }
        Self {
            environment: RefCell::new(Some(environment)),
            world,
            alone,
            parent: Cell::new(MPI_COMM_NULL),
            communicators: Handles::new(ObjectKind::Communicator),
            pending_communicators: RefCell::default(),
            predefined,
            dense_bytes,
            datatypes: Handles::new(ObjectKind::Datatype),
            types: TypeObjects::default(),
            generalized: RefCell::default(),
            messages: Handles::new(ObjectKind::Message),
            operations: Handles::new(ObjectKind::Operation),
            groups: Handles::new(ObjectKind::Group),
            windows: Handles::new(ObjectKind::Window),
            files: Handles::new(ObjectKind::File),
            sessions: Handles::new(ObjectKind::Session),
            keyvals: RefCell::default(),
            lent: RefCell::default(),
            level,
        }
    }

    /// The communicator of a handle.
    #[inline]
    pub(crate) fn communicator(&self, handle: MPI_Comm) -> Option<Rc<CommunicatorObject>> {
        match handle {
            MPI_COMM_WORLD => Some(Rc::clone(&self.world)),
            MPI_COMM_SELF => Some(Rc::clone(&self.alone)),
            other => {
                let known = self.communicators.get(other.0);
                known.or_else(|| self.begin_pending(other))
            }
        }
    }

    /// The communicator with a context id; `None` if the communicator no longer exists.
    pub(crate) fn communicator_with(&self, context_id: u32) -> Option<Rc<CommunicatorObject>> {
        let has_it = |object: &Rc<CommunicatorObject>| object.communicator.has_context_id(context_id);
        if let Some(found) = [&self.world, &self.alone].into_iter().find(|object| has_it(object)) {
            return Some(Rc::clone(found));
        }
        self.communicators.find(has_it).and_then(|handle| self.communicators.get(handle))
    }

    /// The communicator whose error handler runs for errors that belong to no communicator, window or session: `MPI_COMM_SELF` (MPI 5.0
    /// section 9.3). If the program has never set the handler of `MPI_COMM_SELF`, that of `MPI_COMM_WORLD` runs: most programs set only
    /// that one, as other libraries allow.
    pub(crate) fn without_communicator(&self) -> &CommunicatorObject {
        if self.alone.errhandler.was_set() { &self.alone } else { &self.world }
    }

    /// Length in bytes of `count` elements of a contiguous predefined datatype. `None` for other datatypes and for invalid counts:
    /// negative, or more bytes than any memory has.
    #[inline(always)]
    pub(crate) fn dense_len(&self, handle: MPI_Datatype, count: i64) -> Option<usize> {
        let size = *self.dense_bytes.get(handle.0.wrapping_sub(MPI_DATATYPE_NULL.0))?;
        if size == 0 {
            return None;
        }
        // The product is at most `i64::MAX`, the maximum length of memory.
        usize::try_from(count.checked_mul(size.into())?).ok()
    }

    /// The communicator of a handle, borrowed for a moment. `None` also for `MPI_COMM_SELF`, and for a communicator that is still being
    /// made.
    ///
    /// # Safety
    /// No communicator may be made or freed, and no handle of one reserved, while the reference lives.
    #[inline(always)]
    pub(crate) unsafe fn communicator_for_a_moment(&self, handle: MPI_Comm) -> Option<&Communicator> {
        if handle == MPI_COMM_WORLD {
            return Some(&self.world.communicator);
        }
        // SAFETY: the caller promises that no communicator is made or freed, and no handle of one reserved, while the reference lives.
        unsafe { self.communicators.peek(handle.0) }.map(|object| &object.communicator)
    }

    /// The window of a handle, borrowed for a moment.
    ///
    /// # Safety
    /// No window may be made or freed, and no handle of one reserved, while the reference lives.
    #[inline(always)]
    pub(crate) unsafe fn window_for_a_moment(&self, handle: MPI_Win) -> Option<&Window> {
        // SAFETY: the caller promises that no window is made or freed, and no handle of one reserved, while the reference lives.
        unsafe { self.windows.peek(handle.0) }.map(|object| &object.window)
    }

    /// The predefined type of a handle.
    #[inline(always)]
    pub(crate) fn predefined_kind(&self, handle: MPI_Datatype) -> Option<Predefined> {
        self.predefined.get(handle.0.wrapping_sub(MPI_DATATYPE_NULL.0))?.as_ref()?.as_predefined()
    }

    /// The datatype of a handle; `None` if the handle is invalid.
    #[inline]
    pub(crate) fn datatype(&self, handle: MPI_Datatype) -> Option<Datatype> {
        if handle.0 < MPI_DATATYPE_NULL.0 + 512 {
            return if handle.0 < MPI_DATATYPE_NULL.0 {
                None
            } else {
                self.predefined[handle.0 & 511].clone()
            };
        }
        self.datatypes.get(handle.0)
    }
}

impl Mpi {
    /// Stores a communicator under its reserved handle.
    pub(crate) fn fill(
        &self,
        handle: usize,
        communicator: Communicator,
        errhandler: MPI_Errhandler,
    ) -> Rc<CommunicatorObject> {
        communicator.properties().set_handle(handle as u64);
        let object =
            Rc::new(CommunicatorObject { communicator, errhandler: KeptErrhandler::new(errhandler) });
        self.communicators.fill(handle, Rc::clone(&object));
        object
    }

    /// Turns the handle from `MPI_Comm_idup` into a communicator, at the first use of the handle after the request of `MPI_Comm_idup` has
    /// completed. Nothing has to run when the request completes. `None` for another handle, or if the request has not completed.
    #[cold]
    fn begin_pending(&self, handle: MPI_Comm) -> Option<Rc<CommunicatorObject>> {
        let mut all = self.pending_communicators.try_borrow_mut().ok()?;
        if !all.get(&handle.0)?.pending.is_over().ok()? {
            return None;
        }
        let PendingObject { pending, errhandler } = all.remove(&handle.0)?;
        drop(all);
        let communicator = pending.begin().ok()?;
        Some(self.fill(handle.0, communicator, errhandler.get()))
    }

    /// Runs a call with the error handler of a duplicate that is being made (programs may set the handler at once); `None` for any other
    /// communicator.
    pub(crate) fn with_pending<T>(
        &self,
        handle: MPI_Comm,
        call: impl FnOnce(&KeptErrhandler) -> T,
    ) -> Option<T> {
        if self.communicator(handle).is_some() {
            return None;
        }
        let all = self.pending_communicators.try_borrow().ok()?;
        all.get(&handle.0).map(|object| call(&object.errhandler))
    }
}

impl Mpi {
    /// The handle of a datatype: computed for a predefined one, the type's own number for any other. `None` if its handle was freed.
    pub(crate) fn handle_of(&self, datatype: &Datatype) -> Option<MPI_Datatype> {
        let Some(kind) = datatype.as_predefined() else {
            let number = datatype.number() as usize;
            return self
                .datatypes
                .get(number)
                .filter(|known| known == datatype)
                .map(|_| MPI_Datatype(number));
        };
        Some(NUMBERS[kind as usize])
    }
}

/// The numbers of the predefined datatypes (include/mpi.h), in the order of [`Predefined::ALL`].
pub(crate) const NUMBERS: [MPI_Datatype; 70] = [
    MPI_AINT,
    MPI_COUNT,
    MPI_OFFSET,
    MPI_PACKED,
    MPI_SHORT,
    MPI_INT,
    MPI_LONG,
    MPI_LONG_LONG,
    MPI_UNSIGNED_SHORT,
    MPI_UNSIGNED,
    MPI_UNSIGNED_LONG,
    MPI_UNSIGNED_LONG_LONG,
    MPI_FLOAT,
    MPI_C_FLOAT_COMPLEX,
    MPI_CXX_FLOAT_COMPLEX,
    MPI_DOUBLE,
    MPI_C_DOUBLE_COMPLEX,
    MPI_CXX_DOUBLE_COMPLEX,
    MPI_LOGICAL,
    MPI_INTEGER,
    MPI_REAL,
    MPI_COMPLEX,
    MPI_DOUBLE_PRECISION,
    MPI_DOUBLE_COMPLEX,
    MPI_CHARACTER,
    MPI_LONG_DOUBLE,
    MPI_C_LONG_DOUBLE_COMPLEX,
    MPI_CXX_LONG_DOUBLE_COMPLEX,
    MPI_FLOAT_INT,
    MPI_DOUBLE_INT,
    MPI_LONG_INT,
    MPI_2INT,
    MPI_SHORT_INT,
    MPI_LONG_DOUBLE_INT,
    MPI_2REAL,
    MPI_2DOUBLE_PRECISION,
    MPI_2INTEGER,
    MPI_C_BOOL,
    MPI_CXX_BOOL,
    MPI_WCHAR,
    MPI_INT8_T,
    MPI_UINT8_T,
    MPI_CHAR,
    MPI_SIGNED_CHAR,
    MPI_UNSIGNED_CHAR,
    MPI_BYTE,
    MPI_INT16_T,
    MPI_UINT16_T,
    MPI_INT32_T,
    MPI_UINT32_T,
    MPI_INT64_T,
    MPI_UINT64_T,
    MPI_LOGICAL1,
    MPI_INTEGER1,
    MPI_LOGICAL2,
    MPI_INTEGER2,
    MPI_REAL2,
    MPI_LOGICAL4,
    MPI_INTEGER4,
    MPI_REAL4,
    MPI_COMPLEX4,
    MPI_LOGICAL8,
    MPI_INTEGER8,
    MPI_REAL8,
    MPI_COMPLEX8,
    MPI_LOGICAL16,
    MPI_INTEGER16,
    MPI_REAL16,
    MPI_COMPLEX16,
    MPI_COMPLEX32,
];

/// The stages of this process.
const BEFORE: u32 = 0;
const RUNNING: u32 = 1;
const AFTER: u32 = 2;

struct Process {
    /// Release in `begin` and `end`, which pairs with Acquire in `enter`, `stage` and `is_running`: a thread that sees a stage also sees
    /// what was written before it.
    stage: AtomicU32,
    /// Whether `MPI_Finalize` has ended the world model. MPI may still run, or run again, for sessions.
    is_finalized: AtomicBool,
    has_progress_thread: AtomicBool,
    mpi: UnsafeCell<Option<Mpi>>,
    main_thread: AtomicUsize,
}

// SAFETY: `mpi` is used by one thread at a time: by the lock, if the level is MPI_THREAD_MULTIPLE or there is a progress thread, otherwise
// by the program's promise (MPI 5.0 section 11.6). Only `begin` and `end` write `mpi`. `begin` runs while MPI does not run, and holds the
// guard of `sessions::starting`; no thread can use MPI then. `end` runs in MPI_Finalize, or at exit if MPI runs for sessions only; the
// program must then not use MPI in another thread.
unsafe impl Sync for Process {}

static PROCESS: Process = Process {
    stage: AtomicU32::new(BEFORE),
    is_finalized: AtomicBool::new(false),
    has_progress_thread: AtomicBool::new(false),
    mpi: UnsafeCell::new(None),
    main_thread: AtomicUsize::new(0),
};

/// An identifier of the calling thread: the address of a thread-local variable.
fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

/// The right to use MPI during one call.
pub(crate) struct Entered {
    mpi: &'static Mpi,
    _call: Call,
}

impl std::ops::Deref for Entered {
    type Target = Mpi;

    #[inline(always)]
    fn deref(&self) -> &Mpi {
        self.mpi
    }
}

/// Enters MPI for a call of `function`. If MPI was not started, or has ended, runs the initial error handler; `Err` then holds the error
/// code that the MPI call must return.
#[inline(always)]
pub(crate) fn enter(function: &str) -> Result<Entered, c_int> {
    let call = Call::enter(function);
    // SAFETY: one thread at a time (see `Process`); the value is not moved between `begin` and `end`.
    match unsafe { (*PROCESS.mpi.get()).as_ref() } {
        Some(mpi) => Ok(Entered { mpi, _call: call }),
        None => Err(raise_outside(function, PROCESS.stage.load(Ordering::Acquire) == AFTER)),
    }
}

/// Enters MPI for the duration of the calling function, or returns the error code from it: see [`enter`].
macro_rules! entered {
    ($function:expr) => {
        match crate::state::enter($function) {
            Ok(mpi) => mpi,
            Err(code) => return code,
        }
    };
}
pub(crate) use entered;

/// Like [`enter`], but without a guard: the caller must not run code of the program. `None`: the call must use `enter`.
#[inline(always)]
pub(crate) fn enter_briefly() -> Option<&'static Mpi> {
    if !Call::is_plain() {
        return None;
    }
    // SAFETY: one thread at a time, as in `enter`. There is a value: calls are plain only between `begin`, which stores the value before it
    // calls `set_running(true)`, and `end`, which calls `set_running(false)` before it takes the value.
    Some(unsafe { (*PROCESS.mpi.get()).as_ref().unwrap_unchecked() })
}

/// Whether MPI has been started, and whether MPI has ended.
pub(crate) fn stage() -> (bool, bool) {
    let stage = PROCESS.stage.load(Ordering::Acquire);
    (stage != BEFORE, stage == AFTER)
}

/// Whether calls are allowed: MPI has been started and not ended, perhaps for sessions only.
pub(crate) fn is_running() -> bool {
    PROCESS.stage.load(Ordering::Acquire) == RUNNING
}

/// Whether `MPI_Finalize` has ended the world model.
pub(crate) fn is_finalized() -> bool {
    PROCESS.is_finalized.load(Ordering::Relaxed)
}

pub(crate) fn set_finalized() {
    PROCESS.is_finalized.store(true, Ordering::Relaxed);
}

/// Whether the calling thread is the one that has started MPI.
pub(crate) fn is_main_thread() -> bool {
    PROCESS.main_thread.load(Ordering::Relaxed) == this_thread()
}

/// Makes the calling thread the main thread.
pub(crate) fn set_main_thread() {
    PROCESS.main_thread.store(this_thread(), Ordering::Relaxed);
}

/// Starts MPI in this process: from now on calls are allowed, and the calling thread is the main thread. Unless `MPI_Finalize` was called
/// before, a preloaded `malloc` uses job memory. The caller must hold the guard of [`starting`](crate::sessions::starting).
pub(crate) fn begin(mpi: Mpi) {
    set_main_thread();
    set_end(end_job);
    set_rank(mpi.world.communicator.rank());
    // SAFETY: no thread uses MPI before it is started.
    unsafe { *PROCESS.mpi.get() = Some(mpi) };
    ByCall::set_running(true);
    PROCESS.stage.store(RUNNING, Ordering::Release);
    if !is_finalized() {
        crate::shared_malloc::begin();
    }
}

/// Ends the job for an error, if MPI runs: tells the other tasks before this process ends.
fn end_job(said: &str, code: c_int) {
    if is_running()
        && let Ok(mpi) = enter("the error handler")
    {
        mpi.world.communicator.end_job(said, code);
    }
}

/// Starts the progress thread.
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn start_progress_thread() -> mpi_over_am::Result<()> {
    let Ok(mpi) = enter("the start of the progress thread") else { return Ok(()) };
    let environment = mpi.environment.borrow();
    environment.as_ref().map_or(Ok(()), |environment| environment.start_progress_thread(make_progress))?;
    PROCESS.has_progress_thread.store(true, Ordering::Relaxed);
    Ok(())
}

/// Runs in the progress thread, whose name statistics know: one long call, which gives its turn up whenever another thread wants one.
fn make_progress(is_on: &AtomicBool) {
    if let Ok(mpi) = enter("the progress thread")
        && let Some(environment) = mpi.environment.borrow().as_ref()
    {
        environment.make_progress(is_on);
    }
}

/// Stops the progress thread, if there is one. Must not be called during a call of MPI: the thread can end only when no call has the turn.
pub(crate) fn stop_progress_thread() {
    // Without a progress thread, MPI is not entered: statistics and traces would show the call.
    if !is_running() || !PROCESS.has_progress_thread.swap(false, Ordering::Relaxed) {
        return;
    }
    let running = enter("the end of the progress thread").ok().and_then(|mpi| {
        mpi.environment.borrow().as_ref().and_then(crate::engine::Environment::take_progress_thread)
    });
    if let Some(running) = running {
        running.stop();
    }
}

/// Ends MPI in this process: later calls fail, and a preloaded `malloc` takes no more job memory. Returns what was running; `None` if MPI
/// was not running.
pub(crate) fn end() -> Option<Mpi> {
    crate::shared_malloc::end();
    PROCESS.stage.store(AFTER, Ordering::Release);
    ByCall::set_running(false);
    ByCall::set_locking(false);
    // SAFETY: the program lets no other thread use MPI any more: in MPI_Finalize (MPI 5.0 section 11.2.2), and at exit.
    unsafe { (*PROCESS.mpi.get()).take() }
}
