//! The calls of am-core over shared memory, compiled with this crate.
//!
//! In unoptimised builds, a crate uses a generic function that one of its dependencies has already compiled for the same types. Without
//! this module each test and each example would compile the engine again, which takes longer than compiling the test or example itself.

use am_core::Result;
use am_core::prelude::*;
use am_core::task::Target;

use crate::{ShmFabric, Task};

/// Calls what most programs call. It is never called itself.
///
/// # Errors
/// Those of the calls.
pub fn calls(task: &Task) -> Result<()> {
    let mut context = task.context()?;
    let counter = context.counter()?;
    let handler = context.register_handler(move |_| Answer::consumed(Completion::Bump(counter)))?;
    let memory = context.alloc(8)?;
    let memory = context.expose(memory, Access::READ_WRITE)?;
    let address = context.address_init(memory.address(0))?[0];
    context.put(address, &[], PutOptions::default())?;
    context.get(address, &mut [], GetOptions::default())?;
    context.rmw(address, Width::Bits64, AtomicOp::FetchAdd(1))?;
    messages(&mut context, TaskId(0), handler)?;
    let own = context.endpoint();
    messages(&mut context, own, handler)?;
    context.probe()?;
    context.wait_counter(counter, 1)?;
    context.fence_data(None)?;
    context.fence_ops(None)?;
    context.exchange(&[])?;
    context.gfence()?;
    context.unexpose(memory)?;
    context.remove_counter(counter);
    Ok(())
}

fn messages<T: Target>(context: &mut Context<ShmFabric>, target: T, handler: HandlerId) -> Result<()> {
    context.amsend(target, handler, &[], &[], AmOptions::default())?;
    let _ = context.try_amsend(target, handler, &[], &[], AmOptions::default())?;
    Ok(())
}
