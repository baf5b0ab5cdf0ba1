//! Events and their one source (MPI 5.0 section 15.3.8).
//!
//! The engine records watched events ([`mpi_over_am::events`]). Callbacks run at the end of a C call, outside MPI, so they may call any
//! function (`MPI_T_CB_REQUIRE_NONE`). One thread at a time delivers events, in the order of their timestamps. An event that happens while
//! a callback runs is delivered after the callback.
//!
//! SAFETY: each `mpi_*` function here is called under the contract that the standard gives it: pointers are valid for the accesses that the
//! standard specifies; they may be null only where the standard allows it.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results and read arrays at the program's pointers; blocks that do more have a note"
)]

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mpi_over_am::events::{self, EVENTS_MAX, Event, EventKind};
use mpi_over_am::{ByCall, Info};

use crate::constants::{
    MPI_COUNT, MPI_ERR_INFO, MPI_T_BIND_NO_OBJECT, MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE,
    MPI_T_CB_REQUIRE_MPI_RESTRICTED, MPI_T_CB_REQUIRE_NONE, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_T_ERR_INVALID,
    MPI_T_ERR_INVALID_HANDLE, MPI_T_ERR_INVALID_INDEX, MPI_T_ERR_NOT_ACCESSIBLE, MPI_T_SOURCE_ORDERED,
    MPI_T_VERBOSITY_USER_DETAIL,
};
use crate::failure::call_program;
use crate::infos::{info_of, keep_info};
use crate::mpi_t::{HANDLES_FROM, check_given, in_tool, index_of, indexed, new_handle, put, put_string};
use crate::state;
use crate::types::{
    Callback, MPI_Datatype, MPI_Info, MPI_T_enum, MPI_T_event_instance, MPI_T_event_registration,
};

/// Levels of safety that a callback can be registered for, the least restrictive first. All callbacks here are called at the level that
/// requires nothing, for which a callback of any level is suitable.
const LEVELS: [c_int; 4] = [
    MPI_T_CB_REQUIRE_NONE,
    MPI_T_CB_REQUIRE_MPI_RESTRICTED,
    MPI_T_CB_REQUIRE_THREAD_SAFE,
    MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE,
];

/// The bytes of one number of an event.
const NUMBER_BYTES: usize = size_of::<i64>();

type EventFunction =
    unsafe extern "C-unwind" fn(MPI_T_event_instance, MPI_T_event_registration, c_int, *mut c_void);
type FreeFunction = unsafe extern "C-unwind" fn(MPI_T_event_registration, c_int, *mut c_void);
type DroppedFunction = unsafe extern "C-unwind" fn(i64, MPI_T_event_registration, c_int, c_int, *mut c_void);

/// A function of the program with its argument.
#[derive(Clone, Copy, Debug)]
struct Function {
    at: Callback,
    user_data: usize,
}

impl Function {
    fn user_data(self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.user_data)
    }
}

/// A tool's registration for one kind of events.
#[derive(Debug)]
struct Registration {
    kind: EventKind,
    /// A callback for each of [`LEVELS`].
    callbacks: [Option<Function>; LEVELS.len()],
    /// The program's handler of dropped events; 0 if there is none.
    dropped_handler: Callback,
    /// Number of dropped events not yet reported to the handler.
    dropped: u64,
}

impl Registration {
    fn callback(&self) -> Option<Function> {
        self.callbacks.into_iter().flatten().next()
    }
}

#[derive(Debug)]
struct Registry {
    registrations: BTreeMap<usize, Registration>,
    /// The event whose callback runs: its handle, its registration, and the event itself.
    current: Option<(usize, usize, Event)>,
    /// A free callback that must run after the current callback, whose registration was freed.
    free_after: Option<Function>,
}

static REGISTRY: Mutex<Registry> =
    Mutex::new(Registry { registrations: BTreeMap::new(), current: None, free_after: None });

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Drops all registrations: the interface has ended.
pub(crate) fn forget_registrations() {
    registry().registrations.clear();
    // If the watched kinds cannot be changed now, they are changed when MPI starts again.
    let _ = watch_what_is_registered();
}

/// Tells the engine which kinds of events have callbacks.
///
/// # Errors
/// The calling thread is in a callback of the program, inside an MPI call that uses the engine.
fn watch_what_is_registered() -> Result<(), c_int> {
    let with_callback: Vec<_> = {
        let registry = registry();
        let wanted = registry.registrations.values().filter(|one| one.callback().is_some());
        wanted.map(|one| one.kind).collect()
    };
    let is_watching = !with_callback.is_empty();
    events::watch(with_callback);
    ByCall::at_end_of_calls(is_watching.then_some(deliver as fn()));
    if state::is_running() {
        let mpi = state::enter("MPI_T_event_register_callback")?;
        let told = mpi.environment.borrow().as_ref().map(|environment| environment.look_at_watched());
        told.transpose().map_err(|_| MPI_T_ERR_NOT_ACCESSIBLE)?;
    }
    Ok(())
}

