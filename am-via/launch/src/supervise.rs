//! Watches this host's part of a job to its end: deaths, signals, the time, the guard, and what other hosts tell.
//!
//! A loop waits until a process ends, a signal or a request arrives, or a deadline passes, and then checks everything.

use std::collections::BTreeMap;
use std::io::{self, PipeReader};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::agent_message::AgentMessage;
use super::end_request::EndRequest;
use super::hang::HangWatch;
use super::members::{self, Members};
use super::other_mpi;
use super::output::{self, Forwarder};
use super::report::{EndedBy, Report, TaskReport};
use super::spawn::{Spawned, TaskProcess};
use super::sweeper::Sweeper;
use super::{Launch, LaunchError};
use am_via_job::{
    Asks, Bus, BusEvent, Cause, Failure, JOB_VARIABLE, JobOwner, Supervisor, TaskState, signal_of_shell,
};
use am_via_os::limits;
use am_via_os::poll;
use am_via_os::process::{Ended, PidFd};
use am_via_os::signal::SignalFd;

mod starting;

use starting::Published;

/// How long tasks may continue after a signal that ends the job, for example to write a checkpoint.
const GRACE_AFTER_SIGNAL: Duration = Duration::from_secs(3);
/// A second signal within this time counts as the first one, since a signal to a process group may arrive several times.
const ECHO: Duration = Duration::from_millis(250);
/// While the job is young, the interval at which the launcher looks for tasks that attached behind a wrapper. Later it is
/// [`LOOK_EVERY_OLD`].
const LOOK_EVERY_YOUNG: Duration = Duration::from_millis(20);
const LOOK_EVERY_OLD: Duration = Duration::from_millis(250);
/// Age up to which a job is young.
const YOUNG: Duration = Duration::from_secs(2);
/// How long the launcher waits for the cause of a death behind a wrapper that has not reaped its child: on a busy machine it may not have
/// run since its child ended.
const REAPED_WITHIN: Duration = Duration::from_secs(2);
/// How often orphans that became children of this process are reaped.
const REAP_EVERY: Duration = Duration::from_secs(5);
/// How long the launcher waits for more output when all processes of the job are gone and only others hold an output open.
const OUTPUT_PATIENCE: Duration = Duration::from_secs(1);

/// The events besides the tasks' ends that the loop waits for.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) bell: PipeReader,
    /// The guard and the signals, if the launcher has its own process.
    pub(super) own_process: Option<(PidFd, SignalFd)>,
}

/// The process that attached as a task, as far as known.
#[derive(Debug, Default)]
enum Attached {
    #[default]
    NotYet,
    /// The task is the process that the launcher started.
    Direct,
    /// The task runs, or ran, behind a wrapper. The supervisor watches it.
    Behind,
}

#[derive(Debug, Default)]
struct Watch {
    /// How the process that the launcher started has ended.
    ended: Option<Ended>,
    /// If that process is a wrapper: how the task's own process has ended, if known.
    behind: Option<Ended>,
    killed: bool,
    attached: Attached,
}

impl Watch {
    /// The cause of the task's end, derived from its wrapper's end. If a shell's program is killed, the shell exits with 128 plus the
    /// signal's number.
    fn cause_by_wrapper(&self, ended: Ended) -> Cause {
        match ended {
            Ended::Exited(code) if matches!(self.attached, Attached::Behind) => {
                signal_of_shell(code).map_or(Cause::Exited(code), Cause::Signalled)
            }
            ended => ended.into(),
        }
    }

    fn ended_well(&self) -> bool {
        self.ended == Some(Ended::Exited(0)) && self.behind.is_none_or(|behind| behind == Ended::Exited(0))
    }
}

