//! Memory lent to an operation is not accessed after a wait that a panic has ended.

#![expect(
    clippy::cast_possible_truncation,
    clippy::unwrap_used,
    reason = "a test: lengths are small, and a failure panics"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use am_core::buffer::{Access, JobBuffer, PacketWriter, RemoteAddress};
use am_core::error::Outcome;
use am_core::handler::{Answer, Completion, Delivered, HandlerId, HandlerSet, Message};
use am_core::transfer::Gatherer;
use am_core::vector::{Layout, PiecesMut};
use am_core::{AmOptions, Amsend, Context, Get, GetOptions};
use am_core_conform::watchdog::Watchdog;
use am_double::{Config, Double, Reach, network};

const LEN: usize = 50_000;

/// Panics when asked for its second piece, and on every later call.
#[derive(Debug)]
struct Panics;

impl Gatherer for Panics {
    fn len(&self) -> u64 {
        LEN as u64
    }

    fn gather(&mut self, offset: u64, _len: usize, _writer: &mut PacketWriter<'_>) {
        assert_eq!(offset, 0, "as planned");
    }
}

/// A handler set of a library, whose panics are not caught.
#[derive(Debug)]
struct Library;

impl HandlerSet for Library {
    const RUNS_USER_CODE: bool = false;

    fn header(&mut self, _id: HandlerId, _message: &Message<'_>) -> Option<Answer> {
        None
    }

    fn complete_request(&mut self, _request: u64, _delivered: Delivered) {}

    fn count(&self) -> usize {
        0
    }
}

/// Runs a blocking read, during whose wait a gatherer panics. Then overwrites the memory of the read, frees it if `is_dropped`, and
/// handles everything that is still in flight.
fn read_that_unwinds(
    read: impl FnOnce(&mut Context<Double, Library>, RemoteAddress, &mut [u8]),
    is_dropped: bool,
) {
    let _watchdog = Watchdog::new("a read that unwinds".to_owned(), Duration::from_secs(60));
    let (_network, endpoints) = network(Config { reach: Reach::Staged, ..Config::new(2) });
    let [reader, owner]: [_; 2] = endpoints.try_into().unwrap();
    let (mut reader, mut owner) = (Context::with_handlers(reader, Library), Context::new(owner));
    let handler = owner
        .register_handler(|message| Answer::owned(JobBuffer::zeroed(message.len as usize), Completion::None))
        .unwrap();
    let memory = owner.alloc(LEN).unwrap();
    let exposed = owner.expose(memory, Access::READ).unwrap();
    let from = exposed.address(0);
    let target = owner.endpoint();
    let message = Amsend { target, handler, uhdr: &[], options: AmOptions::default() };
    let sent = reader.amsend_gather(message, Panics, None).unwrap();
    assert_eq!(sent, Outcome::Posted);
    // The owner asks for the message in pieces; the reader receives this request in its wait.
    while owner.probe().unwrap() {}
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // `probe` reports that the reader withdrew an operation, which is no error here.
                let _ = owner.probe();
            }
        });
        let mut into = vec![1u8; LEN];
        let unwound = catch_unwind(AssertUnwindSafe(|| read(&mut reader, from, &mut into)));
        assert!(unwound.is_err());
        into.fill(7);
        let again = (!is_dropped).then_some(into);
        for _ in 0..1000 {
            let _ = catch_unwind(AssertUnwindSafe(|| reader.probe()));
        }
        stop.store(true, Ordering::Relaxed);
        assert!(
            again.is_none_or(|into| into.iter().all(|&byte| byte == 7)),
            "a read has written after its borrow"
        );
    });
    drop(owner.unexpose(exposed).unwrap());
}

#[test]
fn a_borrow_lasts_as_long_as_its_operation_where_a_wait_unwinds() {
    for is_dropped in [false, true] {
        read_that_unwinds(
            |context, from, to| context.get(from, to, GetOptions::default()).unwrap(),
            is_dropped,
        );
        read_that_unwinds(
            |context, from, to| {
                let layout = Layout::contiguous(0, LEN as u64).unwrap();
                let get = Get { from: (from, &layout), options: GetOptions::default() };
                context.run(get, PiecesMut::Slices(&mut [to])).unwrap();
            },
            is_dropped,
        );
        read_that_unwinds(
            |context, from, to| {
                let (first, second) = to.split_at_mut(LEN / 2);
                context
                    .scope(|scope| {
                        let options = GetOptions::default();
                        scope.start(Get { from, options }, first).unwrap();
                        scope.start(Get { from: from.plus(100), options }, second).unwrap();
                    })
                    .unwrap();
            },
            is_dropped,
        );
    }
}
