//! `LAPI_Putv`, `LAPI_Getv`, `LAPI_Amsendv`: data that are not in one piece, at either side.

use std::cell::Cell;

use am_core_engine::protocol::{Begun, End, Gather};

use super::{AmOptions, GetOptions, PutOptions};
use crate::buffer::{JobBuffer, RawBuffer, RawBytes, RawPieces, RemoteAddress, lend_pieces, lend_pieces_mut};
use crate::context::Context;
use crate::counter::{Counter, CounterName};
use crate::error::Result;
use crate::fabric::Fabric;
use crate::handler::{HandlerId, HandlerSet};
use crate::in_handler;
use crate::task::Target;
use crate::vector::{Layout, Pieces, PiecesMut};

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Writes `from` to where `layout` says, its offsets counted from `to` on (`LAPI_Putv`). Both sides are described here, each in
    /// its own way; only their lengths must agree. Returns when the bytes are in place; the target's counter is bumped once,
    /// after all of them.
    ///
    /// # Errors
    /// Sides of different length, a layout beyond its slice, or as for [`put`](Self::put). Some of the bytes may be in place then.
    pub fn putv(
        &mut self,
        to: RemoteAddress,
        layout: &Layout,
        from: Pieces<'_>,
        options: PutOptions,
    ) -> Result<()> {
        in_handler::check("putv")?;
        let op = Cell::new(None);
        let start = |context: &mut Self, from: RawPieces<RawBytes>| {
            note(&op, context.begin_putv((to, layout), from, options, End::held())?);
            Ok(())
        };
        lend_pieces(self, from, start, |context| context.wait_begun(&op))?;
        let owner = self.fabric.peer(to.owner())?;
        self.wait_sent(owner)
    }

    /// Reads where `layout` says, its offsets counted from `from` on, into `to` (`LAPI_Getv`). Returns when the bytes are here.
    ///
    /// # Errors
    /// As for [`putv`](Self::putv) and [`get`](Self::get). What `to` holds then is undefined.
    pub fn getv(
        &mut self,
        from: RemoteAddress,
        layout: &Layout,
        mut to: PiecesMut<'_>,
        options: GetOptions,
    ) -> Result<()> {
        in_handler::check("getv")?;
        let op = Cell::new(None);
        let start = |context: &mut Self, to: RawPieces<RawBuffer>| {
            note(&op, context.begin_getv((from, layout), &to, options, End::held())?);
            Ok(())
        };
        lend_pieces_mut(self, &mut to, start, |context| context.wait_begun(&op))?;
        self.progress_in_passing();
        let owner = self.fabric.peer(from.owner())?;
        self.wait_sent(owner)
    }

    /// As [`amsend`](Self::amsend), with user data that are not in one piece (`LAPI_Amsendv`). The header handler may scatter them
    /// ([`Scatter`](crate::handler::Scatter)), or not.
    ///
    /// # Errors
    /// A layout beyond its slice, or as for [`amsend`](Self::amsend).
    pub fn amsendv(
        &mut self,
        target: impl Target,
        handler: HandlerId,
        uhdr: &[u8],
        udata: Pieces<'_>,
        options: AmOptions,
    ) -> Result<()> {
        in_handler::check("amsendv")?;
        let outgoing = options.outgoing(target.seen_from(self.endpoint().context), handler, uhdr);
        let op = Cell::new(None);
        let start = |context: &mut Self, udata: RawPieces<RawBytes>| {
            let end = End { origin: options.origin, ..End::held() };
            let Self { engine, fabric, .. } = context;
            note(&op, engine.send(fabric, outgoing, Gather(udata), end)?);
            Ok(())
        };
        lend_pieces(self, udata, start, |context| context.wait_begun(&op))
    }

    /// As [`putv`](Self::putv) from parts of `bytes`, without waiting for anything: the operation owns the buffer until it is done.
    ///
    /// # Errors
    /// As for [`putv`](Self::putv); the buffer comes back with the error.
    pub fn putv_owned(
        &mut self,
        to: RemoteAddress,
        layout: &Layout,
        bytes: JobBuffer,
        here: &Layout,
        options: PutOptions,
    ) -> Result<super::OwnedHandle, super::Returned> {
        self.begin_owned("putv_owned", bytes, |context, buffer, end| {
            here.check_inside(buffer.len() as u64)?;
            let from = RawPieces::Layout(buffer.as_bytes(), here.clone());
            context.begin_putv((to, layout), from, options, end)
        })
    }

    /// As [`getv`](Self::getv) into parts of `into`, without waiting for anything: the operation owns the buffer until it is done.
    ///
    /// # Errors
    /// As for [`getv`](Self::getv); the buffer comes back with the error.
    pub fn getv_owned(
        &mut self,
        from: RemoteAddress,
        layout: &Layout,
        into: JobBuffer,
        here: &Layout,
        options: GetOptions,
    ) -> Result<super::OwnedHandle, super::Returned> {
        self.begin_owned("getv_owned", into, |context, buffer, end| {
            here.check_inside(buffer.len() as u64)?;
            let to = RawPieces::Layout(buffer, here.clone());
            context.begin_getv((from, layout), &to, options, end)
        })
    }

    pub(super) fn begin_putv(
        &mut self,
        to: (RemoteAddress, &Layout),
        from: RawPieces<RawBytes>,
        options: PutOptions,
        end: End,
    ) -> Result<Begun> {
        let end = End { origin: options.origin, completion: options.completion, ..end };
        let notify = CounterName::to_wire(options.target);
        self.engine.write_pieces(&mut self.fabric, to, from, notify, end)
    }

    pub(super) fn begin_getv(
        &mut self,
        from: (RemoteAddress, &Layout),
        to: &RawPieces<RawBuffer>,
        options: GetOptions,
        end: End,
    ) -> Result<Begun> {
        let end = End { origin: options.origin, ..end };
        let notify = CounterName::to_wire(options.target);
        self.engine.read_pieces(&mut self.fabric, from, to, notify, end)
    }

    /// Waits for what has begun, if it goes on.
    pub(super) fn wait_begun(&mut self, op: &Cell<Option<u32>>) -> Result<()> {
        op.take().map_or(Ok(()), |op| self.wait_op(op).0.map(|_| ()))
    }

    /// Adds 1 to a counter of this context, if one is given.
    pub(super) fn bump_if(&mut self, counter: Option<Counter>) {
        self.engine.bump_own(counter);
    }
}

/// Notes what has begun, if it goes on.
pub(super) fn note(op: &Cell<Option<u32>>, begun: Begun) {
    if let Begun::Ongoing(key) = begun {
        op.set(Some(key));
    }
}