/// The launcher of one host's tasks.
#[derive(Debug)]
pub(super) struct HostLauncher<'bus> {
    job: Arc<JobOwner>,
    supervisor: Supervisor,
    /// The connection to the launcher of the whole job, if that is another one.
    bus: Option<&'bus mut Bus<AgentMessage>>,
    /// The first task on this host.
    first: u32,
    tasks: Arc<[TaskProcess]>,
    /// The tasks that tasks of this host have started.
    later: Vec<TaskProcess>,
    /// What is known about `tasks`, then about `later`.
    watches: Vec<Watch>,
    members: Members,
    forwarder: Option<Forwarder>,
    sweeper: Option<Sweeper>,
    end: Arc<EndRequest>,
    watched: Watched,
    /// What the tasks ask.
    asks: Asks,
    published: Published,
    /// The job as its caller has described it.
    launch: Launch,
    grace: Duration,
    /// When tasks were last started.
    started: Instant,
    deadline: Option<Instant>,
    kill_at: Option<Instant>,
    ended_by: Option<EndedBy>,
    request_seen: bool,
    signalled_at: Option<Instant>,
    /// Since when the job is stopped (SIGTSTP). Meanwhile its time does not run.
    stopped_at: Option<Instant>,
    reaped_at: Instant,
    /// The number of processes that the system had killed for lack of memory when the job began.
    memory_kills: Option<u64>,
    /// An MPI library that a task had mapped before it joined. It matters only if no task joins.
    mpi_library: Option<PathBuf>,
    /// Number of searches for an MPI library so far; each search inspects one task, in turn.
    library_looks: usize,
    /// Hang reports, if wanted.
    hangs: Option<HangWatch>,
    /// Whether the launcher was asked to let the job go on after failures. A task that ends the job takes that back.
    keeps_going: bool,
}

impl<'bus> HostLauncher<'bus> {
    pub(super) fn new(
        launch: &Launch,
        job: Arc<JobOwner>,
        spawned: Spawned,
        end: Arc<EndRequest>,
        (watched, asks): (Watched, Asks),
        bus: Option<&'bus mut Bus<AgentMessage>>,
    ) -> Self {
        let Spawned { tasks, forwarder, sweeper, members } = spawned;
        let now = Instant::now();
        Self {
            watches: tasks.iter().map(|_| Watch::default()).collect(),
            supervisor: Supervisor::new(&job, &launch.hosts, launch.host, REAPED_WITHIN),
            bus,
            job,
            first: launch.first,
            tasks,
            later: Vec::new(),
            members,
            forwarder,
            sweeper,
            end,
            watched,
            asks,
            published: Published::default(),
            launch: launch.clone(),
            grace: launch.grace,
            started: now,
            deadline: launch.timeout.and_then(|timeout| now.checked_add(timeout)),
            kill_at: None,
            ended_by: None,
            request_seen: false,
            signalled_at: None,
            stopped_at: None,
            reaped_at: now,
            memory_kills: limits::cgroup_memory_kills(),
            mpi_library: None,
            library_looks: 0,
            hangs: launch.hang_reports.map(HangWatch::new),
            keeps_going: launch.keeps_going,
        }
    }

    fn process(&self, index: usize) -> &TaskProcess {
        self.tasks.get(index).unwrap_or_else(|| &self.later[index - self.tasks.len()])
    }

    fn processes(&self) -> impl Iterator<Item = &TaskProcess> {
        self.tasks.iter().chain(&self.later)
    }

    fn number(&self, index: usize) -> u32 {
        self.process(index).task
    }

    fn index(&self, task: u32) -> Option<usize> {
        self.processes().position(|process| process.task == task)
    }

    /// Watches the job to its end, and cleans up after it.
    pub(super) fn run(mut self) -> Result<Report, LaunchError> {
        let watched = self.watch_to_the_end();
        let report = self.finish();
        watched.map(|()| report).map_err(LaunchError::system("watching the tasks"))
    }

    fn watch_to_the_end(&mut self) -> io::Result<()> {
        while self.watches.iter().any(|watch| watch.ended.is_none()) {
            self.wait()?;
            self.look_at_signals();
            self.look_at_requests();
            self.look_at_asks()?;
            self.look_for_attached();
            self.look_for_mpi_library();
            self.look_for_deaths()?;
            self.look_for_never_joined();
            self.look_at_the_clock();
        }
        Ok(())
    }

