//! Sessions (MPI 5.0 section 11.3).
//!
//! A session may be the first MPI object of a program, or the last one. If MPI does not run, the session starts it; if a session exists at
//! `MPI_Finalize`, MPI runs on and ends with the process. Until then any number of sessions may begin and end. If only some tasks have a
//! session when they call `MPI_Finalize`, they cannot communicate with the other tasks in later sessions: the others start MPI again, on
//! another context.
//!
//! SAFETY: each `mpi_*` function here is called under the contract that the standard gives it: pointers are valid for the accesses that the
//! standard specifies, and buffers are not used until their operation has ended. One thread at a time uses the state of MPI (`state`).

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results and read arrays at the program's pointers; blocks that do more have a note"
)]

use std::cell::Cell;
use std::ffi::{c_char, c_int};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mpi_over_am::{BufferOwner, ErrorClass, ErrorHandler, Group};

use crate::communicators::keep_communicator;
use crate::constants::{MPI_COMM_NULL, MPI_SESSION_NULL, MPI_SUCCESS, MPI_THREAD_MULTIPLE};
use crate::engine::{Communicator, Environment, Session};
use crate::errors::{finish_alone, finish_on_process, raise_for_made, with_environment};
use crate::failure::{Failure, Outcome, not_null};
use crate::groups::{group_of, keep_group};
use crate::infos::{info_of, keep_info};
use crate::objects::SessionObject;
use crate::raise::{KeptErrhandler, On, check_errhandler, raise_through};
use crate::state::{self, Mpi, entered};
use crate::text::{give_string, string_at};
use crate::types::{MPI_Comm, MPI_Errhandler, MPI_Group, MPI_Info, MPI_Session};
use crate::variables::start_mpi;

/// Whether MPI runs for sessions only: `MPI_Init` has not been called, or `MPI_Finalize` has been called.
static ALONE: AtomicBool = AtomicBool::new(false);

/// Locked while a thread starts MPI or finds it started: the first calls of `MPI_Init` and `MPI_Session_init` may come from several threads
/// at once.
static STARTING: Mutex<()> = Mutex::new(());

/// Keeps other threads from starting MPI until the guard is dropped.
pub(crate) fn starting() -> MutexGuard<'static, ()> {
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether MPI runs for sessions only.
pub(crate) fn alone() -> bool {
    ALONE.load(Ordering::Relaxed)
}

/// For `MPI_Init` after a session: from now on, MPI does not run for sessions only. Returns whether it did before.
pub(crate) fn adopt() -> bool {
    ALONE.swap(false, Ordering::Relaxed)
}

/// From now on MPI runs for sessions only, and ends with the process.
pub(crate) fn go_on_alone() {
    ALONE.store(true, Ordering::Relaxed);
    // SAFETY: `at_exit` belongs to this library: glibc runs it at exit, or before the library is unloaded.
    unsafe { libc::atexit(at_exit) };
}

/// Ends MPI with the process, if it runs for sessions only.
extern "C" fn at_exit() {
    if !alone() {
        return;
    }
    state::stop_progress_thread();
    if let Some(mpi) = state::end() {
        let environment = mpi.environment.borrow_mut().take();
        // After MPI_Finalize, other tasks may have ended MPI, so this task cannot wait for them.
        let end = if state::is_finalized() { Environment::leave } else { Environment::finalize };
        // An error can't be reported any more.
        let _ = environment.map(end);
    }
}

fn session_of(mpi: &Mpi, handle: MPI_Session) -> Outcome<Rc<SessionObject>> {
    mpi.sessions.get(handle.0).ok_or_else(|| {
        let what = match handle {
            MPI_SESSION_NULL => "the session is MPI_SESSION_NULL".to_owned(),
            other => format!("0x{:x} is not a session: it has ended, or never was one", other.0),
        };
        Failure::new(ErrorClass::Session, what)
    })
}

/// The owner of a session's attached buffer: the session's handle.
pub(crate) fn buffer_owner(session: MPI_Session) -> BufferOwner {
    BufferOwner::Session(session.0 as u64)
}

/// Waits for the messages in a session's buffer, and detaches the buffer: the session ends.
fn detach_buffer(mpi: &Mpi, session: MPI_Session) -> Outcome<()> {
    let owner = buffer_owner(session);
    mpi.lent.borrow_mut().remove(&owner);
    with_environment(mpi, |environment| environment.detach_buffer_for(owner).map(drop))
}

