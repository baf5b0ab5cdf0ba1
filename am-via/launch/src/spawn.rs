//! Starting the tasks of a job.

use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use super::end_request::{EndRequest, SIGNALS};
use super::members::Members;
use super::output::{Forwarder, OutputFormat, Sinks, Source};
use super::sweeper::Sweeper;
use super::{Launch, LaunchError, Output, agent_message};
use am_via_job::JobOwner;
use am_via_os::process::{BeforeExec, PidFd, before_exec};

/// The process that the launcher started for a task.
#[derive(Debug)]
pub(super) struct TaskProcess {
    pub(super) task: u32,
    pub(super) pid: u32,
    pub(super) process: PidFd,
    pub(super) stdout: Option<PathBuf>,
    pub(super) stderr: Option<PathBuf>,
}

/// A job that was started.
#[derive(Debug)]
pub(super) struct Spawned {
    pub(super) tasks: Arc<[TaskProcess]>,
    pub(super) forwarder: Option<Forwarder>,
    pub(super) sweeper: Option<Sweeper>,
    pub(super) members: Members,
}

/// The processes below `root`, and `root` itself.
pub(super) fn members_below(root: u32) -> Members {
    Members { roots: vec![root], others: Vec::new(), mark: None }
}

/// Starts all tasks or none: if a task can't be started, the tasks before it are ended.
pub(super) fn spawn(
    launch: &Launch,
    program: &Path,
    cpus: &[Vec<usize>],
    job: &JobOwner,
    end: &Arc<EndRequest>,
) -> Result<Spawned, LaunchError> {
    // The job's number with its separator, as in the value of AM_JOB.
    let mark = format!(":{:016x}", job.id());
    let sweeper = Sweeper::start(&mark);
    let mut tasks = Vec::new();
    let mut sources = Vec::new();
    let mut failed = None;
    for task in launch.first..launch.first + launch.tasks {
        match spawn_one(launch, program, cpus, job, task) {
            Ok((process, outputs)) => {
                tasks.push(process);
                sources.extend(outputs.into_iter().map(|output| (task, output)));
            }
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    let members = Members {
        roots: match launch.own_process {
            Some(_) => vec![std::process::id()],
            None => tasks.iter().map(|task| task.pid).collect(),
        },
        others: sweeper.iter().map(Sweeper::pid).collect(),
        mark: launch.own_process.is_none().then_some(mark),
    };
    let forwarder = match failed {
        None if sources.is_empty() => Ok(None),
        None => {
            let format = output_format(launch);
            let sinks = match launch.is_part() {
                true => agent_message::sinks(),
                false => Sinks::of_this_process(launch.output_is_closed),
            };
            Forwarder::start(sources, format, sinks, Arc::clone(end)).map(Some)
        }
        Some(error) => {
            // This process may have reached its limit on open files, of which killing the tasks needs some.
            drop(sources);
            Err(error)
        }
    };
    match forwarder {
        Ok(forwarder) => Ok(Spawned { tasks: tasks.into(), forwarder, sweeper, members }),
        Err(error) => {
            members.kill_all();
            tasks.iter().for_each(|task| task.process.reap());
            sweeper.into_iter().for_each(Sweeper::dismiss);
            Err(error)
        }
    }
}

/// How the output of the tasks is forwarded.
pub(super) fn output_format(launch: &Launch) -> OutputFormat {
    match launch.output {
        Output::Forward(format) => format,
        Output::Capture { .. } => OutputFormat::default(),
    }
}

/// Starts one task.
pub(super) fn spawn_one(
    launch: &Launch,
    program: &Path,
    cpus: &[Vec<usize>],
    job: &JobOwner,
    task: u32,
) -> Result<(TaskProcess, Vec<Source>), LaunchError> {
    let mut command = Command::new(program);
    command.args(&launch.args).envs(launch.env.iter().map(|(name, value)| (name, value)));
    // The variables of the job come after the caller's, which may be those of a job that the caller is a task of.
    for name in ["AM_PINNED", "AM_TERMINAL", "PMI_FD"] {
        command.env_remove(name);
    }
    for name in ["AM_PROGRAM", "AM_PARENT"] {
        if !launch.env.iter().any(|(set, _)| set == name) {
            command.env_remove(name);
        }
    }
    command.envs(job.environment(task)).envs(names_of_other_launchers(launch, job, task));
    if let Some(is_pinned) = launch.is_pinned(cpus) {
        command.env("AM_PINNED", if is_pinned { "1" } else { "0" });
    }
    // The tasks write into pipes; this variable tells them that the output goes to a terminal.
    if matches!(launch.output, Output::Forward(_)) && io::stderr().is_terminal() {
        command.env("AM_TERMINAL", "1");
    }
    if let Some(wdir) = &launch.wdir {
        command.current_dir(wdir);
    }
    let reads = task == 0 && launch.stdin_to_task_0;
    command.stdin(if reads { Stdio::inherit() } else { Stdio::null() });
    let (stdout, stderr) = connect_output(&mut command, launch, task)?;
    before_exec(
        &mut command,
        BeforeExec {
            inherit: job.inherited_files(),
            cpus: cpus.get((task - launch.first) as usize).cloned().unwrap_or_default(),
            dies_with_starter: true,
            unblock: if launch.own_process.is_some() { SIGNALS.to_vec() } else { Vec::new() },
        },
    );
    let failed = |source| LaunchError::Spawn { task, program: program.to_owned(), source };
    let mut child: Child = command.spawn().map_err(failed)?;
    let outputs =
        child.stdout.take().map(Source::Stdout).into_iter().chain(child.stderr.take().map(Source::Stderr));
    let outputs = outputs.collect();
    // The child has not been reaped, so its number is still its own.
    let process = PidFd::open(child.id()).map_err(|source| {
        // A task without a handle can't be watched, so it is killed.
        let _ = child.kill().and_then(|()| child.wait());
        LaunchError::Spawn { task, program: program.to_owned(), source }
    })?;
    Ok((TaskProcess { task, pid: child.id(), process, stdout, stderr }, outputs))
}

/// The variables by which other launchers give a task's number and the number of tasks, in the job and on the host, so that scripts can
/// choose a GPU by them. Libraries of other projects ignore these variables, since `PMI_FD` and similar ones are not set.
fn names_of_other_launchers(launch: &Launch, job: &JobOwner, task: u32) -> Vec<(&'static str, String)> {
    let values = [
        (["PMI_RANK", "OMPI_COMM_WORLD_RANK"], task - job.first_of_world(task)),
        (["PMI_SIZE", "OMPI_COMM_WORLD_SIZE"], job.world_size(task)),
        (["MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK"], task - launch.first),
        (["MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"], launch.tasks),
    ];
    values.into_iter().flat_map(|(names, value)| names.map(|name| (name, value.to_string()))).collect()
}

/// Connects a task's output to a pipe, to files, or to the terminal itself. Returns the names of the files, if there are any.
fn connect_output(
    command: &mut Command,
    launch: &Launch,
    task: u32,
) -> Result<(Option<PathBuf>, Option<PathBuf>), LaunchError> {
    match &launch.output {
        Output::Capture { dir } => {
            let dir = Path::new(dir);
            let failed = |source: io::Error| LaunchError::Capture { dir: dir.to_owned(), source };
            fs::create_dir_all(dir).map_err(failed)?;
            let path = |kind: &str| dir.join(format!("task-{task}.{kind}"));
            let (stdout, stderr) = (path("stdout"), path("stderr"));
            command.stdout(File::create(&stdout).map_err(failed)?);
            command.stderr(File::create(&stderr).map_err(failed)?);
            Ok((Some(stdout), Some(stderr)))
        }
        Output::Forward(format) => {
            // At a terminal, task 0 gets the terminal itself, so that prompts, colours and progress bars work.
            let may_be_direct = task == 0 && *format == OutputFormat::default() && launch.stdin_to_task_0;
            let is_dialogue = io::stdin().is_terminal() && io::stdout().is_terminal();
            let direct = |yes: bool| if yes { Stdio::inherit() } else { Stdio::piped() };
            command.stdout(direct(may_be_direct && is_dialogue));
            command.stderr(direct(may_be_direct && io::stderr().is_terminal()));
            Ok((None, None))
        }
    }
}