    /// Waits until something has happened, or it is time to look. Meanwhile exchanges notices with the other hosts.
    fn wait(&mut self) -> io::Result<()> {
        let until = self.longest_wait().map(|longest| Instant::now() + longest);
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let limit = left.into_iter().chain(self.supervisor.wait_max(self.bus.is_some())).min();
            let has_happened = poll::poll(&self.files(), limit)?.contains(&true);
            self.look_at_bus();
            if has_happened || left.is_some_and(|left| left.is_zero()) {
                return Ok(());
            }
        }
    }

    fn files(&self) -> Vec<BorrowedFd<'_>> {
        let mut files: Vec<BorrowedFd<'_>> = self.supervisor.files().collect();
        files.push(self.asks.file());
        if !self.request_seen {
            files.push(self.watched.bell.as_fd());
        }
        if let Some((guard, signals)) = &self.watched.own_process {
            files.push(signals.as_fd());
            if self.ended_by != Some(EndedBy::GuardGone) {
                files.push(guard.as_fd());
            }
        }
        let running = self.processes().zip(&self.watches).filter(|(_, watch)| watch.ended.is_none());
        files.extend(running.map(|(task, _)| task.process.as_fd()));
        files
    }

    fn longest_wait(&self) -> Option<Duration> {
        let now = Instant::now();
        let until = |moment: Instant| moment.saturating_duration_since(now);
        let times = [self.deadline, self.kill_at, self.hangs.as_ref().map(HangWatch::next_look)];
        let mut waits: Vec<Duration> = match self.stopped_at {
            None => times.into_iter().flatten().map(until).collect(),
            Some(_) => Vec::new(),
        };
        let is_looked_for = |(index, watch): (usize, &Watch)| match watch.ended {
            None => matches!(watch.attached, Attached::NotYet),
            // A process that its wrapper has left behind may still join.
            Some(_) => self.has_ended_well_without_joining(index),
        };
        waits.extend(self.supervisor.wait_max(false));
        // Another host may tell that one of its tasks will not join.
        if self.has_other_hosts() || self.watches.iter().enumerate().any(is_looked_for) {
            let young = now.duration_since(self.started) < YOUNG;
            waits.push(if young { LOOK_EVERY_YOUNG } else { LOOK_EVERY_OLD });
        }
        if self.watched.own_process.is_some() {
            waits.push(REAP_EVERY);
        }
        waits.into_iter().min()
    }

    /// Exchanges notices with the other hosts, and does what the launcher of the whole job wants.
    fn look_at_bus(&mut self) {
        let Some(bus) = &mut self.bus else { return };
        for (_, event) in self.supervisor.exchange(bus) {
            match event {
                BusEvent::Own(AgentMessage::Signal(number @ (libc::SIGUSR1 | libc::SIGUSR2))) => {
                    self.members.signal_those_who_catch(number);
                }
                BusEvent::Own(AgentMessage::Signal(number)) => self.members.signal(number),
                BusEvent::Own(AgentMessage::End) | BusEvent::Lost(_) => self.end.ask(EndedBy::Caller),
                BusEvent::Own(_) | BusEvent::Notice(_) => {}
            }
        }
    }

    fn look_at_signals(&mut self) {
        let mut received = Vec::new();
        if let Some((guard, signals)) = &self.watched.own_process {
            if guard.has_ended() {
                self.end.ask(EndedBy::GuardGone);
            }
            received.extend(std::iter::from_fn(|| signals.next()));
        }
        for signal in received {
            match signal.signal {
                libc::SIGUSR1 => self.members.signal_those_who_catch(signal.signal),
                libc::SIGUSR2 => {
                    self.members.signal_those_who_catch(signal.signal);
                    if let Some(hangs) = &mut self.hangs {
                        hangs.report(&self.job);
                    }
                }
                libc::SIGTSTP => self.stop(signal.from_system),
                libc::SIGCONT => self.go_on(),
                number => self.end_by_signal(number, signal.from_system),
            }
        }
    }

    /// Stops the tasks. A terminal has already sent them SIGTSTP, which they may handle.
    fn stop(&mut self, from_terminal: bool) {
        if !from_terminal {
            self.members.signal(libc::SIGSTOP);
        }
        self.stopped_at.get_or_insert_with(Instant::now);
    }

    /// Lets stopped tasks go on.
    fn go_on(&mut self) {
        let Some(stopped_at) = self.stopped_at.take() else { return };
        let stopped = stopped_at.elapsed();
        for moment in [&mut self.deadline, &mut self.kill_at].into_iter().flatten() {
            *moment += stopped;
        }
        if let Some(hangs) = &mut self.hangs {
            hangs.put_off();
        }
        self.members.signal(libc::SIGCONT);
    }

    /// Ends the job by a signal: the first one is forwarded, and the tasks get a grace period; the second one kills them.
    fn end_by_signal(&mut self, number: i32, from_terminal: bool) {
        let now = Instant::now();
        match self.signalled_at {
            None => {
                self.signalled_at = Some(now);
                self.ended_by.get_or_insert(EndedBy::Signal(number));
                // A terminal has already sent the signal to the tasks.
                if !from_terminal {
                    self.members.signal(number);
                }
                // A stopped task gets it when it goes on.
                self.go_on();
                self.kill_within(GRACE_AFTER_SIGNAL);
            }
            Some(first) if now.duration_since(first) < ECHO => {}
            Some(_) => self.kill_within(Duration::ZERO),
        }
    }

    fn look_at_requests(&mut self) {
        let Some(reason) = self.end.asked().filter(|_| !self.request_seen) else { return };
        self.request_seen = true;
        self.go_on();
        self.ended_by.get_or_insert(reason);
        match reason {
            EndedBy::OutputClosed(_) => {
                self.members.signal(libc::SIGTERM);
                self.kill_within(self.grace);
            }
            _ => self.kill_within(Duration::ZERO),
        }
    }

    /// Finds processes that attached behind wrappers, so that their deaths are noticed at once.
    fn look_for_attached(&mut self) {
        let processes = self.tasks.iter().chain(&self.later);
        for (process, watch) in processes.zip(&mut self.watches) {
            let task = process.task;
            let is_new = |_: &u32| matches!(watch.attached, Attached::NotYet);
            watch.attached = match self.job.pid(task).filter(is_new) {
                None => continue,
                Some(pid) if pid == process.pid => Attached::Direct,
                Some(pid) => {
                    self.supervisor.watch(task, PidFd::open(pid).ok());
                    self.job.set_watched(task);
                    Attached::Behind
                }
            };
        }
    }

    /// Inspects one task that has not joined, to find which MPI library it has mapped. The end of the task would be too late, since a
    /// process's mappings are gone before its parent is notified.
    fn look_for_mpi_library(&mut self) {
        if self.mpi_library.is_some() {
            return;
        }
        let is_candidate =
            |watch: &Watch| watch.ended.is_none() && matches!(watch.attached, Attached::NotYet);
        let candidates: Vec<u32> = self
            .processes()
            .zip(&self.watches)
            .filter(|(_, watch)| is_candidate(watch))
            .map(|(task, _)| task.pid)
            .collect();
        if let Some(pid) = candidates.get(self.library_looks % candidates.len().max(1)) {
            self.library_looks += 1;
            self.mpi_library = other_mpi::mapped_by(*pid);
        }
    }

    fn has_ended_well_without_joining(&self, index: usize) -> bool {
        self.watches[index].ended == Some(Ended::Exited(0))
            && self.job.state(self.number(index)) == TaskState::NotStarted
    }

    /// Whether the job has tasks that this launcher has not started.
    fn has_other_hosts(&self) -> bool {
        self.job.num_tasks() as usize > self.tasks.len()
    }

    /// Finds tasks that exited with 0 without joining, also on other hosts. If a task of this host has joined, this is a failure, since
    /// that task would wait for ever. If no task joins, as in `amrun -n 3 hostname`, it is not.
    fn look_for_never_joined(&mut self) {
        let missing: Vec<usize> =
            (0..self.watches.len()).filter(|&index| self.has_ended_well_without_joining(index)).collect();
        if missing.is_empty() && !self.has_other_hosts() {
            return;
        }
        let tasks: Vec<u32> = self.job.tasks().collect();
        let waiting: Vec<u32> =
            tasks.iter().copied().filter(|&task| self.job.state(task) == TaskState::Running).collect();
        if waiting.is_empty() && !self.has_other_hosts() {
            return;
        }
        for index in missing {
            if self.job.has_never_joined(self.number(index)) {
                continue;
            }
            let environment = self.job.environment(self.number(index));
            let may_still_join = environment
                .iter()
                .any(|(name, value)| name == JOB_VARIABLE && self.members.any_has(name, value));
            if !may_still_join {
                self.job.note_never_joined(self.number(index));
            }
        }
        let Some(words) = words_for_missing(&waiting) else { return };
        for task in tasks {
            if !self.job.has_never_joined(task) || self.job.state(task) == TaskState::Dead {
                continue;
            }
            self.job.mark_dead(task, Cause::NeverJoined, &words);
            if !self.job.continues_on_failure() {
                self.kill_within(self.grace);
            }
        }
    }

    fn look_for_deaths(&mut self) -> io::Result<()> {
        let mut died = Vec::new();
        let processes = self.tasks.iter().chain(&self.later);
        for (index, (process, watch)) in processes.zip(&mut self.watches).enumerate() {
            if watch.ended.is_none()
                && let Some(ended) = process.process.ended()?
            {
                watch.ended = Some(ended);
                died.push((index, ended));
            }
        }
        // If several died at the same time, a signal is more likely the cause, and an exit code its consequence.
        died.sort_by_key(|(_, ended)| matches!(ended, Ended::Exited(_)));
        // Tasks behind wrappers first: the exit code of a wrapper is a consequence of its task's end.
        for (task, ended) in self.supervisor.ended() {
            if let Some(index) = self.index(task) {
                self.handle_end_behind(index, ended);
            }
        }
        for (index, ended) in died {
            self.handle_death(index, ended);
        }
        Ok(())
    }

    fn handle_death(&mut self, index: usize, ended: Ended) {
        let task = self.number(index);
        let was_running = self.job.state(task) == TaskState::Running;
        if ended == Ended::Exited(0) {
            if was_running && self.has_ended_itself(index) && !self.ends_alone(index, Cause::Exited(0)) {
                // Recorded as a failure, so that no other task waits for this one. If all tasks end well nevertheless, `failure` ignores
                // it.
                self.job.mark_dead(task, Cause::Exited(0), "");
            }
            return;
        }
        if self.watches[index].killed {
            return;
        }
        let cause = self.watches[index].cause_by_wrapper(ended);
        if self.ends_alone(index, cause) {
            return;
        }
        self.record_death(index, cause);
        if !self.job.continues_on_failure() {
            self.kill_within(self.grace);
        }
    }

    /// Whether the process that the launcher started, and that has ended, was the task's own process, or the task's own process has ended
    /// too. Looks at the job's file again: the process may have attached after [`look_for_attached`](Self::look_for_attached).
    fn has_ended_itself(&self, index: usize) -> bool {
        let task = self.number(index);
        match (&self.watches[index].attached, self.job.pid(task)) {
            (Attached::Direct, _) => true,
            (Attached::NotYet, Some(pid)) => pid == self.process(index).pid,
            // In another PID namespace.
            (Attached::NotYet, None) => self.job.has_ended(task),
            _ => false,
        }
    }

    /// Records the end of a task's own process behind its wrapper. The wrapper may still run.
    fn handle_end_behind(&mut self, index: usize, ended: Option<Ended>) {
        let was_running = self.job.state(self.number(index)) == TaskState::Running;
        let watch = &mut self.watches[index];
        watch.behind = ended;
        if watch.killed {
            return;
        }
        let cause = match (ended, watch.ended) {
            (Some(ended), _) if was_running || ended != Ended::Exited(0) => ended.into(),
            (None, Some(ended)) if was_running && ended != Ended::Exited(0) => watch.cause_by_wrapper(ended),
            (None, _) if was_running => Cause::Vanished,
            _ => return,
        };
        if !self.ends_alone(index, cause) {
            self.record_death(index, cause);
        }
    }

    fn record_death(&self, index: usize, cause: Cause) {
        let may_want_memory = matches!(cause, Cause::Signalled(libc::SIGKILL) | Cause::Vanished);
        let words = if may_want_memory { self.words_for_a_kill() } else { String::new() };
        self.job.mark_dead(self.number(index), cause, &words);
    }

    /// The text about a task that was killed and has reported no cause: empty, unless memory was used up.
    fn words_for_a_kill(&self) -> String {
        memory_words(self.memory_kills, limits::cgroup_memory_kills(), limits::cgroup_memory_bytes())
    }

    fn look_at_the_clock(&mut self) {
        let now = Instant::now();
        if self.stopped_at.is_some() {
            return;
        }
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.deadline = None;
            self.end_by_timeout();
        }
        if self.kill_at.is_some_and(|moment| now >= moment) {
            self.kill();
        }
        if let Some(hangs) = self.hangs.as_mut().filter(|_| self.kill_at.is_none()) {
            hangs.look(&self.job);
        }
        if self.watched.own_process.is_some() && now.duration_since(self.reaped_at) >= REAP_EVERY {
            self.reaped_at = now;
            self.reap_orphans();
        }
    }

    fn end_by_timeout(&mut self) {
        if self.ended_by.is_some() || self.kill_at.is_some() {
            return;
        }
        self.ended_by = Some(EndedBy::Timeout);
        if let Some(hangs) = &mut self.hangs {
            hangs.report(&self.job);
        }
        for watch in self.watches.iter_mut().filter(|watch| watch.ended.is_none()) {
            watch.killed = true;
        }
        self.members.signal(libc::SIGTERM);
        self.kill_within(self.grace);
    }

    fn kill_within(&mut self, grace: Duration) {
        let moment = Instant::now() + grace;
        self.kill_at = Some(self.kill_at.map_or(moment, |before| before.min(moment)));
    }

    fn kill(&mut self) {
        // Kills again after a while, in case a process was in an uninterruptible sleep.
        self.kill_at = Some(Instant::now() + GRACE_AFTER_SIGNAL);
        for watch in self.watches.iter_mut().filter(|watch| watch.ended.is_none()) {
            watch.killed = true;
        }
        self.members.kill_all();
    }

    fn reap_orphans(&self) {
        let kept: Vec<u32> =
            self.processes().map(|task| task.pid).chain(self.members.others.clone()).collect();
        members::reap_orphans(&kept);
    }

    /// After all tasks have ended: kills their remaining processes, and makes the report.
    fn finish(mut self) -> Report {
        let left_behind = self.members.kill_all();
        let last_lines = match self.forwarder.take() {
            Some(forwarder) => forwarder.finish(OUTPUT_PATIENCE, || self.must_end()),
            None => BTreeMap::new(),
        };
        // Output may have been lost at the very end. If a task has failed, that is the better reason.
        if let Some(reason @ EndedBy::OutputClosed(_)) = self.end.asked()
            && self.job.first_failure().is_none()
        {
            self.ended_by.get_or_insert(reason);
        }
        if let Some(sweeper) = self.sweeper.take() {
            sweeper.dismiss();
        }
        if self.watched.own_process.is_some() {
            self.reap_orphans();
        }
        self.processes().for_each(|task| task.process.reap());
        // JobNotice from the last moments of the job.
        self.look_at_bus();
        Report {
            failure: self.failure(&last_lines),
            first: self.first,
            tasks: self.tasks.iter().zip(&self.watches).map(report_of).collect(),
            later: self
                .later
                .iter()
                .zip(&self.watches[self.tasks.len()..])
                .map(|of| (of.0.task, report_of(of)))
                .collect(),
            ended_by: self.ended_by,
            went_on: self.job.continues_on_failure(),
            left_behind,
            other_mpi: self.other_mpi(),
            recorded: (0..self.job.num_tasks()).map_while(|task| self.job.recorded(task)).collect(),
        }
    }

    /// Whether the launcher must end although the reader of its output has not read everything.
    fn must_end(&mut self) -> bool {
        self.look_at_signals();
        self.look_at_bus();
        if let Some(reason) = self.end.asked().filter(|reason| !matches!(reason, EndedBy::OutputClosed(_))) {
            self.ended_by.get_or_insert(reason);
        }
        self.ended_by.is_some()
    }

    /// The MPI library of another project that the tasks used, if one was seen.
    fn other_mpi(&self) -> Option<PathBuf> {
        let any_joined = self.job.tasks().any(|task| self.job.has_joined(task));
        self.mpi_library.clone().filter(|library| !any_joined && !other_mpi::is_ours(library))
    }

    /// The failure of the task that has ended a job which was to go on after failures.
    fn end_by_task(&self) -> Option<Failure> {
        if !self.keeps_going || self.job.continues_on_failure() {
            return None;
        }
        self.job.tasks().find_map(|task| {
            let (cause, last_words) = self.job.failure_of(task)?;
            (cause == Cause::GaveUp).then_some(Failure { task, cause, last_words })
        })
    }

    fn failure(&self, last_lines: &BTreeMap<u32, String>) -> Option<Failure> {
        let mut failure = self.end_by_task().or_else(|| self.job.first_failure())?;
        let index = self.index(failure.task);
        // A task that exits without finalizing MPI has not failed if all tasks ended well.
        let all_well = self.watches.iter().all(Watch::ended_well);
        if all_well && matches!(failure.cause, Cause::Exited(0) | Cause::Vanished) {
            return None;
        }
        if failure.cause == Cause::Vanished
            && let Some((watch, ended)) =
                index.and_then(|index| Some((&self.watches[index], self.watches[index].ended?)))
            && ended != Ended::Exited(0)
        {
            failure.cause = watch.cause_by_wrapper(ended);
        }
        if failure.last_words.is_empty() {
            let line = match last_lines.get(&failure.task) {
                Some(line) => line.clone(),
                None => index.and_then(|index| last_line_kept(self.process(index))).unwrap_or_default(),
            };
            failure.last_words = match line.as_str() {
                "" => line,
                _ if may_have_said_why(failure.cause) => line,
                _ => format!("its last line on standard error was \"{line}\""),
            };
        }
        Some(failure)
    }
}

