//! Communicators: groups of tasks with their own message space.

mod agree;
pub mod attribute;
mod cartesian;
mod create;
pub(crate) mod error_handler;
pub(crate) mod failures;
mod graph;
pub(crate) mod hints;
pub(crate) mod hosts;
pub(crate) mod info;
mod inter;
mod ports;
pub(crate) mod properties;
mod spawn;
mod state_of;
mod told;
pub mod topology;
mod worlds;

use std::sync::{Arc, Weak};

use am_core::fabric::Fabric;
use am_core::task::TaskId;

use crate::communicator::attribute::{Attributes, ObjectKind};
use crate::communicator::error_handler::ErrorHandler;
use crate::communicator::hosts::Hosts;
use crate::communicator::info::Info;
use crate::communicator::properties::Properties;
use crate::communicator::topology::Topology;
use crate::context_id::{self, Space};
use crate::data::buffer::Keeps;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::job::JobFabric;
use crate::matching::{ContextId, Envelope, Pattern};
use crate::message::handlers::MpiHandlers;
use crate::message::request_id::RequestId;
use crate::message::route::Route;
use crate::message::state::State;
use crate::message::turn::Turn;
use crate::policy::{LockPolicy, OneThread, StateCell};
use crate::rank::Source;
use crate::tag::{self, Tag};

pub use create::{PendingCommunicator, SplitType};
pub use failures::{Agreed, PendingAgreement};
pub use spawn::{Command, largest_in_set};
pub use state_of::ANY_RANK;

/// The group and the rank of an object that has a communicator of its own: a window, a file.
macro_rules! tasks_of {
    ($object:ident) => {
        impl<F: Fabric, L: LockPolicy> $object<F, L> {
            /// The tasks of this object, by rank (`MPI_Win_get_group`, `MPI_File_get_group`).
            #[must_use]
            pub fn group(&self) -> $crate::Group {
                self.communicator.group()
            }

            /// This task's rank among them.
            #[must_use]
            pub fn rank(&self) -> u32 {
                self.communicator.rank()
            }
        }
    };
}
pub(crate) use tasks_of;

/// A group of tasks with a message space of its own (MPI 5.0 chapter 7); or, as an *inter-communicator*, two groups that communicate with
/// each other.
///
/// All calls take `&self`. Clones are handles on the same communicator. Calls that send take tags from 0 to [`TAG_UB`](crate::TAG_UB).
#[derive(Debug)]
pub struct Communicator<F: Fabric = JobFabric, L: LockPolicy = OneThread> {
    /// The first field, so that the compiler's first error about use by a second thread names the lock policy.
    _mark: L::Mark,
    shared: Arc<L::Cell<State<F>>>,
    /// The context id of point-to-point messages; those of the other spaces follow it.
    context_id: u32,
    rank: u32,
    size: u32,
    /// Each rank below this is also the number of its task. In the world, this holds for all ranks.
    direct: u32,
    /// The envelope of the communicator's point-to-point messages, without their tags.
    origin: Envelope,
    /// Number of ranks that messages can be sent to; for an inter-communicator, the size of the remote group.
    peers: u32,
    /// Whether this is an intra-communicator whose collectives treat all tasks alike.
    is_plain: bool,
    common: Arc<Common<F, L>>,
}

/// The state that all handles on a communicator share.
#[derive(Debug)]
struct Common<F: Fabric, L: LockPolicy> {
    shared: Weak<L::Cell<State<F>>>,
    context_id: u32,
    group: Group,
    /// Only for an inter-communicator.
    other: Option<OtherSide<F, L>>,
    topology: Option<Topology>,
    /// `None` if the communicator's collectives treat all tasks alike.
    hosts: Option<Arc<Hosts>>,
    properties: Properties<L>,
    /// The number of the board of blocking collectives in [`Boards`](crate::message::board::Boards).
    board: u32,
}

/// The additional state of an inter-communicator.
#[derive(Debug)]
struct OtherSide<F: Fabric, L: LockPolicy> {
    group: Group,
    /// A communicator of the local group's tasks.
    local: Communicator<F, L>,
}

/// A turn that is not given up before it ends.
pub(crate) type Brief<'a, F, L> = <<L as LockPolicy>::Cell<State<F>> as StateCell<State<F>>>::Brief<'a>;

/// The initial state of a new communicator.
#[derive(Debug)]
struct InheritedState<F: Fabric, L: LockPolicy> {
    other: Option<OtherSide<F, L>>,
    topology: Option<Topology>,
    name: String,
    info: Info,
    error_handler: ErrorHandler,
    attributes: Attributes,
}

impl<F: Fabric, L: LockPolicy> Default for InheritedState<F, L> {
    fn default() -> Self {
        Self {
            other: None,
            topology: None,
            name: String::new(),
            info: Info::new(),
            error_handler: ErrorHandler::default(),
            attributes: Attributes::new(),
        }
    }
}

