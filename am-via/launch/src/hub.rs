//! The launcher of a job of several hosts: starts an agent on each, forwards between them what their tasks must know, and ends the job when
//! a part of it fails.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::agent::SILENCE_MAX;
use super::end_request::SIGNALS;
use super::hosts::{self, Host};
use super::output::OutputFormat;
use super::uplink::{self, Down, Frame, Part, Up};
use super::{LaunchError, program};
use am_via_job::{Cause, Failure, News};
use am_via_os::signal::{self, SignalFd};

/// Interval at which the launcher reports to the agents that it is alive, and checks the time.
const ALIVE_EVERY: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long the tasks may continue after a failure, and after a signal, before the job is ended.
const GRACE: Duration = Duration::from_secs(1);
const GRACE_AFTER_SIGNAL: Duration = Duration::from_secs(3);
/// How long the agents may take to end their parts.
const END_WITHIN: Duration = Duration::from_secs(10);

/// A job that is to run on several hosts.
#[derive(Clone, Debug)]
pub struct Hosts {
    /// The hosts, in the order in which they take tasks.
    pub hosts: Vec<Host>,
    /// The command that runs another command on a host; its first argument is the host. By default `ssh`. Words are separated by spaces.
    pub launch_agent: String,
    /// Tasks of the job.
    pub tasks: u32,
    /// The program, as a shell would find it.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables for the tasks.
    pub env: Vec<(OsString, OsString)>,
    /// The directory of the tasks; `None`: that of this process.
    pub wdir: Option<PathBuf>,
    /// The format of the output.
    pub output: OutputFormat,
    /// Whether each task is bound to its own processor.
    pub bind_core: bool,
    /// Whether to print a line for each task with the processors that it may run on.
    pub says_bindings: bool,
    /// Time limit of the job.
    pub timeout: Option<Duration>,
    /// The process that guards this one: the job ends when it does.
    pub guard: u32,
}

/// The end of such a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The same as for a job on one host.
    pub exit_code: u8,
    /// A line for a person; empty if all went well.
    pub line: String,
}

/// Variables that are passed to all hosts: those of settings, of the network, and search paths of programs and libraries.
fn is_for_all_hosts(name: &str) -> bool {
    const BEGINNINGS: [&str; 7] = ["AM_", "MPI_", "LAM_MPI_", "FI_", "OMP_", "RUST_", "LD_LIBRARY_"];
    name == "PATH" || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

/// An event from an agent's reader.
enum Event {
    Said(usize, Up),
    /// Its output has ended, or is not that of an agent.
    Gone(usize, String),
}

struct Agent {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    ended: bool,
    heard_at: Instant,
}

impl Agent {
    fn say(&mut self, word: &Down) {
        // An agent that can't be reached is gone, which its reader notices.
        if let Some(input) = &mut self.input
            && uplink::say(input, word).is_err()
        {
            self.input = None;
        }
    }
}

impl Hosts {
    /// Runs the job and cleans up after it.
    ///
    /// # Errors
    /// If the hosts have too few slots for the tasks, the program does not exist, or no agent can be started.
    pub fn run(&self) -> Result<Outcome, LaunchError> {
        let placed = hosts::place(&self.hosts, self.tasks)
            .map_err(|error| LaunchError::system("placing the tasks")(io::Error::other(error)))?;
        let program = program::find(&self.program)?;
        let signals = SignalFd::block(&SIGNALS).map_err(LaunchError::system("taking over signals"))?;
        let (tell, told) = mpsc::channel();
        let mut job =
            Hub { agents: Vec::new(), placed: placed.clone(), ends: Ends::default(), guard: self.guard };
        for (number, host) in (0..).zip(&self.hosts) {
            if placed.contains(&number) {
                let part = self.part(&program, &placed, number)?;
                job.agents.push(self.start_agent(host, part, job.agents.len(), &tell)?);
            } else {
                tracing::debug!(host = host.name, "no task runs there");
            }
        }
        drop(tell);
        Ok(job.watch(&told, &signals, self.timeout))
    }

    fn part(&self, program: &std::path::Path, placed: &[u32], host: u32) -> Result<Part, LaunchError> {
        let text = |what: &std::ffi::OsStr| {
            what.to_str().map(str::to_owned).ok_or_else(|| {
                LaunchError::system("describing the job")(io::Error::other(format!("{what:?} is no text")))
            })
        };
        let here = std::env::current_dir().map_err(LaunchError::system("asking for this directory"))?;
        let own = std::env::vars().filter(|(name, _)| is_for_all_hosts(name));
        let mut env: Vec<(String, String)> = own.collect();
        for (name, value) in &self.env {
            env.push((text(name)?, text(value)?));
        }
        let program = here.join(program);
        Ok(Part {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            program: text(program.as_os_str())?,
            args: self.args.iter().map(|arg| text(arg)).collect::<Result<_, _>>()?,
            wdir: Some(text(here.join(self.wdir.as_deref().unwrap_or(&here)).as_os_str())?),
            env,
            hosts: placed.to_vec(),
            host,
            output: self.output,
            bind_core: self.bind_core,
            says_bindings: self.says_bindings,
        })
    }

    fn start_agent(
        &self,
        host: &Host,
        part: Part,
        index: usize,
        tell: &Sender<Event>,
    ) -> Result<Agent, LaunchError> {
        let own =
            std::fs::read_link("/proc/self/exe").map_err(LaunchError::system("finding this program"))?;
        let mut words = self.launch_agent.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or("ssh"));
        command.args(words).arg(&host.name).arg(own).arg("--agent");
        // A terminal's Ctrl-C is for the launcher, which forwards it.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let failed = |source: io::Error| {
            let what = format!("{} for host {}: {source}", self.launch_agent, host.name);
            LaunchError::system("starting an agent")(io::Error::other(what))
        };
        let mut child = command.spawn().map_err(failed)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut agent =
            Agent { name: host.name.clone(), child, input, ended: false, heard_at: Instant::now() };
        agent.say(&Down::Start(Box::new(part)));
        let tell = tell.clone();
        thread::spawn(move || {
            let why =
                output.map_or_else(|| "it has no output".to_owned(), |output| listen(output, index, &tell));
            let _ = tell.send(Event::Gone(index, why));
        });
        Ok(agent)
    }
}

