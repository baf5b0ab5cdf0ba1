//! `amrun`: starts a program as the tasks of a job. All work is done by [`am_via_launch`].

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(clippy::print_stdout, clippy::print_stderr, reason = "these panic if the reader has left")
)]

use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use am_via_launch::{
    Allocation, Bind, Ended, HangFormat, HangReport, HangReports, Host, Hosts, HostsError, Launch,
    LaunchError, OutputFormat, Record, Recorded, Statistics, Trace, Wanted, complain,
};
use clap::{CommandFactory, Parser, ValueEnum, error::ErrorKind};
use clap_complete::Shell;

/// Starts a program as the tasks of a job, forwards its output, and cleans up, however the job ends.
///
/// Exit code: that of the first task that failed; 128 plus the signal's number if a signal killed that task; 124 after the time limit; 127
/// if the program does not exist; 126 if it cannot be executed; 101 if cargo cannot build it; 2 for wrong options, and if the job cannot be
/// started for another reason.
#[derive(Debug, Parser)]
#[command(
    name = "amrun",
    version,
    override_usage = "amrun -n TASKS [OPTIONS] PROGRAM [ARGS]...\n       amrun -n TASKS [OPTIONS] --example NAME [-- ARGS]...\n       amrun info [--all | --json | SETTING]\n       amrun report PROCESS [--json]"
)]
struct Options {
    /// Number of tasks, which may exceed the number of processors.
    #[arg(short = 'n', long = "tasks", value_name = "TASKS")]
    tasks: Option<u32>,
    /// Number of tasks if neither -n, hosts, nor a batch system gives it. Set by `mpiexec`.
    #[arg(long, hide = true, value_name = "TASKS")]
    tasks_by_default: Option<u32>,
    /// Builds this example of the cargo workspace around the current directory, in release mode, and runs it.
    #[arg(long, value_name = "NAME")]
    example: Option<String>,
    /// Builds and runs this program (a binary target) in the same way.
    #[arg(long, value_name = "NAME", conflicts_with = "example")]
    bin: Option<String>,
    /// The package of the example or program, needed if several packages have one of this name.
    #[arg(short = 'p', long, value_name = "PACKAGE")]
    package: Option<String>,
    /// Features with which cargo builds that package, separated by commas.
    #[arg(long, value_name = "FEATURES", value_delimiter = ',')]
    features: Vec<String>,
    /// Where tasks run: core binds each task to a processor of its own, core:N to N processors; none lets the system choose.
    #[arg(long, value_name = "WHERE", default_value = "none", value_parser = binding)]
    bind: Bind,
    /// Lets the tasks of each host run only on these processors, such as 0,2-5.
    #[arg(long, value_name = "LIST", value_parser = processors)]
    cpu_set: Option<Processors>,
    /// Prefixes each line of output with `[TASK]`.
    #[arg(long)]
    tag_output: bool,
    /// Prefixes each line of output with the time, UTC.
    #[arg(long)]
    timestamp_output: bool,
    /// Writes the tasks' standard error to standard output.
    #[arg(long, conflicts_with = "output_dir")]
    merge_output: bool,
    /// Prints to standard error the processors on which each task may run.
    #[arg(long)]
    report_bindings: bool,
    /// Writes the output of each task to files in this folder (task-0.stdout, task-0.stderr, ...) instead of forwarding it. With --hosts,
    /// each host makes the folder and writes the files of its own tasks.
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Ends the job if it still runs after this number of seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Number of tasks that the program may plan for, with those that it starts itself (`MPI_UNIVERSE_SIZE`): a number, `system` for the
    /// number of processors, or `infinite`. It is no limit.
    #[arg(long, value_name = "TASKS", value_parser = universe)]
    universe: Option<Universe>,
    /// Lets the other tasks run on after one of them has failed. The job still ends if a task asks for its end (`MPI_Abort`, a fatal
    /// error), and its exit code is 0 if a task exits with 0.
    #[arg(long)]
    keep_going: bool,
    /// Prints a report about the tasks to standard error whenever a task has waited this number of seconds and nothing has arrived. Even
    /// without this option the report is printed on SIGUSR2 to amrun, before the time limit ends the job, and once if nothing has reached
    /// any task for 5 seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    hang_report: Option<Duration>,
    /// Format of that report: text, or one line of JSON.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    hang_format: Format,
    /// Prints at the end what each task did: calls and their time, messages and bytes by protocol and peer, queues, stalls, sleeps.
    #[arg(long)]
    stats: bool,
    /// Prints the figures of --stats as one line of JSON.
    #[arg(long, requires = "stats")]
    json: bool,
    /// Writes a trace of what each task did to this file: a tree of calls if its name ends in .txt, a picture if it ends in .svg, otherwise
    /// JSON for Perfetto or chrome://tracing. Keeps the last 65536 events of each task.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Runs the job on these hosts; the first tasks run on the first host. HOST:N gives a host N tasks; hosts without a number share the
    /// remaining tasks evenly. Without -n, each host takes its number of tasks, or one. Each host needs libfabric, and amrun and the
    /// program at the same paths as here. In a job of Slurm, PBS, LSF or Grid Engine, the hosts are those of that job, and without -n also
    /// the number of tasks, unless options name them.
    #[arg(long, visible_alias = "host", value_name = "HOST[:TASKS],...", conflicts_with = "hostfile")]
    hosts: Option<String>,
    /// Reads the hosts from a file: one per line, as NAME, NAME:TASKS or NAME slots=TASKS max_slots=TASKS.
    #[arg(long, visible_alias = "machinefile", value_name = "FILE")]
    hostfile: Option<PathBuf>,
    /// Number of tasks on each host, instead of the hosts' own numbers.
    #[arg(long, value_name = "TASKS")]
    tasks_per_host: Option<u32>,
    /// Starts the tasks even if there are more than the hosts have slots, up to each host's max_slots.
    #[arg(long)]
    oversubscribe: bool,
    /// Command that starts another command on a host. Its arguments are the name of the host and the command to start.
    #[arg(long, value_name = "COMMAND", default_value = "ssh")]
    launch_agent: String,
    /// Set by amrun itself for the process that starts the tasks of one host.
    #[arg(long, hide = true)]
    agent: bool,
    /// Sets an environment variable for the tasks; can be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    env: Vec<(OsString, OsString)>,
    /// Starts the tasks in this directory, where a program with a relative path is looked up, too.
    #[arg(long, value_name = "DIR")]
    wdir: Option<PathBuf>,
    /// Prints more about the job to standard error: the processes of its tasks and the number of processors, for each host.
    #[arg(long)]
    verbose: bool,
    /// The program and its arguments, or the example's arguments.
    ///
    /// `info` prints what this machine offers, its limits, and the settings that differ from their defaults. `info --all` prints all
    /// settings, `info SETTING` prints one, and `info --json` prints everything as JSON.
    ///
    /// `report PROCESS` prints what the tasks of that process's job do, even if they are stopped or another launcher has started them. In a
    /// job of several hosts, the first amrun process reports all tasks, and any other process reports those of its host.
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// Set by the caller of amrun, or by amrun for its second process, if standard output was closed.
    #[arg(long, hide = true)]
    output_is_closed: bool,
    /// Set by amrun for its second process.
    #[arg(long, hide = true, value_name = "PID")]
    guarded_by: Option<u32>,
    /// Set by amrun for its second process: where it tells the first one of the tasks.
    #[arg(long, hide = true, value_name = "NUMBERS")]
    debugger: Option<String>,
    /// Set by amrun for its second process, and by mpiexec: tasks wait for a debugger.
    #[arg(long, hide = true)]
    hold: bool,
    /// Writes the manual page (man) or the completion for a shell (bash, zsh, fish) to standard output.
    #[arg(long, hide = true, value_name = "WHAT")]
    write: Option<Written>,
    /// Set by cargo, which has built the example or program: its file.
    #[arg(long, hide = true, value_name = "FILE")]
    built: Option<PathBuf>,
    /// Set by `amrun info` for a child process that tries to read the memory of amrun.
    #[arg(long, hide = true, value_name = "QUESTION")]
    answer_probe: Option<String>,
}

