//! Performance variables of the tool information interface (MPI 5.0 section 15.3.7): counts of what a task has done, and lengths of its
//! queues. Counters run while a handle is started, from 0 or from the value written; levels always have their current value.
//!
//! SAFETY: each `mpi_*` function here is called under the contract that the standard gives it: pointers are valid for the accesses that the
//! standard specifies; they may be null only where the standard allows it.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results and read arrays at the program's pointers; blocks that do more have a note"
)]

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mpi_over_am::Counts;

use crate::constants::{
    MPI_COUNT, MPI_T_BIND_NO_OBJECT, MPI_T_ENUM_NULL, MPI_T_ERR_INVALID, MPI_T_ERR_INVALID_HANDLE,
    MPI_T_ERR_INVALID_SESSION, MPI_T_ERR_NOT_ACCESSIBLE, MPI_T_ERR_PVAR_NO_STARTSTOP,
    MPI_T_ERR_PVAR_NO_WRITE, MPI_T_PVAR_ALL_HANDLES, MPI_T_PVAR_CLASS_COUNTER, MPI_T_PVAR_CLASS_LEVEL,
    MPI_T_VERBOSITY_TUNER_DETAIL, MPI_T_VERBOSITY_USER_BASIC,
};
use crate::engine::Environment;
use crate::mpi_t::{check_given, in_tool, index_of, indexed, new_handle, put, put_string};
use crate::state::{self, Mpi};
use crate::types::{MPI_Datatype, MPI_T_enum, MPI_T_pvar_handle, MPI_T_pvar_session};

/// A performance variable.
pub(crate) struct Variable {
    name: &'static str,
    about: &'static str,
    pub(crate) class: c_int,
    /// Whether the variable has a value for each task of the job, instead of a single one.
    per_task: bool,
    values: fn(&Counts) -> Vec<u64>,
}

macro_rules! variables {
    ($($class:ident $each:literal $name:ident $values:expr, $about:literal;)*) => {
        [$(Variable {
            name: stringify!($name),
            about: $about,
            class: $class,
            per_task: $each,
            values: $values,
        },)*]
    };
}

pub(crate) static VARIABLES: [Variable; 11] = variables! {
    MPI_T_PVAR_CLASS_LEVEL false posted_receives |counts| vec![counts.posted_receives], "Receives that wait for their message";
    MPI_T_PVAR_CLASS_LEVEL false early_messages |counts| vec![counts.early_messages], "Messages that wait for their receive";
    MPI_T_PVAR_CLASS_LEVEL false operations_under_way |counts| vec![counts.operations_under_way], "Non-blocking operations that have not completed";
    MPI_T_PVAR_CLASS_COUNTER true packets_sent |counts| counts.packets_sent.clone(), "Packets sent to each task of the job";
    MPI_T_PVAR_CLASS_COUNTER true packets_received |counts| counts.packets_received.clone(), "Handled packets from each task of the job";
    MPI_T_PVAR_CLASS_COUNTER false long_messages_received |counts| vec![counts.long_messages_received], "Completed messages that were announced or took more than one packet";
    MPI_T_PVAR_CLASS_COUNTER false long_bytes_received |counts| vec![counts.long_bytes_received], "Bytes of completed messages that were announced or took more than one packet";
    MPI_T_PVAR_CLASS_COUNTER false operations_ended |counts| vec![counts.operations_ended], "Operations that ended after their call had returned";
    MPI_T_PVAR_CLASS_COUNTER false retries |counts| vec![counts.retries], "Number of times that an operation was deferred for want of credits or memory";
    MPI_T_PVAR_CLASS_COUNTER false pieces_sent |counts| vec![counts.pieces_sent], "Pieces of data sent as packets";
    MPI_T_PVAR_CLASS_COUNTER false pieces_received |counts| vec![counts.pieces_received], "Pieces of data received as packets";
};

/// The counts when MPI ended.
static LAST: Mutex<Option<Counts>> = Mutex::new(None);

/// Keeps the last counts, for a tool that reads them after the end of MPI.
pub(crate) fn keep(environment: &Environment) {
    if let Ok(counts) = environment.counts() {
        *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(counts);
    }
}

/// The counts now: zero before MPI has started, the last ones after it has ended. The caller must not hold the lock of [`sessions`]: a
/// thread that holds MPI's lock may wait for the lock of the sessions.
fn counts() -> Result<Counts, c_int> {
    if let (true, false) = state::stage() {
        let mpi = state::enter("MPI_T_pvar_read")?;
        let ask = |mpi: &Mpi| Some(mpi.environment.borrow().as_ref()?.counts());
        if let Some(counts) = ask(&mpi) {
            return counts.map_err(|_| MPI_T_ERR_NOT_ACCESSIBLE);
        }
    }
    Ok(LAST.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default())
}

/// The handles of a session.
type Session = BTreeMap<usize, Handle>;

