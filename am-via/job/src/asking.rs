//! What a task asks of its launcher, and the answers. A request goes through a pipe of the launcher, which tasks open in `/proc`; the
//! answer is in the task's entry of the job file.
//!
//! A request is sent in frames, each in one write, which the system does not split: the task, the number of the request, the length of the
//! whole request and of the frame's part, all 32 bits, and the part. All of it is a claim of its sender.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use am_via_os::atomics::Ordering;
use am_via_os::futex;

use super::{Job, JobError, JobOwner, has_inode};

const FRAME_HEAD_BYTES: usize = 16;
/// The system writes this much to a pipe at once (`PIPE_BUF`).
const FRAME_BYTES_MAX: usize = 4096;
/// Longest request, in bytes: what a program may get as its arguments, and its environment, with room for the encoding.
const ASK_BYTES_MAX: usize = 64 << 20;
/// Longest text of a refusal, in characters, so that it fits into an entry.
const WHY_CHARS_MAX: usize = 400;
/// How often a waiting task looks whether the launcher still runs.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A request to the launcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// To start tasks of these programs, which together are a world. `parent` is passed on to them ([`Job::parent`]).
    Start {
        /// The programs.
        programs: Vec<Program>,
        /// A text for the new tasks.
        parent: String,
    },
    /// To keep a text under a name until the task ends or withdraws it.
    Publish {
        /// The name.
        name: String,
        /// The text.
        text: String,
    },
    /// To withdraw the text under a name, which this task has published.
    Withdraw {
        /// The name.
        name: String,
    },
    /// For the text under a name.
    LookUp {
        /// The name.
        name: String,
    },
}

/// A program to be started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// A path with a slash, or a name to look up.
    pub name: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Number of its tasks, at least 1.
    pub tasks: u32,
    /// The directory in which the tasks start, and in which a relative path begins.
    pub wdir: OsString,
    /// Directories in which a name without a slash is looked up first, separated by colons.
    pub path: Option<OsString>,
    /// Variables for the tasks.
    pub env: Vec<(OsString, OsString)>,
    /// The hosts on which the tasks may run, separated by commas.
    pub hosts: Option<String>,
}

/// The launcher's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The tasks are started: as many as were asked for, with consecutive numbers.
    Started {
        /// The first of them.
        first: u32,
    },
    /// It is done.
    Done,
    /// The text.
    Text(String),
    /// Nothing was done.
    Refused {
        /// The reason, by kind.
        kind: Refusal,
        /// The reason, for a person.
        why: String,
    },
}

/// The kinds of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// The tasks cannot be started.
    Start,
    /// No text is published under this name, or not by this task.
    Name,
    /// A text is published under this name already.
    Taken,
    /// The launcher cannot do this.
    Unsupported,
}

impl Answer {
    /// A refusal, with its text cut to what an answer can hold.
    #[must_use]
    pub fn refused(kind: Refusal, why: &str) -> Self {
        Self::Refused { kind, why: why.chars().take(WHY_CHARS_MAX).collect() }
    }
}

/// The task's end of the pipe, and the number of its next request. One request is under way at a time.
#[derive(Debug, Default)]
pub(super) struct Asking {
    pipe: OnceLock<File>,
    one: Mutex<()>,
}

impl Job {
    /// Asks the launcher, and waits for the answer. The launcher answers without the help of other tasks.
    ///
    /// # Errors
    /// [`JobError::NoAnswer`]: the job has no launcher of this project, or the launcher has ended.
    pub fn ask(&self, ask: &Ask) -> Result<Answer, JobError> {
        let gone = |why: &str| JobError::NoAnswer { why: why.to_owned() };
        if self.own_pid != std::process::id() {
            return Err(gone("this process is a copy of the task, made by fork"));
        }
        let _one = self.asking.one.lock().unwrap_or_else(PoisonError::into_inner);
        let pipe = self.pipe_to_launcher()?;
        let entry = self.own_entry();
        let before = entry.answered.load(Ordering::Relaxed);
        let number = before.wrapping_add(1);
        let bytes = serde_json::to_vec(ask).map_err(|error| gone(&error.to_string()))?;
        send(pipe, self.task, number, &bytes).map_err(|error| gone(&error.to_string()))?;
        loop {
            // Acquire: pairs with the Release in `JobOwner::answer`: the answer is written.
            if entry.answered.load(Ordering::Acquire) == number {
                let text = entry.answer.read();
                return serde_json::from_str(&text)
                    .map_err(|error| gone(&format!("its answer is damaged: {error}")));
            }
            if !self.launcher_alive() {
                return Err(gone("the launcher has ended"));
            }
            futex::wait(&entry.answered, before, LOOK_EVERY);
        }
    }

    /// Whether this job has a launcher that answers requests.
    #[must_use]
    pub fn can_ask(&self) -> bool {
        self.header.asks_inode.load(Ordering::Relaxed) != 0
    }

