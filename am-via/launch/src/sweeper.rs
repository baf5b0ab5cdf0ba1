//! The sweeper: a shell that outlives a killed launcher, and kills the remaining processes of its job.
//!
//! The kernel kills the tasks when their launcher dies (`PR_SET_PDEATHSIG`), but not the processes that they started. The sweeper waits at
//! a pipe whose other end only the launcher holds. When that end closes without a message, the launcher was killed, and the sweeper kills
//! every process whose environment contains the job's number, which comes through the pipe: arguments can be read by every user. The
//! sweeper is a shell and not this program, because the launcher may be a library inside any program, which has no second main function to
//! start.

use std::io::Write;
use std::process::{Child, Command, Stdio};

/// Ignores the signals of a terminal, because the sweeper has to outlive the launcher. The first line is the job's number. Ends if the
/// launcher sends another line. Otherwise kills until no process is found, at most 100 times, since processes may start others meanwhile.
/// Looks again at each process before it kills it: the process may have ended, and another one may have its number.
const SCRIPT: &str = r#"
trap '' INT QUIT TERM HUP PIPE TSTP
read -r mark || exit 0
read -r word && exit 0
has_mark() { printf '%s\n' "$mark" | grep -lsF -f - "$@"; }
rounds=0
while [ "$rounds" -lt 100 ]; do
    found=
    for environment in $(has_mark /proc/[0-9]*/environ); do
        pid=${environment#/proc/}
        has_mark "$environment" >/dev/null && kill -KILL "${pid%/environ}" 2>/dev/null && found=yes
    done
    [ -n "$found" ] || exit 0
    rounds=$((rounds + 1))
done
"#;

/// The sweeper of one job.
#[derive(Debug)]
pub(super) struct Sweeper {
    child: Child,
}

impl Sweeper {
    /// Starts the sweeper. `None` on a system without a shell: if the launcher is killed there, only the tasks themselves die.
    pub(super) fn start(mark: &str) -> Option<Self> {
        let child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "am-sweeper"])
            .env_clear()
            .env("PATH", "/bin:/usr/bin:/usr/local/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        // The shell takes the number when it reads; a pipe holds that much.
        let told = child.and_then(|mut child| {
            let told = child.stdin.as_mut().map_or(Ok(()), |pipe| writeln!(pipe, "{mark}"));
            told.map(|()| child)
        });
        told.inspect_err(|error| tracing::warn!(%error, "the sweeper cannot be started"))
            .ok()
            .map(|child| Self { child })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends the sweeper: the job is over and no process of the job is left.
    pub(super) fn dismiss(mut self) {
        let said = self.child.stdin.take().is_some_and(|mut pipe| pipe.write_all(b"done\n").is_ok());
        if !said {
            tracing::debug!("the sweeper ended before its job");
        }
        // Reaps the sweeper; how it ended does not matter.
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_jobs_number_is_in_no_argument_and_its_processes_are_killed() {
        let mark = format!(":sweeper-{}", std::process::id());
        let start =
            |value: &str| Command::new("sleep").arg("1000").env("AM_TEST_JOB", value).spawn().unwrap();
        let (mut marked, mut bystander) = (start(&format!("1{mark}")), start("1:other"));
        let Sweeper { mut child } = Sweeper::start(&mark).unwrap();
        let arguments = || fs::read_to_string(format!("/proc/{}/cmdline", child.id())).unwrap();
        // A process has no arguments for a moment after it was started: the kernel closes its files first.
        while arguments().is_empty() {
            std::thread::yield_now();
        }
        assert!(arguments().contains("am-sweeper") && !arguments().contains(&mark), "{}", arguments());
        // As if the launcher had been killed.
        drop(child.stdin.take());
        assert_eq!(marked.wait().unwrap().code(), None);
        // This process, the marked one's parent, has reaped it, so the sweeper finds no other.
        assert!(child.wait().unwrap().success());
        assert!(bystander.try_wait().unwrap().is_none());
        bystander.kill().unwrap();
        bystander.wait().unwrap();
    }
}
