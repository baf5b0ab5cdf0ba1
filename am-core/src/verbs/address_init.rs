//! `LAPI_Address_init`: all tasks exchange addresses or other bytes.

use am_core_engine::protocol::collective::CONTRIBUTION_BYTES_MAX;

use super::fence::ahead;
use crate::buffer::RemoteAddress;
use crate::call_guard;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::fabric::{Fabric, World};
use crate::handler::HandlerSet;
use crate::record::Span;
use crate::task::{Endpoint, TaskId};
use crate::wait::Errors;

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Collective: returns the address that each task passed, in the order of the tasks (`LAPI_Address_init`).
    ///
    /// # Errors
    /// The failure of a task, a call inside a handler, a task that contributed something other than an address.
    pub fn address_init(&mut self, own: RemoteAddress) -> Result<Vec<RemoteAddress>> {
        let all = self.exchange(&own.to_bytes())?;
        all.into_iter()
            .zip(0..)
            .map(|(bytes, task)| match <[u8; RemoteAddress::BYTES]>::try_from(bytes) {
                Ok(bytes) => Ok(RemoteAddress::from_bytes(bytes)),
                Err(bytes) => Err(Error::Protocol {
                    peer: Endpoint::new(TaskId(self.first_task().0 + task), self.fabric.world().endpoint().context),
                    what: format!(
                        "it contributed {} bytes, which are not an address: all tasks must call address_init together",
                        bytes.len()
                    ),
                }),
            })
            .collect()
    }

    /// Collective: returns the bytes that each task passed, in the order of the tasks; at most
    /// [`CONTRIBUTION_BYTES_MAX`](crate::Limits::contribution_bytes_max) per task. Every task must call its collectives in the same order.
    ///
    /// # Errors
    /// Too many bytes, the failure of a task, a call inside a handler.
    pub fn exchange(&mut self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        call_guard::check("exchange")?;
        let _span = Span::begin("exchange");
        if own.len() > CONTRIBUTION_BYTES_MAX {
            return Err(Error::ContributionTooLong { len: own.len(), max: CONTRIBUTION_BYTES_MAX });
        }
        let (first, tasks) = (self.first_task().0, self.num_tasks());
        let me = self.task().0 - first;
        let epoch = self.engine.enter_exchange(TaskId(me), own);
        for distance in (0..u32::BITS).map(|round| 1u64 << round).take_while(|&d| d < u64::from(tasks)) {
            let distance = distance as u32;
            let count = distance.min(tasks - distance);
            let known: Vec<TaskId> = (0..count).map(|i| TaskId(ahead(me, i, tasks))).collect();
            let before = self.engine.endpoint_of(TaskId(first + ahead(me, tasks - distance, tasks)));
            let before = self.fabric.peer(before)?;
            self.engine.send_exchange(&mut self.fabric, before, epoch, &known)?;
            let wanted = move || (0..count).map(move |i| TaskId(ahead(ahead(me, distance, tasks), i, tasks)));
            let from = self.engine.endpoint_of(TaskId(first + ahead(me, distance, tasks)));
            self.wait_for(Errors::Failures, |context| {
                if context.engine.exchange_has(epoch, wanted()) {
                    return Ok(Some(()));
                }
                context.check_collective(from).map(|()| None)
            })?;
        }
        for &target in &self.engine.touched.list() {
            self.wait_sent(target)?;
        }
        Ok(self.engine.leave_exchange(epoch))
    }
}
