//! The sweeper: a shell that outlives a launcher which was killed, and kills what is left of its job.
//!
//! Tasks die with their launcher by the kernel's hand (`PR_SET_PDEATHSIG`), but what they started does not. The sweeper waits
//! at a pipe whose other end only the launcher holds. When that end closes without a word, the launcher was killed, and the
//! sweeper kills every process whose environment carries the job's number. It is a shell and not this program because the
//! launcher may be a library inside any program, which then has no second main function to start.

use std::io::Write;
use std::process::{Child, Command, Stdio};

/// Ignores what a terminal sends to everybody, because it has to outlive the launcher. Looks again until nothing is found:
/// processes start others while it kills.
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
    /// Starts it. `None` on a system without a shell: then only the tasks themselves die with a launcher that is killed.
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
        child.inspect_err(|error| tracing::warn!(%error, "no sweeper")).ok().map(|child| Self { child })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it away: the job is over and swept.
    pub(super) fn dismiss(mut self) {
        let said = self.child.stdin.take().is_some_and(|mut pipe| pipe.write_all(b"done\n").is_ok());
        if !said {
            // It is gone already, killed by somebody.
            tracing::debug!("the sweeper was gone before its time");
        }
        // Reaped, however it ended.
        let _ = self.child.wait();
    }
}
