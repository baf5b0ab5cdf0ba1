//! `libmpi_malloc.so`: the memory functions of C, for programs that `mpiexec --shared-malloc` starts with this library preloaded.
//!
//! Between `MPI_Init` and `MPI_Finalize` blocks of at least 64 KiB come from job memory, where the other tasks reach them by a plain copy;
//! the MPI library provides them ([`mpi_malloc_serve`]). All other blocks come from the C library. The address of a block shows its source,
//! to which the block is always returned. In a forked copy of the process new blocks come from the C library, and existing ones are private
//! to the copy.
//!
//! No function here allocates memory for itself, takes a lock, or uses thread-local state except `errno`. A program that has its own
//! `malloc` continues to use it.

#![cfg(target_env = "gnu")]
#![expect(unsafe_code, reason = "called from C, and replaces C's own functions")]

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

// SAFETY: the C library's own functions, under the names that the C library exports for replacements like this one, with the types of C's
// functions.
unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(at: *mut c_void, size: usize) -> *mut c_void;
    fn __libc_memalign(alignment: usize, size: usize) -> *mut c_void;
    fn __libc_free(at: *mut c_void);
}

/// Minimum size of blocks that are taken from job memory.
const LARGE_BYTES: usize = 64 << 10;

/// Bytes before each block of job memory: its [`Header`], and padding that aligns the block to a cache line.
const FRONT_BYTES: usize = 64;

const PAGE_BYTES: usize = 4096;

/// Allocates a block of `len` bytes at the start of a page, or returns null. Sets `is_zero` to whether the block reads as zero.
type Take = extern "C" fn(len: usize, is_zero: &mut bool) -> *mut u8;

/// Frees a block that a [`Take`] has allocated with this length.
type GiveBack = extern "C" fn(at: *mut u8, len: usize);

/// Start address of job memory: 0 at first, constant from `MPI_Init` until the process ends.
static FROM: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);
/// A [`Take`] while blocks can be taken, or 0.
static TAKE: AtomicUsize = AtomicUsize::new(0);
/// A [`GiveBack`], set before the first block is taken.
static GIVE_BACK: AtomicUsize = AtomicUsize::new(0);
/// The C library's `malloc_usable_size`; 0 until it is looked up.
static USABLE_SIZE: AtomicUsize = AtomicUsize::new(0);

/// Stored immediately before a block of job memory.
#[repr(C)]
struct Header {
    /// Start and length of the range that was taken.
    taken: *mut u8,
    taken_bytes: usize,
}

/// From this call on, `malloc` gets large blocks by `take`, in the `bytes` bytes of job memory at `from`, and `free` returns them by
/// `give_back`. If `take` is `None`, `malloc` gets no more blocks there; those that it has got are still returned by `give_back`. Only the
/// MPI library calls this, when MPI starts and ends.
///
/// Returns 1 if the program's calls reach this library. Otherwise returns 0 and changes nothing: the program, or a library preloaded
/// earlier, has its own `malloc`.
///
/// # Safety
/// The `bytes` bytes at `from` must stay mapped, and both functions must stay callable, until the process ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_malloc_serve(
    from: usize,
    bytes: usize,
    take: Option<Take>,
    give_back: GiveBack,
) -> c_int {
    // SAFETY: only the addresses are compared; nothing is called.
    let is_ours = unsafe {
        is_in_use(c"malloc", malloc as *const c_void)
            && is_in_use(c"free", free as *const c_void)
            && is_in_use(c"realloc", realloc as *const c_void)
    };
    if !is_ours {
        return 0;
    }
    usable_size_function();
    GIVE_BACK.store(give_back as usize, Ordering::Relaxed);
    FROM.store(from, Ordering::Relaxed);
    BYTES.store(bytes, Ordering::Relaxed);
    // Release: pairs with the Acquire in `large`, so that a thread that gets a block also sees `FROM`, `BYTES` and `GIVE_BACK`.
    TAKE.store(take.map_or(0, |take| take as usize), Ordering::Release);
    1
}

/// Whether the program's calls of `name` reach this library.
///
/// # Safety
/// No condition: `dlsym` reads only the name.
unsafe fn is_in_use(name: &CStr, own: *const c_void) -> bool {
    // SAFETY: the name is NUL-terminated.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }.cast_const() == own
}

/// Whether a block is job memory. Relaxed: the program orders the use of a block after its allocation, also between threads.
#[inline(always)]
fn is_large(at: *mut c_void) -> bool {
    at.addr().wrapping_sub(FROM.load(Ordering::Relaxed)) < BYTES.load(Ordering::Relaxed)
}

