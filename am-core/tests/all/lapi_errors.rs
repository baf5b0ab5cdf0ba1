//! LAPI's errors, one by one. The tests cause each error that can occur, and check that it names the party at fault and the values. For
//! each other error this file gives the reason why it cannot occur.
//!
//! A name stands for its code `LAPI_ERR_*`, and `*` for a family of codes. Each job here has two tasks in one process. The conformance
//! suite checks many of these errors on every fabric, and between processes.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::time::Duration;

use am_core::buffer::{Access, JobBuffer, RemoteAddress};
use am_core::error::{Error, Fault};
use am_core::handler::{Answer, HandlerId};
use am_core::shared::SharedContext;
use am_core::task::{Endpoint, TaskId};
use am_core::transfer::{AtomicOp, Width};
use am_core::vector::{Layout, Pieces};
use am_core::{Accumulation, AmOptions, Context, GetOptions, Put, PutOptions, Query};
use am_core_conform::watchdog::Watchdog;
use am_double::{Config, Double, Network, network};

type Node = Context<Double>;

/// Two tasks; the second has exposed 64 bytes.
struct Job {
    network: Network,
    origin: Node,
    target: Node,
    at: RemoteAddress,
    handler: HandlerId,
}

fn job() -> Job {
    let (network, endpoints) = network(Config::new(2));
    let [mut origin, mut target]: [Node; 2] =
        endpoints.into_iter().map(Context::new).collect::<Vec<_>>().try_into().unwrap();
    let at = target.expose(JobBuffer::zeroed(64), Access::READ_WRITE).unwrap().address(0);
    let handler = origin.register_handler(|_| Answer::discard()).unwrap();
    target.register_handler(|_| Answer::discard()).unwrap();
    Job { network, origin, target, at, handler }
}

/// The next error of a task while both make progress.
fn next_error(of: &mut Node, other: &mut Node) -> Error {
    loop {
        if let Err(error) = of.probe() {
            return error;
        }
        let _ = other.probe();
    }
}

/// Causes an error.
type Make = fn(Job) -> Error;

/// An error: name, party at fault, texts of the message, and the function that causes it.
const ARISE: [(&str, Fault, &[&str], Make); 24] = [
    ("HNDL_INVALID", Fault::Peer, &["task 1", "closed"], |job| {
        let Job { mut origin, target, handler, .. } = job;
        drop(target);
        loop {
            // The news that the target has left may still be under way.
            if let Err(error) = origin.amsend(TaskId(1), handler, &[], &[1], AmOptions::default()) {
                return error;
            }
            origin.probe().unwrap();
        }
    }),
    ("TGT", Fault::Caller, &["task 7", "0 to 1"], |mut job| {
        job.origin.amsend(TaskId(7), job.handler, &[], &[], AmOptions::default()).unwrap_err()
    }),
    ("UHDR_LEN", Fault::Caller, &["100000"], |mut job| {
        let options = AmOptions::default();
        job.origin.amsend(TaskId(1), job.handler, &[0; 100_000], &[], options).unwrap_err()
    }),
    ("TGT_ADDR_NULL", Fault::Caller, &["task 1", "exchange addresses again"], |mut job| {
        let grant = am_core::buffer::Grant { generation: job.at.grant.generation + 1, ..job.at.grant };
        job.origin.put(RemoteAddress { grant, ..job.at }, &[1], PutOptions::default()).unwrap_err()
    }),
    ("DATA_LEN", Fault::Caller, &["task 1", "65", "64"], |mut job| {
        job.origin.put(job.at, &[1; 65], PutOptions::default()).unwrap_err()
    }),
    ("ORG_ADDR_NULL", Fault::Caller, &["offset 56", "63"], |mut job| {
        // A borrow cannot be null; a layout may describe elements that the slice does not have.
        let layout = Layout::strided(0, 8, 8, 8).unwrap();
        let from = Pieces::Layout(&[0; 63], &layout);
        job.origin.run(Put { to: (job.at, &layout), options: PutOptions::default() }, from).unwrap_err()
    }),
    ("HDR_HNDLR_NULL, at the origin", Fault::Caller, &["handler 5", "task 1"], |job| {
        let Job { mut origin, mut target, .. } = job;
        let unknown = HandlerId(5);
        let options = AmOptions { answerable: true, ..AmOptions::default() };
        origin.amsend(TaskId(1), unknown, &[], &[1], options).unwrap();
        next_error(&mut origin, &mut target)
    }),
    ("HDR_HNDLR_NULL, at the target", Fault::Peer, &["handler 5", "task 0"], |job| {
        let Job { mut origin, mut target, .. } = job;
        let unknown = HandlerId(5);
        origin.amsend(TaskId(1), unknown, &[], &[1], AmOptions::default()).unwrap();
        next_error(&mut target, &mut origin)
    }),
    ("CNTR_NULL", Fault::Caller, &["counter"], |mut job| {
        let counter = job.origin.counter().unwrap();
        job.origin.remove_counter(counter);
        job.origin.wait_counter(counter, 1).unwrap_err()
    }),
    ("ADDR_HNDL_RANGE", Fault::Resource, &["handler numbers", "4096"], |mut job| {
        loop {
            if let Err(error) = job.origin.register_handler(|_| Answer::discard()) {
                return error;
            }
        }
    }),
    ("QUERY_TYPE", Fault::Caller, &["COLOUR"], |_| Query::of_name("COLOUR").unwrap_err()),
    ("SET_VAL", Fault::Caller, &["TIMEOUT", "100000"], |mut job| {
        job.origin.set(Query::Timeout, 100_000).unwrap_err()
    }),
    ("RMW_OP", Fault::Caller, &["f64", "exclusive or"], |mut job| {
        let options = PutOptions::default();
        job.origin.accumulate(job.at, &[1.0], Accumulation::Xor, options).unwrap_err()
    }),
    ("TGT_VAR_NULL", Fault::Caller, &["task 1", "64"], |mut job| {
        job.origin.rmw(job.at.plus(64), Width::Bits64, AtomicOp::FetchAdd(1)).unwrap_err()
    }),
    ("OP_SZ", Fault::Caller, &["8 bytes", "0x4"], |mut job| {
        job.origin.rmw(job.at.plus(4), Width::Bits64, AtomicOp::FetchAdd(1)).unwrap_err()
    }),
    ("ORG_EXTENT, TGT_EXTENT", Fault::Caller, &["2^64"], |_| Layout::strided(u64::MAX, 1, 2, 2).unwrap_err()),
    ("ORG_STRIDE, TGT_STRIDE", Fault::Caller, &["stride of 7", "8"], |_| {
        Layout::strided(0, 8, 7, 2).unwrap_err()
    }),
    ("VEC_LEN_DIFF", Fault::Caller, &["9", "8"], |mut job| {
        let layout = Layout::strided(0, 4, 8, 2).unwrap();
        job.origin
            .run(Put { to: (job.at, &layout), options: PutOptions::default() }, Pieces::Slices(&[&[1; 9]]))
            .unwrap_err()
    }),
    ("PACK_SZ", Fault::Caller, &["13"], |_| {
        let layout = Layout::strided(0, 4, 10, 2).unwrap();
        layout.pack(&[0; 13], &mut [0; 8], &mut 0).unwrap_err()
    }),
    ("MULTIPLE_WAITERS", Fault::Caller, &["counter"], |mut job| {
        let counter = job.origin.counter().unwrap();
        let shared = SharedContext::new(job.origin);
        let waits = |shared: &SharedContext<Double>| shared.wait_counter_without_polling(counter, 1);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| waits(&shared));
            let second = scope.spawn(|| waits(&shared));
            while !first.is_finished() && !second.is_finished() {
                std::thread::yield_now();
            }
            let error = if first.is_finished() { first.join() } else { second.join() };
            shared.with(|context| context.set_counter(counter, 1)).unwrap();
            error.unwrap().unwrap_err()
        })
    }),
    ("TIMEOUT, SEND_TIMEOUT", Fault::Peer, &["1s"], |mut job| {
        let counter = job.origin.counter().unwrap();
        job.origin.set(Query::Timeout, 1).unwrap();
        job.origin.wait_counter(counter, 1).unwrap_err()
    }),
    ("NO_CONNECTIVITY, SEND_INCOMP", Fault::Peer, &["task 1", "it was killed"], |mut job| {
        job.network.kill(TaskId(1));
        let _ = job.origin.probe();
        job.origin.get(job.at, &mut [0; 8], GetOptions::default()).unwrap_err()
    }),
    ("TGT_PURGED", Fault::Caller, &["task 1", "task 0"], |job| {
        let Job { mut origin, mut target, handler, .. } = job;
        origin.purge_totask(Endpoint::new(TaskId(1), target.endpoint().context)).unwrap();
        let _ = target.probe();
        origin.amsend(TaskId(1), handler, &[], &[1], AmOptions::default()).unwrap_err()
    }),
    ("GRP_*", Fault::Caller, &["task 9", "0 to 1"], |job| job.origin.group(&[TaskId(9)]).unwrap_err()),
];