    fn pipe_to_launcher(&self) -> Result<&File, JobError> {
        if let Some(pipe) = self.asking.pipe.get() {
            return Ok(pipe);
        }
        let inode = self.header.asks_inode.load(Ordering::Relaxed);
        if inode == 0 {
            let why = "no launcher of this library has started this program: start it with mpiexec or amrun of this library";
            return Err(JobError::NoAnswer { why: why.to_owned() });
        }
        let number = self.header.asks_fd.load(Ordering::Relaxed);
        let launcher = self.header.launcher_pid.load(Ordering::Relaxed);
        let opened = OpenOptions::new().write(true).open(format!("/proc/{launcher}/fd/{number}"));
        let pipe = opened
            .map_err(|error| JobError::NoAnswer { why: format!("its pipe cannot be opened: {error}") })?;
        if !has_inode(&pipe, inode) {
            return Err(JobError::NoAnswer { why: "the launcher has ended".to_owned() });
        }
        Ok(self.asking.pipe.get_or_init(|| pipe))
    }
}

fn send(pipe: &File, task: u32, number: u32, bytes: &[u8]) -> io::Result<()> {
    let short = |len: usize| u32::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    if bytes.len() > ASK_BYTES_MAX {
        return Err(io::Error::other("the arguments are too long"));
    }
    let whole = short(bytes.len())?;
    for part in bytes.chunks(FRAME_BYTES_MAX - FRAME_HEAD_BYTES) {
        let head = [task, number, whole, short(part.len())?].map(u32::to_le_bytes);
        let mut pipe = pipe;
        pipe.write_all(&[head.as_flattened(), part].concat())?;
    }
    Ok(())
}

/// The launcher's end of the pipe.
#[derive(Debug)]
pub struct Asks {
    pipe: PipeReader,
    /// Tasks open this end.
    _open: PipeWriter,
    /// What has arrived of an incomplete frame.
    rest: Vec<u8>,
    /// What has arrived of the request of each task: its number, its length and its bytes.
    begun: BTreeMap<u32, (u32, usize, Vec<u8>)>,
}

impl Asks {
    /// Opens the pipe through which the tasks of this job ask. Must be called before they start.
    ///
    /// # Errors
    /// The system refuses a pipe.
    pub fn open(job: &JobOwner) -> Result<Self, JobError> {
        let (pipe, open) = io::pipe().map_err(JobError::system("making a pipe"))?;
        let file = open.try_clone().map(|copy| File::from(OwnedFd::from(copy)));
        let inode = file.and_then(|file| file.metadata()).map_err(JobError::system("making a pipe"))?.ino();
        job.header.asks_fd.store(open.as_raw_fd(), Ordering::Relaxed);
        job.header.asks_inode.store(inode, Ordering::Relaxed);
        Ok(Self { pipe, _open: open, rest: Vec::new(), begun: BTreeMap::new() })
    }

    /// Can be read when a task asks something.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Reads once from the pipe, which must not be empty. Returns the requests that are now complete: the task, the number for the answer,
    /// and the request. What is no request is dropped.
    ///
    /// # Errors
    /// The system's error.
    pub fn read(&mut self) -> io::Result<Vec<(u32, u32, Ask)>> {
        let mut bytes = [0; 16 * FRAME_BYTES_MAX];
        let count = self.pipe.read(&mut bytes)?;
        self.rest.extend_from_slice(&bytes[..count]);
        let mut complete = Vec::new();
        while let Some((head, rest)) = self.rest.split_first_chunk::<FRAME_HEAD_BYTES>() {
            let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
            let (task, number, whole, len) = (word(0), word(4), word(8) as usize, word(12) as usize);
            if len > FRAME_BYTES_MAX || whole > ASK_BYTES_MAX || whole == 0 {
                self.rest.clear();
                break;
            }
            let Some(part) = rest.get(..len) else { break };
            let begun = self.begun.entry(task).or_insert((number, whole, Vec::new()));
            if begun.0 != number {
                *begun = (number, whole, Vec::new());
            }
            begun.2.extend_from_slice(part);
            let is_whole = begun.2.len() >= begun.1;
            self.rest.drain(..FRAME_HEAD_BYTES + len);
            if is_whole && let Some((number, _, bytes)) = self.begun.remove(&task) {
                complete.extend(serde_json::from_slice(&bytes).ok().map(|ask| (task, number, ask)));
            }
        }
        Ok(complete)
    }
}

impl JobOwner {
    /// Answers the request `number` of a task.
    pub fn answer(&self, task: u32, number: u32, answer: &Answer) {
        let Some(entry) = self.table.get(task) else { return };
        entry.answer.write(&serde_json::to_string(answer).unwrap_or_default());
        // Release: pairs with the Acquire in `Job::ask`.
        entry.answered.store(number, Ordering::Release);
        futex::wake(&entry.answered, u32::MAX);
    }
}
