//! Memory: allocated where peers reach it fastest, exposed to them, taken back.

use crate::buffer::{Access, Executor, Exposed, JobBuffer};
use crate::context::Context;
use crate::error::{Error, Outcome, Result};
use crate::fabric::Fabric;
use crate::handler::HandlerSet;
use crate::in_handler;

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// `len` zeroed bytes where peers reach them the fastest way there is.
    ///
    /// # Errors
    /// The job's memory is used up, or the system's limits.
    pub fn alloc(&mut self, len: usize) -> Result<JobBuffer> {
        in_handler::check("alloc")?;
        self.fabric.alloc(len)
    }

    /// Opens `buffer` to the puts, gets and rmws of peers, until [`unexpose`](Self::unexpose).
    ///
    /// # Errors
    /// Too many regions, or the system's limits.
    pub fn expose(&mut self, buffer: JobBuffer, access: Access) -> Result<Exposed> {
        self.expose_with(buffer, access, Executor::Anyone)
    }

    /// As [`expose`](Self::expose), and says who carries out the atomic operations of peers on the region.
    ///
    /// # Errors
    /// As for [`expose`](Self::expose).
    pub fn expose_with(&mut self, buffer: JobBuffer, access: Access, executor: Executor) -> Result<Exposed> {
        in_handler::check("expose")?;
        let access = Access { for_operation: false, ..access };
        let grant = self.fabric.grant(buffer.raw(), access)?;
        let grant = grant.ok_or(Error::Exhausted {
            resource: "memory that peers may have access to at once, in bytes",
            needed: buffer.len() as u64,
            available: 0,
            remedy: "unexpose memory that they need no more",
        })?;
        Ok(Exposed::new(buffer, self.endpoint(), executor, grant))
    }

    /// Closes a region: from now on its address is refused. Waits, with progress, until nobody is copying.
    ///
    /// # Errors
    /// A call inside a handler, or a region of another context; the region then stays exposed, and its memory is not used
    /// again.
    pub fn unexpose(&mut self, region: Exposed) -> Result<JobBuffer> {
        in_handler::check("unexpose")?;
        let mut polls = 0;
        loop {
            if self.fabric.revoke(region.grant())? == Outcome::Done
                && !self.engine.is_receiving_into(region.grant())
            {
                return Ok(region.into_buffer());
            }
            self.progress_quietly(&mut polls);
        }
    }

    /// Opens private memory of the program to peers (`VipRegisterMem`): they reach it by the kernel's copy or by packets,
    /// where memory of [`alloc`](Self::alloc) is reached by plain copies.
    ///
    /// # Errors
    /// As for [`expose`](Self::expose).
    pub fn register(&mut self, memory: Vec<u8>, access: Access) -> Result<Exposed> {
        self.expose(JobBuffer::from(memory), access)
    }

    /// Closes registered memory, and gives it back.
    ///
    /// # Errors
    /// As for [`unexpose`](Self::unexpose).
    pub fn deregister(&mut self, region: Exposed) -> Result<JobBuffer> {
        self.unexpose(region)
    }
}
