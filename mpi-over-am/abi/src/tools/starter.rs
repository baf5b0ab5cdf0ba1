//! `mpiexec` and `mpirun`: the launcher `amrun`, with the options of other MPI launchers.
//!
//! The launcher starts one program as all tasks. For several programs in one job, the launcher starts this program as all tasks, and each
//! task then becomes the program of its section.

use crate::raise::{INITIAL, INITIAL_WORDS};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::{env, fs, io};

use mpi_over_am::{SettingText, Settings, Table, Wanted};

use super::standard_output;

/// The text of `--help` and of the manual page.
pub(super) const HELP: &str = "\
usage: mpiexec [OPTIONS] PROGRAM [ARGUMENTS] [: [OPTIONS] PROGRAM [ARGUMENTS]]...

For a program:
  -n, -np, --np, -c N      number of tasks (1)
  -N, -npernode, -ppn N    number of tasks on each host, if -n is not given
  -x NAME[=VALUE]          set a variable for the tasks, or pass it on
  -env NAME VALUE          the same
  -envlist NAME,...        pass these variables on
  -wdir, --wdir FOLDER     working folder of the tasks

For the job:
  -genv NAME VALUE         set a variable for all tasks
  -genvlist NAME,...       pass these variables on to all tasks
  -configfile FILE         read options and programs from a file, one program a line; nothing else may be given
  -initial-errhandler WHAT initial error handler: mpi_errors_are_fatal (the default), mpi_errors_abort or mpi_errors_return
  --hosts, -host, -H LIST  run on these hosts: HOST[:TASKS],... (needs libfabric); -hostfile, -machinefile, -f FILE: one a line
  --launch-agent COMMAND   the command that starts the launcher's agent on each host, instead of ssh
  --bind-to core|none      bind each task to a core of its own, or not (sets such as socket or numa: not)
  --timeout SECONDS        end the job after this time
  --hang-report SECONDS    print what the tasks do whenever one has waited this long and nothing arrived
  --stats [--json]         print at the end what each task did: calls, messages by protocol and peer, queues, sleeps
  --trace FILE             write what each task did, and when, for Perfetto or chrome://tracing (.txt: as a tree; .svg: as a picture)
  --shared-malloc          take large blocks of malloc (64 KiB and more, from MPI_Init on) from memory that all tasks reach by
                           a plain copy: faster long messages; a fork without exec copies the blocks in use
  --output-filename FOLDER write the tasks' output to files in this folder (task-0.stdout, task-0.stderr, ...), each host those of
                           its own tasks
  --tag-output, -prepend-rank, -l
                           prefix each line of output with its task
  --timestamp-output       prefix each line of output with the time, UTC
  --merge-stderr-to-stdout write the tasks' standard error to standard output
  --report-bindings        print on which processors each task may run
  --verbose, -v            print more about the job; --display-map does the same
  --info [--all|--json|NAME]
                           print what the machine offers, and the settings that differ from their defaults; all, or the one named
  --version, -V            print the version

Accepted without effect, because they are always on: --oversubscribe, --allow-run-as-root, --use-hwthread-cpus, --quiet;
-genvall and -envall for tasks of this machine. Other hosts get the variables of this library and of the run-time
libraries (AM_*, MPI_*, FI_*, OMP_*, RUST_*, PATH, LD_LIBRARY_PATH), and those that an option names.
Accepted without effect, because they are not needed: --map-by WHAT, --rank-by WHAT; --mca NAME VALUE, a parameter of another
library (settings of this one are variables: mpiexec --info --all).
All other options of the launcher: amrun --help.";

/// This process's variable of this name as `NAME=VALUE`, if it is set. Tasks of this machine inherit it anyway; those of other hosts do
/// not.
fn inherited(name: OsString) -> Option<OsString> {
    let value = env::var_os(&name)?;
    Some(assignment(name, value))
}

/// The variables of this process that a list names, separated by commas, as `NAME=VALUE`.
fn listed(names: &OsStr) -> Vec<OsString> {
    let names = names.as_bytes().split(|&byte| byte == b',').filter(|name| !name.is_empty());
    names.filter_map(|name| inherited(OsStr::from_bytes(name).to_owned())).collect()
}

/// The first argument of this program when it is started as a task.
const AS_TASK: &str = "--become-program-of-task";

