//! `mpiexec` and `mpirun`: the launcher `amrun`, with the options of other MPI launchers.
//!
//! The launcher starts one program as all tasks. For several programs in one job, the launcher starts this program as all tasks, and each
//! task then becomes the program of its section.

mod values;

use crate::attributes::PROGRAM;
use crate::loaded::SAYS_LIBRARY;
use crate::raise::{INITIAL, INITIAL_WORDS};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, fs, io};

use mpi_over_am::{SettingText, Settings, Table, Wanted};

use super::options::{self, Does};
use super::{faces, standard_output};
use values::report_pid;

/// The text of `--help` and of the manual page.
pub(super) const HELP: &str = "\
usage: mpiexec [OPTIONS] PROGRAM [ARGUMENTS] [: [OPTIONS] PROGRAM [ARGUMENTS]]...

For a program:
  -n, -np, -c N            number of tasks (1, or as many as a batch system has allocated)
  -soft LIST               numbers of tasks that will do, FIRST[:LAST[:STEP]],...: the largest up to -n is taken
  -path FOLDERS            folders where the program is looked up first
  -x NAME[=VALUE]          set a variable for the tasks, or pass it on
  -env NAME VALUE          the same
  -envlist NAME,...        pass these variables on
  -wdir, -wd FOLDER        working folder of the tasks, where a relative program is looked up

For the job:
  -genv NAME VALUE         set a variable for all tasks
  -genvlist NAME,...       pass these variables on to all tasks
  -configfile, -app FILE   read options and programs from a file, one program a line; nothing else may be given
  -initial-errhandler WHAT initial error handler: mpi_errors_are_fatal (the default), mpi_errors_abort or mpi_errors_return
  --hosts, -host, -H LIST  run on these hosts: HOST[:TASKS],... (needs libfabric); -hostfile, -machinefile, -f FILE: one a line
  -N, -npernode, -ppn N    number of tasks on each host
  --oversubscribe          start more tasks than the hosts have slots
  --launch-agent COMMAND   the command that starts the launcher's agent on each host, instead of ssh
  --bind-to core|core:N|none
                           bind each task to a core of its own, or to N, or not (sets such as socket or numa: not)
  --cpu-set 0,2-5          the processors that tasks may use
  --map-by ppr:N:node      as -N N; --map-by slot:PE=N: as --bind-to core:N; tasks fill the hosts in order, whatever else it says
  --with-ft ulfm           let the other tasks run on after one has failed (MPIX_Comm_shrink and the like: mpi-ext.h)
  --usize, --universe N    number of tasks that the program may plan for with those that it starts (MPI_UNIVERSE_SIZE); no limit
  --timeout SECONDS        end the job after this time
  --hang-report SECONDS    print what the tasks do whenever one has waited this long and nothing arrived
  --stats [--json]         print at the end what each task did: calls, messages by protocol and peer, queues, sleeps
  --trace FILE             write what each task did, and when, for Perfetto or chrome://tracing (.txt: as a tree; .svg: as a picture)
  --abi mpich|openmpi      let programs that were built for MPICH, Intel MPI or Open MPI load this library, also if the path of
                           another one is written in them; without the option, they find this library if they find no other
  --shared-malloc          take large blocks of malloc (64 KiB and more, from MPI_Init on) from memory that all tasks reach by
                           a plain copy: faster long messages; a fork without exec copies the blocks in use
  --output-filename FOLDER write the tasks' output to files in this folder (task-0.stdout, task-0.stderr, ...), each host those of
                           its own tasks
  --tag-output, -prepend-rank, -l
                           prefix each line of output with its task
  --timestamp-output       prefix each line of output with the time, UTC
  --merge-stderr-to-stdout write the tasks' standard error to standard output
  --output tag,timestamp,merge,dir=FOLDER
                           the same
  --stdin none             no task reads the standard input, which task 0 reads otherwise
  --report-pid FILE        write the number of the launcher's process to a file
  --report-bindings        print on which processors each task may run
  --verbose, -v            print more about the job; --display-map does the same
  --info [--all|--json|NAME]
                           print what the machine offers, and the settings that differ from their defaults; all, or the one named
  --version, -V            print the version

