//! The launcher of a job of several hosts: starts an agent on each host, passes the agents' notices on to each other, and ends the job
//! when a part of it fails.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use super::agent_message::{AgentMessage, Part};
use super::end_request::SIGNALS;
use super::hang::{Activity, HostsActivity};
use super::hosts::{self, Host};
use super::output::Sinks;
use super::report::{of_signal, words_for_closed_output};
use super::{Launch, LaunchError, Output, number_of, program};
use am_via_job::settings::{Settings, Table};
use am_via_job::{
    Bus, BusEvent, Cause, Failure, JobNotice, Message, Record, Recorded, is_named_like_a_setting,
};
use am_via_os::clock;
use am_via_os::signal::{self, SignalFd};

/// Longest wait for a message before the launcher checks signals, its guard and the time.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long the tasks may continue after a failure, and after a signal, before the job is ended.
const GRACE: Duration = Duration::from_secs(1);
const GRACE_AFTER_SIGNAL: Duration = Duration::from_secs(3);
/// How long the agents may take to end their parts.
const END_WITHIN: Duration = Duration::from_secs(10);

/// Where a job of several hosts runs ([`run`](Self::run)).
#[derive(Clone, Debug)]
pub struct Hosts {
    /// The hosts with the numbers of their tasks ([`fit_hosts`](super::fit_hosts)), in the order in which they take tasks.
    pub hosts: Vec<Host>,
    /// The command that starts another command on a host: the host's name and that command are appended to it. Its words are separated by
    /// spaces. Empty: `ssh`.
    pub launch_agent: String,
    /// Whether to print a line for each task with the processors that it may run on.
    pub says_bindings: bool,
    /// Whether to print a line about the tasks of each host.
    pub verbose: bool,
}

/// The end of a job of several hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The exit code with which the launcher ends: the same as that of a job on one host.
    pub exit_code: u8,
    /// A line for a person; empty if all went well.
    pub line: String,
    /// The record of each task, task 0 first, with times of this host's clock; empty if none was requested. The record of a task whose host
    /// was lost is empty.
    pub recorded: Vec<Recorded>,
    /// The host of each task.
    pub hosts: Vec<String>,
}

/// Whether a variable is passed to all hosts: it is a setting, is one of libfabric, OpenMP, OpenSHMEM or Rust, or is a search path of
/// programs or libraries.
fn is_for_all_hosts(name: &str) -> bool {
    const BEGINNINGS: [&str; 5] = ["FI_", "OMP_", "RUST_", "SHMEM_", "LD_LIBRARY_"];
    name == "PATH"
        || is_named_like_a_setting(name)
        || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

/// This job as all hosts get it, wherever an agent starts: with this process's variables for all hosts, and with absolute paths.
fn for_all_hosts(launch: &Launch, program: &Path) -> Result<Launch, LaunchError> {
    let here = std::env::current_dir().map_err(LaunchError::system("asking for this directory"))?;
    let own = std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_for_all_hosts));
    let output = match &launch.output {
        Output::Capture { dir } => Output::Capture { dir: here.join(dir).into() },
        forward => forward.clone(),
    };
    Ok(Launch {
        program: here.join(program).into(),
        wdir: Some(here.join(launch.directory().unwrap_or(&here)).into()),
        env: own.chain(launch.env.iter().cloned()).collect(),
        output,
        ..launch.clone()
    })
}

#[derive(Debug)]
struct Agent {
    name: String,
    child: Child,
    ended: bool,
}

