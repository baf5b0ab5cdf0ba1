//! The contents of a task's shared mappings in a child made by `fork`: a private copy, the contents of a file, or zeroes.
//!
//! A child that continues without `exec` has all mappings of its parent. If they stayed shared, the child's stores would appear as the
//! task's. So handlers that the C library runs at a fork replace every mapping that was registered here ([`note`]) with private memory, in
//! the child only. The private memory has the same addresses, because code that drops a mapping unmaps these addresses. `MADV_DONTFORK`
//! would leave gaps instead: the child's next mappings would land in them, and the child would crash without a message. `MADV_WIPEONFORK`
//! is for private memory.
//!
//! Only the C library's `fork` runs the handlers. Children made by `vfork` or `posix_spawn` do not need them, because they start a program
//! at once. After a bare `clone` of the address space, the mappings stay shared.

use std::cell::UnsafeCell;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::NonNull;
use std::sync::Once;

use crate::atomics::{AtomicBool, Ordering};

/// The replacement of a mapping in a child.
#[derive(Debug)]
pub enum Keeps {
    /// Zeroes.
    Nothing,
    /// The contents at the fork. For small mappings, because everything is copied.
    Contents,
    /// The contents of this file, from its start, shared with the parent until the child writes to the mapping. If programs keep objects in
    /// the mapping ([`hold_contents`]): the contents at the fork.
    File(File),
}

/// Whether this process was made by a fork, after [`install`].
#[inline]
#[must_use]
pub fn is_copy() -> bool {
    IS_COPY.load(Ordering::Relaxed)
}

/// A function that a child calls. The function must be safe under this condition alone: a fork has just made the process, and the calling
/// thread is the only one.
pub type Hook = unsafe fn();

/// Installs the handlers; a child calls `hook` last. The hook must do little: other threads of the parent may have held any lock.
///
/// # Safety
/// A call of `hook` must be sound where a fork has just made the process and the calling thread is the only one, until this process ends.
pub unsafe fn install(hook: Hook) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the three functions are never unloaded. A failure (no memory) leaves forks as they were.
        unsafe { libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) };
    });
    with_table(|table| {
        if !table.hooks.iter().any(|&known| std::ptr::fn_addr_eq(known, hook)) {
            table.hooks.push(hook);
        }
    });
}

/// From now on, a fork copies the contents of mappings that keep a file, and the parent waits meanwhile. For programs that keep objects in
/// such mappings.
pub fn hold_contents() {
    HOLDS_CONTENTS.store(true, Ordering::Relaxed);
}

/// Registers a new mapping of `len` bytes at `at`.
///
/// # Safety
/// The range must be one whole mapping, and its owner must call [`forget`] before unmapping it. The child's code must expect the contents
/// that `keeps` names: no reference to bytes that these replace may be used there. `keeps` must name a file at least as long as the mapping
/// that cannot become shorter, if it names one.
pub unsafe fn note(at: NonNull<u8>, len: usize, keeps: Keeps) {
    with_table(|table| {
        table.mappings.retain(|mapping| mapping.at != at);
        table.mappings.push(Noted { at, len, keeps });
    });
}

/// Removes the mapping at `at`, which is about to be unmapped, or stays shared with children.
///
/// # Safety
/// In the second case, its bytes may be accessed only in ways that allow other processes to write them.
pub unsafe fn forget(at: NonNull<u8>) {
    with_table(|table| table.mappings.retain(|mapping| mapping.at != at));
}

static IS_COPY: AtomicBool = AtomicBool::new(false);
static HOLDS_CONTENTS: AtomicBool = AtomicBool::new(false);
/// Held by [`exclude`].
static WORK: Lock = Lock::new();
static TABLE: Locked = Locked {
    lock: Lock::new(),
    table: UnsafeCell::new(Table { mappings: Vec::new(), hooks: Vec::new(), pipe: None }),
};

struct Noted {
    at: NonNull<u8>,
    len: usize,
    keeps: Keeps,
}

struct Table {
    mappings: Vec<Noted>,
    hooks: Vec<Hook>,
    /// During a fork that copies contents: the pipe to which the child writes when it has copied them.
    pipe: Option<(RawFd, RawFd)>,
}

/// A lock that is taken before a fork and released after it, in parent and child. The locks of std can't be used: their guards belong to a
/// scope.
struct Lock {
    is_locked: AtomicBool,
}

impl Lock {
    const fn new() -> Self {
        Self { is_locked: AtomicBool::new(false) }
    }

    fn lock(&self) {
        // Acquire: pairs with the Release in `unlock`.
        while self.is_locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            std::thread::yield_now();
        }
    }

    fn unlock(&self) {
        // Release: pairs with the Acquire in `lock`.
        self.is_locked.store(false, Ordering::Release);
    }

    /// Runs `body` under the lock.
    fn with<R>(&self, body: impl FnOnce() -> R) -> R {
        struct Unlock<'a>(&'a Lock);
        impl Drop for Unlock<'_> {
            fn drop(&mut self) {
                self.0.unlock();
            }
        }
        self.lock();
        let _unlock = Unlock(self);
        body()
    }
}

