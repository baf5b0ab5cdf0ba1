//! Info objects (MPI 5.0 chapter 10). They work before `MPI_Init` and after `MPI_Finalize` too, from any thread, so they belong to the
//! process and not to MPI.
//!
//! SAFETY: each `mpi_*` function here is called under the contract that the standard gives it: pointers are valid for the accesses that the
//! standard specifies.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results and read arrays at the program's pointers; blocks that do more have a note"
)]

use std::ffi::{c_char, c_int};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mpi_over_am::{ErrorClass, Info};

use crate::constants::{MPI_INFO_ENV, MPI_INFO_NULL, MPI_MAX_INFO_KEY, MPI_MAX_INFO_VAL};
use crate::errors::finish_on_process;
use crate::failure::{Failure, Outcome, elements, not_null};
use crate::handles::{Handles, ObjectKind};
use crate::text::{bytes_of, give_string, string_at};
use crate::types::MPI_Info;

/// Bytes of a key, with its terminating NUL (`MPI_MAX_INFO_KEY`).
const KEY_BYTES_MAX: usize = MPI_MAX_INFO_KEY;

static INFOS: Mutex<Handles<Info>> = Mutex::new(Handles::new(ObjectKind::Info));

fn infos() -> MutexGuard<'static, Handles<Info>> {
    INFOS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a handle is that of an info object (`MPI_INFO_ENV` is one), or `MPI_INFO_NULL`.
pub(crate) fn is_info(handle: MPI_Info) -> bool {
    matches!(handle, MPI_INFO_NULL | MPI_INFO_ENV) || infos().get(handle.0).is_some()
}

pub(crate) fn no_info(handle: MPI_Info) -> Failure {
    let what = match handle {
        MPI_INFO_NULL => "the info object is MPI_INFO_NULL".to_owned(),
        MPI_INFO_ENV => "MPI_INFO_ENV can only be read".to_owned(),
        other => format!("0x{:x} is not an info object: it was freed, or never was one", other.0),
    };
    Failure::new(ErrorClass::Info, what)
}

/// The contents of an info object; an error for `MPI_INFO_NULL` and invalid handles.
fn contents(handle: MPI_Info) -> Outcome<Info> {
    match handle {
        MPI_INFO_ENV => Ok(mpi_over_am::Environment::start_info()),
        other => infos().get(other.0).ok_or_else(|| no_info(other)),
    }
}

/// The hints of a handle; none for `MPI_INFO_NULL`.
///
/// # Errors
/// The handle is invalid.
pub(crate) fn info_of(handle: MPI_Info) -> Outcome<Info> {
    if handle == MPI_INFO_NULL { Ok(Info::new()) } else { contents(handle) }
}

/// A new handle for hints.
///
/// # Errors
/// There are a million info objects already.
pub(crate) fn keep_info(info: Info) -> Outcome<MPI_Info> {
    infos().insert(info).map(MPI_Info)
}

/// Changes an info object.
pub(crate) fn change(handle: MPI_Info, call: impl FnOnce(&mut Info) -> Outcome<()>) -> Outcome<()> {
    let infos = infos();
    let mut info = infos.get(handle.0).ok_or_else(|| no_info(handle))?;
    call(&mut info)?;
    infos.fill(handle.0, info);
    Ok(())
}

unsafe fn text_of(at: *const c_char, class: ErrorClass) -> Outcome<String> {
    if at.is_null() {
        return Err(Failure::new(class, "a key or value is null"));
    }
    // SAFETY: not null, and a NUL-terminated string of the program.
    unsafe { string_at(at) }
}

unsafe fn key_of(at: *const c_char) -> Outcome<String> {
    unsafe { text_of(at, ErrorClass::InfoKey) }
}

fn run(function: &str, call: impl FnOnce() -> Outcome<()>) -> c_int {
    finish_on_process(function, call())
}