/// Environment variable that tells a task the number of its program, counted from 0, in a job with several programs.
const PROGRAM: &str = "AM_PROGRAM";

/// Libraries that the system's loader loads before a program's own, separated by colons.
const PRELOAD: &str = "LD_PRELOAD";

/// The library with `malloc` for `--shared-malloc`: beside this program after a build, else in the library folder of an installation.
fn malloc_library(own: &Path) -> Result<PathBuf, String> {
    const NAME: &str = "libmpi_malloc.so";
    let beside = own.with_file_name(NAME);
    let installed = own.parent().and_then(Path::parent).map(|prefix| prefix.join("lib").join(NAME));
    let places = [Some(beside.clone()), installed];
    let found = places.into_iter().flatten().find(|place| place.is_file()).ok_or_else(|| {
        format!("--shared-malloc needs {}, which `cargo build --workspace` makes", beside.display())
    })?;
    if found.as_os_str().as_bytes().iter().any(|byte| b": ".contains(byte)) {
        let found = found.display();
        return Err(format!("--shared-malloc: the loader takes no path with a colon or a space: {found}"));
    }
    Ok(found)
}

/// The number of the calling task's program, if `mpiexec` has started several.
#[must_use]
pub fn program_of_task() -> Option<i32> {
    env::var(PROGRAM).ok()?.parse().ok()
}

/// Translates the options and becomes `amrun`. As a task of a job with several programs, becomes the task's program.
#[must_use]
pub fn run(name: &str) -> ExitCode {
    let mut words = env::args_os().skip(1).peekable();
    if words.next_if(|word| word == AS_TASK).is_some() {
        return become_program(name, words);
    }
    match Plan::read(words) {
        Ok(Request::Run(mut plan)) => match plan.preload_malloc() {
            Ok(()) => become_launcher(name, &plan),
            Err(what) => {
                mpi_over_am::complain!("{name}: {what}");
                ExitCode::FAILURE
            }
        },
        Ok(Request::Say(text)) => standard_output::say(name, &text),
        Err(what) => {
            mpi_over_am::complain!("{name}: {what}");
            ExitCode::from(2)
        }
    }
}

enum Request {
    Run(Plan),
    Say(String),
}

/// A program of the job, and its options.
#[derive(Debug, Default, PartialEq, Eq)]
struct Section {
    tasks: Option<u32>,
    variables: Vec<OsString>,
    wdir: Option<OsString>,
    /// The program and its arguments.
    program: Vec<OsString>,
}

impl Section {
    fn tasks(&self) -> u32 {
        self.tasks.unwrap_or(1)
    }
}

/// The hosts of a job.
#[derive(Debug, Default, PartialEq, Eq)]
enum Hosts {
    #[default]
    NotSaid,
    /// `HOST[:TASKS],...`
    List(String),
    /// A file, for the launcher to read.
    File(OsString),
}

/// A job: options for the launcher, and its programs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    options: Vec<OsString>,
    sections: Vec<Section>,
    hosts: Hosts,
    /// `-N`: tasks on each host.
    tasks_a_host: Option<u32>,
    /// Whether `--shared-malloc` was given.
    shares_malloc: bool,
}

impl Plan {
    fn read(mut words: impl Iterator<Item = OsString>) -> Result<Request, String> {
        let first = words.next();
        if first.as_deref().is_some_and(|word| word == "-configfile" || word == "--configfile") {
            return match (words.next(), words.next()) {
                (Some(file), None) => Self::read_words(in_file(Path::new(&file))?.into_iter()),
                _ => Err("-configfile needs the name of a file, and allows no other arguments".to_owned()),
            };
        }
        Self::read_words(first.into_iter().chain(words))
    }

    fn read_words(words: impl Iterator<Item = OsString>) -> Result<Request, String> {
        let mut plan = Self::default();
        let mut section = Section::default();
        let mut words = words.peekable();
        while let Some(word) = words.next() {
            if word == ":" {
                plan.end(std::mem::take(&mut section))?;
            } else if word.as_bytes().starts_with(b"-") && word != "--" {
                if let Some(text) = plan.option(&word, &mut section, &mut words)? {
                    return Ok(Request::Say(text));
                }
            } else {
                section.program.extend(if word == "--" { words.next() } else { Some(word) });
                while let Some(word) = words.next_if(|word| word != ":") {
                    section.program.push(word);
                }
            }
        }
        plan.end(section)?;
        plan.place()?;
        let tasks = plan.sections.iter().map(Section::tasks).try_fold(0, u32::checked_add);
        tasks.ok_or("the programs have more tasks than a job can have")?;
        Ok(Request::Run(plan))
    }

