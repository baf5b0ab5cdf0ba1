//! Begin and end, and questions about the job (OpenSHMEM 1.6, sections 9.1 and 9.2).

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, Once, PoisonError};

use am_core::pgas::Common;
use am_core::shared::SharedContext;
use am_core::task::TaskId;
use am_core::{Context, Error};
use am_via::{ShmFabric, Task};

use crate::objects::Team;
use crate::symmetric_heap::ALIGN_MAX;
use crate::world::{
    CONTEXT, Place, World, check_pe, end_process, fail, fail_by, has_far, leave, try_world, world,
};
use crate::{collective, second_mapping, statics, team, tokens};

/// The version of the standard that the header declares.
const VERSION: (c_int, c_int) = (1, 6);
/// `SHMEM_MAX_NAME_LEN`.
const NAME_BYTES: usize = 64;
const NAME: &str = "am-core OpenSHMEM";
const THREAD_MULTIPLE: c_int = 3;
/// Bytes of the symmetric heap if `SHMEM_SYMMETRIC_SIZE` does not say. Pages that were never touched cost nothing.
const HEAP_BYTES: u64 = 1 << 30;
// SAFETY: the C library's function, with its type.
unsafe extern "C" {
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

pub(crate) unsafe fn init(call: &str) {
    static LOCK: Mutex<()> = Mutex::new(());
    static ONCE: Once = Once::new();
    let _lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    if try_world().is_some() {
        return;
    }
    if let Some(other) = other_mpi() {
        fail(
            call,
            format_args!(
                "this program has an MPI library, {}, of which OpenSHMEM is not a part: build it with mpicc and oshcc of one installation",
                other.display()
            ),
        );
    }
    if let Ok(task) = Task::join()
        && task.job().parent().is_some()
    {
        fail(
            call,
            format_args!(
                "this task was started by MPI_Comm_spawn, and only the tasks with which a job begins are PEs: start it with oshrun or mpiexec"
            ),
        );
    }
    let heap_bytes = match heap_bytes() {
        Ok(bytes) => bytes,
        Err(what) => fail(call, format_args!("{what}")),
    };
    match begin(heap_bytes) {
        Ok(world) => world.begin(),
        Err(error) => fail_by(call, &error),
    }
    // A PE that computes takes what PEs of other hosts send it.
    if has_far()
        && let Err(error) = world(call).shared.set_interrupts(true)
    {
        fail_by(call, &error);
    }
    say_what_was_asked(call, heap_bytes);
    // SAFETY: the function is never unloaded while the process runs: the program is linked to this library.
    ONCE.call_once(|| unsafe {
        on_exit(at_exit, std::ptr::null_mut());
    });
}

/// The library with this process's functions of MPI, if it is not the library with this function.
fn other_mpi() -> Option<PathBuf> {
    let library = |address: *const c_void| {
        // SAFETY: all zeros are a value of this structure of addresses.
        let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: the loader compares the address, and fills the structure.
        let is_known = unsafe { libc::dladdr(address, &raw mut found) } != 0 && !found.dli_fname.is_null();
        // SAFETY: a name that ends in NUL and lives as long as the library is loaded.
        is_known.then(|| (found.dli_fbase, unsafe { CStr::from_ptr(found.dli_fname) }))
    };
    // The profiling name, which tools do not define. SAFETY: asks the loader for a name.
    let of_mpi = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"PMPI_Init".as_ptr()) };
    let (base, name) = library(of_mpi)?;
    let is_other = library(other_mpi as *const c_void).is_some_and(|(own, _)| own != base);
    is_other.then(|| PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

fn begin(heap_bytes: u64) -> am_core::Result<World> {
    let task = Task::join()?;
    if std::env::var_os("SHMEM_DEBUG").is_some() {
        task.trace_to_stderr();
    }
    let mut context: Context<ShmFabric> = Context::new(task.fabric(CONTEXT.0)?);
    // First, before anything of the program could change its data.
    let statics = statics::share(&mut context)?;
    let control = tokens::control_bytes(task.job().num_tasks());
    let len = heap_bytes.checked_next_multiple_of(4096).and_then(|bytes| bytes.checked_add(control as u64));
    let memory = Common::new(&mut context, len.unwrap_or(u64::MAX))?;
    let own = aligned(&memory)?;
    memory.keep(&mut context);
    context.gfence()?;
    Ok(World::new(task, SharedContext::new(context), (memory, own), statics, control))
}

/// Maps this PE's part once more, at an address that is as even as `shmem_align` may ask: an offset is then equally even at all PEs.
fn aligned(memory: &Common) -> am_core::Result<*mut u8> {
    let failed =
        |source: std::io::Error| Error::System { doing: "mapping the symmetric heap", source: source.into() };
    let len = memory.len() as usize;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: reserves addresses, at which nothing else is; takes a part of them for a second mapping of the memory; gives the rest back.
    let at = unsafe {
        let reserved = libc::mmap(std::ptr::null_mut(), len + ALIGN_MAX, libc::PROT_NONE, flags, -1, 0);
        if reserved == libc::MAP_FAILED {
            return Err(failed(std::io::Error::last_os_error()));
        }
        let reserved = reserved.cast::<u8>();
        let before = reserved.addr().next_multiple_of(ALIGN_MAX) - reserved.addr();
        let wanted = reserved.add(before);
        second_mapping::map(memory, wanted, "mapping the symmetric heap")?;
        if before > 0 {
            libc::munmap(reserved.cast(), before);
        }
        libc::munmap(wanted.add(len).cast(), ALIGN_MAX - before);
        wanted
    };
    Ok(at)
}

/// `SHMEM_SYMMETRIC_SIZE`: a number of bytes, perhaps with a fraction and with K, M, G or T (OpenSHMEM 1.6, section 8).
fn heap_bytes() -> Result<u64, String> {
    for name in ["SHMEM_SYMMETRIC_SIZE", "SMA_SYMMETRIC_SIZE"] {
        let Some(value) = std::env::var_os(name) else { continue };
        let text = value.to_string_lossy().trim().to_ascii_uppercase();
        let text = text.strip_suffix('B').unwrap_or(&text);
        let (digits, factor) = match text.chars().last() {
            Some('K') => (&text[..text.len() - 1], 1_u64 << 10),
            Some('M') => (&text[..text.len() - 1], 1 << 20),
            Some('G') => (&text[..text.len() - 1], 1 << 30),
            Some('T') => (&text[..text.len() - 1], 1 << 40),
            _ => (text, 1),
        };
        let number = digits.trim().parse::<f64>().ok().filter(|number| *number >= 0.0 && number.is_finite());
        let bytes = number.map(|number| number * factor as f64).filter(|bytes| *bytes < (1_u64 << 47) as f64);
        return match bytes {
            Some(bytes) => Ok(bytes as u64),
            None => Err(format!(
                "{name}={}: use a number of bytes, such as 67108864, 64M or 1.5G",
                value.to_string_lossy()
            )),
        };
    }
    Ok(HEAP_BYTES)
}

/// What `SHMEM_VERSION` and `SHMEM_INFO` ask PE 0 to print.
fn say_what_was_asked(call: &str, heap_bytes: u64) {
    if world(call).me != 0 {
        return;
    }
    if std::env::var_os("SHMEM_VERSION").is_some() || std::env::var_os("SHMEM_INFO").is_some() {
        am_via::complain!("{NAME} {}, OpenSHMEM {}.{}", env!("CARGO_PKG_VERSION"), VERSION.0, VERSION.1);
    }
    if std::env::var_os("SHMEM_INFO").is_some() {
        am_via::complain!(
            "SHMEM_SYMMETRIC_SIZE: bytes of the symmetric heap of each PE, as 64M or 1.5G; now {heap_bytes}\n\
             SHMEM_VERSION: print the version\n\
             SHMEM_INFO: print this\n\
             SHMEM_DEBUG: print each message of am-core"
        );
    }
}

pub(crate) unsafe fn start_pes(call: &str, _pes: c_int) {
    unsafe { init(call) };
}

pub(crate) unsafe fn init_thread(call: &str, requested: c_int, provided: *mut c_int) -> c_int {
    if !(0..=THREAD_MULTIPLE).contains(&requested) {
        fail(
            call,
            format_args!(
                "requested = {requested}: use SHMEM_THREAD_SINGLE, FUNNELED, SERIALIZED or MULTIPLE"
            ),
        );
    }
    unsafe {
        init(call);
        *provided = THREAD_MULTIPLE;
    }
    0
}

pub(crate) unsafe fn query_thread(call: &str, provided: *mut c_int) {
    world(call);
    unsafe { *provided = THREAD_MULTIPLE };
}

pub(crate) unsafe fn query_initialized(_call: &str, initialized: *mut c_int) {
    unsafe { *initialized = try_world().is_some().into() };
}

pub(crate) unsafe fn finalize(call: &str) {
    if try_world().is_none() {
        return;
    }
    unsafe { collective::barrier_all(call) };
    let Some(world) = World::end() else { return };
    let World { shared, heap_memory, statics, _task: task, .. } = *world;
    let closed = shared.with(|context| {
        heap_memory.close(context)?;
        statics.into_iter().try_for_each(|statics| statics.memory.close(context))
    });
    drop((shared, task));
    if let Err(error) = closed {
        fail_by(call, &error);
    }
}

/// A program that ends without `shmem_finalize`: as if it had called it (OpenSHMEM 1.6, section 9.1.4), unless it ends with an error.
extern "C" fn at_exit(status: c_int, _argument: *mut c_void) {
    if status == 0 && !am_via_os::fork::is_copy() {
        unsafe { finalize("shmem_finalize") };
    }
}

pub(crate) unsafe fn global_exit(call: &str, status: c_int) {
    let world = world(call);
    if status != 0 {
        // The launcher ends a job whose task ends with an error.
        end_process(status);
    }
    for pe in (0..world.pes).filter(|&pe| pe != world.me) {
        match world.exit_word(pe) {
            Some(word) => word.store(1, Ordering::Release),
            None => {
                let word = world.heap_memory.address(TaskId(pe), crate::world::EXIT as u64, 8);
                let told = word.and_then(|word| {
                    world.shared.with(|context| context.put(word, &1_u64.to_ne_bytes(), Default::default()))
                });
                told.unwrap_or_else(|error: Error| fail_by(call, &error));
            }
        }
        crate::world::ring(pe);
    }
    crate::progress::complete(call);
    leave(0)
}

pub(crate) unsafe fn my_pe(call: &str) -> c_int {
    world(call).me as c_int
}

pub(crate) unsafe fn n_pes(call: &str) -> c_int {
    world(call).pes as c_int
}

pub(crate) unsafe fn pe_accessible(call: &str, pe: c_int) -> c_int {
    let pes = world(call).pes;
    u32::try_from(pe).is_ok_and(|pe| pe < pes).into()
}

pub(crate) unsafe fn addr_accessible(call: &str, addr: *const c_void, pe: c_int) -> c_int {
    let world = world(call);
    let pe = u32::try_from(pe).ok().filter(|&pe| pe < world.pes);
    pe.is_some_and(|pe| world.find(addr.addr(), 1, pe).is_some()).into()
}

pub(crate) unsafe fn ptr(call: &str, dest: *const c_void, pe: c_int) -> *mut c_void {
    match world(call).find(dest.addr(), 1, check_pe(call, pe)) {
        Some(Place::Mapped(target)) => target.at.cast(),
        _ => std::ptr::null_mut(),
    }
}

pub(crate) unsafe fn team_ptr(call: &str, team: Team, dest: *const c_void, pe: c_int) -> *mut c_void {
    if team == Team::INVALID {
        return std::ptr::null_mut();
    }
    let list = &team::members(call, team).list;
    match usize::try_from(pe).ok().and_then(|at| list.get(at)) {
        Some(&pe) => unsafe { ptr(call, dest, pe as c_int) },
        None => {
            fail(call, format_args!("there is no PE {pe} in the team, which has PEs 0 to {}", list.len() - 1))
        }
    }
}

pub(crate) unsafe fn info_get_version(_call: &str, major: *mut c_int, minor: *mut c_int) {
    unsafe { (*major, *minor) = VERSION };
}

pub(crate) unsafe fn info_get_name(_call: &str, name: *mut c_char) {
    const { assert!(NAME.len() < NAME_BYTES) };
    // SAFETY: the program's array has SHMEM_MAX_NAME_LEN bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(NAME.as_ptr(), name.cast(), NAME.len());
        *name.add(NAME.len()) = 0;
    }
}

/// The calls for caches of machines that are gone.
pub(crate) unsafe fn nothing(_call: &str) {}

pub(crate) unsafe fn nothing_at(_call: &str, _dest: *mut c_void) {}
