//! A barrier on all running threads of the processes that asked for it (`membarrier(2)`, global expedited).
//!
//! It moves the full fence of a Dekker handshake from the side that runs often (a sender who looks whether anybody sleeps)
//! to the side that runs seldom (the one about to sleep).

const CMD_QUERY: libc::c_int = 0;
const CMD_GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
const CMD_REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;

fn membarrier(command: libc::c_int) -> libc::c_long {
    // SAFETY: membarrier takes no pointers: a command, flags (none) and a cpu id that is ignored without its flag.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0u32, 0i32) }
}

/// Registers this process as a target of barriers; whether the kernel offers them. Called once at start by every task.
#[must_use]
pub fn register() -> bool {
    let offered = membarrier(CMD_QUERY);
    offered > 0
        && offered & libc::c_long::from(CMD_GLOBAL_EXPEDITED) != 0
        && membarrier(CMD_REGISTER_GLOBAL_EXPEDITED) == 0
}

/// A full memory barrier on every running thread of every registered process. Only after [`register`] returned true.
pub fn barrier() {
    let status = membarrier(CMD_GLOBAL_EXPEDITED);
    debug_assert_eq!(status, 0, "the kernel offered this command at registration");
}
