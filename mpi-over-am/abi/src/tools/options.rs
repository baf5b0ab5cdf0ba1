//! The options of `mpiexec`: those of the standard (MPI 5.0, section 11.5), of Open MPI, of Hydra (MPICH, Intel MPI), and its own. One
//! table tells what becomes of each: it is taken, it has no effect, or it is refused with the option that does the nearest thing. Each
//! option may begin with one dash or two, and a value may follow after a blank or an equals sign. `mpiexec --options` prints the table.

use mpi_over_am::nearest;

/// What `mpiexec` does about an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    AlwaysBinds(&'static str),
    BindTo,
    CoresPerTask,
    DefaultHostfile,
    Display,
    BinaryInterface,
    Env,
    EnvForAll,
    EnvList,
    EnvListForAll,
    Export,
    File,
    Help,
    Hostfile,
    Hosts,
    Info,
    InitialErrhandler,
    Interface,
    LaunchAgent,
    Launcher,
    MapBy,
    NoOversubscribe,
    OneTaskPerHost,
    Options,
    Output,
    /// Passed on to `amrun` under this name, without a value.
    Pass(&'static str),
    /// The same, with its value.
    PassValue(&'static str),
    Path,
    ReportPid,
    SharedMalloc,
    Soft,
    Stdin,
    Tasks,
    TasksPerHost,
    Version,
    Wdir,
    WithFt,
    /// Accepted without effect.
    Nothing,
    /// Accepted without effect, with a line that tells why.
    Noted,
    /// An error.
    Refused,
}

/// An option and its other names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// The names, without dashes.
    pub(super) names: &'static [&'static str],
    /// The names of the values, separated by blanks.
    values: &'static str,
    whose: &'static str,
    pub(super) does: Does,
    /// The meaning; for an option without effect, why it has none; for a refused one, what to write instead.
    pub(super) text: &'static str,
}

impl Known {
    /// Number of values that follow the option.
    pub(super) fn values(&self) -> usize {
        self.values.split_whitespace().count()
    }

    /// The verb of the table.
    fn fate(&self) -> &'static str {
        match self.does {
            Does::Nothing | Does::Noted => "no effect",
            Does::Refused => "refused",
            _ => "taken",
        }
    }
}

const STANDARD: &str = "MPI";
const OPEN: &str = "Open MPI";
const HYDRA: &str = "Hydra";
const BOTH: &str = "Open MPI, Hydra";
const OWN: &str = "own";

const fn known(
    names: &'static [&'static str],
    values: &'static str,
    whose: &'static str,
    does: Does,
    text: &'static str,
) -> Known {
    Known { names, values, whose, does, text }
}

