//! The scheduler: the processors that this task may use, and yielding one.

use std::io;

/// Yields the processor to another runnable thread.
pub fn yield_now() {
    std::thread::yield_now();
}

/// The processors this thread may run on, in ascending order. Never empty on a working system.
#[must_use]
pub fn allowed_cpus() -> Vec<usize> {
    cpus_of_thread(0).unwrap_or_else(|_| vec![0])
}

/// The processors that the first thread of a process may run on, in ascending order.
///
/// # Errors
/// There is no such process.
pub fn allowed_cpus_of(pid: u32) -> io::Result<Vec<usize>> {
    match libc::pid_t::try_from(pid) {
        // 0 would be the calling thread.
        Ok(pid) if pid > 0 => cpus_of_thread(pid),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

fn cpus_of_thread(thread: libc::pid_t) -> io::Result<Vec<usize>> {
    // SAFETY: cpu_set_t is plain bits, for which all zeroes is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most the given size into `set`, a live local of that size.
    let status = unsafe { libc::sched_getaffinity(thread, size_of::<libc::cpu_set_t>(), &raw mut set) };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    let bits = usize::try_from(libc::CPU_SETSIZE).unwrap_or(1024);
    // SAFETY: CPU_ISSET reads inside `set` for indices below CPU_SETSIZE, which bounds the range.
    Ok((0..bits).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect())
}
