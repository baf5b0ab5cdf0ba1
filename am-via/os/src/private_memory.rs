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

/// Maximum number of ranges of one side that a call of the kernel takes (`IOV_MAX`).
const RANGES_MAX: usize = 1024;
/// Maximum bytes of a call for several pieces.
const BYTES_MAX: usize = 1 << 30;
/// Longest gap between two pieces that is read with them: finding another range takes the kernel longer than copying this.
const GAP_BYTES_MAX: u64 = 2048;
/// Pieces of at least this size are read to where they belong; shorter ones together, and then copied there.
const DIRECT_BYTES_MIN: usize = 1024;
/// Size of the buffer in which short pieces and the gaps between them arrive.
const TOGETHER_BYTES_MAX: usize = 32 << 10;

/// Ranges of both sides for one call of the kernel, which copies them as one stream.
#[derive(Default)]
struct Ranges {
    mine: Vec<libc::iovec>,
    theirs: Vec<libc::iovec>,
    bytes: usize,
}

impl Ranges {
    /// Whether another piece may not fit.
    fn are_full(&self, more: usize) -> bool {
        self.mine.len() == RANGES_MAX || self.theirs.len() == RANGES_MAX || self.bytes + more > BYTES_MAX
    }

    fn add(&mut self, mine: *mut u8, theirs: u64, bytes: usize) {
        let theirs = std::ptr::without_provenance_mut(usize::try_from(theirs).unwrap_or(usize::MAX));
        for (ranges, base) in [(&mut self.mine, mine), (&mut self.theirs, theirs)] {
            match ranges.last_mut() {
                Some(last) if last.iov_base.wrapping_byte_add(last.iov_len) == base.cast() => {
                    last.iov_len += bytes
                }
                _ => ranges.push(libc::iovec { iov_base: base.cast(), iov_len: bytes }),
            }
        }
        self.bytes += bytes;
    }

