//! Starting tasks (MPI 5.0 section 11.8).
//!
//! The root asks the launcher, which starts the new tasks as a world of the same job, and gives them the context ids of the
//! inter-communicator and the tasks of the parents. So both sides have the inter-communicator without a message between them.

use am_core::fabric::Fabric;
use am_core::task::TaskId;

use super::create::take_numbers;
use super::inter::numbers_of;
use super::{Communicator, InheritedState, worlds};
use crate::communicator::info::Info;
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;
use crate::job::{self, ProgramToStart};
use crate::message::state::State;
use crate::policy::LockPolicy;

const CALL: &str = "spawn";
const PARENT_NAME: &str = "MPI_COMM_PARENT";

/// A program to be started, with as many tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// The program: a path with a slash, or a name to be looked up.
    pub program: std::ffi::OsString,
    /// Its arguments.
    pub arguments: Vec<std::ffi::OsString>,
    /// Number of tasks; the hint `soft` may allow fewer.
    pub tasks: u32,
    /// Hints: `wdir`, `path`, `host`, `env` (lines `NAME=VALUE`), `soft`.
    pub info: Info,
}

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Starts tasks of these programs, which together get a world of their own (`MPI_Comm_spawn`, `MPI_Comm_spawn_multiple`). Returns the
    /// inter-communicator with them. Collective; the commands matter at `root` only. The new tasks must call
    /// [`Environment::init`](crate::Environment::init).
    ///
    /// The hint `wdir` is the directory in which tasks start (by default that of the root), `path` lists directories in which a name is
    /// looked up first, `host` the hosts to run on, `env` has lines `NAME=VALUE`, and `soft` the numbers of tasks that will do, of which
    /// the largest one is started.
    ///
    /// # Errors
    /// [`ErrorClass::Spawn`]: a program does not exist or cannot be executed, or the system refuses more tasks; then no task is started.
    /// [`ErrorClass::UnsupportedOperation`]: the launcher cannot start tasks now. An unknown root; an inter-communicator; the death of a
    /// task.
    pub fn spawn(&self, commands: &[Command], root: u32) -> Result<Self> {
        self.spawn_or_tell(Ok(commands), root).1.map(|(inter, _)| inter)
    }

    /// Like [`spawn`](Self::spawn). If the root has found a command to be wrong, it passes the error, which all tasks then get. All tasks
    /// get the number of tasks that each command asked for, also after an error of the launcher, and the number that was started.
    #[must_use = "the second value may be an error"]
    pub fn spawn_or_tell(
        &self,
        commands: Result<&[Command]>,
        root: u32,
    ) -> (Vec<u32>, Result<(Self, Vec<u32>)>) {
        let (asked, answer) = match self.check_root(CALL, root).and_then(|()| self.forget_the_ended()) {
            Ok(()) if self.rank() == root => self.tell(root, || {
                let asked = commands.iter().flat_map(|commands| commands.iter());
                let asked = asked.map(|command| u64::from(command.tasks)).collect();
                (asked, commands.and_then(|commands| self.ask_to_start(commands)))
            }),
            Ok(()) => self.told(root),
            Err(error) => (Vec::new(), Err(error)),
        };
        let number = |word: &u64| u32::try_from(*word).unwrap_or(u32::MAX);
        let begun = answer.and_then(|answer| {
            let [first, one, two, started @ ..] = answer.as_slice() else {
                return Err(Error::Protocol { peer: root, what: "an answer that is too short" });
            };
            let started: Vec<u32> = started.iter().map(number).collect();
            let own = self.state()?.context.task();
            let remote = Group::consecutive(TaskId(number(first)), started.iter().sum(), own);
            let remote = remote.of_session(self.group().session());
            let inter = self.begin([*one, *two], (self.group(), Some(remote)), self.inherited_state())?;
            Ok((inter, started))
        });
        (asked.iter().map(number).collect(), begun)
    }

    fn forget_the_ended(&self) -> Result<()> {
        let mut state = self.state()?;
        let State { context, context_ids, .. } = &mut *state;
        worlds::let_go(context, context_ids);
        Ok(())
    }

    /// Lets the launcher start the tasks. Returns the first of them, the context ids, and the number of tasks of each command.
    fn ask_to_start(&self, commands: &[Command]) -> Result<Vec<u64>> {
        let numbers = take_numbers(&mut *self.state()?);
        let tasks: Vec<String> = numbers_of(&self.group()).iter().map(u64::to_string).collect();
        let parent = format!("{}:{}:{}", numbers[0], numbers[1], tasks.join(","));
        let programs = commands.iter().map(program).collect::<Result<Vec<_>>>()?;
        let started: Vec<u64> = programs.iter().map(|program| u64::from(program.tasks)).collect();
        let first = job::start(programs, parent)?;
        Ok([&[u64::from(first), numbers[0], numbers[1]][..], &started].concat())
    }

    /// The inter-communicator with the tasks that have started this task's world (`MPI_Comm_get_parent`); `None` for a task that the job
    /// began with.
    pub(crate) fn parent(world: &Self, text: &str) -> Option<Self> {
        let (numbers, tasks) = text.rsplit_once(':')?;
        let (first, second) = numbers.split_once(':')?;
        let numbers = [first.parse().ok()?, second.parse().ok()?];
        let tasks: Vec<u32> = tasks.split(',').map(str::parse).collect::<std::result::Result<_, _>>().ok()?;
        let own = world.state().ok()?.context.task();
        let inherited = InheritedState { name: PARENT_NAME.to_owned(), ..InheritedState::default() };
        world.begin(numbers, (world.group(), Some(Group::of_tasks(tasks, own))), inherited).ok()
    }
}

