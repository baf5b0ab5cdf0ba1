//! Purging a peer while operations are pending, and restarting communication with it: no event of the earlier operations is reported, no
//! credit is lost, and new operations work.

use super::Check;
use super::common::{Shared, new_counter, pattern, register};
use am_core::buffer::{Access, JobBuffer, RemoteAddress};
use am_core::context::Context;
use am_core::counter::Counter;
use am_core::error::{Error, Refusal, Result};
use am_core::fabric::{AtomicOp, Fabric, Width};
use am_core::handler::{Answer, Completion, HandlerId};
use am_core::task::TaskId;
use am_core::{AmOptions, Amsend, GetOptions, OwnedHandle, Put, PutOptions};

pub(super) fn checks<F: Fabric>() -> Vec<(&'static str, Check<F>)> {
    vec![("purge_in_the_middle_of_everything", purge), ("purge_refuses_until_resumed", refuses)]
}

const ROUNDS: usize = 12;

struct World {
    /// A handler that defers the choice of the destination, which is never made.
    waits: HandlerId,
    /// A handler that accepts the data.
    takes: HandlerId,
    ready: Counter,
    again: Counter,
    all: Vec<RemoteAddress>,
}

fn purge<F: Fabric>(context: &mut Context<F>) {
    let received: Shared<Vec<Vec<u8>>> = Shared::new();
    let sink = received.clone();
    let (ready, again) = (new_counter(context), new_counter(context));
    let waits = register(context, |_| Answer::later());
    let takes = register(context, move |message| {
        let sink = sink.clone();
        let done = move |delivered: am_core::handler::Delivered| {
            if delivered.outcome.is_ok() {
                sink.with(|sink| {
                    sink.push(delivered.buffer.expect("the buffer of the destination").to_vec())
                });
            }
        };
        Answer::owned(JobBuffer::zeroed(message.len as usize), Completion::Call(Box::new(done)))
    });
    let buffer = context.alloc(4096).expect("alloc");
    let own = context.expose(buffer, Access::READ_WRITE).expect("expose");
    let all = context.address_init(own.address(0)).expect("address_init");
    let world = World { waits, takes, ready, again, all };
    let other = match context.task().0 {
        _ if context.num_tasks() < 2 => None,
        0 => Some(TaskId(1)),
        1 => Some(TaskId(0)),
        _ => None,
    };
    for round in 0..ROUNDS {
        context.gfence().expect("gfence");
        let Some(other) = other else { continue };
        let begun = begin_everything(context, other, &world, round);
        let options = AmOptions { target: Some(world.ready.name()), ..AmOptions::default() };
        if context.task().0 == 1 {
            context
                .amsend(other, world.takes, &[], &[], options)
                .expect("the task that purges first waits for the other");
            until_again(context, world.again);
        } else {
            until_again(context, world.ready);
            context.purge_totask(other).expect("purge");
            let error = context.amsend(other, world.takes, &[], &[], options).expect_err("it is refused");
            assert!(matches!(error, Error::Purged { .. }), "{error}");
            context.resume_totask(other).expect("resume");
            let options = AmOptions { target: Some(world.again.name()), ..AmOptions::default() };
            context.amsend(other, world.takes, b"again", &[], options).expect("it is allowed again");
        }
        for (number, handle) in begun.into_iter().enumerate() {
            let (buffer, ended) = context.wait_owned(handle).expect("a handle of this context");
            // Tiny messages may have completed before the purge; those that wait for a destination can't have completed.
            match ended {
                Ok(()) => {
                    assert!(number % 4 != 0, "operation {number} of round {round} can't have ended well")
                }
                Err(Error::Purged { by, .. }) => assert_eq!(by, TaskId(0)),
                Err(error) => panic!("operation {number} of round {round}: {error}"),
            }
            assert_eq!(buffer[..], pattern(number as u32, buffer.len()), "operation {number}");
        }
        received.with(Vec::clear);
        both_ways_work(context, other, &world);
    }
    context.gfence().expect("gfence");
    drop(context.unexpose(own).expect("unexpose"));
    [ready, again].into_iter().for_each(|counter| context.remove_counter(counter));
}

