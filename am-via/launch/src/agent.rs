//! The agent: the launcher of one host's part of a job, which another launcher has started there.
//!
//! It speaks frames with that launcher over its standard input and output, and says all of its host's tasks that other hosts must know.
//! When the launcher is gone, so is the part of the job: the input has ended, or said nothing for [`SILENCE_MAX`].

use std::io::{self, Write as _};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::report::{EndedBy, Report};
use super::uplink::{self, Down, Frame, Part, Up, Uplink};
use super::{Bind, Launch, LaunchError, Running, bindings};
use am_via_job::OwnNews;

/// How often the job's file is looked at for news, and the launcher is told that this agent lives.
const LOOK_EVERY: Duration = Duration::from_millis(5);
const ALIVE_EVERY: Duration = Duration::from_secs(1);
/// A launcher that says nothing for so long is gone.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Runs the part of a job that the launcher at the other end of the standard input names.
///
/// # Errors
/// The launcher says nothing that an agent understands.
pub fn run_agent() -> Result<(), LaunchError> {
    let uplink = Uplink::default();
    let part = match uplink::read::<Down>(&mut io::stdin().lock()) {
        Ok(Some(Frame::Word(Down::Start(part)))) => *part,
        Ok(_) => {
            return Err(LaunchError::system("listening to the launcher")(io::Error::other(
                "it does not start a job",
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
            format!("it is version {}, and this is {own}: install the same on all hosts", part.version);
        return Err(LaunchError::system("listening to the launcher")(io::Error::other(what)));
    }
    let mut launch = Launch::new(part.program, part.args)
        .output_format(part.output)
        .bind(if part.bind_core { Bind::Core } else { Bind::None })
        .part_of(part.hosts, part.host, uplink.clone());
    for (name, value) in part.env {
        launch = launch.env(name, value);
    }
    if let Some(wdir) = part.wdir {
        launch = launch.wdir(wdir);
    }
    let running = launch.start()?;
    if part.says_bindings {
        // The launcher may be gone, which is seen later.
        let _ = uplink.sinks().stderr.write_all(bindings(&running).as_bytes());
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

/// Hears what the launcher says; the end of the channel is that of the launcher.
fn listen(tell: &Sender<Down>) {
    let mut from = io::stdin().lock();
    while let Ok(Some(frame)) = uplink::read::<Down>(&mut from) {
        let Frame::Word(word) = frame else { break };
        if tell.send(word).is_err() {
            break;
        }
    }
}

/// Watches the part of the job to its end.
fn watch(running: Running, hosts: &[u32], host: u32, uplink: &Uplink) -> Result<Report, LaunchError> {
    let (tell, heard) = mpsc::channel();
    // It ends with this process: nothing ends a read of the standard input.
    thread::spawn(move || listen(&tell));
    let mut own = OwnNews::new(&running.job, hosts, host);
    let (mut said_at, mut heard_at) = (Instant::now(), Instant::now());
    while !running.is_over() {
        match hear(&heard, &running) {
            Heard::Something => heard_at = Instant::now(),
            Heard::Nothing if heard_at.elapsed() < SILENCE_MAX => {}
            Heard::Nothing | Heard::End => running.end(),
        }
        let mut news: Vec<Up> = own.take().into_iter().map(Up::News).collect();
        if said_at.elapsed() >= ALIVE_EVERY {
            news.push(Up::Alive);
        }
        for word in news {
            said_at = Instant::now();
            if uplink.say(&word).is_err() {
                running.end();
            }
        }
    }
    // What the end itself has brought.
    for news in own.take() {
        let _ = uplink.say(&Up::News(news));
    }
    running.wait()
}

enum Heard {
    Something,
    Nothing,
    End,
}

/// Does what the launcher says next, if it says something soon.
fn hear(heard: &Receiver<Down>, running: &Running) -> Heard {
    match heard.recv_timeout(LOOK_EVERY) {
        Err(RecvTimeoutError::Timeout) => return Heard::Nothing,
        Err(RecvTimeoutError::Disconnected) => {
            // The answer comes at once from now on.
            thread::sleep(LOOK_EVERY);
            return Heard::End;
        }
        Ok(Down::End | Down::Start(_)) => running.end(),
        Ok(Down::Signal(number)) => running.signal_all(number),
        Ok(Down::Alive) => {}
        Ok(Down::News(news)) => running.job.hear(&news),
    }
    Heard::Something
}