/// Forwards an agent's messages, and writes the output of its tasks. Returns why it ended.
fn listen(mut output: ChildStdout, index: usize, tell: &Sender<Event>) -> String {
    loop {
        let written = match uplink::read::<Up>(&mut output) {
            Ok(None) => return "its agent has ended".to_owned(),
            Err(error) => {
                // The remaining text is more helpful to people than the error that it is not a frame.
                let mut rest = String::new();
                let _ = output.by_ref().take(4096).read_to_string(&mut rest);
                return format!("its agent cannot be understood: {error} {}", rest.trim());
            }
            Ok(Some(Frame::Output(bytes))) => write(&mut io::stdout().lock(), &bytes),
            Ok(Some(Frame::Errors(bytes))) => write(&mut io::stderr().lock(), &bytes),
            Ok(Some(Frame::Word(word))) => tell.send(Event::Said(index, word)).map_err(io::Error::other),
        };
        if let Err(error) = written {
            return format!("the output cannot be written: {error}");
        }
    }
}

fn write(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}

/// The reason for which the job ends, and the time.
#[derive(Debug, Default)]
struct Ends {
    /// The first reason: the exit code of the job and the line about it.
    outcome: Option<Outcome>,
    /// The agent of the task that failed first, whose own report is more precise.
    first_failed: Option<usize>,
    end_at: Option<Instant>,
    kill_at: Option<Instant>,
    goes_on: bool,
    signalled: bool,
    exit_code: u8,
    line: String,
}

struct Hub {
    agents: Vec<Agent>,
    /// The host of each task.
    placed: Vec<u32>,
    ends: Ends,
    guard: u32,
}

