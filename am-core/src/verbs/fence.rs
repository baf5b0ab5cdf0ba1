//! `LAPI_Fence`, `LAPI_Gfence`, and the fence that LAPI's users had to build: the one that waits for handlers too.

use crate::context::Context;
use crate::engine::FenceKind;
use crate::error::Result;
use crate::fabric::Fabric;
use crate::handler::HandlerSet;
use crate::in_handler;
use crate::progress::Port;
use crate::task::Endpoint;

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Waits until the data of everything that this context has sent, to `target` or to all, are in place (`LAPI_Fence`).
    /// Completion handlers on the handler thread may still run; a message that waits for its place there counts as in place
    /// if its data travelled with it, and is waited for if it was announced.
    ///
    /// # Errors
    /// A dead target, or the failure of any task unless the context goes on; a call inside a handler.
    pub fn fence_data(&mut self, target: Option<Endpoint>) -> Result<()> {
        in_handler::check("fence_data")?;
        self.fence(target, FenceKind::Data)
    }

    /// As [`fence_data`](Self::fence_data), and waits until every completion handler has run, and every message has had its
    /// place.
    ///
    /// # Errors
    /// As for [`fence_data`](Self::fence_data).
    pub fn fence_ops(&mut self, target: Option<Endpoint>) -> Result<()> {
        in_handler::check("fence_ops")?;
        self.fence(target, FenceKind::Operations)
    }

    /// Collective: a data fence of every task, then a barrier (`LAPI_Gfence`). Every task calls its collectives in the same
    /// order.
    ///
    /// # Errors
    /// The failure of a task, a call inside a handler.
    pub fn gfence(&mut self) -> Result<()> {
        in_handler::check("gfence")?;
        self.fence(None, FenceKind::Data)?;
        self.barrier()
    }

    fn fence(&mut self, target: Option<Endpoint>, kind: FenceKind) -> Result<()> {
        let targets = match target {
            Some(target) => {
                self.engine.check_target(target)?;
                vec![target]
            }
            None => self.engine.touched.list(),
        };
        for &target in &targets {
            self.wait_quietly(|context| Ok(!context.engine.is_busy_with(target)))?;
        }
        let mut asked = Vec::with_capacity(targets.len());
        for &target in &targets {
            if self.engine.is_dead(target.task) {
                continue;
            }
            asked.push(self.engine.begin_fence(&mut Port(&mut self.fabric), target, kind)?);
            self.engine.touched.clear(target);
        }
        let mut result = Ok(());
        for op in asked {
            result = result.and(self.wait_op(op).0.map(|_| ()));
        }
        result
    }

    /// A dissemination barrier.
    fn barrier(&mut self) -> Result<()> {
        let (own, tasks) = (self.task().0, self.num_tasks());
        let number = self.engine.enter_barrier();
        for round in (0..u32::BITS).take_while(|&round| 1u64 << round < u64::from(tasks)) {
            let next = self.engine.peer(crate::task::TaskId(ahead(own, 1 << round, tasks)));
            self.engine.notify_barrier(&mut Port(&mut self.fabric), next, round)?;
            self.wait_quietly(|context| Ok(context.engine.barrier_noticed(number, round)))?;
        }
        // The last notice may still wait for room.
        for &target in &self.engine.touched.list() {
            self.wait_sent(target)?;
        }
        Ok(())
    }
}

/// The task `distance` after `own`, round the ring of `tasks`.
pub(crate) fn ahead(own: u32, distance: u32, tasks: u32) -> u32 {
    ((u64::from(own) + u64::from(distance)) % u64::from(tasks)) as u32
}
