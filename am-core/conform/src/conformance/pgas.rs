//! The symmetric heap, segments, global pointers and futures.

#![expect(clippy::unwrap_used, reason = "a check fails by a panic, and the error in it says why")]

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};

use super::Check;
use super::common::{next, pattern, previous};
use super::errors::{drain, quiet_gfence};
use am_core::buffer::JobBuffer;
use am_core::context::Context;
use am_core::error::Error;
use am_core::fabric::Fabric;
use am_core::handler::{Answer, HandlerSet};
use am_core::pgas::{self, Aggregator, GlobalPointer, Segment, Session, SymmetricHeap, join_all};
use am_core::task::TaskId;
use am_core::transfer::AtomicOp;
use am_core::{Get, GetOptions, Put, PutOptions};

pub(super) fn checks<F: Fabric>() -> Vec<(&'static str, Check<F>)> {
    vec![
        ("pgas_heap_is_symmetric", heap_is_symmetric),
        ("pgas_heap_of_different_sizes", heap_of_different_sizes),
        ("pgas_bounds", bounds),
        ("pgas_words", words),
        ("pgas_pointers_of_an_ended_heap", pointers_of_an_ended_heap),
        ("pgas_scope", scope),
        ("pgas_aggregated_items", aggregated_items),
        ("pgas_futures_block_on", |context| futures(context, OwnExecutor)),
        ("pgas_futures_other_executor", |context| futures(context, OtherExecutor)),
        ("pgas_future_dropped", future_dropped),
        ("pgas_future_that_fails", future_that_fails),
    ]
}

/// The same calls return the same offsets in all tasks, freed memory is reused, and a heap in use can't be closed.
fn heap_is_symmetric<F: Fabric>(context: &mut Context<F>) {
    let mut heap = SymmetricHeap::new(context, 4096).unwrap();
    let bytes = heap.alloc::<u8>(100).unwrap();
    let words = heap.alloc::<u64>(10).unwrap();
    let points = heap.alloc::<[f64; 3]>(7).unwrap();
    heap.check_symmetry(context).unwrap();

    let (next, previous, own) = (next(context).task, previous(context).task, context.task());
    bytes.at(next, 0).unwrap().put(context, &pattern(own.0, 100), PutOptions::default()).unwrap();
    for index in 0..10 {
        words.at(next, index).unwrap().write(context, u64::from(own.0) * 100 + index).unwrap();
    }
    points.at(next, 6).unwrap().write(context, [0.5, 1.5, f64::from(own.0)]).unwrap();
    context.gfence().unwrap();
    assert_eq!(bytes.to_vec(), pattern(previous.0, 100));
    assert_eq!(words.to_vec(), (0..10).map(|index| u64::from(previous.0) * 100 + index).collect::<Vec<_>>());
    assert_eq!(points.get(6).unwrap(), [0.5, 1.5, f64::from(previous.0)]);
    assert_eq!(points.get(5).unwrap(), [0.0; 3]);
    let mut theirs = [0; 10];
    words.at(next, 0).unwrap().get(context, &mut theirs, GetOptions::default()).unwrap();
    assert_eq!(theirs[9], u64::from(own.0) * 100 + 9);
    context.gfence().unwrap();

    let place = bytes.address();
    heap.free(bytes).unwrap();
    let again = heap.alloc::<u32>(25).unwrap();
    assert_eq!(again.address(), place);
    let error = heap.alloc::<u64>(4096).unwrap_err();
    assert!(matches!(error, Error::Exhausted { needed: 32768, .. }), "{error}");
    heap.check_symmetry(context).unwrap();

    let other = Segment::<u32>::new(context, 4).unwrap();
    let other = heap.free(other).unwrap_err();
    assert_eq!(other.count(), 4);
    let heap = heap.close(context).unwrap().unwrap_err();
    drop((words, points, again));
    heap.close(context).unwrap().unwrap();
    assert!(other.at(own, 0).unwrap().read(context).is_ok(), "the pointer belongs to another heap");
}

/// All tasks get an error if their sizes differ, and none waits.
fn heap_of_different_sizes<F: Fabric>(context: &mut Context<F>) {
    let last = context.num_tasks() - 1;
    if last == 0 {
        return;
    }
    let bytes = if context.task().0 == last { 128 } else { 64 };
    let error = SymmetricHeap::new(context, bytes).unwrap_err();
    assert!(matches!(error, Error::Protocol { .. }), "{error}");

    // One task allocates more than the others.
    let mut heap = SymmetricHeap::new(context, 4096).unwrap();
    if context.task().0 == last {
        heap.alloc::<u64>(1).unwrap();
    }
    let error = heap.check_symmetry(context).unwrap_err();
    assert!(matches!(error, Error::Protocol { .. }), "{error}");
    heap.close(context).unwrap().unwrap();
}

