//! Buffered mode: the message is copied into the attached buffer and sent from there (MPI-LAPI paper, figure 8).

use am_core::buffer::RawBuffer;
use am_core::fabric::Fabric;

use crate::data::buffer::{RecvData, SendData, keep_vec};
use crate::error::{Error, Result};
use crate::message::attached_buffers::{BufferOwner, SendBuffer, needed_bytes};
use crate::message::protocol::start_send;
use crate::message::route::{Mode, Route};
use crate::message::state::State;
use crate::message::turn::Turn;
use crate::policy::LockPolicy;

/// Copies a message into the attached buffer, and sends it from there. Completes independently of the receiver.
///
/// # Errors
/// [`Error::NoBuffer`], [`Error::BufferExhausted`]; an error of am-core; an error while making progress.
pub(crate) fn send_buffered<F: Fabric>(state: &mut State<F>, route: &Route, bytes: &[u8]) -> Result<()> {
    send_filled(state, route, bytes.len(), |buffer| {
        buffer.fill_from(bytes);
    })
}

/// Like [`send_buffered`], for elements of a datatype.
///
/// # Errors
/// Those of [`send_buffered`].
pub(crate) fn send_buffered_data<F: Fabric>(
    state: &mut State<F>,
    route: &Route,
    data: &SendData,
) -> Result<()> {
    let len = usize::try_from(data.packed_len()).map_err(|_| Error::TooLarge { call: "a buffered send" })?;
    send_filled(state, route, len, |buffer| {
        data.copy_to(&RecvData::from_buffer(buffer));
    })
}

fn send_filled<F: Fabric>(
    state: &mut State<F>,
    route: &Route,
    len: usize,
    fill: impl FnOnce(RawBuffer),
) -> Result<()> {
    let needed = needed_bytes(len);
    let Some(owner) = state.handlers().attached.owner_for(route.envelope.context_id().0) else {
        return Err(Error::NoBuffer { len: len as u64, needed: needed as u64 });
    };
    state.handlers().free_what_has_gone(owner);
    if state.handlers().attached.is_automatic(owner) {
        let (message, buffer) = keep_vec(state, vec![0; len]);
        fill(buffer);
        let request = start_send(state, Mode::Buffered, route, buffer.as_bytes())?;
        state.handlers().requests.keep(request, message);
        state.handlers().attached.sent(owner, (0, 0), request);
        return Ok(());
    }
    let mut piece = state.handlers().attached.free_piece(owner, len);
    if piece.is_none() {
        // Earlier messages may be complete without having been noticed; their pieces of the buffer are then free.
        state.take_in()?;
        state.handlers().free_what_has_gone(owner);
        piece = state.handlers().attached.free_piece(owner, len);
    }
    let Some((start, buffer)) = piece else { return Err(state.handlers().attached.exhausted(owner, len)) };
    fill(buffer);
    let request = start_send(state, Mode::Buffered, route, buffer.as_bytes())?;
    state.handlers().attached.sent(owner, (start, needed), request);
    Ok(())
}

/// Waits until all messages of a buffer have been sent.
///
/// # Errors
/// An error while making progress, and the first error of the messages.
pub(crate) fn flush<F: Fabric, L: LockPolicy>(state: &mut Turn<'_, F, L>, owner: BufferOwner) -> Result<()> {
    let mut result = Ok(());
    while let Some(request) = state.handlers().attached.oldest(owner) {
        state.wait_over(request)?;
        let handlers = state.handlers();
        // Another thread may have freed the message during the wait.
        if handlers.attached.oldest(owner) == Some(request) {
            result = result.and(handlers.requests.take(request).map(|_| ()));
            handlers.attached.free_oldest(owner);
        }
    }
    result
}

/// Waits until all messages of a buffer have been sent, and returns its memory; `None` if there is no buffer.
///
/// # Errors
/// Those of [`flush`]; the buffer then stays attached.
pub(crate) fn detach<F: Fabric, L: LockPolicy>(
    state: &mut Turn<'_, F, L>,
    owner: BufferOwner,
) -> Result<Option<SendBuffer>> {
    flush(state, owner)?;
    Ok(state.handlers().attached.detach(owner))
}
