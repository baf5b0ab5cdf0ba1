//! Invalid input: an error names the party at fault and the values, nothing hangs, and the context still works.

use super::Check;
use super::common::{Shared, UNTOUCHED, new_counter, next, pattern, previous, register, until};
use am_core::buffer::{Access, Executor, ExposedRange, Grant, JobBuffer, RemoteAddress};
use am_core::context::Context;
use am_core::error::{Error, Fault, RangeFault, Refusal};
use am_core::fabric::{AtomicOp, Fabric, Width};
use am_core::handler::{Answer, Completion, Destination, HandlerId, Ticket};
use am_core::task::{ContextNumber, Endpoint, TaskId};
use am_core::vector::{Layout, Pieces, PiecesMut};
use am_core::{Accumulation, AmOptions, Amsend, Get, GetOptions, Put, PutOptions};

pub(super) fn checks<F: Fabric>() -> Vec<(&'static str, Check<F>)> {
    vec![
        ("errors_unknown_task", unknown_task),
        ("errors_unknown_context", unknown_context),
        ("errors_unknown_handler", unknown_handler),
        ("errors_kept_come_with_the_fence", kept_come_with_the_fence),
        ("errors_unknown_counter", unknown_counter),
        ("errors_remote_ranges", remote_ranges),
        ("errors_rights", rights),
        ("errors_loans_are_no_places", loans_are_no_places),
        ("errors_user_header_too_long", user_header_too_long),
        ("errors_in_handler", in_handler),
        ("errors_tickets", tickets),
    ]
}

/// The next error that progress reports.
pub(super) fn next_error<F: Fabric>(context: &mut Context<F>) -> Error {
    loop {
        if let Err(error) = context.wait_until(|context| context.probe().map(|_| false)) {
            return error;
        }
    }
}

/// The next error, from an earlier call or from progress.
pub(super) fn early_or_next<F: Fabric>(early: &mut Option<Error>, context: &mut Context<F>) -> Error {
    early.take().unwrap_or_else(|| next_error(context))
}

/// Discards the errors that are pending. Each must be about a range.
pub(super) fn drain<F: Fabric>(context: &mut Context<F>) {
    while let Err(error) = context.probe() {
        is_about_a_range(&error);
    }
}

/// Makes progress until `done` holds, and ignores range errors.
fn quiet_until<F: Fabric>(context: &mut Context<F>, done: impl Fn() -> bool) {
    let mut polls = 0;
    while !done() {
        context.rest(&mut polls).expect("no handler is running");
        drain(context);
    }
}

fn is_about_a_range(error: &Error) {
    let is = matches!(error, Error::RemoteRange { .. } | Error::Refused { .. });
    assert!(is, "not about a range: {error}");
}

/// Ends a check in which tasks have caused range errors on purpose, and discards those reported here.
pub(super) fn quiet_gfence<F: Fabric>(context: &mut Context<F>) {
    drain(context);
    if let Err(error) = context.gfence() {
        is_about_a_range(&error);
    }
    drain(context);
}

fn unknown_task<F: Fabric>(context: &mut Context<F>) {
    let handler = register(context, |_| Answer::discard());
    let tasks = context.num_tasks();
    for task in [tasks, tasks + 1, u32::MAX] {
        let address = RemoteAddress {
            task: TaskId(task),
            context: ContextNumber(0),
            executor: Executor::Anyone,
            grant: Grant { region: 0, generation: 0 },
            offset: 0,
        };
        let long = vec![0; context.limits().packet_bytes_max];
        let completion = new_counter(context);
        let target = Some(completion.name());
        let results = [
            context.amsend(TaskId(task), handler, &[], &[], AmOptions::default()),
            context.amsend(TaskId(task), handler, &[], &[0; 100], AmOptions::default()),
            context.amsend(TaskId(task), handler, &[], &long, AmOptions::default()),
            context.put(address, &[1], PutOptions::default()),
            context.put(address, &[1], PutOptions { target, ..PutOptions::default() }),
            context.get(address, &mut [0], GetOptions::default()),
            context.rmw(address, Width::Bits64, AtomicOp::Swap(1)).map(|_| ()),
            context.fence_data(Some(Endpoint::new(TaskId(task), context.endpoint().context))),
            context.ring(Endpoint::new(TaskId(task), context.endpoint().context)),
        ];
        for result in results {
            let error = result.expect_err("there is no such task");
            assert_eq!(error.fault(), Fault::Caller);
            match error {
                Error::UnknownTask { endpoint, num_tasks } => {
                    assert_eq!((endpoint.task, num_tasks), (TaskId(task), tasks));
                }
                other => panic!("the error does not name the task: {other}"),
            }
        }
        context.remove_counter(completion);
    }
}

