//! The tool information interface (MPI 5.0 chapter 15): control variables, which are the settings that `amrun info` lists, and
//! categories. Performance variables are in `performance`. There are no events and no sources of events. Everything works before
//! `MPI_Init` and after `MPI_Finalize`, and no error handler is ever called.
//!
//! Numbers are `MPI_COUNT`, -1 for `auto`; words are `MPI_INT` with an enumeration. What MPI itself reads of the settings can be
//! written until it starts; all else belongs to the job.
//!
//! SAFETY: every function here is called by C, under the contract that the standard gives it: pointers are good for what the
//! standard says they are for; each may be null where the standard says so.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mpi_over_am::{COLLECTIVE_SETTINGS, JOB_SETTINGS, JobSettings, MPI_SETTINGS, Setting};

use crate::constants::{
    MPI_COUNT, MPI_INT, MPI_SUCCESS, MPI_T_BIND_NO_OBJECT, MPI_T_ENUM_NULL, MPI_T_ERR_CVAR_SET_NEVER,
    MPI_T_ERR_CVAR_SET_NOT_NOW, MPI_T_ERR_INVALID, MPI_T_ERR_INVALID_HANDLE, MPI_T_ERR_INVALID_INDEX,
    MPI_T_ERR_INVALID_ITEM, MPI_T_ERR_INVALID_NAME, MPI_T_ERR_NOT_ACCESSIBLE, MPI_T_ERR_NOT_INITIALIZED,
    MPI_T_PVAR_CLASS_COUNTER, MPI_T_PVAR_CLASS_LEVEL, MPI_T_SCOPE_ALL_EQ, MPI_T_SCOPE_CONSTANT,
    MPI_T_SCOPE_LOCAL, MPI_T_VERBOSITY_TUNER_BASIC, MPI_T_VERBOSITY_TUNER_DETAIL, MPI_T_VERBOSITY_USER_BASIC,
    MPI_T_VERBOSITY_USER_DETAIL, MPI_THREAD_FUNNELED, MPI_THREAD_MULTIPLE, MPI_THREAD_SERIALIZED,
    MPI_THREAD_SINGLE,
};
use crate::engine::Environment;
use crate::performance::{Session, VARIABLES};
use crate::state;
use crate::types::{MPI_Datatype, MPI_T_cvar_handle, MPI_T_enum};

/// Handles of enumerations and of variables start here.
const HANDLES_FROM: usize = 0x1000;

/// The interface, between its first start and its last end.
#[derive(Debug, Default)]
pub(crate) struct Tool {
    /// How often it was started, less how often it was ended.
    started: usize,
    last_handle: usize,
    /// The control variables that handles are of.
    controls: BTreeMap<usize, usize>,
    /// Values that were written before MPI started, by the name of the setting.
    written: BTreeMap<&'static str, String>,
    pub(crate) sessions: BTreeMap<usize, Session>,
}

impl Tool {
    /// A number that no handle had before.
    pub(crate) fn new_handle(&mut self) -> usize {
        self.last_handle += 1;
        HANDLES_FROM + self.last_handle
    }
}

static TOOL: Mutex<Tool> = Mutex::new(Tool {
    started: 0,
    last_handle: 0,
    controls: BTreeMap::new(),
    written: BTreeMap::new(),
    sessions: BTreeMap::new(),
});

fn tool() -> MutexGuard<'static, Tool> {
    TOOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a call returns that may fail; it needs the interface to be started.
pub(crate) fn in_tool(call: impl FnOnce(&mut Tool) -> Result<(), c_int>) -> c_int {
    let mut tool = tool();
    if tool.started == 0 {
        return MPI_T_ERR_NOT_INITIALIZED;
    }
    call(&mut tool).err().unwrap_or(MPI_SUCCESS)
}

/// Stores a result where the program wants it.
///
/// # Safety
/// `to` is null or writable.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) {
    if !to.is_null() {
        unsafe { to.write(value) };
    }
}