impl Options {
    fn names_hosts(&self) -> bool {
        self.hosts.is_some() || self.hostfile.is_some()
    }

    /// The number of tasks if neither -n, hosts, nor a batch system gives it.
    fn tasks_of_none(&self) -> Option<u32> {
        self.tasks_per_host.or(self.tasks_by_default)
    }

    fn processors(&self) -> Vec<usize> {
        self.cpu_set.as_ref().map(|list| list.0.clone()).unwrap_or_default()
    }

    fn output_format(&self) -> OutputFormat {
        OutputFormat { tag: self.tag_output, time: self.timestamp_output, merged: self.merge_output }
    }

    fn hang_reports(&self) -> HangReports {
        let format = match self.hang_format {
            Format::Text => HangFormat::Text,
            Format::Json => HangFormat::Json,
        };
        HangReports { every: self.hang_report, format }
    }

    fn record(&self) -> Record {
        match &self.trace {
            Some(_) => Record::Events,
            None if self.stats => Record::Sums,
            None => Record::Nothing,
        }
    }

    fn is_built_by_cargo(&self) -> bool {
        self.example.is_some() || self.bin.is_some()
    }
}

/// A number of tasks to plan for.
#[derive(Clone, Copy, Debug)]
struct Universe(u32);

fn universe(text: &str) -> Result<Universe, String> {
    match text.to_ascii_lowercase().as_str() {
        "system" => Ok(Universe(u32::try_from(am_via_launch::processors()).unwrap_or(1))),
        // The attribute is an int.
        "infinite" => Ok(Universe(i32::MAX.unsigned_abs())),
        number => number
            .parse()
            .ok()
            .filter(|tasks| (1..=i32::MAX.unsigned_abs()).contains(tasks))
            .map(Universe)
            .ok_or_else(|| "write a number of tasks, system or infinite".to_owned()),
    }
}

