//! The sweeper: a shell that outlives a killed launcher, and kills the remaining processes of its job.
//!
//! The kernel kills the tasks when their launcher dies (`PR_SET_PDEATHSIG`), but not the processes that they started. The sweeper waits at
//! a pipe whose other end only the launcher holds. When that end closes without a message, the launcher was killed, and the sweeper kills
//! every process whose environment contains the job's number. The sweeper is a shell and not this program, because the launcher may be a
//! library inside any program, which has no second main function to start.

use std::io::Write;
use std::process::{Child, Command, Stdio};

/// Ignores the signals of a terminal, because the sweeper has to outlive the launcher. Ends if the launcher sends a line. Otherwise kills
/// until no process is found, at most 100 times, since processes may start others meanwhile.
const SCRIPT: &str = r#"
trap '' INT QUIT TERM HUP PIPE TSTP
read -r word && exit 0
rounds=0
while [ "$rounds" -lt 100 ]; do
    found=
    for environment in $(grep -lsF -e "$1" /proc/[0-9]*/environ); do
        pid=${environment#/proc/}
        kill -KILL "${pid%/environ}" 2>/dev/null && found=yes
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
            .args(["-c", SCRIPT, "am-sweeper", mark])
            .env_clear()
            .env("PATH", "/bin:/usr/bin:/usr/local/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        child
            .inspect_err(|error| tracing::warn!(%error, "the sweeper cannot be started"))
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
