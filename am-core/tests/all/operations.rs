//! Operations and names that the conformance suite does not reach: handles of another context, words and pointers at the edge.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use am_core::buffer::{Access, Executor, JobBuffer, RemoteAddress};
use am_core::error::Error;
use am_core::handler::{Answer, Completion, Message};
use am_core::pgas::GlobalPointer;
use am_core::task::TaskId;
use am_core::transfer::{AtomicOp, Width};
use am_core::{Accumulation, AmOptions, Amsend, Context, Get, GetOptions, PutOptions};
use am_core_conform::watchdog::Watchdog;
use am_double::{Config, Reach, network};

/// Two contexts use the same numbers for their operations.
#[test]
fn a_handle_of_another_context_is_refused() {
    let (_, endpoints) = network(Config { reach: Reach::Staged, atomics: Reach::Staged, ..Config::new(2) });
    let mut nodes: Vec<_> = endpoints.into_iter().map(Context::new).collect();
    let regions: Vec<_> = nodes
        .iter_mut()
        .map(|node| node.expose(JobBuffer::zeroed(64), Access::READ_WRITE).unwrap())
        .collect();
    let mut begin = |own: usize| {
        let (node, at) = (&mut nodes[own], regions[1 - own].address(0));
        let get = Get { from: at, options: GetOptions::default() };
        let got = node.start(get, JobBuffer::zeroed(8)).unwrap();
        (got, node.rmw_nonblocking(at, Width::Bits64, AtomicOp::FetchAdd(1), None).unwrap())
    };
    let (of_first, _of_second) = (begin(0), begin(1));
    let (got, added) = of_first;
    assert!(matches!(nodes[1].try_owned(got), Err(Error::UnknownHandle { .. })));
    assert!(matches!(nodes[1].rmw_result(added), Err(Error::UnknownHandle { .. })));
}

#[test]
fn a_pointer_from_bytes_with_any_count_stays_in_its_range() {
    let pointer = GlobalPointer::<u64>::from_bytes([0xff; RemoteAddress::BYTES + 8]);
    assert!(matches!(pointer.plus(u64::MAX / 2), Err(Error::RemoteRange { .. })));
}

/// What a task fetches in one call is limited; the limit cuts no word of an accumulation.
#[test]
fn an_accumulation_that_is_fetched_after_an_odd_length_is_whole() {
    let _watchdog = Watchdog::new("an accumulation after an odd length".to_owned(), Duration::from_secs(60));
    let (_, endpoints) = network(Config::new(2));
    let mut nodes: Vec<_> = endpoints.into_iter().map(Context::new).collect();
    let mut handler = None;
    for node in &mut nodes {
        let into = |message: &Message<'_>| {
            Answer::owned(JobBuffer::zeroed(usize::try_from(message.len).unwrap()), Completion::None)
        };
        handler = Some(node.register_handler(into).unwrap());
    }
    let words = 500_000;
    let (mut origin, mut owner) = (nodes.remove(0), nodes.remove(0));
    let region =
        owner.expose_with(JobBuffer::zeroed(8 * words), Access::READ_WRITE, Executor::Owner).unwrap();
    let at = region.address(0);
    let announced = AmOptions::default();
    let send = Amsend { target: TaskId(1), handler: handler.unwrap(), uhdr: &[], options: announced };
    let odd = JobBuffer::from(vec![1; (12 << 20) + 1_000_001]);
    let sent = origin.start(send, odd).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let values = vec![3_u64; words];
            origin.accumulate(at, &values, Accumulation::Add, PutOptions::default()).unwrap();
            drop(origin.wait_owned(sent).unwrap());
            is_done.store(true, Ordering::Release);
        });
        // Both messages are in the queue.
        std::thread::sleep(Duration::from_millis(50));
        while !is_done.load(Ordering::Acquire) {
            owner.probe().unwrap();
        }
    });
    let mut bytes = vec![0; 8 * words];
    region.read(0, &mut bytes).unwrap();
    assert!(bytes.chunks_exact(8).all(|word| word == 3_u64.to_le_bytes()));
}