/// A list of processors.
#[derive(Clone, Debug)]
struct Processors(Vec<usize>);

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Written {
    Man,
    Bash,
    Zsh,
    Fish,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Text,
    Json,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "it is not a number of seconds".to_owned())?;
    match Duration::try_from_secs_f64(number) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("it must be more than 0 and finite".to_owned()),
    }
}

fn binding(text: &str) -> Result<Bind, String> {
    let number = |number: &str| number.parse().ok().filter(|&number| number > 0);
    let bind = match text.split_once(':') {
        None if text == "none" => Some(Bind::None),
        None if text == "core" => Some(Bind::Cores(1)),
        Some(("core", cores)) => number(cores).map(Bind::Cores),
        _ => None,
    };
    bind.ok_or_else(|| "write core, core:N (N processors for each task) or none".to_owned())
}

fn processors(text: &str) -> Result<Processors, String> {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let range = first.parse::<u16>().ok()?..=last.parse::<u16>().ok()?;
        (!range.is_empty()).then(|| range.map(usize::from))
    };
    let ranges: Option<Vec<_>> = text.split(',').map(|text| range(text.trim())).collect();
    let ranges = ranges.ok_or("write numbers of processors, such as 0,2-5")?;
    Ok(Processors(ranges.into_iter().flatten().collect()))
}

fn assignment(text: &str) -> Result<(OsString, OsString), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

fn main() -> ExitCode {
    am_via_launch::keep_ended_children();
    let options = Options::parse();
    if let Some(question) = &options.answer_probe {
        return answer_probe(question);
    }
    if let Some(what) = options.write {
        return say(&about_itself(what));
    }
    if options.command.first().is_some_and(|word| word == "info") && options.tasks.is_none() {
        return info(&options.command[1..]);
    }
    if options.command.first().is_some_and(|word| word == "report") && options.tasks.is_none() {
        return report(&options.command[1..]);
    }
    if options.agent {
        return agent();
    }
    check(&options);
    let code = match options.guarded_by {
        None if options.is_built_by_cargo() && options.built.is_none() => Err(become_cargo(&options)),
        None => guard(&options),
        Some(guard) => launch(&options, guard),
    };
    code.unwrap_or_else(|error| {
        complain!("amrun: {error}");
        ExitCode::from(error.exit_code())
    })
}