/// What the launcher has to know of a command.
fn program(command: &Command) -> Result<ProgramToStart> {
    let Command { program, arguments, tasks, info } = command;
    let name = program.to_string_lossy();
    let spawn = |what: String| Error::Processes { class: ErrorClass::Spawn, what };
    if *tasks == 0 {
        return Err(spawn(format!("{name}: the number of tasks must be at least 1")));
    }
    let started = match info.get("soft")? {
        None => *tasks,
        Some(soft) => largest_in_set(soft, *tasks)
            .map_err(|what| {
                let what = format!("{name}: soft {soft}: {what}");
                Error::Processes { class: ErrorClass::InfoValue, what }
            })?
            .ok_or_else(|| spawn(format!("{name}: soft {soft}: no number of tasks from 1 to {tasks}")))?,
    };
    let wdir = match info.get("wdir")? {
        Some(wdir) => std::path::absolute(wdir),
        None => std::env::current_dir(),
    };
    let wdir = wdir.map_err(|error| spawn(format!("{name}: there is no working directory: {error}")))?;
    let mut env = Vec::new();
    for line in info.get("env")?.unwrap_or_default().lines().filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once('=').ok_or_else(|| {
            let what = format!("{name}: the hint env has the line {line:?}, which is not NAME=VALUE");
            Error::Processes { class: ErrorClass::InfoValue, what }
        })?;
        env.push((name.into(), value.into()));
    }
    Ok(ProgramToStart {
        name: program.clone(),
        args: arguments.clone(),
        tasks: started,
        wdir: wdir.into_os_string(),
        path: info.get("path")?.map(Into::into),
        env,
        hosts: info.get("host")?.map(str::to_owned),
    })
}

/// The largest number of a set that is at least 1 and at most `most`. The set is a list of triplets `FIRST[:LAST[:STEP]]`; numbers beyond
/// are ignored (MPI 5.0, section 11.8.4, `soft`).
///
/// # Errors
/// What is wrong with the text.
pub fn largest_in_set(set: &str, most: u32) -> std::result::Result<Option<u32>, String> {
    let mut best = None;
    for triplet in set.split(',') {
        let numbers: std::result::Result<Vec<i64>, _> =
            triplet.split(':').map(|number| number.trim().parse()).collect();
        let (first, last, step) = match numbers.as_deref() {
            Ok(&[only]) => (only, only, 1),
            Ok(&[first, last]) => (first, last, 1),
            Ok(&[first, last, step]) if step != 0 => (first, last, step),
            _ => return Err("write FIRST[:LAST[:STEP]],... with a step that is not 0".to_owned()),
        };
        // Ascending: the last number that is not beyond either end; descending: the first one that is not above `most`.
        let (low, high, step) =
            if step > 0 { (first, last, step) } else { (last, first, step.saturating_neg()) };
        if low > high {
            continue;
        }
        let anchor = first.rem_euclid(step);
        let top = high.min(i64::from(most));
        let found = top - (top - anchor).rem_euclid(step);
        if found >= low.max(1) {
            best = best.max(u32::try_from(found).ok());
        }
    }
    Ok(best)
}
