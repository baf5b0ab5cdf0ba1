//! Where engine and fabric meet: one event at a time, every call direct and inlined.

use crate::buffer::{Access, Grant, InlineBytes, RawBuffer};
use crate::engine::{Due, Engine, Grants, Lower, Packet, PacketBytes};
use crate::error::{Outcome, Result};
use crate::fabric::{Body, Class, Event, Fabric, Payload};
use crate::handler::HandlerSet;
use crate::task::Endpoint;

/// A fabric in the engine's words.
pub(crate) struct Port<'a, F>(pub(crate) &'a mut F);

impl<F: Fabric> Lower for Port<'_, F> {
    #[inline(always)]
    fn post_inline(
        &mut self,
        to: Endpoint,
        class: Class,
        label: u16,
        bytes: &InlineBytes,
    ) -> Result<Outcome> {
        self.0.post_inline(to, class, label, bytes)
    }

    #[inline(always)]
    fn post_packet(
        &mut self,
        to: Endpoint,
        class: Class,
        label: u16,
        head: &[u8],
        body: &mut impl Body,
    ) -> Result<Outcome> {
        self.0.post_packet(to, class, label, head, body)
    }

    #[inline(always)]
    fn waive(&mut self, origin: Endpoint) {
        self.0.waive(origin);
    }
}

struct OwnGrants<'a, F>(&'a F);

impl<F: Fabric> Grants for OwnGrants<'_, F> {
    #[inline(always)]
    fn granted(&self, grant: Grant, offset: u64, len: u64, access: Access) -> Result<RawBuffer> {
        self.0.granted(grant, offset, len, access)
    }
}

/// Handles the next event, if there is one; whether there was.
///
/// # Errors
/// What the event reports.
#[inline(always)]
pub(crate) fn step<F: Fabric, H: HandlerSet>(
    fabric: &mut F,
    engine: &mut Engine,
    handlers: &mut H,
) -> Result<bool> {
    let Some(event) = fabric.poll() else { return Ok(false) };
    match event {
        Event::Arrival(arrival) => {
            let handled = {
                let bytes = match &arrival.payload {
                    Payload::Inline(bytes) => PacketBytes::Inline(bytes),
                    Payload::Buffered { .. } => PacketBytes::Buffered(fabric.arrived(&arrival)),
                };
                let packet = Packet { from: arrival.from, class: arrival.class, label: arrival.label, bytes };
                engine.handle_packet(&OwnGrants(fabric), handlers, &packet)
            };
            fabric.release(arrival);
            match handled? {
                Due::Nothing => {}
                due => engine.carry_out(due, &mut Port(fabric), handlers)?,
            }
        }
        Event::Completed { .. } | Event::TaskFailed(_) => {}
    }
    Ok(true)
}
