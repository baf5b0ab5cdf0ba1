//! What the launcher does for its tasks when they ask: it starts other tasks, and keeps texts that they publish under names.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use am_via_job::settings::Device;
use am_via_job::{Answer, Ask, Cause, PARENT_VARIABLE, Program, Refusal, TaskState};
use am_via_os::poll;

use super::{Attached, HostLauncher, Watch};
use crate::output::{Forwarder, Sinks, Source};
use crate::spawn::{self, TaskProcess};
use crate::{Bind, EndedBy, Launch, LaunchError, hosts, program};

/// The number of a task's program among those that were started together, for `MPI_APPNUM`.
const PROGRAM_VARIABLE: &str = "AM_PROGRAM";

/// Texts that tasks have published: by name, the task and the text.
#[derive(Debug, Default)]
pub(super) struct Published(BTreeMap<String, (u32, String)>);

impl Published {
    fn publish(&mut self, task: u32, name: String, text: String) -> Answer {
        if self.0.contains_key(&name) {
            return Answer::refused(Refusal::Taken, &format!("the name {name:?} is published already"));
        }
        self.0.insert(name, (task, text));
        Answer::Done
    }

    fn withdraw(&mut self, task: u32, name: &str) -> Answer {
        match self.0.get(name) {
            Some((by, _)) if *by == task => {
                self.0.remove(name);
                Answer::Done
            }
            Some(_) => {
                Answer::refused(Refusal::Name, &format!("another task has published the name {name:?}"))
            }
            None => Answer::refused(Refusal::Name, &format!("the name {name:?} is not published")),
        }
    }

    fn look_up(&self, name: &str) -> Answer {
        let not_there =
            || Answer::refused(Refusal::Name, &format!("no task has published the name {name:?}"));
        self.0.get(name).map_or_else(not_there, |(_, text)| Answer::Text(text.clone()))
    }
}