impl<F: Fabric, L: LockPolicy> Clone for Communicator<F, L> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), common: Arc::clone(&self.common), ..*self }
    }
}

impl<F: Fabric, L: LockPolicy> Drop for Common<F, L> {
    /// Releases the context id. Operations under way continue.
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade()
            && let Ok(mut state) = Turn::<F, L>::enter(&*shared)
        {
            state.context_ids.end(self.context_id);
            state.handlers().end_communicator(self.context_id);
            let handlers = state.handlers();
            let under_way = handlers.attached.end(self.context_id);
            under_way.into_iter().for_each(|request| handlers.requests.detach(request));
            state.started.remove(&(self.context_id + Space::Collective as u32));
            let State { context, schedules, context_ids, .. } = &mut *state;
            schedules.boards.remove(context, self.board);
            worlds::let_go(context, context_ids);
        }
    }
}

/// Attends to what needs it, and refuses to start an operation if there is trouble.
#[cold]
#[inline(never)]
fn attend_unless<F: Fabric>(
    state: &mut State<F>,
    trouble: &dyn Fn(&MpiHandlers) -> Option<Error>,
) -> Result<()> {
    state.attend()?;
    if trouble(state.handlers()).is_none() {
        return Ok(());
    }
    // A program may repeat the call until it has another result.
    state.take_in()?;
    trouble(state.handlers()).map_or(Ok(()), Err)
}

/// A turn while the environment is being made, when no other call can have a turn.
fn first_turn<F: Fabric, L: LockPolicy>(shared: &L::Cell<State<F>>) -> Turn<'_, F, L> {
    Turn::enter(shared).expect("an environment that is being made has no other call")
}