/// A pointer is limited to its segment, even if the region is longer.
fn bounds<F: Fabric>(context: &mut Context<F>) {
    let mut heap = SymmetricHeap::new(context, 4096).unwrap();
    let (first, second) = (heap.alloc::<u32>(8).unwrap(), heap.alloc::<u32>(8).unwrap());
    second.write(0, &[7; 8]).unwrap();
    context.gfence().unwrap();
    let next = next(context).task;
    let pointer = first.at(next, 6).unwrap();
    assert_eq!(pointer.count(), 2);
    let error = pointer.put(context, &[1; 3], PutOptions::default()).unwrap_err();
    assert!(matches!(error, Error::RemoteRange { len: 12, .. }), "{error}");
    let end = pointer.plus(2).unwrap();
    assert!(end.plus(1).is_err() && end.read(context).is_err() && end.fetch_add(context, 1).is_err());
    assert!(first.at(next, 9).is_err() && first.get(8).is_err() && first.read(7, &mut [0; 2]).is_err());
    let tasks = context.num_tasks();
    let error = first.at(TaskId(tasks), 0).unwrap_err();
    assert!(matches!(error, Error::UnknownTask { .. }), "{error}");
    assert!(first.cyclic(8 * u64::from(tasks) - 1).is_ok() && first.blocked(8 * u64::from(tasks)).is_err());
    assert_eq!(
        first.blocked(8 * u64::from(tasks) - 1).unwrap(),
        first.cyclic(8 * u64::from(tasks) - 1).unwrap()
    );
    assert_eq!(GlobalPointer::<u32>::from_bytes(pointer.to_bytes()), pointer);
    context.gfence().unwrap();
    assert_eq!(second.to_vec(), [7; 8]);
    drop((first, second));
    heap.close(context).unwrap().unwrap();
}

/// Atomic operations on elements of each width.
fn words<F: Fabric>(context: &mut Context<F>) {
    let mut heap = SymmetricHeap::new(context, 256).unwrap();
    let (wide, narrow) = (heap.alloc::<i64>(2).unwrap(), heap.alloc::<i32>(2).unwrap());
    let first = TaskId(0);
    let tasks = context.num_tasks();
    for _ in 0..10 {
        wide.at(first, 0).unwrap().fetch_add(context, -3).unwrap();
        narrow.at(first, 1).unwrap().fetch_add(context, -1).unwrap();
    }
    context.gfence().unwrap();
    assert_eq!(wide.at(first, 0).unwrap().read(context).unwrap(), -30 * i64::from(tasks));
    assert!(narrow.at(first, 1).unwrap().swap(context, -7).unwrap() < 0);
    context.gfence().unwrap();
    assert_eq!(narrow.at(first, 1).unwrap().read(context).unwrap(), -7);
    assert_eq!(narrow.at(first, 0).unwrap().read(context).unwrap(), 0, "its neighbour is untouched");
    let turn = wide.at(first, 1).unwrap();
    // The tasks change the element in turn.
    let own = i64::from(context.task().0);
    while turn.compare_exchange(context, own, own + 1).unwrap().is_err() {}
    context.gfence().unwrap();
    assert_eq!(turn.read(context).unwrap(), i64::from(tasks));
    context.gfence().unwrap();
    drop((wide, narrow));
    heap.close(context).unwrap().unwrap();
}

