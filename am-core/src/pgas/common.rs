//! Memory of the same length in every task, which the tasks of a host map.

use super::agreement::{addresses, announcement, first_refusal, shared_name};
use crate::buffer::{Access, Exposed, MappedPart, MappedParts, RemoteAddress, SharedMemory, SharedName};
use crate::context::Context;
use crate::error::{Error, RangeFault, Result};
use crate::fabric::Fabric;
use crate::handler::HandlerSet;
use crate::task::{Endpoint, TaskId};

/// Memory of the same length in every task: a part for each task. A task has mapped the parts of all tasks of its host, and reaches the
/// others by put, get and rmw at [`address`](Self::address).
///
/// Other tasks may load and store in a part at any time, as with [`SharedMemory`]. The layer above decides which tasks access a part by
/// pointers ([`at`](Self::at)), and when. The memory stays mapped until [`close`](Self::close); what other tasks store after that is lost.
#[derive(Debug)]
pub struct Common {
    len: u64,
    exposed: Exposed,
    /// The first of the tasks.
    first: TaskId,
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    address: RemoteAddress,
    /// `None`: this task has not mapped the part.
    memory: Option<SharedMemory>,
    /// The part for typed accesses, if this task has mapped all parts.
    mapped: MappedPart<u8>,
}

impl Common {
    /// Collective: zeroed memory of `len` bytes in every task. Pages that were never touched cost nothing. If the fabric has no memory that
    /// several tasks map, no part is mapped.
    ///
    /// # Errors
    /// Every task gets an error if one does: tasks that pass different lengths (the error names the first task whose length differs), too
    /// little memory in a task, a task that cannot map another's part. The failure of a task; a call inside a handler.
    pub fn new<F: Fabric, H: HandlerSet>(context: &mut Context<F, H>, len: u64) -> Result<Self> {
        let own = Self::own_part(context, len);
        // A task without memory takes part in the exchange, too: the others would wait for it.
        let told = announcement(len, own.as_ref().ok().map(|(exposed, _)| exposed.address(0)));
        let addresses = context
            .exchange(&told)
            .and_then(|all| addresses(&all, len, context.endpoint(), context.first_task()));
        let (exposed, memory, addresses) = match (own, addresses) {
            (Ok((exposed, memory)), Ok(addresses)) => (exposed, memory, addresses),
            (Ok((exposed, memory)), Err(error)) => {
                give_up(context, exposed, memory)?;
                return Err(error);
            }
            // Different lengths explain more than a lack of memory.
            (Err(_), Err(error @ Error::Protocol { .. })) | (Err(error), _) => return Err(error),
        };
        match Self::open(context, &addresses, memory.as_ref()) {
            Ok(mut parts) => {
                parts[own_rank(context)].memory = memory;
                let mut common = Self { len, exposed, first: context.first_task(), parts };
                common.map_all(context)?;
                Ok(common)
            }
            Err(error) => {
                give_up(context, exposed, memory)?;
                Err(error)
            }
        }
    }

    /// This task's part, exposed; of memory that others can map, if the fabric has such memory.
    fn own_part<F: Fabric, H: HandlerSet>(
        context: &mut Context<F, H>,
        len: u64,
    ) -> Result<(Exposed, Option<SharedMemory>)> {
        let bytes = usize::try_from(len).unwrap_or(usize::MAX);
        match context.share(MappedParts::bytes_with_state(bytes).unwrap_or(usize::MAX))? {
            Some(memory) => {
                let exposed = context.expose_shared(&memory, 0, len, Access::READ_WRITE);
                match exposed {
                    Ok(exposed) => Ok((exposed, Some(memory))),
                    Err(error) => {
                        context.unshare(memory);
                        Err(error)
                    }
                }
            }
            None => {
                let buffer = context.alloc(bytes)?;
                Ok((context.expose(buffer, Access::READ_WRITE)?, None))
            }
        }
    }

    /// The parts of all tasks; those of the other tasks of this host are mapped.
    ///
    /// # Errors
    /// All tasks get an error if one of them cannot map a part: the others would use memory that it does not have.
    fn open<F: Fabric, H: HandlerSet>(
        context: &mut Context<F, H>,
        addresses: &[RemoteAddress],
        own: Option<&SharedMemory>,
    ) -> Result<Vec<Part>> {
        let own_name = own.map(|memory| memory.name().0.map(u64::to_le_bytes));
        let names = context.exchange(own_name.as_ref().map_or(&[], |name| name.as_flattened()))?;
        let names: Vec<Option<SharedName>> = names.iter().map(|told| shared_name(told)).collect();
        let opened = Self::open_each(context, addresses, &names);
        if names.iter().all(Option::is_none) {
            return opened;
        }
        let refused = first_refusal(context, opened.is_ok());
        let (parts, error) = match (opened, refused) {
            (Ok(parts), Ok(None)) => return Ok(parts),
            (Ok(parts), Ok(Some(task))) => {
                let peer = Endpoint::new(task, context.endpoint().context);
                let what = "it cannot map the memory of all tasks: that task reports the cause".to_owned();
                (parts, Error::Protocol { peer, what })
            }
            (Ok(parts), Err(error)) => (parts, error),
            (Err(error), _) => (Vec::new(), error),
        };
        unshare_all(context, parts);
        Err(error)
    }

