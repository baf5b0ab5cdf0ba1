//! New communicators, for several threads. Each is made in three parts: a turn in which what this task has to say is told, a wait in
//! which the other threads have their turns, and a turn in which the communicator begins.

use am_core::fabric::Fabric;

use super::communicator::Handle;
use super::{SharedCommunicator, Waiting};
use crate::collective::slices;
use crate::communicator::SplitType;
use crate::error::Result;
use crate::info::Info;
use crate::op::{self, Op};

impl<F: Fabric> SharedCommunicator<F> {
    /// A communicator of the same tasks with a message space of its own (`MPI_Comm_dup`). Collective.
    ///
    /// # Errors
    /// As for [`Communicator::dup`](crate::Communicator::dup).
    pub fn dup(&self) -> Result<Self> {
        let Handle { shared, number } = &*self.handle;
        let (request, place) = {
            let mut turn = shared.inner.enter()?;
            let pending = turn.value().communicator(*number)?.idup()?;
            let request = pending.request();
            (request, turn.value().keep_pending(pending))
        };
        let waited = shared.inner.wait_over(*number, request);
        let made = {
            let mut turn = shared.inner.enter()?;
            let pending = turn.value().take_pending(place);
            waited.map_err(Waiting::into_error)?;
            let made = pending.begin()?;
            turn.value().keep(made)
        };
        Self::new(shared, made)
    }

    /// Splits the tasks by colour, and orders those of each colour by key, then by rank (`MPI_Comm_split`). Collective; `None`
    /// without a colour (`MPI_UNDEFINED`).
    ///
    /// # Errors
    /// As for [`Communicator::split`](crate::Communicator::split).
    pub fn split(&self, color: Option<i32>, key: i32) -> Result<Option<Self>> {
        let Handle { shared, number } = &*self.handle;
        let (own, mut words) = shared.inner.with(*number, |inside| inside.begin_split(color, key))?;
        // The same collective as that by which a task of one thread splits; the words live until it is over.
        let gathering = slices::allreduce_in_place(&mut words, Op::from_operation::<u64>(op::BitwiseOr))?;
        shared.inner.carry_out(*number, |inside| inside.icollective_data(&gathering))?;
        let made = {
            let mut turn = shared.inner.enter()?;
            turn.value().communicator(*number)?.end_split(own, &words)?.map(|made| turn.value().keep(made))
        };
        made.map(|made| Self::new(shared, made)).transpose()
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
            let Handle { shared, number } = &*new.handle;
            shared.inner.with(*number, |inside| {
                inside.set_info(info);
                Ok(())
            })?;
        }
        Ok(new)
    }
}
