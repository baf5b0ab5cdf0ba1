//! An agent: the launcher of one host's part of a job, started on that host by the launcher of the whole job.
//!
//! The agent exchanges messages with that launcher over its standard input and output. It sends the output of its tasks, their activity,
//! notices about them for the other hosts, and at the end their records. When the input ends, or is silent for longer than the setting
//! `host_silence_seconds_max`, the launcher is gone: the agent then ends its part of the job.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::agent_message::{AgentMessage, Part, sinks};
use super::hang::{Symbols, look_at_all};
use super::report::{EndedBy, Report};
use super::spawn::TaskProcess;
use super::{LaunchError, Prepared, bindings_of, description, number_of};
use am_via_job::{Bus, BusEvent, JobOwner, Message, Outgoing, Recorded};
use am_via_os::clock;

/// Interval at which the agent tells the launcher what the tasks do.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// Number of questions about the launcher's clock; the answer that takes the least time is the most precise.
const CLOCK_QUESTIONS: u32 = 8;
/// Longest wait for an answer before the agent reports again that it is alive.
const ANSWER_LOOK_EVERY: Duration = Duration::from_millis(100);

/// Runs the part of a job that the launcher at the other end of standard input requests.
///
/// # Errors
/// The launcher sends no valid request, or cannot be told how the part has ended.
pub fn run_agent() -> Result<(), LaunchError> {
    let wrong = || io::Error::other("its first message does not start a job");
    let part = match Message::read(&mut io::stdin()) {
        Ok(Some(Message::Own(AgentMessage::Start(part)))) => Ok(*part),
        Ok(_) => Err(wrong()),
        Err(error) => Err(error),
    };
    let Part { version, launch, says_bindings, verbose_as } =
        part.map_err(LaunchError::system("listening to the launcher"))?;
    let own = env!("CARGO_PKG_VERSION");
    let prepared = if version == own {
        launch.prepare()
    } else {
        let what = format!("it is version {version}, this host has {own}: install the same on all hosts");
        Err(LaunchError::system("listening to the launcher")(io::Error::other(what)))
    };
    let about = |first, tasks: &[TaskProcess]| {
        let described = verbose_as.map(|host| format!("amrun: host {host}: {}\n", description(tasks)));
        described.into_iter().chain(says_bindings.then(|| bindings_of(first, tasks))).collect()
    };
    let told = match prepared {
        Err(error) => Message::from(not_started(&error)).write(&mut io::stdout()),
        Ok(prepared) => run(prepared, about),
    };
    told.map_err(LaunchError::system("telling the launcher"))
}

/// Runs the tasks, and tells the launcher about them. `about`: what the user has asked to be told about the tasks from this one on.
fn run(prepared: Prepared, about: impl FnOnce(u32, &[TaskProcess]) -> String) -> io::Result<()> {
    let (silence_max, host) = (prepared.silence_max, prepared.launch.host);
    let hosts = prepared.launch.hosts.clone();
    let mut bus = Bus::to_centre(&hosts, host, "the launcher", (io::stdin(), io::stdout()), silence_max)?;
    let out = bus.outgoing().expect("an agent is connected to the launcher");
    let last = match supervise(prepared, about, &mut bus, &out) {
        Ok(mut report) => {
            let recorded = (0..).zip(std::mem::take(&mut report.recorded));
            let own = recorded.filter(|&(task, _)| hosts.get(task as usize) == Some(&host));
            send_recorded(own, &mut bus, &out, silence_max);
            AgentMessage::Ended {
                exit_code: report.exit_code(),
                line: report.to_string(),
                ended_by_caller: report.ended_by == Some(EndedBy::Caller),
            }
        }
        Err(error) => not_started(&error),
    };
    out.send(last.into());
    drop(out);
    bus.leave()
}

fn not_started(error: &LaunchError) -> AgentMessage {
    AgentMessage::NotStarted { exit_code: error.exit_code(), why: error.to_string() }
}

/// Starts the tasks and watches them to their end. Meanwhile a thread tells the launcher what they do, since it may take long to find the
/// names of the functions in which they wait.
fn supervise(
    prepared: Prepared,
    about: impl FnOnce(u32, &[TaskProcess]) -> String,
    bus: &mut Bus<AgentMessage>,
    out: &Outgoing<AgentMessage>,
) -> Result<Report, LaunchError> {
    let (job, first) = (Arc::clone(&prepared.job), prepared.launch.first);
    thread::scope(|scope| {
        let (stop, stopped) = mpsc::channel();
        let started = |tasks: &Arc<[TaskProcess]>| {
            let about = about(first, tasks);
            if !about.is_empty() {
                // An error means that the launcher is gone, which the supervisor detects soon.
                let _ = sinks().stderr.write_all(about.as_bytes());
            }
            let own = first..first + number_of(tasks);
            let told =
                thread::Builder::new().spawn_scoped(scope, move || tell_activities(&job, own, out, &stopped));
            if let Err(error) = told {
                tracing::warn!(%error, "the launcher is not told what the tasks do");
            }
        };
        let report = prepared.run(Some(bus), started);
        drop(stop);
        report
    })
}

/// Tells the launcher what the tasks do, until the sender of `stopped` is gone.
fn tell_activities(job: &JobOwner, own: Range<u32>, out: &Outgoing<AgentMessage>, stopped: &Receiver<()>) {
    let mut symbols = Symbols::default();
    loop {
        // Reports for a launcher that does not read would take ever more memory.
        if out.is_idle() {
            let tasks = look_at_all(job, own.clone(), Some(&mut symbols));
            out.send(AgentMessage::Activities { first: own.start, tasks }.into());
        }
        if stopped.recv_timeout(TELL_EVERY) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// Sends what the tasks have recorded, with times of the launcher's clock.
fn send_recorded(
    all: impl Iterator<Item = (u32, Recorded)>,
    bus: &mut Bus<AgentMessage>,
    out: &Outgoing<AgentMessage>,
    silence_max: Duration,
) {
    let mut ahead = None;
    for (task, mut recorded) in all {
        if !recorded.events.is_empty() {
            recorded.shift(*ahead.get_or_insert_with(|| launcher_ahead(bus, out, silence_max)));
        }
        out.send(AgentMessage::Recorded { task, recorded }.into());
    }
}

/// How many nanoseconds the launcher's clock is ahead of this host's; 0 if the launcher does not answer.
fn launcher_ahead(bus: &mut Bus<AgentMessage>, out: &Outgoing<AgentMessage>, silence_max: Duration) -> i64 {
    let now = || i64::try_from(clock::monotonic().as_nanos()).unwrap_or(i64::MAX);
    let mut answers = Vec::new();
    for _ in 0..CLOCK_QUESTIONS {
        let (asked, until) = (now(), Instant::now() + silence_max);
        out.send(AgentMessage::AskClock.into());
        let answer = loop {
            match bus.poll(ANSWER_LOOK_EVERY) {
                Some((_, BusEvent::Own(AgentMessage::Clock { nanoseconds }))) => {
                    break i64::try_from(nanoseconds).unwrap_or(i64::MAX);
                }
                Some((_, BusEvent::Lost(_))) => return 0,
                _ if Instant::now() >= until => return 0,
                _ => {}
            }
        };
        let took = now() - asked;
        answers.push((took, answer - asked - took / 2));
    }
    answers.into_iter().min().map_or(0, |(_, ahead)| ahead)
}