/// Each operation refuses a context number that no context can have, and leaves nothing pending that a later fence would wait for.
fn unknown_context<F: Fabric>(context: &mut Context<F>) {
    let handler = register(context, |_| Answer::discard());
    let contexts_max = context.limits().contexts_max;
    let task = next(context).task;
    let long = vec![0; context.limits().packet_bytes_max];
    let completion = new_counter(context);
    for number in [contexts_max, contexts_max + 16, 93, u8::MAX] {
        let unknown = Endpoint::new(task, ContextNumber(number));
        let address = RemoteAddress {
            task,
            context: unknown.context,
            executor: Executor::Anyone,
            grant: Grant { region: 0, generation: 0 },
            offset: 0,
        };
        let announced = AmOptions { announce: true, ..AmOptions::default() };
        let target = Some(completion.name());
        let there = Layout::contiguous(0, 1).expect("a layout");
        let mut back = [0];
        let results = [
            context.amsend(unknown, handler, &[], &[], AmOptions::default()),
            context.amsend(unknown, handler, &[], &[0; 100], AmOptions::default()),
            context.amsend(unknown, handler, &[], &long, AmOptions::default()),
            context.amsend(unknown, handler, &[], &[1], announced),
            context.put(address, &[1], PutOptions::default()),
            context.put(address, &[1], PutOptions { target, ..PutOptions::default() }),
            context.get(address, &mut [0], GetOptions::default()),
            context.rmw(address, Width::Bits64, AtomicOp::Swap(1)).map(|_| ()),
            context.fence_data(Some(unknown)),
            context.fence_ops(Some(unknown)),
            context.run(
                Amsend { target: unknown, handler, uhdr: &[], options: AmOptions::default() },
                Pieces::Slices(&[&[1]]),
            ),
            context
                .run(Put { to: (address, &there), options: PutOptions::default() }, Pieces::Slices(&[&[1]])),
            context.run(
                Get { from: (address, &there), options: GetOptions::default() },
                PiecesMut::Slices(&mut [&mut back]),
            ),
            context.accumulate(address, &[1_u64], Accumulation::Add, PutOptions::default()),
            context.purge_totask(unknown),
            context.resume_totask(unknown),
            context.peer_statistics(unknown).map(|_| ()),
            context.ring(unknown),
        ];
        for result in results {
            let error = result.expect_err("no task has this context");
            assert_eq!(error.fault(), Fault::Caller);
            match error {
                Error::UnknownContext { endpoint, contexts_max: most } => {
                    assert_eq!((endpoint, most), (unknown, contexts_max));
                }
                other => panic!("the error does not name the context: {other}"),
            }
        }
    }
    context.remove_counter(completion);
    context.fence_ops(None).expect("nothing was sent to what does not exist");
    context.gfence().expect("gfence");
}

