//! mpi4py's own test suite, with a build by this library's `mpicc`, and with a build by another library's wrapper. The second build finds
//! this library by `LD_LIBRARY_PATH`.
//!
//! The suite runs as a whole. If it does not reach its end, each of its files runs in a job of its own, so that a file that hangs or dies
//! affects only its own tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::command::{self, End, Ran};
use super::fetch::{self, Python, is_done, unpack};
use super::table::Row;
use super::workshop::Workshop;
use super::{Problem, unittest};

const VERSION: &str = "4.1.2";

const TASKS: [u32; 2] = [2, 4];

const BUILD_LIMIT: Duration = Duration::from_secs(1800);
const SUITE_LIMIT: Duration = Duration::from_secs(2400);
const FILE_LIMIT: Duration = Duration::from_secs(900);

/// One build of mpi4py.
struct Build<'a> {
    workshop: &'a Workshop,
    python: &'a Python,
    archive: &'a Path,
    folder: PathBuf,
    name: &'static str,
    compiler: PathBuf,
}

/// Makes both builds, and runs the suite with each.
///
/// # Errors
/// A tool is missing, or the program cannot be fetched, built or started.
pub fn run(workshop: &Workshop, rows: &mut Vec<Row>) -> Result<(), Problem> {
    let python = Python::open(workshop, "python")?;
    python.install(workshop, &["numpy", "cython", "setuptools>=77", "wheel"])?;
    let archive = &python.source(workshop, "mpi4py", VERSION)?;
    let compilers = [
        ("our mpicc", "mpi4py-ours", workshop.tool("mpicc")),
        ("mpich's mpicc_abi", "mpi4py-theirs", fetch::mpich(workshop)?.tool("mpicc_abi")),
    ];
    for (name, folder, compiler) in compilers {
        let folder = workshop.built(folder)?;
        let build = Build { workshop, python: &python, archive, folder, name, compiler };
        let place = build.make()?;
        for tasks in TASKS {
            let mut row = Row::new("mpi4py", format!("{VERSION} by {name}, {tasks} tasks"));
            build.test(&place, tasks, &mut row)?;
            rows.push(row);
        }
    }
    Ok(())
}

impl Build<'_> {
    /// The source, one copy for each build, because a build would reuse files of the other build.
    fn source(&self) -> PathBuf {
        self.folder.join(format!("mpi4py-{VERSION}"))
    }

    /// Path of the built package; builds it if it is missing.
    fn make(&self) -> Result<PathBuf, Problem> {
        let place = self.folder.join("package");
        let (stamp, wanted) = (self.folder.join("built"), format!("{VERSION} {}", self.compiler.display()));
        if !is_done(&stamp, &wanted) {
            fs::remove_dir_all(&self.folder)?;
            fs::create_dir_all(&self.folder)?;
            unpack(self.workshop, self.archive, &self.folder)?;
            let mut build = self.python.pip();
            build
                .args(["install", "--no-build-isolation", "--no-deps", "--no-cache-dir", "--target"])
                .arg(&place)
                .arg(self.source())
                .env("MPICC", &self.compiler)
                .env("CFLAGS", "-O1");
            command::must(&mut build, BUILD_LIMIT, &self.log("build")?)?;
            fs::write(stamp, wanted)?;
        }
        Ok(place)
    }

    fn test(&self, place: &Path, tasks: u32, row: &mut Row) -> Result<(), Problem> {
        let ran = self.launch(place, tasks, SUITE_LIMIT, &[], "suite")?;
        if count(&ran, tasks, row) {
            return Ok(());
        }
        row.failed("the whole suite in one job", &stopped(&ran));
        for file in self.files()? {
            let ran = self.launch(place, tasks, FILE_LIMIT, &["-i", &format!("^{file}\\.py$")], &file)?;
            if !count(&ran, tasks, row) {
                row.failed(&file, &stopped(&ran));
            }
        }
        Ok(())
    }

    /// The files of tests.
    fn files(&self) -> Result<Vec<String>, Problem> {
        let mut files: Vec<String> = fs::read_dir(self.source().join("test"))?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|name| name.strip_suffix(".py").map(str::to_owned))
            .filter(|name| name.starts_with("test_"))
            .collect();
        files.sort();
        if files.is_empty() {
            return Err(Problem::Broken(format!("no tests below {}", self.source().display())));
        }
        Ok(files)
    }

    fn launch(
        &self,
        place: &Path,
        tasks: u32,
        limit: Duration,
        options: &[&str],
        what: &str,
    ) -> Result<Ran, Problem> {
        let mut command: Command = self.workshop.launch(tasks);
        command
            .args(["--tag-output", "--timeout", &limit.as_secs().to_string()])
            .arg(self.python.program())
            .arg(self.source().join("test/main.py"))
            .args(["-v", "--no-builddir"])
            .args(options)
            .env("PYTHONPATH", place)
            .env("LD_LIBRARY_PATH", self.workshop.tools());
        let patience = limit + Duration::from_secs(30);
        Ok(command::run(&mut command, patience, &self.log(&format!("{tasks}-{what}"))?)?)
    }

    fn log(&self, what: &str) -> Result<PathBuf, Problem> {
        let build = if self.name == "our mpicc" { "ours" } else { "theirs" };
        Ok(self.workshop.log(&format!("mpi4py-{build}-{what}"))?)
    }
}

/// Adds the results of a run to `row`, if all tasks completed their tests. Returns whether they did.
fn count(ran: &Ran, tasks: u32, row: &mut Row) -> bool {
    let all = unittest::read(&ran.said);
    let whole = (0..tasks).all(|task| all.get(&task).is_some_and(|tests| tests.ran.is_some()));
    if !whole {
        return false;
    }
    let before = row.failures();
    for tests in all.values() {
        for (case, why) in &tests.failures {
            row.failed(case, why);
        }
    }
    let failed = row.failures() - before;
    if let Some(first) = all.get(&0) {
        row.skipped(first.skipped);
        row.passed(first.ran.unwrap_or(0).saturating_sub(first.skipped + failed));
    }
    if ran.end != End::Well && failed == 0 {
        row.failed("the end of the job", &ran.why());
    }
    true
}

/// The last test of each task, for a job that ended too early.
fn stopped(ran: &Ran) -> String {
    let all = unittest::read(&ran.said);
    let places: Vec<String> = all
        .iter()
        .filter(|(_, tests)| tests.ran.is_none())
        .map(|(task, tests)| format!("task {task} in {}", tests.last))
        .collect();
    format!("{:?}; {}; {}", ran.end, places.join(", "), ran.why())
}
