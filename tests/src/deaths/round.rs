//! Runs rounds: starts the job, sends the signal, waits until the job has ended, and judges the outcome.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use am_core_conform::watchdog::Watchdog;

use super::judge::{self, JobEnd};
use super::plan::{Plan, Victim, Way};
use super::task::BEGUN;
use super::{MARK, ROUND};
use crate::harness::marked;

/// Time limit of a round: far longer than any round takes, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long the system may take to remove processes that were killed with their launcher.
const VANISH_WITHIN: Duration = Duration::from_secs(30);
/// How long a task stays stopped before it is killed.
const STOPPED: Duration = Duration::from_millis(60);
/// Time between two signals, of which the first may be ignored.
const BETWEEN: Duration = Duration::from_millis(5);

/// Runs the rounds `rounds` of `seed`, each with tasks of `program` under the launcher `amrun`. Returns their number.
///
/// # Errors
/// The failures of each round, with the output of its job.
pub fn run(
    seed: u64,
    rounds: impl Iterator<Item = u64>,
    amrun: &Path,
    program: &Path,
) -> Result<u64, String> {
    let (mut ran, mut wrong) = (0, Vec::new());
    for round in rounds {
        let plan = Plan::draw(seed, round);
        let began = Instant::now();
        let verdict = one(&plan, amrun, program);
        let word = if verdict.is_ok() { "as promised" } else { "WRONG" };
        println!("{plan}: {word}, {} ms", began.elapsed().as_millis());
        wrong.extend(verdict.err().map(|what| format!("{plan}: {what}")));
        ran += 1;
    }
    if wrong.is_empty() {
        return Ok(ran);
    }
    Err(format!("{} of {ran} rounds were wrong\n{}", wrong.len(), wrong.join("\n")))
}

fn one(plan: &Plan, amrun: &Path, program: &Path) -> Result<(), String> {
    let _watchdog = Watchdog::new(plan.to_string(), 2 * PATIENCE);
    let mark = format!("{}-{}-{}", std::process::id(), plan.seed, plan.round);
    let logs = Logs::new(&mark).map_err(|error| format!("its log cannot be written: {error}"))?;
    let before = shared_memory_files();
    let mut job = start(plan, amrun, program, &mark, &logs).map_err(|error| format!("amrun: {error}"))?;
    let blow = job.stdout.take().map_or(Ok(()), |said| strike(plan, &job, BufReader::new(said)));
    let code = wait(&mut job);
    let ended = JobEnd { code: code?, lines: logs.read() };
    let verdict =
        blow.and_then(|()| nothing_is_left(&mark, &before)).and_then(|()| judge::judge(plan, &ended));
    verdict.map_err(|what| format!("{what}\n--- exit code {}, standard error:\n{}", ended.code, ended.lines))
}

fn start(plan: &Plan, amrun: &Path, program: &Path, mark: &str, logs: &Logs) -> io::Result<Child> {
    // Core files would take gigabytes. The caller may ignore signals that a user's shell does not ignore.
    Command::new("env")
        .args(["--default-signal=HUP,INT,QUIT,TERM", "sh", "-c", "ulimit -c 0; exec \"$0\" \"$@\""])
        .arg(amrun)
        .args(["-n", &plan.tasks.to_string(), "--env", &format!("AM_MEMORY={}", plan.memory)])
        .args(plan.phase.options())
        .args(plan.wrapper.words())
        .arg(program)
        .env(ROUND, format!("{}:{}", plan.seed, plan.round))
        .env(MARK, mark)
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(logs.create()?)
        .spawn()
}

/// Waits until the phase has begun, and sends the signal, if the victim dies by a signal from outside. Reads the output to its end.
fn strike(plan: &Plan, job: &Child, said: impl BufRead) -> Result<(), String> {
    let mut has_struck = false;
    for line in said.lines().map_while(Result::ok) {
        let Some(pid) = line.strip_prefix(BEGUN).filter(|_| !has_struck) else { continue };
        has_struck = true;
        std::thread::sleep(plan.delay);
        match plan.victim {
            Victim::Guard => signal("KILL", job.id()),
            Victim::Launcher => {
                let children = children(job.id());
                let [launcher] = children[..] else { return Err(format!("amrun has children {children:?}")) };
                signal("KILL", launcher);
            }
            Victim::Task(_, way) if way.is_from_outside() => {
                let pid = pid.parse().map_err(|_| format!("no process id: {line}"))?;
                match way {
                    Way::StopThenKill => {
                        signal("STOP", pid);
                        std::thread::sleep(STOPPED);
                        signal("KILL", pid);
                    }
                    Way::Segv => {
                        while is_alive(pid) {
                            signal("SEGV", pid);
                            std::thread::sleep(BETWEEN);
                        }
                    }
                    _ => signal("KILL", pid),
                }
            }
            Victim::Task(..) => {}
        }
    }
    if has_struck { Ok(()) } else { Err("the phase never began".to_owned()) }
}

fn wait(job: &mut Child) -> Result<i32, String> {
    use std::os::unix::process::ExitStatusExt;
    let end = Instant::now() + PATIENCE;
    loop {
        match job.try_wait() {
            Ok(Some(status)) => return Ok(status.code().unwrap_or(128 + status.signal().unwrap_or(0))),
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(2)),
            Ok(None) => {
                signal("TERM", job.id());
                return Err(format!("it has hung for {} s", PATIENCE.as_secs()));
            }
            Err(error) => return Err(format!("amrun cannot be waited for: {error}")),
        }
    }
}

/// Checks that no process of the job is left, and that no file in shared memory was added. Other programs also make and remove files, so
/// only files that stay count.
fn nothing_is_left(mark: &str, before: &[PathBuf]) -> Result<(), String> {
    let end = Instant::now() + VANISH_WITHIN;
    loop {
        let left = marked(MARK, mark);
        let added: Vec<_> = shared_memory_files().into_iter().filter(|file| !before.contains(file)).collect();
        if left.is_empty() && added.is_empty() {
            return Ok(());
        }
        if Instant::now() > end {
            let names = left.iter().map(|pid| fs::read_to_string(format!("/proc/{pid}/stat")));
            let names: Vec<_> = names.collect();
            return Err(format!("it has left processes: {names:?}, and files: {added:?}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn shared_memory_files() -> Vec<PathBuf> {
    fs::read_dir("/dev/shm")
        .map_or_else(|_| Vec::new(), |files| files.flatten().map(|file| file.path()).collect())
}

fn children(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|&pid| stat(pid).is_some_and(|(_, of)| of == parent)).collect()
}

fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

/// State and parent of a process.
fn stat(pid: u32) -> Option<(char, u32)> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = line.rsplit(')').next()?.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Sends a signal. It is no error if the process has ended.
fn signal(name: &str, pid: u32) {
    let sent =
        Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).stderr(Stdio::null()).status();
    if let Err(error) = sent {
        let _ = writeln!(io::stderr(), "kill: {error}");
    }
}

/// The standard error of a job, in a file: a pipe that is read late would slow the job down.
struct Logs(PathBuf);

impl Logs {
    fn new(mark: &str) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("death-round-{mark}"));
        File::create(&path).map(|_| Self(path))
    }

    fn create(&self) -> io::Result<File> {
        File::options().append(true).open(&self.0)
    }

    fn read(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.0).unwrap_or_default()).into_owned()
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        // A file that stays is removed with the temporary files.
        let _ = fs::remove_file(&self.0);
    }
}
