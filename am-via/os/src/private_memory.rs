//! Copies between this process and another process's private memory, through the kernel (`process_vm_readv`/`writev`).
//!
//! The kernel's ptrace rules decide whether a copy is allowed; [`allow_descendants_of`] gives this side's consent. A refusal is an ordinary
//! outcome, after which the caller uses another method.

use std::io;

/// Allows process `pid` and its descendants to copy from and to this process (and to trace it), where the ptrace policy Yama is active.
/// Without this consent, Yama allows only a process's ancestors. A process can name one other process, and the last call replaces earlier
/// ones. So the narrowest consent that covers all tasks of a job names their launcher. The consent ends with the named process. If Yama is
/// not active, or there is no such process, the call has no effect.
pub fn allow_descendants_of(pid: u32) {
    // SAFETY: PR_SET_PTRACER takes an integer, no pointer.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::c_ulong::from(pid), 0, 0, 0) };
}

/// Copies `bytes` from `remote` in process `pid` to `local`.
///
/// # Safety
/// `local..local + bytes` must be writable memory that no other code accesses during the call.
///
/// # Errors
/// `EPERM` where the kernel refuses, `EFAULT` for a range that is not mapped there, `ESRCH` for a dead process.
pub unsafe fn read(pid: i32, remote: u64, local: *mut u8, bytes: usize) -> io::Result<()> {
    transfer(bytes, |done| {
        let (mine, theirs) = vectors(local, remote, bytes, done);
        // SAFETY: the kernel writes at most `mine.iov_len` bytes from `mine.iov_base` on, which lie inside `local..local + bytes`
        // (writable: the caller's contract); it checks the remote range, which is not trusted.
        unsafe { libc::process_vm_readv(pid, &raw const mine, 1, &raw const theirs, 1, 0) }
    })
}

/// Copies `bytes` from `local` to `remote` in process `pid`.
///
/// # Safety
/// `local..local + bytes` must be readable memory that is not written during the call. The owner of the remote range must have granted it
/// for writing.
///
/// # Errors
/// Those of [`read`].
pub unsafe fn write(pid: i32, remote: u64, local: *const u8, bytes: usize) -> io::Result<()> {
    transfer(bytes, |done| {
        let (mine, theirs) = vectors(local.cast_mut(), remote, bytes, done);
        // SAFETY: the kernel reads at most `mine.iov_len` bytes from `mine.iov_base` on, which lie inside `local..local + bytes` (readable:
        // the caller's contract); it checks the remote range, whose owner has granted it.
        unsafe { libc::process_vm_writev(pid, &raw const mine, 1, &raw const theirs, 1, 0) }
    })
}

/// Reads the eight bytes at `remote` in process `pid`, to find out whether the kernel allows copies at all.
///
/// # Errors
/// Those of [`read`].
pub fn read_word(pid: i32, remote: u64) -> io::Result<u64> {
    let mut word = 0u64;
    // SAFETY: `word` is a live local of eight bytes that no other code uses.
    unsafe { read(pid, remote, (&raw mut word).cast(), size_of::<u64>())? };
    Ok(word)
}

/// Whether a copy failed because the process no longer exists.
#[must_use]
pub fn is_of_an_ended_process(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH)
}

fn vectors(local: *mut u8, remote: u64, bytes: usize, done: usize) -> (libc::iovec, libc::iovec) {
    let mine = libc::iovec { iov_base: local.wrapping_add(done).cast(), iov_len: bytes - done };
    let theirs = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(
            usize::try_from(remote).unwrap_or(usize::MAX).wrapping_add(done),
        ),
        iov_len: bytes - done,
    };
    (mine, theirs)
}

/// Repeats `step` until all bytes are copied: the kernel moves at most about 2 GiB in one call, and may stop early.
fn transfer(bytes: usize, mut step: impl FnMut(usize) -> isize) -> io::Result<()> {
    let mut done = 0;
    while done < bytes {
        match usize::try_from(step(done)) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            Ok(moved) => done += moved,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}