// SAFETY: a communicator's operations are in the table of requests, which returns an operation's memory only when the operation is
// complete, and otherwise leaks the memory.
#[expect(unsafe_code, reason = "a promise about the buffers of operations (`buffer::Keeps`)")]
unsafe impl<F: Fabric, L: LockPolicy> Keeps for Communicator<F, L> {}

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// All tasks that were started together with this one.
    pub(crate) fn world(shared: &Arc<L::Cell<State<F>>>) -> Self {
        let (own, first, size) = {
            let state = first_turn::<F, L>(shared);
            (state.context.task(), state.context.first_task(), state.context.num_tasks())
        };
        let inherited = InheritedState { name: "MPI_COMM_WORLD".to_owned(), ..InheritedState::default() };
        let group = Group::consecutive(first, size, own);
        Self::new(shared, context_id::WORLD, group, own.0 - first.0, inherited)
    }

    /// This task alone.
    pub(crate) fn alone(shared: &Arc<L::Cell<State<F>>>) -> Self {
        let (own, context_id) = {
            let state = first_turn::<F, L>(shared);
            (state.context.task(), state.context_ids.of_self())
        };
        let inherited = InheritedState { name: "MPI_COMM_SELF".to_owned(), ..InheritedState::default() };
        Self::new(shared, context_id, Group::of_tasks(vec![own.0], own), 0, inherited)
    }

    fn new(
        shared: &Arc<L::Cell<State<F>>>,
        context_id: u32,
        group: Group,
        rank: u32,
        inherited: InheritedState<F, L>,
    ) -> Self {
        let InheritedState { other, topology, name, info, error_handler, attributes } = inherited;
        let properties =
            Properties::new(ObjectKind::Communicator, &info, error_handler).with_attributes(attributes);
        properties.set_name(&name);
        let size = group.size();
        let reached = other.as_ref().map_or(&group, |other| &other.group);
        let (direct, peers) = (reached.direct_ranks(), reached.size());
        let (mut hosts, mut board) = (None, u32::MAX);
        if let Ok(mut state) = Turn::<F, L>::enter(&**shared) {
            worlds::hold(&mut state.context, [&group, reached]);
            state.handlers().begin_communicator(
                context_id,
                reached.clone(),
                other.as_ref().map(|_| group.clone()),
            );
            board = state.schedules.boards.add(context_id, &group, rank);
            if other.is_none() {
                hosts = Hosts::new(group.tasks().map(|task| state.context.host(task)), rank).map(Arc::new);
            }
        }
        let is_plain = other.is_none() && hosts.is_none();
        let common = Arc::new(Common {
            shared: Arc::downgrade(shared),
            context_id,
            group,
            other,
            topology,
            hosts,
            properties,
            board,
        });
        Self {
            shared: Arc::clone(shared),
            context_id,
            rank,
            size,
            direct,
            origin: Envelope::new(ContextId(context_id), rank, 0),
            peers,
            is_plain,
            common,
            _mark: L::Mark::default(),
        }
    }

    /// This task's rank (for an inter-communicator, in its own group).
    #[inline]
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Number of ranks (for an inter-communicator, in this task's group).
    #[inline]
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Whether this is an intra-communicator without [hosts](Self::hosts): its collectives treat all tasks alike.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// The hosts of the communicator's tasks, if collectives have to work within each host and between hosts.
    #[inline(always)]
    pub(crate) fn hosts(&self) -> Option<&Arc<Hosts>> {
        self.common.hosts.as_ref()
    }

    /// The shared state, for one call.
    ///
    /// # Errors
    /// A call inside another call, or after finalize; the deferred error of an earlier call.
    #[inline(always)]
    pub(crate) fn state(&self) -> Result<Turn<'_, F, L>> {
        let mut state = Turn::enter(&*self.shared)?;
        state.attend()?;
        Ok(state)
    }

    /// Like [`state`](Self::state), for the start of an operation of this communicator.
    ///
    /// # Errors
    /// Those of [`state`](Self::state).
    #[inline(always)]
    pub(crate) fn state_to_start(&self) -> Result<Turn<'_, F, L>> {
        let mut state = Turn::enter(&*self.shared)?;
        if state.needs_attention() {
            self.attend(&mut state, false)?;
        }
        Ok(state)
    }

    /// Like [`state_to_start`](Self::state_to_start), for an operation that needs all tasks of this communicator.
    ///
    /// # Errors
    /// Also the failure of one of them.
    #[inline(always)]
    pub(crate) fn state_for_all(&self) -> Result<Turn<'_, F, L>> {
        let mut state = Turn::enter(&*self.shared)?;
        if state.needs_attention() {
            self.attend(&mut state, true)?;
        }
        Ok(state)
    }

    /// Like [`state`](Self::state), to start a persistent request, perhaps of another communicator.
    ///
    /// # Errors
    /// Also: the request's communicator is revoked; for a collective, the failure of one of its tasks.
    #[inline(always)]
    pub(crate) fn state_to_start_again(&self, request: RequestId) -> Result<Turn<'_, F, L>> {
        let mut state = Turn::enter(&*self.shared)?;
        if state.needs_attention() {
            attend_unless(&mut state, &|handlers| handlers.trouble_of_start(request))?;
        }
        Ok(state)
    }

    #[cold]
    #[inline(never)]
    fn attend(&self, state: &mut State<F>, needs_all: bool) -> Result<()> {
        attend_unless(state, &|handlers| match needs_all {
            true => handlers.trouble_of_all(self.context_id),
            false => handlers.trouble_of(self.context_id),
        })
    }

    /// Like [`state`](Self::state), for the fast path of a call: the turn is not given up. `None` if `state` would fail.
    #[inline(always)]
    pub(crate) fn state_briefly(&self) -> Option<Brief<'_, F, L>> {
        let state = self.shared.enter_briefly()?;
        if state.needs_attention() { None } else { Some(state) }
    }

    /// The shared state, for ending operations even after errors. `None` inside another call.
    pub(crate) fn state_to_end(&self) -> Option<Turn<'_, F, L>> {
        Turn::enter(&*self.shared).ok()
    }

    /// [`state_to_end`](Self::state_to_end) for the drop of a guard, which may not return before it has ended its operations: they would
    /// use memory that is no longer lent. Inside another call the process ends, because the program could catch a panic.
    pub(crate) fn state_or_abort(&self, what: &str) -> Turn<'_, F, L> {
        let Some(state) = self.state_to_end() else {
            crate::job::complain!(
                "mpi-over-am: {what} ends inside another call of its environment, which has to return first. Operations would \
                 use memory that is no longer lent, so this process ends."
            );
            std::process::abort();
        };
        state
    }

    /// A handle on the state, which may outlive this communicator.
    pub(crate) fn handle_on_state(&self) -> Arc<L::Cell<State<F>>> {
        Arc::clone(&self.shared)
    }

    /// The number of the board of blocking collectives in [`Boards`](crate::message::board::Boards).
    #[inline(always)]
    pub(crate) fn board(&self) -> u32 {
        self.common.board
    }

    /// An address that identifies the communicator's environment.
    pub(crate) fn state_address(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }

    /// The task of rank `dest`, and the envelope of a message to that rank.
    ///
    /// # Errors
    /// [`Error::UnknownRank`], [`Error::TagOutOfRange`].
    #[inline(always)]
    pub(crate) fn route(&self, space: Space, dest: u32, tag: i32) -> Result<Route> {
        let task = if dest < self.direct { TaskId(dest) } else { self.task_of(dest)? };
        let envelope = Envelope::new(self.context_id_of(space), self.rank, tag::check(tag)?);
        Ok(Route { task, destination: dest, envelope })
    }

    /// The task of a rank, if the rank exists.
    #[inline(always)]
    pub(crate) fn task_now(&self, rank: u32) -> Option<TaskId> {
        if rank < self.direct { Some(TaskId(rank)) } else { self.known_task(rank) }
    }

    /// Like [`route`](Self::route), for messages of the program; `None` if `route` would fail.
    #[inline(always)]
    pub(crate) fn route_now(&self, dest: u32, tag: i32) -> Option<Route> {
        let task = self.task_now(dest)?;
        (tag >= 0).then_some(Route { task, destination: dest, envelope: self.origin.with_tag(tag) })
    }

    /// The pattern of a receive from `source`.
    ///
    /// # Errors
    /// [`Error::UnknownRank`], [`Error::TagOutOfRange`].
    #[inline(always)]
    pub(crate) fn pattern(&self, space: Space, source: Source, tag: Tag) -> Result<Pattern> {
        let source = match source {
            Source::Rank(rank) if rank >= self.peers => return Err(self.unknown_rank(rank)),
            Source::Rank(rank) => Some(rank),
            Source::Any => None,
        };
        let tag = match tag {
            Tag::Is(tag) => Some(tag::check(tag)?),
            Tag::Any => None,
        };
        Ok(Pattern::new(self.context_id_of(space), source, tag))
    }

    /// Like [`pattern`](Self::pattern), for messages of the program; `None` if `pattern` would fail.
    #[inline(always)]
    pub(crate) fn pattern_now(&self, source: Source, tag: Tag) -> Option<Pattern> {
        let (Source::Rank(source), Tag::Is(tag)) = (source, tag) else {
            return self.pattern_with_wildcards(source, tag);
        };
        let exists = source < self.peers && tag >= 0;
        exists.then(|| Pattern::exact(self.context_id_of(Space::PointToPoint), source, tag))
    }

    #[inline(always)]
    fn pattern_with_wildcards(&self, source: Source, tag: Tag) -> Option<Pattern> {
        let source = match source {
            Source::Rank(rank) if rank >= self.peers => return None,
            Source::Rank(rank) => Some(rank),
            Source::Any => None,
        };
        let tag = match tag {
            Tag::Is(tag) if tag < 0 => return None,
            Tag::Is(tag) => Some(tag),
            Tag::Any => None,
        };
        Some(Pattern::new(self.context_id_of(Space::PointToPoint), source, tag))
    }

    /// Whether a context id belongs to this communicator.
    #[must_use]
    pub fn has_context_id(&self, context_id: u32) -> bool {
        self.context_id == context_id - context_id % context_id::SPACES
    }

    #[inline(always)]
    pub(crate) fn context_id_of(&self, space: Space) -> ContextId {
        ContextId(self.context_id + space as u32)
    }

    /// The task of a rank.
    ///
    /// # Errors
    /// [`Error::UnknownRank`].
    #[inline(never)]
    pub(crate) fn task_of(&self, rank: u32) -> Result<TaskId> {
        self.known_task(rank).ok_or_else(|| self.unknown_rank(rank))
    }

    #[inline(never)]
    fn known_task(&self, rank: u32) -> Option<TaskId> {
        let other = self.common.other.as_ref();
        other.map_or(&self.common.group, |other| &other.group).task_of(rank)
    }

    #[cold]
    #[inline(never)]
    fn unknown_rank(&self, rank: u32) -> Error {
        Error::UnknownRank { rank, size: self.peers }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use am_double::{Config, network};

    use crate::{Environment, Settings};

    /// Set in the process that must end.
    const CHILD: &str = "MPI_OVER_AM_GUARD_ENDS";

    /// A panic could be caught, and the program would go on while operations use memory that is no longer lent.
    #[test]
    fn a_guard_that_cannot_end_its_operations_ends_the_process() {
        if std::env::var_os(CHILD).is_some() {
            let fabric = network(Config::new(1)).1.pop().expect("one task");
            let environment = Environment::with_fabric(fabric, &Settings::default()).expect("it starts");
            let world = environment.world();
            let other_call = world.state().expect("no call is under way");
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                drop(world.state_or_abort("a scope"));
            }));
            drop(other_call);
            panic!("the process goes on: {caught:?}");
        }
        let name = "communicator::tests::a_guard_that_cannot_end_its_operations_ends_the_process";
        let child = Command::new(std::env::current_exe().expect("this test"))
            .args([name, "--exact", "--nocapture"])
            .env(CHILD, "1")
            .stdout(Stdio::null())
            .output()
            .expect("it starts");
        let errors = String::from_utf8_lossy(&child.stderr);
        assert!(errors.contains("a scope ends inside another call of its environment"), "{errors}");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.status), Some(6), "{errors}");
    }
}
