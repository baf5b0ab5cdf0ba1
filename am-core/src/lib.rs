//! One-sided active messages in the manner of LAPI: put, get, amsend, rmw, counters, handlers, fences.
//!
//! # The model
//!
//! A job is a number of *tasks*, each a process. A task opens a [`Context`] over a [`Fabric`] (the transport), and communicates with the
//! contexts of other tasks:
//!
//! * **put** and **get** move bytes between memory of this task and memory that another task has *exposed*. The other task
//!   need not do anything.
//! * **rmw** operates atomically on a word of exposed memory, **accumulate** on an array of words.
//! * The data of a put, get or message may lie in several pieces, at either side ([`vector`]).
//! * **amsend** sends a message to a *header handler* of the target. The handler sees the message's sender, its short *user header* and the
//!   length of its data, and returns the destination of the data (a buffer, a part of exposed memory, a sink, none, or *later*) and the
//!   *completion handler* that runs when the data are stored: a predefined one, a closure, or one on the handler thread.
//! * A **call** is a message whose handler is a function with typed arguments and a typed result ([`call`]).
//! * **Counters** count completions: each operation can bump one at its origin (the memory may be reused), one at the target
//!   (the bytes are stored, the completion handler has run) and another one at the origin (the target is done). A wait for a
//!   counter subtracts the value that it waited for.
//! * **Fences** wait for all earlier operations: for their data, or also for their handlers; the collective fence is also a barrier.
//!
//! Everything happens inside calls: a context makes progress in every call that waits, in get and rmw, and in [`probe`](Context::probe);
//! amsend and put make progress only if they find no credit. No code runs outside the program's calls, except completion handlers on the
//! handler thread, and all handlers in the interrupt mode of a [`SharedContext`].
//!
//! # What is promised
//!
//! * Safe code, bugs and panics included, corrupts the memory of no task. Peers write only into memory that an operation has lent them or
//!   that was exposed, and neither is behind a reference meanwhile. Whatever destination a header handler returns, no data are written to
//!   memory that an operation has lent for reading. One limit is known: data races within one process (below).
//! * Packets are claims. Each field is checked where it is read. A wrong field leads to an error that names the party at fault.
//! * Messages from one context to another reach their header handlers in the order in which they were sent. Nothing else is ordered, except
//!   by a fence.
//! * A message that may be answered has reserved a credit for its answer, so a handler never waits, and answers do not queue without
//!   bound. Handlers get nothing that communicates, and a communicating call inside one is an error.
//! * The death of a task ends all operations under way to it with an error that names the task. A program, too, can end the operations to a
//!   task, by [`purge_totask`](Context::purge_totask), and resume communication with it later. An operation's memory is returned when
//!   nothing copies from it any more.
//! * On the path of a small message there is no allocation, no system call and no lock.
//!
//! # What is not promised
//!
//! * A task that writes to job memory without this crate (by C, `unsafe` code or files in `/proc`, or as an attacker) is not contained.
//!   Tasks map each other's job memory, so such a task can change all of it.
//! * A peer that breaks the protocol and ignores its credits can make this task use memory without bound.
//! * Threads of *one process* can have a data race on exposed memory. [`Exposed`] reads and writes by relaxed atomics, but the engine and
//!   the fabrics copy by plain instructions. So a put or get races with a local access to the same bytes if both happen in one process at
//!   the same time: between two contexts of one task, and over the networks of tests. Rust does not define what follows. On x86-64 we know
//!   of no other effect than a mixture of old and new bytes. Programs avoid it as they avoid mixtures between processes: by a counter or a
//!   fence between the two accesses. The same holds if atomics of 32 bits and of 64 bits access the same bytes.
//!
//! # A program
//!
//! Each of two tasks sends the other a greeting, and puts a number into the other's memory. Over a real fabric each would be a process;
//! here they are threads over a network for tests, `am-via/double`.
//!
//! ```
//! use am_core::prelude::*;
//! use am_core_conform::threads;
//! use am_double::{Config, Double, network};
//!
//! fn task(context: &mut Context<Double>) -> am_core::Result<()> {
//!     let other = TaskId(1 - context.task().0);
//!     // Tasks that make their counters and handlers in the same order have the same names for them.
//!     let (greeted, written) = (context.counter()?, context.counter()?);
//!     let greeting = context.register_handler(move |message| {
//!         assert_eq!(message.uhdr, b"hello");
//!         let buffer = JobBuffer::zeroed(message.len as usize);
//!         Answer::owned(buffer, Completion::Bump(greeted))
//!     })?;
//!     let memory = context.alloc(4096)?;
//!     let region = context.expose(memory, Access::READ_WRITE)?;
//!     // Collective: every task gets the address of every other. After the call, all tasks are ready.
//!     let addresses = context.address_init(region.address(0))?;
//!
//!     context.amsend(other, greeting, b"hello", &[7; 1000], AmOptions::default())?;
//!     let options = PutOptions { target: Some(written.name()), ..PutOptions::default() };
//!     context.put(addresses[other.index()].plus(8), &42u64.to_le_bytes(), options)?;
//!
//!     context.wait_counter(greeted, 1)?;
//!     context.wait_counter(written, 1)?;
//!     assert_eq!(region.load_u64(8)?, 42);
//!     context.gfence()
//! }
//!
//! let (_, endpoints) = network(Config::new(2));
//! threads::run(endpoints, |context| task(context).expect("both tasks run"));
//! ```
//!
//! Memory that an operation uses cannot be changed; this does not compile:
//!
//! ```compile_fail,E0506
//! # use am_core::{Context, Put, PutOptions, buffer::RemoteAddress};
//! # use am_double::Double;
//! fn wrong(context: &mut Context<Double>, to: RemoteAddress) {
//!     let mut bytes = [1; 8];
//!     let _ = context.scope(|scope| {
//!         scope.start(Put { to, options: PutOptions::default() }, &bytes).expect("put");
//!         bytes[0] = 2;
//!     });
//! }
//! ```
//!
//! Nor does this compile, because the memory would be freed before the operation ends:
//!
//! ```compile_fail,E0597
//! # use am_core::{Context, Get, GetOptions, buffer::RemoteAddress};
//! # use am_double::Double;
//! fn wrong(context: &mut Context<Double>, from: RemoteAddress) {
//!     let _ = context.scope(|scope| {
//!         let mut bytes = [1; 8];
//!         scope.start(Get { from, options: GetOptions::default() }, &mut bytes).expect("get");
//!     });
//! }
//! ```
//!
//! # Where each call of LAPI is
//!
//! | LAPI | Here |
//! | --- | --- |
//! | `Init`, up to 16 instances | [`Context::new`], with a fabric for each instance; a task can open 16 fabrics of `am-via` |
//! | `Term` | dropping the context |
//! | `Put` | [`Context::put`]; a [`Put`], which [`Context::start`], [`Scope::start`] and [`Session::start`] begin without waiting |
//! | `Get` | [`Context::get`]; [`Get`] |
//! | `Putv`, `Getv` | [`Context::run`] with [`Put`] and [`Get`] to or from a [`Layout`], and [`Pieces`] |
//! | `Amsend` | [`Context::amsend`]; [`Amsend`] |
//! | `Amsendv` | [`Context::run`] with [`Amsend`] and [`Pieces`]; the header handler answers [`Answer::scatter`] |
//! | header handler, `lapi_return_info_t` | [`Message`] in, [`Answer`] out: deliver ([`Destination`]), bury ([`Answer::discard`]), scatter ([`Answer::scatter`], [`Sink`]); where a handler of LAPI drops a packet, which is then sent again: [`Answer::later`] |
//! | `LAPI_NORMAL`, `LAPI_LOCAL_STATE`, `LAPI_SEND_REPLY` | [`Completion::Thread`], [`Completion::Call`] and the predefined ones, [`Completion::Reply`], which goes to the source |
//! | `Rmw`, `Rmw64` | [`Context::rmw`] with [`AtomicOp`] and [`Width`]; [`rmw_nonblocking`](Context::rmw_nonblocking), [`rmw_nonfetching`](Context::rmw_nonfetching) |
//! | `Xfer` | a call for each transfer. For the send completion handler: an owned operation returns its buffer and its result ([`Context::try_owned`], or a future of [`Session`]). For DGSPs: [`Sink`] and [`Gatherer`] |
//! | `Setcntr`, `Getcntr` | [`Context::set_counter`], [`Context::counter_value`] |
//! | `Waitcntr` | [`Context::wait_counter`]; [`wait_counter_for`](Context::wait_counter_for) with a limit |
//! | `Nopoll_wait` | [`SharedContext::wait_counter_without_polling`] |
//! | `Setcntr_wstatus` | [`Context::set_counter_watched`], [`Context::counter_destinations`] |
//! | `Address` | [`Exposed::address`](crate::buffer::Exposed::address), [`RemoteAddress::to_bytes`](crate::buffer::RemoteAddress::to_bytes) |
//! | `Address_init` | [`Context::address_init`], [`Context::exchange`] |
//! | `Addr_set`, `Addr_get` | [`Context::register_handler`]: numbers in the order of registration |
//! | `Fence` | [`Context::fence_data`]; [`fence_ops`](Context::fence_ops) waits for handlers too |
//! | `Gfence` | [`Context::gfence`] |
//! | `Probe`, `Msgpoll` | [`Context::probe`], [`Context::msgpoll`], [`SharedContext::msgpoll`] |
//! | `Msg_string` | the text of [`Error`], and whose [`fault`](crate::error::Error::fault) it is |
//! | `Purge_totask`, `Resume_totask` | [`Context::purge_totask`], [`Context::resume_totask`] |
//! | `Qenv`, `Senv` | [`Context::query`], [`Context::set`], [`Query::of_name`]; `INTERRUPT_SET`: [`SharedContext::set_interrupts`]; statistics: [`Context::statistics`], [`Context::peer_statistics`] |
//! | `Util` | pack and unpack: [`Layout::pack`], [`Layout::unpack`]; reduction functions: [`Context::accumulate`]; notification of a write: [`PutOptions::target`]; the lock that users share: [`SharedContext::with`] |
//! | `Group_create`, `Group_free`, multicast | [`Context::group`], dropping it, [`Context::multicast`] |
//! | profiling layer | a [`Fabric`] around another one sees each packet and transfer, as the turns of `am-core/conform` do |
//!
//! # Where to look
//!
//! [`prelude`] has the names that most programs need. [`call`] is for functions that run at another task and return their result.
//! [`shared`] is a context for several threads, with interrupts if the program wants them. [`context`] opens a context; the operations are
//! its methods, one file each in `verbs`. [`handler`] documents what handlers receive and may return. The protocol, the meaning of packets,
//! is a crate of its own, `am-core-engine`, without input, output, clock or threads. [`pgas`] is for programs that see one memory over all
//! tasks. [`fabric`] has the traits that a transport implements. [`buffer`] has the `unsafe` blocks, except those of test fabrics.

