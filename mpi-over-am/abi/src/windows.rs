//! Windows: one-sided communication (MPI 5.0 chapter 12).
//!
//! SAFETY: each `mpi_*` function here is called under the contract that the standard gives it: pointers are valid for the accesses that the
//! standard specifies, and buffers are not used until their operation has ended. One thread at a time uses the state of MPI (`state`).

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results and read arrays at the program's pointers; blocks that do more have a note"
)]

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::rc::Rc;

use mpi_over_am::window::Flavor;
use mpi_over_am::{ErrorClass, WindowMemory};

use crate::attributes::{give_attribute, keyval_of};
use crate::constants::{
    MPI_ERRORS_ARE_FATAL, MPI_SUCCESS, MPI_WIN_BASE, MPI_WIN_CREATE_FLAVOR, MPI_WIN_DISP_UNIT,
    MPI_WIN_FLAVOR_ALLOCATE, MPI_WIN_FLAVOR_CREATE, MPI_WIN_FLAVOR_DYNAMIC, MPI_WIN_FLAVOR_SHARED,
    MPI_WIN_MODEL, MPI_WIN_NULL, MPI_WIN_SIZE, MPI_WIN_UNIFIED,
};
use crate::engine::Window;
use crate::errors::{finish_alone, on_communicator, on_process};
use crate::failure::{Failure, Outcome, not_null};
use crate::groups::keep_group;
use crate::infos::{info_of, keep_info};
use crate::objects::WindowObject;
use crate::raise::{KeptErrhandler, raise_through};
use crate::state::{Mpi, enter, entered};
use crate::types::{MPI_Comm, MPI_Group, MPI_Info, MPI_Win};

/// Runs the error handler of a window for a failure.
#[cold]
fn raise(object: &WindowObject, function: &str, failure: &Failure) -> c_int {
    let of = || {
        let name = object.window.properties().name();
        let name = if name.is_empty() { "a window".to_owned() } else { name };
        format!("rank {} of {name}", object.window.rank())
    };
    raise_through(object.errhandler.get(), object.handle.get().0, of, function, failure)
}

fn window_of(mpi: &Mpi, handle: MPI_Win) -> Outcome<Rc<WindowObject>> {
    mpi.windows.get(handle.0).ok_or_else(|| {
        let what = match handle {
            MPI_WIN_NULL => "the window is MPI_WIN_NULL".to_owned(),
            other => format!("0x{:x} is not a window: it was freed, or never was one", other.0),
        };
        Failure::new(ErrorClass::Window, what)
    })
}

/// Runs a call on a window.
pub(crate) fn on_window(
    function: &str,
    handle: MPI_Win,
    call: impl FnOnce(&Mpi, &WindowObject) -> Outcome<()>,
) -> c_int {
    match enter(function) {
        Ok(mpi) => on_window_in(&mpi, function, handle, call),
        Err(code) => code,
    }
}

/// [`on_window`] in a call that has entered MPI already. A separate function, so that a call that completes on the fast path has all
/// registers for itself.
#[inline(never)]
pub(crate) fn on_window_in(
    mpi: &Mpi,
    function: &str,
    handle: MPI_Win,
    call: impl FnOnce(&Mpi, &WindowObject) -> Outcome<()>,
) -> c_int {
    match window_of(mpi, handle) {
        Ok(object) => match call(mpi, &object) {
            Ok(()) => MPI_SUCCESS,
            Err(failure) => raise(&object, function, &failure),
        },
        Err(failure) => finish_alone(mpi, function, Err(failure)),
    }
}

/// Makes a handle for a window, and stores it at `at`.
///
/// # Errors
/// There are a million windows already.
pub(crate) fn keep(mpi: &Mpi, window: Window, base: usize, at: *mut MPI_Win) -> Outcome<()> {
    let flavor = match window.flavor() {
        Flavor::Created => MPI_WIN_FLAVOR_CREATE,
        Flavor::Allocated => MPI_WIN_FLAVOR_ALLOCATE,
        Flavor::Dynamic => MPI_WIN_FLAVOR_DYNAMIC,
        Flavor::Shared => MPI_WIN_FLAVOR_SHARED,
    };
    let object = Rc::new(WindowObject {
        base,
        size: window.size() as i64,
        unit: window.unit() as c_int,
        window,
        errhandler: KeptErrhandler::new(MPI_ERRORS_ARE_FATAL),
        handle: Cell::new(MPI_WIN_NULL),
        flavor,
        model: MPI_WIN_UNIFIED,
        empty_pieces: RefCell::default(),
    });
    let handle = mpi.windows.insert(Rc::clone(&object))?;
    object.window.properties().set_handle(handle as u64);
    object.handle.set(MPI_Win(handle));
    unsafe { *at = MPI_Win(handle) };
    Ok(())
}

/// A size in bytes that a program gives.
///
/// # Errors
/// The size is negative.
pub(crate) fn size_of(size: i64) -> Outcome<usize> {
    usize::try_from(size)
        .map_err(|_| Failure::new(ErrorClass::Size, format!("the size is {size}, below zero")))
}

/// A unit of displacements.
///
/// # Errors
/// The unit is less than 1, or too large.
pub(crate) fn unit_of(unit: i64) -> Outcome<u32> {
    u32::try_from(unit).ok().filter(|&unit| unit > 0).ok_or_else(|| {
        Failure::new(ErrorClass::Displacement, format!("the unit of displacements is {unit}, not 1 or more"))
    })
}

