//! Memory: allocation, exposure to peers, and the end of the exposure.

use crate::buffer::{
    self, Access, Closing, Executor, Exposed, JobBuffer, MappedRange, RemoteAddress, SharedMemory, SharedName,
};
use crate::call_guard;
use crate::context::Context;
use crate::error::Result;
use crate::fabric::Fabric;
use crate::handler::HandlerSet;
use crate::wait::Errors;

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Allocates `len` zeroed bytes of the kind that peers access fastest.
    ///
    /// # Errors
    /// `Exhausted`: the job's memory is used up. `System`. A call inside a handler.
    pub fn alloc(&mut self, len: usize) -> Result<JobBuffer> {
        call_guard::check("alloc")?;
        self.fabric.alloc(len)
    }

    /// Exposes `buffer` to the puts, gets and rmws of peers, until [`unexpose`](Self::unexpose) (`VipRegisterMem`). Peers access memory of
    /// [`alloc`](Self::alloc) by plain copies, and a `Vec` of the program by the kernel's copy or by packets.
    ///
    /// # Errors
    /// `TooManyRegions`; `Exhausted`: more registered memory than the limit. `System`. A call inside a handler.
    pub fn expose(&mut self, buffer: JobBuffer, access: Access) -> Result<Exposed> {
        self.expose_with(buffer, access, Executor::Anyone)
    }

    /// Like [`expose`](Self::expose), with a choice of the task that carries out atomic operations of peers on the region.
    ///
    /// # Errors
    /// Those of [`expose`](Self::expose).
    pub fn expose_with(&mut self, buffer: JobBuffer, access: Access, executor: Executor) -> Result<Exposed> {
        call_guard::check("expose")?;
        let owner = self.owner();
        buffer::expose(&mut self.fabric, buffer, owner, access, executor)
    }

    /// Makes zeroed memory of `len` bytes that other tasks can also map, by its name ([`open_shared`](Self::open_shared)). `None` if
    /// the fabric has no such memory.
    ///
    /// # Errors
    /// `System`.
    pub fn share(&mut self, len: usize) -> Result<Option<SharedMemory>> {
        call_guard::check("share")?;
        self.fabric.share(len)
    }

    /// Maps the memory that another task has made by [`share`](Self::share). Must be called before that task calls
    /// [`all_have_opened`](Self::all_have_opened).
    ///
    /// # Errors
    /// `System`: there is no such memory, or it cannot be mapped. A call inside a handler.
    pub fn open_shared(&mut self, name: SharedName) -> Result<SharedMemory> {
        call_guard::check("open_shared")?;
        self.fabric.open_shared(name)
    }

    /// Promises that no further task will open the memory that this task has made by [`share`](Self::share).
    pub fn all_have_opened(&mut self, memory: &SharedMemory) {
        self.fabric.all_have_opened(memory.name());
    }

    /// Ends the use of shared memory in this task. The memory is unmapped when no part of it is exposed any more.
    pub fn unshare(&mut self, memory: SharedMemory) {
        self.fabric.unshare(memory);
    }

    /// Exposes a part of shared memory to the puts, gets and rmws of peers, like [`expose`](Self::expose). Tasks that have mapped the
    /// memory carry them out themselves. [`unexpose`](Self::unexpose) returns an empty buffer, since the memory is never this task's alone.
    ///
    /// # Errors
    /// A part that does not lie inside the memory; those of [`expose`](Self::expose).
    pub fn expose_shared(
        &mut self,
        memory: &SharedMemory,
        offset: u64,
        len: u64,
        access: Access,
    ) -> Result<Exposed> {
        call_guard::check("expose_shared")?;
        let owner = self.owner();
        buffer::expose_shared(&mut self.fabric, memory, (offset, len), owner, access)
    }

    /// Calls `call` with exposed memory of a task, which this task has mapped: one check for any number of copies and atomic operations.
    /// Returns `None` without running `call` if the memory is not mapped here. A region is mapped either in all tasks or in none. Makes no
    /// progress.
    ///
    /// # Errors
    /// A range that is not exposed for reading and writing, a dead target, a call inside a handler.
    pub fn with_mapped<R>(
        &mut self,
        at: RemoteAddress,
        len: u64,
        call: impl FnOnce(MappedRange<'_>) -> R,
    ) -> Result<Option<R>> {
        call_guard::check("with_mapped")?;
        self.engine.check_target(&mut self.fabric, at, len)?;
        let is_mapped = self.fabric.find_mapped(at, len, Access::READ_WRITE)?;
        Ok(if is_mapped { self.fabric.lend_mapped(at, len, call) } else { None })
    }

    /// The fast path of [`with_mapped`](Self::with_mapped). Runs `call` only for a region that an earlier call of `with_mapped` found,
    /// and only in a process that has no recorder, is not a forked copy, and has run no handler of the program. If this returns `None`,
    /// `call` has not run: call `with_mapped` then.
    #[inline(always)]
    pub fn try_with_mapped<R>(
        &mut self,
        at: RemoteAddress,
        len: u64,
        call: impl FnOnce(MappedRange<'_>) -> R,
    ) -> Option<R> {
        let is_allowed = call_guard::is_unmarked_process()
            && self.engine.allows_all_targets()
            && !at.grant.is_for_operation();
        if is_allowed { self.fabric.lend_mapped(at, len, call) } else { None }
    }

    /// Ends the exposure of a region, and returns its buffer when no task is copying from or to it. The region's addresses are rejected
    /// from now on.
    ///
    /// # Errors
    /// A call inside a handler, or [`Error::ForeignRegion`](crate::Error::ForeignRegion): a region that was exposed by another context,
    /// even one that had this context's number before. The region then stays exposed, and its memory is not used again.
    pub fn unexpose(&mut self, region: Exposed) -> Result<JobBuffer> {
        call_guard::check("unexpose")?;
        let owner = self.owner();
        let mut closing = Some(Closing::new(region));
        self.wait_for(Errors::KeepForCopy, |context| {
            let Some(open) = closing.take() else { return Ok(None) };
            match buffer::close(&mut context.fabric, &context.engine, open, owner)? {
                Ok(buffer) => Ok(Some(buffer)),
                Err(in_use) => {
                    closing = Some(in_use);
                    Ok(None)
                }
            }
        })
    }
}
