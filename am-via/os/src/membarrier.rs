//! A barrier on all running threads of the processes that asked for it (`membarrier(2)`, global expedited).
//!
//! It moves the full fence of a Dekker handshake from the side that runs often (a sender that checks whether its peer sleeps) to the side
//! that runs rarely (the one about to sleep).

use std::io;

const CMD_GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
const CMD_REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;

fn membarrier(command: libc::c_int) -> io::Result<()> {
    // SAFETY: membarrier takes no pointers: a command, flags (none) and a cpu id that is ignored without its flag.
    let status = unsafe { libc::syscall(libc::SYS_membarrier, command, 0u32, 0i32) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Registers this process as a target of barriers. Every task must call it once at its start.
///
/// # Errors
/// The system has no such barrier, or refuses it.
pub fn register() -> io::Result<()> {
    membarrier(CMD_REGISTER_GLOBAL_EXPEDITED)?;
    // Where a filter allows only some commands, a process that may register may still be refused the barrier: try it.
    membarrier(CMD_GLOBAL_EXPEDITED)
}

/// A full memory barrier on every running thread of every registered process. Call it only after [`register`] succeeded: if the system
/// refuses the barrier, the process ends, because peers' memory is not safe without it.
pub fn barrier() {
    // Loom models have no processors: each side runs a fence (`SleepBarrier`).
    if cfg!(not(loom)) && membarrier(CMD_GLOBAL_EXPEDITED).is_err() {
        refused();
    }
}

#[cold]
fn refused() -> ! {
    let words = "this task ends: the system refuses membarrier, which it granted when the task started (a seccomp filter that the \
                 program has installed?), and without it memory of the job is not safe. Set AM_MEMBARRIER=off\n";
    // SAFETY: write reads `words`, which are live. Not by std's handle, whose lock another thread may hold.
    unsafe { libc::write(libc::STDERR_FILENO, words.as_ptr().cast(), words.len()) };
    std::process::abort()
}

/// Makes the system refuse `membarrier` to the calling thread, and to those that it starts.
///
/// # Panics
/// The system has no seccomp.
#[cfg(any(test, feature = "testing"))]
pub fn refuse_to_this_thread() {
    let number = u32::try_from(libc::SYS_membarrier).expect("a system call's number");
    let step =
        |code: u32, jt, jf, k| libc::sock_filter { code: u16::try_from(code).expect("16 bits"), jt, jf, k };
    let mut filter = [
        // The number of the call is the first word of the data that a filter sees.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs()),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    // SAFETY: PR_SET_NO_NEW_PRIVS takes integers; PR_SET_SECCOMP reads a program of four steps, which is live here.
    let status = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
    };
    assert_eq!(status, 0, "this test needs seccomp: {}", io::Error::last_os_error());
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::fork::run_in_copy;
    use crate::process::Ended;

    #[test]
    fn a_barrier_that_is_refused_later_ends_the_process() {
        if register().is_err() {
            println!("this system has no membarrier at all");
            return;
        }
        let ended = run_in_copy(|| {
            let (first, ()) = (register(), refuse_to_this_thread());
            assert!(first.is_ok() && register().is_err());
            barrier();
            0
        });
        assert_eq!(ended.expect("fork"), Ended::Signalled(libc::SIGABRT));
    }
}
