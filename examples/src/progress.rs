//! A progress bar for users at a terminal.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// Runs shorter than this show no bar.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
const REDRAWS_A_SECOND: u8 = 10;

/// The environment variable by which a launcher tells its tasks that its standard error is a terminal.
const TERMINAL_VARIABLE: &str = "AM_TERMINAL";

/// Shows how much of something is done, in bytes or items. Only shown on a terminal, and only if the work takes a while.
#[derive(Debug)]
pub struct Progress {
    total: u64,
    done: u64,
    started: Instant,
    /// Counts from the start, so that its speed is right when it is first shown.
    bar: Option<ProgressBar>,
    decided: bool,
}

impl Progress {
    /// A bar at 0 of `total` bytes. Only one task of a job should have `shown` set.
    #[must_use]
    pub fn new(total: u64, shown: bool) -> Self {
        Self::with_template(total, shown, "{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}")
    }

    /// A bar at 0 of `total` items. Only one task of a job should have `shown` set.
    #[must_use]
    pub fn count(total: u64, shown: bool) -> Self {
        Self::with_template(total, shown, "{bar:40} {human_pos}/{human_len} {rate} {eta}")
    }

    fn with_template(total: u64, shown: bool, template: &str) -> Self {
        let bar = shown.then(|| new_bar(total, template));
        Self { total, done: 0, started: Instant::now(), bar, decided: false }
    }

    /// Adds bytes or items that are done. A bar appears only after a while, and only if there is a terminal.
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
        // An error is not reported: the bar is useful without a rate.
        let _ = write!(to, "{:.0}/s", state.per_sec());
    };
    let style = ProgressStyle::with_template(template).map(|style| style.with_key("rate", rate));
    ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden())
        .with_style(style.expect("the template names known fields"))
}

/// The terminal of the user: standard error, or the terminal of the launcher that forwards it; `None` if there is neither.
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