    /// Copies with one call of the kernel, which must copy all bytes, and removes the ranges.
    fn copy(&mut self, call: impl FnOnce(&[libc::iovec], &[libc::iovec]) -> isize) -> io::Result<()> {
        if self.bytes == 0 {
            return Ok(());
        }
        let copied = call(&self.mine, &self.theirs);
        let all = std::mem::take(&mut self.bytes);
        self.mine.clear();
        self.theirs.clear();
        match usize::try_from(copied) {
            Ok(copied) if copied == all => Ok(()),
            Ok(_) => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }
}

/// Copies pieces of this process to process `pid`: for each, its address there, its address here, and its length (at most
/// 1 GiB). One call of the kernel copies up to 1024 of them.
///
/// # Safety
/// All pieces must be readable memory that is not written during the call. The owner of the remote ranges must have granted them for
/// writing.
///
/// # Errors
/// Those of [`read`]; some pieces may have been copied.
pub unsafe fn write_pieces(
    pid: i32,
    pieces: impl Iterator<Item = (u64, *const u8, usize)>,
) -> io::Result<()> {
    // SAFETY: the kernel reads the ranges `mine`, which are readable (the caller's contract); it checks the remote ranges, whose owner has
    // granted them.
    let write = |mine: &[libc::iovec], theirs: &[libc::iovec]| unsafe {
        libc::process_vm_writev(
            pid,
            mine.as_ptr(),
            mine.len() as libc::c_ulong,
            theirs.as_ptr(),
            theirs.len() as libc::c_ulong,
            0,
        )
    };
    let mut ranges = Ranges::default();
    for (to, from, bytes) in pieces {
        if ranges.are_full(bytes) {
            ranges.copy(write)?;
        }
        ranges.add(from.cast_mut(), to, bytes);
    }
    ranges.copy(write)
}

/// Copies pieces of process `pid` to this process: for each, its address there, its address here, and its length (at most 1 GiB). Short
/// pieces that follow each other closely are read together with the gaps between them.
///
/// # Safety
/// All pieces must be writable memory that no other code accesses during the call.
///
/// # Errors
/// Those of [`read`]; also `EFAULT` for a gap that is not mapped there. Some pieces may have been copied.
pub unsafe fn read_pieces(pid: i32, pieces: impl Iterator<Item = (u64, *mut u8, usize)>) -> io::Result<()> {
    let mut together = Vec::<u8>::with_capacity(TOGETHER_BYTES_MAX);
    let buffer = together.as_mut_ptr();
    let (mut ranges, mut parts, mut used) = (Ranges::default(), Vec::new(), 0);
    // The end of the pieces that were added last, in the other process, while another one may be read together with them.
    let mut end = None;
    let read = |ranges: &mut Ranges, parts: &mut Vec<(usize, *mut u8, usize)>| {
        // SAFETY: the kernel writes to the ranges `mine`: parts of the buffer, and pieces, which are writable (the caller's contract). It
        // checks the remote ranges.
        ranges.copy(|mine, theirs| unsafe {
            libc::process_vm_readv(
                pid,
                mine.as_ptr(),
                mine.len() as libc::c_ulong,
                theirs.as_ptr(),
                theirs.len() as libc::c_ulong,
                0,
            )
        })?;
        for (at, to, bytes) in parts.drain(..) {
            // SAFETY: the bytes lie inside the buffer (`used` below), and the kernel has written them; the piece is writable, nothing else
            // accesses it (the caller's contract), and it is not the buffer, which only this call knows.
            unsafe { std::ptr::copy_nonoverlapping(buffer.add(at).cast_const(), to, bytes) };
        }
        Ok::<_, io::Error>(())
    };
    for (from, to, bytes) in pieces {
        let is_short = bytes < DIRECT_BYTES_MIN;
        let gap = end.and_then(|end| from.checked_sub(end)).filter(|&gap| is_short && gap <= GAP_BYTES_MAX);
        let mut gap = gap.and_then(|gap| usize::try_from(gap).ok()).unwrap_or(0);
        if ranges.are_full(gap + bytes) || is_short && used + gap + bytes > TOGETHER_BYTES_MAX {
            read(&mut ranges, &mut parts)?;
            (used, gap) = (0, 0);
        }
        if is_short {
            ranges.add(buffer.wrapping_add(used), from - gap as u64, gap + bytes);
            parts.push((used + gap, to, bytes));
            used += gap + bytes;
        } else {
            ranges.add(to, from, bytes);
        }
        end = is_short.then(|| from.wrapping_add(bytes as u64));
    }
    read(&mut ranges, &mut parts)
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

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    const BYTES: usize = 400_000;

    /// Pieces of `there` without overlaps, in this order, each with the place of its bytes here.
    fn pieces(len: usize, gap: usize, is_reversed: bool) -> Vec<(usize, usize, usize)> {
        let mut pieces: Vec<_> =
            (0..BYTES / (len + gap)).map(|at| (at * (len + gap), at * len, len)).collect();
        if is_reversed {
            pieces.reverse();
        }
        pieces
    }

    #[test]
    fn pieces_are_copied_like_one_by_one() {
        let pid = std::process::id().cast_signed();
        let there: Vec<u8> = (0..=250u8).cycle().take(BYTES).collect();
        let base = there.as_ptr().addr() as u64;
        for (len, gap) in
            [(4, 0), (4, 4), (1, 2000), (4, 3000), (1023, 1), (1024, 1), (5000, 100), (90_000, 9)]
        {
            for is_reversed in [false, true] {
                let pieces = pieces(len, gap, is_reversed);
                let bytes = pieces.len() * len;
                let mut here = vec![0u8; bytes];
                let at = here.as_mut_ptr();
                let to = |&(there, here, len): &(usize, usize, usize)| {
                    (base + there as u64, at.wrapping_add(here), len)
                };
                // SAFETY: the pieces lie inside `here`, which nothing else accesses meanwhile.
                unsafe { read_pieces(pid, pieces.iter().map(to)) }.expect("a process may copy from itself");
                for &(from, to, len) in &pieces {
                    assert_eq!(here[to..to + len], there[from..from + len], "{len} bytes, gaps of {gap}");
                }
                let mut back = vec![9u8; BYTES];
                let (back_at, from) = (back.as_mut_ptr().expose_provenance() as u64, here.as_ptr());
                let of = |&(there, here, len): &(usize, usize, usize)| {
                    (back_at + there as u64, from.wrapping_add(here), len)
                };
                // SAFETY: the pieces lie inside `here`, which is not written; their destinations lie inside `back`.
                unsafe { write_pieces(pid, pieces.iter().map(of)) }.expect("a process may copy to itself");
                let mut wanted = vec![9u8; BYTES];
                for &(to, _, len) in &pieces {
                    wanted[to..to + len].copy_from_slice(&there[to..to + len]);
                }
                assert!(back == wanted, "{len} bytes, gaps of {gap}");
            }
        }
    }

    #[test]
    fn a_piece_that_is_not_mapped_is_an_error() {
        let pid = std::process::id().cast_signed();
        let mut here = [0u8; 16];
        let at = here.as_mut_ptr();
        let there = [7u8; 8].as_slice();
        let there = there.as_ptr().addr() as u64;
        // SAFETY: the pieces lie inside `here`, which nothing else accesses meanwhile.
        let read = unsafe { read_pieces(pid, [(there, at, 8), (8, at.wrapping_add(8), 8)].into_iter()) };
        assert!(read.is_err());
        // SAFETY: the pieces lie inside `here`, which is not written; the destinations are not memory.
        let written =
            unsafe { write_pieces(pid, [(8, at.cast_const(), 8), (16, at.cast_const(), 8)].into_iter()) };
        assert!(written.is_err());
    }
}