/// Whether the last line of a task's standard error is likely to give the cause of its failure. A task that exits or aborts may write the
/// cause first; any other signal interrupts whatever the task was writing.
fn may_have_said_why(cause: Cause) -> bool {
    matches!(cause, Cause::Exited(_) | Cause::Signalled(libc::SIGABRT))
}

/// The text about a task that never joined, although the tasks `waiting` have joined; `None` if `waiting` is empty.
fn words_for_missing(waiting: &[u32]) -> Option<String> {
    let others = match waiting {
        [] => return None,
        [one] => format!("task {one} has"),
        [first, rest @ ..] => format!("task {first} and {} more have", rest.len()),
    };
    Some(format!(
        "{others} joined it and cannot go on alone; either all tasks must call MPI_Init (or Task::join), or none"
    ))
}

/// The text about memory, if the system has killed processes for lack of memory since their number was `before`; otherwise empty.
fn memory_words(before: Option<u64>, now: Option<u64>, limit_bytes: Option<u64>) -> String {
    match (before, now) {
        (Some(before), Some(now)) if now > before => {}
        _ => return String::new(),
    }
    let remedy = "start fewer tasks, or use less memory";
    match limit_bytes {
        Some(bytes) => format!(
            "the system killed it for lack of memory: its cgroup may use {bytes} bytes in all; raise that limit, {remedy}"
        ),
        None => format!("the system killed it because the memory of this machine was used up; {remedy}"),
    }
}

fn last_line_kept(task: &TaskProcess) -> Option<String> {
    let bytes = std::fs::read(task.stderr.as_ref()?).ok()?;
    output::last_telling_line(&String::from_utf8_lossy(&bytes), 0).map(str::to_owned)
}

fn report_of((task, watch): (&TaskProcess, &Watch)) -> TaskReport {
    TaskReport {
        pid: task.pid,
        ended: watch.ended,
        killed: watch.killed,
        stdout: task.stdout.clone(),
        stderr: task.stderr.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::memory_words;

    #[test]
    fn a_kill_for_want_of_memory_is_told_with_the_limit_and_no_other_is() {
        let words = memory_words(Some(1), Some(2), Some(4096));
        assert!(words.contains("cgroup") && words.contains("4096 bytes"), "{words}");
        assert!(memory_words(Some(1), Some(2), None).contains("machine"));
        for (before, now) in [(Some(2), Some(2)), (None, Some(1)), (Some(1), None)] {
            assert_eq!(memory_words(before, now, Some(4096)), "");
        }
    }
}
