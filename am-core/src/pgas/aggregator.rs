//! Many small items in one message, so that the rate of messages does not limit the rate of items.

use std::marker::PhantomData;

use bytemuck::Pod;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::fabric::Fabric;
use crate::handler::{HandlerId, HandlerSet, Message};
use crate::task::{Endpoint, TaskId};
use crate::verbs::AmOptions;

/// Bytes of a packet reserved for its head.
const HEAD_BYTES: usize = 128;

/// Collects items for each task, and sends those of a task as one message when the next item does not fit. The receiving handler takes them
/// out with [`items`]. A message fits into one packet, so that the handler gets all its items at once.
///
/// Items that are left at the end must be sent by [`flush`](Self::flush).
///
/// ```
/// use std::sync::Arc;
///
/// use am_core::handler::Answer;
/// use am_core::pgas::{self, Aggregator, Segment};
/// use am_core::task::TaskId;
/// use am_core_conform::threads;
/// use am_double::{Config, network};
///
/// let (_, endpoints) = network(Config::new(2));
/// threads::run(endpoints, |context| {
///     let table = Arc::new(Segment::<u64>::new(context, 10).expect("small"));
///     let own = Arc::clone(&table);
///     let add = context.register_handler(move |message| {
///         pgas::items(message, |index: u64| {
///             let count = own.get(index).expect("in the table");
///             own.set(index, count + 1).expect("in the table");
///         });
///         Answer::discard()
///     });
///     context.gfence().expect("both tasks have their tables");
///     let mut updates = Aggregator::new(context, add.expect("one handler"), 100).expect("words are short");
///     for number in 0..1000 {
///         updates.push(context, TaskId(number % 2), u64::from(number) / 2 % 10).expect("both tasks live");
///     }
///     updates.flush(context).expect("both tasks live");
///     context.gfence().expect("both tasks live");
///     assert_eq!(table.to_vec(), [100; 10]);
/// });
/// ```
#[derive(Debug)]
pub struct Aggregator<T> {
    handler: HandlerId,
    /// Bytes of the items of a message.
    bytes_max: usize,
    /// For each task, the items that are not sent yet.
    waiting: Vec<Vec<u8>>,
    messages: u64,
    kind: PhantomData<fn(T)>,
}

impl<T: Pod> Aggregator<T> {
    /// An aggregator for messages to `handler`. Each message has at most `items_max` items, or fewer if a packet cannot hold them.
    ///
    /// # Errors
    /// [`Error::Exhausted`]: a packet cannot hold one item.
    pub fn new<F: Fabric, H: HandlerSet>(
        context: &Context<F, H>,
        handler: HandlerId,
        items_max: usize,
    ) -> Result<Self> {
        let (size, room) =
            (size_of::<T>().max(1), context.limits().packet_bytes_max.saturating_sub(HEAD_BYTES));
        if size > room {
            return Err(Error::Exhausted {
                resource: "bytes of a packet for an item of an aggregator",
                needed: size as u64,
                available: room as u64,
                remedy: "send such items by messages of their own, or make packets longer",
            });
        }
        let bytes_max = size * items_max.clamp(1, room / size);
        let waiting = (0..context.num_tasks()).map(|_| Vec::with_capacity(bytes_max)).collect();
        Ok(Self { handler, bytes_max, waiting, messages: 0, kind: PhantomData })
    }

    /// Adds an item for `target`. If the item does not fit, first sends the items collected so far.
    ///
    /// # Errors
    /// No such task; an error of [`Context::amsend`]. The item was not added.
    #[inline]
    pub fn push<F: Fabric, H: HandlerSet>(
        &mut self,
        context: &mut Context<F, H>,
        target: TaskId,
        item: T,
    ) -> Result<()> {
        let item = bytemuck::bytes_of(&item);
        if let Some(waiting) = self.waiting.get_mut(target.index())
            && waiting.len() + item.len() <= self.bytes_max
        {
            waiting.extend_from_slice(item);
            return Ok(());
        }
        self.send(context, target)?;
        self.waiting[target.index()].extend_from_slice(item);
        Ok(())
    }

    /// Sends the items collected for `target`.
    ///
    /// # Errors
    /// No such task; an error of [`Context::amsend`]: the items are kept.
    #[inline(never)]
    pub fn send<F: Fabric, H: HandlerSet>(
        &mut self,
        context: &mut Context<F, H>,
        target: TaskId,
    ) -> Result<()> {
        let num_tasks = context.num_tasks();
        let Some(waiting) = self.waiting.get_mut(target.index()) else {
            return Err(Error::UnknownTask {
                endpoint: Endpoint::new(target, Default::default()),
                num_tasks,
            });
        };
        if !waiting.is_empty() {
            context.amsend(target, self.handler, &[], waiting, AmOptions::default())?;
            waiting.clear();
            self.messages += 1;
        }
        Ok(())
    }

    /// Sends all items. After the next [`Context::gfence`] they have been handled.
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

/// In a handler, runs `take` on each item of a message of an [`Aggregator`] of the same type, in the order of [`push`](Aggregator::push).
#[inline(always)]
pub fn items<T: Pod>(message: &Message<'_>, mut take: impl FnMut(T)) {
    let Some(here) = &message.here else { return };
    let size = size_of::<T>();
    for start in (0..here.len()).step_by(size.max(1)) {
        let mut item = T::zeroed();
        if here.skip(start).copy_to(bytemuck::bytes_of_mut(&mut item)) == size {
            take(item);
        }
    }
}