impl Hosts {
    /// Runs a job on these hosts, and cleans up after it. The number of tasks and of the processors that `launch` names are those of each
    /// host; its tasks read nothing. The calling process must exist for this job alone ([`Launch::own_process`]).
    ///
    /// # Errors
    /// The program does not exist or cannot be executed; an agent cannot be started.
    pub fn run(&self, launch: &Launch) -> Result<Outcome, LaunchError> {
        let placed = hosts::place(&self.hosts);
        let program = program::find(&launch.program, launch.directory())?;
        let signals = SignalFd::block(&SIGNALS).map_err(LaunchError::system("taking over signals"))?;
        let (tell_closed, closed) = mpsc::channel();
        let names: Vec<String> = placed.iter().map(|&host| self.hosts[host as usize].name.clone()).collect();
        let silence_max = Settings::from_variables(|name| launch.variable(name))?.host_silence_max();
        let is_recorded = launch.record != Record::Nothing;
        let mut job = Hub {
            agents: BTreeMap::new(),
            bus: Bus::centre(&placed, None, "its agent", silence_max),
            placed: placed.clone(),
            ends: Ends { goes_on: launch.keeps_going, ..Ends::default() },
            guard: launch.own_process.unwrap_or_else(std::os::unix::process::parent_id),
            deadline: launch.timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            stopped_at: None,
            silence_max,
            recorded: if is_recorded { vec![Recorded::default(); placed.len()] } else { Vec::new() },
            doing: HostsActivity::new(names.clone(), launch.hang_reports.unwrap_or_default()),
        };
        let launch = for_all_hosts(launch, &program)?;
        for (number, host) in (0..).zip(&self.hosts) {
            if placed.contains(&number) {
                let launch = launch.clone().part_of(placed.clone(), number);
                let agent = self.start_agent(host, launch, &mut job.bus, &tell_closed)?;
                job.agents.insert(number, agent);
            } else {
                tracing::debug!(host = host.name, "no task runs there");
            }
        }
        let Ending { exit_code, line } = job.watch(&closed, &signals);
        Ok(Outcome { exit_code, line, recorded: job.recorded, hosts: names })
    }

    /// Starts the agent that runs this part, and connects it to the bus. `tell_closed` gets the system's error number if standard output
    /// can't be written.
    fn start_agent(
        &self,
        host: &Host,
        launch: Launch,
        bus: &mut Bus<AgentMessage>,
        tell_closed: &Sender<i32>,
    ) -> Result<Agent, LaunchError> {
        let own =
            std::fs::read_link("/proc/self/exe").map_err(LaunchError::system("finding this program"))?;
        let mut words = self.launch_agent.split_whitespace();
        let agent = words.next().unwrap_or("ssh");
        let is_ssh = matches!(agent.rsplit('/').next(), Some("ssh" | "rsh"));
        let own = if is_ssh { for_a_shell(own.into_os_string()) } else { own.into_os_string() };
        let mut command = Command::new(agent);
        command.args(words).arg(&host.name).arg(own).arg("--agent");
        // A terminal's Ctrl-C is for the launcher, which forwards it.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let failed = |source: io::Error| {
            let what = format!("{} for host {}: {source}", self.launch_agent, host.name);
            LaunchError::system("starting an agent")(io::Error::other(what))
        };
        let mut child = command.spawn().map_err(failed)?;
        let pipes = child.stdout.take().zip(child.stdin.take()).expect("both were asked for");
        let number = launch.host;
        let output = output_of_tasks(launch.output_is_closed, tell_closed.clone());
        bus.add(number, pipes, output).map_err(failed)?;
        let part = Part {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            launch,
            says_bindings: self.says_bindings,
            verbose_as: self.verbose.then(|| host.name.clone()),
        };
        bus.send(number, AgentMessage::Start(Box::new(part)).into());
        Ok(Agent { name: host.name.clone(), child, ended: false })
    }
}

/// Writes the output of an agent's tasks, and returns all other messages.
fn output_of_tasks(
    is_closed: bool,
    tell_closed: Sender<i32>,
) -> impl FnMut(Message<AgentMessage>) -> Option<Message<AgentMessage>> {
    let mut sinks = Sinks::of_this_process(is_closed);
    let mut is_broken = false;
    move |message| {
        match message {
            Message::Output(_) if is_broken => {}
            Message::Output(bytes) => {
                if let Err(error) = sinks.stdout.write_all(&bytes).and_then(|()| sinks.stdout.flush()) {
                    is_broken = true;
                    // Without a receiver, the launcher ends.
                    let _ = tell_closed.send(error.raw_os_error().unwrap_or(libc::EIO));
                }
            }
            // If standard error is closed, that can't be reported anywhere.
            Message::Errors(bytes) => {
                drop(sinks.stderr.write_all(&bytes).and_then(|()| sinks.stderr.flush()))
            }
            other => return Some(other),
        }
        None
    }
}

