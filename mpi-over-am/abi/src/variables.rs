//! Control variables of the tool information interface (MPI 5.0 section 15.3.6): the settings that `mpiexec --info` lists.
//!
//! Numbers are `MPI_COUNT`, -1 for `auto`; words are `MPI_INT` with an enumeration. MPI's own settings can be written until MPI starts; all
//! other settings belong to the job, and cannot be written.
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

use mpi_over_am::{ByCall, COLLECTIVE_SETTINGS, JobSettings, Settings, Table};

use crate::constants::{
    MPI_COUNT, MPI_INT, MPI_T_BIND_NO_OBJECT, MPI_T_ENUM_NULL, MPI_T_ERR_CVAR_SET_NEVER,
    MPI_T_ERR_CVAR_SET_NOT_NOW, MPI_T_ERR_INVALID, MPI_T_ERR_INVALID_HANDLE, MPI_T_ERR_INVALID_ITEM,
    MPI_T_ERR_NOT_ACCESSIBLE, MPI_T_SCOPE_ALL_EQ, MPI_T_SCOPE_CONSTANT, MPI_T_SCOPE_LOCAL,
    MPI_T_VERBOSITY_TUNER_BASIC, MPI_T_VERBOSITY_TUNER_DETAIL, MPI_T_VERBOSITY_USER_BASIC,
    MPI_T_VERBOSITY_USER_DETAIL, MPI_THREAD_MULTIPLE,
};
use crate::control::{CONTROL_VARIABLES, Variable};
use crate::engine::Environment;
use crate::events::numbers_of_event;
use crate::mpi_t::{HANDLES_FROM, check_given, in_tool, index_of, indexed, new_handle, put, put_string};
use crate::state::{self, Mpi};
use crate::types::{MPI_Datatype, MPI_T_cvar_handle, MPI_T_enum};

/// The common state of the calls about control variables.
#[derive(Debug)]
struct Controls {
    /// The index of each handle's variable.
    handles: BTreeMap<usize, usize>,
    /// Values written before MPI started, by the name of the setting.
    written: BTreeMap<&'static str, String>,
}

/// The current value of a variable: the value written, or else the job's.
fn value(variable: Variable, controls: &Controls) -> Result<String, c_int> {
    let variables = mpi_over_am::Environment::variables().map_err(|_| MPI_T_ERR_NOT_ACCESSIBLE)?;
    let lookup = |name: &str| variables.get(name);
    match variable {
        Variable::Job(setting) => JobSettings::from_variables(lookup).map(|job| setting.plain_value(&job)),
        Variable::Mpi(setting) => Settings::from_variables(lookup).map(|mut mpi| {
            write_to(&mut mpi, &controls.written);
            setting.plain_value(&mpi)
        }),
    }
    .map_err(|_| MPI_T_ERR_NOT_ACCESSIBLE)
}

/// Applies written values to the settings of MPI.
fn write_to(settings: &mut Settings, written: &BTreeMap<&'static str, String>) {
    for setting in Settings::SETTINGS {
        if let Some(text) = written.get(setting.name) {
            let stored = setting.store(settings, text);
            debug_assert!(stored.is_ok(), "it was checked when it was written");
        }
    }
}

static CONTROLS: Mutex<Controls> =
    Mutex::new(Controls { handles: BTreeMap::new(), written: BTreeMap::new() });

fn controls() -> MutexGuard<'static, Controls> {
    CONTROLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Drops all handles: the interface has ended.
pub(crate) fn forget_handles() {
    controls().handles.clear();
}