/// Runs a call about a session.
pub(crate) fn on_session(
    function: &str,
    handle: MPI_Session,
    call: impl FnOnce(&Mpi, &SessionObject) -> Outcome<()>,
) -> c_int {
    let mpi = entered!(function);
    match session_of(&mpi, handle) {
        Ok(object) => match call(&mpi, &object) {
            Ok(()) => MPI_SUCCESS,
            Err(failure) => {
                let of = || format!("rank {} of a session", mpi.world.communicator.rank());
                raise_through(object.errhandler.get(), object.handle.get().0, of, function, &failure)
            }
        },
        Err(failure) => finish_alone(&mpi, function, Err(failure)),
    }
}

/// Refuses an unknown thread level. A known level needs nothing: sessions have `MPI_THREAD_MULTIPLE`, which includes all levels.
fn check_level(info: &mpi_over_am::Info) -> Outcome<()> {
    const LEVELS: [&str; 4] =
        ["MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"];
    match info.get("thread_level")? {
        Some(level) if !LEVELS.contains(&level) => {
            let what = format!("thread_level is {level}: it can be one of {}", LEVELS.join(", "));
            Err(Failure::new(ErrorClass::InfoValue, what))
        }
        _ => Ok(()),
    }
}

pub(crate) unsafe fn mpi_session_init(
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    session: *mut MPI_Session,
) -> c_int {
    const CALL: &str = "MPI_Session_init";
    let raise = |failure| raise_for_made(On::Session, errhandler, CALL, failure);
    let checked = || {
        check_errhandler(On::Session, errhandler)?;
        let info = info_of(info)?;
        check_level(&info)?;
        Ok((not_null(session)?, info))
    };
    let (session, info) = match checked() {
        Ok(checked) => checked,
        Err(failure) => return raise(failure),
    };
    let starting = starting();
    if !state::is_running() {
        if let Err(error) = start_mpi(MPI_THREAD_MULTIPLE) {
            return raise(error.into());
        }
        go_on_alone();
    }
    drop(starting);
    let mpi = entered!(CALL);
    let begin = || {
        let made = Rc::new(SessionObject {
            session: with_environment(&mpi, |environment| {
                Ok(environment.session(&info, ErrorHandler::Return))
            })?,
            errhandler: KeptErrhandler::new(errhandler),
            handle: Cell::new(MPI_SESSION_NULL),
        });
        let handle = mpi.sessions.insert(Rc::clone(&made))?;
        made.handle.set(MPI_Session(handle));
        unsafe { *session = MPI_Session(handle) };
        Ok(())
    };
    begin().map_or_else(raise, |()| MPI_SUCCESS)
}

pub(crate) unsafe fn mpi_session_finalize(session: *mut MPI_Session) -> c_int {
    let at = match not_null(session) {
        Ok(at) => at,
        Err(failure) => return finish_on_process("MPI_Session_finalize", Err(failure)),
    };
    let handle = unsafe { *at };
    on_session("MPI_Session_finalize", handle, |mpi, _| {
        mpi.sessions.remove(handle.0);
        unsafe { *at = MPI_SESSION_NULL };
        detach_buffer(mpi, handle)
    })
}