#![expect(
    clippy::cast_possible_truncation,
    reason = "lengths are u64 on the wire and usize in memory, which have the same width here (asserted below); narrower \
              numbers are truncated where a format says so, after they were checked"
)]

pub mod buffer;
pub mod call;
/// Public, since the conformance suite asks it what a handler may do; no part of the interface.
#[doc(hidden)]
pub mod call_guard;
pub mod context;
mod deferred_calls;
pub mod handler;
mod handler_thread;
pub mod pgas;
pub mod prelude;
pub mod record;
pub mod shared;
pub mod turns;
mod user_code;
mod verbs;
mod wait;

const _: () = assert!(usize::BITS == 64, "am-core counts bytes of memory in 64 bits");

#[cfg(doc)]
use crate::{
    fabric::Fabric,
    handler::{Destination, Sink},
    pgas::Session,
    transfer::Gatherer,
    vector::{Layout, Pieces},
};

#[doc(inline)]
pub use am_core_engine::{counter, error, fabric, task, transfer, vector};

pub use am_core_engine::protocol::statistics::Statistics;
pub use buffer::{Access, Exposed, JobBuffer, RemoteAddress};
pub use call::{Function, Local};
pub use context::{Context, Description, Limits};
pub use counter::{Counter, CounterName};
pub use error::{Error, Result};
pub use handler::{Answer, Completion, HandlerId, Message, Reply};
pub use shared::SharedContext;
pub use task::{Endpoint, TaskId};
pub use transfer::{AtomicOp, Width};
pub use verbs::{
    Accumulation, AmOptions, Amsend, AmsendInPieces, Element, Get, GetOptions, Group, Operation, OwnedHandle,
    PeerStatistics, PollReason, Put, PutOptions, Query, Returned, RmwHandle, Scope,
};