    fn end(&mut self, section: Section) -> Result<(), String> {
        if section.program.is_empty() {
            return Err("no program is given; see mpiexec --help".to_owned());
        }
        self.sections.push(section);
        Ok(())
    }

    /// Applies the number of tasks for each host (`-N`) to the list of hosts, or without hosts to the programs that have no `-n`. Passes
    /// the hosts to the launcher. `-N` together with a file of hosts, or with hosts and several programs, is an error.
    fn place(&mut self) -> Result<(), String> {
        if let Some(tasks) = self.tasks_a_host {
            match &mut self.hosts {
                Hosts::NotSaid => {
                    for section in &mut self.sections {
                        section.tasks = section.tasks.or(Some(tasks));
                    }
                }
                Hosts::List(hosts) if self.sections.len() == 1 => {
                    // An IPv6 address is in brackets.
                    let with_tasks =
                        |host: &str| match host.rsplit(']').next().is_some_and(|rest| rest.contains(':')) {
                            true => host.to_owned(),
                            false => format!("{host}:{tasks}"),
                        };
                    *hosts = hosts.split(',').map(with_tasks).collect::<Vec<_>>().join(",");
                }
                Hosts::List(_) | Hosts::File(_) => {
                    return Err("-N needs a list of hosts and a single program; for several programs write HOST:TASKS, and -n for each program".to_owned());
                }
            }
        }
        match &self.hosts {
            Hosts::NotSaid => {}
            Hosts::List(hosts) => self.options.extend(["--hosts".into(), hosts.into()]),
            Hosts::File(file) => self.options.extend(["--hostfile".into(), file.clone()]),
        }
        Ok(())
    }

