//! Sessions: futures of operations that own their buffers, of calls, and of waits for counters.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Wake, Waker};

use bytemuck::Pod;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{GlobalPointer, Word};
use crate::buffer::{JobBuffer, Owned};
use crate::call::{self, BegunCall, Function};
use crate::context::Context;
use crate::counter::Counter;
use crate::error::{Error, Result};
use crate::fabric::Fabric;
use crate::handler::{HandlerSet, HandlerTable};
use crate::task::Target;
use crate::transfer::AtomicOp;
use crate::verbs::{Get, GetOptions, Operation, OwnedHandle, Returned, RmwHandle};

/// A context shared by many futures of one thread.
///
/// An operation begins when its method is called, not at the first poll of its future. Dropping a future does not end its operation: the
/// operation keeps its buffer until it has ended, and the session then frees the buffer. After the session's end, the context keeps the
/// buffers of operations under way.
///
/// Progress is made inside polls. Under [`block_on`](Self::block_on) a future is polled when its operation has ended or its waker was
/// called, and until then the thread sleeps. Other executors do not know the fabric: there a future that is not ready makes one round of
/// progress in each poll, and asks to be polled again.
///
/// A round of progress checks each future under way, so a session is meant for at most hundreds of them.
pub struct Session<'c, F: Fabric, H: HandlerSet = HandlerTable> {
    context: RefCell<&'c mut Context<F, H>>,
    slots: RefCell<Slots>,
    /// Whether the session is inside `block_on`, which makes progress.
    is_driven: Cell<bool>,
}

impl<F: Fabric, H: HandlerSet> fmt::Debug for Session<'_, F, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let under_way = self.slots.borrow().under_way.len();
        f.debug_struct("Session").field("under_way", &under_way).field("is_driven", &self.is_driven).finish()
    }
}

/// Maximum number of rounds of progress between two checks of all futures.
const ROUNDS_PER_LOOK_MAX: u32 = 64;

/// What a future waits for.
enum Waits {
    Counter(Counter, u64),
    Transfer(OwnedHandle),
    Rmw(RmwHandle),
    Call(BegunCall),
}

/// How the operation of a future ended.
struct Ended {
    result: Result<()>,
    /// For an rmw, the old value.
    value: u64,
    /// For a transfer, its buffer; for a call, the encoded result.
    buffer: Option<JobBuffer>,
}

enum Slot {
    Free,
    /// The operation has not ended. `is_dropped`: whether its future was dropped.
    UnderWay {
        waits: Waits,
        waker: Option<Waker>,
        is_dropped: bool,
    },
    Ended(Ended),
}

#[derive(Default)]
struct Slots {
    slots: Vec<Slot>,
    free: Vec<usize>,
    under_way: Vec<usize>,
}

impl Slots {
    fn insert(&mut self, slot: Slot) -> usize {
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::Free);
            self.slots.len() - 1
        });
        if matches!(slot, Slot::UnderWay { .. }) {
            self.under_way.push(at);
        }
        self.slots[at] = slot;
        at
    }

    fn free(&mut self, at: usize) {
        self.slots[at] = Slot::Free;
        self.free.push(at);
    }

    /// Finds the operations that have ended, and moves the wakers of their futures to `wakers`. Keeps the results, except those of dropped
    /// futures.
    fn sweep<F: Fabric, H: HandlerSet>(&mut self, context: &mut Context<F, H>, wakers: &mut Vec<Waker>) {
        let Self { slots, free, under_way } = self;
        under_way.retain(|&at| {
            let Slot::UnderWay { waits, mut waker, is_dropped } =
                std::mem::replace(&mut slots[at], Slot::Free)
            else {
                return false;
            };
            if let Waits::Counter(counter, val) = waits {
                // The poll of the future subtracts the value, so that a future dropped before its poll subtracts nothing.
                if context.counter_value(counter).map_or(true, |value| value >= val) {
                    wakers.extend(waker.take());
                }
                slots[at] = Slot::UnderWay { waits, waker, is_dropped };
                return true;
            }
            match look(context, waits) {
                Err(waits) => {
                    slots[at] = Slot::UnderWay { waits, waker, is_dropped };
                    true
                }
                Ok(_) if is_dropped => {
                    free.push(at);
                    false
                }
                Ok(ended) => {
                    slots[at] = Slot::Ended(ended);
                    wakers.extend(waker);
                    false
                }
            }
        });
    }
}

