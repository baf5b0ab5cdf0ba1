//! Handles one event of the fabric at a time. All functions are generic over fabric and handlers, so that their calls are direct.

use crate::buffer::{Arrived, InlineBytes};
use crate::error::Result;
use crate::fabric::{Arrival, Class, Event, Fabric, Payload, World};
use crate::handler::HandlerSet;
use crate::protocol::{Engine, Front, Packet};
use crate::user_code::UserCode;

/// Handles the next event; returns whether there was one.
///
/// # Errors
/// The error of the event.
#[inline(always)]
pub fn step<U: UserCode, F: Fabric, H: HandlerSet>(
    fabric: &mut F,
    engine: &mut Engine<U>,
    handlers: &mut H,
    (inline, front): (&mut InlineBytes, &mut Front),
) -> Result<bool> {
    let Some(event) = fabric.poll(inline) else { return Ok(false) };
    handle(fabric, engine, handlers, (inline, front), event)
}

/// Like [`step`], but drops packets of operations that a purge has ended.
///
/// # Errors
/// Those of [`step`].
#[cold]
#[inline(never)]
pub fn step_filtered<U: UserCode, F: Fabric, H: HandlerSet>(
    fabric: &mut F,
    engine: &mut Engine<U>,
    handlers: &mut H,
    (inline, front): (&mut InlineBytes, &mut Front),
) -> Result<bool> {
    match fabric.poll(inline) {
        None => Ok(false),
        Some(Event::Arrival(arrival)) if engine.is_stale(arrival.from, arrival.label) => {
            let (from, class) = (arrival.from, arrival.class);
            if matches!(arrival.payload, Payload::Buffered { .. }) {
                fabric.release(arrival);
            }
            if class == Class::Request {
                fabric.waive(from.index);
            }
            Ok(true)
        }
        Some(event) => handle(fabric, engine, handlers, (inline, front), event),
    }
}

#[inline(always)]
fn handle<U: UserCode, F: Fabric, H: HandlerSet>(
    fabric: &mut F,
    engine: &mut Engine<U>,
    handlers: &mut H,
    (inline, front): (&mut InlineBytes, &mut Front),
    event: Event,
) -> Result<bool> {
    // One comparison for the frequent event: a match over all events would become a jump table.
    let Event::Arrival(arrival) = event else { return handle_rare(fabric, engine, handlers, event) };
    match arrival.payload {
        Payload::Inline => handle_inline(fabric, engine, handlers, arrival, inline)?,
        Payload::Buffered { .. } => handle_buffered(fabric, engine, handlers, arrival, (inline, front))?,
    }
    Ok(true)
}

#[cold]
#[inline(never)]
fn handle_rare<U: UserCode, F: Fabric, H: HandlerSet>(
    fabric: &mut F,
    engine: &mut Engine<U>,
    handlers: &mut H,
    event: Event,
) -> Result<bool> {
    match event {
        // A ring needs no work here: the caller looks again after each event.
        Event::Arrival(_) | Event::Rung => {}
        Event::Completed { op, result } => {
            let result = result.map_err(|error| *error);
            engine.handle_completed(op, result, fabric, handlers)?;
        }
        Event::TaskFailed(task) => {
            let how = fabric.world().failure(task).unwrap_or_default();
            engine.handle_failure(task, how, fabric, handlers)?;
        }
        Event::ContextClosed(endpoint) => engine.handle_closed(endpoint, fabric, handlers)?,
    }
    Ok(true)
}

/// Handles a packet that lies in its entry. The poll has released its slot, and its bytes are in private memory.
#[inline(always)]
fn handle_inline<U: UserCode, F: Fabric, H: HandlerSet>(
    fabric: &mut F,
    engine: &mut Engine<U>,
    handlers: &mut H,
    Arrival { from, class, label, .. }: Arrival,
    inline: &InlineBytes,
) -> Result<()> {
    let front = inline.as_slice();
    let packet = Packet { from, class, label, front, rest: Arrived::private(&[]) };
    let due = engine.receive(&*fabric, handlers, packet);
    engine.carry_out(due, fabric, handlers)
}

/// Handles a packet in the NIC's buffer, and releases it. The packet's head came in the entry, unless the head is too long for that.
#[inline(always)]
fn handle_buffered<U: UserCode, F: Fabric, H: HandlerSet>(
    fabric: &mut F,
    engine: &mut Engine<U>,
    handlers: &mut H,
    arrival: Arrival,
    (inline, long): (&InlineBytes, &mut Front),
) -> Result<()> {
    let (from, class, label) = (arrival.from, arrival.class, arrival.label);
    let (mut front, mut rest) = (inline.as_slice(), fabric.arrived(&arrival));
    if front.is_empty() {
        front = long.copy(label, &rest);
        rest = rest.skip(front.len());
    }
    let packet = Packet { from, class, label, front, rest };
    let due = engine.receive(&*fabric, handlers, packet);
    fabric.release(arrival);
    engine.carry_out(due, fabric, handlers)
}