/// A word as a shell has to get it: ssh passes its arguments to a shell on the host, separated by spaces.
fn for_a_shell(word: OsString) -> OsString {
    let is_safe = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+=:,@%".contains(byte);
    if word.as_bytes().iter().all(is_safe) {
        return word;
    }
    let mut quoted = vec![b'\''];
    for &byte in word.as_bytes() {
        match byte {
            b'\'' => quoted.extend(b"'\\''"),
            other => quoted.push(other),
        }
    }
    quoted.push(b'\'');
    OsString::from_vec(quoted)
}

/// The exit code of the job, and the line about its end.
#[derive(Debug, Default)]
struct Ending {
    exit_code: u8,
    line: String,
}

/// Why and when the job ends.
#[derive(Debug, Default)]
struct Ends {
    /// The first reason to end the job.
    first: Option<Ending>,
    /// The ends of the hosts' agents, in this order; used if `first` is `None`.
    of_agents: Vec<(u32, Ending)>,
    /// The host of the task that failed first. Its agent's report about the end, which is more precise, replaces `first`.
    first_failed: Option<u32>,
    /// The host of the task that failed first while the program went on.
    first_passed: Option<u32>,
    end_at: Option<Instant>,
    kill_at: Option<Instant>,
    goes_on: bool,
    signalled: bool,
}

impl Ends {
    /// The end of the job. If nothing ended it early, its code is that of a job on one host: that of the first failure; or 0, if the
    /// program went on and a task exited with 0, for which its agent ends with 0.
    fn ending(mut self) -> Ending {
        if let Some(first) = self.first {
            return first;
        }
        let of_first = |&(of, _): &(u32, Ending)| self.first_passed == Some(of);
        let has_failed = |(_, ending): &(u32, Ending)| ending.exit_code != 0;
        let at = self.of_agents.iter().position(|of| of_first(of) && has_failed(of));
        let at = at.or_else(|| self.of_agents.iter().position(has_failed));
        let is_well = self.goes_on && self.of_agents.iter().any(|(_, ending)| ending.exit_code == 0);
        let said = self.of_agents.iter().position(|(_, ending)| !ending.line.is_empty());
        let Some(at) = at.or(said) else { return Ending::default() };
        let (_, ending) = self.of_agents.swap_remove(at);
        if is_well { Ending { exit_code: 0, ..ending } } else { ending }
    }
}

#[derive(Debug)]
struct Hub {
    /// By the numbers of their hosts.
    agents: BTreeMap<u32, Agent>,
    bus: Bus<AgentMessage>,
    /// The host of each task.
    placed: Vec<u32>,
    ends: Ends,
    guard: u32,
    /// The time limit's end.
    deadline: Option<Instant>,
    /// Since when the job is stopped (SIGTSTP). Meanwhile its time does not run.
    stopped_at: Option<Instant>,
    /// An agent takes a launcher that is silent for this long for gone.
    silence_max: Duration,
    recorded: Vec<Recorded>,
    doing: HostsActivity,
}

impl Hub {
    /// Watches the job to its end. `closed`: the system's error number, if standard output can't be written.
    fn watch(&mut self, closed: &Receiver<i32>, signals: &SignalFd) -> Ending {
        while self.agents.values().any(|agent| !agent.ended) {
            if let Some((from, event)) = self.bus.poll(LOOK_EVERY) {
                self.handle(from, event);
            }
            if let Ok(number) = closed.try_recv() {
                self.end_unwritten(number);
            }
            while let Some(received) = signals.next() {
                self.pass_on(received.signal);
            }
            let parent = std::os::unix::process::parent_id();
            if std::mem::replace(&mut self.guard, parent) != parent {
                let line = "ended because the first amrun process is gone".to_owned();
                self.end_with(Ending { exit_code: 137, line }, Duration::ZERO);
            }
            self.look_at_the_clock(Instant::now());
        }
        for agent in self.agents.values_mut() {
            // The agent's last message has arrived by now, so a kill loses nothing.
            let _ = agent.child.kill();
            let _ = agent.child.wait();
        }
        std::mem::take(&mut self.ends).ending()
    }

