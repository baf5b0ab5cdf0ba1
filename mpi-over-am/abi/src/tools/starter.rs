//! `mpiexec` and `mpirun`: the launcher `amrun`, by the options that people know from other launchers.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

/// What a person may ask for.
const HELP: &str = "\
usage: mpiexec [OPTIONS] PROGRAM [ARGUMENTS]

  -n, -np, --np N          tasks (1)
  --bind-to core|none      give each task a core of its own, or not
  -x NAME[=VALUE]          set a variable for the tasks, or pass it on
  -genv NAME VALUE         the same
  -wdir, --wdir FOLDER     where the tasks start
  --timeout SECONDS        end the job after so long
  --tag-output             mark each line with its task
  --version                the version

Accepted without effect, because it is always so: --oversubscribe, --allow-run-as-root, -genvall, and
-host, --host, -H with this machine. All else that the launcher can do: amrun --help.";

/// Translates the options and becomes `amrun`.
#[must_use]
pub fn run(name: &str) -> ExitCode {
    match translated(std::env::args_os().skip(1)) {
        Ok(Request::Run(arguments)) => {
            let amrun = std::env::current_exe().map(|own| own.with_file_name("amrun"));
            let amrun = amrun.ok().filter(|amrun| amrun.exists()).unwrap_or_else(|| "amrun".into());
            let error = Command::new(&amrun).args(arguments).exec();
            eprintln!("{name}: cannot run {}: {error}; it belongs beside this program", amrun.display());
            ExitCode::FAILURE
        }
        Ok(Request::Say(text)) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(what) => {
            eprintln!("{name}: {what}");
            ExitCode::from(2)
        }
    }
}

enum Request {
    Run(Vec<OsString>),
    Say(String),
}

fn translated(mut words: impl Iterator<Item = OsString>) -> Result<Request, String> {
    let mut arguments: Vec<OsString> = Vec::new();
    let mut tasks = OsString::from("1");
    while let Some(word) = words.next() {
        let option = word.to_string_lossy().into_owned();
        let mut value = || words.next().ok_or_else(|| format!("{option} needs a value"));
        match option.as_str() {
            "-n" | "-np" | "--np" | "-c" => tasks = value()?,
            "--bind-to" | "-bind-to" => arguments.extend(["--bind".into(), value()?]),
            "-env" | "-genv" => {
                let (name, mut word) = (value()?, OsString::new());
                word.push(name);
                word.push("=");
                word.push(words.next().ok_or_else(|| format!("{option} needs a name and a value"))?);
                arguments.extend(["--env".into(), word]);
            }
            "-x" => {
                let word = value()?;
                let text = word.to_string_lossy().into_owned();
                // Without a value the tasks have the variable already: they inherit it.
                if text.contains('=') {
                    arguments.extend(["--env".into(), word]);
                }
            }
            "-wdir" | "--wdir" | "-wd" => arguments.extend(["--wdir".into(), value()?]),
            "--timeout" | "-timeout" => arguments.extend(["--timeout".into(), value()?]),
            "--tag-output" | "-tag-output" | "-l" => arguments.push("--tag-output".into()),
            "--oversubscribe" | "-oversubscribe" | "--allow-run-as-root" | "-genvall" | "-envall" => {}
            "-host" | "--host" | "-H" | "-hosts" => {
                let host = value()?.to_string_lossy().into_owned();
                let is_here = |host: &str| {
                    matches!(host.split(':').next(), Some("localhost" | "127.0.0.1")) || host.is_empty()
                };
                if !host.split(',').all(is_here) {
                    return Err(format!("host {host}: tasks run on this machine only; leave {option} out"));
                }
            }
            "--version" | "-V" | "-version" => {
                let version = env!("CARGO_PKG_VERSION");
                return Ok(Request::Say(format!(
                    "mpiexec of mpi-over-am {version} (MPI 5.0, standard binary interface)"
                )));
            }
            "--help" | "-h" | "-help" => return Ok(Request::Say(HELP.to_owned())),
            ":" => return Err("several programs in one job are not supported".to_owned()),
            unknown if unknown.starts_with('-') => {
                return Err(format!("unknown option {unknown}; mpiexec --help lists those there are"));
            }
            _ => {
                let program = std::iter::once(word).chain(words.by_ref());
                let mut all: Vec<OsString> = vec!["-n".into(), tasks];
                all.append(&mut arguments);
                all.extend(program);
                return Ok(Request::Run(all));
            }
        }
    }
    Err("no program is given; mpiexec --help says how to use it".to_owned())
}