/// Returns the result of an operation that has ended, otherwise the operation. Makes no progress.
fn look<F: Fabric, H: HandlerSet>(context: &mut Context<F, H>, waits: Waits) -> Result<Ended, Waits> {
    let failed = |error| Ended { result: Err(error), value: 0, buffer: None };
    match waits {
        Waits::Counter(counter, val) => match context.counter_value(counter) {
            Ok(value) if value < val => Err(waits),
            // The counter has reached the value: this call only subtracts it.
            Ok(_) => Ok(Ended { result: context.wait_counter(counter, val), value: 0, buffer: None }),
            Err(error) => Ok(failed(error)),
        },
        Waits::Rmw(handle) => match context.rmw_result(handle) {
            Ok(Ok(value)) => Ok(Ended { result: Ok(()), value, buffer: None }),
            Ok(Err(handle)) => Err(Waits::Rmw(handle)),
            Err(error) => Ok(failed(error)),
        },
        Waits::Call(mut call) => match call.look(context) {
            Some(Ok(result)) => Ok(Ended { result: Ok(()), value: 0, buffer: Some(result.into()) }),
            Some(Err(error)) => Ok(failed(error)),
            None => Err(Waits::Call(call)),
        },
        Waits::Transfer(handle) => match context.try_owned(handle) {
            Ok(Ok((buffer, result))) => Ok(Ended { result, value: 0, buffer: Some(buffer) }),
            Ok(Err(handle)) => Err(Waits::Transfer(handle)),
            Err(error) => Ok(failed(error)),
        },
    }
}

impl<'c, F: Fabric> Session<'c, F, HandlerTable> {
    /// Begins to call `function` at `target` ([`Context::begin_call`]); the future returns its result.
    pub fn call<T: Target, A: Serialize, R: DeserializeOwned>(
        &self,
        target: T,
        function: Function<A, R>,
        args: A,
    ) -> impl Future<Output = Result<R>> + use<'_, 'c, T, A, R, F> {
        let target = target.seen_from(self.with(|context| context.endpoint().context));
        let begun = self.with(|context| context.begin_call(target, function, args));
        let mut begun = self.begin(begun.map(|call| Waits::Call(call.begun)).map_err(|error| (error, None)));
        async move {
            let ended = poll_fn(|cx| begun.poll(cx)).await;
            ended.result?;
            call::read(ended.buffer.as_deref().unwrap_or_default(), target)
        }
    }
}

impl<'c, F: Fabric, H: HandlerSet> Session<'c, F, H> {
    /// A session over `context`, which is accessible only through [`with`](Self::with) until the session is dropped.
    #[must_use]
    pub fn new(context: &'c mut Context<F, H>) -> Self {
        Self {
            context: RefCell::new(context),
            slots: RefCell::new(Slots::default()),
            is_driven: Cell::new(false),
        }
    }

    /// Lends the context, for calls that do not wait for a future of this session.
    ///
    /// # Panics
    /// If `call` uses the session itself.
    pub fn with<R>(&self, call: impl FnOnce(&mut Context<F, H>) -> R) -> R {
        call(&mut self.context.borrow_mut())
    }

    /// A future that subtracts `val` from `counter` when the counter has reached `val` ([`Context::wait_counter`]). A dropped future
    /// subtracts nothing.
    pub fn counter(&self, counter: Counter, val: u64) -> CounterFuture<'_, 'c, F, H> {
        CounterFuture(self.begin(Ok(Waits::Counter(counter, val))))
    }

    /// Begins an operation that owns its local memory ([`Context::start`]); the future returns the memory when the operation has ended.
    pub fn start<M: Owned, O: Operation<M::Raw>>(
        &self,
        operation: O,
        memory: M,
    ) -> TransferFuture<'_, 'c, F, H> {
        let begun = self.with(|context| context.start(operation, memory)).map(Waits::Transfer);
        TransferFuture(self.begin(begun.map_err(|Returned { error, buffer }| (error, Some(buffer)))))
    }

    /// Begins an atomic operation on the element at `at`; the future returns the element's old value.
    pub fn rmw<T: Word>(&self, at: GlobalPointer<T>, operation: AtomicOp) -> RmwFuture<'_, 'c, T, F, H> {
        let begun = at.check(1).and_then(|()| {
            self.with(|context| context.rmw_nonblocking(at.address(), T::WIDTH, operation, None))
        });
        RmwFuture(self.begin(begun.map(Waits::Rmw).map_err(|error| (error, None))), PhantomData)
    }

    /// Begins to read the element at `from`; the future returns it.
    pub fn read<T: Pod>(
        &self,
        from: GlobalPointer<T>,
    ) -> impl Future<Output = Result<T>> + use<'_, 'c, T, F, H> {
        let get = Get { from: from.address(), options: GetOptions::default() };
        let begun = from.check(1).map(|()| self.start(get, JobBuffer::zeroed(size_of::<T>())));
        async move {
            let bytes = begun?.await.map_err(|returned| returned.error)?;
            Ok(bytemuck::pod_read_unaligned(&bytes))
        }
    }