/// Errors that cannot occur, each with the reason.
const CANNOT_ARISE: [(&str, &str); 15] = [
    ("UHDR_NULL", "a slice is never null"),
    ("HDR_LEN", "a user header may have any length up to the maximum"),
    ("CNTR_VAL", "a value has no sign"),
    ("IN_VAL_NULL", "the operation holds its operands"),
    ("VEC_NUM_DIFF", "both sides may be divided in any way, if they have the same length"),
    ("VEC_TYPE_DIFF", "one side may be a list and the other a stride"),
    ("DGSP_*", "there are sinks, gatherers and layouts instead of datatype programs"),
    ("XFER_CMD", "each transfer has a call of its own"),
    ("UTIL_CMD", "each utility has a call of its own"),
    ("INFO_NONZERO", "there is no structure to fill in"),
    ("LW_DATA_LEN", "a message is as long as its data"),
    ("INVALID_SEND_REPLY_TGT", "a reply names no target: it is sent to the origin"),
    ("ADAPTERS_DOWN", "a fabric that loses its adapter reports the failure of a task"),
    ("RECV_INCOMP", "a message that will never be whole is delivered with its error as its outcome"),
    ("UNKNOWN", "every error has its name"),
];

#[test]
fn every_error_that_can_arise_says_who_is_at_fault_with_values() {
    let _watchdog = Watchdog::new("a walk through LAPI's errors".to_owned(), Duration::from_secs(60));
    let mut wrong = Vec::new();
    for (name, fault, values, make) in ARISE {
        let error = make(job());
        println!("{name}: {error}");
        if error.fault() != fault || !values.iter().all(|value| error.to_string().contains(value)) {
            wrong.push(format!("{name}: not {fault:?} with {values:?}: {error:?}, {error}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_error_is_named_twice() {
    let of = |list: &'static str| list.split(", ").filter(|part| !part.starts_with("at the "));
    let mut names: Vec<&str> = ARISE.iter().flat_map(|entry| of(entry.0)).collect();
    names.dedup();
    names.extend(CANNOT_ARISE.iter().map(|(name, _)| *name));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(CANNOT_ARISE.iter().all(|(_, why)| !why.is_empty()));
}