/// Starts MPI: joins the job with the settings that the program has written, sets whether calls take the lock, and starts the progress
/// thread if one is wanted.
///
/// # Errors
/// Those of [`Environment::init_for`]; the progress thread cannot be started: MPI runs without it then.
pub(crate) fn start_mpi(level: c_int) -> mpi_over_am::Result<()> {
    let written = controls().written.clone();
    let mut has_progress_thread = false;
    let started = Environment::init_for(|settings| {
        write_to(settings, &written);
        has_progress_thread = settings.progress_thread;
        ByCall::set_locking(level == MPI_THREAD_MULTIPLE || has_progress_thread);
    });
    let environment = started.inspect_err(|_| ByCall::set_locking(false))?;
    state::begin(Mpi::new(environment, level));
    let Err(error) = (if has_progress_thread { state::start_progress_thread() } else { Ok(()) }) else {
        return Ok(());
    };
    // Nothing of MPI is left: a later call can start it.
    let environment = state::end().and_then(|mpi| mpi.environment.borrow_mut().take());
    // The error above says more than one of this end.
    let _ = environment.map(Environment::leave);
    Err(error)
}

/// The enumeration of a setting whose values are words; `MPI_T_ENUM_NULL` for any other setting.
fn enum_of(setting: Variable, index: c_int) -> MPI_T_enum {
    if setting.choices().is_empty() { MPI_T_ENUM_NULL } else { MPI_T_enum(HANDLES_FROM + index as usize) }
}

