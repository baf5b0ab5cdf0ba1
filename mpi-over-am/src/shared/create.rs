//! New communicators, for several threads. Each is made in three parts: a turn in which what this task has to say is told, a wait in
//! which the other threads have their turns, and a turn in which the communicator begins.

use std::sync::Arc;

use am_core::fabric::Fabric;

use super::communicator::Handle;
use super::{SharedCommunicator, SharedEnvironment, WORLD, Waiting};
use crate::collective::slices;
use crate::communicator::{Communicator, PendingCommunicator, SplitType};
use crate::environment::JobFabric;
use crate::error::Result;
use crate::error_handler::ErrorHandler;
use crate::group::Group;
use crate::info::Info;
use crate::op::{self, Op};
use crate::request::RequestId;
use crate::state::is_over;

/// A duplicate that is being made (`MPI_Comm_idup`). Any thread may wait for it.
#[must_use = "the communicator comes by a wait"]
#[derive(Debug)]
pub struct SharedPending<F: Fabric = JobFabric> {
    parent: Arc<Handle<F>>,
    request: RequestId,
    /// Until it is taken.
    place: Option<usize>,
}

impl<F: Fabric> SharedPending<F> {
    fn new(
        parent: &Arc<Handle<F>>,
        start: impl FnOnce(&Communicator<F>) -> Result<Option<PendingCommunicator<F>>>,
    ) -> Result<Option<Self>> {
        let mut turn = parent.shared.inner.enter()?;
        let Some(pending) = start(turn.value().communicator(parent.number)?)? else { return Ok(None) };
        let request = pending.request();
        let place = Some(turn.value().keep_pending(pending));
        Ok(Some(Self { parent: Arc::clone(parent), request, place }))
    }

    /// Waits for the communicator.
    ///
    /// # Errors
    /// What progress reports, and then there is none; all context ids are in use.
    pub fn wait(self) -> Result<SharedCommunicator<F>> {
        let made = self.wait_for_part()?;
        Ok(made.expect("every task is in a duplicate"))
    }

    /// Makes progress, and says whether the communicator is there.
    ///
    /// # Errors
    /// What progress reports.
    pub fn is_over(&self) -> Result<bool> {
        let Handle { shared, number } = &*self.parent;
        shared.inner.with(*number, |inside| inside.state()?.is_over_after_progress(self.request))
    }

    /// `None` where this task is not in it.
    fn wait_for_part(mut self) -> Result<Option<SharedCommunicator<F>>> {
        let Handle { shared, number } = &*self.parent;
        let waited = shared.inner.wait_until(
            *number,
            |context| is_over(context, self.request),
            |inside| {
                inside.state()?.handlers().requests.forget(self.request);
                Ok(())
            },
        );
        let place = self.place.take().expect("only a wait takes it, and that consumes the value");
        let made = {
            let mut turn = shared.inner.enter()?;
            let pending = turn.value().take_pending(place);
            waited.map_err(Waiting::into_error)?;
            pending.begin_part()?.map(|made| turn.value().keep(made))
        };
        made.map(|made| SharedCommunicator::new(shared, made)).transpose()
    }
}

impl<F: Fabric> Drop for SharedPending<F> {
    /// The note that makes it is taken when it comes, and nothing comes of it.
    fn drop(&mut self) {
        if let Some(place) = self.place
            && let Ok(mut turn) = self.parent.shared.inner.enter()
        {
            drop(turn.value().take_pending(place));
            if let Ok(inside) = turn.value().communicator(self.parent.number)
                && let Some(mut state) = inside.state_to_end()
            {
                state.handlers().requests.detach(self.request);
            }
        }
    }
}

impl<F: Fabric> SharedCommunicator<F> {
    /// Makes a communicator that one task tells the others of; `None` where this task is not in it.
    pub(super) fn make(
        &self,
        start: impl FnOnce(&Communicator<F>) -> Result<Option<PendingCommunicator<F>>>,
    ) -> Result<Option<Self>> {
        SharedPending::new(&self.handle, start)?.map_or(Ok(None), SharedPending::wait_for_part)
    }

    /// A communicator of the same tasks with a message space of its own (`MPI_Comm_dup`). Collective.
    ///
    /// # Errors
    /// As for [`Communicator::dup`](crate::Communicator::dup).
    pub fn dup(&self) -> Result<Self> {
        self.idup()?.wait()
    }

    /// As [`Communicator::dup_with_info`].
    ///
    /// # Errors
    /// As there.
    pub fn dup_with_info(&self, info: &Info) -> Result<Self> {
        self.idup_with_info(info)?.wait()
    }

    /// Starts a [`dup`](Self::dup) (`MPI_Comm_idup`).
    ///
    /// # Errors
    /// As for [`dup`](Self::dup).
    pub fn idup(&self) -> Result<SharedPending<F>> {
        self.idup_with_info(&Info::new())
    }

