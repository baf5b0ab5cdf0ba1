//! Processes: handles that are never reused, exit statuses, and steps of a child between fork and exec.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use crate::sched::{cpu_set, restrict_to};
use crate::{poll, signal};

/// A handle of one process. Unlike a process number, a handle is never reused.
#[derive(Debug)]
pub struct PidFd {
    fd: OwnedFd,
    /// The number of the process, which another process may get once this one has been reaped.
    pid: libc::pid_t,
}

/// The kernel's `struct pidfd_info` (`linux/pidfd.h`) in its first form.
#[repr(C)]
#[derive(Debug, Default)]
struct ExitInfo {
    mask: u64,
    cgroup: u64,
    /// Process, thread group and parent, and the eight numbers of users and groups.
    numbers: [u32; 11],
    /// A wait status.
    exit_code: i32,
}

/// In `ExitInfo::mask`: the exit status is requested or, in the answer, known.
const EXIT_INFO: u64 = 1 << 3;
/// `PIDFD_GET_INFO`, which is `_IOWR(0xff, 11, struct pidfd_info)`.
const GET_EXIT_INFO: libc::Ioctl = 0xc000_ff0b | (size_of::<ExitInfo>() as libc::Ioctl) << 16;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The process exited with this code.
    Exited(i32),
    /// This signal killed the process.
    Signalled(i32),
}

impl PidFd {
    /// Opens the process that has the number `pid` now.
    ///
    /// # Errors
    /// The system's error: `ESRCH` if no process has this number.
    pub fn open(pid: u32) -> io::Result<Self> {
        let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
        // SAFETY: pidfd_open takes two integers.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let fd = i32::try_from(fd).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just returned by the kernel as a new descriptor without another owner.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) }, pid })
    }

    /// Sends the process a signal. Nothing happens if the process has ended.
    pub fn signal(&self, signal: i32) {
        let _ = self.try_signal(signal);
    }

