//! Programs of this repository: in Fortran; and in C, built by MPICH's wrapper, and run on this library and, if they print results, on
//! MPICH.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fs, iter};

use super::Problem;
use super::command::{self, End, Ran};
use super::fetch::{self, Python};
use super::table::Row;
use super::workshop::Workshop;

const LIMIT: Duration = Duration::from_secs(120);

/// The Fortran programs, built by our `mpifort`.
///
/// # Errors
/// There is no gfortran, or a command cannot be started.
pub fn fortran(workshop: &Workshop, rows: &mut Vec<Row>) -> Result<(), Problem> {
    command::must(Command::new("gfortran").arg("--version"), LIMIT, &workshop.log("gfortran")?)?;
    let place = workshop.built("fortran")?;
    let mut all: Vec<(u32, Row)> = [1, 2, 4]
        .map(|tasks| (tasks, Row::new("Fortran", format!("our tests/fortran by our mpifort, {tasks} tasks"))))
        .into();
    for source in sources("fortran", "f_")? {
        let name = stem(&source);
        let mut compile = Command::new(workshop.tool("mpifort"));
        compile.args(["-O1", "-Wno-argument-mismatch", "-o"]).arg(place.join(&name)).arg(&source);
        let built =
            command::run(compile.current_dir(&place), LIMIT, &workshop.log(&format!("fortran-{name}"))?)?;
        for (tasks, row) in &mut all {
            if built.end != End::Well {
                row.failed(&name, &built.why());
                continue;
            }
            let mut job = workshop.launch(*tasks);
            job.args(["--timeout", "60"]).arg(place.join(&name));
            let ran = command::run(&mut job, LIMIT, &workshop.log(&format!("fortran-{tasks}-{name}"))?)?;
            if is_good(&ran) { row.passed(1) } else { row.failed(&name, &ran.why()) }
        }
    }
    rows.extend(all.into_iter().map(|(_, row)| row));
    Ok(())
}

/// The C programs, built by `mpicc_abi` of `mpich`. Programs named `o_` print the results of calls, run on both libraries, and must print
/// the same. The other programs also check results that the standard leaves open, and run only on this library.
///
/// # Errors
/// MPICH cannot be fetched, or a command cannot be started.
pub fn differential(workshop: &Workshop, rows: &mut Vec<Row>) -> Result<(), Problem> {
    let mpich = fetch::mpich(workshop)?;
    let place = workshop.built("differential")?;
    let mut programs = Vec::new();
    for prefix in ["c_", "d_", "o_", "w_"] {
        programs.extend(sources("c", prefix)?);
    }
    let mut all: Vec<(u32, Row, Row)> = [1, 2, 3, 4]
        .map(|tasks| {
            let both = format!("tests/c/o_* by mpich's mpicc_abi on both libraries, {tasks} tasks");
            let ours = format!("tests/c, all others, by mpich's mpicc_abi on ours, {tasks} tasks");
            (tasks, Row::new("C, compared", both), Row::new("C", ours))
        })
        .into();
    for source in programs {
        let name = stem(&source);
        let program = place.join(&name);
        let mut compile = Command::new(mpich.tool("mpicc_abi"));
        compile.args(["-O1", "-w", "-o"]).arg(&program).arg(&source).args(["-lm", "-lpthread"]);
        let built = command::run(&mut compile, LIMIT, &workshop.log(&format!("differential-{name}"))?)?;
        for (tasks, both, only) in &mut all {
            let compared = name.starts_with("o_");
            let row = if compared { both } else { only };
            if built.end != End::Well {
                row.failed(&name, &built.why());
                continue;
            }
            let mut job = workshop.launch(*tasks);
            job.args(["--timeout", "60"]).arg(&program).env("LD_LIBRARY_PATH", workshop.tools());
            let log = workshop.log(&format!("differential-{tasks}-{name}-ours"))?;
            let ours = command::run(&mut job, LIMIT, &log)?;
            if !is_good(&ours) {
                row.failed(&name, &ours.why());
            } else if compared {
                let theirs = on_mpich(workshop, &mpich, &program, *tasks)?;
                compare(&name, &ours, &theirs, row);
            } else {
                row.passed(1);
            }
        }
    }
    for (_, both, only) in all {
        rows.extend([both, only]);
    }
    Ok(())
}

/// Runs a program on MPICH, whose launcher cuts long output in the middle of lines, unless each task writes a file of its own.
fn on_mpich(workshop: &Workshop, mpich: &Python, program: &Path, tasks: u32) -> Result<Ran, Problem> {
    let mut job = Command::new(mpich.tool("mpiexec"));
    job.args(["-n", &tasks.to_string(), "sh", "-c", "exec \"$0\" > \"$0.said-by-$PMI_RANK\""]).arg(program);
    // `cargo run` puts this library's folder into `LD_LIBRARY_PATH`, and the program would find this library instead of MPICH.
    job.env("MPIEXEC_TIMEOUT", "60").env_remove("LD_LIBRARY_PATH");
    let log = workshop.log(&format!("differential-{tasks}-{}-theirs", stem(program)))?;
    let mut ran = command::run(&mut job, LIMIT, &log)?;
    for task in 0..tasks {
        let said = format!("{}.said-by-{task}", program.display());
        ran.said += &fs::read_to_string(said).unwrap_or_default();
    }
    Ok(ran)
}

/// Compares the output of one program on both libraries, and counts the result.
fn compare(name: &str, ours: &Ran, theirs: &Ran, row: &mut Row) {
    let (said, others) = (lines(&ours.said), lines(&theirs.said));
    if !is_good(theirs) {
        row.failed(&format!("{name} on mpich"), &theirs.why());
    } else if said == others {
        row.passed(1);
    } else {
        let differ = iter::zip(&said, &others).find(|(ours, theirs)| ours != theirs);
        let why = differ.map_or_else(
            || "one says more".to_owned(),
            |(ours, theirs)| format!("ours: {ours}; mpich: {theirs}"),
        );
        row.failed(name, &why);
    }
}

/// The lines in an order that does not depend on the speed of tasks.
fn lines(said: &str) -> Vec<&str> {
    let mut lines: Vec<_> = said.lines().collect();
    lines.sort_unstable();
    lines
}

fn is_good(ran: &Ran) -> bool {
    ran.end == End::Well && ran.said.contains("all good")
}

/// The programs in a folder of tests whose names begin with `prefix`.
fn sources(folder: &str, prefix: &str) -> Result<Vec<PathBuf>, Problem> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut found: Vec<PathBuf> = fs::read_dir(&folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)))
        .collect();
    found.sort();
    if found.is_empty() {
        return Err(Problem::Broken(format!("no programs named {prefix} below {}", folder.display())));
    }
    Ok(found)
}

fn stem(source: &Path) -> String {
    source.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