/// Refuses options that describe no job: prints why and ends the process.
fn check(options: &Options) {
    let refuse = |kind, what: &str| Options::command().error(kind, what).exit();
    match options.tasks {
        None if !options.names_hosts() && options.tasks_of_none().is_none() && !is_allocated() => {
            let first = options.command.first().map(|word| word.to_string_lossy()).unwrap_or_default();
            let near = am_via_launch::nearest(&first, ["info", "report"]);
            let near = near.map_or_else(String::new, |near| format!("; or perhaps `amrun {near}` is meant"));
            let what = format!("the number of tasks is missing: -n TASKS{near}");
            refuse(ErrorKind::MissingRequiredArgument, &what)
        }
        Some(0) => refuse(ErrorKind::InvalidValue, "-n 0: a job has at least 1 task"),
        _ => {}
    }
    if options.tasks_per_host == Some(0) {
        refuse(ErrorKind::InvalidValue, "--tasks-per-host 0: a host has at least 1 task");
    }
    if !options.is_built_by_cargo() && options.command.is_empty() {
        refuse(
            ErrorKind::MissingRequiredArgument,
            "nothing to run: name a program, --example NAME or --bin NAME",
        );
    }
    if !options.is_built_by_cargo() && (options.package.is_some() || !options.features.is_empty()) {
        let text = "--package and --features need --example NAME or --bin NAME";
        refuse(ErrorKind::MissingRequiredArgument, text);
    }
}

/// Becomes `cargo run`, which builds the example or program and then, as its runner, runs amrun in this process again: with `--built FILE`
/// before the same arguments. Returns only if cargo cannot be started.
fn become_cargo(options: &Options) -> LaunchError {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "--release"]);
    if io::stderr().is_terminal() {
        // Shows cargo's progress bar, which `--quiet` would hide. Cargo does not ask the terminal for its width if the bar is forced.
        cargo.args(["--config", "term.progress.when='always'", "--config", "term.progress.width=80"]);
    }
    let features = (!options.features.is_empty()).then(|| options.features.join(","));
    let words = [
        ("example", &options.example),
        ("bin", &options.bin),
        ("package", &options.package),
        ("features", &features),
    ];
    cargo.args(words.iter().filter_map(|(name, value)| Some(format!("--{name}={}", value.as_ref()?))));
    let own = match env::current_exe() {
        Ok(own) => own.to_string_lossy().into_owned(),
        Err(source) => return LaunchError::System { doing: "finding amrun's own file", source },
    };
    // A runner for the machine itself has precedence over one that the user has configured. The other is for a cross build that runs here.
    let machine = format!(
        "{}-unknown-linux-{}",
        env::consts::ARCH,
        if cfg!(target_env = "musl") { "musl" } else { "gnu" }
    );
    for machine in [&*machine, "cfg(all())"] {
        // An array of strings is written alike in JSON and TOML.
        let runner = serde_json::json!([own, "--built"]);
        cargo.args(["--config", &format!("target.'{machine}'.runner={runner}")]);
    }
    cargo.arg("--").args(closed_output(options)).args(env::args_os().skip(1));
    LaunchError::System { doing: "starting cargo", source: cargo.exec() }
}

/// What the next process of amrun must be told of a standard output that was closed from the start: Rust's start-up code has opened
/// /dev/null in its place.
fn closed_output(options: &Options) -> Option<OsString> {
    let is_news = am_via_launch::output_was_closed() && !options.output_is_closed;
    is_news.then(|| "--output-is-closed".into())
}

/// The first process: starts itself again as the launcher, and guards this second process.
fn guard(options: &Options) -> Result<ExitCode, LaunchError> {
    match am_via_launch::run_guarded(
        closed_output(options).into_iter().chain(env::args_os().skip(1)),
        options.hold,
    )? {
        Ended::Exited(code) => Ok(ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1))),
        Ended::Signalled(number) => {
            complain!(
                "amrun: the launcher (a process of amrun) was killed by signal {number}, and the job was ended. If nobody sent the signal, look for the out-of-memory killer in the kernel's log, or for a limit of the batch system"
            );
            Ok(ExitCode::from(u8::try_from(128 + number).unwrap_or(255)))
        }
    }
}