impl Hub {
    fn watch(mut self, told: &Receiver<Event>, signals: &SignalFd, timeout: Option<Duration>) -> Outcome {
        let begun = Instant::now();
        let deadline = timeout.and_then(|timeout| begun.checked_add(timeout));
        let mut alive_at = begun;
        while self.agents.iter().any(|agent| !agent.ended) {
            match told.recv_timeout(LOOK_EVERY) {
                Ok(Event::Said(from, word)) => self.hear(from, word),
                Ok(Event::Gone(from, why)) => self.lose(from, &why),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            while let Some(received) = signals.next() {
                self.pass_on(received.signal);
            }
            let parent = std::os::unix::process::parent_id();
            if std::mem::replace(&mut self.guard, parent) != parent {
                let line = "ended because the first amrun process is gone".to_owned();
                self.end_with(Outcome { exit_code: 137, line }, Duration::ZERO);
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) && self.ends.outcome.is_none() {
                let line = "the time limit was reached while the job still ran".to_owned();
                self.end_with(Outcome { exit_code: 124, line }, Duration::ZERO);
            }
            if now.duration_since(alive_at) >= ALIVE_EVERY {
                alive_at = now;
                self.say_all(&Down::Alive);
                self.lose_the_silent(now);
            }
            if self.ends.end_at.is_some_and(|end| now >= end) {
                self.ends.end_at = None;
                self.ends.kill_at = Some(now + END_WITHIN);
                self.say_all(&Down::End);
            }
            if self.ends.kill_at.is_some_and(|kill| now >= kill) {
                self.ends.kill_at = None;
                for agent in self.agents.iter_mut().filter(|agent| !agent.ended) {
                    // Its reader notices the end. It may have ended by itself.
                    let _ = agent.child.kill();
                }
            }
        }
        for agent in &mut self.agents {
            agent.input = None;
            // Its last message has arrived by now; it need not end by itself.
            let _ = agent.child.kill();
            let _ = agent.child.wait();
        }
        self.outcome()
    }

    fn outcome(self) -> Outcome {
        let Ends { outcome, exit_code, line, .. } = self.ends;
        outcome.unwrap_or(Outcome { exit_code, line })
    }

    fn say_all(&mut self, word: &Down) {
        self.agents.iter_mut().filter(|agent| !agent.ended).for_each(|agent| agent.say(word));
    }

    fn hear(&mut self, from: usize, word: Up) {
        self.agents[from].heard_at = Instant::now();
        match word {
            Up::Alive => {}
            Up::News(news) => {
                match &news {
                    News::Failed { task, kind, value, words } => {
                        self.note_failure(from, *task, Cause::decode(*kind, *value), words)
                    }
                    News::GoesOn(goes_on) => self.ends.goes_on = *goes_on,
                    News::Address { .. } => {}
                }
                let others = (0..).zip(&mut self.agents).filter(|&(index, _)| index != from);
                others.for_each(|(_, agent)| agent.say(&Down::News(news.clone())));
            }
            Up::Ended { exit_code, line, ended_by_caller } => {
                self.agents[from].ended = true;
                if self.ends.first_failed == Some(from) && !ended_by_caller {
                    self.ends.outcome = Some(Outcome { exit_code, line });
                } else if !ended_by_caller && self.ends.exit_code == 0 {
                    (self.ends.exit_code, self.ends.line) = (exit_code, line);
                }
            }
            Up::NotStarted { exit_code, why } => {
                self.agents[from].ended = true;
                let line = format!("host {}: {why}", self.agents[from].name);
                self.end_with(Outcome { exit_code, line }, Duration::ZERO);
            }
        }
    }

    /// Records a failure. The first one determines the outcome of the job, and ends it after a moment unless the program continues.
    fn note_failure(&mut self, from: usize, task: u32, cause: Cause, words: &str) {
        if self.ends.goes_on || self.ends.outcome.is_some() {
            return;
        }
        self.ends.first_failed = Some(from);
        let failure = Failure { task, cause, last_words: words.to_owned() };
        self.end_with(Outcome { exit_code: code_of(cause), line: failure.to_string() }, GRACE);
    }

    fn end_with(&mut self, outcome: Outcome, grace: Duration) {
        self.ends.outcome.get_or_insert(outcome);
        let end = Instant::now() + grace;
        self.ends.end_at = Some(self.ends.end_at.map_or(end, |before| before.min(end)));
    }

    /// Handles the loss of an agent, and with it of its tasks.
    fn lose(&mut self, from: usize, why: &str) {
        if std::mem::replace(&mut self.agents[from].ended, true) {
            return;
        }
        let name = self.agents[from].name.clone();
        let words = format!("host {name} is lost: {why}");
        let host = self.host_of(from);
        let tasks: Vec<u32> =
            (0..).zip(&self.placed).filter(|&(_, &at)| Some(at) == host).map(|(task, _)| task).collect();
        for &task in &tasks {
            self.say_all(&Down::News(News::failed(task, Cause::HostLost, words.clone())));
        }
        if !self.ends.goes_on {
            self.end_with(Outcome { exit_code: 1, line: words }, GRACE);
        }
    }

    /// The number of the host of an agent. Agents are started in order for the hosts that have tasks.
    fn host_of(&self, agent: usize) -> Option<u32> {
        let mut hosts = self.placed.clone();
        hosts.dedup();
        hosts.get(agent).copied()
    }

    fn lose_the_silent(&mut self, now: Instant) {
        let is_silent = |agent: &Agent| !agent.ended && now.duration_since(agent.heard_at) >= SILENCE_MAX;
        let silent: Vec<usize> = (0..self.agents.len()).filter(|&at| is_silent(&self.agents[at])).collect();
        for at in silent {
            let _ = self.agents[at].child.kill();
            self.lose(at, &format!("nothing was heard of it for {} seconds", SILENCE_MAX.as_secs()));
        }
    }

    /// Forwards a signal to the tasks. One that ends a job ends it, the second such signal immediately.
    fn pass_on(&mut self, number: i32) {
        if matches!(number, libc::SIGUSR1 | libc::SIGUSR2) {
            return self.say_all(&Down::Signal(number));
        }
        let grace = if std::mem::replace(&mut self.ends.signalled, true) {
            Duration::ZERO
        } else {
            GRACE_AFTER_SIGNAL
        };
        self.say_all(&Down::Signal(number));
        let exit_code = u8::try_from(128 + number).unwrap_or(255);
        self.end_with(Outcome { exit_code, line: format!("ended by {}", signal::name(number)) }, grace);
    }
}

fn code_of(cause: Cause) -> u8 {
    match cause {
        Cause::Exited(code) => u8::try_from(code & 0xff).unwrap_or(1).max(1),
        Cause::Signalled(number) => u8::try_from(128 + number).unwrap_or(255),
        _ => 1,
    }
}