fn unknown_handler<F: Fabric>(context: &mut Context<F>) {
    let registered = context.handlers_count();
    let unknown = HandlerId(4000);
    let packet = context.limits().packet_bytes_max;
    // One-way: the target reports the error, and so does the origin's next fence.
    let options = AmOptions::default();
    context.amsend(next(context), unknown, &[], &[], options).expect("amsend");
    check_unknown_handler(next_error(context), previous(context), registered);
    let error = context.gfence().expect_err("a message was refused");
    assert!(
        matches!(error, Error::Refused { why: Refusal::UnknownHandler { handler: 4000, .. }, .. }),
        "{error}"
    );
    context.gfence().expect("it is told once");
    // Answerable: target and origin report the error. A task that sends to itself gets both errors in its own progress.
    let completion = new_counter(context);
    for len in [0, 100] {
        let options = AmOptions { completion: Some(completion), ..AmOptions::default() };
        context.amsend(next(context), unknown, &[], &vec![0; len], options).expect("amsend");
        let (mut at_target, mut at_origin) = (false, false);
        while !(at_target && at_origin) {
            match next_error(context) {
                Error::Refused { target, why } => {
                    assert_eq!(target, next(context));
                    let wanted = Refusal::UnknownHandler { handler: 4000, registered: registered as u32 };
                    assert_eq!(why, wanted);
                    at_origin = true;
                }
                error => {
                    check_unknown_handler(error, previous(context), registered);
                    at_target = true;
                }
            }
        }
        context.gfence().expect("gfence");
        assert_eq!(context.counter_value(completion).expect("value"), 0);
    }
    context.remove_counter(completion);
    // Announced: the origin's call fails.
    let result = context.amsend(next(context), unknown, &[], &vec![0; packet + 1], AmOptions::default());
    let error = result.expect_err("there is no such handler");
    assert_eq!(error.fault(), Fault::Caller);
    assert!(matches!(error, Error::Refused { why: Refusal::UnknownHandler { handler: 4000, .. }, .. }));
    check_unknown_handler(next_error(context), previous(context), registered);
    context.gfence().expect("gfence");
}

/// A program that only calls fences still learns that its target refused a message, and that a message from a peer named an unknown
/// handler.
fn kept_come_with_the_fence<F: Fabric>(context: &mut Context<F>) {
    let registered = context.handlers_count();
    let options = AmOptions::default();
    context.amsend(next(context), HandlerId(4000), &[], &[1], options).expect("amsend");
    let (mut at_target, mut at_origin) = (false, false);
    let mut fences = 0;
    while !(at_target && at_origin) {
        fences += 1;
        match context.fence_ops(Some(next(context))) {
            Ok(()) => {}
            Err(Error::Refused { target, why: Refusal::UnknownHandler { handler: 4000, .. } }) => {
                assert_eq!(target, next(context));
                assert!(fences <= 2, "the refusal was there before the first fence ended");
                at_origin = true;
            }
            Err(error) => {
                check_unknown_handler(error, previous(context), registered);
                at_target = true;
            }
        }
    }
    context.gfence().expect("nothing else went wrong");
}

fn check_unknown_handler(error: Error, from: Endpoint, wanted: usize) {
    assert_eq!(error.fault(), Fault::Peer);
    match error {
        Error::UnknownHandler { handler, origin, registered } => {
            assert_eq!((handler, origin, registered), (4000, from, wanted));
        }
        other => panic!("the error does not name the handler: {other}"),
    }
}

fn unknown_counter<F: Fabric>(context: &mut Context<F>) {
    let handler = register(context, |_| Answer::discard());
    let gone = new_counter(context);
    context.remove_counter(gone);
    context.gfence().expect("gfence");
    for answerable in [false, true] {
        let options = AmOptions { target: Some(gone.name()), answerable, ..AmOptions::default() };
        context.amsend(next(context), handler, &[], &[], options).expect("amsend");
        match next_error(context) {
            error @ Error::UnknownCounter { .. } => assert_eq!(error.fault(), Fault::Caller),
            other => panic!("the error does not name the counter: {other}"),
        }
        context.gfence().expect("gfence");
    }
}

/// Asserts that `error` is about an invalid range. Either the fabric has detected the range, or the target has refused it.
fn assert_range_error(error: &Error, wanted: impl Fn(RangeFault) -> bool) {
    assert_eq!(error.fault(), Fault::Caller, "{error}");
    match error {
        Error::RemoteRange { why, .. } | Error::Refused { why: Refusal::Range { why, .. }, .. } => {
            assert!(wanted(*why), "{error}");
        }
        other => panic!("the error does not name the range: {other}"),
    }
}

