//! Receiving a message in line: the receiver looks at the message in the ring, and consumes it without the engine's queues.

use super::Engine;
use super::packet::{self, Kind, MessageHead};
use crate::buffer::{Arrived, InlineBytes};
use crate::fabric::{Fabric, Next, Payload, Peer};
use crate::handler::HandlerId;
use crate::user_code::UserCode;

impl<U: UserCode> Engine<U> {
    /// Waits briefly for the next packet of `source`, and looks at it if it is a one-way message for `handler`. `front` receives the bytes
    /// in the packet's entry. The packet stays in the ring until the fabric consumes it or the next poll returns it. `None`: nothing
    /// arrived in time, another packet arrived, or the caller has to make progress first.
    #[inline(always)]
    pub fn look_at_next<F: Fabric>(
        &mut self,
        fabric: &mut F,
        source: Peer,
        handler: HandlerId,
        front: &mut InlineBytes,
    ) -> Option<Next> {
        // Pending work, a failure, and a purge that drops messages need progress first.
        if self.busy || self.attention {
            return None;
        }
        fabric.look_at_next(source, packet::label(Kind::Message, handler), front)
    }
}

/// The user header and data of the message in `next`. `None`: the message names a counter, its head or user header is not wholly in
/// `front`, or its data lie partly in `front` and partly in the NIC's buffer.
#[inline(always)]
pub fn parts_of<'a, F: Fabric>(
    fabric: &'a F,
    next: &Next,
    front: &'a InlineBytes,
) -> Option<(&'a [u8], Arrived<'a>)> {
    let head = MessageHead::parse(front.as_slice())?;
    if head.target_counter != 0 || head.completion_counter != 0 {
        return None;
    }
    let (uhdr, data) = front.as_slice().get(head.len()..)?.split_at_checked(usize::from(head.uhdr_len))?;
    let data = match next.arrival.payload {
        Payload::Inline => Arrived::private(data),
        Payload::Buffered { .. } if data.is_empty() => fabric.arrived(&next.arrival),
        Payload::Buffered { .. } => return None,
    };
    Some((uhdr, data))
}
