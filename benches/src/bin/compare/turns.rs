//! Runs the libraries in turn and collects their rows.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Instant;

use am_examples::Failure;
use am_examples::statistics::median;

use crate::groups::Group;
use crate::hosts::BareProvider;
use crate::libraries::{Library, OURS, Placement};
use crate::row::{self, Row};
use crate::table::{Table, is_asked_for};
use crate::{Arguments, SOURCES, STARTS, below, cores, hosts, marks, said};

/// A library that has too few near turns gets more turns, up to this multiple of the rounds.
const ROUNDS_MAX: u32 = 3;

/// The libraries with their programs, and what was measured so far.
struct Turns<'a> {
    programs: Vec<(&'a Library, PathBuf)>,
    has_ucx: bool,
    provider: Option<BareProvider>,
    arguments: &'a Arguments,
    /// The names of `--only`, with the measurements of these rows.
    only: Vec<String>,
    table: Table,
    begun: Instant,
    /// Number of turns that have begun, and number of expected turns.
    done: usize,
    expected: usize,
}

/// Builds the C program with each library, in `folder`, and measures the groups that were asked for.
pub(crate) fn measure(libraries: &[Library], folder: &Path, arguments: &Arguments) -> Result<Table, Failure> {
    SOURCES.iter().try_for_each(|(name, text)| crate::write(&folder.join(name), text))?;
    let source = folder.join(SOURCES[0].0);
    let mut programs = Vec::new();
    for library in libraries {
        let program = folder.join(format!("compare-{}", library.name));
        let built = said(library.build(&source, &program), &library.name);
        let mut version = library.command(1, Placement::Free, &program);
        version.args(["version", "-", "1"]);
        match built.and_then(|_| said(version, &library.name)) {
            Ok(version) => {
                println!("{}: {}", library.name, first_words(&version));
                programs.push((library, program));
            }
            Err(error) if library.name == OURS => return Err(error),
            Err(error) => eprintln!("{} is left out: {error}", library.name),
        }
    }
    let groups = arguments.groups();
    let has_ucx = groups.contains(&Group::Below) && below::has_ucx();
    let provider = if groups.contains(&Group::Hosts) { hosts::bare_provider()? } else { None };
    let names = programs.iter().map(|(library, _)| library.name.clone());
    let names = names.chain(has_ucx.then(|| below::UCX.to_owned()));
    let names = names.chain(provider.as_ref().map(|_| hosts::BARE.to_owned()));
    let begun = Instant::now();
    let only = marks::with_measurements(&arguments.only);
    let table = Table::new(names).only(&only);
    let mut turns =
        Turns { programs, has_ucx, provider, arguments, only, table, begun, done: 0, expected: 0 };
    turns.expected =
        groups.iter().map(|&group| turns.in_a_round(group)).sum::<usize>() * arguments.rounds() as usize;
    for &group in groups {
        for tasks in group.tasks() {
            turns.run_group(group, tasks)?;
        }
    }
    Ok(turns.table)
}

