//! Failures of tasks.

use std::fmt;

use am_via_os::process::Ended;
use am_via_os::signal;

/// How a failed task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The task's process exited with a code other than 0, or with any code before the task left the job.
    Exited(i32),
    /// This signal ended the task's process.
    Signalled(i32),
    /// The task's process ended behind a wrapper, and its exit status could not be read.
    Vanished,
    /// The task still ran when the time limit of the job was reached.
    TimedOut,
    /// The task reported that it cannot continue.
    GaveUp,
    /// The task's program could not be started.
    NotStarted,
    /// The task's process ended with code 0 and had never joined the job, while another task had.
    NeverJoined,
    /// The task's host is gone, or the launcher cannot reach it.
    HostLost,
}

impl Cause {
    /// A kind and a value, as the job file stores them.
    #[must_use]
    pub fn encode(self) -> (u32, i32) {
        match self {
            Self::Exited(code) => (1, code),
            Self::Signalled(number) => (2, number),
            Self::Vanished => (3, 0),
            Self::TimedOut => (4, 0),
            Self::GaveUp => (5, 0),
            Self::NotStarted => (6, 0),
            Self::NeverJoined => (7, 0),
            Self::HostLost => (8, 0),
        }
    }

    /// Decodes a cause. An unknown kind is read as [`Vanished`](Self::Vanished), the least certain cause.
    #[must_use]
    pub fn decode(kind: u32, value: i32) -> Self {
        match kind {
            1 => Self::Exited(value),
            2 => Self::Signalled(value),
            4 => Self::TimedOut,
            5 => Self::GaveUp,
            6 => Self::NotStarted,
            7 => Self::NeverJoined,
            8 => Self::HostLost,
            _ => Self::Vanished,
        }
    }
}

impl From<Ended> for Cause {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Exited(code) => Self::Exited(code),
            Ended::Signalled(number) => Self::Signalled(number),
        }
    }
}

/// The signal that, according to a shell's exit code, killed the shell's program; `None` if the code is that of a program that ended by
/// itself.
#[must_use]
pub fn signal_of_shell(code: i32) -> Option<i32> {
    (129..=128 + 31).contains(&code).then_some(code - 128)
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(0) => f.write_str("exited (code 0) before it left the job"),
            Self::Exited(code) => match signal_of_shell(*code) {
                None => write!(f, "exited with code {code}"),
                Some(number) => write!(
                    f,
                    "exited with code {code}, as a shell does whose program was killed by signal {number} ({})",
                    signal::name(number)
                ),
            },
            Self::Signalled(number) => write!(f, "was killed by signal {number} ({})", signal::name(*number)),
            Self::Vanished => f.write_str("ended behind its wrapper program"),
            Self::TimedOut => f.write_str("was still running when the time limit was reached"),
            Self::GaveUp => f.write_str("gave up"),
            Self::NotStarted => f.write_str("could not be started"),
            Self::NeverJoined => f.write_str("ended with code 0 without joining the job"),
            Self::HostLost => f.write_str("is lost with its host"),
        }
    }
}

/// The first failure of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The task that failed.
    pub task: u32,
    /// The cause.
    pub cause: Cause,
    /// The last words of the task; empty if there are none.
    pub last_words: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {} {}", self.task, self.cause)?;
        if !self.last_words.is_empty() {
            write!(f, ": {}", self.last_words)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_survive_the_job_file() {
        for cause in [
            Cause::Exited(3),
            Cause::Signalled(11),
            Cause::Vanished,
            Cause::TimedOut,
            Cause::GaveUp,
            Cause::NotStarted,
            Cause::NeverJoined,
            Cause::HostLost,
        ] {
            let (kind, value) = cause.encode();
            assert_eq!(Cause::decode(kind, value), cause);
        }
        assert_eq!(Cause::decode(u32::MAX, 1), Cause::Vanished);
    }

    #[test]
    fn a_shells_code_names_the_signal_that_killed_its_program() {
        assert_eq!(
            Cause::Exited(139).to_string(),
            "exited with code 139, as a shell does whose program was killed by signal 11 (SIGSEGV)"
        );
        for code in [1, 128, 160, 255, -1] {
            assert_eq!(Cause::Exited(code).to_string(), format!("exited with code {code}"));
        }
    }

    #[test]
    fn a_failure_says_who_how_and_what_it_said() {
        let failure = Failure { task: 2, cause: Cause::Signalled(11), last_words: "at the edge".into() };
        assert_eq!(failure.to_string(), "task 2 was killed by signal 11 (SIGSEGV): at the edge");
    }
}
