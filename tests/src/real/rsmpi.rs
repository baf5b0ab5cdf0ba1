//! The crate `mpi` (rsmpi), MPI for Rust over C libraries: its examples, which its authors run as tests, and its tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::Problem;
use super::command::{self, End, Ran};
use super::fetch::{Published, Python, unpack};
use super::table::Row;
use super::workshop::Workshop;

const VERSION: &str = "0.8.2";
const SOURCE: Published = Published {
    address: "https://static.crates.io/crates/mpi/mpi-0.8.2.crate",
    sum: "302522157fd9f0ae43eb9792db89932045a29ae57b15a525724c2b3d0981c338",
};
const FEATURES: &str = "derive,complex";

const BUILD_LIMIT: Duration = Duration::from_secs(1800);
const RUN_LIMIT: Duration = Duration::from_secs(60);

/// Builds rsmpi, and runs its examples and tests.
///
/// # Errors
/// A tool is missing, or the program cannot be fetched, built or started.
pub fn run(workshop: &Workshop, rows: &mut Vec<Row>) -> Result<(), Problem> {
    let archive = SOURCE.fetch(workshop)?;
    let source = archive.with_file_name(format!("mpi-{VERSION}"));
    if !source.exists() {
        unpack(workshop, &archive, &workshop.fetched("sources")?)?;
    }
    let built = workshop.built("rsmpi")?;
    let cargo = cargo(workshop, &source, &built)?;
    let log = workshop.log("rsmpi-build")?;
    command::must(cargo().args(["build", "--examples", "--features", FEATURES]), BUILD_LIMIT, &log)?;
    let examples = examples(&source)?;
    for tasks in [2, 3, 4] {
        let mut row = Row::new("crate mpi (rsmpi)", format!("{VERSION}, examples and tests, {tasks} tasks"));
        for name in &examples {
            let mut job = workshop.launch(tasks);
            job.args(["--timeout", &RUN_LIMIT.as_secs().to_string()]);
            job.arg(built.join("debug/examples").join(name)).env("LD_LIBRARY_PATH", workshop.tools());
            let log = workshop.log(&format!("rsmpi-{tasks}-{name}"))?;
            let ran = command::run(&mut job, RUN_LIMIT * 2, &log)?;
            if ran.end == End::Well { row.passed(1) } else { row.failed(name, &ran.why()) }
        }
        let mut tests = cargo();
        tests.args(["test", "--lib", "--tests", "--no-fail-fast", "--features", FEATURES]);
        let runner = format!("{} -n {tasks} --tag-output --timeout 60", workshop.tool("mpiexec").display());
        tests.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", runner);
        let ran = command::run(&mut tests, BUILD_LIMIT, &workshop.log(&format!("rsmpi-{tasks}-tests"))?)?;
        count(&ran, &mut row);
        rows.push(row);
    }
    Ok(())
}

/// The names of rsmpi's examples.
fn examples(source: &Path) -> Result<Vec<String>, Problem> {
    let mut names: Vec<String> = fs::read_dir(source.join("examples"))?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".rs").map(str::to_owned))
        .collect();
    names.sort();
    if names.is_empty() {
        return Err(Problem::Broken(format!("no examples below {}", source.display())));
    }
    Ok(names)
}

/// Returns a function that makes cargo commands which build the crate on our `mpicc`. libclang, which parses our header, comes from a
/// Python package.
fn cargo(workshop: &Workshop, source: &Path, built: &Path) -> Result<impl Fn() -> Command + use<>, Problem> {
    let python = Python::open(workshop, "python")?;
    python.install(workshop, &["libclang==18.1.1"])?;
    let mut ask = Command::new(python.program());
    ask.args(["-c", "import clang, os; print(os.path.join(clang.__path__[0], 'native'))"]);
    let libclang = command::must(&mut ask, RUN_LIMIT, &workshop.log("rsmpi-libclang")?)?;
    // The package contains only the library, not the compiler's headers.
    let mut ask = Command::new("cc");
    let headers =
        command::must(ask.arg("-print-file-name=include"), RUN_LIMIT, &workshop.log("rsmpi-headers")?)?;
    let (source, built, mpicc) = (source.to_owned(), built.to_owned(), workshop.tool("mpicc"));
    let library: PathBuf = workshop.tools().to_owned();
    Ok(move || {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .current_dir(&source)
            .env("CARGO_TARGET_DIR", &built)
            .env("MPICC", &mpicc)
            .env("LIBCLANG_PATH", libclang.trim())
            .env("BINDGEN_EXTRA_CLANG_ARGS", format!("-I{}", headers.trim()))
            .env("LD_LIBRARY_PATH", &library);
        cargo
    })
}

/// Adds the results of the tests. All tasks run all tests; a test that fails in one of them counts as failed.
fn count(ran: &Ran, row: &mut Row) {
    let mut good = std::collections::BTreeSet::new();
    let before = row.failures();
    for line in ran.said.lines() {
        let Some((_, rest)) = line.split_once("] test ") else { continue };
        match rest.split_once(" ... ") {
            Some((name, "ok")) => drop(good.insert(name)),
            Some((name, "FAILED")) => row.failed(name, &ran.why()),
            _ => (),
        }
    }
    if ran.end != End::Well && row.failures() == before || good.is_empty() {
        row.failed("the tests", &ran.why());
    }
    row.passed(u64::try_from(good.len()).unwrap_or(u64::MAX).saturating_sub(row.failures() - before));
}