    /// Handles one option with its values. Returns a text if the option only asks to print something.
    fn option(
        &mut self,
        word: &OsStr,
        section: &mut Section,
        words: &mut impl Iterator<Item = OsString>,
    ) -> Result<Option<String>, String> {
        let option = word.to_string_lossy().into_owned();
        let mut value = || words.next().ok_or_else(|| format!("{option} needs a value"));
        match option.as_str() {
            "-n" | "-np" | "--np" | "-c" => section.tasks = Some(number(&option, &value()?)?),
            "-N" | "-npernode" | "--npernode" | "-ppn" => {
                self.tasks_a_host = Some(number(&option, &value()?)?);
            }
            "-host" | "--host" | "-H" | "-hosts" | "--hosts" => {
                self.hosts = Hosts::List(value()?.to_string_lossy().into_owned());
            }
            "-hostfile" | "--hostfile" | "-machinefile" | "--machinefile" | "-f" => {
                self.hosts = Hosts::File(value()?);
            }
            "--launch-agent" | "-launch-agent" => self.options.extend(["--launch-agent".into(), value()?]),
            "--bind-to" | "-bind-to" => {
                let word = value()?;
                let binding = binding(&word)?;
                if binding == "none" && word != "none" {
                    let word = word.to_string_lossy();
                    mpi_over_am::complain!(
                        "mpiexec: {option} {word}: tasks are not bound; {option} core binds each task to a processor"
                    );
                }
                self.options.extend(["--bind".into(), binding.into()]);
            }
            "-genv" => self.options.extend(["--env".into(), assignment(value()?, value()?)]),
            "-env" => section.variables.push(assignment(value()?, value()?)),
            "-x" => {
                let word = value()?;
                if word.as_bytes().contains(&b'=') {
                    section.variables.push(word);
                } else {
                    section.variables.extend(inherited(word));
                }
            }
            "-wdir" | "--wdir" | "-wd" => section.wdir = Some(value()?),
            "--timeout" | "-timeout" => self.options.extend(["--timeout".into(), value()?]),
            "--stats" | "--json" => self.options.push(option.into()),
            "--hang-report" | "--hang-format" | "--trace" => {
                let value = value()?;
                self.options.extend([option.into(), value]);
            }
            "--output-filename" | "-output-filename" => {
                self.options.extend(["--output-dir".into(), value()?])
            }
            "--tag-output" | "-tag-output" | "-prepend-rank" | "--prepend-rank" | "-l" => {
                self.options.push("--tag-output".into())
            }
            "--timestamp-output" | "-timestamp-output" => self.options.push("--timestamp-output".into()),
            "--merge-stderr-to-stdout" | "-merge-stderr-to-stdout" => {
                self.options.push("--merge-output".into());
            }
            "--report-bindings" | "-report-bindings" => self.options.push("--report-bindings".into()),
            "-initial-errhandler" | "--initial-errhandler" => {
                let word = value()?;
                if !INITIAL_WORDS.iter().any(|(known, _)| word == *known) {
                    return Err(format!(
                        "{option} {}: it is not the name of a predefined error handler",
                        word.to_string_lossy()
                    ));
                }
                self.options.extend(["--env".into(), assignment(INITIAL.into(), word)]);
            }
            "--shared-malloc" | "-shared-malloc" => self.shares_malloc = true,
            "--verbose" | "-verbose" | "-v" | "--display-map" | "-display-map" => {
                self.options.push("--verbose".into())
            }
            "--oversubscribe"
            | "-oversubscribe"
            | "--allow-run-as-root"
            | "--use-hwthread-cpus"
            | "-genvall"
            | "-envall"
            | "--quiet"
            | "-quiet"
            | "-q" => {}
            "--map-by" | "-map-by" => {
                let word = value()?.to_string_lossy().to_ascii_lowercase();
                if word.split(':').any(|part| part.starts_with("pe=")) {
                    mpi_over_am::complain!(
                        "mpiexec: {option} {word} is ignored: a task is bound to one processor or to none"
                    );
                }
            }
            "-envlist" => section.variables.extend(listed(&value()?)),
            "-genvlist" => {
                let variables = listed(&value()?);
                self.options.extend(variables.into_iter().flat_map(|variable| ["--env".into(), variable]));
            }
            "--rank-by" | "-rank-by" => drop(value()?),
            "--mca" | "-mca" => drop((value()?, value()?)),
            "--info" | "-info" => {
                let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
                return Ok(Some(info(&words)?));
            }
            "--version" | "-V" | "-version" => return Ok(Some(version())),
            "--help" | "-h" | "-help" => return Ok(Some(HELP.to_owned())),
            "--xterm" | "-xterm" | "-gdb" | "--debug" | "-tv" => {
                return Err(format!("{option} is not needed: write mpiexec -n N xterm -e gdb PROGRAM"));
            }
            "-outfile-pattern" | "--outfile-pattern" | "-errfile-pattern" | "--errfile-pattern" => {
                return Err(format!("{option}: write --output-filename FOLDER; each task gets files there"));
            }
            unknown => {
                return Err(format!("unknown option {unknown}; mpiexec --help lists the options"));
            }
        }
        Ok(None)
    }

    /// Makes the tasks' loader load our `malloc` before all others, including other preloaded libraries.
    fn preload_malloc(&mut self) -> Result<(), String> {
        if !self.shares_malloc {
            return Ok(());
        }
        let own = own_path()?;
        let library = malloc_library(&own)?;
        let with_ours = |others: &OsStr| {
            let mut all = library.as_os_str().to_owned();
            if !others.is_empty() {
                all.push(":");
                all.push(others);
            }
            assignment(PRELOAD.into(), all)
        };
        let all = self.sections.iter_mut().flat_map(|section| &mut section.variables);
        for variable in all.chain(&mut self.options) {
            let others = variable.as_bytes().strip_prefix(PRELOAD.as_bytes());
            if let Some(others) = others.and_then(|rest| rest.strip_prefix(b"=")) {
                *variable = with_ours(OsStr::from_bytes(others));
            }
        }
        let inherited = env::var_os(PRELOAD).unwrap_or_default();
        self.options.splice(0..0, ["--env".into(), with_ours(&inherited)]);
        Ok(())
    }

