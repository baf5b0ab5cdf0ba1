//! Prints the events of the set-up path to standard error, if `RUST_LOG` asks for them and the program has no subscriber of its own.
//!
//! `RUST_LOG` is a level (error, warn, info, debug, trace), or a list of `crate=level,...` that gives crates and modules a level each; a
//! level without a name applies to all others. The longest matching name wins.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The environment variable that asks for events.
const VARIABLE: &str = "RUST_LOG";

/// Starts to print events, if `RUST_LOG` is set and the program has no subscriber. Each line begins with `prefix`.
pub fn log_as_asked(prefix: &str) {
    let Ok(wanted) = std::env::var(VARIABLE) else { return };
    let log = Log { prefix: prefix.to_owned(), wanted: Wanted::parse(&wanted), spans: AtomicU64::new(1) };
    // An error means that the program has a subscriber, which gets the events.
    let _ = tracing::subscriber::set_global_default(log);
}

/// Levels by the names of modules.
#[derive(Debug, PartialEq, Eq)]
struct Wanted(Vec<(String, LevelFilter)>);

impl Wanted {
    fn parse(text: &str) -> Self {
        let directives = text.split(',').map(str::trim).filter(|directive| !directive.is_empty());
        Self(directives.filter_map(directive).collect())
    }

    fn level_of(&self, target: &str) -> LevelFilter {
        let fits = |name: &str| {
            target.strip_prefix(name).is_some_and(|rest| {
                name.is_empty() || rest.is_empty() || rest.starts_with("::") || rest.starts_with('_')
            })
        };
        let of = self.0.iter().filter(|(name, _)| fits(name)).max_by_key(|(name, _)| name.len());
        of.map_or(LevelFilter::OFF, |&(_, level)| level)
    }
}

/// `name=level`, a level alone, or a name alone, which selects all of its events. `None` if the word after `=` is no level.
fn directive(text: &str) -> Option<(String, LevelFilter)> {
    match text.split_once('=') {
        Some((name, level)) => Some((name.to_owned(), level.parse().ok()?)),
        None => Some(match text.parse() {
            Ok(level) => (String::new(), level),
            Err(_) => (text.to_owned(), LevelFilter::TRACE),
        }),
    }
}

#[derive(Debug)]
struct Log {
    prefix: String,
    wanted: Wanted,
    spans: AtomicU64,
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.wanted.level_of(metadata.target())
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut line = Line { message: String::new(), fields: String::new() };
        event.record(&mut line);
        am_via_os::complain!(
            "{}: {} {}: {}{}",
            self.prefix,
            metadata.level(),
            metadata.target(),
            line.message,
            line.fields
        );
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

/// An event as text.
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_that_fits_wins() {
        let wanted = Wanted::parse("warn, am_via=info,am_via_job::life=trace,off_by=nothing");
        assert_eq!(wanted.0.len(), 3, "a level that is none asks for nothing");
        for (target, level) in [
            ("am_via::start", LevelFilter::INFO),
            ("am_via_nic", LevelFilter::INFO),
            ("am_via_job::life", LevelFilter::TRACE),
            ("am_viable", LevelFilter::WARN),
            ("clap", LevelFilter::WARN),
        ] {
            assert_eq!(wanted.level_of(target), level, "{target}");
        }
        assert_eq!(Wanted::parse("am_core").level_of("am_via"), LevelFilter::OFF);
    }
}