    fn look_at_the_clock(&mut self, now: Instant) {
        let is_stopped = self.stopped_at.is_some();
        let is_late = self.deadline.is_some_and(|deadline| now >= deadline) && !is_stopped;
        if is_late && self.ends.first.is_none() {
            self.doing.print();
            let line = "the time limit was reached while the job still ran".to_owned();
            self.end_with(Ending { exit_code: 124, line }, Duration::ZERO);
        }
        if self.ends.end_at.is_none() && self.ends.kill_at.is_none() && !is_stopped {
            self.doing.look();
        }
        if self.ends.end_at.is_some_and(|end| now >= end) {
            self.ends.end_at = None;
            self.ends.kill_at = Some(now + END_WITHIN);
            self.send_all(AgentMessage::End);
        }
        if self.ends.kill_at.is_some_and(|kill| now >= kill) {
            self.ends.kill_at = None;
            let mut stuck = Vec::new();
            for (&host, agent) in self.agents.iter_mut().filter(|(_, agent)| !agent.ended) {
                // The agent's reader notices the end, unless it can't write output. `kill` fails only if the agent has already ended.
                let _ = agent.child.kill();
                stuck.extend(self.bus.is_busy(host).then_some(host));
            }
            stuck.into_iter().for_each(|host| self.lose(host, "the output of its tasks is not read"));
        }
    }

    fn send_all(&mut self, message: AgentMessage) {
        self.bus.send_all(&message.into());
    }

    fn handle(&mut self, from: u32, event: BusEvent<AgentMessage>) {
        match event {
            BusEvent::Lost(why) => self.lose(from, &why),
            BusEvent::Notice(JobNotice::Failed { task, kind, value, words }) => {
                self.note_failure(from, task, Cause::decode(kind, value), &words);
            }
            BusEvent::Notice(JobNotice::GoesOn(goes_on)) => self.ends.goes_on = goes_on,
            BusEvent::Notice(JobNotice::Address { .. } | JobNotice::NeverJoined { .. }) => {}
            BusEvent::Own(message) => self.handle_message(from, message),
        }
    }

    fn handle_message(&mut self, from: u32, message: AgentMessage) {
        match message {
            AgentMessage::AskClock => {
                let nanoseconds = u64::try_from(clock::monotonic().as_nanos()).unwrap_or(u64::MAX);
                self.bus.send(from, AgentMessage::Clock { nanoseconds }.into());
            }
            AgentMessage::Recorded { task, recorded } if self.are_of(from, task..task.saturating_add(1)) => {
                if let Some(known) = self.recorded.get_mut(task as usize) {
                    *known = recorded;
                }
            }
            AgentMessage::Activities { first, tasks }
                if self.are_of(from, first..first.saturating_add(number_of(&tasks))) =>
            {
                self.doing.store(first, tasks);
            }
            AgentMessage::Ended { exit_code, line, ended_by_caller } => {
                self.note_end(from);
                if self.ends.first_failed == Some(from) && !ended_by_caller {
                    self.ends.first = Some(Ending { exit_code, line });
                } else if ended_by_caller && self.ends.first.is_none() {
                    let line = format!(
                        "host {} heard nothing from amrun for {} seconds and ended its tasks",
                        self.name_of(from),
                        self.silence_max.as_secs()
                    );
                    self.end_with(Ending { exit_code, line }, Duration::ZERO);
                } else if !ended_by_caller {
                    self.ends.of_agents.push((from, Ending { exit_code, line }));
                }
            }
            AgentMessage::NotStarted { exit_code, why } => {
                self.note_end(from);
                let line = format!("host {}: {why}", self.name_of(from));
                self.end_with(Ending { exit_code, line }, Duration::ZERO);
            }
            wrong => tracing::warn!(host = from, ?wrong, "a message that no agent may send is dropped"),
        }
    }