An option may begin with one dash or two, and a value may follow after an equals sign. `mpiexec --options` prints all options of the
MPI standard, Open MPI, MPICH and Intel MPI that are known, and which of them are taken, have no effect, or are refused, with the reason.
Other hosts get the variables of this library and of the run-time libraries (AM_*, MPI_*, FI_*, OMP_*, RUST_*, SHMEM_*, PATH, LD_LIBRARY_PATH), and
those that an option names.
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
    Ok(found)
}

/// Whether a debugger has started this program.
pub(super) static HOLDS_TASKS: AtomicBool = AtomicBool::new(false);

/// Translates the options and becomes `amrun`. As a task of a job with several programs, becomes the task's program.
#[must_use]
pub fn run(name: &str) -> ExitCode {
    let mut words = env::args_os().skip(1).peekable();
    if words.next_if(|word| word == AS_TASK).is_some() {
        return become_program(name, words);
    }
    match Plan::read(words) {
        Ok(Request::Run(mut plan)) => match plan.prepare_loader() {
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
    /// `-path`: folders where the program is looked up first.
    path: Option<OsString>,
    /// `-soft`: numbers of tasks that will do.
    soft: Option<String>,
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
    /// `--abi`: the binary interface whose library the tasks load, whatever they ask for.
    interface: Option<String>,
    /// A file of hosts that is used if no other option names hosts.
    default_hosts: Option<OsString>,
    /// Whether there may be no more tasks than processors.
    forbids_oversubscription: bool,
    /// Whether no task reads the standard input.
    closes_input: bool,
}

impl Plan {
    fn read(mut words: impl Iterator<Item = OsString>) -> Result<Request, String> {
        let first = words.next();
        let option = first.as_deref().and_then(OsStr::to_str).filter(|word| word.starts_with('-'));
        if let Some(option) = option
            && let Ok((known, value)) = options::find(option)
            && known.does == Does::File
        {
            let file = value.map(OsString::from).or_else(|| words.next());
            return match (file, words.next()) {
                (Some(file), None) => Self::read_words(in_file(Path::new(&file))?.into_iter()),
                _ => Err(format!("{option} needs the name of a file, and allows no other arguments")),
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

    fn end(&mut self, mut section: Section) -> Result<(), String> {
        let Some(program) = section.program.first_mut() else {
            return Err("no program is given; see mpiexec --help".to_owned());
        };
        if let Some(found) = section.path.take().and_then(|path| in_path(&path, Path::new(program))) {
            *program = std::path::absolute(&found).unwrap_or(found).into();
        }
        if let Some(soft) = section.soft.take() {
            let tasks = section.tasks();
            let fits =
                mpi_over_am::largest_in_set(&soft, tasks).map_err(|what| format!("-soft {soft}: {what}"))?;
            section.tasks =
                Some(fits.ok_or_else(|| format!("-soft {soft}: no number of tasks from 1 to {tasks}"))?);
        }
        self.sections.push(section);
        Ok(())
    }

    /// Passes the hosts, and the number of tasks for each (`-N`), to the launcher. Without hosts, that is the number of tasks of the
    /// programs that have no `-n`.
    fn place(&mut self) -> Result<(), String> {
        if let Some(tasks) = self.tasks_a_host {
            match self.hosts {
                Hosts::NotSaid if self.sections.len() > 1 => {
                    for section in &mut self.sections {
                        section.tasks = section.tasks.or(Some(tasks));
                    }
                }
                _ => self.options.extend(["--tasks-per-host".into(), tasks.to_string().into()]),
            }
        }
        match (&self.hosts, &self.default_hosts) {
            (Hosts::List(hosts), _) => self.options.extend(["--hosts".into(), hosts.into()]),
            (Hosts::File(file), _) | (Hosts::NotSaid, Some(file)) => {
                self.options.extend(["--hostfile".into(), file.clone()]);
            }
            (Hosts::NotSaid, None) => {}
        }
        let tasks: u64 = self.sections.iter().map(|section| u64::from(section.tasks())).sum();
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        if self.forbids_oversubscription && self.hosts == Hosts::NotSaid && tasks > processors as u64 {
            return Err(format!("--nooversubscribe: {tasks} tasks need more than {processors} processors"));
        }
        Ok(())
    }

    /// Adds an option of the launcher that has a value.
    fn pass(&mut self, option: &str, value: impl Into<OsString>) {
        self.options.extend([option.into(), value.into()]);
    }

    /// Handles one option with its values. Returns a text if the option only asks to print something.
    fn option(
        &mut self,
        word: &OsStr,
        section: &mut Section,
        words: &mut impl Iterator<Item = OsString>,
    ) -> Result<Option<String>, String> {
        let option = word.to_string_lossy().into_owned();
        let (known, inline) = options::find(&option)?;
        let mut inline = inline.map(OsString::from);
        let mut next =
            || inline.take().or_else(|| words.next()).ok_or_else(|| format!("{option} needs a value"));
        let refused = || Err(format!("{option} is not supported: {}", known.text));
        match known.does {
            Does::Tasks => section.tasks = Some(number(&option, &next()?)?),
            Does::Soft => section.soft = Some(text_of(next()?)),
            Does::TasksPerHost => self.tasks_a_host = Some(number(&option, &next()?)?),
            Does::OneTaskPerHost => self.tasks_a_host = Some(1),
            Does::Wdir => section.wdir = Some(next()?),
            Does::Path => section.path = Some(next()?),
            Does::File => {
                return Err(format!("{option} must be the first option, and allows no other arguments"));
            }
            Does::Hosts => self.hosts = Hosts::List(text_of(next()?)),
            Does::Hostfile => self.hosts = Hosts::File(next()?),
            Does::DefaultHostfile => self.default_hosts = Some(next()?),
            Does::NoOversubscribe => self.forbids_oversubscription = true,
            Does::LaunchAgent => self.pass("--launch-agent", next()?),
            Does::Launcher => match &*text_of(next()?) {
                "ssh" | "fork" => {}
                "rsh" => self.pass("--launch-agent", "rsh"),
                other => return Err(format!("{option} {other}: {}", known.text)),
            },
            Does::Interface => self.pass("--env", assignment("FI_TCP_IFACE".into(), next()?)),
            Does::BindTo => self.bind(&option, &text_of(next()?))?,
            Does::AlwaysBinds(place) => self.bind(&option, place)?,
            Does::CoresPerTask => {
                let cores = number(&option, &next()?)?;
                self.pass("--bind", format!("core:{cores}"));
            }
            Does::MapBy => self.map(&option, &text_of(next()?))?,
            Does::EnvForAll => self.pass("--env", assignment(next()?, next()?)),
            Does::Env => section.variables.push(assignment(next()?, next()?)),
            Does::EnvList => section.variables.extend(listed(&next()?)),
            Does::EnvListForAll => {
                listed(&next()?).into_iter().for_each(|variable| self.pass("--env", variable))
            }
            Does::Export => {
                let word = next()?;
                if word.as_bytes().contains(&b'=') {
                    section.variables.push(word);
                } else {
                    section.variables.extend(inherited(word));
                }
            }
            Does::InitialErrhandler => {
                let word = next()?;
                if !INITIAL_WORDS.iter().any(|(known, _)| word == *known) {
                    return Err(format!(
                        "{option} {}: it is not the name of a predefined error handler",
                        word.to_string_lossy()
                    ));
                }
                self.pass("--env", assignment(INITIAL.into(), word));
            }
            Does::Stdin => match &*text_of(next()?) {
                "0" => {}
                "none" => self.closes_input = true,
                other => {
                    return Err(format!(
                        "{option} {other}: only task 0 can read the standard input; give the others a file: sh -c 'exec PROGRAM < FILE'"
                    ));
                }
            },
            Does::Output => self.output(&option, &text_of(next()?))?,
            Does::Display => self.display(&option, &text_of(next()?)),
            Does::ReportPid => report_pid(&option, &next()?)?,
            Does::SharedMalloc => self.shares_malloc = true,
            Does::BinaryInterface => self.interface = Some(text_of(next()?)),
            Does::Pass(name) => self.options.push(name.into()),
            Does::WithFt => match &*text_of(next()?) {
                "ulfm" | "mpi" => self.options.push("--keep-going".into()),
                "no" | "none" => {}
                other => return Err(format!("{option} {other}: {}", known.text)),
            },
            Does::PassValue(name) => {
                let value = next()?;
                self.pass(name, value);
            }
            Does::Nothing | Does::Noted => {
                for _ in 0..known.values() {
                    drop(next()?);
                }
                if known.does == Does::Noted {
                    mpi_over_am::complain!("mpiexec: {option} has no effect: {}", known.text);
                }
            }
            Does::Refused => return refused(),
            Does::Info => {
                let words: Vec<String> = words.map(text_of).collect();
                return Ok(Some(info(&words)?));
            }
            Does::Options => return Ok(Some(options::table())),
            Does::Version => return Ok(Some(version())),
            Does::Help => return Ok(Some(HELP.to_owned())),
        }
        Ok(None)
    }

    /// Makes the tasks' loader load our `malloc` and the library of `--abi` before all others, including other preloaded libraries, and
    /// find the libraries for programs of other MPI libraries behind all others.
    fn prepare_loader(&mut self) -> Result<(), String> {
        let own = own_path()?;
        let mut preloaded = Vec::new();
        if self.shares_malloc {
            preloaded.push(malloc_library(&own)?);
        }
        if let Some(interface) = &self.interface {
            preloaded.push(faces::library(&own, interface)?);
        }
        if let Some(other) = preloaded.iter().find(|library| !faces::is_plain(library)) {
            return Err(format!("the loader takes no path with a colon or a space: {}", other.display()));
        }
        if !preloaded.is_empty() {
            self.change(PRELOAD, |others| {
                let mut all = OsString::new();
                for library in &preloaded {
                    all = faces::behind(&all, library);
                }
                if others.is_empty() { all } else { faces::behind(&all, Path::new(others)) }
            });
        }
        if let Some(folder) = faces::folder(&own).filter(|folder| faces::is_plain(folder)) {
            self.change(faces::SEARCHED, |users| faces::behind(users, &folder));
        }
        if self.options.iter().any(|option| option == "--verbose") {
            self.pass("--env", assignment(SAYS_LIBRARY.into(), "1".into()));
        }
        Ok(())
    }

    /// Changes a variable of all tasks: the one that they inherit, and those that options set.
    fn change(&mut self, name: &str, change: impl Fn(&OsStr) -> OsString) {
        let with_ours = |value: &OsStr| assignment(name.into(), change(value));
        let all = self.sections.iter_mut().flat_map(|section| &mut section.variables);
        for variable in all.chain(&mut self.options) {
            let value = variable.as_bytes().strip_prefix(name.as_bytes());
            if let Some(value) = value.and_then(|rest| rest.strip_prefix(b"=")) {
                *variable = with_ours(OsStr::from_bytes(value));
            }
        }
        let inherited = env::var_os(name).unwrap_or_default();
        self.options.splice(0..0, ["--env".into(), with_ours(&inherited)]);
    }

    /// The arguments for the launcher.
    fn launcher_arguments(&self, own: &Path) -> Vec<OsString> {
        let tasks: u32 = self.sections.iter().map(Section::tasks).sum();
        let mut arguments = Vec::new();
        // Without -n, hosts or a batch system determine the number of tasks.
        if self.sections.len() > 1 || self.sections.iter().any(|section| section.tasks.is_some()) {
            arguments.extend(["-n".into(), tasks.to_string().into()]);
        } else {
            arguments.extend(["--tasks-by-default".into(), "1".into()]);
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

fn text_of(word: OsString) -> String {
    word.to_string_lossy().into_owned()
}

/// The program in the first of these folders that has it; `None` for a name with a slash.
fn in_path(folders: &OsStr, program: &Path) -> Option<PathBuf> {
    if program.as_os_str().as_bytes().contains(&b'/') {
        return None;
    }
    let can_run = |found: &PathBuf| {
        found.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    env::split_paths(folders).map(|folder| folder.join(program)).find(can_run)
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
    let mut command = Command::new(&amrun);
    command.args(HOLDS_TASKS.load(Ordering::Relaxed).then_some("--hold")).args(plan.launcher_arguments(&own));
    if plan.closes_input {
        command.stdin(Stdio::null());
    }
    let error = mpi_over_am::become_program(&mut command);
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
            let section = Section { tasks: Some(tasks), variables, wdir, program, ..Section::default() };
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
    let folders = env::var_os("PATH").unwrap_or_default();
    in_path(&folders, path).unwrap_or_else(here)
}
