//! `LAPI_Fence`, `LAPI_Gfence`, and a fence that also waits for handlers, which LAPI does not have.

use am_core_engine::protocol::FenceKind;

use crate::call_guard;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::fabric::Fabric;
use crate::handler::HandlerSet;
use crate::record::Span;
use crate::task::Endpoint;
use crate::wait::Errors;

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Waits until the data of all earlier operations of this context, to `target` or to all targets, have been stored (`LAPI_Fence`).
    /// Completion handlers on the handler thread may still run. A message without a destination yet counts as stored if it carried its
    /// data; if it was announced, the fence waits for it.
    ///
    /// # Errors
    /// A dead target, or the failure of any task unless [`set_go_on`](Self::set_go_on) was called; a closed context of a task of this world
    /// to which this context has sent since the last fence; a message that its target refused (the first one-way message since the last
    /// fence); any other error that was not reported yet; a call inside a handler.
    pub fn fence_data(&mut self, target: Option<Endpoint>) -> Result<()> {
        call_guard::check("fence_data")?;
        let _span = Span::begin("fence_data");
        self.fence(target, FenceKind::Data)
    }

    /// Like [`fence_data`](Self::fence_data), and also waits until every completion handler has run and every message has a destination.
    ///
    /// # Errors
    /// Those of [`fence_data`](Self::fence_data).
    pub fn fence_ops(&mut self, target: Option<Endpoint>) -> Result<()> {
        call_guard::check("fence_ops")?;
        let _span = Span::begin("fence_ops");
        self.fence(target, FenceKind::Operations)
    }

    /// Collective: a data fence of every task, then a barrier (`LAPI_Gfence`). Every task must call its collectives in the same order.
    ///
    /// # Errors
    /// Those of [`fence_data`](Self::fence_data); all tasks still complete the barrier, unless one has failed. The failure of any task ends
    /// the barrier, also after [`set_go_on`](Self::set_go_on), because each task waits for all. Of errors during the
    /// barrier, only the panic of a handler is returned at once. The next call reports other errors, since tasks that have left the barrier
    /// may have caused them.
    pub fn gfence(&mut self) -> Result<()> {
        call_guard::check("gfence")?;
        let _span = Span::begin("gfence");
        let fenced = self.fence(None, FenceKind::Data);
        // The other tasks wait for this task even if its own messages failed.
        let came = if matches!(fenced, Err(Error::PeerFailed { .. })) { Ok(()) } else { self.barrier() };
        fenced.and(came).and_then(|()| self.take_stashed_panic())
    }

    fn fence(&mut self, target: Option<Endpoint>, kind: FenceKind) -> Result<()> {
        let all = target.is_none();
        let targets = match target {
            Some(target) => {
                vec![self.engine.target(&mut self.fabric, target)?]
            }
            None => self.engine.touched.list(),
        };
        for &target in &targets {
            let is_foreign = self.is_of_another_world(target.endpoint.task);
            self.wait_for(Errors::Failures, |context| {
                let is_over = !context.engine.is_busy_with(target)
                    || is_foreign && context.has_ended(target.endpoint.task);
                Ok(is_over.then_some(()))
            })?;
        }
        let mut asked = Vec::with_capacity(targets.len());
        let mut result = Ok(());
        // Peers that only got notices of stored data are not asked: a fence of data need not wait for them.
        let is_asked =
            |context: &Self, target| kind == FenceKind::Operations || context.engine.touched.has(target);
        for target in targets {
            if !is_asked(self, target) {
                continue;
            }
            if self.engine.is_dead(target.endpoint.task) {
                continue;
            }
            // Nothing that is stored there concerns this task any more, and the other task may end meanwhile.
            if all && !self.is_connected && self.is_of_another_world(target.endpoint.task) {
                self.engine.touched.clear(target);
                continue;
            }
            // It is unknown whether the operations with a closed context were completed, so its error is reported.
            let begun = match self.engine.gone(target.endpoint) {
                None => self.engine.begin_fence(&mut self.fabric, target, kind),
                // A task of another world may end when it likes, once it has what it waits for.
                Some(_) if self.is_of_another_world(target.endpoint.task) => {
                    self.engine.touched.clear(target);
                    continue;
                }
                Some(error) => Err(error),
            };
            match begun {
                Ok(op) => asked.push((target, op)),
                Err(error) => result = result.and(Err(error)),
            }
            self.engine.touched.clear(target);
        }
        for (target, op) in asked {
            let ended = self.wait_op(op).0.map(|_| ());
            let has_left =
                self.is_of_another_world(target.endpoint.task) && self.engine.gone(target.endpoint).is_some();
            result = result.and(if has_left { Ok(()) } else { ended });
        }
        result.and_then(|()| self.take_stashed())
    }

    /// Whether `task` was not started together with this one.
    fn is_of_another_world(&self, task: crate::task::TaskId) -> bool {
        task.0.wrapping_sub(self.first_task().0) >= self.num_tasks()
    }

    /// Returns an error if a collective, which waits for the task of `before`, can never end: any task that has failed may be one for which
    /// that task waits.
    pub(super) fn check_collective(&self, before: Endpoint) -> Result<()> {
        self.engine.gone(before).or_else(|| self.engine.first_failure()).map_or(Ok(()), Err)
    }

    /// A dissemination barrier.
    fn barrier(&mut self) -> Result<()> {
        let (first, tasks) = (self.first_task().0, self.num_tasks());
        let own = self.task().0 - first;
        let number = self.engine.enter_barrier();
        for round in (0..u32::BITS).take_while(|&round| 1u64 << round < u64::from(tasks)) {
            let next = self.engine.endpoint_of(crate::task::TaskId(first + ahead(own, 1 << round, tasks)));
            let next = self.fabric.peer(next)?;
            self.engine.notify_barrier(&mut self.fabric, next, round)?;
            let before =
                self.engine.endpoint_of(crate::task::TaskId(first + ahead(own, tasks - (1 << round), tasks)));
            self.wait_for(Errors::Failures, |context| {
                if context.engine.barrier_noticed(number, round) {
                    return Ok(Some(()));
                }
                context.check_collective(before).map(|()| None)
            })?;
        }
        // The last notice may still wait for a credit.
        for &target in &self.engine.touched.list() {
            self.wait_sent(target)?;
        }
        Ok(())
    }
}

/// The task `distance` after `own` in the ring of `tasks`.
pub(crate) fn ahead(own: u32, distance: u32, tasks: u32) -> u32 {
    ((u64::from(own) + u64::from(distance)) % u64::from(tasks)) as u32
}
