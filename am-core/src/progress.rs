//! Where engine and fabric meet: one event at a time, every call direct and inlined.

use crate::buffer::{Access, ForEngine, Grant, InlineBytes, RawBuffer, RawBytes, RemoteAddress};
use crate::engine::packet::Kind;
use crate::engine::{Engine, Grants, Lower, Packet, PacketBytes, stale};
use crate::error::{Outcome, Result};
use crate::fabric::{Arrival, Atomic, AtomicOp, Body, Class, Event, Fabric, OpId, Payload, Transfer, Width};
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

    fn grant(&mut self, memory: RawBuffer, access: Access) -> Result<Option<Grant>> {
        self.0.grant(memory, access)
    }

    fn revoke(&mut self, grant: Grant) -> Result<Outcome> {
        self.0.revoke(grant)
    }

    fn revoke_in_use(&mut self, grant: Grant) -> Result<Outcome> {
        self.0.revoke_in_use(grant)
    }

    #[inline]
    fn write(&mut self, to: RemoteAddress, from: RawBytes, op: OpId) -> Result<Transfer> {
        self.0.write(to, from, op)
    }

    #[inline]
    fn read(&mut self, from: RemoteAddress, to: RawBuffer, op: OpId) -> Result<Transfer> {
        self.0.read(from, to, op)
    }

    #[inline]
    fn atomic(&mut self, at: RemoteAddress, width: Width, operation: AtomicOp, op: OpId) -> Result<Atomic> {
        self.0.atomic(at, width, operation, op)
    }
}

impl<F: Fabric> Grants for Port<'_, F> {
    #[inline(always)]
    fn granted(&self, grant: Grant, offset: u64, len: u64, access: Access) -> Result<RawBuffer> {
        granted(self.0, grant, (offset, len), access)
    }
}

/// The memory of an own grant. Data that arrive go to what the program has exposed, never to what it has lent to an operation: a
/// header handler may have made the grant up.
///
/// # Errors
/// The grant does not give `access`, or is one of an operation where the owner asks for a place.
#[inline(always)]
fn granted<F: Fabric>(
    fabric: &F,
    grant: Grant,
    (offset, len): (u64, u64),
    access: Access,
) -> Result<RawBuffer> {
    if access == Access::OWNER && grant.is_for_operation() {
        return Err(stale(fabric.endpoint().task, grant, offset, len));
    }
    fabric.granted(grant, offset, len, access, ForEngine(()))
}

struct OwnGrants<'a, F>(&'a F);

impl<F: Fabric> Grants for OwnGrants<'_, F> {
    #[inline(always)]
    fn granted(&self, grant: Grant, offset: u64, len: u64, access: Access) -> Result<RawBuffer> {
        granted(self.0, grant, (offset, len), access)
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
    handle(fabric, engine, handlers, inline, event)
}

/// As [`step`], and drops what belongs to operations that a purge has ended.
///
/// # Errors
/// As for [`step`].
#[cold]
#[inline(never)]
pub(crate) fn step_filtered<F: Fabric, H: HandlerSet>(
    fabric: &mut F,
    engine: &mut Engine,
    handlers: &mut H,
    inline: &mut InlineBytes,
) -> Result<bool> {
    match fabric.poll(inline) {
        None => Ok(false),
        Some(Event::Arrival(arrival)) if engine.is_stale(arrival.from, arrival.label) => {
            let (from, class) = (arrival.from, arrival.class);
            fabric.release(arrival);
            if class == Class::Request {
                fabric.waive(from);
            }
            Ok(true)
        }
        Some(event) => handle(fabric, engine, handlers, inline, event),
    }
}

#[inline(always)]
fn handle<F: Fabric, H: HandlerSet>(
    fabric: &mut F,
    engine: &mut Engine,
    handlers: &mut H,
    inline: &mut InlineBytes,
    event: Event,
) -> Result<bool> {
    match event {
        Event::Arrival(arrival) => match arrival.payload {
            Payload::Inline => handle_inline(fabric, engine, handlers, arrival, inline)?,
            Payload::Buffered { .. } => handle_buffered(fabric, engine, handlers, arrival)?,
        },
        Event::Completed { op, result } => {
            let result = result.map_err(|error| *error);
            engine.handle_completed(op, result, &mut Port(fabric), handlers)?;
        }
        Event::TaskFailed(task) => {
            let how = fabric.failure(task).unwrap_or_default();
            engine.handle_failure(task, how, &mut Port(fabric), handlers)?;
        }
        // That there was an event makes the waiting caller look again.
        Event::Rung => {}
        Event::ContextClosed(endpoint) => engine.handle_closed(endpoint, &mut Port(fabric), handlers)?,
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
    if Kind::of(label) == Kind::Put {
        return engine.handle_inline_put(&OwnGrants(fabric), from, inline);
    }
    let packet = Packet { from, class, label, bytes: PacketBytes::Inline(inline) };
    let due = engine.handle_packet(&OwnGrants(fabric), handlers, &packet)?;
    engine.carry_out(due, &mut Port(fabric), handlers)
}

/// A packet in the NIC's buffer: its place goes back when it has been handled.
#[inline(always)]
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