pub(crate) unsafe fn mpi_info_create(info: *mut MPI_Info) -> c_int {
    run("MPI_Info_create", || {
        unsafe { *not_null(info)? = keep_info(Info::new())? };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_info_create_env(argc: c_int, argv: *mut *mut c_char, info: *mut MPI_Info) -> c_int {
    run("MPI_Info_create_env", || {
        let info = not_null(info)?;
        // The program's own arguments if it passes them, else those that it was started with.
        let mut arguments = Vec::new();
        if !argv.is_null() {
            for &argument in unsafe { elements(argv.cast_const(), argc)? } {
                arguments.push(unsafe { text_of(argument, ErrorClass::Argument)? });
            }
        }
        let known = if arguments.is_empty() {
            mpi_over_am::Environment::start_info()
        } else {
            Info::of_start(&arguments, |name| std::env::var(name).ok())
        };
        unsafe { *info = keep_info(known)? };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_info_free(info: *mut MPI_Info) -> c_int {
    run("MPI_Info_free", || {
        let at = not_null(info)?;
        let handle = unsafe { *at };
        infos().remove(handle.0).ok_or_else(|| no_info(handle))?;
        unsafe { *at = MPI_INFO_NULL };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_info_dup(info: MPI_Info, new: *mut MPI_Info) -> c_int {
    run("MPI_Info_dup", || {
        let new = not_null(new)?;
        unsafe { *new = keep_info(contents(info)?)? };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_info_set(info: MPI_Info, key: *const c_char, value: *const c_char) -> c_int {
    run("MPI_Info_set", || {
        let (key, value) = unsafe { (key_of(key)?, text_of(value, ErrorClass::InfoValue)?) };
        for (text, max, class) in
            [(&key, MPI_MAX_INFO_KEY, ErrorClass::InfoKey), (&value, MPI_MAX_INFO_VAL, ErrorClass::InfoValue)]
        {
            if text.len() >= max {
                let what = format!("a key or value has {} bytes, more than {}", text.len(), max - 1);
                return Err(Failure::new(class, what));
            }
        }
        change(info, |info| Ok(info.set(&key, &value)?))
    })
}

pub(crate) unsafe fn mpi_info_delete(info: MPI_Info, key: *const c_char) -> c_int {
    run("MPI_Info_delete", || {
        let key = unsafe { key_of(key)? };
        change(info, |info| Ok(info.delete(&key)?))
    })
}

pub(crate) unsafe fn mpi_info_get(
    info: MPI_Info,
    key: *const c_char,
    capacity: c_int,
    value: *mut c_char,
    flag: *mut c_int,
) -> c_int {
    run("MPI_Info_get", || {
        let (key, flag) = unsafe { (key_of(key)?, not_null(flag)?) };
        // The terminating NUL is not counted here.
        let capacity = usize::try_from(capacity).map_err(|_| {
            Failure::new(ErrorClass::Argument, format!("the length is {capacity}, below zero"))
        })?;
        let info = contents(info)?;
        let found = info.get(&key)?;
        unsafe { *flag = c_int::from(found.is_some()) };
        if let Some(found) = found {
            unsafe { give_string(found, not_null(value)?, capacity + 1, std::ptr::null_mut()) };
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_info_get_valuelen(
    info: MPI_Info,
    key: *const c_char,
    len: *mut c_int,
    flag: *mut c_int,
) -> c_int {
    run("MPI_Info_get_valuelen", || {
        let (key, len, flag) = unsafe { (key_of(key)?, not_null(len)?, not_null(flag)?) };
        let info = contents(info)?;
        let found = info.get(&key)?;
        unsafe { *flag = c_int::from(found.is_some()) };
        if let Some(found) = found {
            unsafe { *len = bytes_of(found).len() as c_int };
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_info_get_string(
    info: MPI_Info,
    key: *const c_char,
    capacity: *mut c_int,
    value: *mut c_char,
    flag: *mut c_int,
) -> c_int {
    run("MPI_Info_get_string", || {
        let (key, capacity, flag) = unsafe { (key_of(key)?, not_null(capacity)?, not_null(flag)?) };
        let bytes = usize::try_from(unsafe { *capacity })
            .map_err(|_| Failure::new(ErrorClass::Argument, "the length of the buffer is below zero"))?;
        let info = contents(info)?;
        let found = info.get(&key)?.map(bytes_of);
        unsafe { *flag = c_int::from(found.is_some()) };
        if let Some(found) = found {
            if bytes > 0 {
                let (value, shown) = (not_null(value)?, &found[..found.len().min(bytes - 1)]);
                // SAFETY: `value` is not null; the program promises that the buffer there has `bytes` bytes, and `shown` is shorter.
                unsafe {
                    std::ptr::copy_nonoverlapping(shown.as_ptr().cast(), value, shown.len());
                    *value.add(shown.len()) = 0;
                }
            }
            unsafe { *capacity = (found.len() + 1) as c_int };
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_info_get_nkeys(info: MPI_Info, number: *mut c_int) -> c_int {
    run("MPI_Info_get_nkeys", || {
        unsafe { *not_null(number)? = contents(info)?.len() as c_int };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_info_get_nthkey(info: MPI_Info, n: c_int, key: *mut c_char) -> c_int {
    run("MPI_Info_get_nthkey", || {
        let key = not_null(key)?;
        let info = contents(info)?;
        let found = info.key(usize::try_from(n).unwrap_or(usize::MAX))?;
        unsafe { give_string(found, key, KEY_BYTES_MAX, std::ptr::null_mut()) };
        Ok(())
    })
}