static SESSIONS: Mutex<BTreeMap<usize, Session>> = Mutex::new(BTreeMap::new());

fn sessions() -> MutexGuard<'static, BTreeMap<usize, Session>> {
    SESSIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Drops all sessions: the interface has ended.
pub(crate) fn forget_sessions() {
    sessions().clear();
}

/// A variable as one session sees it.
#[derive(Clone, Debug)]
struct Handle {
    variable: usize,
    /// Number of values that are read.
    count: usize,
    /// The values counted before the last start, or the values written.
    kept: Vec<u64>,
    /// The counts when the handle was started, or its values were written; `None` while the handle is stopped.
    since: Option<Vec<u64>>,
}

impl Handle {
    fn variable(&self) -> &'static Variable {
        &VARIABLES[self.variable]
    }

    /// The variable's values in these counts.
    fn raw(&self, now: &Counts) -> Vec<u64> {
        let mut values = (self.variable().values)(now);
        values.resize(self.count, 0);
        values
    }

    fn value(&self, now: &Counts) -> Vec<u64> {
        if self.variable().class == MPI_T_PVAR_CLASS_LEVEL {
            return self.raw(now);
        }
        let Some(since) = &self.since else { return self.kept.clone() };
        let more = self.raw(now).into_iter().zip(since).map(|(now, before)| now.saturating_sub(*before));
        self.kept.iter().zip(more).map(|(kept, more)| kept.saturating_add(more)).collect()
    }

    /// Sets the values to `kept`. A handle that is started counts on from there.
    fn begin_with(&mut self, kept: Vec<u64>, now: &Counts) -> Result<(), c_int> {
        if self.variable().class == MPI_T_PVAR_CLASS_LEVEL {
            return Err(MPI_T_ERR_PVAR_NO_WRITE);
        }
        if self.since.is_some() {
            self.since = Some(self.raw(now));
        }
        self.kept = kept;
        Ok(())
    }

    fn start(&mut self, now: &Counts) -> Result<(), c_int> {
        if self.variable().class == MPI_T_PVAR_CLASS_LEVEL {
            return Err(MPI_T_ERR_PVAR_NO_STARTSTOP);
        }
        if self.since.is_none() {
            self.since = Some(self.raw(now));
        }
        Ok(())
    }

    fn stop(&mut self, now: &Counts) -> Result<(), c_int> {
        if self.variable().class == MPI_T_PVAR_CLASS_LEVEL {
            return Err(MPI_T_ERR_PVAR_NO_STARTSTOP);
        }
        self.kept = self.value(now);
        self.since = None;
        Ok(())
    }
}