impl Turns<'_> {
    /// Number of turns of a round of `group`, over all its numbers of tasks.
    fn in_a_round(&self, group: Group) -> usize {
        let programs = self.programs.iter().filter(|(library, _)| group.includes(library)).count();
        let other = match group {
            Group::Below => self.has_ucx,
            Group::Hosts => self.provider.is_some(),
            _ => false,
        };
        group.tasks().len() * (programs + usize::from(other))
    }

    /// Runs all rounds of a group with this number of tasks. If the distance of the cores is measured, libraries with too few near turns
    /// run again (not with `--quick`).
    fn run_group(&mut self, group: Group, tasks: u32) -> Result<(), Failure> {
        let rounds = self.arguments.rounds();
        let has_more = group.has_distance(tasks) && !self.arguments.quick;
        let mut latencies: Vec<(usize, f64)> = Vec::new();
        for round in 1..=if has_more { ROUNDS_MAX * rounds } else { rounds } {
            // The first library of a round can be slower, after a pause. So each round begins with the next library.
            let count = self.programs.len();
            for at in (0..count).map(|turn| (turn + round as usize - 1) % count) {
                let (library, program) = self.programs[at].clone();
                let is_near = |latency: f64| cores::is_near(Some(latency), self.table.least_latency());
                let near = latencies.iter().filter(|&&(of, latency)| of == at && is_near(latency)).count();
                let has_enough = near >= rounds as usize || latencies.is_empty();
                if !group.includes(library) || round > rounds && has_enough {
                    continue;
                }
                self.tell(group, tasks, round, &library.name);
                let rows = self.turn(group, tasks, library, &program);
                latencies.extend(self.add(&library.name, rows)?.map(|latency| (at, latency)));
            }
            if group == Group::Below && self.has_ucx {
                self.tell(group, tasks, round, below::UCX);
                self.add(below::UCX, below::ucx())?;
            }
            if group == Group::Hosts
                && round <= rounds
                && let Some(provider) = &self.provider
            {
                let rows = provider.rows();
                self.tell(group, tasks, round, hosts::BARE);
                self.add(hosts::BARE, rows)?;
            }
        }
        Ok(())
    }

    fn tell(&mut self, group: Group, tasks: u32, round: u32, name: &str) {
        self.done += 1;
        self.expected = self.expected.max(self.done);
        let rounds = self.arguments.rounds();
        let (seconds, done, expected) = (self.begun.elapsed().as_secs(), self.done, self.expected);
        let again = if round > rounds { " (again: its cores were far)" } else { "" };
        let group = group.name();
        eprintln!(
            "{seconds:>4} s, {done} of {expected}: {group}, {tasks} tasks, round {round} of {rounds}: {name}{again}"
        );
    }

    /// One turn of one library.
    fn turn(
        &self,
        group: Group,
        tasks: u32,
        library: &Library,
        program: &Path,
    ) -> Result<Vec<(Row, f64)>, Failure> {
        let only = &self.only;
        let command = || {
            let mut command = library.command(tasks, group.placement(tasks), program);
            let names = if only.is_empty() { "-".to_owned() } else { only.join(",") };
            command.arg(group.name()).arg(names).arg(self.arguments.batches().to_string());
            command
        };
        let mut rows = if group == Group::Below { below::ours(library)? } else { Vec::new() };
        let companions = Companions::start(group.companions())?;
        rows.extend(run(group, tasks, only, command)?);
        drop(companions);
        if group == Group::Hosts && library.is_ours() {
            hosts::set_beside_the_provider(&mut rows);
        }
        Ok(rows)
    }

    /// Adds the wanted rows of one turn, and returns the distance of its cores. If this library fails, so does the program. If another one
    /// fails, its rows are left out, and the marks that need them are not judged.
    fn add(&mut self, name: &str, rows: Result<Vec<(Row, f64)>, Failure>) -> Result<Option<f64>, Failure> {
        match rows {
            Ok(mut rows) => {
                rows.retain(|(row, _)| row.0 == cores::ROW || is_asked_for(&row.0, &self.only));
                Ok(self.table.add(name, rows))
            }
            Err(error) if name == OURS => Err(error),
            Err(error) => {
                eprintln!("{name}: {error}");
                Ok(None)
            }
        }
    }
}

/// Programs that compute beside a run, until this is dropped.
struct Companions(Vec<Child>);

impl Companions {
    fn start(count: u32) -> Result<Self, Failure> {
        let mut started = Self(Vec::new());
        for _ in 0..count {
            let child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn();
            started.0.push(child.map_err(|error| Failure::Input(format!("cannot run sh: {error}")))?);
        }
        Ok(started)
    }
}

impl Drop for Companions {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It ends by no other way.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Name and version from a library's text about itself, which ends with details in lines of their own, after a comma or in brackets.
fn first_words(text: &str) -> String {
    let end = [",", "\n", " ("].iter().filter_map(|end| text.find(end)).min();
    text[..end.unwrap_or(text.len())].split_whitespace().collect::<Vec<_>>().join(" ")
}

/// One run of one library: the rows that the program prints, or the time of the launcher.
fn run(
    group: Group,
    tasks: u32,
    only: &[String],
    command: impl Fn() -> Command,
) -> Result<Vec<(Row, f64)>, Failure> {
    if group != Group::Start {
        return Ok(said(command(), "the program")?.lines().filter_map(row::parse).collect());
    }
    if !is_asked_for("start", only) {
        return Ok(Vec::new());
    }
    let mut nanoseconds = Vec::new();
    for _ in 0..STARTS {
        let start = Instant::now();
        said(command(), "the program")?;
        nanoseconds.push(start.elapsed().as_nanos() as f64);
    }
    Ok(vec![(("start".to_owned(), tasks.into()), median(&nanoseconds))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_named_by_its_first_words() {
        for (text, words) in [
            ("MPICH Version:\t5.0.2\nMPICH Release date:\t", "MPICH Version: 5.0.2"),
            ("Open MPI v5.0.11, package: Open MPI", "Open MPI v5.0.11"),
            (
                "Intel(R) MPI Library 2021.18.1 for Linux* OS\n",
                "Intel(R) MPI Library 2021.18.1 for Linux* OS",
            ),
            (
                "mpi-over-am 0.1.0: MPI 5.0 over active messages (am-core",
                "mpi-over-am 0.1.0: MPI 5.0 over active messages",
            ),
        ] {
            assert_eq!(first_words(text), words);
        }
    }
}
