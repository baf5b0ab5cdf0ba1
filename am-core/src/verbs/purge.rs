//! `LAPI_Purge_totask` and `LAPI_Resume_totask`: ends all operations with a peer, and allows new ones.

use crate::call_guard;
use crate::context::Context;
use crate::error::Result;
use crate::fabric::Fabric;
use crate::handler::HandlerSet;
use crate::task::Target;

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Ends all operations with `target` (an endpoint, or a task's context with the same number as this one), and rejects new ones until
    /// [`resume_totask`](Self::resume_totask). Does not wait. The target ends its side of the operations when it gets the notice;
    /// operations that the target started end with the same error.
    ///
    /// Effects of operations are not undone. An owned or borrowed buffer is returned when no task copies from it any more: usually at once,
    /// but if the target is stopped in the middle of a copy, when it continues or dies. Messages of the target whose data have arrived, and
    /// which wait for their destination here, can still be accepted. Must not be called while a collective call is under way.
    ///
    /// # Errors
    /// A target that the job does not have, a call inside a handler; an error of an ended operation, other than the purge, that is reported
    /// nowhere else.
    pub fn purge_totask(&mut self, target: impl Target) -> Result<()> {
        call_guard::check("purge_totask")?;
        let target = target.seen_from(self.endpoint().context);
        let target = self.fabric.peer(target)?;
        let Self { engine, fabric, handlers, .. } = self;
        engine.purge(target, fabric, handlers)
    }

    /// Allows operations with `target` again. The target sees new operations after it has ended the old ones.
    ///
    /// # Errors
    /// An unknown target, a call inside a handler.
    pub fn resume_totask(&mut self, target: impl Target) -> Result<()> {
        call_guard::check("resume_totask")?;
        let target = target.seen_from(self.endpoint().context);
        let target = self.fabric.peer(target)?;
        self.engine.resume(target);
        Ok(())
    }
}
