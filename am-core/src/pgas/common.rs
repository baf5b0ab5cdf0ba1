//! Memory of the same length in every task, which the tasks of a host map.

use crate::buffer::{Access, Exposed, RemoteAddress, SharedMemory, SharedName};
use crate::context::Context;
use crate::error::{Error, RangeFault, Result};
use crate::fabric::{Fabric, World};
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
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    address: RemoteAddress,
    /// `None`: the task is on another host.
    memory: Option<SharedMemory>,
}

impl Common {
    /// Collective: zeroed memory of `len` bytes in every task. Pages that were never touched cost nothing.
    ///
    /// # Errors
    /// Tasks that pass different lengths: the error names the first task whose length differs. A fabric without memory that several tasks
    /// map; too little memory; the failure of a task; a call inside a handler.
    pub fn new<F: Fabric, H: HandlerSet>(context: &mut Context<F, H>, len: u64) -> Result<Self> {
        agree(context, len, "bytes of memory of all tasks")?;
        let bytes = usize::try_from(len).unwrap_or(usize::MAX);
        let own = context.share(bytes).and_then(|made| {
            let memory = made.ok_or_else(no_shared_memory)?;
            let exposed = context.expose_shared(&memory, 0, len, Access::READ_WRITE)?;
            Ok((memory, exposed))
        });
        // A task without memory takes part in the exchanges, too: the others would wait for it.
        let (mut name, mut address) = (Vec::new(), Vec::new());
        if let Ok((memory, exposed)) = &own {
            name = memory.name().0.iter().flat_map(|word| word.to_le_bytes()).collect();
            address = exposed.address(0).to_bytes().to_vec();
        }
        let names = context.exchange(&name)?;
        let addresses = context.exchange(&address)?;
        let (memory, exposed) = own?;
        let mut parts = Vec::with_capacity(names.len());
        let me = context.task();
        for ((name, address), task) in names.iter().zip(&addresses).zip(0..) {
            let (Some(name), Ok(address)) =
                (shared_name(name), <[u8; RemoteAddress::BYTES]>::try_from(&address[..]))
            else {
                return Err(Error::Exhausted {
                    resource: "memory of all tasks, in another task",
                    needed: len,
                    available: 0,
                    remedy: "that task reports the cause; ask for less, or give that task more memory",
                });
            };
            let task = TaskId(task);
            let is_here = context.fabric().world().host(task) == context.fabric().world().host(me);
            let memory = if task == me || !is_here { None } else { Some(context.open_shared(name)?) };
            parts.push(Part { address: RemoteAddress::from_bytes(address), memory });
        }
        context.gfence()?;
        parts[me.index()].memory = Some(memory);
        Ok(Self { len, exposed, parts })
    }

    /// The name of this task's own part, by which it can map the part once more until it calls [`keep`](Self::keep).
    #[must_use]
    pub fn own_name(&self) -> Option<SharedName> {
        let own = self.parts.get(self.exposed.address(0).task.index())?;
        own.memory.as_ref().map(SharedMemory::name)
    }

    /// Frees what only further mappings by name would need.
    pub fn keep<F: Fabric, H: HandlerSet>(&self, context: &mut Context<F, H>) {
        let own = self.parts.get(context.task().index()).and_then(|part| part.memory.as_ref());
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
        self.parts.get(task.index())?.memory.as_ref().map(SharedMemory::as_ptr)
    }

    /// The address of `len` bytes at `offset` of `task`'s part, for am-core's calls.
    ///
    /// # Errors
    /// No such task, or bytes that do not lie in the part.
    pub fn address(&self, task: TaskId, offset: u64, len: u64) -> Result<RemoteAddress> {
        let Some(part) = self.parts.get(task.index()) else {
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
        context.gfence()?;
        context.unexpose(self.exposed)?;
        for memory in self.parts.into_iter().filter_map(|part| part.memory) {
            context.unshare(memory);
        }
        Ok(())
    }
}

/// Collective: checks that all tasks have passed the same number of `what`.
///
/// # Errors
/// The first task whose number differs; those of [`Context::exchange`].
pub fn agree<F: Fabric, H: HandlerSet>(context: &mut Context<F, H>, number: u64, what: &str) -> Result<()> {
    let all = context.exchange(&number.to_le_bytes())?;
    match all.iter().zip(0..).find(|(told, _)| **told != number.to_le_bytes()) {
        None => Ok(()),
        Some((told, task)) => {
            let told: [u8; 8] = told[..].try_into().unwrap_or_default();
            Err(Error::Protocol {
                peer: Endpoint::new(TaskId(task), context.endpoint().context),
                what: format!(
                    "it says {} {what}, and this task {number}: all tasks must say the same",
                    u64::from_le_bytes(told)
                ),
            })
        }
    }
}

fn shared_name(bytes: &[u8]) -> Option<SharedName> {
    let mut words = [0; 4];
    let chunks = bytes.chunks_exact(8);
    if bytes.len() != 32 {
        return None;
    }
    for (word, chunk) in words.iter_mut().zip(chunks) {
        *word = u64::from_le_bytes(chunk.try_into().ok()?);
    }
    Some(SharedName(words))
}

fn no_shared_memory() -> Error {
    Error::System { doing: "making memory of all tasks", source: "this fabric has no such memory".into() }
}