/// Takes a block of job memory. Returns the block, and whether it reads as zero; `None` if no block is available.
#[cold]
#[inline(never)]
fn large(alignment: usize, size: usize) -> Option<(*mut c_void, bool)> {
    // Acquire: pairs with the Release in `mpi_malloc_serve`.
    let take = TAKE.load(Ordering::Acquire);
    if take == 0 {
        return None;
    }
    // SAFETY: a value other than 0 is a `Take` (`mpi_malloc_serve`).
    let take: Take = unsafe { std::mem::transmute::<usize, Take>(take) };
    let front = alignment.max(FRONT_BYTES);
    // For an alignment beyond a page, the range must be larger to contain an aligned address.
    let more = if front > PAGE_BYTES { front } else { 0 };
    let taken_bytes = size.checked_add(front)?.checked_add(more)?;
    let mut is_zero = false;
    let taken = take(taken_bytes, &mut is_zero);
    if taken.is_null() {
        return None;
    }
    let skipped = (taken.addr() + FRONT_BYTES).next_multiple_of(front) - taken.addr();
    // SAFETY: `skipped` is at least `FRONT_BYTES` and at most `front + more`, so the block and its header lie inside the range that was
    // just taken. Header and block start at multiples of 64, and a header is shorter than that.
    unsafe {
        let at = taken.add(skipped);
        at.sub(FRONT_BYTES).cast::<Header>().write(Header { taken, taken_bytes });
        Some((at.cast(), is_zero))
    }
}

/// The header of a block of job memory.
///
/// # Safety
/// `at` must be a block that [`large`] made and that was not freed.
unsafe fn header(at: *mut c_void) -> Header {
    // SAFETY: `large` has written the header there.
    unsafe { at.cast::<u8>().sub(FRONT_BYTES).cast::<Header>().read() }
}

/// Usable size in bytes of a block of job memory.
///
/// # Safety
/// Those of [`header`].
unsafe fn capacity(at: *mut c_void) -> usize {
    // SAFETY: the caller promises what `header` requires.
    let Header { taken, taken_bytes } = unsafe { header(at) };
    taken.addr() + taken_bytes - at.addr()
}

/// # Safety
/// Those of [`header`]; the block must no longer be used.
#[cold]
#[inline(never)]
unsafe fn free_large(at: *mut c_void) {
    // SAFETY: the caller promises what `header` requires.
    let Header { taken, taken_bytes } = unsafe { header(at) };
    // SAFETY: a block exists, so `mpi_malloc_serve` has stored a `GiveBack`. errno is this thread's, and is restored at the end.
    unsafe {
        let give_back = std::mem::transmute::<usize, GiveBack>(GIVE_BACK.load(Ordering::Relaxed));
        let errno = libc::__errno_location();
        let before = *errno;
        give_back(taken, taken_bytes);
        *errno = before;
    }
}

/// C's `malloc`.
///
/// # Safety
/// The conditions of C's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    if size >= LARGE_BYTES
        && let Some((at, _)) = large(1, size)
    {
        return at;
    }
    // SAFETY: this function requires of its caller what the C function requires.
    unsafe { __libc_malloc(size) }
}

/// C's `calloc`.
///
/// # Safety
/// The conditions of C's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    if let Some(bytes) = count.checked_mul(size)
        && bytes >= LARGE_BYTES
        && let Some((at, is_zero)) = large(1, bytes)
    {
        if !is_zero {
            // SAFETY: `large` has returned at least this number of bytes.
            unsafe { at.cast::<u8>().write_bytes(0, bytes) };
        }
        return at;
    }
    // SAFETY: this function requires of its caller what the C function requires.
    unsafe { __libc_calloc(count, size) }
}

/// C's `free`.
///
/// # Safety
/// The conditions of C's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(at: *mut c_void) {
    if is_large(at) {
        // SAFETY: C's function requires a live block, and all live blocks in job memory were made by `large`.
        unsafe { free_large(at) }
    } else {
        // SAFETY: this function requires of its caller what the C function requires, and the block is the C library's.
        unsafe { __libc_free(at) }
    }
}

/// C's `realloc`.
///
/// # Safety
/// The conditions of C's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(at: *mut c_void, size: usize) -> *mut c_void {
    if is_large(at) {
        // SAFETY: C's function requires a live block, and all live blocks in job memory were made by `large`.
        return unsafe { realloc_large(at, size) };
    }
    if size >= LARGE_BYTES
        && !at.is_null()
        && let Some((new, _)) = large(1, size)
    {
        // SAFETY: both blocks are live and contain the copied bytes; the old one is the C library's, and the caller no longer uses it.
        unsafe {
            ptr::copy_nonoverlapping(at.cast::<u8>(), new.cast::<u8>(), size.min(libc_usable_size(at)));
            __libc_free(at);
        }
        return new;
    }
    // SAFETY: this function requires of its caller what the C function requires. With a null pointer it is `malloc`.
    if at.is_null() { unsafe { malloc(size) } } else { unsafe { __libc_realloc(at, size) } }
}

