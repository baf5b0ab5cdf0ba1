//! Job memory for the program's own blocks: those of `MPI_Alloc_mem`, and with `mpiexec --shared-malloc` all large blocks of `malloc`. With
//! this option, `libmpi_malloc.so` (the package `malloc` beside this one) is preloaded, and takes the large blocks from here.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use mpi_over_am::JobAllocator;

static BLOCKS: JobAllocator = JobAllocator::new();

/// Blocks of job memory from `MPI_Alloc_mem`: address and length.
static ALLOCATED: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

type Take = extern "C" fn(len: usize, is_zero: &mut bool) -> *mut u8;
type GiveBack = extern "C" fn(at: *mut u8, len: usize);
/// `mpi_malloc_serve` of `libmpi_malloc.so`.
type Serve =
    unsafe extern "C" fn(from: usize, bytes: usize, take: Option<Take>, give_back: GiveBack) -> c_int;

/// MPI has started: a preloaded `malloc` gets large blocks from job memory from now on.
pub(crate) fn begin() {
    serve(Some(take));
}

/// MPI ends: new blocks come from the system again. Existing blocks stay.
pub(crate) fn end() {
    serve(None);
}

fn serve(take: Option<Take>) {
    let Some(serve) = preloaded() else { return };
    // Called only if needed: once this process has asked for the addresses, a fork copies the memory in use.
    let Some(addresses) = BLOCKS.addresses() else { return };
    stay_loaded();
    // SAFETY: the memory stays mapped (`JobAllocator::addresses`), and this library, which has the functions, stays loaded.
    unsafe { serve(addresses.start, addresses.len(), take, give_back) };
}

fn preloaded() -> Option<Serve> {
    // SAFETY: the name is NUL-terminated.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"mpi_malloc_serve".as_ptr()) };
    // SAFETY: only `libmpi_malloc.so` exports this name, for a function of this type.
    (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, Serve>(found) })
}

/// Keeps this library loaded even if its user closes it: blocks may be freed later.
fn stay_loaded() {
    let mut found = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // SAFETY: the address is one of this library, `found` lives during both calls, and the loader stores a C string as its name.
    unsafe {
        if libc::dladdr((&raw const BLOCKS).cast(), &raw mut found) != 0 && !found.dli_fname.is_null() {
            let _kept =
                libc::dlopen(found.dli_fname, libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE);
        }
    }
}

/// Takes a block for C, at the start of a page, and sets `is_zero` to whether the block reads as zero. Null if there is no block.
extern "C" fn take(len: usize, is_zero: &mut bool) -> *mut u8 {
    BLOCKS.take_block(len).map_or(ptr::null_mut(), |block| {
        *is_zero = block.is_zero;
        block.at.as_ptr()
    })
}

/// Frees a block of [`take`].
extern "C" fn give_back(at: *mut u8, len: usize) {
    // SAFETY: the library that took the block gives the block back, once.
    let _known = unsafe { BLOCKS.give_back_block(at, len) };
}

/// Memory for `MPI_Alloc_mem`, aligned for any type: job memory if available, because windows on it need no progress of their target. Null
/// if there is no memory.
pub(crate) fn allocate(size: usize) -> *mut c_void {
    let Some(block) = BLOCKS.take_block(size) else {
        // SAFETY: `memalign` takes any size; 64 is a power of two.
        return unsafe { libc::memalign(64, size.max(1)) };
    };
    let at = block.at.as_ptr();
    ALLOCATED.lock().unwrap_or_else(PoisonError::into_inner).insert(at.addr(), size);
    at.cast()
}

/// Frees memory of [`allocate`]; null is ignored.
pub(crate) fn free(at: *mut c_void) {
    let len = ALLOCATED.lock().unwrap_or_else(PoisonError::into_inner).remove(&at.addr());
    match len {
        Some(len) => give_back(at.cast(), len),
        // SAFETY: memory of `allocate`, by the program's promise; free takes null too.
        None => unsafe { libc::free(at) },
    }
}