pub(crate) unsafe fn mpi_session_get_info(session: MPI_Session, info: *mut MPI_Info) -> c_int {
    on_session("MPI_Session_get_info", session, |_, object| {
        unsafe { *not_null(info)? = keep_info(object.session.properties().info())? };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_session_get_num_psets(
    session: MPI_Session,
    _info: MPI_Info,
    number: *mut c_int,
) -> c_int {
    on_session("MPI_Session_get_num_psets", session, |_, object| {
        unsafe { *not_null(number)? = object.session.sets().len() as c_int };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_session_get_nth_pset(
    session: MPI_Session,
    _info: MPI_Info,
    n: c_int,
    len: *mut c_int,
    name: *mut c_char,
) -> c_int {
    on_session("MPI_Session_get_nth_pset", session, |_, object| {
        let len = not_null(len)?;
        let sets = object.session.sets();
        let set = usize::try_from(n).ok().and_then(|n| sets.get(n)).ok_or_else(|| {
            Failure::new(
                ErrorClass::Argument,
                format!("process set {n} does not exist: the session has {} sets", sets.len()),
            )
        })?;
        // `*len` is the size of the buffer on entry, and the size needed on return, with the terminating NUL.
        let capacity = unsafe { *len };
        if capacity > 0 {
            unsafe { give_string(set, not_null(name)?, capacity as usize, std::ptr::null_mut()) };
        }
        unsafe { *len = set.len() as c_int + 1 };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_session_get_pset_info(
    session: MPI_Session,
    name: *const c_char,
    info: *mut MPI_Info,
) -> c_int {
    on_session("MPI_Session_get_pset_info", session, |_, object| {
        let found = object.session.set_info(&unsafe { string_at(name)? })?;
        unsafe { *not_null(info)? = keep_info(found)? };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_group_from_session_pset(
    session: MPI_Session,
    name: *const c_char,
    group: *mut MPI_Group,
) -> c_int {
    on_session("MPI_Group_from_session_pset", session, |mpi, object| {
        let found = object.session.group(&unsafe { string_at(name)? })?.of_session(session.0 as u64);
        unsafe { *not_null(group)? = keep_group(mpi, found)? };
        Ok(())
    })
}

/// The arguments of a call that makes a communicator from groups.
struct FromGroups {
    tag: *const c_char,
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    at: *mut MPI_Comm,
}

impl FromGroups {
    /// Runs `make` with a new session, because these calls name no session. If the call fails, the error handler that was given for the
    /// communicator runs.
    fn run(
        &self,
        function: &str,
        make: impl FnOnce(&Mpi, &Session, &str, &mpi_over_am::Info) -> Outcome<Option<Communicator>>,
    ) -> c_int {
        let mpi = entered!(function);
        let create = || {
            check_errhandler(On::Communicator, self.errhandler)?;
            let (at, info, tag) = (not_null(self.at)?, info_of(self.info)?, unsafe { string_at(self.tag)? });
            unsafe { *at = MPI_COMM_NULL };
            let session =
                with_environment(&mpi, |environment| Ok(environment.session(&info, ErrorHandler::Return)))?;
            let made = make(&mpi, &session, &tag, &info)?;
            unsafe { *at = keep_communicator(&mpi, made, self.errhandler)? };
            Ok(())
        };
        let raise = |failure| raise_for_made(On::Communicator, self.errhandler, function, failure);
        create().map_or_else(raise, |()| MPI_SUCCESS)
    }
}

pub(crate) unsafe fn mpi_comm_create_from_group(
    group: MPI_Group,
    tag: *const c_char,
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    comm: *mut MPI_Comm,
) -> c_int {
    let call = FromGroups { tag, info, errhandler, at: comm };
    call.run("MPI_Comm_create_from_group", |mpi, session, tag, info| {
        Ok(session.create_from_group(&group_of(mpi, group)?, tag, info, ErrorHandler::Return)?)
    })
}

/// The group of one rank of a group.
fn one_of(group: &Group, rank: c_int) -> Outcome<Group> {
    Ok(group.incl(&[crate::data::dest_of(rank)?])?)
}

/// Only the leaders know both groups. First each group makes a communicator; then the two leaders make another one, over which they connect
/// the communicators of the two groups.
pub(crate) unsafe fn mpi_intercomm_create_from_groups(
    local: MPI_Group,
    local_leader: c_int,
    remote: MPI_Group,
    remote_leader: c_int,
    tag: *const c_char,
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    comm: *mut MPI_Comm,
) -> c_int {
    let call = FromGroups { tag, info, errhandler, at: comm };
    call.run("MPI_Intercomm_create_from_groups", |mpi, session, tag, info| {
        let local = group_of(mpi, local)?;
        let leader = one_of(&local, local_leader)?;
        let other = if leader.rank().is_some() {
            let remote = group_of(mpi, remote)?;
            if local.intersection(&remote).size() > 0 {
                return Err(Failure::new(ErrorClass::Group, "the two groups have tasks in common"));
            }
            Some(one_of(&remote, remote_leader)?)
        } else {
            None
        };
        let make =
            |group: &Group, tag: &str| session.create_from_group(group, tag, info, ErrorHandler::Return);
        let Some(side) = make(&local, &format!("{tag}\n: a side"))? else {
            return Err(Failure::new(ErrorClass::Group, "this task is not in the local group"));
        };
        let (bridge, there) = match &other {
            Some(other) => {
                // Both leaders list the two leaders in the same order.
                let all = mpi.world.communicator.group();
                let number = |group: &Group| group.translate_ranks(&[0], &all);
                let both = if number(&leader)? < number(other)? {
                    leader.union(other)
                } else {
                    other.union(&leader)
                };
                let there = other.translate_ranks(&[0], &both)?[0].unwrap_or(0);
                (make(&both, &format!("{tag}\n: leaders"))?, there)
            }
            None => (None, 0),
        };
        let made = side.create_inter_with(local_leader as u32, bridge.as_ref(), there, 0)?;
        made.properties().set_info(info);
        Ok(Some(made))
    })
}
