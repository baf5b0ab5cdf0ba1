//! An agent: the launcher of one host's part of a job, started on that host by the launcher of the whole job.
//!
//! The agent exchanges frames with that launcher over its standard input and output. It sends the output of its tasks, their activity, news
//! of them for the other hosts, and at the end their records. When the input ends, or is silent for longer than the setting
//! `host_silence_seconds_max`, the launcher is gone: the agent then ends its part of the job.

use std::io::{self, Write as _};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::hang::{Symbols, look_at_all};
use super::hub::start_thread;
use super::report::{EndedBy, Report};
use super::uplink::{self, Down, Frame, Part, Up, Uplink};
use super::{Launch, LaunchError, Running, bindings, describe};
use am_via_job::{OwnNews, Recorded};
use am_via_os::clock;

/// Interval at which the agent looks for news in the job's file.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Interval at which the agent tells the launcher what the tasks do.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// If the agent has not listened for this long, it was stopped.
const STOPPED_AFTER: Duration = Duration::from_secs(1);
/// Number of questions about the launcher's clock; the answer that takes the least time is the most precise.
const CLOCK_QUESTIONS: u32 = 8;

/// Runs the part of a job that the launcher at the other end of standard input requests.
///
/// # Errors
/// The launcher sends no valid request, or cannot be told how the part has ended.
pub fn run_agent() -> Result<(), LaunchError> {
    let uplink = Uplink::default();
    let part = match uplink::read::<Down>(&mut io::stdin().lock()) {
        Ok(Some(Frame::Word(Down::Start(part)))) => *part,
        Ok(_) => {
            return Err(LaunchError::system("listening to the launcher")(io::Error::other(
                "its first message does not start a job",
            )));
        }
        Err(error) => return Err(LaunchError::system("listening to the launcher")(error)),
    };
    let (hosts, host) = (part.hosts.clone(), part.host);
    let last = match start(part, &uplink) {
        Ok(running) => ended(&watch(running, &hosts, host, &uplink)),
        Err(error) => Up::NotStarted { exit_code: error.exit_code(), why: error.to_string() },
    };
    uplink.say(&last).map_err(LaunchError::system("telling the launcher"))
}

fn start(part: Part, uplink: &Uplink) -> Result<Running, LaunchError> {
    let own = env!("CARGO_PKG_VERSION");
    if part.version != own {
        let what =
            format!("it is version {}, this host has {own}: install the same on all hosts", part.version);
        return Err(LaunchError::system("listening to the launcher")(io::Error::other(what)));
    }
    let mut launch = Launch::new(part.program, part.args)
        .output_format(part.output)
        .record(part.record)
        .bind(part.bind)
        .processors(part.processors)
        .part_of(part.hosts, part.host, uplink.clone());
    if let Some(dir) = part.output_dir {
        launch = launch.capture(dir);
    }
    for (name, value) in part.env {
        launch = launch.env(name, value);
    }
    if let Some(wdir) = part.wdir {
        launch = launch.wdir(wdir);
    }
    let running = launch.start()?;
    let mut about = String::new();
    if let Some(host) = part.verbose_as {
        about += &format!("amrun: host {host}: {}\n", describe(&running));
    }
    if part.says_bindings {
        about += &bindings(&running);
    }
    if !about.is_empty() {
        // An error means that the launcher is gone, which the agent's watch detects soon.
        let _ = uplink.sinks().stderr.write_all(about.as_bytes());
    }
    Ok(running)
}

fn ended(report: &Result<Report, LaunchError>) -> Up {
    match report {
        Ok(report) => Up::Ended {
            exit_code: report.exit_code(),
            line: report.to_string(),
            ended_by_caller: report.ended_by == Some(EndedBy::Caller),
        },
        Err(error) => Up::NotStarted { exit_code: error.exit_code(), why: error.to_string() },
    }
}

/// Passes the launcher's messages to `tell`, which closes when the launcher is gone.
fn listen(tell: &Sender<Down>) {
    let mut from = io::stdin().lock();
    while let Ok(Some(frame)) = uplink::read::<Down>(&mut from) {
        let Frame::Word(word) = frame else { break };
        if tell.send(word).is_err() {
            break;
        }
    }
}

