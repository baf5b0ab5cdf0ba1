//! The scheduler: the processors that this task may use, and yielding one.

/// Yields the processor to another runnable thread.
pub fn yield_now() {
    std::thread::yield_now();
}

/// The processors this thread may run on, in ascending order. Never empty on a working system.
#[must_use]
pub fn allowed_cpus() -> Vec<usize> {
    // SAFETY: cpu_set_t is plain bits, for which all zeroes is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most the given size into `set`, a live local of that size.
    let status = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    if status != 0 {
        return vec![0];
    }
    let bits = usize::try_from(libc::CPU_SETSIZE).unwrap_or(1024);
    // SAFETY: CPU_ISSET reads inside `set` for indices below CPU_SETSIZE, which bounds the range.
    (0..bits).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}
