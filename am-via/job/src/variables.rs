//! Environment variables in a job file: the settings in the launcher's environment.

use crate::settings::{Settings, Table};

/// Variables, one line `NAME=value` each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables(String);

/// Prefixes of setting names: ours, and those of the MPI libraries whose names are understood.
const PREFIXES: [&str; 3] = ["AM_", "MPI_", "LAM_MPI_"];
/// Variables that begin like settings but are not settings: the launcher writes them.
const WRITTEN_BY_THE_LAUNCHER: [&str; 8] = [
    "AM_JOB",
    "AM_TASK",
    "AM_NUM_TASKS",
    "AM_PINNED",
    "AM_TERMINAL",
    "AM_PARENT",
    "AM_PROGRAM",
    "AM_SAYS_LIBRARY",
];
/// The longest value of a setting, in bytes. A longer value is that of a variable that is no setting, such as a path, or is a mistake.
const VALUE_BYTES_MAX: usize = 64;
/// Number of characters that a job file keeps of a value that no setting can have.
const SHOWN_CHARS: usize = 16;

/// Whether a variable has a prefix of setting names.
#[must_use]
pub fn is_named_like_a_setting(name: &str) -> bool {
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The value, if a setting can have it. Otherwise the beginning of the value and an ellipsis, which the table that has the setting refuses.
fn as_part_of_a_line(value: String) -> String {
    if value.len() <= VALUE_BYTES_MAX && !value.contains('\n') {
        return value;
    }
    let beginning = value.chars().take_while(|&letter| letter != '\n').take(SHOWN_CHARS);
    beginning.chain("...".chars()).collect()
}

impl Variables {
    /// Picks from an environment the variables that the tables of layers above may know.
    pub fn of_other_tables(environment: impl Iterator<Item = (String, String)>) -> Self {
        let is_theirs = |(name, _): &(String, String)| {
            let is_ours = Settings::knows(name) || WRITTEN_BY_THE_LAUNCHER.contains(&name.as_str());
            !is_ours && is_named_like_a_setting(name) && !name.contains('\n')
        };
        let line = |(name, value): (String, String)| format!("{name}={}\n", as_part_of_a_line(value));
        Self(environment.filter(is_theirs).map(line).collect())
    }

    /// Reads the lines of a job file.
    pub(crate) fn of_lines(lines: String) -> Self {
        Self(lines)
    }

    /// The settings of am-via, followed by these variables.
    pub(crate) fn lines_with(&self, settings: &Settings) -> String {
        let own =
            Settings::SETTINGS.iter().map(|setting| format!("{}={}\n", setting.env, setting.value(settings)));
        own.collect::<String>() + &self.0
    }

    /// The value of the variable `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        self.all().find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
    }

    /// Variables that begin like settings of this project (`AM_`) but are in neither am-via's table nor `T`: most likely misspelt.
    pub fn unknown_to<T: Table>(&self) -> impl Iterator<Item = &str> {
        let names = self.all().map(|(name, _)| name);
        names.filter(|name| name.starts_with("AM_") && !Settings::knows(name) && !T::knows(name))
    }

    fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.lines().filter_map(|line| line.split_once('='))
    }
}

/// The names that are most likely misspelt settings of am-via, each with the setting that was probably meant.
pub fn misspelt(names: impl Iterator<Item = String>) -> Vec<(String, &'static str)> {
    let looks_like_ours = |name: &String| {
        name.starts_with("AM_") && !Settings::knows(name) && !WRITTEN_BY_THE_LAUNCHER.contains(&name.as_str())
    };
    names
        .filter(looks_like_ours)
        .filter_map(|name| Settings::nearest(&name).map(|near| (name, near)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_file_carries_am_vias_settings_and_what_other_tables_may_know() {
        let long = "x".repeat(VALUE_BYTES_MAX + 1);
        let environment = [
            ("AM_EAGER_LIMIT_BYTES", "7"),
            ("MPI_LONG_MSG", "9"),
            ("MPI_HOME", &long),
            ("AM_CREDITS", "3"),
            ("AM_JOB", "4"),
            ("AM_PROGRAM", "1"),
            ("AM_SAYS_LIBRARY", "1"),
            ("HOME", "/"),
        ];
        let environment = environment.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let others = Variables::of_other_tables(environment);
        let kept = "AM_EAGER_LIMIT_BYTES=7\nMPI_LONG_MSG=9\nMPI_HOME=xxxxxxxxxxxxxxxx...\n";
        assert_eq!(others, Variables(kept.to_owned()));
        let settings = Settings { credits: 5, heap_bytes: Some(3 << 20), ..Settings::default() };
        let carried = Variables::of_lines(others.lines_with(&settings));
        assert_eq!(Settings::from_variables(|name| carried.get(name)).unwrap(), settings);
        assert_eq!(carried.get("MPI_LONG_MSG").as_deref(), Some("9"));
        assert_eq!(carried.unknown_to::<Settings>().collect::<Vec<_>>(), ["AM_EAGER_LIMIT_BYTES"]);
    }

    #[test]
    fn a_value_that_no_setting_can_have_is_seen_by_the_table_of_the_setting() {
        let blanks = " ".repeat(VALUE_BYTES_MAX);
        let environment = [("MPI_LONG_MSG", format!("{blanks}7")), ("MPI_LONG_MAX", "7\n8".to_owned())];
        let environment = environment.map(|(name, value)| (name.to_owned(), value));
        let others = Variables::of_other_tables(environment.into_iter());
        assert_eq!(others.get("MPI_LONG_MSG"), Some(format!("{}...", &blanks[..SHOWN_CHARS])));
        assert_eq!(others.get("MPI_LONG_MAX").as_deref(), Some("7..."));
    }

    #[test]
    fn misspelt_settings_are_found() {
        let names = ["AM_CREDIT", "AM_CREDITS", "AM_JOB", "AM_EAGER_LIMIT_BYTES", "HOME"].map(str::to_owned);
        assert_eq!(misspelt(names.into_iter()), [("AM_CREDIT".to_owned(), "AM_CREDITS")]);
    }
}
