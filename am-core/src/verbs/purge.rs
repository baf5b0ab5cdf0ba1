//! `LAPI_Purge_totask` and `LAPI_Resume_totask`: giving up all operations with a peer, and beginning anew.

use crate::context::Context;
use crate::error::Result;
use crate::fabric::Fabric;
use crate::handler::HandlerSet;
use crate::in_handler;
use crate::task::Target;

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Ends all operations with `target` (a task's context of this one's number, or the one that is named), and refuses new ones until
    /// [`resume_totask`](Self::resume_totask). Does not wait. The target ends its side of them when it hears of it; those that it
    /// began itself end with the same error.
    ///
    /// What an operation has done is not undone. An owned or borrowed buffer comes back when nobody copies from it any more: at
    /// once in most cases, and where the target is stopped in the middle of a copy, when it goes on or dies. Messages of the target
    /// that wait for their place here, with their data, stay acceptable. Not to be used while a collective call is under way.
    ///
    /// # Errors
    /// A target that the job does not have, a call inside a handler.
    pub fn purge_totask(&mut self, target: impl Target) -> Result<()> {
        in_handler::check("purge_totask")?;
        let target = target.seen_from(self.endpoint().context);
        let target = self.fabric.peer(target)?;
        let Self { engine, fabric, handlers, .. } = self;
        engine.purge(target, fabric, handlers)
    }

    /// Allows operations with `target` again. They are seen by the target after it has ended its side of the old ones; nothing of
    /// those comes up any more.
    ///
    /// # Errors
    /// A target that the job does not have, a call inside a handler.
    pub fn resume_totask(&mut self, target: impl Target) -> Result<()> {
        in_handler::check("resume_totask")?;
        let target = target.seen_from(self.endpoint().context);
        let target = self.fabric.peer(target)?;
        self.engine.resume(target);
        Ok(())
    }
}