    fn begin(&self, begun: Result<Waits, (Error, Option<JobBuffer>)>) -> OperationSlot<'_, 'c, F, H> {
        let slot = match begun {
            Ok(waits @ Waits::Counter(..)) => Slot::UnderWay { waits, waker: None, is_dropped: false },
            // Most operations on memory of this machine end at once.
            Ok(waits) => match look(&mut self.context.borrow_mut(), waits) {
                Ok(ended) => Slot::Ended(ended),
                Err(waits) => Slot::UnderWay { waits, waker: None, is_dropped: false },
            },
            Err((error, buffer)) => Slot::Ended(Ended { result: Err(error), value: 0, buffer }),
        };
        OperationSlot { session: self, slot: Some(self.slots.borrow_mut().insert(slot)) }
    }

    /// Runs `future` to its end in this thread. Sleeps if there is nothing to do; a call of a waker by another thread is noticed within
    /// half a second.
    ///
    /// # Errors
    /// An error while making progress, such as the failure of a task; the future is dropped then.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> Result<T> {
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut future = pin!(future);
        let _driven = Driven::new(&self.is_driven);
        loop {
            if let Poll::Ready(value) = future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
                return Ok(value);
            }
            self.wait_for_wakers(&woken)?;
        }
    }

    /// Makes progress until a future can go on, and wakes those that can.
    fn wait_for_wakers(&self, woken: &Woken) -> Result<()> {
        let mut wakers = Vec::new();
        self.context.borrow_mut().wait_until(|context| {
            // Handles arrivals before it checks the futures, since a check takes time for each future.
            let mut rounds = 0;
            while rounds < ROUNDS_PER_LOOK_MAX && context.probe()? {
                rounds += 1;
            }
            self.slots.borrow_mut().sweep(context, &mut wakers);
            // Acquire: pairs with the Release in `Woken::wake`, so that the poll sees what the waking thread did before.
            Ok(!wakers.is_empty() || woken.0.swap(false, Ordering::Acquire))
        })?;
        wakers.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// Polls the operation of `slot`.
    fn poll(&self, slot: usize, waker: &Waker) -> Poll<Ended> {
        if !self.is_driven.get()
            && self.is_under_way(slot)
            && let Err(error) = self.progress_for(slot)
        {
            self.abandon(slot);
            return Poll::Ready(Ended { result: Err(error), value: 0, buffer: None });
        }
        let polled = self.take(slot, waker);
        if polled.is_pending() && !self.is_driven.get() {
            waker.wake_by_ref();
        }
        polled
    }

    /// Takes the result of the operation of `slot`; keeps `waker` if the operation has not ended.
    fn take(&self, slot: usize, waker: &Waker) -> Poll<Ended> {
        let mut slots = self.slots.borrow_mut();
        match std::mem::replace(&mut slots.slots[slot], Slot::Free) {
            Slot::Ended(ended) => {
                slots.free.push(slot);
                Poll::Ready(ended)
            }
            // Under `block_on`, `sweep` finds the operations that have ended. (But a counter's value is subtracted here.)
            Slot::UnderWay { waits, is_dropped, waker: before }
                if self.is_driven.get() && !matches!(waits, Waits::Counter(..)) =>
            {
                let waker = before.filter(|before| before.will_wake(waker)).or_else(|| Some(waker.clone()));
                slots.slots[slot] = Slot::UnderWay { waits, waker, is_dropped };
                Poll::Pending
            }
            Slot::UnderWay { waits, is_dropped, waker: _ } => {
                match look(&mut self.context.borrow_mut(), waits) {
                    Ok(ended) => {
                        slots.under_way.retain(|&at| at != slot);
                        slots.free.push(slot);
                        Poll::Ready(ended)
                    }
                    Err(waits) => {
                        let waker = Some(waker.clone());
                        slots.slots[slot] = Slot::UnderWay { waits, waker, is_dropped };
                        Poll::Pending
                    }
                }
            }
            Slot::Free => unreachable!("a future keeps its slot until it has ended"),
        }
    }

    fn is_under_way(&self, slot: usize) -> bool {
        matches!(self.slots.borrow().slots[slot], Slot::UnderWay { .. })
    }

    /// One round of progress for the future of `slot`. An error while making progress ends the wait for a counter, which may depend on a
    /// failed task. Other operations end by themselves, and leave the error to the next call that can report it.
    fn progress_for(&self, slot: usize) -> Result<()> {
        let is_counter =
            matches!(self.slots.borrow().slots[slot], Slot::UnderWay { waits: Waits::Counter(..), .. });
        let mut wakers = Vec::new();
        {
            let mut context = self.context.borrow_mut();
            if is_counter {
                context.probe()?;
            } else {
                context.progress_in_passing();
            }
            self.slots.borrow_mut().sweep(&mut context, &mut wakers);
        }
        wakers.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// Frees the slot of a future that no longer needs it; nothing is subtracted from a counter.
    fn abandon(&self, slot: usize) {
        let mut slots = self.slots.borrow_mut();
        slots.under_way.retain(|&at| at != slot);
        slots.free(slot);
    }
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        // Release: pairs with the Acquire in `wait_for_wakers`.
        self.0.store(true, Ordering::Release);
    }
}