fn remote_ranges<F: Fabric>(context: &mut Context<F>) {
    let mut regions = Vec::new();
    for _ in 0..3 {
        let buffer = context.alloc(100).expect("alloc");
        let own = context.expose(buffer, Access::READ_WRITE).expect("expose");
        let all = context.address_init(own.address(0)).expect("address_init");
        let at = all[next(context).task.index()];
        let bounds = |why| matches!(why, RangeFault::Bounds { region_len: 100 });
        for (offset, len) in [(100, 1), (0, 101), (u64::MAX, 2), (99, 5000)] {
            let error = context.put(at.plus(offset), &vec![1; len], PutOptions::default());
            assert_range_error(&error.expect_err("outside"), bounds);
            let error = context.get(at.plus(offset), &mut vec![1; len], GetOptions::default());
            assert_range_error(&error.expect_err("outside"), bounds);
        }
        let error = context.rmw(at.plus(96), Width::Bits64, AtomicOp::FetchAdd(1));
        assert_range_error(&error.expect_err("outside"), bounds);
        let stale = |why| why == RangeFault::Stale;
        let grant = Grant { generation: at.grant.generation.wrapping_add(5), ..at.grant };
        let error = context.put(RemoteAddress { grant, ..at }, &[1], PutOptions::default());
        assert_range_error(&error.expect_err("another generation"), stale);
        let grant = Grant { region: 0x00FF_FFF0, ..at.grant };
        let error = context.get(RemoteAddress { grant, ..at }, &mut [1], GetOptions::default());
        assert_range_error(&error.expect_err("no such region"), stale);
        let grant = Grant { region: at.grant.region | Grant::OPERATION_BIT, ..at.grant };
        let error = context.put(RemoteAddress { grant, ..at }, &[1], PutOptions::default());
        assert_range_error(&error.expect_err("not a program's"), stale);
        // Where memory is not mapped, only the target checks a tiny put with a target counter.
        quiet_gfence(context);
        let counter = new_counter(context);
        let options = PutOptions { target: Some(counter.name()), ..PutOptions::default() };
        let _ = context.put(at.plus(98), &[1; 8], options);
        quiet_gfence(context);
        drain(context);
        assert_eq!(context.counter_value(counter).expect("value"), 0);
        let mut bytes = [0; 100];
        own.read(0, &mut bytes).expect("read");
        assert_eq!(bytes, [0; 100], "nothing was written");
        context.remove_counter(counter);
        // The region stays exposed, so that the next round uses another one.
        regions.push(own);
    }
    for region in regions {
        drop(context.unexpose(region).expect("unexpose"));
    }
}

/// Memory that an operation sends from is not a valid destination, even if a header handler names its grant. The check guesses the grant
/// from that of a region that was exposed just before.
fn loans_are_no_places<F: Fabric>(context: &mut Context<F>) {
    let (waiting, forged) = (Shared::<Option<Ticket>>::new(), Shared::<u32>::new());
    let (in_later, in_forged) = (waiting.clone(), forged.clone());
    let later = register(context, move |message| {
        in_later.with(|ticket| *ticket = Some(message.ticket));
        Answer::later()
    });
    let to_forged = register(context, move |message| {
        in_forged.with(|count| *count += 1);
        let word = |at: usize| u32::from_le_bytes(message.uhdr[at..at + 4].try_into().expect("4 bytes"));
        let grant = Grant { region: word(0), generation: word(4) };
        Answer::exposed(ExposedRange { grant, offset: 0, len: 8 }, Completion::None)
    });
    let expected = pattern(9, 1 << 20);
    for in_job_memory in [false, true] {
        let buffer = context.alloc(8).expect("alloc");
        let before = context.expose(buffer, Access::READ_WRITE).expect("expose");
        let Grant { region, generation } = before.grant();
        drop(context.unexpose(before).expect("unexpose"));
        let lent = if in_job_memory {
            let mut memory = context.alloc(expected.len()).expect("alloc");
            memory.copy_from_slice(&expected);
            memory
        } else {
            JobBuffer::from(expected.clone())
        };
        let options = AmOptions { announce: true, ..AmOptions::default() };
        let handle = context
            .start(Amsend { target: next(context), handler: later, uhdr: &[], options }, lent)
            .expect("amsend_owned");
        quiet_until(context, || waiting.with(|ticket| ticket.is_some()));
        for region in [region, region | Grant::OPERATION_BIT] {
            for generation in generation..generation + 4 {
                let uhdr = [region.to_le_bytes(), generation.to_le_bytes()].concat();
                let (own, count) = (context.endpoint(), forged.with(|count| *count));
                if let Err(error) =
                    context.amsend(own, to_forged, &uhdr, &[UNTOUCHED; 8], AmOptions::default())
                {
                    is_about_a_range(&error);
                }
                quiet_until(context, || forged.with(|now| *now > count));
            }
        }
        drain(context);
        let (got, ticket) = (Shared::<Option<Vec<u8>>>::new(), waiting.take().expect("just seen"));
        let in_completion = got.clone();
        let completion = Completion::Call(Box::new(move |delivered| {
            in_completion.with(|got| *got = delivered.buffer.map(|buffer| buffer.to_vec()));
        }));
        context
            .accept(ticket, Destination::Owned(JobBuffer::zeroed(expected.len())), completion)
            .expect("accept");
        quiet_until(context, || got.with(|got| got.is_some()));
        assert!(got.take().as_ref() == Some(&expected), "what was lent has changed");
        context.wait_owned(handle).expect("a handle of this context").1.expect("sent");
        quiet_gfence(context);
    }
    drain(context);
}