impl HostLauncher<'_> {
    /// Answers what tasks ask.
    pub(super) fn look_at_asks(&mut self) -> io::Result<()> {
        while poll::poll(&[self.asks.file()], Some(Duration::ZERO))?.contains(&true) {
            for (task, number, ask) in self.asks.read()? {
                if self.job.state(task) != TaskState::Running {
                    continue;
                }
                let job = Arc::clone(&self.job);
                self.published.0.retain(|_, (by, _)| job.state(*by) == TaskState::Running);
                let several_hosts = self.job.num_tasks() > self.launch.tasks;
                let answer = match ask {
                    Ask::Start { programs, parent } => self
                        .start(&programs, &parent)
                        .unwrap_or_else(|why| Answer::refused(Refusal::Start, &why)),
                    Ask::Publish { .. } | Ask::Withdraw { .. } | Ask::LookUp { .. } if several_hosts => {
                        Answer::refused(Refusal::Unsupported, "names are not kept in a job of several hosts")
                    }
                    Ask::Publish { name, text } => self.published.publish(task, name, text),
                    Ask::Withdraw { name } => self.published.withdraw(task, &name),
                    Ask::LookUp { name } => self.published.look_up(&name),
                };
                self.job.answer(task, number, &answer);
            }
        }
        Ok(())
    }

    /// Starts the tasks of these programs, all or none. The error is a text for the program.
    fn start(&mut self, programs: &[Program], parent: &str) -> Result<Answer, String> {
        if self.job.num_tasks() > self.launch.tasks {
            return Ok(Answer::refused(
                Refusal::Unsupported,
                "tasks of a job of several hosts cannot start tasks",
            ));
        }
        if self.launch.device()? == Device::Ofi {
            let why = "tasks cannot start tasks with the setting AM_DEVICE=ofi; unset it";
            return Ok(Answer::refused(Refusal::Unsupported, why));
        }
        let names =
            programs.iter().map(|program| program.name.to_string_lossy()).collect::<Vec<_>>().join(", ");
        if self.kill_at.is_some() {
            return Err(format!("{names}: the job is about to end"));
        }
        let found = programs.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        let counts: Vec<u32> = programs.iter().map(|program| program.tasks).collect();
        if counts.contains(&0) {
            return Err(format!("{names}: a program has no task"));
        }
        self.free_ended();
        let first = self.job.make_world(&counts).map_err(|error| format!("{names}: {error}"))?;
        let all = counts.iter().sum();
        let mut started: Vec<TaskProcess> = Vec::new();
        let mut sources = Vec::new();
        for (place, (program, path)) in programs.iter().zip(&found).enumerate() {
            let launch = self.launch.of_program(program, (place, parent), (first, all));
            for _ in 0..program.tasks {
                let task = first + u32::try_from(started.len()).unwrap_or(u32::MAX);
                match spawn::spawn_one(&launch, path, &[], &self.job, task) {
                    Ok((process, outputs)) => {
                        started.push(process);
                        sources.extend(outputs.into_iter().map(|output| (task, output)));
                    }
                    Err(error) => {
                        self.take_back(&started, first..first + all);
                        return Err(error.to_string());
                    }
                }
            }
        }
        tracing::debug!(first, all, "tasks are started for a task");
        self.watch_later(started);
        if let Err(error) = self.forward(sources) {
            // The tasks run, but the launcher would lose what they print.
            self.end.ask(EndedBy::OutputClosed(libc::EMFILE));
            return Err(error.to_string());
        }
        Ok(Answer::Started { first })
    }

    /// Watches tasks that were started later.
    pub(super) fn watch_later(&mut self, tasks: Vec<TaskProcess>) {
        if self.members.mark.is_some() {
            self.members.roots.extend(tasks.iter().map(|task| task.pid));
        }
        self.watches.extend(tasks.iter().map(|_| Watch::default()));
        self.later.extend(tasks);
        self.started = Instant::now();
    }

    /// Gives up the numbers of tasks that were started later and have ended, if no other task holds anything of them. Until then they stay
    /// unreaped.
    pub(super) fn free_ended(&mut self) {
        let firsts = self.tasks.len();
        for at in (0..self.later.len()).rev() {
            let (task, watch) = (self.later[at].task, &self.watches[firsts + at]);
            let is_behind = matches!(watch.attached, Attached::Behind);
            if watch.ended.is_none() || is_behind && !self.job.has_ended(task) {
                continue;
            }
            let has_ended = |task| self.index(task).is_some_and(|index| self.watches[index].ended.is_some());
            if self.job.free_unless_held(task, has_ended) {
                let process = self.later.remove(at);
                self.watches.remove(firsts + at);
                self.members.roots.retain(|&root| root != process.pid || self.members.mark.is_none());
                process.process.reap();
            }
        }
    }

    /// Whether the failure of a task concerns no other world. If so, ends the task's own world; for an exit with code 0, its tasks only
    /// learn of it.
    pub(super) fn ends_alone(&mut self, index: usize, cause: Cause) -> bool {
        let task = self.number(index);
        // Once the job has failed, other failures are consequences.
        if self.job.is_connected(task) || self.job.first_failure().is_some() {
            return false;
        }
        let first = self.job.first_of_world(task);
        for task in first..first.saturating_add(self.job.world_size(task)) {
            let Some(other) = self.index(task) else { continue };
            if self.watches[other].ended.is_none() && cause != Cause::Exited(0) {
                self.watches[other].killed = true;
                spawn::members_below(self.process(other).pid).signal(libc::SIGKILL);
                // Its death is not handled again, and tasks whose numbers it holds are freed only if it is marked.
                self.job.mark_ended_alone(task, Cause::Signalled(libc::SIGKILL));
            }
        }
        self.job.mark_ended_alone(task, cause);
        if cause != Cause::Exited(0) {
            am_via_os::complain!(
                "amrun: task {task}, which shares nothing with other worlds, {cause}; the job goes on"
            );
        }
        true
    }

    /// Ends tasks that were started before another one could not be.
    fn take_back(&self, started: &[TaskProcess], world: std::ops::Range<u32>) {
        for task in started {
            spawn::members_below(task.pid).kill_all();
            task.process.reap();
        }
        world.for_each(|task| self.job.free(task));
    }

    fn forward(&mut self, sources: Vec<(u32, Source)>) -> Result<(), LaunchError> {
        match &mut self.forwarder {
            Some(forwarder) => forwarder.add(sources),
            None if sources.is_empty() => {}
            None => {
                let sinks = Sinks::of_this_process(self.launch.output_is_closed);
                let format = spawn::output_format(&self.launch);
                self.forwarder = Some(Forwarder::start(sources, format, sinks, Arc::clone(&self.end))?);
            }
        }
        Ok(())
    }
}

impl Launch {
    fn device(&self) -> Result<Device, String> {
        let settings =
            <am_via_job::settings::Settings as am_via_job::settings::Table>::from_variables(|name| {
                self.variable(name)
            });
        settings.map(|settings| settings.device).map_err(|error| error.to_string())
    }

    /// The launch of one of the programs that a task starts.
    fn of_program(
        &self,
        program: &Program,
        (place, parent): (usize, &str),
        (first, all): (u32, u32),
    ) -> Self {
        let own = [(PARENT_VARIABLE, parent.to_owned()), (PROGRAM_VARIABLE, place.to_string())];
        let own = own.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        Self {
            program: program.name.clone(),
            args: program.args.clone(),
            env: self.env.iter().chain(&program.env).cloned().chain(own).collect(),
            wdir: Some(program.wdir.clone()),
            bind: Bind::None,
            stdin_to_task_0: false,
            tasks: all,
            first,
            ..self.clone()
        }
    }
}

/// The file of a program, or why it cannot be started.
fn find(program: &Program) -> Result<std::path::PathBuf, String> {
    let name = program.name.to_string_lossy();
    if let Some(text) = &program.hosts {
        let hosts = hosts::parse_hosts(text).map_err(|error| error.to_string())?;
        if !hosts::only_this_machine(&hosts) {
            return Err(format!("{name}: tasks can be started on this host only, and not on {text}"));
        }
    }
    let wdir = Path::new(&program.wdir);
    // The dot makes the system check the search permission, which entering the directory needs.
    let may_enter = wdir.join(".").metadata();
    may_enter.map_err(|error| format!("{name}: its working directory {wdir:?} cannot be used: {error}"))?;
    let found = program::find_also_in(&program.name, program.path.as_deref(), Some(wdir));
    found.map_err(|error| error.to_string())
}
