//! Announced messages: many at once, in both directions, and their counters.

use super::Check;
use super::common::{Shared, everyone, new_counter, pattern, register, until};
use am_core::buffer::JobBuffer;
use am_core::context::Context;
use am_core::fabric::Fabric;
use am_core::handler::{Answer, Completion};
use am_core::{AmOptions, Amsend};

pub(super) fn checks<F: Fabric>() -> Vec<(&'static str, Check<F>)> {
    vec![("announced_many_at_once", many_at_once), ("announced_with_counters", with_counters)]
}

fn many_at_once<F: Fabric>(context: &mut Context<F>) {
    let received = Shared::<Vec<(u32, u8, Vec<u8>)>>::new();
    let in_handler = received.clone();
    let handler = register(context, move |message| {
        let (received, number) = (in_handler.clone(), message.uhdr[0]);
        Answer::owned(
            JobBuffer::zeroed(message.len as usize),
            Completion::Call(Box::new(move |delivered| {
                delivered.outcome.expect("delivered");
                let bytes = delivered.buffer.expect("the buffer of Destination::Owned").to_vec();
                received.with(|all| all.push((delivered.source.task.0, number, bytes)));
            })),
        )
    });
    let count = 12u8;
    let len_of = |number: u8| 100_000 + usize::from(number) * 7919;
    let mut handles = Vec::new();
    for number in 0..count {
        for target in everyone(context) {
            let udata = JobBuffer::from(pattern(u32::from(number), len_of(number)));
            handles.push(
                context
                    .start(Amsend { target, handler, uhdr: &[number], options: AmOptions::default() }, udata)
                    .expect("amsend_owned"),
            );
        }
    }
    for (at, handle) in handles.into_iter().enumerate() {
        let number = (at / context.num_tasks() as usize) as u8;
        let (buffer, result) = context.wait_owned(handle).expect("a handle of this context");
        result.expect("sent");
        assert!(
            buffer[..] == pattern(u32::from(number), len_of(number))[..],
            "the buffer comes back as it was"
        );
    }
    let all = usize::from(count) * context.num_tasks() as usize;
    until(context, &mut || received.with(|received| received.len() == all));
    for (source, number, bytes) in received.take() {
        let wanted = pattern(u32::from(number), len_of(number));
        assert!(bytes == wanted, "message {number} of task {source}");
    }
}

fn with_counters<F: Fabric>(context: &mut Context<F>) {
    let handler = register(context, |_| Answer::discard());
    let (origin, target) = (new_counter(context), new_counter(context));
    let next = super::common::next(context);
    for len in [0, 1, 40, 5000] {
        let options = AmOptions {
            origin: Some(origin),
            target: Some(target.name()),
            announce: true,
            ..AmOptions::default()
        };
        context.amsend(next, handler, &[], &vec![3; len], options).expect("amsend");
        assert_eq!(context.counter_value(origin).expect("value"), 1, "an announced send ends at its match");
        context.wait_counter(origin, 1).expect("origin");
        context.wait_counter(target, 1).expect("target");
    }
    context.gfence().expect("gfence");
    context.remove_counter(origin);
    context.remove_counter(target);
}