/// While the value lives, `block_on` makes the progress.
struct Driven<'a> {
    flag: &'a Cell<bool>,
    before: bool,
}

impl<'a> Driven<'a> {
    fn new(flag: &'a Cell<bool>) -> Self {
        Self { flag, before: flag.replace(true) }
    }
}

impl Drop for Driven<'_> {
    fn drop(&mut self) {
        self.flag.set(self.before);
    }
}

/// A future's slot in its session.
struct OperationSlot<'s, 'c, F: Fabric, H: HandlerSet> {
    session: &'s Session<'c, F, H>,
    /// `None` when the future has ended.
    slot: Option<usize>,
}

impl<F: Fabric, H: HandlerSet> OperationSlot<'_, '_, F, H> {
    fn poll(&mut self, cx: &std::task::Context<'_>) -> Poll<Ended> {
        let slot = self.slot.expect("a future is not polled after it was ready");
        let ended = self.session.poll(slot, cx.waker());
        if ended.is_ready() {
            self.slot = None;
        }
        ended
    }
}

impl<F: Fabric, H: HandlerSet> Drop for OperationSlot<'_, '_, F, H> {
    fn drop(&mut self) {
        let Some(slot) = self.slot else { return };
        if let Slot::UnderWay {
            waits: Waits::Transfer(_) | Waits::Rmw(_) | Waits::Call(_), is_dropped, ..
        } = &mut self.session.slots.borrow_mut().slots[slot]
        {
            *is_dropped = true;
            return;
        }
        self.session.abandon(slot);
    }
}

/// Ready when the value has been subtracted from the counter ([`Session::counter`]).
#[must_use = "nothing is subtracted from the counter unless this is awaited"]
pub struct CounterFuture<'s, 'c, F: Fabric, H: HandlerSet>(OperationSlot<'s, 'c, F, H>);

/// Ready when a put, get or amsend has ended; returns the buffer.
#[must_use = "awaiting this returns the buffer"]
pub struct TransferFuture<'s, 'c, F: Fabric, H: HandlerSet>(OperationSlot<'s, 'c, F, H>);

/// Ready when an rmw has ended; returns the old value ([`Session::rmw`]).
#[must_use = "awaiting this returns the old value"]
pub struct RmwFuture<'s, 'c, T, F: Fabric, H: HandlerSet>(
    OperationSlot<'s, 'c, F, H>,
    PhantomData<fn() -> T>,
);

impl<F: Fabric, H: HandlerSet> Future for CounterFuture<'_, '_, F, H> {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        self.0.poll(cx).map(|ended| ended.result)
    }
}

impl<F: Fabric, H: HandlerSet> Future for TransferFuture<'_, '_, F, H> {
    type Output = Result<JobBuffer, Returned>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        self.0.poll(cx).map(|Ended { result, buffer, .. }| {
            let buffer = buffer.expect("an operation that owns its buffer returns it");
            match result {
                Ok(()) => Ok(buffer),
                Err(error) => Err(Returned { error, buffer }),
            }
        })
    }
}

impl<T: Word, F: Fabric, H: HandlerSet> Future for RmwFuture<'_, '_, T, F, H> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        self.0.poll(cx).map(|ended| ended.result.map(|()| T::from_bits(ended.value)))
    }
}

macro_rules! debug {
    ($($future:ident<$($generic:ident),*>;)*) => {$(
        impl<$($generic,)* F: Fabric, H: HandlerSet> fmt::Debug for $future<'_, '_, $($generic,)* F, H> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($future)).field("slot", &self.0.slot).finish()
            }
        }
    )*};
}

debug! {
    CounterFuture<>;
    TransferFuture<>;
    RmwFuture<T>;
}

/// Waits for all `futures`; returns their outputs in order.
pub async fn join_all<U: Future>(futures: impl IntoIterator<Item = U>) -> Vec<U::Output> {
    let mut waiting: Vec<Pin<Box<U>>> = futures.into_iter().map(Box::pin).collect();
    let mut outputs: Vec<Option<U::Output>> = waiting.iter().map(|_| None).collect();
    poll_fn(|cx| {
        let mut all = true;
        for (future, output) in waiting.iter_mut().zip(&mut outputs).filter(|(_, output)| output.is_none()) {
            match future.as_mut().poll(cx) {
                Poll::Ready(value) => *output = Some(value),
                Poll::Pending => all = false,
            }
        }
        if all { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}