    fn open_each<F: Fabric, H: HandlerSet>(
        context: &mut Context<F, H>,
        addresses: &[RemoteAddress],
        names: &[Option<SharedName>],
    ) -> Result<Vec<Part>> {
        let mut parts = Vec::with_capacity(addresses.len());
        for ((&address, &name), task) in addresses.iter().zip(names).zip(context.first_task().0..) {
            let task = TaskId(task);
            let is_here = context.host(task) == context.host(context.task());
            let name = name.filter(|_| is_here && task != context.task());
            match name.map(|name| context.open_shared(name)).transpose() {
                Ok(memory) => parts.push(Part { address, memory, mapped: MappedPart::NONE }),
                Err(error) => {
                    unshare_all(context, parts);
                    return Err(error);
                }
            }
        }
        Ok(parts)
    }

    /// Makes the parts accessible in place, if this task has mapped all of them, and the fabric lets every task access mapped memory so.
    /// (If some tasks changed a word in place, and others by their owner, changes would be lost.)
    fn map_all<F: Fabric, H: HandlerSet>(&mut self, context: &mut Context<F, H>) -> Result<()> {
        let memories: Option<Vec<&SharedMemory>> =
            self.parts.iter().map(|part| part.memory.as_ref()).collect();
        let Some(memories) = memories else { return Ok(()) };
        if context.fabric.find_mapped(self.exposed.address(0), self.len, Access::READ_WRITE)?
            && let Some(mapped) = context.mapped.begin(&memories, self.len as usize, own_rank(context))
        {
            self.parts.iter_mut().zip(mapped).for_each(|(part, mapped)| part.mapped = mapped);
        }
        Ok(())
    }

    /// This task's own part.
    #[inline(always)]
    pub(super) fn own(&self) -> &Exposed {
        &self.exposed
    }

    /// Number of tasks.
    #[inline(always)]
    pub(super) fn num_tasks(&self) -> u64 {
        self.parts.len() as u64
    }

    /// The first of the tasks; the others follow it.
    #[inline(always)]
    pub(super) fn first(&self) -> TaskId {
        self.first
    }

    /// The number of a task among the tasks of the memory.
    #[inline(always)]
    fn rank(&self, task: TaskId) -> usize {
        TaskId(task.0.wrapping_sub(self.first.0)).index()
    }

    /// The address of a task's part, and the part for accesses in place.
    #[inline(always)]
    pub(super) fn part(&self, task: TaskId) -> Option<(RemoteAddress, MappedPart<u8>)> {
        self.parts.get(self.rank(task)).map(|part| (part.address, part.mapped))
    }

    /// The name of this task's own part, by which it can map the part once more until it calls [`keep`](Self::keep).
    #[must_use]
    pub fn own_name(&self) -> Option<SharedName> {
        let own = self.parts.get(self.rank(self.exposed.address(0).task))?;
        own.memory.as_ref().map(SharedMemory::name)
    }

    /// Frees what only further mappings by name would need.
    pub fn keep<F: Fabric, H: HandlerSet>(&self, context: &mut Context<F, H>) {
        let own = self.parts.get(self.rank(context.task())).and_then(|part| part.memory.as_ref());
        if let Some(memory) = own {
            context.all_have_opened(memory);
        }
    }

    /// The length of each part in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the parts have 0 bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where this task has mapped `task`'s part; `None`: that task is on another host, or there is no such task.
    #[must_use]
    pub fn at(&self, task: TaskId) -> Option<*mut u8> {
        self.parts.get(self.rank(task))?.memory.as_ref().map(SharedMemory::as_ptr)
    }

    /// The address of `len` bytes at `offset` of `task`'s part, for am-core's calls.
    ///
    /// # Errors
    /// No such task, or bytes that do not lie in the part.
    pub fn address(&self, task: TaskId, offset: u64, len: u64) -> Result<RemoteAddress> {
        let Some(part) = self.parts.get(self.rank(task)) else {
            let endpoint = Endpoint::new(task, self.exposed.address(0).context);
            return Err(Error::UnknownTask { endpoint, num_tasks: self.parts.len() as u32 });
        };
        if offset > self.len || len > self.len - offset {
            let grant = part.address.grant;
            return Err(Error::RemoteRange {
                task,
                region: grant.region,
                generation: grant.generation,
                offset,
                len,
                why: RangeFault::Bounds { region_len: self.len },
            });
        }
        Ok(part.address.plus(offset))
    }

    /// Collective: ends the memory after a fence of all tasks. Pointers into it must not be used any more.
    ///
    /// # Errors
    /// Those of [`Context::gfence`] and [`Context::unexpose`].
    pub fn close<F: Fabric, H: HandlerSet>(self, context: &mut Context<F, H>) -> Result<()> {
        // First: after the fence, other tasks may take the memory away.
        if let Some(part) = self.parts.first() {
            context.mapped.end(part.mapped.set());
        }
        context.gfence()?;
        context.unexpose(self.exposed)?;
        unshare_all(context, self.parts);
        Ok(())
    }
}

/// Ends this task's part of memory that not all tasks have got.
fn give_up<F: Fabric, H: HandlerSet>(
    context: &mut Context<F, H>,
    exposed: Exposed,
    memory: Option<SharedMemory>,
) -> Result<()> {
    context.unexpose(exposed)?;
    if let Some(memory) = memory {
        context.unshare(memory);
    }
    Ok(())
}

/// The number of this task among those of its world.
fn own_rank<F: Fabric, H: HandlerSet>(context: &Context<F, H>) -> usize {
    TaskId(context.task().0.wrapping_sub(context.first_task().0)).index()
}

/// Ends the use of other tasks' parts.
fn unshare_all<F: Fabric, H: HandlerSet>(context: &mut Context<F, H>, parts: Vec<Part>) {
    parts.into_iter().filter_map(|part| part.memory).for_each(|memory| context.unshare(memory));
}
