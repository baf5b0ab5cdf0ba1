//! Many small items in one message, so that the rate of messages does not limit the rate of items.

use am_core::error::Result;
use am_core::fabric::Fabric;
use am_core::handler::{HandlerId, HandlerSet, Message};
use am_core::task::TaskId;
use am_core::{AmOptions, Context};

/// Bytes of a packet reserved for its head and the user header.
const HEAD_BYTES: usize = 128;

/// Collects items for each task, and sends them as one message when the next item does not fit. Items that are left at the end must be
/// sent by [`flush`](Self::flush). A message fits into one packet, so that the handler gets all its items at once ([`items`]).
#[derive(Debug)]
pub struct Aggregator {
    handler: HandlerId,
    words_max: usize,
    buffers: Vec<Vec<u8>>,
    messages: u64,
}

impl Aggregator {
    /// An aggregator for messages to `handler`. Each message has at most `words_max` words, or fewer if a packet cannot hold them.
    #[must_use]
    pub fn new<F: Fabric, H: HandlerSet>(
        context: &Context<F, H>,
        handler: HandlerId,
        words_max: usize,
    ) -> Self {
        let packet_words = context.limits().packet_bytes_max.saturating_sub(HEAD_BYTES) / 8;
        let words_max = words_max.min(packet_words).max(1);
        let buffers = (0..context.num_tasks()).map(|_| Vec::with_capacity(words_max * 8)).collect();
        Self { handler, words_max, buffers, messages: 0 }
    }

    /// Adds an item for `target`. If the item does not fit, first sends the items collected so far.
    ///
    /// # Errors
    /// An error of [`Context::amsend`].
    #[inline]
    pub fn push<const WORDS: usize, F: Fabric, H: HandlerSet>(
        &mut self,
        context: &mut Context<F, H>,
        target: TaskId,
        item: [u64; WORDS],
    ) -> Result<()> {
        if self.buffers[target.index()].len() + WORDS * 8 > self.words_max * 8 {
            self.send(context, target)?;
        }
        let buffer = &mut self.buffers[target.index()];
        for word in item {
            buffer.extend_from_slice(&word.to_le_bytes());
        }
        Ok(())
    }

    /// Sends the items collected for `target`.
    ///
    /// # Errors
    /// An error of [`Context::amsend`].
    pub fn send<F: Fabric, H: HandlerSet>(
        &mut self,
        context: &mut Context<F, H>,
        target: TaskId,
    ) -> Result<()> {
        let buffer = &mut self.buffers[target.index()];
        if !buffer.is_empty() {
            let options = AmOptions::default();
            context.amsend(target, self.handler, &[], buffer, options)?;
            buffer.clear();
            self.messages += 1;
        }
        Ok(())
    }

    /// Sends all items. After the next `gfence` they have been handled.
    ///
    /// # Errors
    /// An error of [`Context::amsend`].
    pub fn flush<F: Fabric, H: HandlerSet>(&mut self, context: &mut Context<F, H>) -> Result<()> {
        // Each task begins with the task after it, so that not all tasks send to task 0 at once.
        let (own, tasks) = (context.task().0, context.num_tasks());
        (1..=tasks).try_for_each(|distance| self.send(context, TaskId((own + distance) % tasks)))
    }

    /// Messages sent so far.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.messages
    }
}

/// Runs `take` on each item of a message of an [`Aggregator`]. `scratch` is a buffer.
#[inline(always)]
pub fn items<const WORDS: usize>(
    message: &Message<'_>,
    scratch: &mut Vec<u8>,
    mut take: impl FnMut([u64; WORDS]),
) {
    let Some(here) = &message.here else { return };
    scratch.resize(here.len(), 0);
    here.copy_to(scratch);
    for item in scratch.chunks_exact(WORDS * 8) {
        let (words, _) = item.as_chunks::<8>();
        take(std::array::from_fn(|at| u64::from_le_bytes(words[at])));
    }
}

/// The first `WORDS` words of a user header; zero for each word that the header is too short for.
#[inline(always)]
#[must_use]
pub fn words<const WORDS: usize>(uhdr: &[u8]) -> [u64; WORDS] {
    let (words, _) = uhdr.as_chunks::<8>();
    std::array::from_fn(|at| words.get(at).map_or(0, |word| u64::from_le_bytes(*word)))
}
