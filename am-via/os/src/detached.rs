//! Detached processes: they outlive the process that starts them, and share neither files nor signals with it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::net::UnixStream;

use crate::signal;

/// The only file descriptor that the new process keeps.
const LINK: RawFd = 3;

/// Starts a copy of this process that runs `body` and ends. It is not a child of this process, so that a wait for any child does not find
/// it. It has its own session, blocks all signals, and keeps one file: a socket connected to the stream that this call returns.
///
/// `body` may allocate, as the C library's allocator is usable after a fork. `body` must not wait for another thread of this process, since
/// the copy has no other thread.
///
/// # Safety
/// `body` must not use a file that was opened before: the copy closes all of them, and their numbers become those of other files. It must
/// not rely on memory that other threads were changing.
///
/// # Errors
/// The system's error.
pub unsafe fn start(body: fn(UnixStream)) -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    // SAFETY: fork takes nothing. The copy runs `start_again` only, which never returns.
    match unsafe { libc::fork() } {
        ..0 => Err(io::Error::last_os_error()),
        0 => start_again(&theirs, body),
        child => reap(child).map(|()| ours),
    }
}

/// Ends this process, the first copy, after it has started the second, whose parent is then the system's first process, or a subreaper.
fn start_again(link: &UnixStream, body: fn(UnixStream)) -> ! {
    // SAFETY: setsid and fork take nothing, _exit takes an integer. The second copy runs `run` only, which never returns.
    unsafe {
        libc::setsid();
        match libc::fork() {
            0 => run(link.as_raw_fd(), body),
            second => libc::_exit(i32::from(second < 0)),
        }
    }
}

fn run(link: RawFd, body: fn(UnixStream)) -> ! {
    signal::block_all();
    // SAFETY: the calls take integers and constant texts. No handle of a closed file is used again, since only `body` runs in this copy,
    // and it uses none (`start`).
    unsafe {
        // If the program has closed some of the first files, the link is one of them. If it can't be moved, nothing is lost by the attempt.
        let moved = libc::fcntl(link, libc::F_DUPFD_CLOEXEC, LINK + 1);
        let link = if moved < 0 { link } else { moved };
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        for number in 0..LINK {
            libc::dup2(nothing, number);
        }
        libc::dup2(link, LINK);
        libc::syscall(libc::SYS_close_range, LINK + 1, u32::MAX, 0);
        libc::chdir(c"/".as_ptr());
    }
    // SAFETY: the number was just created, and no other code of this copy uses it.
    let link = unsafe { UnixStream::from_raw_fd(LINK) };
    let ended = std::panic::catch_unwind(|| body(link));
    // SAFETY: _exit takes an integer. The call runs no exit handler of the copied process.
    unsafe { libc::_exit(i32::from(ended.is_err())) }
}

fn reap(child: libc::pid_t) -> io::Result<()> {
    let mut status = 0;
    // SAFETY: waitpid writes a number into `status`, which is live here.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0 {
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            // The program ignores SIGCHLD, or another thread has reaped the child.
            Some(libc::ECHILD) => return Ok(()),
            _ => return Err(error),
        }
    }
    if status == 0 { Ok(()) } else { Err(io::Error::other("the second of two forks failed")) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::time::Duration;

    use super::*;

    fn tell(mut link: UnixStream) {
        let mut word = [0; 2];
        link.read_exact(&mut word).unwrap();
        let files = std::fs::read_dir("/proc/self/fd").unwrap().count();
        let parent = std::os::unix::process::parent_id();
        write!(link, "{} {} {parent} {files}", String::from_utf8_lossy(&word), std::process::id()).unwrap();
    }

    /// Closes the first three files, and starts a copy that answers.
    fn tell_of_another(mut link: UnixStream) {
        for file in 0..LINK {
            // SAFETY: close takes an integer. Nothing in this copy uses the file, which is `/dev/null`.
            unsafe { libc::close(file) };
        }
        // SAFETY: `tell` uses only the file that it gets.
        let mut inner = unsafe { start(tell) }.unwrap();
        inner.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        inner.write_all(b"hi").unwrap();
        let mut said = String::new();
        inner.read_to_string(&mut said).unwrap();
        link.write_all(said.as_bytes()).unwrap();
    }

    #[test]
    fn a_program_without_its_first_files_is_answered() {
        // SAFETY: the function uses only the file that it gets.
        let mut link = unsafe { start(tell_of_another) }.unwrap();
        link.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut said = String::new();
        link.read_to_string(&mut said).unwrap();
        assert!(said.starts_with("hi ") && said.ends_with(" 5"), "{said}");
    }

    #[test]
    fn it_is_another_process_without_our_files_and_no_child() {
        let _other_file = std::fs::File::open("/proc/self/stat").unwrap();
        // SAFETY: `tell` uses only the file that it gets.
        let mut link = unsafe { start(tell) }.unwrap();
        link.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        link.write_all(b"hi").unwrap();
        let mut said = String::new();
        link.read_to_string(&mut said).unwrap();
        let words: Vec<&str> = said.split(' ').collect();
        let own = std::process::id().to_string();
        assert_eq!(words[0], "hi");
        assert!(words[1] != own && words[2] != own, "{said}");
        // Three files that are /dev/null, the link, and the directory that the copy reads.
        assert_eq!(words[3], "5", "{said}");
    }
}