/// Runs the callbacks of at most [`EVENTS_MAX`] recorded events, and then the handlers of dropped events. Does nothing if another thread is
/// doing this, or if this thread is in such a callback.
pub(crate) fn deliver() {
    static IS_DELIVERING: AtomicBool = AtomicBool::new(false);
    // Acquire: pairs with the store at the end of this function.
    if IS_DELIVERING.swap(true, Ordering::Acquire) {
        return;
    }
    for _ in 0..EVENTS_MAX {
        let Some(event) = events::take() else { break };
        let of_kind: Vec<_> = numbers_of(event.kind);
        for number in of_kind {
            deliver_to(number, event);
        }
    }
    for kind in EventKind::ALL {
        let dropped = events::take_dropped(kind);
        if dropped > 0 {
            for number in numbers_of(kind) {
                tell_of_dropped(number, dropped);
            }
        }
    }
    // Release: pairs with the swap above.
    IS_DELIVERING.store(false, Ordering::Release);
}

fn numbers_of(kind: EventKind) -> Vec<usize> {
    let registry = registry();
    let of_kind = registry.registrations.iter().filter(|(_, one)| one.kind == kind);
    of_kind.map(|(&number, _)| number).collect()
}

fn deliver_to(number: usize, event: Event) {
    let instance = new_handle();
    let function = {
        let mut registry = registry();
        // The previous callback may have freed the registration.
        let Some(function) = registry.registrations.get(&number).and_then(Registration::callback) else {
            return;
        };
        registry.current = Some((instance, number, event));
        function
    };
    // SAFETY: the program has registered a function of this type (MPI_T_event_cb_function).
    let call: EventFunction = unsafe { std::mem::transmute(function.at) };
    let (instance, registration) = (MPI_T_event_instance(instance), MPI_T_event_registration(number));
    // SAFETY: the function gets handles that are valid until it returns, and the pointer that it was registered with.
    call_program("an event callback", || unsafe {
        call(instance, registration, MPI_T_CB_REQUIRE_NONE, function.user_data());
    });
    let free_after = {
        let mut registry = registry();
        registry.current = None;
        registry.free_after.take()
    };
    if let Some(free) = free_after {
        call_free(registration, free);
    }
}

fn tell_of_dropped(number: usize, more: u64) {
    let told = {
        let mut registry = registry();
        let Some(registration) = registry.registrations.get_mut(&number) else { return };
        registration.dropped = registration.dropped.saturating_add(more);
        match (registration.dropped_handler, registration.callback()) {
            (0, _) | (_, None) => None,
            (at, Some(Function { user_data, .. })) => {
                Some((Function { at, user_data }, std::mem::take(&mut registration.dropped)))
            }
        }
    };
    let Some((function, count)) = told else { return };
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    // SAFETY: the program has set a function of this type (MPI_T_event_dropped_cb_function).
    let call: DroppedFunction = unsafe { std::mem::transmute(function.at) };
    // SAFETY: the registration is valid, and the pointer is the one that its callback was registered with.
    call_program("a handler of dropped events", || unsafe {
        call(count, MPI_T_event_registration(number), 0, MPI_T_CB_REQUIRE_NONE, function.user_data());
    });
}

fn call_free(registration: MPI_T_event_registration, function: Function) {
    // SAFETY: the program gave a function of this type (MPI_T_event_free_cb_function).
    let call: FreeFunction = unsafe { std::mem::transmute(function.at) };
    // SAFETY: nothing uses the registration any more; the pointer came with the function.
    call_program("a free callback of an event", || unsafe {
        call(registration, MPI_T_CB_REQUIRE_NONE, function.user_data());
    });
}

