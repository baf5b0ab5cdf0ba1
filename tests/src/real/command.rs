//! Runs a command under a time limit, with all of its output in a file.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Problem;

/// How a command ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// The command ended with exit code 0.
    Well,
    /// The command ended with this exit code, or by a signal; the value is then 128 plus the signal's number.
    Badly(i32),
    /// The command exceeded its time limit and was killed.
    TooLong,
}

/// The end of a command, and its output: standard output and standard error together.
#[derive(Debug)]
pub struct Ran {
    /// How the command ended.
    pub end: End,
    /// The output.
    pub said: String,
}

impl Ran {
    /// How the command ended, and its last lines, for a table.
    #[must_use]
    pub fn why(&self) -> String {
        let lines: Vec<_> = self.said.lines().filter(|line| !line.trim().is_empty()).collect();
        format!("{:?}; {}", self.end, lines[lines.len().saturating_sub(3)..].join(" / "))
    }
}

/// Runs a command with its output in the file `log`, and kills it after `limit`.
///
/// # Errors
/// The command cannot be started, or the file cannot be written.
pub fn run(command: &mut Command, limit: Duration, log: &Path) -> io::Result<Ran> {
    let name = command.get_program().to_string_lossy().into_owned();
    eprintln!("  {name} ... ({})", log.display());
    let file = File::create(log)?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let mut child =
        command.spawn().map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))?;
    let end = Instant::now() + limit;
    let end = loop {
        if let Some(status) = child.try_wait()? {
            use std::os::unix::process::ExitStatusExt as _;
            break match status.code() {
                Some(0) => End::Well,
                Some(code) => End::Badly(code),
                None => End::Badly(128 + status.signal().unwrap_or(0)),
            };
        }
        if Instant::now() > end {
            // If the command is a launcher, its tasks end with it.
            child.kill()?;
            child.wait()?;
            break End::TooLong;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    Ok(Ran { end, said: String::from_utf8_lossy(&fs::read(log)?).into_owned() })
}

/// Runs a command that must succeed: a step of fetching or building.
///
/// # Errors
/// The command fails or cannot be started, or the file `log` cannot be written; the error tells which.
pub fn must(command: &mut Command, limit: Duration, log: &Path) -> Result<String, Problem> {
    let name = command.get_program().to_string_lossy().into_owned();
    match run(command, limit, log) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Problem::Missing(error.to_string())),
        Err(error) => Err(error.into()),
        Ok(Ran { end: End::Well, said }) => Ok(said),
        Ok(ran) => Err(Problem::Broken(format!("{name} (see {}): {}", log.display(), ran.why()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_apart() {
        let log = std::env::temp_dir().join(format!("am-tests-command-{}", std::process::id()));
        let limit = Duration::from_secs(60);
        let ran = run(Command::new("sh").args(["-c", "echo a; echo b >&2; exit 3"]), limit, &log).unwrap();
        assert_eq!((ran.end, &*ran.said), (End::Badly(3), "a\nb\n"));
        let ran = run(Command::new("sleep").arg("600"), Duration::from_millis(50), &log).unwrap();
        assert_eq!(ran.end, End::TooLong);
        assert!(matches!(must(&mut Command::new("no-such-program"), limit, &log), Err(Problem::Missing(_))));
        fs::remove_file(log).unwrap();
    }
}
