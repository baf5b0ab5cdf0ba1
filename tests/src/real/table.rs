//! The table of results: one row for each program, way of building it and number of tasks.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Problem, known};

/// The result of one run of one program.
#[derive(Debug)]
pub struct Row {
    program: String,
    what: String,
    passed: u64,
    skipped: u64,
    failures: Vec<Failure>,
    missing: Option<String>,
    /// The cases that are known to fail, with the reasons.
    known: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Failure {
    case: String,
    why: String,
    known: Option<String>,
}

impl Row {
    /// A row without results, whose known failures [`known`] lists.
    #[must_use]
    pub fn new(program: &str, what: impl Into<String>) -> Self {
        let known = known::cases(program).map(|(case, why)| (case.to_owned(), why.to_owned())).collect();
        Self::of_list(program, what, known)
    }

    /// A row without results, with known failures.
    #[must_use]
    pub fn of_list(program: &str, what: impl Into<String>, known: BTreeMap<String, String>) -> Self {
        Self {
            known,
            program: program.to_owned(),
            what: what.into(),
            passed: 0,
            skipped: 0,
            failures: Vec::new(),
            missing: None,
        }
    }

    /// The row of a program that could not be run.
    #[must_use]
    pub fn not_run(program: &str, problem: Problem) -> Self {
        let mut row = Self::new(program, "not run");
        match problem {
            Problem::Missing(what) => row.missing = Some(what),
            Problem::Broken(why) => row.failed("build", &why),
        }
        row
    }

    /// Counts cases that passed.
    pub fn passed(&mut self, cases: u64) {
        self.passed += cases;
    }

    /// Counts cases that the program itself skipped.
    pub fn skipped(&mut self, cases: u64) {
        self.skipped += cases;
    }

    /// Counts a failure, once for each case.
    pub fn failed(&mut self, case: &str, why: &str) {
        if self.failures.iter().all(|failure| failure.case != case) {
            let known = self.known.get(case).cloned();
            self.failures.push(Failure { case: case.to_owned(), why: one_line(why), known });
        }
    }

    /// How many cases have passed.
    #[must_use]
    pub fn passes(&self) -> u64 {
        self.passed
    }

    /// How many cases have failed.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failures.len().try_into().unwrap_or(u64::MAX)
    }

    /// Whether an unknown failure occurred, or a known failure did not.
    #[must_use]
    pub fn is_bad(&self) -> bool {
        self.failures.iter().any(|failure| failure.known.is_none()) || self.passing_again().next().is_some()
    }

    /// The cases that are known to fail and did not fail here.
    fn passing_again(&self) -> impl Iterator<Item = &str> {
        let ran = !self.is_empty();
        self.known
            .keys()
            .map(String::as_str)
            .filter(move |case| ran && self.failures.iter().all(|failure| failure.case != *case))
    }

    /// Whether no case was run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.passed == 0 && self.failures.is_empty()
    }
}

/// The rows as a table for a terminal or a README, and below it each failure with its reason.
#[must_use]
pub fn text(rows: &[Row]) -> String {
    let mut text = String::from(
        "| program | what ran | passed | failed | left out by itself | why |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for row in rows {
        let why = match (&row.missing, row.failures.first()) {
            (Some(missing), _) => format!("missing: {missing}"),
            (None, None) => String::new(),
            (None, Some(failure)) => {
                format!("{}: {}", failure.case, failure.known.as_ref().unwrap_or(&failure.why))
            }
        };
        let (passed, failed, skipped) = (row.passed, row.failures.len(), row.skipped);
        let (program, what) = (&row.program, &row.what);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {program} | {what} | {passed} | {failed} | {skipped} | {why} |");
    }
    for row in rows {
        for failure in &row.failures {
            let (program, what, case) = (&row.program, &row.what, &failure.case);
            let _ = match &failure.known {
                Some(reason) => writeln!(text, "known: {program}, {what}: {case}: {reason}"),
                None => writeln!(text, "FAILED: {program}, {what}: {case}: {}", failure.why),
            };
        }
        for case in row.passing_again() {
            let (program, what) = (&row.program, &row.what);
            let _ =
                writeln!(text, "PASSES: {program}, {what}: {case}: remove it from tests/src/real/known.rs");
        }
    }
    text
}

/// A reason on one line, short enough for a table, without characters that would end a cell.
fn one_line(why: &str) -> String {
    let words = why.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "/");
    match words.char_indices().nth(300) {
        Some((at, _)) => format!("{}...", &words[..at]),
        None => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_counts_a_case_once_and_says_why() {
        let mut row = Row::new("p", "2 tasks");
        assert!(row.is_empty());
        row.passed(3);
        row.failed("x", "line\n  | next");
        row.failed("x", "again");
        assert!(row.is_bad() && !row.is_empty());
        let text = text(&[row, Row::not_run("q", Problem::Missing("a compiler".into()))]);
        assert!(text.contains("| p | 2 tasks | 3 | 1 | 0 | x: line / next |"), "{text}");
        assert!(text.contains("| q | not run | 0 | 0 | 0 | missing: a compiler |"), "{text}");
        assert!(text.ends_with("FAILED: p, 2 tasks: x: line / next\n"), "{text}");
    }

    #[test]
    fn a_known_failure_is_known_by_its_whole_name_and_must_fail() {
        let mut row = Row::new("NetPIPE", "2 tasks");
        assert!(!row.is_bad(), "nothing has run");
        row.failed("put, checked", "crash");
        assert!(row.is_bad(), "the other known failure passes");
        let said = text(&[row]);
        assert!(
            said.ends_with(
                "PASSES: NetPIPE, 2 tasks: get, measured: remove it from tests/src/real/known.rs\n"
            ),
            "{said}"
        );
        let mut row = Row::new("NetPIPE", "2 tasks");
        for case in ["put, checked", "get, measured"] {
            row.failed(case, "crash");
        }
        assert!(!row.is_bad());
        row.failed("put, measured", "crash");
        assert!(row.is_bad(), "a part of a name is not enough");
    }
}
