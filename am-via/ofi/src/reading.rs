//! The calls that lend memory and read it.

use am_via_shm::HeldRange;

use crate::endpoint::Endpoint;
use crate::objects::{PeerAddress, close, positive};
use crate::reads::{LentMemory, ReadId, RemoteKey, Stage, Use};
use crate::sys::{AGAIN, FI_MR_VIRT_ADDR, FI_REMOTE_READ};
use crate::{OfiError, READ_BYTES_MAX};

impl Endpoint {
    /// Whether the provider can read memory of peers.
    #[must_use]
    pub fn can_read(&self) -> bool {
        self.reads.is_some()
    }

    /// Lets peers read memory, until [`end_lend`](Self::end_lend).
    ///
    /// # Safety
    /// The memory must stay alive until [`end_lend`](Self::end_lend), or until the endpoint is dropped, and may be written meanwhile only
    /// by copies that a concurrent read by the network allows.
    ///
    /// # Errors
    /// The provider has no such reads, or does not take the memory.
    pub unsafe fn lend(&mut self, memory: HeldRange) -> Result<LentMemory, OfiError> {
        // SAFETY: the caller's contract.
        let range = unsafe { memory.range() };
        let (at, len) = (range.at().as_ptr(), range.len());
        let reads = self.reads.as_mut().ok_or_else(|| self.library.failed("lending memory", libc::ENOSYS))?;
        let mr = reads.register(at.cast_const().cast(), len, FI_REMOTE_READ)?;
        self.lent.push(mr);
        let base = if reads.mr_mode & FI_MR_VIRT_ADDR == 0 { 0 } else { at.addr() as u64 };
        // SAFETY: a live registration.
        let key = unsafe { mr.as_ref() }.key;
        Ok(LentMemory { mr, remote: RemoteKey { key, base } })
    }

    /// Ends a loan of [`lend`](Self::lend). A peer that reads the memory afterwards loses its connection.
    pub fn end_lend(&mut self, lent: &LentMemory) {
        if let Some(at) = self.lent.iter().position(|&mr| mr == lent.mr) {
            close(self.lent.swap_remove(at).cast());
        }
    }

    /// Begins to read `len` bytes (at most [`READ_BYTES_MAX`]) at `offset` in memory that a peer has lent. `None`: no more reads can begin
    /// now; poll and try again.
    ///
    /// # Errors
    /// The provider has no reads, no buffer can be made, or the network refuses the read, and polling would not help.
    pub fn read(
        &mut self,
        from: PeerAddress,
        key: RemoteKey,
        offset: u64,
        len: usize,
    ) -> Result<Option<ReadId>, OfiError> {
        let Some(reads) = &mut self.reads else { return Err(self.library.failed("reading", libc::ENOSYS)) };
        let Some(index) = reads.free_stage(&mut self.objects)? else { return Ok(None) };
        let stage = &mut reads.stages[index];
        let (at, context, ep) = (stage.memory.at(0), stage.memory.context(0), reads.ep.as_ptr());
        let len = len.min(READ_BYTES_MAX);
        // SAFETY: the endpoint is enabled, and was opened for reads, so that its table has the function; the buffer has `len` bytes, is
        // registered by this descriptor, and is left to the network until the completion that names its context.
        let code = unsafe {
            let read = (*(*ep).rma).read;
            read(
                ep,
                at.cast(),
                len,
                stage.descriptor,
                from.number,
                key.base.wrapping_add(offset),
                key.key,
                context,
            )
        };
        match code {
            0 => stage.usage = Use::Reading(from, len),
            AGAIN => return Ok(None),
            code => return Err(self.library.failed("reading", positive(code))),
        }
        Ok(Some(ReadId(index)))
    }

    /// Passes a read that has ended to `take`, with its bytes, or `None` if it has failed. Returns whether there was such a read.
    pub fn ended_read(&mut self, take: impl FnOnce(ReadId, Option<&[u8]>)) -> bool {
        let Some(reads) = &mut self.reads else { return false };
        let Some((index, is_good)) = reads.ended.pop() else { return false };
        let stage = &mut reads.stages[index];
        let len = if let Use::Reading(_, len) = stage.usage { len } else { 0 };
        // SAFETY: the read has ended, so that the buffer is the endpoint's alone until the next read into it, which cannot begin before
        // `take` returns; `len` is at most its length.
        let bytes = unsafe { std::slice::from_raw_parts(stage.memory.at(0), len) };
        take(ReadId(index), is_good.then_some(bytes));
        stage.usage = Use::Free;
        true
    }

    /// Abandons the reads from this peer: their bytes are discarded.
    pub fn abandon_reads(&mut self, from: PeerAddress) {
        let Some(reads) = &mut self.reads else { return };
        let has_ended = |index| reads.ended.iter().any(|&(ended, _)| ended == index);
        let is_it = |stage: &Stage| matches!(stage.usage, Use::Reading(peer, _) if peer == from);
        let abandoned: Vec<(usize, bool)> = (0..)
            .zip(&reads.stages)
            .filter(|(_, stage)| is_it(stage))
            .map(|(index, _)| (index, has_ended(index)))
            .collect();
        for (index, has_ended) in abandoned {
            reads.stages[index].usage = if has_ended { Use::Free } else { Use::Abandoned };
            reads.ended.retain(|&(ended, _)| ended != index);
        }
    }
}
