//! Communicators: who talks to whom, and which messages are theirs.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;

use am_core::fabric::Fabric;

use crate::environment::JobFabric;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::matching::{ContextId, Envelope, Pattern};
use crate::protocol::Route;
use crate::rank::Source;
use crate::state::State;
use crate::tag::{self, Tag};

/// A group of tasks with a message space of its own (MPI 4.1 chapter 7).
///
/// All calls borrow it shared; it belongs to one thread. Calls that send take tags from 0 to [`TAG_UB`](crate::TAG_UB).
#[derive(Debug)]
pub struct Communicator<F: Fabric = JobFabric> {
    shared: Rc<RefCell<State<F>>>,
    /// The context id of point-to-point messages. That of collectives is the next one.
    context_id: u32,
    group: Group,
    rank: u32,
    size: u32,
}

/// Which half of a communicator's message space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    PointToPoint = 0,
    Collective = 1,
}

/// Context ids come in pairs; the world has the first.
const WORLD_CONTEXT_ID: u32 = 0;

impl<F: Fabric> Communicator<F> {
    /// All tasks of the job.
    pub(crate) fn world(shared: &Rc<RefCell<State<F>>>) -> Self {
        let (rank, size) = {
            let state = shared.borrow();
            (state.context.task().0, state.context.num_tasks())
        };
        Self { shared: Rc::clone(shared), context_id: WORLD_CONTEXT_ID, group: Group::World, rank, size }
    }

    /// This task's rank.
    #[inline]
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many ranks there are.
    #[inline]
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The shared state, for one call.
    ///
    /// # Errors
    /// The call comes from inside another one, or after the end, or an earlier call has left an error.
    #[inline(always)]
    pub(crate) fn state(&self) -> Result<RefMut<'_, State<F>>> {
        let mut state = self.shared.try_borrow_mut().map_err(|_| Error::Nested)?;
        state.attend()?;
        Ok(state)
    }

    /// The shared state, for what must happen also after errors: ending operations. `None` inside another call.
    pub(crate) fn state_to_end(&self) -> Option<RefMut<'_, State<F>>> {
        self.shared.try_borrow_mut().ok()
    }

    /// What a message to rank `dest` carries, and where it goes.
    ///
    /// # Errors
    /// [`Error::UnknownRank`], [`Error::TagOutOfRange`].
    #[inline(always)]
    pub(crate) fn route(&self, space: Space, dest: u32, tag: i32) -> Result<Route> {
        if dest >= self.size {
            return Err(self.unknown_rank(dest));
        }
        let task = self.group.task_of(dest);
        let envelope = Envelope::new(self.context_id(space), self.rank, tag::check(tag)?);
        Ok(Route { task, destination: dest, envelope })
    }

    /// What a receive from `source` looks for.
    ///
    /// # Errors
    /// [`Error::UnknownRank`], [`Error::TagOutOfRange`].
    #[inline(always)]
    pub(crate) fn pattern(&self, space: Space, source: Source, tag: Tag) -> Result<Pattern> {
        let source = match source {
            Source::Rank(rank) if rank >= self.size => return Err(self.unknown_rank(rank)),
            Source::Rank(rank) => Some(rank),
            Source::Any => None,
        };
        let tag = match tag {
            Tag::Is(tag) => Some(tag::check(tag)?),
            Tag::Any => None,
        };
        Ok(Pattern::new(self.context_id(space), source, tag))
    }

    #[inline(always)]
    fn context_id(&self, space: Space) -> ContextId {
        ContextId(self.context_id + space as u32)
    }

    #[cold]
    #[inline(never)]
    fn unknown_rank(&self, rank: u32) -> Error {
        Error::UnknownRank { rank, size: self.size }
    }
}