/// The name of the event with this index, and the names of its numbers, which are the items of the event's enumeration. The handles of
/// these enumerations come after those of the settings.
pub(crate) fn numbers_of_event(index: usize) -> Option<(&'static str, &'static [&'static str])> {
    let (name, _, numbers) = EventKind::ALL.get(index)?.description();
    Some((name, numbers))
}

/// Stores a new info object without hints, because no hints are in use.
unsafe fn put_hints(info: *mut MPI_Info) -> Result<(), c_int> {
    if !info.is_null() {
        let hints = keep_info(Info::new()).map_err(|failure| failure.code())?;
        unsafe { *info = hints };
    }
    Ok(())
}

/// Refuses an invalid info object; hints are not used.
fn check_hints(info: MPI_Info) -> Result<(), c_int> {
    info_of(info).map(drop).map_err(|_| MPI_ERR_INFO)
}

pub(crate) unsafe fn mpi_t_source_get_num(num_sources: *mut c_int) -> c_int {
    in_tool(|| {
        unsafe { put(num_sources, 1) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_source_get_info(
    source_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    desc: *mut c_char,
    desc_len: *mut c_int,
    ordering: *mut c_int,
    ticks_per_second: *mut i64,
    max_ticks: *mut i64,
    info: *mut MPI_Info,
) -> c_int {
    in_tool(|| {
        check_source(source_index)?;
        unsafe {
            put_string("engine", name, name_len);
            put_string("Events of this task's calls and of its progress", desc, desc_len);
            put(ordering, MPI_T_SOURCE_ORDERED);
            put(ticks_per_second, 1_000_000_000);
            put(max_ticks, i64::MAX);
            put_hints(info)
        }
    })
}

fn check_source(index: c_int) -> Result<(), c_int> {
    if index == 0 { Ok(()) } else { Err(MPI_T_ERR_INVALID_INDEX) }
}

pub(crate) unsafe fn mpi_t_source_get_timestamp(source_index: c_int, timestamp: *mut i64) -> c_int {
    in_tool(|| {
        check_source(source_index)?;
        unsafe { put(timestamp, events::now().cast_signed()) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_event_get_num(num_events: *mut c_int) -> c_int {
    in_tool(|| {
        unsafe { put(num_events, EventKind::ALL.len() as c_int) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_event_get_info(
    event_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    verbosity: *mut c_int,
    array_of_datatypes: *mut MPI_Datatype,
    array_of_displacements: *mut i64,
    num_elements: *mut c_int,
    enumtype: *mut MPI_T_enum,
    info: *mut MPI_Info,
    desc: *mut c_char,
    desc_len: *mut c_int,
    bind: *mut c_int,
) -> c_int {
    in_tool(|| {
        let (own_name, about, numbers) = indexed(&EventKind::ALL, event_index)?.description();
        unsafe {
            put_string(own_name, name, name_len);
            put_string(about, desc, desc_len);
            put(verbosity, MPI_T_VERBOSITY_USER_DETAIL);
            put(
                enumtype,
                MPI_T_enum(HANDLES_FROM + crate::control::CONTROL_VARIABLES.len() + event_index as usize),
            );
            put(bind, MPI_T_BIND_NO_OBJECT);
            if !num_elements.is_null() {
                let capacity = usize::try_from(*num_elements).unwrap_or(0).min(numbers.len());
                for at in 0..capacity {
                    // A tool may pass null for either array.
                    if !array_of_datatypes.is_null() {
                        array_of_datatypes.add(at).write(MPI_COUNT);
                    }
                    if !array_of_displacements.is_null() {
                        array_of_displacements.add(at).write((at * NUMBER_BYTES) as i64);
                    }
                }
                *num_elements = numbers.len() as c_int;
            }
            put_hints(info)
        }
    })
}

pub(crate) unsafe fn mpi_t_event_get_index(name: *const c_char, event_index: *mut c_int) -> c_int {
    in_tool(|| {
        let index = unsafe { index_of(name, EventKind::ALL.into_iter().map(|kind| kind.description().0)) }?;
        unsafe { put(event_index, index) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_event_handle_alloc(
    event_index: c_int,
    _obj_handle: *mut c_void,
    info: MPI_Info,
    event_registration: *mut MPI_T_event_registration,
) -> c_int {
    in_tool(|| {
        let kind = *indexed(&EventKind::ALL, event_index)?;
        check_hints(info)?;
        check_given(event_registration.is_null())?;
        let number = new_handle();
        let new = Registration { kind, callbacks: [None; LEVELS.len()], dropped_handler: 0, dropped: 0 };
        registry().registrations.insert(number, new);
        unsafe { *event_registration = MPI_T_event_registration(number) };
        Ok(())
    })
}

/// Runs a call about a registration.
fn with_registration<T>(
    registration: MPI_T_event_registration,
    call: impl FnOnce(&mut Registration) -> Result<T, c_int>,
) -> Result<T, c_int> {
    call(registry().registrations.get_mut(&registration.0).ok_or(MPI_T_ERR_INVALID_HANDLE)?)
}

fn level_of(cb_safety: c_int) -> Result<usize, c_int> {
    LEVELS.iter().position(|&level| level == cb_safety).ok_or(MPI_T_ERR_INVALID)
}

pub(crate) unsafe fn mpi_t_event_handle_set_info(
    event_registration: MPI_T_event_registration,
    info: MPI_Info,
) -> c_int {
    in_tool(|| with_registration(event_registration, |_| check_hints(info)))
}

pub(crate) unsafe fn mpi_t_event_handle_get_info(
    event_registration: MPI_T_event_registration,
    info_used: *mut MPI_Info,
) -> c_int {
    in_tool(|| with_registration(event_registration, |_| unsafe { put_hints(info_used) }))
}

pub(crate) unsafe fn mpi_t_event_register_callback(
    event_registration: MPI_T_event_registration,
    cb_safety: c_int,
    info: MPI_Info,
    user_data: *mut c_void,
    event_cb_function: Callback,
) -> c_int {
    in_tool(|| {
        let level = level_of(cb_safety)?;
        check_hints(info)?;
        let user_data = user_data.expose_provenance();
        with_registration(event_registration, |registration| {
            let function = Function { at: event_cb_function, user_data };
            registration.callbacks[level] = (event_cb_function != 0).then_some(function);
            Ok(())
        })?;
        watch_what_is_registered()
    })
}

/// Refuses a level without a registered callback.
fn check_callback(registration: &Registration, cb_safety: c_int) -> Result<(), c_int> {
    registration.callbacks[level_of(cb_safety)?].map(|_| ()).ok_or(MPI_T_ERR_INVALID)
}

pub(crate) unsafe fn mpi_t_event_callback_set_info(
    event_registration: MPI_T_event_registration,
    cb_safety: c_int,
    info: MPI_Info,
) -> c_int {
    in_tool(|| {
        with_registration(event_registration, |registration| check_callback(registration, cb_safety))?;
        check_hints(info)
    })
}

pub(crate) unsafe fn mpi_t_event_callback_get_info(
    event_registration: MPI_T_event_registration,
    cb_safety: c_int,
    info_used: *mut MPI_Info,
) -> c_int {
    in_tool(|| {
        with_registration(event_registration, |registration| check_callback(registration, cb_safety))?;
        unsafe { put_hints(info_used) }
    })
}

pub(crate) unsafe fn mpi_t_event_handle_free(
    event_registration: MPI_T_event_registration,
    user_data: *mut c_void,
    free_cb_function: Callback,
) -> c_int {
    in_tool(|| {
        let function = Function { at: free_cb_function, user_data: user_data.expose_provenance() };
        let is_running = {
            let mut registry = registry();
            registry.registrations.remove(&event_registration.0).ok_or(MPI_T_ERR_INVALID_HANDLE)?;
            let is_running = registry.current.is_some_and(|(_, of, _)| of == event_registration.0);
            if is_running && free_cb_function != 0 {
                registry.free_after = Some(function);
            }
            is_running
        };
        let told = watch_what_is_registered();
        if !is_running && free_cb_function != 0 {
            call_free(event_registration, function);
        }
        told
    })
}

pub(crate) unsafe fn mpi_t_event_set_dropped_handler(
    event_registration: MPI_T_event_registration,
    dropped_cb_function: Callback,
) -> c_int {
    in_tool(|| {
        with_registration(event_registration, |registration| {
            registration.dropped_handler = dropped_cb_function;
            Ok(())
        })
    })
}

/// The event whose callback runs.
fn current(instance: MPI_T_event_instance) -> Result<Event, c_int> {
    let current = registry().current.filter(|(handle, ..)| *handle == instance.0);
    current.map(|(.., event)| event).ok_or(MPI_T_ERR_INVALID_HANDLE)
}

pub(crate) unsafe fn mpi_t_event_read(
    event_instance: MPI_T_event_instance,
    element_index: c_int,
    buffer: *mut c_void,
) -> c_int {
    in_tool(|| {
        let event = current(event_instance)?;
        let number = *indexed(event.words(), element_index)?;
        check_given(buffer.is_null())?;
        unsafe { buffer.cast::<i64>().write_unaligned(number) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_event_copy(event_instance: MPI_T_event_instance, buffer: *mut c_void) -> c_int {
    in_tool(|| {
        let event = current(event_instance)?;
        check_given(buffer.is_null())?;
        for (at, &number) in event.words().iter().enumerate() {
            unsafe { buffer.cast::<i64>().add(at).write_unaligned(number) };
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_event_get_timestamp(
    event_instance: MPI_T_event_instance,
    event_timestamp: *mut i64,
) -> c_int {
    in_tool(|| {
        let event = current(event_instance)?;
        unsafe { put(event_timestamp, event.nanoseconds.cast_signed()) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_event_get_source(
    event_instance: MPI_T_event_instance,
    source_index: *mut c_int,
) -> c_int {
    in_tool(|| {
        current(event_instance)?;
        unsafe { put(source_index, 0) };
        Ok(())
    })
}
