//! The process that a user sees as `amrun`: it starts the actual launcher as its child and guards it.
//!
//! There are two processes, and each cleans up when the other one is killed. The launcher is the parent of the tasks and inherits their
//! orphans; if the guard vanishes, the launcher kills them all. If the launcher is killed, the guard inherits the launcher's descendants
//! and kills them. So the job ends with either process, and no process of the job can hide by changing its environment.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::process::Command;

use super::LaunchError;
use super::debugger::Tasks;
use super::end_request::SIGNALS;
use super::members::{self, Members};
use am_via_os::process::{self, BeforeExec, Ended, PidFd, before_exec};
use am_via_os::signal::{self, SignalFd};
use am_via_os::{complain, poll};

/// Starts this program again as a launcher, with `args` after `--guarded-by PID`, and returns how it ended, once no process of its job is
/// left. The calling process must have only one thread. `hold`: a debugger has started this process, so tasks wait for it.
///
/// # Errors
/// `/proc` is not mounted, or the system could not start or watch the launcher.
pub fn run_guarded(args: impl IntoIterator<Item = OsString>, hold: bool) -> Result<Ended, LaunchError> {
    members::check_proc()?;
    process::become_subreaper().map_err(LaunchError::system("becoming the parent of orphans"))?;
    let signals = SignalFd::block(&SIGNALS).map_err(LaunchError::system("taking over signals"))?;
    let own = std::process::id();
    // Not by its path, since the file may have been replaced after this process was started.
    let mut command = Command::new("/proc/self/exe");
    let tasks = Tasks::new().map_err(LaunchError::system("making a pipe"))?;
    command.arg("--guarded-by").arg(own.to_string()).args(tasks.arguments(hold)).args(args);
    before_exec(&mut command, BeforeExec { unblock: SIGNALS.to_vec(), ..BeforeExec::default() });
    let mut child = command.spawn().map_err(LaunchError::system("starting the launcher"))?;
    let launcher = PidFd::open(child.id()).map_err(|error| {
        // A launcher that can't be watched must not survive this process.
        let _ = child.kill().and_then(|()| child.wait());
        LaunchError::system("watching the launcher")(error)
    })?;
    let ended = watch(&launcher, &signals, tasks).map_err(LaunchError::system("watching the launcher"));
    // If the launcher ended by itself, there is no process to kill.
    Members { roots: vec![own], others: Vec::new(), mark: None }.kill_all();
    members::reap_orphans(&[]);
    ended
}

fn watch(launcher: &PidFd, signals: &SignalFd, tasks: Tasks) -> std::io::Result<Ended> {
    let mut tasks = Some(tasks);
    loop {
        if let Some(ended) = launcher.ended()? {
            return Ok(ended);
        }
        let files = [launcher.as_fd(), signals.as_fd()];
        let files: Vec<_> = files.into_iter().chain(tasks.as_ref().map(Tasks::file)).collect();
        if poll::poll(&files, None)?.get(2) == Some(&true)
            && let Some(tasks) = tasks.take()
            && let Err(error) = tasks.take()
        {
            complain!("amrun: a debugger finds no tasks here: {error}");
        }
        while let Some(received) = signals.next() {
            // A terminal sends its signals to the launcher as well.
            if !received.from_system {
                launcher.signal(received.signal);
            }
            // The shell that has started this process sees it stopped. The launcher has stopped the tasks, and goes on itself: it keeps the
            // agents of other hosts, which would take a silent launcher for gone.
            if received.signal == libc::SIGTSTP {
                signal::stop();
            }
        }
    }
}
