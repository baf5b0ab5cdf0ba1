//! The messages between the launcher of a job and the agents of its hosts: frames over each agent's standard input and output.
//!
//! A frame is its length (32 bits, little-endian), a byte with its kind, and its bytes: output of tasks is sent unchanged, all other
//! messages as JSON.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Bind;
use super::hang::Activity;
use super::output::{OutputFormat, Sinks};
use am_via_job::{News, Record, Recorded};

/// Longest frame, in bytes. A longer one is refused: its sender is neither a launcher nor an agent of this library.
const FRAME_BYTES_MAX: usize = 64 << 20;

/// The kinds of frames.
const OUTPUT: u8 = b'o';
const ERRORS: u8 = b'e';
const WORD: u8 = b'w';

/// The part of a job that one agent runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Part {
    /// The version of the launcher: both ends must have the same.
    pub(super) version: String,
    /// The program, its arguments, its directory.
    pub(super) program: String,
    pub(super) args: Vec<String>,
    pub(super) wdir: Option<String>,
    /// Variables of the tasks' environment.
    pub(super) env: Vec<(String, String)>,
    /// The host of each task of the job, and the number of this host.
    pub(super) hosts: Vec<u32>,
    pub(super) host: u32,
    pub(super) output: OutputFormat,
    /// The folder on the agent's host for files with the output; `None`: the output is sent in frames.
    pub(super) output_dir: Option<String>,
    pub(super) record: Record,
    pub(super) bind: Bind,
    /// The processors on which tasks may run; empty: all that the agent may use.
    pub(super) processors: Vec<usize>,
    pub(super) says_bindings: bool,
    /// The name of this host, if a line about its tasks is wanted.
    pub(super) verbose_as: Option<String>,
}

/// A message of the launcher to an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Down {
    Start(Box<Part>),
    /// News of tasks of other hosts.
    News(News),
    /// A signal for the tasks.
    Signal(i32),
    /// The agent must end its part of the job.
    End,
    /// The launcher's clock, in answer to [`Up::AskClock`].
    Clock {
        nanoseconds: u64,
    },
    /// An empty message, sent to show that the launcher is alive.
    Alive,
}

/// A message of an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Up {
    /// News of the agent's tasks.
    News(News),
    /// The end of the agent's part of the job.
    Ended { exit_code: u8, line: String, ended_by_caller: bool },
    /// The reason why the agent's part of the job could not be started.
    NotStarted { exit_code: u8, why: String },
    /// Asks for the launcher's clock.
    AskClock,
    /// What a task has recorded, with times of the launcher's clock.
    Recorded { task: u32, recorded: Recorded },
    /// What the agent's tasks do; also shows that the agent is alive.
    Activities { first: u32, tasks: Vec<Activity> },
}

/// A frame as a reader returns it.
#[derive(Debug)]
pub(super) enum Frame<T> {
    Output(Vec<u8>),
    Errors(Vec<u8>),
    Word(T),
}

/// Reads the next frame; `None` at the end of the input.
pub(super) fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<Frame<T>>> {
    let mut head = [0; 5];
    match from.read_exact(&mut head) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let [a, b, c, d, kind] = head;
    let len = u32::from_le_bytes([a, b, c, d]) as usize;
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    if len > FRAME_BYTES_MAX {
        return Err(wrong("this is not a message of amrun"));
    }
    let mut bytes = vec![0; len];
    from.read_exact(&mut bytes)?;
    Ok(Some(match kind {
        OUTPUT => Frame::Output(bytes),
        ERRORS => Frame::Errors(bytes),
        WORD => Frame::Word(serde_json::from_slice(&bytes)?),
        _ => return Err(wrong("this is not a message of amrun")),
    }))
}

/// Writes one frame.
fn write(to: &mut dyn Write, kind: u8, bytes: &[u8]) -> io::Result<()> {
    let len = u32::try_from(bytes.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let [a, b, c, d] = len.to_le_bytes();
    to.write_all(&[a, b, c, d, kind])?;
    to.write_all(bytes)?;
    to.flush()
}

/// Writes a message as a frame.
pub(super) fn say<T: Serialize>(to: &mut dyn Write, word: &T) -> io::Result<()> {
    write(to, WORD, &serde_json::to_vec(word)?)
}

/// An agent's connection to the launcher: its standard output. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Uplink(Arc<Mutex<()>>);

impl Uplink {
    fn write(&self, kind: u8, bytes: &[u8]) -> io::Result<()> {
        let _one_at_a_time = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        write(&mut io::stdout().lock(), kind, bytes)
    }

    /// Sends a message to the launcher.
    pub(super) fn say(&self, word: &Up) -> io::Result<()> {
        self.write(WORD, &serde_json::to_vec(word)?)
    }

    /// Sinks for the output of the tasks.
    pub(super) fn sinks(&self) -> Sinks {
        let sink = |kind| Box::new(Sink { uplink: self.clone(), kind });
        Sinks { stdout: sink(OUTPUT), stderr: sink(ERRORS) }
    }
}

/// One of the two outputs, sent as frames.
struct Sink {
    uplink: Uplink,
    kind: u8,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A frame is received as a whole, so its length is limited.
        let len = bytes.len().min(FRAME_BYTES_MAX);
        self.uplink.write(self.kind, &bytes[..len])?;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_and_what_is_none_is_refused() {
        let mut bytes = Vec::new();
        say(&mut bytes, &Down::Signal(15)).unwrap();
        write(&mut bytes, OUTPUT, b"a line\n").unwrap();
        let mut from = &bytes[..];
        assert!(matches!(read::<Down>(&mut from), Ok(Some(Frame::Word(Down::Signal(15))))));
        assert!(matches!(read::<Down>(&mut from), Ok(Some(Frame::Output(line))) if line == b"a line\n"));
        assert!(matches!(read::<Down>(&mut from), Ok(None)));
        assert!(read::<Down>(&mut &b"Permission denied (publickey)"[..]).is_err());
        assert!(read::<Down>(&mut &bytes[..bytes.len() - 1][6..]).is_err());
    }
}
