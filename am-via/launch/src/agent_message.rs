//! What the launcher of a job and the agents of its hosts tell each other, besides what all supervisors do ([`am_via_job::Message`]).

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::Launch;
use super::hang::Activity;
use super::output::Sinks;
use am_via_job::{Message, Recorded};

/// The part of a job that one agent runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Part {
    /// The version of the launcher: both ends must have the same.
    pub(super) version: String,
    pub(super) launch: Launch,
    pub(super) says_bindings: bool,
    /// The name of this host, if a line about its tasks is wanted.
    pub(super) verbose_as: Option<String>,
}

/// A message of the launcher to an agent, or of an agent to the launcher.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum AgentMessage {
    /// To the agent, its first message.
    Start(Box<Part>),
    /// To the agent: a signal for the tasks.
    Signal(i32),
    /// To the agent: it must end its part of the job.
    End,
    /// To the agent: the launcher's clock, in answer to [`AskClock`](Self::AskClock).
    Clock { nanoseconds: u64 },
    /// To the launcher: asks for its clock.
    AskClock,
    /// To the launcher: what the agent's tasks do.
    Activities { first: u32, tasks: Vec<Activity> },
    /// To the launcher: what a task has recorded, with times of the launcher's clock.
    Recorded { task: u32, recorded: Recorded },
    /// To the launcher: the end of the agent's part of the job.
    Ended { exit_code: u8, line: String, ended_by_caller: bool },
    /// To the launcher: the reason why the agent's part of the job could not be started.
    NotStarted { exit_code: u8, why: String },
}

impl From<AgentMessage> for Message<AgentMessage> {
    fn from(message: AgentMessage) -> Self {
        Self::Own(message)
    }
}

/// Sinks for the output of the tasks: the launcher.
pub(super) fn sinks() -> Sinks {
    Sinks { stdout: Box::new(ToLauncher(Message::Output)), stderr: Box::new(ToLauncher(Message::Errors)) }
}

/// One of the two outputs, sent in messages. Other messages that this process sends do not mix with them.
struct ToLauncher(fn(Vec<u8>) -> Message<AgentMessage>);

impl Write for ToLauncher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0(bytes.to_vec()).write(&mut io::stdout()).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