/// The second process: runs the job.
fn launch(options: &Options, guard: u32) -> Result<ExitCode, LaunchError> {
    am_via_launch::log_as_asked("amrun");
    warn_of_misspelt_settings();
    let (tasks, hosts) = placement(options)?;
    let mut command = options.command.iter().cloned();
    let program: OsString = match &options.built {
        // Relative to the current directory, as cargo names it, and not to that of the tasks.
        Some(file) => std::path::absolute(file)
            .map_err(|source| LaunchError::System { doing: "finding the program", source })?
            .into(),
        None => command.next().unwrap_or_default(),
    };
    let mut job = Launch::new(program, command)
        .tasks(tasks)
        .bind(options.bind)
        .processors(options.processors())
        .output_format(options.output_format())
        .stdin_to_task_0()
        .own_process(guard);
    for (name, value) in &options.env {
        job = job.env(name, value);
    }
    job = job.record(options.record()).hang_reports(options.hang_reports());
    if options.output_is_closed {
        job = job.output_is_closed();
    }
    if let Some(folder) = &options.output_dir {
        job = job.capture(folder);
    }
    if let Some(wdir) = &options.wdir {
        job = job.wdir(wdir);
    }
    if options.keep_going {
        job = job.keep_going();
    }
    if let Some(Universe(tasks)) = options.universe.or_else(allocated_tasks) {
        job = job.plan_for(tasks);
    }
    if let Some(timeout) = options.timeout {
        job = job.timeout(timeout);
    }
    if !hosts.is_empty() {
        return launch_on(options, hosts, &job);
    }
    if options.hold {
        job = job.hold();
    }
    let running = job.start()?;
    if let Some(numbers) = &options.debugger {
        let shown = am_via_launch::show_tasks(&running, guard, numbers, options.hold);
        // Without a debugger, nobody misses them.
        if let Err(error) = shown
            && options.hold
        {
            complain!("amrun: a debugger finds no tasks here: {error}");
        }
        running.let_go();
    }
    if options.verbose {
        complain!("amrun: {}", am_via_launch::describe(&running));
    }
    if options.report_bindings {
        complain!("{}", am_via_launch::bindings(&running).trim_end());
    }
    let report = running.wait()?;
    say_what_they_did(options, &report.recorded, &[]);
    let line = report.to_string();
    if !line.is_empty() {
        complain!("amrun: {line}");
    }
    Ok(ExitCode::from(report.exit_code()))
}

/// Whether a batch system gives the number of tasks.
fn is_allocated() -> bool {
    Allocation::of_this_process().is_ok_and(|allocation| allocation.is_some())
}

/// The number of tasks for which a batch system has allocated this machine.
fn allocated_tasks() -> Option<Universe> {
    Allocation::of_this_process().ok().flatten().map(|allocation| Universe(allocation.tasks))
}

/// The allocation of the batch job in which this process runs. Prints why if it is not understood.
fn allocation() -> Option<Allocation> {
    let allocation = Allocation::of_this_process();
    allocation.unwrap_or_else(|why| {
        complain!("amrun: the allocation of the batch system is ignored: {why}");
        None
    })
}

/// The number of tasks, and the hosts with the numbers of their tasks, or no hosts if all tasks run on this machine. Options have
/// precedence over a batch system's allocation; a line tells what is taken from it.
fn placement(options: &Options) -> Result<(u32, Vec<Host>), LaunchError> {
    let allocated = if options.names_hosts() { None } else { allocation() };
    let mut hosts = match (&options.hosts, &options.hostfile) {
        (Some(text), _) => am_via_launch::parse_hosts(text)?,
        (None, Some(file)) => am_via_launch::read_hostfile(file)?,
        (None, None) => allocated.as_ref().map(|allocated| allocated.hosts.clone()).unwrap_or_default(),
    };
    if options.names_hosts() && hosts.is_empty() {
        return Err(HostsError::Empty.into());
    }
    if let Some(tasks) = options.tasks_per_host {
        hosts.iter_mut().for_each(|host| host.slots = Some(tasks));
    }
    let slots = || hosts.iter().map(|host| host.slots.unwrap_or(1)).fold(0, u32::saturating_add);
    let by_hosts =
        (!hosts.is_empty()).then(slots).filter(|_| options.names_hosts() || options.tasks_per_host.is_some());
    let by_allocation = || allocated.as_ref().map(|allocated| allocated.tasks);
    let tasks = options.tasks.or(by_hosts).or_else(by_allocation).or(options.tasks_of_none()).unwrap_or(1);
    // A batch system's numbers are no limits for the options.
    let oversubscribe = options.oversubscribe || allocated.is_some();
    let hosts =
        if hosts.is_empty() { hosts } else { am_via_launch::fit_hosts(&hosts, tasks, oversubscribe)? };
    let is_here = hosts.is_empty() || am_via_launch::only_this_machine(&hosts);
    if let Some(allocated) = allocated.filter(|_| !is_here || (options.tasks.is_none() && tasks > 1)) {
        complain!(
            "amrun: as allocated by {allocated}{}",
            if options.tasks.is_none() {
                " (-n and --hosts have precedence)"
            } else {
                "; -n gives the number of tasks"
            }
        );
    }
    Ok((tasks, if is_here { Vec::new() } else { hosts }))
}

