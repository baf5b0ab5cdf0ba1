//! The scheduler: the processors that this task may use, and yielding the processor.

use std::io;

/// Yields the processor to another runnable thread.
pub fn yield_now() {
    std::thread::yield_now();
}

/// How many times this thread has lost its processor to another thread so far: it was preempted, or it yielded.
#[must_use]
pub fn involuntary_switches() -> u64 {
    // SAFETY: rusage is plain numbers, for which all zeroes are a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: getrusage writes a rusage to `usage`, a live local of that type.
    let status = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    if status == 0 { u64::try_from(usage.ru_nivcsw).unwrap_or(0) } else { 0 }
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

/// The processor on which this thread runs, which may be another one when this call returns; `None` if the system does not tell.
#[must_use]
pub fn current_cpu() -> Option<usize> {
    // SAFETY: sched_getcpu takes no arguments.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Moves this thread to one of the processors that it may run on. The scheduler may move it again afterwards.
///
/// # Errors
/// The thread may not run on this processor.
pub fn move_to(cpu: usize) -> io::Result<()> {
    let allowed = cpu_set_of(0)?;
    if !contains(&allowed, cpu) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    restrict_to(&cpu_set(&[cpu]))?;
    restrict_to(&allowed)
}

/// The set of these processors.
pub(crate) fn cpu_set(cpus: &[usize]) -> libc::cpu_set_t {
    // SAFETY: cpu_set_t is plain bits, for which all zeroes are a valid value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in cpus.iter().filter(|&&cpu| cpu < cpus_max()) {
        // SAFETY: `cpu` is below CPU_SETSIZE, so the bit lies inside `set`.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    set
}

/// Restricts this thread to these processors. Allocates nothing, so that a forked copy may call it.
///
/// # Errors
/// The thread may run on none of them.
pub(crate) fn restrict_to(set: &libc::cpu_set_t) -> io::Result<()> {
    // SAFETY: sched_setaffinity reads the set that it is given, which is live here.
    let status = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const *set) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn cpus_of_thread(thread: libc::pid_t) -> io::Result<Vec<usize>> {
    let set = cpu_set_of(thread)?;
    Ok((0..cpus_max()).filter(|&cpu| contains(&set, cpu)).collect())
}

fn cpu_set_of(thread: libc::pid_t) -> io::Result<libc::cpu_set_t> {
    // SAFETY: cpu_set_t is plain bits, for which all zeroes are a valid value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most the given size into `set`, a live local of that size.
    let status = unsafe { libc::sched_getaffinity(thread, size_of::<libc::cpu_set_t>(), &raw mut set) };
    if status == 0 { Ok(set) } else { Err(io::Error::last_os_error()) }
}

fn contains(set: &libc::cpu_set_t, cpu: usize) -> bool {
    // SAFETY: `cpu` is below CPU_SETSIZE, so CPU_ISSET reads inside `set`.
    cpu < cpus_max() && unsafe { libc::CPU_ISSET(cpu, set) }
}

/// Maximum number of processors in a set.
fn cpus_max() -> usize {
    usize::try_from(libc::CPU_SETSIZE).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_moves_to_each_of_its_processors_and_keeps_all() {
        let allowed = allowed_cpus();
        for &cpu in &allowed {
            move_to(cpu).unwrap();
            assert_eq!(allowed_cpus(), allowed);
        }
        assert!(allowed.contains(&current_cpu().unwrap()));
        assert!(move_to(cpus_max()).is_err());
    }
}
