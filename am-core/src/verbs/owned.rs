//! Operations that own their buffer while they are under way, and hand it back.

use am_core_engine::protocol::{Begun, End};

use super::{AmOptions, GetOptions, PutOptions};
use crate::buffer::{JobBuffer, RemoteAddress};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::fabric::Fabric;
use crate::handler::{HandlerId, HandlerSet};
use crate::in_handler;
use crate::task::Target;

/// An operation that keeps its buffer until [`Context::wait_owned`]. One that is dropped keeps it until the context ends.
#[must_use = "the buffer comes back by Context::wait_owned"]
#[derive(Debug, PartialEq, Eq)]
pub struct OwnedHandle(u32);

/// An operation that could not begin, and its buffer.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Returned {
    /// Why it could not.
    #[source]
    pub error: Error,
    /// The buffer, unchanged.
    pub buffer: JobBuffer,
}

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// As [`amsend`](Self::amsend), without waiting for anything: the message owns `udata` until it may be changed again.
    ///
    /// # Errors
    /// As for [`amsend`](Self::amsend); the buffer comes back with the error.
    pub fn amsend_owned(
        &mut self,
        target: impl Target,
        handler: HandlerId,
        uhdr: &[u8],
        udata: JobBuffer,
        options: AmOptions,
    ) -> Result<OwnedHandle, Returned> {
        let outgoing = options.outgoing(target.seen_from(self.engine.own().context), handler, uhdr);
        self.begin_owned("amsend_owned", udata, |context, buffer, end| {
            let source = buffer.as_bytes();
            let end = End { origin: options.origin, ..end };
            context.engine.send(&mut context.fabric, outgoing, source, end)
        })
    }

    /// As [`put`](Self::put), without waiting for anything: the operation owns `bytes` until it is done.
    ///
    /// # Errors
    /// As for [`put`](Self::put); the buffer comes back with the error.
    pub fn put_owned(
        &mut self,
        to: RemoteAddress,
        bytes: JobBuffer,
        options: PutOptions,
    ) -> Result<OwnedHandle, Returned> {
        self.begin_owned("put_owned", bytes, |context, buffer, end| {
            context.begin_put(to, buffer.as_bytes(), options, end)
        })
    }

    /// As [`get`](Self::get), without waiting for anything: the operation owns `into`, and fills it.
    ///
    /// # Errors
    /// As for [`get`](Self::get); the buffer comes back with the error.
    pub fn get_owned(
        &mut self,
        from: RemoteAddress,
        into: JobBuffer,
        options: GetOptions,
    ) -> Result<OwnedHandle, Returned> {
        self.begin_owned("get_owned", into, |context, buffer, end| {
            context.begin_get(from, buffer, options, end)
        })
    }

    /// Begins an operation as one whose result is held, then gives it the buffer to keep: the block stays where it is.
    pub(super) fn begin_owned(
        &mut self,
        call: &'static str,
        buffer: JobBuffer,
        begin: impl FnOnce(&mut Self, crate::buffer::RawBuffer, End) -> Result<Begun>,
    ) -> Result<OwnedHandle, Returned> {
        let memory = crate::buffer::memory_of(&buffer);
        match in_handler::check(call).and_then(|()| begin(self, memory, End::held())) {
            Ok(Begun::Ongoing(op)) => {
                self.engine.ops.keep(op, buffer);
                Ok(OwnedHandle(op))
            }
            Ok(Begun::Done) => match self.ended_at_once() {
                Ok(op) => {
                    self.engine.ops.keep(op, buffer);
                    Ok(OwnedHandle(op))
                }
                Err(error) => Err(Returned { error, buffer }),
            },
            Err(error) => Err(Returned { error, buffer }),
        }
    }

    /// A record of an operation that ended in its call.
    fn ended_at_once(&mut self) -> Result<u32> {
        let own = self.fabric.peer(self.engine.own())?;
        self.engine.ops.insert_ended(own, Ok(0))
    }

    /// The buffer of an operation that has ended, and how it ended; or its handle again. Makes no progress.
    ///
    /// # Errors
    /// A handle of another context.
    pub fn try_owned(
        &mut self,
        handle: OwnedHandle,
    ) -> Result<std::result::Result<(JobBuffer, Result<()>), OwnedHandle>> {
        if self.engine.ops.get(handle.0).is_none() {
            return Err(Error::UnknownHandle { handle: handle.0 });
        }
        let Some(ended) = self.engine.ops.take_ended(handle.0) else { return Ok(Err(handle)) };
        match ended.kept {
            Some(buffer) => Ok(Ok((buffer, ended.result.map(|_| ()).map_err(|error| *error)))),
            None => Err(Error::UnknownHandle { handle: handle.0 }),
        }
    }

    /// Waits for an operation with a buffer of its own: the buffer, and how the operation ended.
    ///
    /// # Errors
    /// A handle of another context, a call inside a handler.
    pub fn wait_owned(&mut self, handle: OwnedHandle) -> Result<(JobBuffer, Result<()>)> {
        in_handler::check("wait_owned")?;
        if self.engine.ops.get(handle.0).is_none() {
            return Err(Error::UnknownHandle { handle: handle.0 });
        }
        match self.wait_op(handle.0) {
            (result, Some(buffer)) => Ok((buffer, result.map(|_| ()))),
            (_, None) => Err(Error::UnknownHandle { handle: handle.0 }),
        }
    }
}
