//! The suite in two processes, over shared memory or over the network. The program is started again as the tasks of a job.
//!
//! The tasks communicate through the process that started them, over an abstract socket. That process receives the verdict of each check,
//! so it knows which check hangs or has ended its process, and continues with the next check.

use am_via_vipl::open_nic;
use std::io::{self, BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use am_via::Task;
use am_via_launch::{Launch, Running};
use am_via_nic::device::shm::Shm;

use super::line::{Line, Word};
use super::pair::{DIES_AFTER, Opener, Outcome, Pair, Side};
use super::{Terms, Verdicts, add, checks, session};

/// Time limit of a check, far above the waits inside it.
const HANGS_AFTER: Duration = Duration::from_secs(120);

/// Runs the named checks over a device.
pub(super) fn run(
    device: &'static str,
    names: &[&str],
    terms: Terms,
    said: &mut dyn FnMut(&str),
) -> io::Result<Verdicts> {
    let chosen: Vec<_> =
        checks::all::<Shm>().into_iter().filter(|check| names.contains(&check.name)).collect();
    let mut verdicts = Verdicts::new();
    let together: Vec<_> =
        chosen.iter().filter(|check| check.needs.is_nothing()).map(|check| check.name).collect();
    let mut left = &together[..];
    while !left.is_empty() {
        let done = run_job(device, left, terms, &mut verdicts, said)?;
        left = &left[done.max(1)..];
    }
    // A check that ends with a death runs in its own job.
    for check in chosen.iter().filter(|check| check.needs.is_death()) {
        run_job(device, &[check.name], terms, &mut verdicts, said)?;
    }
    Ok(verdicts)
}

/// Runs one job until it ends or hangs. Returns the number of checks that were run, including one that ended the job.
fn run_job(
    device: &'static str,
    names: &[&str],
    terms: Terms,
    verdicts: &mut Verdicts,
    said: &mut dyn FnMut(&str),
) -> io::Result<usize> {
    let job = start(device, names, terms)?;
    let mut done = 0;
    for &name in names {
        said(&format!("{device}   {name}"));
        let needs_death = is_death(name);
        // A task that dies sends no verdict.
        let mut missing = if needs_death { 1 } else { 2 };
        done += 1;
        while missing > 0 {
            match job.said.recv_timeout(HANGS_AFTER) {
                Ok((check, failure)) => {
                    add(verdicts, &check, failure);
                    missing -= usize::from(check == name);
                }
                Err(why) => {
                    let why = match why {
                        RecvTimeoutError::Timeout => "it hangs",
                        RecvTimeoutError::Disconnected => "its process has died",
                    };
                    add(verdicts, name, Some(why.to_owned()));
                    return Ok(done);
                }
            }
        }
    }
    // The tasks have no checks left; how they end is not part of any check.
    drop(job);
    Ok(done)
}

fn is_death(name: &str) -> bool {
    checks::all::<Shm>().iter().any(|check| check.name == name && check.needs.is_death())
}

/// The two tasks of a job. Dropping the value ends them.
struct Job {
    said: Receiver<(String, Option<String>)>,
    _running: Running,
}

fn start(device: &str, names: &[&str], terms: Terms) -> io::Result<Job> {
    let name = format!("am-conform-{}-{:x}", std::process::id(), std::ptr::from_ref(names).addr());
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    let program = std::env::current_exe()?;
    let terms = [terms.seed.to_string(), terms.patience.as_millis().to_string()].join(",");
    let running = Launch::new(program, [TASK_ARGUMENT, &name, &terms, &names.join(",")])
        .tasks(2)
        .env("AM_DEVICE", device)
        .start()
        .map_err(io::Error::other)?;
    let (tell, said) = mpsc::channel();
    // If a task never connects, the missing verdict shows that the job has ended.
    thread::spawn(move || relay(&listener, &tell));
    Ok(Job { said, _running: running })
}

/// Forwards messages between the two tasks, and reports the verdicts.
fn relay(listener: &UnixListener, tell: &mpsc::Sender<(String, Option<String>)>) {
    let mut streams = Vec::new();
    while streams.len() < 2 {
        let Ok((stream, _)) = listener.accept() else { return };
        streams.push(stream);
    }
    let outs: Vec<_> = streams
        .iter()
        .filter_map(|stream| stream.try_clone().ok())
        .map(|out| Arc::new(Mutex::new(out)))
        .collect();
    for (number, stream) in streams.into_iter().enumerate() {
        let Some(other) = outs.get(1 - number).map(Arc::clone) else { return };
        let tell = tell.clone();
        thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                match Word::parse(&line) {
                    Some(Word::Verdict { check, failure }) => drop(tell.send((check, failure))),
                    // If the other task is gone, this task will notice.
                    _ => drop(writeln!(other.lock().unwrap_or_else(PoisonError::into_inner), "{line}")),
                }
            }
            // This task is gone: the other task must not wait for it.
            let _ = other.lock().unwrap_or_else(PoisonError::into_inner).shutdown(std::net::Shutdown::Write);
        });
    }
}

/// The first argument of a task of the suite.
const TASK_ARGUMENT: &str = "--as-task";

/// Runs this process as a task of the suite if its arguments show that [`run`](super::run) has started it; otherwise returns `None`.
/// Programs that call `run` must call this first.
#[must_use]
pub fn run_as_task(arguments: &[String]) -> Option<Result<(), String>> {
    match arguments {
        [first, socket, terms, names] if first == TASK_ARGUMENT => {
            Some(task(socket, terms, names).map_err(|error| error.to_string()))
        }
        _ => None,
    }
}

fn task(socket: &str, terms: &str, names: &str) -> Result<(), Box<dyn std::error::Error>> {
    let (seed, patience) = terms.split_once(',').ok_or("a seed and a number of milliseconds are needed")?;
    let terms = Terms { seed: seed.parse()?, patience: Duration::from_millis(patience.parse()?) };
    let socket = UnixStream::connect_addr(&SocketAddr::from_abstract_name(socket)?)?;
    let task = Task::join()?;
    task.job().set_continue_on_failure(true);
    let checks = checks::all::<Shm>();
    let mut pair =
        open(task, terms, socket).map_err(|stop| format!("the NIC could not be opened: {stop:?}"))?;
    for name in names.split(',') {
        let check = checks.iter().find(|check| check.name == name);
        let failure = check.map_or_else(
            || Some("no check has this name".to_owned()),
            |check| session::run(&mut pair, check),
        );
        pair.line.say(Word::Verdict { check: name.to_owned(), failure });
    }
    Ok(())
}

fn open(task: Task, terms: Terms, socket: UnixStream) -> Outcome<Pair<Shm>> {
    let side = if task.number() == 0 { Side::A } else { Side::B };
    let line = Line::over(socket).or_else(|error| super::pair::fail(error.to_string()))?;
    let nic = open_nic(&task, "shm0")?;
    let (devices, nics, names) = (task.clone(), task.clone(), task);
    let opener = Opener {
        device: Box::new(move |context| devices.device(context)),
        nic: Box::new(move |context| open_nic(&nics, &format!("shm{context}"))),
        by_name: Some(Box::new(move |name| open_nic(&names, name))),
    };
    let mut pair = Pair::new(nic, side, terms, line, opener)?;
    pair.die = Box::new(die);
    pair.die_soon = Box::new(|| {
        thread::spawn(|| {
            thread::sleep(DIES_AFTER);
            die();
        });
    });
    Ok(pair)
}

#[expect(clippy::exit, reason = "the check is about a process that ends without a word")]
fn die() {
    std::process::exit(3);
}