fn rights<F: Fabric>(context: &mut Context<F>) {
    let mut regions = Vec::new();
    for _ in 0..3 {
        let (buffer, other) = (context.alloc(64).expect("alloc"), context.alloc(64).expect("alloc"));
        let read_only = context.expose(buffer, Access::READ).expect("expose");
        let write_only = context.expose(other, Access::WRITE).expect("expose");
        let readable = context.address_init(read_only.address(0)).expect("address_init");
        let writable = context.address_init(write_only.address(0)).expect("address_init");
        let target = next(context).task.index();
        // The missing right is in the error's text only: not every fabric can report it.
        let missing = |why| matches!(why, RangeFault::Access(_));
        let error = context.put(readable[target], &[1], PutOptions::default()).expect_err("read only");
        assert_range_error(&error, missing);
        let error = context.rmw(readable[target], Width::Bits64, AtomicOp::Swap(1)).expect_err("read only");
        assert_range_error(&error, missing);
        let error = context.get(writable[target], &mut [0], GetOptions::default()).expect_err("write only");
        assert_range_error(&error, missing);
        context.put(writable[target], &[1], PutOptions::default()).expect("put");
        context.get(readable[target], &mut [0], GetOptions::default()).expect("get");
        quiet_gfence(context);
        drain(context);
        regions.extend([read_only, write_only]);
    }
    for region in regions {
        drop(context.unexpose(region).expect("unexpose"));
    }
}

fn user_header_too_long<F: Fabric>(context: &mut Context<F>) {
    let handler = register(context, |_| Answer::discard());
    let limit = context.limits().uhdr_bytes_max;
    for announce in [false, true] {
        let options = AmOptions { announce, ..AmOptions::default() };
        let uhdr = vec![0; limit + 1];
        let error = context.amsend(next(context), handler, &uhdr, &[], options).expect_err("too long");
        assert_eq!(error.fault(), Fault::Caller);
        assert!(matches!(error, Error::UserHeaderTooLong { len, max } if len == limit + 1 && max == limit));
    }
}

/// Handlers get no object that communicates. If a handler has got hold of a context, communicating calls are refused.
fn in_handler<F: Fabric>(context: &mut Context<F>) {
    let told = Shared::<Vec<&'static str>>::new();
    let in_handler = told.clone();
    let handler = register(context, move |_| {
        match am_core::call_guard::check("amsend") {
            Err(Error::InHandler { call }) => in_handler.with(|told| told.push(call)),
            other => panic!("a handler may communicate: {other:?}"),
        }
        Answer::discard()
    });
    context.amsend(next(context), handler, &[], &[], AmOptions::default()).expect("amsend");
    until(context, &mut || told.with(|told| !told.is_empty()));
    assert_eq!(told.take(), ["amsend"]);
    assert!(am_core::call_guard::check("amsend").is_ok(), "calls are allowed again after the handler");
}

fn tickets<F: Fabric>(context: &mut Context<F>) {
    for number in [0, 1, 77, u32::MAX] {
        let ticket = Ticket(number);
        let error = context
            .accept(ticket, Destination::Nowhere, am_core::handler::Completion::None)
            .expect_err("there is no such message");
        assert_eq!(error.fault(), Fault::Caller);
        assert!(matches!(error, Error::UnknownTicket { ticket } if ticket == number));
        assert!(context.refuse(ticket).is_err());
    }
}