/// Waits, and ignores the errors of operations that the purge ended.
fn until_again<F: Fabric>(context: &mut Context<F>, counter: Counter) {
    loop {
        match context.wait_counter(counter, 1) {
            Ok(()) => return,
            Err(Error::Purged { .. } | Error::Refused { why: Refusal::Withdrawn, .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn begin_everything<F: Fabric>(
    context: &mut Context<F>,
    other: TaskId,
    world: &World,
    round: usize,
) -> Vec<OwnedHandle> {
    let buffer = |number: u32, len: usize| {
        let mut buffer = JobBuffer::zeroed(len);
        buffer.copy_from_slice(&pattern(number, len));
        buffer
    };
    let mut begun = Vec::new();
    let packet = context.limits().packet_bytes_max;
    for number in (0..8 + round as u32).step_by(4) {
        let announced = AmOptions { announce: true, ..AmOptions::default() };
        let long = 3 * packet + round;
        let at = world.all[other.index()];
        begun.push(context.start(
            Amsend { target: other, handler: world.waits, uhdr: &[1], options: announced },
            buffer(number, long),
        ));
        begun.push(context.start(
            Amsend { target: other, handler: world.takes, uhdr: &[2], options: announced },
            buffer(number + 1, long),
        ));
        begun.push(context.start(Put { to: at, options: PutOptions::default() }, buffer(number + 2, 4096)));
        begun.push(context.start(
            Amsend { target: other, handler: world.takes, uhdr: &[3], options: AmOptions::default() },
            buffer(number + 3, 30),
        ));
        let word = at.plus(8 * u64::from(number));
        context.rmw_nonfetching(word, Width::Bits64, AtomicOp::FetchAdd(1), None).expect("rmw");
    }
    begun.into_iter().map(|begun| begun.expect("it begins")).collect()
}

fn both_ways_work<F: Fabric>(context: &mut Context<F>, other: TaskId, world: &World) {
    let attempt = |context: &mut Context<F>| -> Result<()> {
        let at = world.all[other.index()].plus(1024);
        let bytes = pattern(context.task().0, 3000);
        context.put(at, &bytes, PutOptions::default())?;
        let mut back = vec![0; bytes.len()];
        context.get(at, &mut back, GetOptions::default())?;
        assert_eq!(back, bytes);
        for len in [8, 3000, 20_000] {
            context.amsend(other, world.takes, &[], &vec![1; len], AmOptions::default())?;
        }
        context.fence_ops(Some(am_core::task::Endpoint::new(other, context.endpoint().context)))
    };
    attempt(context).expect("a new operation after the purge");
}

fn refuses<F: Fabric>(context: &mut Context<F>) {
    let handler = register(context, |_| Answer::discard());
    let counter = new_counter(context);
    let buffer = context.alloc(64).expect("alloc");
    let own = context.expose(buffer, Access::READ_WRITE).expect("expose");
    let at = own.address(0);
    // This task purges itself, which affects no other task.
    let me = context.task();
    context.set_counter_watched(counter, &[me]).expect("a task of the job");
    context.purge_totask(me).expect("purge");
    let options = PutOptions { target: Some(counter.name()), ..PutOptions::default() };
    let refused = [
        context.amsend(me, handler, &[], &[1], AmOptions::default()),
        context.put(at, &[1; 8], options),
        context.put(at, &[1; 64], PutOptions::default()),
        context.get(at, &mut [0; 8], GetOptions::default()),
        context.rmw(at, Width::Bits64, AtomicOp::Swap(1)).map(|_| ()),
    ];
    for result in refused {
        let error = result.expect_err("refused");
        assert!(matches!(error, Error::Purged { task, by } if task == me && by == me), "{error}");
        assert_eq!(error.fault(), am_core::error::Fault::Caller);
    }
    let states = context.counter_destinations(counter).expect("watched");
    assert_eq!(states, [(me, am_core::counter::DestinationStatus::Purged)]);
    context.resume_totask(me).expect("resume");
    context.put(at, &[1; 8], options).expect("allowed again");
    context.wait_counter(counter, 1).expect("bumped");
    let beyond = TaskId(context.num_tasks());
    assert!(matches!(context.purge_totask(beyond), Err(Error::UnknownTask { .. })));
    assert!(matches!(context.resume_totask(beyond), Err(Error::UnknownTask { .. })));
    context.gfence().expect("gfence");
    drop(context.unexpose(own).expect("unexpose"));
    context.remove_counter(counter);
}