    /// The arguments for the launcher.
    fn launcher_arguments(&self, own: &Path) -> Vec<OsString> {
        let tasks: u32 = self.sections.iter().map(Section::tasks).sum();
        let mut arguments = Vec::new();
        // Without -n, the list of hosts determines the number of tasks.
        if self.hosts == Hosts::NotSaid
            || self.sections.len() > 1
            || self.sections.iter().any(|section| section.tasks.is_some())
        {
            arguments.extend(["-n".into(), tasks.to_string().into()]);
        }
        if mpi_over_am::output_was_closed() {
            arguments.push("--output-is-closed".into());
        }
        arguments.extend(self.options.iter().cloned());
        match &*self.sections {
            [only] => {
                let variables = only.variables.iter().flat_map(|variable| ["--env".into(), variable.clone()]);
                arguments.extend(variables);
                arguments.extend(only.wdir.iter().flat_map(|wdir| ["--wdir".into(), wdir.clone()]));
                // The program's name may begin like an option.
                arguments.extend(only.program[0].as_bytes().starts_with(b"-").then(|| "--".into()));
                arguments.extend(only.program.iter().cloned());
            }
            several => {
                arguments.extend([own.into(), AS_TASK.into()]);
                for section in several {
                    arguments.push(section.tasks().to_string().into());
                    for list in
                        [&section.variables, &section.wdir.iter().cloned().collect(), &section.program]
                    {
                        arguments.push(list.len().to_string().into());
                        arguments.extend(list.iter().cloned());
                    }
                }
            }
        }
        arguments
    }
}

/// The words of a file for `-configfile`: its lines are the sections of a command line. Lines that begin with `#` are comments. As in a
/// shell, quotes (`'` or `"`) keep the spaces of a word.
fn in_file(path: &Path) -> Result<Vec<OsString>, String> {
    let text =
        fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut words = Vec::new();
    for line in lines.map(|line| line.trim_end_matches(':')) {
        if !words.is_empty() {
            words.push(":".into());
        }
        words.extend(
            unquoted(line).map_err(|quote| format!("{}: {quote} is not closed: {line}", path.display()))?,
        );
    }
    Ok(words)
}

/// The words of a line; an error with the quote that is not closed.
fn unquoted(line: &str) -> Result<Vec<OsString>, char> {
    let (mut words, mut word, mut open) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match open {
            Some(quote) if letter == quote => open = None,
            None if letter == '\'' || letter == '"' => {
                open = Some(letter);
                word.get_or_insert_default();
            }
            None if letter.is_whitespace() => words.extend(word.take().map(OsString::from)),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word.map(OsString::from));
    open.map_or(Ok(words), Err)
}

/// The version, and how much of the standard is implemented.
fn version() -> String {
    format!(
        "mpiexec of mpi-over-am {}: MPI 5.0, {} of its {} functions, in the standard binary interface 1.0",
        env!("CARGO_PKG_VERSION"),
        env!("MPI_FUNCTIONS_THERE"),
        env!("MPI_FUNCTIONS"),
    )
}

fn number(option: &str, word: &OsStr) -> Result<u32, String> {
    let text = word.to_string_lossy();
    text.parse()
        .ok()
        .filter(|&tasks| tasks > 0)
        .ok_or_else(|| format!("{option} {text}: not a number of tasks"))
}

fn assignment(name: OsString, value: OsString) -> OsString {
    let mut word = name;
    word.push("=");
    word.push(value);
    word
}

/// The launcher's form of a binding. Tasks are not bound to sets of several processors.
fn binding(word: &OsStr) -> Result<&'static str, String> {
    match &*word.to_string_lossy() {
        "core" | "hwthread" => Ok("core"),
        "none" | "board" | "socket" | "package" | "numa" | "l3cache" | "l2cache" | "l1cache" => Ok("none"),
        other => Err(format!("--bind-to {other}: tasks can be bound to a core each, or not at all (none)")),
    }
}

/// The output of `amrun info`, and the settings of MPI; the setting that `words` name, if they name one.
fn info(words: &[String]) -> Result<String, String> {
    let wanted = Wanted::read(words).map_err(|what| format!("--{what}"))?;
    let settings = Settings::from_env().map_err(|error| error.to_string())?;
    let text = |own: String| Ok(format!("{}\nSettings of MPI\n{own}", amrun_info(words)?));
    match &wanted {
        Wanted::Changed => text(settings.describe_changed("mpiexec --info")),
        Wanted::All => text(settings.describe()),
        Wanted::Named(name) => match settings.shown().iter().find(|setting| setting.is_called(name)) {
            Some(setting) => Ok(format!("{setting}\n")),
            None => amrun_info(words),
        },
        Wanted::Json => {
            let text = amrun_info(words)?;
            let mut all: serde_json::Value =
                serde_json::from_str(&text).map_err(|error| format!("amrun info --json: {error}"))?;
            all["settings_of_mpi"] = settings.shown().iter().map(SettingText::as_json).collect();
            Ok(format!("{all}\n"))
        }
    }
}

