//! Where engine and fabric meet: one event at a time, every call direct and inlined.

use crate::buffer::{Access, Grant, InlineBytes, RawBuffer};
use crate::engine::packet::Kind;
use crate::engine::{Engine, Grants, Lower, Packet, PacketBytes};
use crate::error::{Outcome, Result};
use crate::fabric::{Arrival, Body, Class, Event, Fabric, Payload};
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

impl<F: Fabric> Grants for Port<'_, F> {
    #[inline(always)]
    fn granted(&self, grant: Grant, offset: u64, len: u64, access: Access) -> Result<RawBuffer> {
        self.0.granted(grant, offset, len, access)
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
    inline: &mut InlineBytes,
) -> Result<bool> {
    let Some(event) = fabric.poll(inline) else { return Ok(false) };
    match event {
        Event::Arrival(arrival) => match arrival.payload {
            Payload::Inline => handle_inline(fabric, engine, handlers, arrival, inline)?,
            Payload::Buffered { .. } => handle_buffered(fabric, engine, handlers, arrival)?,
        },
        Event::Completed { .. } | Event::TaskFailed(_) => {}
    }
    Ok(true)
}

/// A packet whose bytes are in private memory: its place goes back at once.
#[inline(always)]
fn handle_inline<F: Fabric, H: HandlerSet>(
    fabric: &mut F,
    engine: &mut Engine,
    handlers: &mut H,
    arrival: Arrival,
    inline: &InlineBytes,
) -> Result<()> {
    let (from, class, label) = (arrival.from, arrival.class, arrival.label);
    fabric.release(arrival);
    if Kind::of(label) == Kind::Message {
        return engine.handle_inline_message(&mut Port(fabric), handlers, from, class, label, inline);
    }
    let packet = Packet { from, class, label, bytes: PacketBytes::Inline(inline) };
    let due = engine.handle_packet(&OwnGrants(fabric), handlers, &packet)?;
    engine.carry_out(due, &mut Port(fabric), handlers)
}

/// A packet in the NIC's buffer: its place goes back when it has been handled.
#[inline]
fn handle_buffered<F: Fabric, H: HandlerSet>(
    fabric: &mut F,
    engine: &mut Engine,
    handlers: &mut H,
    arrival: Arrival,
) -> Result<()> {
    let bytes = PacketBytes::Buffered(fabric.arrived(&arrival));
    let packet = Packet { from: arrival.from, class: arrival.class, label: arrival.label, bytes };
    let handled = engine.handle_packet(&OwnGrants(fabric), handlers, &packet);
    fabric.release(arrival);
    engine.carry_out(handled?, &mut Port(fabric), handlers)
}