/// The name and the items of an enumeration: of a setting, or of an event's numbers.
fn enumeration(handle: MPI_T_enum) -> Result<(&'static str, &'static [&'static str]), c_int> {
    let index = handle.0.checked_sub(HANDLES_FROM).ok_or(MPI_T_ERR_INVALID_HANDLE)?;
    let setting = CONTROL_VARIABLES.get(index).filter(|setting| !setting.choices().is_empty());
    let setting = setting.map(|setting| (setting.name(), setting.choices()));
    let found = setting.or_else(|| index.checked_sub(CONTROL_VARIABLES.len()).and_then(numbers_of_event));
    found.ok_or(MPI_T_ERR_INVALID_HANDLE)
}

pub(crate) unsafe fn mpi_t_enum_get_info(
    enumtype: MPI_T_enum,
    num: *mut c_int,
    name: *mut c_char,
    name_len: *mut c_int,
) -> c_int {
    in_tool(|| {
        let (own_name, items) = enumeration(enumtype)?;
        unsafe {
            put(num, items.len() as c_int);
            put_string(own_name, name, name_len);
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_enum_get_item(
    enumtype: MPI_T_enum,
    indx: c_int,
    value: *mut c_int,
    name: *mut c_char,
    name_len: *mut c_int,
) -> c_int {
    in_tool(|| {
        let item = indexed(enumeration(enumtype)?.1, indx).map_err(|_| MPI_T_ERR_INVALID_ITEM)?;
        unsafe {
            put(value, indx);
            put_string(item, name, name_len);
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_cvar_get_num(num_cvar: *mut c_int) -> c_int {
    in_tool(|| {
        unsafe { put(num_cvar, CONTROL_VARIABLES.len() as c_int) };
        Ok(())
    })
}

/// Verbosity and scope of a setting; the scope says which tasks must set it to the same value.
fn rank_of(setting: Variable) -> (c_int, c_int) {
    match setting.name() {
        "debug" => (MPI_T_VERBOSITY_USER_BASIC, MPI_T_SCOPE_LOCAL),
        name if COLLECTIVE_SETTINGS.contains(&name) => (MPI_T_VERBOSITY_TUNER_DETAIL, MPI_T_SCOPE_ALL_EQ),
        "posted_receives_max" | "long_sends_max" => (MPI_T_VERBOSITY_TUNER_BASIC, MPI_T_SCOPE_LOCAL),
        _ if !setting.is_of_job() => (MPI_T_VERBOSITY_TUNER_BASIC, MPI_T_SCOPE_ALL_EQ),
        _ => (MPI_T_VERBOSITY_USER_DETAIL, MPI_T_SCOPE_CONSTANT),
    }
}

pub(crate) unsafe fn mpi_t_cvar_get_info(
    cvar_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    verbosity: *mut c_int,
    datatype: *mut MPI_Datatype,
    enumtype: *mut MPI_T_enum,
    desc: *mut c_char,
    desc_len: *mut c_int,
    bind: *mut c_int,
    scope: *mut c_int,
) -> c_int {
    in_tool(|| {
        let setting = *indexed(&CONTROL_VARIABLES, cvar_index)?;
        let (for_whom, alike) = rank_of(setting);
        unsafe {
            put_string(setting.name(), name, name_len);
            put_string(&setting.about(), desc, desc_len);
            put(verbosity, for_whom);
            put(datatype, if setting.choices().is_empty() { MPI_COUNT } else { MPI_INT });
            put(enumtype, enum_of(setting, cvar_index));
            put(bind, MPI_T_BIND_NO_OBJECT);
            put(scope, alike);
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_cvar_get_index(name: *const c_char, cvar_index: *mut c_int) -> c_int {
    in_tool(|| {
        let index = unsafe { index_of(name, CONTROL_VARIABLES.iter().map(|setting| setting.name())) }?;
        unsafe { put(cvar_index, index) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_cvar_handle_alloc(
    cvar_index: c_int,
    _obj_handle: *mut c_void,
    handle: *mut MPI_T_cvar_handle,
    count: *mut c_int,
) -> c_int {
    in_tool(|| {
        indexed(&CONTROL_VARIABLES, cvar_index)?;
        check_given(handle.is_null())?;
        let number = new_handle();
        controls().handles.insert(number, cvar_index as usize);
        unsafe {
            put(handle, MPI_T_cvar_handle(number));
            put(count, 1);
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_cvar_handle_free(handle: *mut MPI_T_cvar_handle) -> c_int {
    in_tool(|| {
        check_given(handle.is_null())?;
        controls().handles.remove(&unsafe { *handle }.0).ok_or(MPI_T_ERR_INVALID_HANDLE)?;
        unsafe { *handle = MPI_T_cvar_handle(0) };
        Ok(())
    })
}

fn setting_of(controls: &Controls, handle: MPI_T_cvar_handle) -> Result<Variable, c_int> {
    controls.handles.get(&handle.0).map(|&index| CONTROL_VARIABLES[index]).ok_or(MPI_T_ERR_INVALID_HANDLE)
}

pub(crate) unsafe fn mpi_t_cvar_read(handle: MPI_T_cvar_handle, buf: *mut c_void) -> c_int {
    in_tool(|| {
        let controls = controls();
        let setting = setting_of(&controls, handle)?;
        check_given(buf.is_null())?;
        let text = value(setting, &controls)?;
        if setting.choices().is_empty() {
            // A value that is not a number is `auto`.
            let number = text.parse::<u64>().map_or(-1, |number| i64::try_from(number).unwrap_or(i64::MAX));
            unsafe { buf.cast::<i64>().write_unaligned(number) };
        } else {
            let place = setting
                .choices()
                .iter()
                .position(|&choice| choice == text)
                .ok_or(MPI_T_ERR_NOT_ACCESSIBLE)?;
            unsafe { buf.cast::<c_int>().write_unaligned(place as c_int) };
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_cvar_write(handle: MPI_T_cvar_handle, buf: *const c_void) -> c_int {
    in_tool(|| {
        let mut controls = controls();
        let setting = setting_of(&controls, handle)?;
        let Variable::Mpi(setting) = setting else { return Err(MPI_T_ERR_CVAR_SET_NEVER) };
        if state::stage().0 {
            return Err(MPI_T_ERR_CVAR_SET_NOT_NOW);
        }
        check_given(buf.is_null())?;
        let text = if setting.choices.is_empty() {
            match unsafe { buf.cast::<i64>().read_unaligned() } {
                -1 if setting.may_be_auto => "auto".to_owned(),
                number => number.to_string(),
            }
        } else {
            let place = unsafe { buf.cast::<c_int>().read_unaligned() };
            (*indexed(setting.choices, place).map_err(|_| MPI_T_ERR_INVALID)?).to_owned()
        };
        setting.store(&mut Settings::default(), &text).map_err(|_| MPI_T_ERR_INVALID)?;
        controls.written.insert(setting.name, text);
        Ok(())
    })
}
