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
    /// Number of tasks.
    pub tasks: u32,
    /// Hints: `wdir`, `path`, `host`, `env` (lines `NAME=VALUE`), `soft`.
    pub info: Info,
}

/// The answer that the root passes on to the others, as words: the first new task or an error, the context ids, and the error's text.
struct Told {
    first: u64,
    numbers: [u64; 2],
    class: u64,
    why: String,
}

impl Told {
    const FAILED: u64 = u64::MAX;

    fn of(result: Result<(u32, [u64; 2])>) -> Self {
        match result {
            Ok((first, numbers)) => Self { first: u64::from(first), numbers, class: 0, why: String::new() },
            Err(error) => {
                let class = u64::from(error.class() == ErrorClass::UnsupportedOperation);
                Self { first: Self::FAILED, numbers: [0; 2], class, why: error.to_string() }
            }
        }
    }

    fn to_words(&self) -> Vec<u64> {
        let text = self.why.bytes().map(u64::from);
        [self.first, self.numbers[0], self.numbers[1], self.class].into_iter().chain(text).collect()
    }

    fn of_words(words: &[u64]) -> Option<Self> {
        let [first, one, two, class, text @ ..] = words else { return None };
        let text: Vec<u8> = text.iter().map(|&byte| u8::try_from(byte).unwrap_or(b'?')).collect();
        let why = String::from_utf8_lossy(&text).into_owned();
        Some(Self { first: *first, numbers: [*one, *two], class: *class, why })
    }
}

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Starts tasks of these programs, which together get a world of their own (`MPI_Comm_spawn`, `MPI_Comm_spawn_multiple`). Returns the
    /// inter-communicator with them. Collective; the commands matter at `root` only. The new tasks must call
    /// [`Environment::init`](crate::Environment::init).
    ///
    /// The hint `wdir` is the directory in which tasks start (by default that of the root), `path` lists directories in which a name is
    /// looked up first, `host` the hosts to run on, `env` has lines `NAME=VALUE`, and `soft` the numbers of tasks that will do.
    ///
    /// # Errors
    /// [`ErrorClass::Spawn`]: a program does not exist or cannot be executed, or the system refuses more tasks; then no task is started.
    /// [`ErrorClass::UnsupportedOperation`]: the launcher cannot start tasks now. An unknown root; an inter-communicator; the death of a
    /// task.
    pub fn spawn(&self, commands: &[Command], root: u32) -> Result<Self> {
        self.spawn_or_tell(Ok(commands), root)
    }

    /// Like [`spawn`](Self::spawn). If the root has found a command to be wrong, it passes the error, which all tasks then get.
    ///
    /// # Errors
    /// Those of [`spawn`](Self::spawn).
    pub fn spawn_or_tell(&self, commands: Result<&[Command]>, root: u32) -> Result<Self> {
        if self.is_inter() {
            let what =
                "tasks are started by an intra-communicator; the value is the size of the inter-communicator";
            return Err(Error::refused(ErrorClass::Communicator, CALL, what, i64::from(self.size())));
        }
        if root >= self.size() {
            return Err(Error::UnknownRoot { root, size: self.size() });
        }
        {
            let mut state = self.state()?;
            let State { context, context_ids, .. } = &mut *state;
            worlds::let_go(context, context_ids);
        }
        let (told, tasks) = self.ask_as_root(commands, root)?;
        if told.first == Told::FAILED {
            let class = if told.class == 1 { ErrorClass::UnsupportedOperation } else { ErrorClass::Spawn };
            return Err(Error::Processes { class, what: told.why });
        }
        let own = self.state()?.context.task();
        let number = |word: u64| u32::try_from(word).unwrap_or(u32::MAX);
        let remote = Group::consecutive(TaskId(number(told.first)), number(tasks), own);
        let remote = remote.of_session(self.group().session());
        self.begin(told.numbers, (self.group(), Some(remote)), self.inherited_state())
    }

    /// The root asks the launcher, and tells the others the answer and the number of the new tasks.
    fn ask_as_root(&self, commands: Result<&[Command]>, root: u32) -> Result<(Told, u64)> {
        let mut list = Vec::new();
        if self.rank() == root {
            let tasks =
                commands.iter().flat_map(|commands| commands.iter()).map(|command| u64::from(command.tasks));
            list.push(tasks.sum());
            list.extend(Told::of(commands.and_then(|commands| self.ask_to_start(commands))).to_words());
        }
        let list = self.broadcast_list(root, &list)?;
        let answer = list.split_first().and_then(|(&tasks, told)| Some((Told::of_words(told)?, tasks)));
        answer.ok_or(Error::Protocol { peer: root, what: "an answer that is too short" })
    }

    /// Lets the launcher start the tasks. Returns the first of them, and the context ids.
    fn ask_to_start(&self, commands: &[Command]) -> Result<(u32, [u64; 2])> {
        let numbers = take_numbers(&mut *self.state()?);
        let tasks: Vec<String> = numbers_of(&self.group()).iter().map(u64::to_string).collect();
        let parent = format!("{}:{}:{}", numbers[0], numbers[1], tasks.join(","));
        let programs = commands.iter().map(program).collect::<Result<Vec<_>>>()?;
        Ok((job::start(programs, parent)?, numbers))
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
        tasks: *tasks,
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