/// All options.
#[rustfmt::skip]
const TABLE: &[Known] = &[
    // Tasks and programs
    known(&["n", "np", "c"], "N", STANDARD, Does::Tasks, "number of tasks (1)"),
    known(&["soft"], "TRIPLETS", STANDARD, Does::Soft, "numbers of tasks that will do, FIRST[:LAST[:STEP]],...: the largest up to -n is taken (MPI 5.0, 11.8.4)"),
    known(&["N", "npernode", "ppn", "perhost", "grr"], "N", BOTH, Does::TasksPerHost, "number of tasks on each host"),
    known(&["pernode", "rr"], "", BOTH, Does::OneTaskPerHost, "one task on each host"),
    known(&["npersocket"], "N", OPEN, Does::Refused, "write -N N for the number of tasks on each host"),
    known(&["wdir", "wd"], "FOLDER", STANDARD, Does::Wdir, "working folder of the tasks, where a relative program is looked up"),
    known(&["path"], "FOLDERS", STANDARD, Does::Path, "folders, separated by colons, where a program without a slash is looked up first"),
    known(&["arch"], "NAME", STANDARD, Does::Noted, "all hosts have the architecture of this one"),
    known(&["file"], "FILE", STANDARD, Does::Refused, "the standard leaves its meaning to the library; write -configfile FILE for a file with options and programs"),
    known(&["configfile", "app"], "FILE-OF-PROGRAMS", "MPI, Open MPI", Does::File, "read options and programs from a file, one program a line; nothing else may be given"),
    known(&["initial-errhandler"], "HANDLER", STANDARD, Does::InitialErrhandler, "initial error handler: mpi_errors_are_fatal, mpi_errors_abort or mpi_errors_return"),
    known(&["memory-alloc-kinds"], "KINDS", STANDARD, Does::Nothing, "the kinds mpi and system are there, whatever is requested"),
    known(&["usize", "universe"], "TASKS", HYDRA, Does::PassValue("--universe"), "the number of tasks that the program may plan for (MPI_UNIVERSE_SIZE), or system, or infinite; no limit"),
    // Environment
    known(&["x"], "NAME[=VALUE]", OPEN, Does::Export, "set a variable for the tasks of a program, or pass it on"),
    known(&["env"], "NAME VALUE", HYDRA, Does::Env, "set a variable for the tasks of a program"),
    known(&["envlist"], "NAMES", HYDRA, Does::EnvList, "pass these variables on to the tasks of a program"),
    known(&["genv"], "NAME VALUE", HYDRA, Does::EnvForAll, "set a variable for all tasks"),
    known(&["genvlist"], "NAMES", HYDRA, Does::EnvListForAll, "pass these variables on to all tasks"),
    known(&["envall", "genvall"], "", HYDRA, Does::Nothing, "tasks of this machine have all variables"),
    known(&["envnone", "genvnone"], "", HYDRA, Does::Refused, "start mpiexec itself with few variables, env -i PATH=\"$PATH\" mpiexec, and set others with -x"),
    known(&["envexcl", "genvexcl"], "NAMES", "Intel MPI", Does::Refused, "start mpiexec itself without them: env -u NAME mpiexec"),
    known(&["mca", "gmca", "omca", "prtemca", "pmixmca"], "NAME VALUE", OPEN, Does::Nothing, "a parameter of another library; for the settings of this one see mpiexec --info --all"),
    known(&["tune", "am"], "FILE", OPEN, Does::Noted, "it holds parameters of another library; for the settings of this one see mpiexec --info --all"),
    // Hosts
    known(&["host", "hosts", "H"], "HOSTS", STANDARD, Does::Hosts, "run on these hosts: HOST[:TASKS],..."),
    known(&["hostfile", "machinefile", "machine", "f"], "HOSTFILE", BOTH, Does::Hostfile, "read the hosts from a file: one a line, perhaps with slots=N and max_slots=N"),
    known(&["default-hostfile"], "HOSTFILE", OPEN, Does::DefaultHostfile, "the same, if no other option names hosts"),
    known(&["add-host", "add-hostfile"], "HOSTS", OPEN, Does::Refused, "write all hosts after -host"),
    known(&["nolocal", "skip-launch-node"], "", BOTH, Does::Refused, "name the other hosts with -host"),
    known(&["order-nodes"], "ORDER", HYDRA, Does::Refused, "name the hosts with -host in the order in which they take tasks"),
    known(&["hosts-group"], "HOSTS", "Intel MPI", Does::Refused, "write all hosts after -host"),
    known(&["oversubscribe"], "", OPEN, Does::Pass("--oversubscribe"), "start the tasks even if there are more than the hosts have slots"),
    known(&["nooversubscribe"], "", OPEN, Does::NoOversubscribe, "refuse more tasks than slots, or, without hosts, than processors"),
    known(&["launch-agent", "launcher-exec", "bootstrap-exec"], "COMMAND", BOTH, Does::LaunchAgent, "the command that starts the launcher's agent on each host, instead of ssh"),
    known(&["launcher", "bootstrap"], "LAUNCHER", HYDRA, Does::Launcher, "ssh or rsh; for another command write --launch-agent COMMAND"),
    known(&["prefix"], "FOLDER", OPEN, Does::Noted, "each host runs amrun by the path that it has here"),
    known(&["noprefix"], "", OPEN, Does::Nothing, "each host runs amrun by the path that it has here"),
    known(&["iface"], "INTERFACE", HYDRA, Does::Interface, "network interface for tcp between hosts (the variable FI_TCP_IFACE)"),
    known(&["rmk"], "NAME", HYDRA, Does::Nothing, "the allocation of Slurm, PBS, LSF and Grid Engine is found by their variables"),
    known(&["localhost"], "NAME", HYDRA, Does::Nothing, "agents are connected through the command that starts them"),
    known(&["preload-binary", "set-cwd-to-session-dir"], "", OPEN, Does::Refused, "each host needs the program at the same path; for another folder write -wdir FOLDER"),
    known(&["preload-files"], "FILES", OPEN, Does::Refused, "copy the files to each host before, and name their folder with -wdir FOLDER"),
    // Placement
    known(&["bind-to"], "WHERE", BOTH, Does::BindTo, "core, core:N (N processors a task), hwthread, none; sets such as socket or numa: not bound, with a line"),
    known(&["bind-to-core"], "", OPEN, Does::AlwaysBinds("core"), "as --bind-to core"),
    known(&["bind-to-none"], "", OPEN, Does::AlwaysBinds("none"), "as --bind-to none"),
    known(&["bind-to-socket"], "", OPEN, Does::AlwaysBinds("socket"), "as --bind-to socket"),
    known(&["cpus-per-proc", "cpus-per-rank"], "N", OPEN, Does::CoresPerTask, "as --bind-to core:N"),
    known(&["cpu-set", "cpu-list"], "PROCESSORS", OPEN, Does::PassValue("--cpu-set"), "the processors that tasks may use, such as 0,2-5"),
    known(&["map-by"], "MAPPING", BOTH, Does::MapBy, "ppr:N:node is -N N, PE=N is --bind-to core:N; tasks fill the hosts in order, whatever else it says"),
    known(&["rank-by"], "MAPPING", OPEN, Does::Nothing, "tasks are numbered in the order of the hosts"),
    known(&["byslot", "bycore", "bysocket"], "", OPEN, Does::Nothing, "tasks fill the hosts in order"),
    known(&["bynode"], "", OPEN, Does::Noted, "tasks fill the hosts in order; -N N gives each host N tasks"),
    known(&["rankfile", "rf"], "FILE", OPEN, Does::Refused, "-host HOST:TASKS,... places tasks on hosts, --bind-to core:N and --cpu-set on processors"),
    known(&["rankmap"], "MAP", HYDRA, Does::Refused, "-host HOST:TASKS,... places tasks on hosts"),
    known(&["membind"], "POLICY", HYDRA, Does::Refused, "write mpiexec -n N numactl OPTIONS PROGRAM"),
    known(&["topolib", "demux"], "NAME", HYDRA, Does::Nothing, "the launcher needs no other library"),
    known(&["gpus-per-proc"], "N", HYDRA, Does::Noted, "tasks choose a GPU by MPI_LOCALRANKID"),
    known(&["use-hwthread-cpus", "hetero-nodes"], "", OPEN, Does::Nothing, "hardware threads are processors, and hosts may differ"),
    known(&["report-bindings"], "", OPEN, Does::Pass("--report-bindings"), "print on which processors each task may run"),
    // Input and output
    known(&["stdin", "s"], "TASK", BOTH, Does::Stdin, "the task that reads the standard input: 0 or none"),
    known(&["output-filename"], "FOLDER", OPEN, Does::PassValue("--output-dir"), "write the tasks' output to files in this folder (task-0.stdout, task-0.stderr, ...), each host those of its own tasks"),
    known(&["output"], "WHAT", OPEN, Does::Output, "a list of tag, rank, timestamp, merge, dir=FOLDER, file=FOLDER"),
    known(&["tag-output", "prepend-rank", "l"], "", BOTH, Does::Pass("--tag-output"), "prefix each line of output with its task"),
    known(&["timestamp-output"], "", OPEN, Does::Pass("--timestamp-output"), "prefix each line of output with the time, UTC"),
    known(&["merge-stderr-to-stdout"], "", OPEN, Does::Pass("--merge-output"), "write the tasks' standard error to standard output"),
    known(&["outfile-pattern", "errfile-pattern"], "PATTERN", HYDRA, Does::Refused, "write --output-filename FOLDER; each task gets files there"),
    known(&["prepend-pattern"], "PATTERN", HYDRA, Does::Refused, "write --tag-output for the task, --timestamp-output for the time"),
    known(&["xml"], "", OPEN, Does::Refused, "write --tag-output, or --output-filename FOLDER for files of each task"),
    known(&["xterm"], "TASKS", OPEN, Does::Refused, "write mpiexec -n N xterm -e gdb PROGRAM"),
    known(&["stream-buffering"], "MODE", OPEN, Does::Nothing, "lines are written when they are complete"),
    // Reports
    known(&["timeout"], "SECONDS", OPEN, Does::PassValue("--timeout"), "end the job after this time, with a report"),
    known(&["get-stack-traces", "report-state-on-timeout"], "", OPEN, Does::Nothing, "the time limit always prints what the tasks do"),
    known(&["report-pid"], "PID-FILE", OPEN, Does::ReportPid, "write the number of the launcher's process to a file; -: standard output, +: standard error"),
    known(&["report-uri"], "FILE", OPEN, Does::Refused, "write --report-pid FILE; amrun report PROCESS finds the job by it"),
    known(&["hang-report"], "SECONDS", OWN, Does::PassValue("--hang-report"), "print what the tasks do whenever one has waited this long and nothing arrived"),
    known(&["hang-format"], "FORMAT", OWN, Does::PassValue("--hang-format"), "text, or json"),
    known(&["stats"], "", OWN, Does::Pass("--stats"), "print at the end what each task did: calls, messages by protocol and peer, queues, sleeps"),
    known(&["json"], "", OWN, Does::Pass("--json"), "the same as JSON"),
    known(&["trace"], "TRACE-FILE", OWN, Does::PassValue("--trace"), "write what each task did, and when, for Perfetto (.txt: as a tree; .svg: as a picture)"),
    known(&["profile"], "", HYDRA, Does::Refused, "write --stats"),
    known(&["check_mpi", "check-mpi"], "", "Intel MPI", Does::Refused, "set AM_CHECK_COLLECTIVES=on"),
    known(&["print-all-exitcodes"], "", HYDRA, Does::Nothing, "the launcher names the first task that failed, and its code"),
    known(&["verbose", "v", "display-map", "display-devel-map", "display-allocation", "print-rank-map"], "", BOTH, Does::Pass("--verbose"), "print more about the job: hosts, tasks, processes"),
    known(&["display"], "WHAT-TO-DISPLAY", OPEN, Does::Display, "a list: map and allocation as --verbose, bind as --report-bindings"),
    known(&["do-not-launch", "dry-run"], "", OPEN, Does::Refused, "--display-map prints where the tasks of the running job are"),
    known(&["quiet", "q", "show-progress", "no-ready-msg", "report-events", "leave-session-attached"], "", OPEN, Does::Nothing, "the launcher prints only errors, and stays attached"),
    // Debuggers and tools
    known(&["gdb", "debug", "tv", "debugger"], "", BOTH, Does::Refused, "write mpiexec -n N xterm -e gdb PROGRAM"),
    known(&["gtool", "gtoolfile"], "TOOL", "Intel MPI", Does::Refused, "write mpiexec -n N TOOL PROGRAM"),
    // Failures and signals
    known(&["disable-auto-cleanup", "enable-recovery", "continuous"], "", BOTH, Does::Pass("--keep-going"), "let the other tasks run on after one has failed; the job still ends if a task asks for its end"),
    known(&["with-ft"], "FAULT-TOLERANCE", OPEN, Does::WithFt, "ulfm or mpi: as --keep-going; no: nothing"),
    known(&["disable-recovery"], "", OPEN, Does::Nothing, "a failure ends the job unless the program asks that it go on"),
    known(&["max-restarts"], "N", OPEN, Does::Refused, "start mpiexec again in a loop of the shell"),
    known(&["forward-signals"], "SIGNALS", OPEN, Does::Nothing, "SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP and SIGCONT are always forwarded"),
    // Others
    known(&["allow-run-as-root", "do-not-resolve", "keep-fqdn-hostnames"], "", OPEN, Does::Nothing, "always so"),
    known(&["personality", "pset"], "NAME", OPEN, Does::Nothing, "a name for another launcher"),
    known(&["enable-x", "disable-x", "pmi-port", "disable-hostname-propagation", "hybrid-hosts"], "", HYDRA, Does::Nothing, "a matter of another launcher"),
    known(&["nameserver"], "ADDRESS", HYDRA, Does::Refused, "the launcher keeps the names that tasks of its job publish; pass an address of another server with -x NAME=VALUE"),
    known(&["abi"], "BINARY-INTERFACE", OWN, Does::BinaryInterface, "let programs that were built for another MPI library load this one"),
    known(&["shared-malloc"], "", OWN, Does::SharedMalloc, "take large blocks of malloc from memory that all tasks reach by a plain copy"),
    known(&["info"], "", OWN, Does::Info, "print what the machine offers, and the settings that differ from their defaults"),
    known(&["options"], "", OWN, Does::Options, "print this table"),
    known(&["version", "V"], "", OWN, Does::Version, "print the version"),
    known(&["help", "h"], "", OWN, Does::Help, "print the usual options"),
];