    /// As [`idup`](Self::idup), with hints (`MPI_Comm_idup_with_info`).
    ///
    /// # Errors
    /// As for [`dup`](Self::dup).
    pub fn idup_with_info(&self, info: &Info) -> Result<SharedPending<F>> {
        let pending = SharedPending::new(&self.handle, |inside| inside.idup_with_info(info).map(Some))?;
        Ok(pending.expect("one was started"))
    }

    /// As [`Communicator::create`].
    ///
    /// # Errors
    /// As there.
    pub fn create(&self, group: &Group) -> Result<Option<Self>> {
        if self.is_inter() {
            return self.create_inter(group);
        }
        self.make(|inside| inside.start_create(group).map(Some))
    }

    /// As [`Communicator::create_group`]. Threads that create at the same time have different tags.
    ///
    /// # Errors
    /// As there.
    pub fn create_group(&self, group: &Group, tag: i32) -> Result<Option<Self>> {
        self.make(|inside| inside.start_group(group, tag))
    }

    /// Splits the tasks by colour, and orders those of each colour by key, then by rank (`MPI_Comm_split`). Collective; `None`
    /// without a colour (`MPI_UNDEFINED`).
    ///
    /// # Errors
    /// As for [`Communicator::split`](crate::Communicator::split).
    pub fn split(&self, color: Option<i32>, key: i32) -> Result<Option<Self>> {
        if self.is_inter() {
            return self.split_inter(color, key);
        }
        self.split_into(color, key, |part| part)
    }

    /// As [`split`](Self::split); `finish` has the part before anybody else.
    pub(super) fn split_into(
        &self,
        color: Option<i32>,
        key: i32,
        finish: impl FnOnce(Communicator<F>) -> Communicator<F>,
    ) -> Result<Option<Self>> {
        let Handle { shared, number } = &*self.handle;
        let (own, mut words) = shared.inner.with(*number, |inside| inside.begin_split(color, key))?;
        self.combine(&mut words)?;
        let made = {
            let mut turn = shared.inner.enter()?;
            let part = turn.value().communicator(*number)?.end_split(own, &words)?;
            part.map(|part| turn.value().keep(finish(part)))
        };
        made.map(|made| Self::new(shared, made)).transpose()
    }

    /// Each word becomes all of its bits that any task has set: by the same collective as that of a task of one thread.
    pub(super) fn combine(&self, words: &mut [u64]) -> Result<()> {
        let Handle { shared, number } = &*self.handle;
        // The words live until it is over.
        let combining = slices::allreduce_in_place(words, Op::from_operation::<u64>(op::BitwiseOr))?;
        shared.inner.carry_out(*number, |inside| inside.local().icollective_data(&combining)).map(|_| ())
    }

    /// Splits by what the tasks share (`MPI_Comm_split_type`). Collective; `None` without a type (`MPI_UNDEFINED`), or where nothing
    /// of the kind is known.
    ///
    /// # Errors
    /// As for [`split`](Self::split).
    pub fn split_type(&self, split_type: Option<SplitType>, key: i32, info: &Info) -> Result<Option<Self>> {
        let color = split_type.map_or(Ok(None), |split_type| split_type.color(info))?;
        let new = self.split(color, key)?;
        if let Some(new) = &new {
            new.set_info(info)?;
        }
        Ok(new)
    }
}

impl<F: Fabric> SharedEnvironment<F> {
    /// A communicator of the tasks of `group`, which all call this with the same `tag` (`MPI_Comm_create_from_group`), without a
    /// communicator of all tasks. `None` for a task that is not in it. Groups are those of [`Session`](crate::Session)s and
    /// communicators.
    ///
    /// # Errors
    /// The death of a task.
    pub fn create_from_group(
        &self,
        group: &Group,
        tag: &str,
        info: &Info,
        error_handler: ErrorHandler,
    ) -> Result<Option<SharedCommunicator<F>>> {
        let world = SharedCommunicator::new(&self.shared, WORLD)?;
        world.make(|inside| inside.start_from_group(group, tag, (info, error_handler)))
    }

    /// As [`Session::inter_from_groups`](crate::Session::inter_from_groups).
    ///
    /// # Errors
    /// As there.
    pub fn inter_from_groups(
        &self,
        local: &Group,
        remote: &Group,
        tag: &str,
        info: &Info,
        error_handler: ErrorHandler,
    ) -> Result<SharedCommunicator<F>> {
        let world = SharedCommunicator::new(&self.shared, WORLD)?;
        let start = |inside: &Communicator<F>| {
            inside.start_from_groups((local, remote), tag, (info, error_handler)).map(Some)
        };
        Ok(world.make(start)?.expect("this task is in the local group"))
    }
}