/// The output of `amrun info` with these arguments.
fn amrun_info(words: &[String]) -> Result<String, String> {
    let amrun = launcher(&own_path()?);
    let output = Command::new(&amrun).arg("info").args(words).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot run {}: {error}", amrun.display()))?;
    if !output.status.success() {
        return Err(format!("{} info: {}", amrun.display(), output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The launcher's path: beside this program, or else a name to be looked up in PATH.
fn launcher(own: &Path) -> PathBuf {
    Some(own.with_file_name("amrun")).filter(|amrun| amrun.exists()).unwrap_or_else(|| "amrun".into())
}

fn become_launcher(name: &str, plan: &Plan) -> ExitCode {
    let own = match own_path() {
        Ok(own) => own,
        Err(what) => {
            mpi_over_am::complain!("{name}: {what}");
            return ExitCode::FAILURE;
        }
    };
    let amrun = launcher(&own);
    let error = mpi_over_am::become_program(Command::new(&amrun).args(plan.launcher_arguments(&own)));
    mpi_over_am::complain!(
        "{name}: cannot run {}: {error}; amrun belongs beside this program (`cargo mpi-install` and `cargo build` put both there)",
        amrun.display()
    );
    ExitCode::FAILURE
}

/// The path of this program, or why it is unknown.
fn own_path() -> Result<PathBuf, String> {
    env::current_exe().map_err(|error| {
        if Path::new("/proc/self").exists() {
            format!("the path of this program is unknown: {error}")
        } else {
            "/proc is not mounted here, and without it a job can be neither started nor watched; mount it \
             (mount -t proc proc /proc), or start this where it is"
                .to_owned()
        }
    })
}

/// Runs as a task: finds its section by its number and becomes the section's program.
fn become_program(name: &str, words: impl Iterator<Item = OsString>) -> ExitCode {
    let Some((place, section)) = own_section(words) else {
        mpi_over_am::complain!("{name}: {AS_TASK} is an internal option of {name}");
        return ExitCode::from(2);
    };
    let program = found_from(section.wdir.as_deref(), &section.program[0]);
    let mut command = Command::new(&program);
    command.args(&section.program[1..]).env(PROGRAM, place.to_string());
    for variable in &section.variables {
        let mut halves = variable.as_bytes().splitn(2, |&byte| byte == b'=').map(OsStr::from_bytes);
        command.env(halves.next().unwrap_or_default(), halves.next().unwrap_or_default());
    }
    if let Some(wdir) = &section.wdir {
        command.current_dir(wdir);
    }
    let error = mpi_over_am::become_program(&mut command);
    mpi_over_am::complain!("{name}: cannot run {}: {error}", program.display());
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}

/// The section of this task, and the section's number; `None` if this is no task, or the arguments are not those of
/// [`Plan::launcher_arguments`].
fn own_section(mut words: impl Iterator<Item = OsString>) -> Option<(usize, Section)> {
    let task: u32 = env::var("AM_TASK").ok()?.parse().ok()?;
    let mut before = 0;
    for place in 0.. {
        let tasks: u32 = words.next()?.to_str()?.parse().ok()?;
        let mut list = || {
            let len: usize = words.next()?.to_str()?.parse().ok()?;
            Some(words.by_ref().take(len).collect::<Vec<_>>())
        };
        let (variables, wdir, program) = (list()?, list()?.pop(), list()?);
        before += tasks;
        if task < before {
            let section = Section { tasks: Some(tasks), variables, wdir, program };
            return Some((place, section)).filter(|(_, section)| !section.program.is_empty());
        }
    }
    None
}

/// Finds programs as the launcher does. A path with a slash begins at the task's folder: `wdir`, or else the current one. A name is looked
/// up in PATH, then in that folder.
fn found_from(wdir: Option<&OsStr>, program: &OsStr) -> PathBuf {
    let path = Path::new(program);
    let folder = Path::new(wdir.unwrap_or_default());
    let here = || env::current_dir().map_or_else(|_| folder.join(path), |here| here.join(folder).join(path));
    if path.components().count() > 1 {
        return here();
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    let can_run = |found: &PathBuf| {
        found.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    let in_path = env::split_paths(&folders).map(|folder| folder.join(path)).find(can_run);
    in_path.unwrap_or_else(here)
}
