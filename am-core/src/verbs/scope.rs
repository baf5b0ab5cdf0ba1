//! Non-blocking operations on borrowed memory, inside a scope that waits for them (as `std::thread::scope` does for threads).

use std::cell::RefCell;
use std::collections::VecDeque;

use am_core_engine::protocol::{Begun, End, Gather};

use super::{AmOptions, GetOptions, PutOptions};
use crate::buffer::{Loans, RemoteAddress, lend_in_scope};
use crate::context::Context;
use crate::counter::Counter;
use crate::error::Result;
use crate::fabric::{AtomicOp, Fabric, Width};
use crate::handler::{HandlerId, HandlerSet};
use crate::in_handler;
use crate::task::Target;
use crate::vector::{Layout, Pieces, PiecesMut};

/// Inside [`Context::scope`]: operations on memory that is borrowed until the scope's end. It stands for the context
/// meanwhile; the context itself is out of reach, since the scope must wait on the one that it began with.
#[derive(Debug)]
pub struct Scope<'a, 'env, F: Fabric, H: HandlerSet> {
    context: &'a mut Context<F, H>,
    loans: &'a Loans<'env>,
    ops: &'a RefCell<VecDeque<u32>>,
}

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Runs `body`, which may begin operations on memory borrowed for `'env`, and waits until all of them have ended.
    ///
    /// If `body` unwinds, what nobody has accepted is withdrawn, what peers are copying is waited for, and the task is marked
    /// as failed so that its peers see it.
    ///
    /// # Errors
    /// A call inside a handler; the first error of an operation (all have ended then).
    pub fn scope<'env, R>(&mut self, body: impl FnOnce(&mut Scope<'_, 'env, F, H>) -> R) -> Result<R>
    where
        H: std::fmt::Debug,
    {
        in_handler::check("scope")?;
        let ops = RefCell::new(VecDeque::new());
        let next = || ops.borrow_mut().pop_front();
        let first_error = RefCell::new(None);
        let result = lend_in_scope(
            self,
            |context, loans| body(&mut Scope { context, loans, ops: &ops }),
            |context, unwinds| {
                // A copy of the task leaves a scope that the task began: nothing of it is the copy's.
                let unwinds = unwinds && !in_handler::is_copy();
                if unwinds {
                    for &op in &*ops.borrow() {
                        let Context { engine, fabric, handlers, .. } = &mut *context;
                        engine.give_up(op, fabric, handlers);
                    }
                }
                // One by one: where a wait unwinds, the others are waited for by the next call.
                while let Some(op) = next() {
                    if let (Err(error), _) = context.wait_op(op) {
                        first_error.borrow_mut().get_or_insert(error);
                    }
                }
                if unwinds {
                    context.fabric.fail("it unwound out of a scope with operations under way");
                }
            },
        );
        first_error.into_inner().map_or(Ok(result), Err)
    }
}

impl<'env, F: Fabric, H: HandlerSet> Scope<'_, 'env, F, H> {
    /// As [`Context::amsend`], without waiting.
    ///
    /// # Errors
    /// As for [`Context::amsend`].
    pub fn amsend(
        &mut self,
        target: impl Target,
        handler: HandlerId,
        uhdr: &[u8],
        udata: &'env [u8],
        options: AmOptions,
    ) -> Result<()> {
        in_handler::check("amsend")?;
        let outgoing = options.outgoing(target.seen_from(self.context.engine.own().context), handler, uhdr);
        let source = self.loans.lend(udata);
        let end = End { origin: options.origin, ..End::held() };
        let Context { engine, fabric, .. } = &mut *self.context;
        let begun = engine.send(fabric, outgoing, source, end)?;
        self.note(begun);
        Ok(())
    }

    /// As [`Context::put`], without waiting.
    ///
    /// # Errors
    /// As for [`Context::put`].
    pub fn put(&mut self, to: RemoteAddress, bytes: &'env [u8], options: PutOptions) -> Result<()> {
        in_handler::check("put")?;
        let bytes = self.loans.lend(bytes);
        let begun = self.context.begin_put(to, bytes, options, End::held())?;
        self.note(begun);
        Ok(())
    }

    /// As [`Context::get`], without waiting: `to` is filled when the scope has ended, or the origin counter says so.
    ///
    /// # Errors
    /// As for [`Context::get`].
    pub fn get(&mut self, from: RemoteAddress, to: &'env mut [u8], options: GetOptions) -> Result<()> {
        in_handler::check("get")?;
        let to = self.loans.lend_mut(to);
        let begun = self.context.begin_get(from, to, options, End::held())?;
        self.note(begun);
        Ok(())
    }

    /// As [`Context::putv`], without waiting.
    ///
    /// # Errors
    /// As for [`Context::putv`].
    pub fn putv(
        &mut self,
        to: RemoteAddress,
        layout: &Layout,
        from: Pieces<'env>,
        options: PutOptions,
    ) -> Result<()> {
        in_handler::check("putv")?;
        let from = self.loans.lend_pieces(from)?;
        let begun = self.context.begin_putv((to, layout), from, options, End::held())?;
        self.note(begun);
        Ok(())
    }

    /// As [`Context::getv`], without waiting.
    ///
    /// # Errors
    /// As for [`Context::getv`].
    pub fn getv(
        &mut self,
        from: RemoteAddress,
        layout: &Layout,
        to: PiecesMut<'env>,
        options: GetOptions,
    ) -> Result<()> {
        in_handler::check("getv")?;
        let to = self.loans.lend_pieces_mut(to)?;
        let begun = self.context.begin_getv((from, layout), &to, options, End::held())?;
        self.note(begun);
        Ok(())
    }

    /// As [`Context::amsendv`], without waiting.
    ///
    /// # Errors
    /// As for [`Context::amsendv`].
    pub fn amsendv(
        &mut self,
        target: impl Target,
        handler: HandlerId,
        uhdr: &[u8],
        udata: Pieces<'env>,
        options: AmOptions,
    ) -> Result<()> {
        in_handler::check("amsendv")?;
        let outgoing = options.outgoing(target.seen_from(self.context.engine.own().context), handler, uhdr);
        let source = Gather(self.loans.lend_pieces(udata)?);
        let end = End { origin: options.origin, ..End::held() };
        let Context { engine, fabric, .. } = &mut *self.context;
        let begun = engine.send(fabric, outgoing, source, end)?;
        self.note(begun);
        Ok(())
    }

    /// As [`Context::rmw`].
    ///
    /// # Errors
    /// As for [`Context::rmw`].
    pub fn rmw(&mut self, at: RemoteAddress, width: Width, operation: AtomicOp) -> Result<u64> {
        self.context.rmw(at, width, operation)
    }

    /// As [`Context::wait_counter`].
    ///
    /// # Errors
    /// As for [`Context::wait_counter`].
    pub fn wait_counter(&mut self, counter: Counter, val: u64) -> Result<()> {
        self.context.wait_counter(counter, val)
    }

    /// As [`Context::probe`].
    ///
    /// # Errors
    /// As for [`Context::probe`].
    pub fn probe(&mut self) -> Result<bool> {
        self.context.probe()
    }

    fn note(&self, begun: Begun) {
        if let Begun::Ongoing(op) = begun {
            self.ops.borrow_mut().push_back(op);
        }
    }
}