/// Watches this host's part of the job until the part ends.
fn watch(running: Running, hosts: &[u32], host: u32, uplink: &Uplink) -> Result<Report, LaunchError> {
    let (tell, heard) = mpsc::channel();
    // The thread ends with this process, since a read of standard input can't be interrupted.
    start_thread(move || listen(&tell))?;
    let mut own = OwnNews::new(&running.job, hosts, host);
    let (first, number) = (running.first, super::number_of(&running.tasks));
    let mut symbols = Symbols::default();
    let (mut told_at, mut heard_at) = (None::<Instant>, Instant::now());
    let mut listened_at = heard_at;
    let silence_max = running.silence_max;
    while !running.is_over() {
        let word = hear(&heard, &running);
        // A process that was stopped, perhaps with the whole machine, has heard nothing meanwhile.
        let listened_before = std::mem::replace(&mut listened_at, Instant::now());
        if listened_at.duration_since(listened_before) >= STOPPED_AFTER {
            heard_at = listened_at;
        }
        match word {
            Heard::Something => heard_at = listened_at,
            Heard::Nothing if heard_at.elapsed() < silence_max => {}
            Heard::Nothing | Heard::End => running.end(),
        }
        let mut words: Vec<Up> = own.take().into_iter().map(Up::News).collect();
        if told_at.is_none_or(|at| at.elapsed() >= TELL_EVERY) {
            told_at = Some(Instant::now());
            let tasks = look_at_all(&running.job, first..first + number, Some(&mut symbols));
            words.push(Up::Activities { first, tasks });
        }
        for word in words {
            if uplink.say(&word).is_err() {
                running.end();
            }
        }
    }
    // News from the last moments of the job.
    for news in own.take() {
        let _ = uplink.say(&Up::News(news));
    }
    let mut report = running.wait()?;
    let recorded = (first..).zip(report.recorded.drain(..).skip(first as usize)).take(number as usize);
    // If the launcher is gone, the report cannot reach it either, and [`run_agent`] returns that error.
    let _ = tell_recorded(recorded, &heard, silence_max, uplink);
    Ok(report)
}

/// Sends what the tasks have recorded.
fn tell_recorded(
    recorded: impl Iterator<Item = (u32, Recorded)>,
    heard: &Receiver<Down>,
    silence_max: Duration,
    uplink: &Uplink,
) -> io::Result<()> {
    let mut ahead = None;
    for (task, mut recorded) in recorded {
        if !recorded.events.is_empty() {
            let ahead = match ahead {
                Some(ahead) => ahead,
                None => *ahead.insert(launcher_ahead(heard, silence_max, uplink)?),
            };
            recorded.shift(ahead);
        }
        uplink.say(&Up::Recorded { task, recorded })?;
    }
    Ok(())
}

/// How many nanoseconds the launcher's clock is ahead of this host's; 0 if the launcher does not answer.
fn launcher_ahead(heard: &Receiver<Down>, silence_max: Duration, uplink: &Uplink) -> io::Result<i64> {
    let now = || i64::try_from(clock::monotonic().as_nanos()).unwrap_or(i64::MAX);
    let mut answers = Vec::new();
    for _ in 0..CLOCK_QUESTIONS {
        let asked = now();
        uplink.say(&Up::AskClock)?;
        let answer = loop {
            match heard.recv_timeout(silence_max) {
                Ok(Down::Clock { nanoseconds }) => break i64::try_from(nanoseconds).unwrap_or(i64::MAX),
                Ok(_) => {}
                Err(_) => return Ok(0),
            }
        };
        let took = now() - asked;
        answers.push((took, answer - asked - took / 2));
    }
    Ok(answers.into_iter().min().map_or(0, |(_, ahead)| ahead))
}

enum Heard {
    Something,
    Nothing,
    End,
}

/// Handles the launcher's next message, if one arrives within [`LOOK_EVERY`].
fn hear(heard: &Receiver<Down>, running: &Running) -> Heard {
    match heard.recv_timeout(LOOK_EVERY) {
        Err(RecvTimeoutError::Timeout) => return Heard::Nothing,
        Err(RecvTimeoutError::Disconnected) => {
            // The channel is closed, so `recv_timeout` returns at once.
            thread::sleep(LOOK_EVERY);
            return Heard::End;
        }
        Ok(Down::End | Down::Start(_)) => running.end(),
        Ok(Down::Signal(number)) => running.signal_all(number),
        Ok(Down::Alive | Down::Clock { .. }) => {}
        Ok(Down::News(news)) => running.job.hear(&news),
    }
    Heard::Something
}