/// Launches a job of several hosts.
fn launch_on(options: &Options, hosts: Vec<Host>, job: &Launch) -> Result<ExitCode, LaunchError> {
    let hosts = Hosts {
        hosts,
        launch_agent: options.launch_agent.clone(),
        says_bindings: options.report_bindings,
        verbose: options.verbose,
    };
    let outcome = hosts.run(job)?;
    say_what_they_did(options, &outcome.recorded, &outcome.hosts);
    if !outcome.line.is_empty() {
        complain!("amrun: {}", outcome.line);
    }
    Ok(ExitCode::from(outcome.exit_code))
}

/// The launcher of one host's tasks.
fn agent() -> ExitCode {
    match am_via_launch::run_agent() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain!("amrun --agent: {error}");
            ExitCode::from(2)
        }
    }
}

/// Writes the statistics and the trace, if requested. `hosts`: the host of each task, if there are several.
fn say_what_they_did(options: &Options, recorded: &[Recorded], hosts: &[String]) {
    if options.stats {
        let statistics = Statistics::of(recorded).on_hosts(hosts.to_vec());
        // Numbers and names can always be serialized.
        match options.json {
            true => complain!("{}", serde_json::to_string(&statistics).unwrap_or_default()),
            false => complain!("amrun: what the tasks did:\n{statistics}"),
        }
    }
    if let Some(path) = &options.trace {
        let trace = Trace::of(recorded).on_hosts(hosts.to_vec());
        if let Err(error) = trace.write(path) {
            complain!("amrun: the trace cannot be written to {}: {error}", path.display());
        }
        let missing = trace.missing();
        if !missing.is_empty() {
            complain!("amrun: {missing}");
        }
    }
}

fn warn_of_misspelt_settings() {
    let names = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for (name, near) in am_via_launch::misspelt(names) {
        complain!(
            "amrun: there is no setting {name}; perhaps {near} is meant? `amrun info --all` lists the settings"
        );
    }
}

fn info(words: &[OsString]) -> ExitCode {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let wanted = match Wanted::read(&words) {
        Ok(wanted) => wanted,
        Err(what) => Options::command().error(ErrorKind::InvalidValue, what).exit(),
    };
    match am_via_launch::info(&wanted) {
        Ok(text) => say(&text),
        Err(error) => {
            complain!("amrun: {error}");
            ExitCode::from(2)
        }
    }
}

/// Prints what the tasks of a process's job do.
fn report(words: &[OsString]) -> ExitCode {
    let (process, as_json) = match words {
        [process] => (process.to_str(), false),
        [process, json] if json == "--json" => (process.to_str(), true),
        _ => (None, false),
    };
    let Some(pid) = process.and_then(|word| word.parse().ok()) else {
        Options::command().error(ErrorKind::InvalidValue, "usage: amrun report PROCESS [--json]").exit()
    };
    match HangReport::of_process(pid) {
        // Numbers and names can always be serialized.
        Ok(report) if as_json => say(&format!("{}\n", serde_json::to_string(&report).unwrap_or_default())),
        Ok(report) => say(&format!("{report}\n")),
        Err(error) => {
            complain!("amrun: {error}");
            ExitCode::from(2)
        }
    }
}

/// The manual page, or the completion for a shell.
fn about_itself(what: Written) -> String {
    let mut command = Options::command();
    let mut bytes = Vec::new();
    let shell = match what {
        Written::Man => {
            // Writing to a vector cannot fail.
            let _ = clap_mangen::Man::new(command).render(&mut bytes);
            return String::from_utf8_lossy(&bytes).into_owned();
        }
        Written::Bash => Shell::Bash,
        Written::Zsh => Shell::Zsh,
        Written::Fish => Shell::Fish,
    };
    clap_complete::generate(shell, &mut command, "amrun", &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Prints something, which is all that the call does.
fn say(text: &str) -> ExitCode {
    if am_via_launch::say("amrun", text) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn answer_probe(question: &str) -> ExitCode {
    match am_via_launch::answer_probe(question) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _ = say(&format!("{why}\n"));
            ExitCode::FAILURE
        }
    }
}