/// Pointers into a heap are refused after its end, also when another heap is made; pointers into a heap that lives are not. A pointer that
/// came as bytes reaches the same element.
fn pointers_of_an_ended_heap<F: Fabric>(context: &mut Context<F>) {
    let mut heap = SymmetricHeap::new(context, 256).unwrap();
    let mut lasting = SymmetricHeap::new(context, 256).unwrap();
    let (ended, lives) = (heap.alloc::<u64>(4).unwrap(), lasting.alloc::<u64>(4).unwrap());
    let next = next(context).task;
    let (old, live) = (ended.at(next, 3).unwrap(), lives.at(next, 3).unwrap());
    old.write(context, 8).unwrap();
    assert_eq!(GlobalPointer::from_bytes(old.to_bytes()).swap(context, 9_u64).unwrap(), 8);
    live.write(context, 5).unwrap();
    context.gfence().unwrap();
    assert_eq!((ended.get(3).unwrap(), old.read(context).unwrap()), (9, 9));
    drop(ended);
    heap.close(context).unwrap().unwrap();
    context.gfence().unwrap();
    let is_refused = |error: &Error| matches!(error, Error::RemoteRange { .. } | Error::Refused { .. });
    for _ in 0..2 {
        let error = old.read(context).unwrap_err();
        assert!(is_refused(&error), "{error}");
        let error = old.fetch_add(context, 1).unwrap_err();
        assert!(is_refused(&error), "{error}");
        assert_eq!(live.fetch_add(context, 0).unwrap(), 5);
        let other = Segment::<u64>::new(context, 4).unwrap();
        // The peer may refuse a write that came as a message: the fence tells it then.
        let (written, fenced) = (old.write(context, 77), context.gfence());
        let error = written.and(fenced).unwrap_err();
        assert!(is_refused(&error), "{error}");
        quiet_gfence(context);
        assert_eq!(other.to_vec(), [0; 4]);
    }
    quiet_gfence(context);
}

/// All items arrive, those of a task in the order in which it has pushed them. An item for no task, or that no packet can hold, is refused.
fn aggregated_items<F: Fabric>(context: &mut Context<F>) {
    type Item = [u32; 3];
    const ITEMS: u32 = 5000;
    let got = Arc::new(Mutex::new(Vec::<(TaskId, Item)>::new()));
    let into = Arc::clone(&got);
    let take = super::common::register(context, move |message| {
        let (source, mut got) = (message.source.task, into.lock().unwrap());
        pgas::items(message, |item: Item| got.push((source, item)));
        Answer::discard()
    });
    let (own, tasks) = (context.task().0, context.num_tasks());
    context.gfence().unwrap();
    let mut aggregator = Aggregator::<Item>::new(context, take, 1000).unwrap();
    for number in 0..ITEMS {
        aggregator.push(context, TaskId(number % tasks), [own, number, !number]).unwrap();
    }
    let error = aggregator.push(context, TaskId(tasks), [0; 3]).unwrap_err();
    assert!(matches!(error, Error::UnknownTask { .. }), "{error}");
    aggregator.flush(context).unwrap();
    assert!(aggregator.messages() < u64::from(ITEMS) / 2 + u64::from(tasks), "{}", aggregator.messages());
    let error = Aggregator::<[[u64; 512]; 256]>::new(context, take, 1).unwrap_err();
    assert!(matches!(error, Error::Exhausted { needed: 0x10_0000, .. }), "{error}");
    context.gfence().unwrap();
    let got = std::mem::take(&mut *got.lock().unwrap());
    for source in 0..tasks {
        let items = got.iter().filter(|(from, _)| from.0 == source).map(|(_, item)| *item);
        let expected = (own..ITEMS).step_by(tasks as usize).map(|number| [source, number, !number]);
        assert!(items.eq(expected), "the items of {source}");
    }
    context.gfence().unwrap();
}

/// Typed transfers on borrowed memory, which the end of the scope waits for.
fn scope<F: Fabric>(context: &mut Context<F>) {
    let segment = Segment::<u32>::new(context, 4000).unwrap();
    let (to, own) = (segment.at(next(context).task, 0).unwrap(), context.task().0);
    let values: Vec<u32> = (0..2000).map(|at| own * 10_000 + at).collect();
    let mut back = vec![0; 2000];
    context
        .scope(|scope| {
            to.put_in(scope, &values, PutOptions::default()).unwrap();
            to.plus(2000).unwrap().put_in(scope, &values, PutOptions::default()).unwrap();
        })
        .unwrap();
    context.gfence().unwrap();
    context
        .scope(|scope| to.plus(1000).unwrap().get_in(scope, &mut back, GetOptions::default()))
        .unwrap()
        .unwrap();
    assert_eq!(back[..1000], values[1000..]);
    assert_eq!(back[1000..], values[..1000]);
}

/// Runs a future to its end.
trait Executor {
    fn run<T, F: Fabric, H: HandlerSet>(
        self,
        session: &Session<'_, F, H>,
        future: impl Future<Output = T>,
    ) -> T;
}

struct OwnExecutor;

impl Executor for OwnExecutor {
    fn run<T, F: Fabric, H: HandlerSet>(
        self,
        session: &Session<'_, F, H>,
        future: impl Future<Output = T>,
    ) -> T {
        session.block_on(future).unwrap()
    }
}

/// An executor that knows nothing of sessions: it polls only futures that were woken.
struct OtherExecutor;