/// Stores a string in a buffer of `*len` bytes, as much of it as there is room for, and what it takes in `*len`, the final zero
/// included; only the latter if there is no buffer (MPI 5.0 section 15.3.3).
///
/// # Safety
/// `len` is null or readable and writable; `to` is null or has that room.
pub(crate) unsafe fn put_string(text: &str, to: *mut c_char, len: *mut c_int) {
    if len.is_null() {
        return;
    }
    let room = usize::try_from(unsafe { *len }).unwrap_or(0);
    if to.is_null() || room == 0 {
        unsafe { *len = text.len() as c_int + 1 };
    } else {
        unsafe {
            crate::environment::give_string(text, to, room, len);
            *len += 1;
        }
    }
}

/// An element of a table by its index.
pub(crate) fn indexed<T>(table: &[T], index: c_int) -> Result<&T, c_int> {
    usize::try_from(index).ok().and_then(|index| table.get(index)).ok_or(MPI_T_ERR_INVALID_INDEX)
}

/// The place of a name in a table.
///
/// # Safety
/// `name` is null or a string of C's.
pub(crate) unsafe fn index_of<'a>(
    name: *const c_char,
    mut names: impl Iterator<Item = &'a str>,
) -> Result<c_int, c_int> {
    if name.is_null() {
        return Err(MPI_T_ERR_INVALID);
    }
    let name = unsafe { CStr::from_ptr(name) };
    let place = names.position(|known| known.as_bytes() == name.to_bytes()).ok_or(MPI_T_ERR_INVALID_NAME)?;
    Ok(place as c_int)
}

pub(crate) unsafe fn mpi_t_init_thread(required: c_int, provided: *mut c_int) -> c_int {
    let levels = [MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED];
    let level = levels.into_iter().find(|&level| level >= required).unwrap_or(MPI_THREAD_MULTIPLE);
    unsafe { put(provided, level) };
    tool().started += 1;
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_t_finalize() -> c_int {
    let mut tool = tool();
    let Some(left) = tool.started.checked_sub(1) else { return MPI_T_ERR_NOT_INITIALIZED };
    tool.started = left;
    if left == 0 {
        tool.controls.clear();
        tool.sessions.clear();
    }
    MPI_SUCCESS
}

/// Starts MPI with what was written, on this context of the task.
///
/// # Errors
/// What [`Environment::init_on`] reports.
pub(crate) fn start_environment(context: u32) -> mpi_over_am::Result<Environment> {
    let written = tool().written.clone();
    Environment::init_on(context, |settings| {
        for setting in JOB_SETTINGS {
            if let Some(text) = written.get(setting.name) {
                let stored = setting.store(settings, text);
                debug_assert!(stored.is_ok(), "it was checked when it was written");
            }
        }
    })
}

/// The settings as they are now: the job's, and what was written.
fn settings(tool: &Tool) -> Result<JobSettings, c_int> {
    let mut settings = mpi_over_am::Environment::job_settings().map_err(|_| MPI_T_ERR_NOT_ACCESSIBLE)?;
    for setting in JOB_SETTINGS {
        if let Some(text) = tool.written.get(setting.name) {
            setting.store(&mut settings, text).map_err(|_| MPI_T_ERR_INVALID)?;
        }
    }
    Ok(settings)
}

/// The enumeration of a setting that is a word.
fn enum_of(setting: &Setting, index: c_int) -> MPI_T_enum {
    if setting.choices.is_empty() { MPI_T_ENUM_NULL } else { MPI_T_enum(HANDLES_FROM + index as usize) }
}

fn setting_of_enum(handle: MPI_T_enum) -> Result<&'static Setting, c_int> {
    let setting = handle.0.checked_sub(HANDLES_FROM).and_then(|index| JOB_SETTINGS.get(index));
    setting.filter(|setting| !setting.choices.is_empty()).ok_or(MPI_T_ERR_INVALID_HANDLE)
}

