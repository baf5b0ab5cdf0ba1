//! Non-blocking operations on borrowed memory, inside a scope that waits for them (like `std::thread::scope` for threads).

use std::cell::RefCell;
use std::collections::VecDeque;

use am_core_engine::protocol::{End, Issued};

use super::operation::{ByDriver, Operation};
use crate::buffer::{Borrowed, Loans, RemoteAddress, lend_in_scope};
use crate::call_guard;
use crate::context::Context;
use crate::counter::Counter;
use crate::error::Result;
use crate::fabric::{AtomicOp, Fabric, Width, World};
use crate::handler::HandlerSet;

/// Operations inside [`Context::scope`], on memory that is borrowed until the scope's end. Meanwhile the program uses the scope in place of
/// the context, which is lent to the scope.
#[derive(Debug)]
pub struct Scope<'a, 'env, F: Fabric, H: HandlerSet> {
    context: &'a mut Context<F, H>,
    loans: &'a Loans<'env>,
    ops: &'a RefCell<VecDeque<u32>>,
}

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Runs `body`, which may begin operations on memory borrowed for `'env`, and waits until all of them have ended.
    ///
    /// If `body` unwinds, operations that no peer has accepted are withdrawn, the scope waits for copies by peers, and the task is marked
    /// as failed for its peers to see.
    ///
    /// # Errors
    /// A call inside a handler; the first error of an operation (all have ended then).
    pub fn scope<'env, R>(&mut self, body: impl FnOnce(&mut Scope<'_, 'env, F, H>) -> R) -> Result<R>
    where
        H: std::fmt::Debug,
    {
        call_guard::check("scope")?;
        let ops = RefCell::new(VecDeque::new());
        let next = || ops.borrow_mut().pop_front();
        let first_error = RefCell::new(None);
        let result = lend_in_scope(
            self,
            |context, loans| body(&mut Scope { context, loans, ops: &ops }),
            |context, unwinds| {
                // If a forked copy of the task unwinds out of a scope, the operations are the task's, not the copy's.
                let unwinds = unwinds && !call_guard::is_copy();
                if unwinds {
                    for &op in &*ops.borrow() {
                        let Context { engine, fabric, handlers, .. } = &mut *context;
                        engine.give_up(op, fabric, handlers);
                    }
                }
                // One at a time: if a wait unwinds, the next call of this closure waits for the other operations.
                while let Some(op) = next() {
                    if let (Err(error), _) = context.wait_op(op) {
                        first_error.borrow_mut().get_or_insert(error);
                    }
                }
                if unwinds {
                    context.fabric.world_mut().fail("it unwound out of a scope with operations under way");
                }
            },
        );
        first_error.into_inner().map_or(Ok(result), Err)
    }
}

impl<'env, F: Fabric, H: HandlerSet> Scope<'_, 'env, F, H> {
    /// Like [`Context::run`], without waiting: `memory` stays borrowed until the scope has ended.
    ///
    /// # Errors
    /// Those of [`Context::run`].
    pub fn start<M: Borrowed + 'env, O: Operation<M::Raw>>(&mut self, operation: O, memory: M) -> Result<()> {
        call_guard::check(O::CALL)?;
        let memory = self.loans.lend(memory)?;
        if let Issued::Ongoing(op) = operation.begin(self.context, memory, End::held(), ByDriver(()))? {
            self.ops.borrow_mut().push_back(op);
        }
        Ok(())
    }

    /// Like [`Context::rmw`].
    ///
    /// # Errors
    /// Those of [`Context::rmw`].
    pub fn rmw(&mut self, at: RemoteAddress, width: Width, operation: AtomicOp) -> Result<u64> {
        self.context.rmw(at, width, operation)
    }

    /// Like [`Context::wait_counter`].
    ///
    /// # Errors
    /// Those of [`Context::wait_counter`].
    pub fn wait_counter(&mut self, counter: Counter, val: u64) -> Result<()> {
        self.context.wait_counter(counter, val)
    }

    /// Like [`Context::probe`].
    ///
    /// # Errors
    /// Those of [`Context::probe`].
    pub fn probe(&mut self) -> Result<bool> {
        self.context.probe()
    }
}