pub(crate) unsafe fn mpi_win_create_c(
    base: *mut c_void,
    size: i64,
    disp_unit: i64,
    info: MPI_Info,
    comm: MPI_Comm,
    win: *mut MPI_Win,
) -> c_int {
    on_communicator("MPI_Win_create", comm, |mpi, object| {
        let (size, unit, info) = (size_of(size)?, unit_of(disp_unit)?, info_of(info)?);
        if base.is_null() && size > 0 {
            return Err(Failure::new(ErrorClass::Base, format!("the base address of {size} bytes is null")));
        }
        let memory = unsafe { WindowMemory::from_raw(base.cast(), size) };
        not_null(win)?;
        // The program's own address, even for a size of 0.
        keep(mpi, object.communicator.create_window(memory, unit, &info)?, base.expose_provenance(), win)
    })
}

pub(crate) unsafe fn mpi_win_allocate_c(
    size: i64,
    disp_unit: i64,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: *mut c_void,
    win: *mut MPI_Win,
) -> c_int {
    on_communicator("MPI_Win_allocate", comm, |mpi, object| {
        let (size, unit, info) = (size_of(size)?, unit_of(disp_unit)?, info_of(info)?);
        let (_, baseptr) = (not_null(win)?, not_null(baseptr)?);
        let window = object.communicator.allocate_window(size, unit, &info)?;
        unsafe { *baseptr.cast::<*mut u8>() = window.base() };
        let base = window.base().expose_provenance();
        keep(mpi, window, base, win)
    })
}

pub(crate) unsafe fn mpi_win_create_dynamic(info: MPI_Info, comm: MPI_Comm, win: *mut MPI_Win) -> c_int {
    on_communicator("MPI_Win_create_dynamic", comm, |mpi, object| {
        not_null(win)?;
        // MPI_BOTTOM, the base of the addresses in a dynamic window.
        keep(mpi, object.communicator.create_dynamic_window(&info_of(info)?)?, 0, win)
    })
}

pub(crate) unsafe fn mpi_win_attach(win: MPI_Win, base: *mut c_void, size: i64) -> c_int {
    on_window("MPI_Win_attach", win, |_, object| {
        match size_of(size)? {
            0 => object.empty_pieces.borrow_mut().push(base.addr()),
            size => {
                object.window.attach(unsafe { WindowMemory::from_raw(base.cast(), size) })?;
            }
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_win_detach(win: MPI_Win, base: *const c_void) -> c_int {
    on_window("MPI_Win_detach", win, |_, object| {
        let empty = object.empty_pieces.borrow().iter().position(|&at| at == base.addr());
        match empty {
            Some(place) => drop(object.empty_pieces.borrow_mut().swap_remove(place)),
            None => drop(object.window.detach(base.expose_provenance() as u64)?),
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_win_free(win: *mut MPI_Win) -> c_int {
    const CALL: &str = "MPI_Win_free";
    let at = match not_null(win) {
        Ok(at) => at,
        Err(failure) => return on_process(CALL, |_| Err(failure)),
    };
    let handle = unsafe { *at };
    // Delete functions of attributes can still use the window, and if one fails the window stays.
    let begun = on_window(CALL, handle, |_, object| Ok(object.window.begin_free()?));
    if begun != MPI_SUCCESS {
        return begun;
    }
    let mpi = entered!(CALL);
    let Some(Ok(object)) = mpi.windows.remove(handle.0).map(Rc::try_unwrap) else {
        let failure = Failure::new(ErrorClass::Window, "the window is still in use by another call");
        return finish_alone(&mpi, CALL, Err(failure));
    };
    unsafe { *at = MPI_WIN_NULL };
    match object.window.free() {
        Ok(_) => MPI_SUCCESS,
        Err(error) => {
            let of = || "a window".to_owned();
            raise_through(object.errhandler.get(), handle.0, of, CALL, &error.into())
        }
    }
}

pub(crate) unsafe fn mpi_win_get_group(win: MPI_Win, group: *mut MPI_Group) -> c_int {
    on_window("MPI_Win_get_group", win, |mpi, object| {
        unsafe { *not_null(group)? = keep_group(mpi, object.window.group())? };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_win_set_info(win: MPI_Win, info: MPI_Info) -> c_int {
    on_window("MPI_Win_set_info", win, |_, object| {
        object.window.properties().set_info(&info_of(info)?);
        Ok(())
    })
}

pub(crate) unsafe fn mpi_win_get_info(win: MPI_Win, info: *mut MPI_Info) -> c_int {
    on_window("MPI_Win_get_info", win, |_, object| {
        unsafe { *not_null(info)? = keep_info(object.window.properties().info())? };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_win_get_attr(
    win: MPI_Win,
    keyval: c_int,
    value: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    on_window("MPI_Win_get_attr", win, |mpi, object| {
        let found = match keyval {
            MPI_WIN_BASE => Some(object.base),
            MPI_WIN_DISP_UNIT => Some((&raw const object.unit).expose_provenance()),
            MPI_WIN_SIZE => Some((&raw const object.size).expose_provenance()),
            MPI_WIN_CREATE_FLAVOR => Some((&raw const object.flavor).expose_provenance()),
            MPI_WIN_MODEL => Some((&raw const object.model).expose_provenance()),
            other => {
                object.window.properties().attribute(&keyval_of(mpi, other)?)?.map(|value| value as usize)
            }
        };
        unsafe { give_attribute(found, value, flag) }
    })
}