/// The option that a word names, and the value after an equals sign.
///
/// # Errors
/// There is no such option; the text names the nearest one.
pub(super) fn find(word: &str) -> Result<(&'static Known, Option<&str>), String> {
    let bare = word.strip_prefix("--").or_else(|| word.strip_prefix('-')).unwrap_or(word);
    let named = |name: &str| TABLE.iter().find(|known| known.names.contains(&name));
    if let Some(known) = named(bare) {
        return Ok((known, None));
    }
    if let Some((name, value)) = bare.split_once('=')
        && let Some(known) = named(name)
    {
        return match known.values() {
            1 => Ok((known, Some(value))),
            _ => Err(format!("{word}: the option {name} takes no value after an equals sign")),
        };
    }
    let bare = bare.split('=').next().unwrap_or(bare);
    let near = nearest(bare, TABLE.iter().flat_map(|known| known.names.iter().copied()));
    let near = near.map_or_else(String::new, |near| format!("; perhaps {} is meant", dashed(near)));
    Err(format!("unknown option {word}{near}; mpiexec --help lists the usual options, mpiexec --options all"))
}

/// An option as it is usually written.
fn dashed(name: &str) -> String {
    if name.len() == 1 { format!("-{name}") } else { format!("--{name}") }
}

/// The table as text: names and values, whose option it is, what becomes of it, and the meaning or the reason, separated by at least two
/// blanks.
pub(super) fn table() -> String {
    let names = |known: &Known| {
        let names: Vec<String> = known.names.iter().map(|name| dashed(name)).collect();
        format!("{} {}", names.join(", "), known.values).trim_end().to_owned()
    };
    let width = TABLE.iter().map(|known| names(known).len()).max().unwrap_or(0);
    let line = |known: &Known| {
        format!("{:width$}  {:15}  {:9}  {}", names(known), known.whose, known.fate(), known.text)
    };
    TABLE.iter().map(line).collect::<Vec<_>>().join("\n")
}