/// The table, with its lock.
struct Locked {
    lock: Lock,
    table: UnsafeCell<Table>,
}

// SAFETY: the table is accessed only under the lock (`with_table`, and the handlers, from `prepare` to the end of `in_parent` or
// `in_child`).
unsafe impl Sync for Locked {}

fn with_table<R>(look: impl FnOnce(&mut Table) -> R) -> R {
    // SAFETY: the lock is held until the last use.
    TABLE.lock.with(|| look(unsafe { &mut *TABLE.table.get() }))
}

/// Runs `work` while this process does not fork: after [`install`], a fork waits until `work` has ended. For a thread of a library that
/// takes locks: they would stay taken in a child. `work` must not fork.
pub fn exclude<R>(work: impl FnOnce() -> R) -> R {
    WORK.with(work)
}

extern "C" fn prepare() {
    // The locks are taken in the order of `exclude`, whose `work` may take the table's lock.
    WORK.lock();
    TABLE.lock.lock();
    // SAFETY: the lock was just taken; `in_parent` or `in_child` releases it.
    let table = unsafe { &mut *TABLE.table.get() };
    if HOLDS_CONTENTS.load(Ordering::Relaxed) {
        let mut ends = [0; 2];
        // SAFETY: pipe2 writes two numbers into the array, which is live here.
        let made = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } == 0;
        table.pipe = made.then_some((ends[0], ends[1]));
    }
}

extern "C" fn in_parent() {
    // SAFETY: the lock is held since `prepare`.
    let table = unsafe { &mut *TABLE.table.get() };
    if let Some((read, write)) = table.pipe.take() {
        let mut byte = 0u8;
        // SAFETY: plain system calls on two numbers that `prepare` got; `byte` is live. The read ends with the child's byte, or when the
        // child ends, since this process has closed its own writing end.
        unsafe {
            libc::close(write);
            while libc::read(read, (&raw mut byte).cast(), 1) < 0
                && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
            {}
            libc::close(read);
        }
    }
    TABLE.lock.unlock();
    WORK.unlock();
}

extern "C" fn in_child() {
    IS_COPY.store(true, Ordering::Relaxed);
    // SAFETY: the lock is held since `prepare`, by this thread, the only one.
    let table = unsafe { &mut *TABLE.table.get() };
    let holds = HOLDS_CONTENTS.load(Ordering::Relaxed);
    for mapping in table.mappings.drain(..) {
        // SAFETY: the range is mapped: its owner calls `forget` before it unmaps the range. No other thread runs.
        if unsafe { separate(&mapping, holds) }.is_err() {
            refuse();
        }
    }
    if let Some((read, write)) = table.pipe.take() {
        // SAFETY: plain system calls on two numbers from `prepare`; the byte is a constant.
        unsafe {
            libc::write(write, c"k".as_ptr().cast(), 1);
            libc::close(write);
            libc::close(read);
        }
    }
    for hook in &table.hooks {
        // SAFETY: a fork has just made this process, and this is its only thread, which is all that a hook may rely on (`install`).
        unsafe { hook() };
    }
    TABLE.lock.unlock();
    WORK.unlock();
}

/// Replaces a shared mapping with private memory.
///
/// # Safety
/// The range must be one whole mapping, and this the only thread.
unsafe fn separate(mapping: &Noted, holds: bool) -> io::Result<()> {
    let &Noted { at, len, ref keeps } = mapping;
    let place: *mut libc::c_void = at.as_ptr().cast();
    match keeps {
        Keeps::Nothing => {
            // SAFETY: the call replaces the mapping (this function's contract), into which no reference points.
            unsafe { map_private(place, len, libc::MAP_FIXED | libc::MAP_ANONYMOUS, -1) }.map(|_| ())
        }
        Keeps::Contents => {
            // SAFETY: the call makes a new mapping at an address that the system chooses.
            let copy = unsafe { map_private(std::ptr::null_mut(), len, libc::MAP_ANONYMOUS, -1) }?;
            // SAFETY: both ranges have `len` bytes, and they do not overlap; then the copy moves to the address of the mapping, whose bytes
            // are atomics or raw memory that no other code uses during the call.
            let moved = unsafe {
                std::ptr::copy_nonoverlapping(place.cast_const().cast::<u8>(), copy.cast::<u8>(), len);
                libc::mremap(copy, len, len, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, place)
            };
            if moved == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
        }
        Keeps::File(file) => {
            // SAFETY: as for `Nothing`. The file is at least as long as the mapping was, and cannot shrink.
            unsafe { map_private(place, len, libc::MAP_FIXED, file.as_raw_fd()) }?;
            if holds {
                // SAFETY: `len` bytes at `at` are mapped for reading and writing since the call before.
                unsafe { copy_pages(at, len, file.as_raw_fd()) };
            }
            Ok(())
        }
    }
}