/// # Safety
/// Those of `realloc`; the block must be job memory.
#[cold]
#[inline(never)]
unsafe fn realloc_large(at: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the block is live.
    let capacity = unsafe { capacity(at) };
    if size == 0 {
        // As in the C library, size 0 frees the block. SAFETY: the caller no longer uses the block.
        unsafe { free_large(at) };
        return ptr::null_mut();
    }
    if size >= LARGE_BYTES && size <= capacity && size >= capacity / 4 {
        return at;
    }
    // A block that grows is likely to grow again; unused pages need no memory.
    let more = if size > capacity { size / 2 } else { 0 };
    let larger =
        size.checked_add(more).filter(|&larger| larger >= LARGE_BYTES).and_then(|larger| large(1, larger));
    // SAFETY: this function requires of its caller what the C function requires.
    let new = larger.map_or_else(|| unsafe { malloc(size) }, |(new, _)| new);
    if !new.is_null() {
        // SAFETY: both blocks are live and contain the copied bytes; the caller no longer uses the old one.
        unsafe {
            ptr::copy_nonoverlapping(at.cast::<u8>(), new.cast::<u8>(), size.min(capacity));
            free_large(at);
        }
    }
    new
}

/// C's `reallocarray`.
///
/// # Safety
/// The conditions of C's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(at: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: this function requires of its caller what the C function requires.
        Some(bytes) => unsafe { realloc(at, bytes) },
        None => {
            // SAFETY: errno is this thread's.
            unsafe { *libc::__errno_location() = libc::ENOMEM };
            ptr::null_mut()
        }
    }
}

/// C's `aligned_alloc`.
///
/// # Safety
/// The conditions of C's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
    // SAFETY: this function requires of its caller what the C function requires.
    unsafe { memalign(alignment, size) }
}

/// C's `memalign`.
///
/// # Safety
/// The conditions of C's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(alignment: usize, size: usize) -> *mut c_void {
    if size >= LARGE_BYTES
        && alignment.is_power_of_two()
        && let Some((at, _)) = large(alignment, size)
    {
        return at;
    }
    // SAFETY: this function requires of its caller what the C function requires.
    unsafe { __libc_memalign(alignment, size) }
}

/// C's `posix_memalign`.
///
/// # Safety
/// The conditions of C's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(to: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
    if !alignment.is_power_of_two() || alignment < size_of::<usize>() {
        return libc::EINVAL;
    }
    // SAFETY: C's function requires that `to` is valid for a write; errno is this thread's. It is unchanged at the end, as POSIX requires.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let at = memalign(alignment, size);
        *errno = before;
        if at.is_null() {
            return libc::ENOMEM;
        }
        *to = at;
    }
    0
}

/// C's `valloc`.
///
/// # Safety
/// The conditions of C's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valloc(size: usize) -> *mut c_void {
    // SAFETY: this function requires of its caller what the C function requires.
    unsafe { memalign(PAGE_BYTES, size) }
}

/// C's `pvalloc`.
///
/// # Safety
/// The conditions of C's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvalloc(size: usize) -> *mut c_void {
    let whole = size.checked_next_multiple_of(PAGE_BYTES).unwrap_or(usize::MAX);
    // SAFETY: this function requires of its caller what the C function requires.
    unsafe { memalign(PAGE_BYTES, whole) }
}

/// C's `malloc_usable_size`.
///
/// # Safety
/// The conditions of C's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(at: *mut c_void) -> usize {
    if is_large(at) {
        // SAFETY: C's function requires a live block, and all live blocks in job memory were made by `large`.
        unsafe { capacity(at) }
    } else {
        // SAFETY: this function requires of its caller what the C function requires.
        unsafe { libc_usable_size(at) }
    }
}

/// The address of the C library's `malloc_usable_size`.
fn usable_size_function() -> usize {
    match USABLE_SIZE.load(Ordering::Relaxed) {
        0 => {
            // SAFETY: the name is NUL-terminated.
            let found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"malloc_usable_size".as_ptr()) }.addr();
            USABLE_SIZE.store(found, Ordering::Relaxed);
            found
        }
        known => known,
    }
}

/// # Safety
/// `at` must be a live block of the C library, or null.
unsafe fn libc_usable_size(at: *mut c_void) -> usize {
    let function = usable_size_function();
    // SAFETY: `function` is not null: every C library that exports the `__libc_*` functions above also has the older `malloc_usable_size`,
    // which has this type.
    unsafe { std::mem::transmute::<usize, unsafe extern "C" fn(*mut c_void) -> usize>(function)(at) }
}
