//! Signals that are read from a file instead of handled, and names of signals.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Pending signals, read from a file.
#[derive(Debug)]
pub struct SignalFd {
    fd: OwnedFd,
}

/// A signal that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The number of the signal.
    pub signal: i32,
    /// Whether the kernel sent the signal (for example to a terminal's foreground process group), and not another process.
    pub from_system: bool,
}

impl SignalFd {
    /// Blocks `signals` in this thread and in all threads that it starts from now on, and opens a file from which they are read. Signals
    /// that this process ignores (as `nohup` does with SIGHUP) stay ignored.
    ///
    /// # Errors
    /// The system's error.
    pub fn block(signals: &[i32]) -> io::Result<Self> {
        let signals: Vec<i32> = signals.iter().copied().filter(|&signal| !is_ignored(signal)).collect();
        let set = set_of(&signals);
        // SAFETY: pthread_sigmask reads the live local set; the old mask is not requested.
        let status = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
        if status != 0 {
            return Err(io::Error::from_raw_os_error(status));
        }
        // SAFETY: signalfd reads the live local set and returns a new descriptor or -1.
        let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just returned by the kernel as a new descriptor without another owner.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// The next pending signal; `None` if there is none.
    #[must_use]
    pub fn next(&self) -> Option<Received> {
        // SAFETY: signalfd_siginfo is plain data, for which all zeroes are a valid value.
        let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let bytes = size_of::<libc::signalfd_siginfo>();
        // SAFETY: read fills at most `bytes` bytes of the live local `info`.
        let count = unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut info).cast(), bytes) };
        if usize::try_from(count) != Ok(bytes) {
            return None;
        }
        let signal = i32::try_from(info.ssi_signo).ok()?;
        Some(Received { signal, from_system: info.ssi_code == libc::SI_KERNEL })
    }
}

/// Stops this process until another one continues it (SIGCONT).
pub fn stop() {
    // SAFETY: raise takes an integer.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Blocks all signals in this thread.
pub fn block_all() {
    // SAFETY: the set is plain bits, which sigfillset makes valid; pthread_sigmask reads it, and the old mask is not requested.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
}

pub(super) fn set_of(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: sigset_t is plain bits; sigemptyset makes it a valid empty set below.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: both get a live local set; sigaddset refuses numbers that are no signals.
    unsafe {
        libc::sigemptyset(&raw mut set);
        for &signal in signals {
            libc::sigaddset(&raw mut set, signal);
        }
    }
    set
}

fn is_ignored(signal: i32) -> bool {
    action_of(signal).is_some_and(|action| action.sa_sigaction == libc::SIG_IGN)
}

/// What this process does about a signal.
fn action_of(signal: i32) -> Option<libc::sigaction> {
    // SAFETY: sigaction is plain data, for which all zeroes are a valid value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action sigaction only fills the live local; it refuses numbers that are no signals.
    let status = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    (status == 0).then_some(action)
}

/// Makes the system keep how this process's children end until this process has asked. It does not if the process ignores SIGCHLD, which
/// every process inherits whose parent does (`trap '' CHLD` in a shell): a wait for a child then fails with ECHILD. A handler of the
/// program stays.
pub fn keep_ended_children() {
    let Some(mut action) = action_of(libc::SIGCHLD) else { return };
    if action.sa_sigaction == libc::SIG_IGN {
        action.sa_sigaction = libc::SIG_DFL;
    } else if action.sa_flags & libc::SA_NOCLDWAIT == 0 {
        return;
    }
    action.sa_flags &= !libc::SA_NOCLDWAIT;
    // SAFETY: sigaction reads the live local, which is what the system answered with another flag, or with the default action, which needs
    // nothing of this process; the old action is not requested.
    unsafe { libc::sigaction(libc::SIGCHLD, &raw const action, std::ptr::null_mut()) };
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The name of a signal, such as `SIGSEGV`; `signal 99` for a signal without a name.
#[must_use]
pub fn name(signal: i32) -> String {
    let name = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGSTKFLT => "SIGSTKFLT",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGVTALRM => "SIGVTALRM",
        libc::SIGPROF => "SIGPROF",
        libc::SIGIO => "SIGIO",
        libc::SIGPWR => "SIGPWR",
        libc::SIGSYS => "SIGSYS",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}