struct Wakes(AtomicU64);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Executor for OtherExecutor {
    fn run<T, F: Fabric, H: HandlerSet>(self, _: &Session<'_, F, H>, future: impl Future<Output = T>) -> T {
        let wakes = Arc::new(Wakes(AtomicU64::new(1)));
        let waker = Waker::from(Arc::clone(&wakes));
        let mut future = pin!(future);
        loop {
            assert!(
                wakes.0.swap(0, Ordering::Relaxed) > 0,
                "the waker must run: without it nothing polls again"
            );
            if let Poll::Ready(value) = future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
                return value;
            }
            std::thread::yield_now();
        }
    }
}

/// Puts with target counters, waits for a counter, rmws and gets, all as futures.
fn futures<F: Fabric>(context: &mut Context<F>, executor: impl Executor) {
    let arrived = context.counter().unwrap();
    let segment = Segment::<u64>::new(context, 1000).unwrap();
    let sum = Segment::<u64>::new(context, 1).unwrap();
    let (next, previous, own) = (next(context).task, previous(context).task, context.task());
    let tasks = context.num_tasks();
    let session = Session::new(context);
    let program = async {
        let puts = (0..10).map(|part: u64| {
            let to = segment.at(next, part * 100).unwrap();
            let mut bytes = JobBuffer::zeroed(800);
            bytes.fill(own.0 as u8 + part as u8);
            session.start(
                Put {
                    to: to.address(),
                    options: PutOptions { target: Some(arrived.name()), ..PutOptions::default() },
                },
                bytes,
            )
        });
        for buffer in join_all(puts).await {
            assert_eq!(buffer.unwrap().len(), 800);
        }
        // Two waits for one counter, each for a part of its value.
        for taken in join_all([session.counter(arrived, 4), session.counter(arrived, 6)]).await {
            taken.unwrap();
        }
        let first = sum.at(TaskId(0), 0).unwrap();
        let adds: Vec<_> = (0..20).map(|_| session.rmw(first, AtomicOp::FetchAdd(1))).collect();
        for old in join_all(adds).await {
            assert!(old.unwrap() < 20 * u64::from(tasks));
        }
        let got = session.start(
            Get { from: segment.at(own, 0).unwrap().address(), options: GetOptions::default() },
            JobBuffer::zeroed(8),
        );
        assert_eq!(*got.await.unwrap(), [previous.0 as u8; 8]);
        assert_eq!(
            session.read(segment.at(own, 0).unwrap()).await.unwrap().to_le_bytes()[0],
            previous.0 as u8
        );
    };
    executor.run(&session, program);
    drop(session);
    assert_eq!(context.counter_value(arrived).unwrap(), 0);
    context.gfence().unwrap();
    assert_eq!(sum.at(TaskId(0), 0).unwrap().read(context).unwrap(), 20 * u64::from(tasks));
    context.remove_counter(arrived);
}

/// An operation completes even if its future is dropped; a dropped wait for a counter leaves the counter as it is.
fn future_dropped<F: Fabric>(context: &mut Context<F>) {
    let arrived = context.counter().unwrap();
    let segment = Segment::<u8>::new(context, 4096).unwrap();
    let next = next(context).task;
    let session = Session::new(context);
    let mut bytes = JobBuffer::zeroed(4096);
    bytes.fill(9);
    let to = segment.at(next, 0).unwrap().address();
    drop(session.start(
        Put { to, options: PutOptions { target: Some(arrived.name()), ..PutOptions::default() } },
        bytes,
    ));
    drop(session.counter(arrived, 1));
    session.block_on(session.counter(arrived, 1)).unwrap().unwrap();
    drop(session);
    assert_eq!(segment.to_vec(), [9; 4096]);
    context.remove_counter(arrived);
    context.gfence().unwrap();
}

/// The buffer is returned with the error.
fn future_that_fails<F: Fabric>(context: &mut Context<F>) {
    let segment = Segment::<u64>::new(context, 8).unwrap();
    let beyond = segment.at(next(context).task, 0).unwrap().address().plus(1 << 40);
    let session = Session::new(context);
    let get = session.start(Get { from: beyond, options: GetOptions::default() }, JobBuffer::zeroed(16));
    // With this executor, the error of the peer's invalid get does not end the wait for this task's own get.
    let returned = OtherExecutor.run(&session, get).unwrap_err();
    assert_eq!(returned.buffer.len(), 16);
    let is_about_range = matches!(returned.error, Error::RemoteRange { .. } | Error::Refused { .. });
    assert!(is_about_range, "{}", returned.error);
    drop(session);
    quiet_gfence(context);
    drain(context);
}