pub(crate) unsafe fn mpi_t_pvar_get_num(num_pvar: *mut c_int) -> c_int {
    in_tool(|| {
        unsafe { put(num_pvar, VARIABLES.len() as c_int) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_pvar_get_info(
    pvar_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    verbosity: *mut c_int,
    var_class: *mut c_int,
    datatype: *mut MPI_Datatype,
    enumtype: *mut MPI_T_enum,
    desc: *mut c_char,
    desc_len: *mut c_int,
    bind: *mut c_int,
    readonly: *mut c_int,
    continuous: *mut c_int,
    atomic: *mut c_int,
) -> c_int {
    in_tool(|| {
        let variable = indexed(&VARIABLES, pvar_index)?;
        let is_level = variable.class == MPI_T_PVAR_CLASS_LEVEL;
        unsafe {
            put_string(variable.name, name, name_len);
            put_string(variable.about, desc, desc_len);
            put(verbosity, if is_level { MPI_T_VERBOSITY_USER_BASIC } else { MPI_T_VERBOSITY_TUNER_DETAIL });
            put(var_class, variable.class);
            put(datatype, MPI_COUNT);
            put(enumtype, MPI_T_ENUM_NULL);
            put(bind, MPI_T_BIND_NO_OBJECT);
            put(readonly, c_int::from(is_level));
            put(continuous, c_int::from(is_level));
            put(atomic, c_int::from(!is_level));
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_pvar_get_index(
    name: *const c_char,
    var_class: c_int,
    pvar_index: *mut c_int,
) -> c_int {
    in_tool(|| {
        // Names are unique. No name of C has a NUL.
        let of_class = VARIABLES.iter().map(|one| if one.class == var_class { one.name } else { "\0" });
        let index = unsafe { index_of(name, of_class) }?;
        unsafe { put(pvar_index, index) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_pvar_session_create(session: *mut MPI_T_pvar_session) -> c_int {
    in_tool(|| {
        check_given(session.is_null())?;
        let number = new_handle();
        sessions().insert(number, Session::default());
        unsafe { *session = MPI_T_pvar_session(number) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_pvar_session_free(session: *mut MPI_T_pvar_session) -> c_int {
    in_tool(|| {
        check_given(session.is_null())?;
        sessions().remove(&unsafe { *session }.0).ok_or(MPI_T_ERR_INVALID_SESSION)?;
        unsafe { *session = MPI_T_pvar_session(0) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_pvar_handle_alloc(
    session: MPI_T_pvar_session,
    pvar_index: c_int,
    _obj_handle: *mut c_void,
    handle: *mut MPI_T_pvar_handle,
    count: *mut c_int,
) -> c_int {
    with_counts(|sessions, now| {
        let session = sessions.get_mut(&session.0).ok_or(MPI_T_ERR_INVALID_SESSION)?;
        let variable = indexed(&VARIABLES, pvar_index)?;
        check_given(handle.is_null())?;
        // The number of tasks is known from MPI_Init on.
        let values = if variable.per_task { (variable.values)(now).len() } else { 1 };
        if values == 0 {
            return Err(MPI_T_ERR_NOT_ACCESSIBLE);
        }
        let new = Handle { variable: pvar_index as usize, count: values, kept: vec![0; values], since: None };
        let number = new_handle();
        session.insert(number, new);
        unsafe {
            *handle = MPI_T_pvar_handle(number);
            put(count, values as c_int);
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_pvar_handle_free(
    session: MPI_T_pvar_session,
    handle: *mut MPI_T_pvar_handle,
) -> c_int {
    in_tool(|| {
        let mut sessions = sessions();
        let session = sessions.get_mut(&session.0).ok_or(MPI_T_ERR_INVALID_SESSION)?;
        check_given(handle.is_null())?;
        session.remove(&unsafe { *handle }.0).ok_or(MPI_T_ERR_INVALID_HANDLE)?;
        unsafe { *handle = MPI_T_pvar_handle(0) };
        Ok(())
    })
}

/// Runs a call that needs the current counts.
fn with_counts(call: impl FnOnce(&mut BTreeMap<usize, Session>, &Counts) -> Result<(), c_int>) -> c_int {
    in_tool(|| {
        let now = counts()?;
        call(&mut sessions(), &now)
    })
}

fn with_handle(
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    call: impl FnOnce(&mut Handle, &Counts) -> Result<(), c_int>,
) -> c_int {
    with_counts(|sessions, now| {
        let session = sessions.get_mut(&session.0).ok_or(MPI_T_ERR_INVALID_SESSION)?;
        call(session.get_mut(&handle.0).ok_or(MPI_T_ERR_INVALID_HANDLE)?, now)
    })
}

/// Runs a call for one handle, or for all handles of a session; in the latter case, handles that `call` refuses are skipped.
fn with_handles(
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    call: impl Fn(&mut Handle, &Counts) -> Result<(), c_int>,
) -> c_int {
    if handle != MPI_T_PVAR_ALL_HANDLES {
        return with_handle(session, handle, call);
    }
    with_counts(|sessions, now| {
        let session = sessions.get_mut(&session.0).ok_or(MPI_T_ERR_INVALID_SESSION)?;
        for handle in session.values_mut() {
            // Handles that cannot be started, stopped or written are left as they are (MPI 5.0 section 15.3.7).
            let _ = call(handle, now);
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_pvar_start(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> c_int {
    with_handles(session, handle, Handle::start)
}

pub(crate) unsafe fn mpi_t_pvar_stop(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> c_int {
    with_handles(session, handle, Handle::stop)
}

pub(crate) unsafe fn mpi_t_pvar_reset(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> c_int {
    with_handles(session, handle, |handle, now| handle.begin_with(vec![0; handle.count], now))
}

/// Stores the values of a handle.
unsafe fn read(handle: &Handle, now: &Counts, buf: *mut c_void) -> Result<(), c_int> {
    check_given(buf.is_null())?;
    for (at, value) in handle.value(now).into_iter().enumerate() {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        unsafe { buf.cast::<i64>().add(at).write_unaligned(value) };
    }
    Ok(())
}

pub(crate) unsafe fn mpi_t_pvar_read(
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    buf: *mut c_void,
) -> c_int {
    with_handle(session, handle, |handle, now| unsafe { read(handle, now, buf) })
}

pub(crate) unsafe fn mpi_t_pvar_readreset(
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    buf: *mut c_void,
) -> c_int {
    with_handle(session, handle, |handle, now| {
        if handle.variable().class == MPI_T_PVAR_CLASS_LEVEL {
            return Err(MPI_T_ERR_PVAR_NO_WRITE);
        }
        unsafe { read(handle, now, buf) }?;
        handle.begin_with(vec![0; handle.count], now)
    })
}

pub(crate) unsafe fn mpi_t_pvar_write(
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    buf: *const c_void,
) -> c_int {
    with_handle(session, handle, |handle, now| {
        check_given(buf.is_null())?;
        let values = (0..handle.count).map(|at| unsafe { buf.cast::<i64>().add(at).read_unaligned() });
        let values: Option<Vec<u64>> = values.map(|value| u64::try_from(value).ok()).collect();
        handle.begin_with(values.ok_or(MPI_T_ERR_INVALID)?, now)
    })
}