pub(crate) unsafe fn mpi_t_enum_get_info(
    enumtype: MPI_T_enum,
    num: *mut c_int,
    name: *mut c_char,
    name_len: *mut c_int,
) -> c_int {
    in_tool(|_| {
        let setting = setting_of_enum(enumtype)?;
        unsafe {
            put(num, setting.choices.len() as c_int);
            put_string(setting.name, name, name_len);
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
    in_tool(|_| {
        let choice = indexed(setting_of_enum(enumtype)?.choices, indx).map_err(|_| MPI_T_ERR_INVALID_ITEM)?;
        unsafe {
            put(value, indx);
            put_string(choice, name, name_len);
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_cvar_get_num(num_cvar: *mut c_int) -> c_int {
    in_tool(|_| {
        unsafe { put(num_cvar, JOB_SETTINGS.len() as c_int) };
        Ok(())
    })
}

/// Whom a setting is for, and who has to set it alike.
fn rank_of(setting: &Setting) -> (c_int, c_int) {
    match setting.name {
        "debug" | "dump_queues" => (MPI_T_VERBOSITY_USER_BASIC, MPI_T_SCOPE_LOCAL),
        name if COLLECTIVE_SETTINGS.contains(&name) => (MPI_T_VERBOSITY_TUNER_DETAIL, MPI_T_SCOPE_ALL_EQ),
        "posted_receives_max" | "long_sends_max" => (MPI_T_VERBOSITY_TUNER_BASIC, MPI_T_SCOPE_LOCAL),
        name if MPI_SETTINGS.contains(&name) => (MPI_T_VERBOSITY_TUNER_BASIC, MPI_T_SCOPE_ALL_EQ),
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
    in_tool(|_| {
        let setting = indexed(JOB_SETTINGS, cvar_index)?;
        let auto = if setting.may_be_auto { "; -1 is auto" } else { "" };
        let text = format!("{} ({}: {}{auto})", setting.meaning.trim(), setting.env, setting.form());
        let (for_whom, alike) = rank_of(setting);
        unsafe {
            put_string(setting.name, name, name_len);
            put_string(&text, desc, desc_len);
            put(verbosity, for_whom);
            put(datatype, if setting.choices.is_empty() { MPI_COUNT } else { MPI_INT });
            put(enumtype, enum_of(setting, cvar_index));
            put(bind, MPI_T_BIND_NO_OBJECT);
            put(scope, alike);
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_cvar_get_index(name: *const c_char, cvar_index: *mut c_int) -> c_int {
    in_tool(|_| {
        let index = unsafe { index_of(name, JOB_SETTINGS.iter().map(|setting| setting.name)) }?;
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
    in_tool(|tool| {
        indexed(JOB_SETTINGS, cvar_index)?;
        if handle.is_null() {
            return Err(MPI_T_ERR_INVALID);
        }
        let number = tool.new_handle();
        tool.controls.insert(number, cvar_index as usize);
        unsafe {
            put(handle, MPI_T_cvar_handle(number));
            put(count, 1);
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_cvar_handle_free(handle: *mut MPI_T_cvar_handle) -> c_int {
    in_tool(|tool| {
        if handle.is_null() {
            return Err(MPI_T_ERR_INVALID);
        }
        tool.controls.remove(&unsafe { *handle }.0).ok_or(MPI_T_ERR_INVALID_HANDLE)?;
        unsafe { *handle = MPI_T_cvar_handle(0) };
        Ok(())
    })
}

fn setting_of(tool: &Tool, handle: MPI_T_cvar_handle) -> Result<&'static Setting, c_int> {
    tool.controls.get(&handle.0).map(|&index| &JOB_SETTINGS[index]).ok_or(MPI_T_ERR_INVALID_HANDLE)
}

pub(crate) unsafe fn mpi_t_cvar_read(handle: MPI_T_cvar_handle, buf: *mut c_void) -> c_int {
    in_tool(|tool| {
        let setting = setting_of(tool, handle)?;
        if buf.is_null() {
            return Err(MPI_T_ERR_INVALID);
        }
        let text = setting.plain_value(&settings(tool)?);
        if setting.choices.is_empty() {
            // All that is no number is `auto`.
            let number = text.parse::<u64>().map_or(-1, |number| i64::try_from(number).unwrap_or(i64::MAX));
            unsafe { buf.cast::<i64>().write_unaligned(number) };
        } else {
            let place =
                setting.choices.iter().position(|&choice| choice == text).ok_or(MPI_T_ERR_NOT_ACCESSIBLE)?;
            unsafe { buf.cast::<c_int>().write_unaligned(place as c_int) };
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_cvar_write(handle: MPI_T_cvar_handle, buf: *const c_void) -> c_int {
    in_tool(|tool| {
        let setting = setting_of(tool, handle)?;
        if !MPI_SETTINGS.contains(&setting.name) && !COLLECTIVE_SETTINGS.contains(&setting.name) {
            return Err(MPI_T_ERR_CVAR_SET_NEVER);
        }
        if state::stage().0 {
            return Err(MPI_T_ERR_CVAR_SET_NOT_NOW);
        }
        if buf.is_null() {
            return Err(MPI_T_ERR_INVALID);
        }
        let text = if setting.choices.is_empty() {
            match unsafe { buf.cast::<i64>().read_unaligned() } {
                -1 if setting.may_be_auto => "auto".to_owned(),
                number => number.to_string(),
            }
        } else {
            let place = unsafe { buf.cast::<c_int>().read_unaligned() };
            (*indexed(setting.choices, place).map_err(|_| MPI_T_ERR_INVALID)?).to_owned()
        };
        setting.store(&mut settings(tool)?, &text).map_err(|_| MPI_T_ERR_INVALID)?;
        tool.written.insert(setting.name, text);
        Ok(())
    })
}

/// A category: a name, what it is about, and its part of the variables.
struct Category {
    name: &'static str,
    about: &'static str,
    has_control: fn(&str) -> bool,
    has_performance: fn(class: c_int) -> bool,
    /// Indices of the categories inside.
    inside: &'static [c_int],
}

const CATEGORIES: [Category; 5] = [
    Category {
        name: "job",
        about: "Settings of the whole job, which its launcher reads: memory, device, packets",
        has_control: |name| !MPI_SETTINGS.contains(&name) && !COLLECTIVE_SETTINGS.contains(&name),
        has_performance: |_| false,
        inside: &[],
    },
    Category {
        name: "mpi",
        about: "Settings that MPI reads when it starts: how messages go, and what may wait",
        has_control: |name| MPI_SETTINGS.contains(&name),
        has_performance: |_| false,
        inside: &[2],
    },
    Category {
        name: "collectives",
        about: "From where on which algorithm a collective uses",
        has_control: |name| COLLECTIVE_SETTINGS.contains(&name),
        has_performance: |_| false,
        inside: &[],
    },
    Category {
        name: "queues",
        about: "What waits in this task now",
        has_control: |_| false,
        has_performance: |class| class == MPI_T_PVAR_CLASS_LEVEL,
        inside: &[],
    },
    Category {
        name: "traffic",
        about: "What this task has done since MPI started",
        has_control: |_| false,
        has_performance: |class| class == MPI_T_PVAR_CLASS_COUNTER,
        inside: &[],
    },
];

impl Category {
    fn controls(&self) -> Vec<c_int> {
        (0..)
            .zip(JOB_SETTINGS)
            .filter(|(_, setting)| (self.has_control)(setting.name))
            .map(|(at, _)| at)
            .collect()
    }

    fn performances(&self) -> Vec<c_int> {
        let classes = (0..).zip(&VARIABLES);
        classes.filter(|(_, variable)| (self.has_performance)(variable.class)).map(|(at, _)| at).collect()
    }
}

pub(crate) unsafe fn mpi_t_category_get_num(num_cat: *mut c_int) -> c_int {
    in_tool(|_| {
        unsafe { put(num_cat, CATEGORIES.len() as c_int) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_category_get_info(
    cat_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    desc: *mut c_char,
    desc_len: *mut c_int,
    num_cvars: *mut c_int,
    num_pvars: *mut c_int,
    num_categories: *mut c_int,
) -> c_int {
    in_tool(|_| {
        let category = indexed(&CATEGORIES, cat_index)?;
        unsafe {
            put_string(category.name, name, name_len);
            put_string(category.about, desc, desc_len);
            put(num_cvars, category.controls().len() as c_int);
            put(num_pvars, category.performances().len() as c_int);
            put(num_categories, category.inside.len() as c_int);
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_category_get_index(name: *const c_char, cat_index: *mut c_int) -> c_int {
    in_tool(|_| {
        let index = unsafe { index_of(name, CATEGORIES.iter().map(|category| category.name)) }?;
        unsafe { put(cat_index, index) };
        Ok(())
    })
}

/// Stores the first `len` members of a category.
unsafe fn members(
    cat_index: c_int,
    len: c_int,
    to: *mut c_int,
    members: impl FnOnce(&Category) -> Vec<c_int>,
) -> c_int {
    in_tool(|_| {
        let members = members(indexed(&CATEGORIES, cat_index)?);
        let count = members.len().min(usize::try_from(len).map_err(|_| MPI_T_ERR_INVALID)?);
        if to.is_null() && count > 0 {
            return Err(MPI_T_ERR_INVALID);
        }
        for (at, &member) in members[..count].iter().enumerate() {
            unsafe { *to.add(at) = member };
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_category_get_cvars(cat_index: c_int, len: c_int, indices: *mut c_int) -> c_int {
    unsafe { members(cat_index, len, indices, Category::controls) }
}

pub(crate) unsafe fn mpi_t_category_get_pvars(cat_index: c_int, len: c_int, indices: *mut c_int) -> c_int {
    unsafe { members(cat_index, len, indices, Category::performances) }
}

pub(crate) unsafe fn mpi_t_category_get_categories(
    cat_index: c_int,
    len: c_int,
    indices: *mut c_int,
) -> c_int {
    unsafe { members(cat_index, len, indices, |category| category.inside.to_vec()) }
}

pub(crate) unsafe fn mpi_t_category_get_events(cat_index: c_int, len: c_int, indices: *mut c_int) -> c_int {
    unsafe { members(cat_index, len, indices, |_| Vec::new()) }
}

pub(crate) unsafe fn mpi_t_category_get_num_events(cat_index: c_int, num_events: *mut c_int) -> c_int {
    in_tool(|_| {
        indexed(&CATEGORIES, cat_index)?;
        unsafe { put(num_events, 0) };
        Ok(())
    })
}

/// There are none of them.
unsafe fn none(number: *mut c_int) -> c_int {
    in_tool(|_| {
        unsafe { put(number, 0) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_source_get_num(number: *mut c_int) -> c_int {
    unsafe { none(number) }
}

pub(crate) unsafe fn mpi_t_event_get_num(number: *mut c_int) -> c_int {
    unsafe { none(number) }
}

/// The categories never change.
pub(crate) unsafe fn mpi_t_category_changed(update: *mut c_int) -> c_int {
    unsafe { none(update) }
}

/// What the functions about events and sources return: what they are asked about does not exist.
#[cold]
pub(crate) fn no_such_thing(function: &str) -> c_int {
    in_tool(|_| {
        Err(if function.ends_with("_get_index") {
            MPI_T_ERR_INVALID_NAME
        } else if function.contains("_source_")
            || function.ends_with("_event_get_info")
            || function.ends_with("_event_handle_alloc")
        {
            MPI_T_ERR_INVALID_INDEX
        } else {
            MPI_T_ERR_INVALID_HANDLE
        })
    })
}
