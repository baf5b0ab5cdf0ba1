//! Runs the programs of a folder that somebody has built. A file `testlist`, in the form of MPICH's, says which programs run, with how many
//! tasks and with which arguments; without it, each executable file runs with two tasks.
//!
//! A file `expected-failures` of the folder lists known failures, a program's name and the reason on each line. A listed program that
//! passes is an error, as in [`known`](super::known).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::Problem;
use super::command::{self, End, Ran};
use super::table::Row;
use super::workshop::Workshop;

const LIMIT: Duration = Duration::from_secs(180);
/// The number of tasks of a program for which no list gives one.
const TASKS: u32 = 2;

/// How a program shows that it has passed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Verdict {
    /// It ends with exit code 0, and prints a line `No Errors`.
    Says,
    /// It prints that line, and ends with another exit code than 0.
    SaysAndFails,
    /// It ends with another exit code than 0.
    Fails,
    /// It ends with exit code 0.
    Ends,
}

/// One run of a program.
#[derive(Debug, Eq, PartialEq)]
struct Run {
    name: String,
    tasks: u32,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
    limit: Duration,
    verdict: Verdict,
}

impl Run {
    /// The name of this case: the program, the number of tasks, and the arguments.
    fn case(&self) -> String {
        let mut case = format!("{} {}", self.name, self.tasks);
        for word in &self.arguments {
            case = case + " " + word;
        }
        self.variables.iter().fold(case, |case, (name, value)| format!("{case} {name}={value}"))
    }

    /// Reads a line of a `testlist`: the name, the number of tasks, and pairs `key=value`. `None` if it lists a folder, or nothing.
    fn read(line: &str) -> Option<Self> {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let (name, tasks) = (words.next()?.to_owned(), words.next()?.parse().ok()?);
        let (arguments, variables) = (Vec::new(), Vec::new());
        let mut run = Self { name, tasks, arguments, variables, limit: LIMIT, verdict: Verdict::Says };
        for (key, value) in words.filter_map(|word| word.split_once('=')) {
            match key {
                "arg" => run.arguments.push(value.to_owned()),
                "env" => run
                    .variables
                    .extend(value.split_once('=').map(|(name, value)| (name.into(), value.into()))),
                "timeLimit" => {
                    let seconds = value.parse().unwrap_or_default();
                    run.limit = LIMIT.max(Duration::from_secs(seconds));
                }
                "resultTest" if value == "TestStatusNoErrors" => run.verdict = Verdict::SaysAndFails,
                "resultTest" => run.verdict = Verdict::Fails,
                _ => {}
            }
        }
        Some(run)
    }

    fn has_passed(&self, ran: &Ran) -> bool {
        let says = ran.said.lines().any(|line| line.trim().eq_ignore_ascii_case("no errors"));
        let fails = matches!(ran.end, End::Badly(_));
        match self.verdict {
            Verdict::Says => says && ran.end == End::Well,
            Verdict::SaysAndFails => says && fails,
            Verdict::Fails => fails,
            Verdict::Ends => ran.end == End::Well,
        }
    }
}

/// Runs what is in `folder`, with one row for it and one for each folder that its list names. The launcher gets these options.
///
/// # Errors
/// The folder cannot be read, or the launcher cannot be started.
pub fn run(
    workshop: &Workshop,
    folder: &Path,
    program: &str,
    options: &[&str],
    rows: &mut Vec<Row>,
) -> Result<(), Problem> {
    let list = fs::read_to_string(folder.join("testlist")).ok();
    for below in list.as_deref().map(folders).unwrap_or_default() {
        let below_program = format!("{program}/{below}");
        run(workshop, &folder.join(&below), &below_program, options, rows)?;
    }
    let runs = match &list {
        Some(list) => list.lines().filter_map(Run::read).collect(),
        None => executables(folder)?,
    };
    if runs.is_empty() && list.is_some() {
        return Ok(());
    }
    let expected = expected(&fs::read_to_string(folder.join("expected-failures")).unwrap_or_default());
    let mut row = Row::of_list(program, format!("{} runs", runs.len()), expected);
    for run in runs {
        let case = run.case();
        let path = folder.join(&run.name);
        if !path.is_file() && folder.join("Makefile").is_file() {
            // A program that `make` does not build unless it is named.
            let mut make = Command::new("make");
            make.arg("-C").arg(folder).arg(&run.name);
            command::run(&mut make, LIMIT, &workshop.log("make-one")?)?;
        }
        if !path.is_file() {
            row.failed(&case, "was not built");
            continue;
        }
        let mut job = workshop.launch(run.tasks);
        job.args(options).args(["--timeout", &run.limit.as_secs().to_string()]);
        job.arg(path).args(&run.arguments);
        job.current_dir(folder).envs(run.variables.iter().map(|(name, value)| (name, value)));
        let log =
            workshop.log(&format!("{}-{}-{}", program.replace(['/', ' '], "-"), run.name, run.tasks))?;
        let ran = command::run(&mut job, run.limit + Duration::from_secs(30), &log)?;
        if run.has_passed(&ran) { row.passed(1) } else { row.failed(&case, &ran.why()) }
    }
    rows.push(row);
    Ok(())
}

/// The folders that a list names: lines of one word.
fn folders(list: &str) -> Vec<String> {
    let words = list.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    words.filter(|line| !line.is_empty() && !line.contains(char::is_whitespace)).map(str::to_owned).collect()
}

/// The executable files of a folder, in the order of their names.
fn executables(folder: &Path) -> Result<Vec<Run>, Problem> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let facts = fs::metadata(&path)?;
        if facts.is_file() && facts.permissions().mode() & 0o111 != 0 {
            paths.push(path);
        }
    }
    paths.sort();
    let names =
        paths.iter().filter_map(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
    let run = |name| Run {
        name,
        tasks: TASKS,
        arguments: Vec::new(),
        variables: Vec::new(),
        limit: LIMIT,
        verdict: Verdict::Ends,
    };
    Ok(names.map(run).collect())
}

/// The cases that are expected to fail, with the reasons. A line is the case, `: ` and the reason.
fn expected(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(": "))
        .map(|(case, why)| (case.to_owned(), why.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_list_is_read() {
        let run = Run::read("bcast 4 arg=-x arg=3 env=A=b timeLimit=600 # slow").unwrap();
        assert_eq!((run.case().as_str(), run.limit.as_secs()), ("bcast 4 -x 3 A=b", 600));
        assert_eq!(Run::read("abort 1 resultTest=TestErrFatal").unwrap().verdict, Verdict::Fails);
        assert_eq!((Run::read("coll"), Run::read("# coll 2"), Run::read("")), (None, None, None));
        assert_eq!(folders("attr \n#basic\ncoll\nx 2\n"), ["attr", "coll"]);
    }

    #[test]
    fn a_program_must_say_that_there_were_no_errors() {
        let run = Run::read("x 2").unwrap();
        let ran = |end, said: &str| Ran { end, said: said.into() };
        assert!(run.has_passed(&ran(End::Well, "a\n No Errors\n")));
        assert!(!run.has_passed(&ran(End::Well, "Found 3 errors\n")));
        assert!(!run.has_passed(&ran(End::Badly(1), " No Errors\n")));
        assert!(!run.has_passed(&ran(End::TooLong, " No Errors\n")));
    }

    #[test]
    fn expected_failures_have_reasons() {
        let expected = expected("# a comment\nx 2 -a: needs files\n\n");
        assert_eq!(expected.get("x 2 -a").map(String::as_str), Some("needs files"));
    }
}