    /// Whether all of these tasks are on this host.
    fn are_of(&self, host: u32, mut tasks: Range<u32>) -> bool {
        tasks.all(|task| self.placed.get(task as usize) == Some(&host))
    }

    fn name_of(&self, host: u32) -> &str {
        self.agents.get(&host).map_or("", |agent| &agent.name)
    }

    /// Records a failure. The first failure determines the outcome of the job, and ends the job after [`GRACE`] unless the program goes on.
    fn note_failure(&mut self, from: u32, task: u32, cause: Cause, words: &str) {
        if self.ends.goes_on {
            self.ends.first_passed.get_or_insert(from);
            return;
        }
        if self.ends.first.is_some() {
            return;
        }
        self.ends.first_failed = Some(from);
        let failure = Failure { task, cause, last_words: words.to_owned() };
        self.end_with(Ending { exit_code: code_of(cause), line: failure.to_string() }, GRACE);
    }

    fn end_with(&mut self, ending: Ending, grace: Duration) {
        self.go_on();
        self.ends.first.get_or_insert(ending);
        let end = Instant::now() + grace;
        self.ends.end_at = Some(self.ends.end_at.map_or(end, |before| before.min(end)));
    }

    /// Ends the job since its output can't be written, as on one host.
    fn end_unwritten(&mut self, number: i32) {
        self.send_all(AgentMessage::Signal(libc::SIGTERM));
        let exit_code = of_signal(libc::SIGPIPE);
        self.end_with(Ending { exit_code, line: words_for_closed_output(number) }, GRACE);
    }

    /// Records that the agent of a host and its tasks have ended.
    fn note_end(&mut self, host: u32) {
        if let Some(agent) = self.agents.get_mut(&host) {
            agent.ended = true;
        }
        for (task, _) in (0..).zip(&self.placed).filter(|&(_, &at)| at == host) {
            self.doing.store(task, vec![Activity::Ended]);
        }
    }

    /// Handles the loss of a host's agent and its tasks.
    fn lose(&mut self, host: u32, why: &str) {
        let Some(agent) = self.agents.get_mut(&host).filter(|agent| !agent.ended) else { return };
        let _ = agent.child.kill();
        let words = format!("host {} is lost: {why}", agent.name);
        self.note_end(host);
        self.bus.lose(host, &words);
        let ending = Ending { exit_code: 1, line: words };
        if self.ends.goes_on {
            self.ends.first_passed.get_or_insert(host);
            self.ends.of_agents.push((host, ending));
        } else {
            self.end_with(ending, GRACE);
        }
    }

    /// Lets stopped tasks go on.
    fn go_on(&mut self) {
        let Some(stopped_at) = self.stopped_at.take() else { return };
        if let Some(deadline) = &mut self.deadline {
            *deadline += stopped_at.elapsed();
        }
        self.doing.put_off();
        self.send_all(AgentMessage::Signal(libc::SIGCONT));
    }

    /// Forwards a signal to the tasks; SIGTSTP as SIGSTOP. SIGUSR2 also prints a report. A signal other than these, SIGUSR1 and SIGCONT
    /// also ends the job: the first one after a grace period, the second one at once.
    fn pass_on(&mut self, number: i32) {
        match number {
            // The tasks are in no process group of this host's terminal.
            libc::SIGTSTP => {
                self.send_all(AgentMessage::Signal(libc::SIGSTOP));
                self.stopped_at.get_or_insert_with(Instant::now);
                return;
            }
            libc::SIGCONT => return self.go_on(),
            _ => {}
        }
        if matches!(number, libc::SIGUSR1 | libc::SIGUSR2) {
            if number == libc::SIGUSR2 {
                self.doing.print();
            }
            return self.send_all(AgentMessage::Signal(number));
        }
        let grace = if std::mem::replace(&mut self.ends.signalled, true) {
            Duration::ZERO
        } else {
            GRACE_AFTER_SIGNAL
        };
        self.send_all(AgentMessage::Signal(number));
        let exit_code = u8::try_from(128 + number).unwrap_or(255);
        self.end_with(Ending { exit_code, line: format!("ended by {}", signal::name(number)) }, grace);
    }
}

