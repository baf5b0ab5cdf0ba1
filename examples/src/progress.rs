//! A progress bar for those who wait at a terminal.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// A run that is over sooner shows no bar.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
const REDRAWS_A_SECOND: u8 = 10;

/// The environment variable by which a launcher says that its standard error is a terminal, though that of the task is not.
const TERMINAL_VARIABLE: &str = "AM_TERMINAL";

/// How much is done of something, in bytes or in items. Shown when it lasts, on a terminal, and nowhere else.
#[derive(Debug)]
pub struct Progress {
    total: u64,
    done: u64,
    started: Instant,
    /// It counts from the start, so that it knows the speed when it is shown.
    bar: Option<ProgressBar>,
    decided: bool,
}

impl Progress {
    /// Nothing of `total` bytes is done. Only one task of a job should be the one that shows it.
    #[must_use]
    pub fn new(total: u64, shown: bool) -> Self {
        Self::with_template(total, shown, "{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}")
    }

    /// The same for `total` items.
    #[must_use]
    pub fn count(total: u64, shown: bool) -> Self {
        Self::with_template(total, shown, "{bar:40} {human_pos}/{human_len} {rate} {eta}")
    }

    fn with_template(total: u64, shown: bool, template: &str) -> Self {
        let bar = shown.then(|| new_bar(total, template));
        Self { total, done: 0, started: Instant::now(), bar, decided: false }
    }

    /// So many bytes or items more are done.
    pub fn advance(&mut self, more: u64) {
        self.done += more;
        let Some(bar) = &self.bar else { return };
        bar.set_position(self.done);
        if !self.decided && self.started.elapsed() >= SHOWN_AFTER {
            self.decided = true;
            match terminal() {
                Some(terminal) => bar.set_draw_target(ProgressDrawTarget::term(terminal, REDRAWS_A_SECOND)),
                None => self.bar = None,
            }
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

fn new_bar(total: u64, template: &str) -> ProgressBar {
    let rate = |state: &ProgressState, to: &mut dyn std::fmt::Write| {
        // Nowhere to report it to, and a bar without a rate is a bar.
        let _ = write!(to, "{:.0}/s", state.per_sec());
    };
    let style = ProgressStyle::with_template(template).map(|style| style.with_key("rate", rate));
    ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden())
        .with_style(style.expect("the template names known fields"))
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
