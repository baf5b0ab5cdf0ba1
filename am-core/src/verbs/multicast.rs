//! `LAPI_Group_create` and multicast (`LAPI_MC_XFER`): one message to several tasks.

use std::cell::RefCell;

use am_core_engine::protocol::{End, Issued};

use super::operation::ByDriver;
use super::{AmOptions, Amsend, Operation};
use crate::buffer::{RawBytes, lend};
use crate::call_guard;
use crate::context::Context;
use crate::error::Result;
use crate::fabric::Fabric;
use crate::handler::{HandlerId, HandlerSet};
use crate::task::{Endpoint, TaskId};

/// Tasks that get the same message. The list belongs to this task; dropping it frees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    members: Box<[Endpoint]>,
}

impl Group {
    /// The members, without duplicates, in ascending order.
    #[must_use]
    pub fn members(&self) -> &[Endpoint] {
        &self.members
    }
}

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// A group of the contexts of `tasks` with this context's number (`LAPI_Group_create`). Duplicates are removed; this task may be a
    /// member.
    ///
    /// # Errors
    /// An unknown task.
    pub fn group(&self, tasks: &[TaskId]) -> Result<Group> {
        let mut members: Vec<_> =
            tasks.iter().map(|&task| Endpoint::new(task, self.endpoint().context)).collect();
        members.iter().try_for_each(|&member| self.check_exists(member))?;
        members.sort_unstable();
        members.dedup();
        Ok(Group { members: members.into() })
    }

    /// Sends one message to every member of `group` (`LAPI_MC_XFER`); returns when `udata` may be changed. The origin counter is
    /// bumped once, the completion counter once for each member. This task sends to each member in turn, and does not wait in between.
    ///
    /// # Errors
    /// The first error; the other members still get the message.
    pub fn multicast(
        &mut self,
        group: &Group,
        handler: HandlerId,
        uhdr: &[u8],
        udata: &[u8],
        options: AmOptions,
    ) -> Result<()> {
        call_guard::check("multicast")?;
        let begun = RefCell::new(Vec::new());
        let mut first_error = Ok(());
        let start = |context: &mut Self, udata: RawBytes| {
            for &member in &group.members {
                // The origin counter is bumped once, below.
                let options = AmOptions { origin: None, ..options };
                let message = Amsend { target: member, handler, uhdr, options };
                match message.begin(context, udata, End::held(), ByDriver(())) {
                    Ok(Issued::Ongoing(op)) => begun.borrow_mut().push(op),
                    Ok(Issued::Done) => {}
                    Err(error) => first_error = std::mem::replace(&mut first_error, Ok(())).and(Err(error)),
                }
            }
            Ok(())
        };
        let ended = lend(self, udata, start, |context| {
            let (mut result, next) = (Ok(()), || begun.borrow_mut().pop());
            // Each operation leaves the list before its wait: if the wait unwinds, `lend` calls this closure again for the other
            // operations.
            while let Some(op) = next() {
                result = context.wait_op(op).0.map(|_| ()).and(result);
            }
            result
        });
        first_error.and(ended)?;
        self.engine.bump_own(options.origin);
        Ok(())
    }
}