    /// Sends the process a signal, or only checks with signal 0. Fails if the process has been reaped.
    fn try_signal(&self, signal: i32) -> io::Result<()> {
        // SAFETY: pidfd_send_signal takes an open descriptor, two integers and a null pointer for the default information.
        let status = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.fd.as_raw_fd(),
                signal,
                std::ptr::null::<libc::siginfo_t>(),
                0,
            )
        };
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Whether the process has ended (reaped or not).
    #[must_use]
    pub fn has_ended(&self) -> bool {
        poll::poll(&[self.fd.as_fd()], Some(Duration::ZERO)).is_ok_and(|ready| ready[0])
    }

    /// How this child ended; `None` while it runs. The child stays unreaped, so that its number is not given to another process.
    ///
    /// # Errors
    /// `ECHILD` if it is no child of this process.
    pub fn ended(&self) -> io::Result<Option<Ended>> {
        self.wait(libc::WNOWAIT)
    }

    /// How this process, which is not a child of the caller, has ended. `None` while it runs, and if the system does not report it: before
    /// Linux 6.15 it does not if the process's own parent has reaped the process.
    #[must_use]
    pub fn ended_elsewhere(&self) -> Option<Ended> {
        let status = self.status_unreaped().or_else(|| self.status_reaped())?;
        Some(match status & 0x7f {
            0 => Ended::Exited(status >> 8 & 0xff),
            signal => Ended::Signalled(signal),
        })
    }

    /// The wait status of a process that has ended and has not been reaped, from `/proc/PID/stat`. `None` if the status is 0, because the
    /// system also shows 0 to a caller that may not see the status.
    fn status_unreaped(&self) -> Option<i32> {
        // The main thread of a process may end before the process does.
        if !self.has_ended() {
            return None;
        }
        let line = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        // Fields 1 and 2 are the number and the name in brackets, which may contain anything; field 52 is the wait status.
        let (_, fields) = line.rsplit_once(')')?;
        let status = fields.split_ascii_whitespace().nth(52 - 3)?.parse().ok()?;
        // If the process is still unreaped, the line was about this process, and not about another one with its number.
        (status != 0 && self.is_unreaped()).then_some(status)
    }

    /// The wait status of a process that has been reaped (Linux 6.15 and later).
    fn status_reaped(&self) -> Option<i32> {
        let mut info = ExitInfo { mask: EXIT_INFO, ..ExitInfo::default() };
        // SAFETY: the request names the size of `ExitInfo`, a live local, which is all that the kernel writes.
        let status = unsafe { libc::ioctl(self.fd.as_raw_fd(), GET_EXIT_INFO, &raw mut info) };
        (status == 0 && info.mask & EXIT_INFO != 0).then_some(info.exit_code)
    }

    /// Whether the process runs, or has ended and has not been reaped by its parent.
    #[must_use]
    pub fn is_unreaped(&self) -> bool {
        // Other errors mean that the process is there, but may not be signalled.
        !self.try_signal(0).is_err_and(|error| error.raw_os_error() == Some(libc::ESRCH))
    }

    /// Reaps this child if it has ended. After that another process may get its number.
    pub fn reap(&self) {
        // An error means that the process is no longer a child of this one, so there is nothing to reap.
        let _ = self.wait(0);
    }

    fn wait(&self, flags: libc::c_int) -> io::Result<Option<Ended>> {
        let id = libc::id_t::try_from(self.fd.as_raw_fd())
            .map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
        // SAFETY: siginfo_t is plain data, for which all zeroes are a valid value.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: waitid fills the siginfo it is given, a live local.
        let status =
            unsafe { libc::waitid(libc::P_PIDFD, id, &raw mut info, libc::WEXITED | libc::WNOHANG | flags) };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: waitid fills pid and status of the SIGCHLD form, or leaves the zeroes if no child has ended.
        let (pid, value) = unsafe { (info.si_pid(), info.si_status()) };
        Ok((pid != 0).then_some(match info.si_code {
            libc::CLD_EXITED => Ended::Exited(value),
            _ => Ended::Signalled(value),
        }))
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Reaps the process with this number if it is a child that has ended.
pub fn reap(pid: u32) {
    if let Ok(pid) = libc::pid_t::try_from(pid) {
        // SAFETY: waitpid may get a null status pointer; the rest are integers.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) };
    }
}

/// Makes this process the parent of every descendant whose own parent ends (subreaper). Otherwise the system's first process would become
/// their parent.
///
/// # Errors
/// The system's error.
pub fn become_subreaper() -> io::Result<()> {
    // SAFETY: PR_SET_CHILD_SUBREAPER takes an integer.
    if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Becomes the program of `command`; returns only if that fails. std gives SIGPIPE its default action for the new program, and leaves it
/// so: a message about the failure would then end a process whose reader has left, instead of its exit code.
pub fn become_program(command: &mut Command) -> io::Error {
    let error = command.exec();
    // SAFETY: signal takes two integers; an ignored signal, as Rust's runtime has made this one, needs nothing of this process.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    error
}

/// Steps of a child between fork and exec.
#[derive(Clone, Debug, Default)]
pub struct BeforeExec {
    /// File descriptors of the parent that the program inherits.
    pub inherit: Vec<i32>,
    /// The processors that the child is bound to; empty: those of the starter.
    pub cpus: Vec<usize>,
    /// Whether the child is killed when the thread that starts it ends.
    pub dies_with_starter: bool,
    /// Signals that the starter blocks for itself. They are unblocked in the child, since the program must get them.
    pub unblock: Vec<i32>,
}

/// Runs `steps` in the child of `command` before its program begins.
pub fn before_exec(command: &mut Command, steps: BeforeExec) {
    let starter = std::process::id();
    let cpus = (!steps.cpus.is_empty()).then(|| cpu_set(&steps.cpus));
    let unblock = signal::set_of(&steps.unblock);
    let run = move || {
        if steps.dies_with_starter {
            // SAFETY: PR_SET_PDEATHSIG takes an integer; getppid takes nothing.
            let parent = unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
                libc::getppid()
            };
            if u32::try_from(parent) != Ok(starter) {
                // The starter ended before the death signal was set up.
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
        }
        for &fd in &steps.inherit {
            // SAFETY: F_SETFD takes integers.
            if unsafe { libc::fcntl(fd, libc::F_SETFD, 0) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        // SAFETY: pthread_sigmask reads the set that it is given, which is live here.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const unblock, std::ptr::null_mut()) };
        if let Some(set) = &cpus {
            // A task that cannot be bound runs unbound.
            let _ = restrict_to(set);
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe things may happen. `run` makes plain system calls, reads values that it owns,
    // allocates nothing, takes no lock and frees nothing (an io::Error made from a number holds no heap memory).
    unsafe { command.pre_exec(run) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, Stdio};

    #[test]
    fn a_child_that_ended_stays_until_it_is_reaped() {
        for (script, expected) in [("exit 7", Ended::Exited(7)), ("kill -9 $$", Ended::Signalled(9))] {
            #[expect(
                clippy::zombie_processes,
                reason = "staying unreaped is what is tested; `reap` below reaps"
            )]
            let child = Command::new("sh").args(["-c", script]).spawn().unwrap();
            let pidfd = PidFd::open(child.id()).unwrap();
            while pidfd.ended().unwrap().is_none() {
                poll::poll(&[pidfd.as_fd()], Some(Duration::from_secs(1))).unwrap();
            }
            assert!(pidfd.has_ended());
            assert_eq!(pidfd.ended().unwrap(), Some(expected));
            pidfd.reap();
            assert!(pidfd.ended().is_err(), "it is reaped");
            pidfd.signal(libc::SIGKILL);
        }
    }

    /// Runs a shell command that prints the number of a child. Returns the shell and a handle of its child.
    fn behind(wrapper: &str) -> (Child, PidFd) {
        let mut parent = Command::new("sh")
            .args(["-c", wrapper])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut number = String::new();
        BufReader::new(parent.stdout.take().unwrap()).read_line(&mut number).unwrap();
        (parent, PidFd::open(number.trim().parse().unwrap()).unwrap())
    }

    #[test]
    fn how_a_grandchild_ended_is_known_once_its_parent_has_reaped_it() {
        if !has_exit_info() {
            println!(
                "not tested: this kernel does not tell how a process ended that is not a child (6.15 and later do)"
            );
            return;
        }
        for (script, expected) in [("exit 7", Ended::Exited(7)), ("kill -9 $$", Ended::Signalled(9))] {
            // The wrapper prints its child's number and keeps running. The grandchild continues when it can read a line. The grandchild
            // reads from descriptor 3, because a shell gives a background command /dev/null as standard input, whatever `<&0` says (dash).
            let wrapper = format!("exec 3<&0; sh -c 'read go <&3; {script}' & echo $!; wait $!; read end");
            let (mut parent, pidfd) = behind(&wrapper);
            assert_eq!(pidfd.ended_elsewhere(), None);
            parent.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
            while pidfd.ended_elsewhere().is_none() {
                std::thread::yield_now();
            }
            assert_eq!(pidfd.ended_elsewhere(), Some(expected));
            drop(parent.stdin.take());
            parent.wait().unwrap();
        }
    }

    #[test]
    fn how_a_grandchild_ended_is_known_while_its_parent_has_not_reaped_it() {
        for (script, expected) in [("exit 7", Ended::Exited(7)), ("kill -9 $$", Ended::Signalled(9))] {
            // The parent turns into a program that never reaps its child.
            let wrapper = format!("exec 3<&0; sh -c 'read go <&3; {script}' & echo $!; exec sleep 1000");
            let (mut parent, pidfd) = behind(&wrapper);
            assert!(pidfd.ended_elsewhere().is_none() && pidfd.is_unreaped());
            // Until then the shell could reap its child.
            let name_of_parent = || std::fs::read_to_string(format!("/proc/{}/comm", parent.id())).unwrap();
            while name_of_parent() != "sleep\n" {
                std::thread::yield_now();
            }
            parent.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
            poll::poll(&[pidfd.as_fd()], None).unwrap();
            assert!(pidfd.has_ended() && pidfd.is_unreaped());
            assert_eq!(pidfd.ended_elsewhere(), Some(expected));
            parent.kill().unwrap();
            parent.wait().unwrap();
        }
    }

    fn has_exit_info() -> bool {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
        numbers.next().zip(numbers.next()).is_some_and(|version| version >= (6, 15))
    }

    #[test]
    fn there_is_no_process_beyond_the_last() {
        assert!(PidFd::open(u32::MAX).is_err());
        assert!(PidFd::open(1 << 30).is_err());
    }
}