fn code_of(cause: Cause) -> u8 {
    match cause {
        Cause::Exited(code) => u8::try_from(code & 0xff).unwrap_or(1).max(1),
        Cause::Signalled(number) => u8::try_from(128 + number).unwrap_or(255),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn settings_of_every_name_reach_all_hosts() {
        for name in ["AM_SPIN_POLLS_MAX", "MPI_EAGER_LIMIT", "LAM_MPI_X", "FI_PROVIDER", "PATH"] {
            assert!(is_for_all_hosts(name), "{name}");
        }
        for name in ["HOME", "SSH_AUTH_SOCK", "MPIR_X", "XPATH"] {
            assert!(!is_for_all_hosts(name), "{name}");
        }
    }

    /// A job of three hosts that goes on: the order in which the agents end has no effect.
    #[test]
    fn a_job_that_goes_on_has_the_code_of_the_first_failure_unless_a_task_has_ended_well() {
        let ending = |exit_code: u8| Ending { exit_code, line: format!("code {exit_code}") };
        for (codes, first_passed, wanted) in [
            ([3, 5, 7], Some(1), 5),
            ([3, 5, 7], Some(2), 7),
            // The host of the first failure has another task, which has ended well.
            ([3, 0, 7], Some(1), 0),
            ([3, 5, 0], Some(0), 0),
            ([0, 0, 0], None, 0),
        ] {
            for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
                let of_agents =
                    order.into_iter().map(|agent| (agent, ending(codes[agent as usize]))).collect();
                let ends = Ends { of_agents, first_passed, goes_on: true, ..Ends::default() };
                assert_eq!(ends.ending().exit_code, wanted, "{codes:?} in order {order:?}");
            }
        }
        // Without going on, one failed agent is enough.
        let of_agents = vec![(0, ending(0)), (1, ending(4))];
        assert_eq!(Ends { of_agents, ..Ends::default() }.ending().exit_code, 4);
        let first = Some(ending(9));
        let of_agents = vec![(0, ending(0))];
        assert_eq!(Ends { of_agents, first, goes_on: true, ..Ends::default() }.ending().exit_code, 9);
    }

    #[test]
    fn a_shell_gets_back_the_word() {
        for word in ["/usr/bin/amrun-1.0", "/opt/my mpi/it's \"$HOME\" `x`/amrun", "a\\b;c"] {
            let command = format!("printf %s {}", for_a_shell(word.into()).to_str().unwrap());
            let output = Command::new("sh").args(["-c", &command]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), word);
        }
        assert_eq!(for_a_shell("/usr/bin/amrun".into()), "/usr/bin/amrun");
    }

    fn host() -> Host {
        Host::with_slots("a", 1)
    }

    #[test]
    fn an_agent_that_does_not_read_does_not_hold_up_its_launcher() {
        let (done, end) = mpsc::channel();
        thread::spawn(move || {
            // The agent has `${IFS}` for spaces, which would separate its words.
            let launch_agent = "sh -c exec${IFS}sleep${IFS}1000".to_owned();
            let hosts = Hosts { hosts: vec![host()], launch_agent, says_bindings: false, verbose: false };
            // More than a pipe holds.
            let launch = Launch::new("true", ["x".repeat(1 << 20)]).part_of(vec![0], 0);
            let mut bus = Bus::centre(&[0], None, "its agent", Duration::from_secs(60));
            let mut agent = hosts.start_agent(&host(), launch, &mut bus, &mpsc::channel().0).unwrap();
            bus.send_all(&Message::Alive);
            let _ = agent.child.kill();
            let _ = agent.child.wait();
            done.send(()).unwrap();
        });
        end.recv_timeout(Duration::from_secs(60))
            .expect("the launcher waits for an agent that does not read");
    }
}