/// # Safety
/// The conditions of `mmap`: with `MAP_FIXED` the caller must own the range that is replaced.
unsafe fn map_private(
    at: *mut libc::c_void,
    len: usize,
    flags: i32,
    fd: RawFd,
) -> io::Result<*mut libc::c_void> {
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_NORESERVE;
    // SAFETY: the caller's contract.
    let place = unsafe { libc::mmap(at, len, libc::PROT_READ | libc::PROT_WRITE, flags, fd, 0) };
    if place == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(place) }
}

/// Writes to each page of a private mapping that holds data in its file, so that the page is this process's own from now on.
///
/// # Safety
/// The `len` bytes at `at` must map the start of the file `fd`, privately, and this must be the only thread.
unsafe fn copy_pages(at: NonNull<u8>, len: usize, fd: RawFd) {
    let page = usize::try_from(super::memory::PAGE_BYTES).unwrap_or(4096);
    let mut from = 0;
    while from < len {
        // SAFETY: lseek takes integers.
        let (data, hole) = unsafe {
            let data = libc::lseek(fd, i64::try_from(from).unwrap_or(i64::MAX), libc::SEEK_DATA);
            if data < 0 {
                return;
            }
            (data, libc::lseek(fd, data, libc::SEEK_HOLE))
        };
        let (Ok(data), Ok(hole)) = (usize::try_from(data), usize::try_from(hole)) else { return };
        for offset in (data..hole.min(len)).step_by(page) {
            // SAFETY: `offset` is below `len`. Volatile, so that the write of the same byte is not removed.
            unsafe {
                let byte = at.as_ptr().add(offset);
                byte.write_volatile(byte.read_volatile());
            }
        }
        from = hole.max(from + page);
    }
}

/// Ends the child: there is no memory to replace the shared mappings, and the child's stores would damage the task.
fn refuse() -> ! {
    let words = c"a forked copy of a task ended: no address space to separate it from the job (RLIMIT_AS, overcommit)\n";
    let bytes = words.to_bytes();
    // SAFETY: write reads `bytes`, which are live; _exit takes an integer. Both may be called after a fork.
    unsafe {
        libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len());
        libc::_exit(71)
    }
}

/// A child made by [`split`].
#[cfg(any(test, feature = "testing"))]
#[derive(Debug)]
pub struct Child(libc::pid_t);

#[cfg(any(test, feature = "testing"))]
impl Child {
    /// Waits until the child ends, and returns how it ended.
    ///
    /// # Errors
    /// The system's error.
    pub fn wait(self) -> io::Result<super::process::Ended> {
        let mut status = 0;
        // SAFETY: waitpid writes a number into `status`, which is live here.
        while unsafe { libc::waitpid(self.0, &raw mut status, 0) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(match libc::WIFEXITED(status) {
            true => super::process::Ended::Exited(libc::WEXITSTATUS(status)),
            false => super::process::Ended::Signalled(libc::WTERMSIG(status)),
        })
    }
}

/// Forks. Returns `None` in the child, which runs on until it calls [`end`]. For tests of what a copy may do: the child has none of this
/// process's other threads, but still has the locks that they held.
///
/// # Errors
/// The system's error.
#[cfg(any(test, feature = "testing"))]
pub fn split() -> io::Result<Option<Child>> {
    // SAFETY: the child runs tests' code: it may hang on a lock that another thread held, and the caller has a watchdog; it frees nothing
    // of the parent's.
    match unsafe { libc::fork() } {
        ..0 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        child => Ok(Some(Child(child))),
    }
}

/// Ends a child of [`split`] with this code, without running the exit handlers of its parent.
#[cfg(any(test, feature = "testing"))]
pub fn end(code: i32) -> ! {
    // SAFETY: _exit takes an integer.
    unsafe { libc::_exit(code) }
}

/// Forks, runs `body` in the child, and ends the child with the code that `body` returns. Returns how the child ended.
///
/// # Errors
/// The system's error.
#[cfg(any(test, feature = "testing"))]
pub fn run_in_copy(body: impl FnOnce() -> i32) -> io::Result<super::process::Ended> {
    match split()? {
        None => end(std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(101)),
        Some(child) => child.wait(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;
    use crate::process::Ended;
    use crate::test_aids::guarded;

    /// A fork waits for the end of work that has taken a lock.
    #[test]
    fn a_copy_finds_the_locks_free_that_excluded_work_takes() {
        fn does_nothing() {}
        guarded(|| {
            let (lock, is_over) = (Mutex::new(()), AtomicBool::new(false));
            // SAFETY: the function does nothing.
            unsafe { install(does_nothing) };
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        exclude(|| {
                            let _held = lock.lock().expect("no thread panics with the lock");
                            std::thread::sleep(Duration::from_millis(2));
                        });
                        std::thread::sleep(Duration::from_micros(100));
                    }
                });
                for _ in 0..50 {
                    let ended = run_in_copy(|| i32::from(lock.try_lock().is_err()));
                    assert_eq!(ended.expect("a fork"), Ended::Exited(0));
                }
                is_over.store(true, Ordering::Relaxed);
            });
        });
    }
}
