//! `LAPI_Amsend`: a message whose header handler at the target names the place for its data.

use crate::buffer::lend;
use crate::buffer::{InlineBytes, RawBytes};
use crate::context::Context;
use crate::counter::{Counter, CounterName};
use crate::engine::UHDR_BYTES_MAX;
use crate::engine::packet::{self, Kind, MessageHead};
use crate::error::{Error, Outcome, Result};
use crate::fabric::{Class, Fabric};
use crate::handler::{HandlerId, HandlerSet};
use crate::in_handler;
use crate::task::Endpoint;

/// The counters of a message, each optional, and whether it may be answered.
#[derive(Clone, Copy, Debug, Default)]
pub struct AmOptions {
    /// Bumped here when the user data may be changed again (`org_cntr`).
    pub origin: Option<Counter>,
    /// Bumped at the target when the message is in place and its completion handler has run (`tgt_cntr`).
    pub target: Option<CounterName>,
    /// Bumped here when the target is done (`cmpl_cntr`).
    pub completion: Option<Counter>,
    /// The message will not be answered by a predefined completion, and reserves no room for an answer.
    pub one_way: bool,
}

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Sends a message to `target`, whose header handler `handler` gets `uhdr` and names the place for `udata`
    /// (`LAPI_Amsend`). Returns when `udata` may be changed again.
    ///
    /// # Errors
    /// An unknown or dead target, a user header longer than [`UHDR_BYTES_MAX`], a call inside a handler.
    #[inline]
    pub fn amsend(
        &mut self,
        target: impl Into<Endpoint>,
        handler: HandlerId,
        uhdr: &[u8],
        udata: &[u8],
        options: AmOptions,
    ) -> Result<()> {
        in_handler::check("amsend")?;
        let target = target.into();
        let class =
            if options.one_way && options.completion.is_none() { Class::OneWay } else { Class::Request };
        let head = MessageHead {
            uhdr_len: uhdr.len() as u16,
            target_counter: CounterName::to_wire(options.target),
            completion_counter: CounterName::to_wire(options.completion.map(Counter::name)),
        };
        let label = packet::label(Kind::Message, handler);
        let mut inline = InlineBytes::new();
        if head.push_to(&mut inline) && inline.push(uhdr) && inline.push(udata) {
            while self.fabric.post_inline(target, class, label, &inline)? == Outcome::Retry {
                self.wait_for_room()?;
            }
        } else {
            self.amsend_packet(target, class, label, head, uhdr, udata)?;
        }
        if let Some(counter) = options.origin {
            let _ = self.engine.counters.bump(counter.name());
        }
        Ok(())
    }

    #[inline(never)]
    fn amsend_packet(
        &mut self,
        target: Endpoint,
        class: Class,
        label: u16,
        head: MessageHead,
        uhdr: &[u8],
        udata: &[u8],
    ) -> Result<()> {
        if uhdr.len() > UHDR_BYTES_MAX {
            return Err(Error::UserHeaderTooLong { len: uhdr.len(), max: UHDR_BYTES_MAX });
        }
        let mut front = [0; UHDR_BYTES_MAX + MessageHead::BYTES_MAX];
        let mut fixed = InlineBytes::new();
        let fitted = head.push_to(&mut fixed);
        debug_assert!(fitted, "a head fits into an empty packet");
        let front_len = fixed.len() + uhdr.len();
        front[..fixed.len()].copy_from_slice(fixed.as_slice());
        front[fixed.len()..front_len].copy_from_slice(uhdr);
        let start = |context: &mut Self, mut body: RawBytes| {
            while context.fabric.post_packet(target, class, label, &front[..front_len], &mut body)?
                == Outcome::Retry
            {
                context.wait_for_room()?;
            }
            Ok(())
        };
        // The body has been written when the packet is posted: nothing is left to wait for.
        lend(self, udata, start, |_| Ok(()))
    }

    /// Makes progress once, or waits a little, because there is no room at the target.
    #[cold]
    #[inline(never)]
    pub(crate) fn wait_for_room(&mut self) -> Result<()> {
        if !self.progress()? {
            self.fabric.wait(1, std::time::Duration::from_millis(1));
        }
        Ok(())
    }
}
