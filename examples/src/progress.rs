//! A progress bar for those who wait at a terminal.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A run that is over sooner shows no bar.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// The environment variable by which a launcher says that its standard error is a terminal, though that of the task is not.
const TERMINAL_VARIABLE: &str = "AM_TERMINAL";

/// How much is done of something, in bytes. Shown when it lasts, on a terminal, and nowhere else.
#[derive(Debug)]
pub struct Progress {
    total: u64,
    done: u64,
    started: Instant,
    shown: bool,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Nothing of `total` bytes is done. Only one task of a job should be the one that shows it.
    #[must_use]
    pub fn new(total: u64, shown: bool) -> Self {
        Self { total, done: 0, started: Instant::now(), shown, bar: None }
    }

    /// `bytes` more are done.
    pub fn advance(&mut self, bytes: u64) {
        self.done += bytes;
        if !self.shown {
            return;
        }
        if self.bar.is_none() && self.started.elapsed() >= SHOWN_AFTER {
            self.bar = terminal().map(|terminal| new_bar(self.total, terminal));
            // Without a terminal there will be none the next time either.
            self.shown = self.bar.is_some();
        }
        if let Some(bar) = &self.bar {
            bar.set_position(self.done);
        }
    }

    /// Whether all is done.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.done >= self.total
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn new_bar(total: u64, terminal: Term) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::term(terminal, 10));
    let style = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
    bar.with_style(style.expect("the template names known fields"))
}

/// The terminal that the user looks at: standard error, or the one of the launcher that reads it.
fn terminal() -> Option<Term> {
    if io::stderr().is_terminal() {
        return Some(Term::stderr());
    }
    std::env::var_os(TERMINAL_VARIABLE)?;
    let open = || OpenOptions::new().read(true).write(true).open("/dev/tty");
    Some(Term::read_write_pair(open().ok()?, open().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_complete_when_all_is_done() {
        let mut progress = Progress::new(10, false);
        progress.advance(9);
        assert!(!progress.is_complete());
        progress.advance(1);
        assert!(progress.is_complete());
        assert!(progress.bar.is_none());
    }
}
