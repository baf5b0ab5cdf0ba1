//! `LAPI_Put`: writing into exposed memory of another task.

use crate::buffer::{InlineBytes, RemoteAddress};
use crate::context::Context;
use crate::counter::{Counter, CounterName};
use crate::engine::packet::{self, Kind};
use crate::error::{Outcome, Result};
use crate::fabric::{Class, Fabric};
use crate::handler::{HandlerId, HandlerSet};
use crate::in_handler;

/// The counters of a put, each optional.
#[derive(Clone, Copy, Debug, Default)]
pub struct PutOptions {
    /// Bumped here when the source may be changed again (`org_cntr`).
    pub origin: Option<Counter>,
    /// Bumped at the target when the bytes are in place (`tgt_cntr`).
    pub target: Option<CounterName>,
    /// Bumped here when the bytes are in place (`cmpl_cntr`).
    pub completion: Option<Counter>,
}

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Writes `bytes` to `to` (`LAPI_Put`). Returns when `bytes` may be changed again.
    ///
    /// # Errors
    /// A range that is not exposed for writing, a dead target, a call inside a handler.
    #[inline]
    pub fn put(&mut self, to: RemoteAddress, bytes: &[u8], options: PutOptions) -> Result<()> {
        in_handler::check("put")?;
        let mut inline = InlineBytes::new();
        let counter = CounterName::to_wire(options.target);
        let label = packet::label(Kind::Put, HandlerId(0));
        if inline.push(&to.grant.region.to_le_bytes())
            && inline.push(&to.grant.generation.to_le_bytes())
            && inline.push_word(to.offset)
            && inline.push(&counter.to_le_bytes())
            && inline.push(bytes)
        {
            while self.fabric.post_inline(to.task.into(), Class::OneWay, label, &inline)? == Outcome::Retry {
                self.wait_for_room()?;
            }
        }
        if let Some(counter) = options.origin {
            let _ = self.engine.counters.bump(counter.name());
        }
        Ok(())
    }
}
