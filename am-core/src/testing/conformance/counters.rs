//! Counters: what they count, and that a wait subtracts.

use super::Check;
use super::common::{new_counter, next, previous, register};
use crate::context::Context;
use crate::error::Error;
use crate::fabric::Fabric;
use crate::handler::Answer;
use crate::{AmOptions, PollReason};

pub(super) fn checks<F: Fabric>() -> Vec<(&'static str, Check<F>)> {
    vec![
        ("counters_count_and_subtract", count_and_subtract),
        ("counters_three_of_an_amsend", three_of_an_amsend),
        ("counters_msgpoll_gives_reasons", msgpoll),
    ]
}

fn count_and_subtract<F: Fabric>(context: &mut Context<F>) {
    let handler = register(context, |_| Answer::discard());
    let target = new_counter(context);
    let count = 10;
    for _ in 0..count {
        let options = AmOptions { target: Some(target.name()), ..AmOptions::default() };
        context.amsend(next(context), handler, &[], &[], options).expect("amsend");
    }
    // All may pile up; each wait takes only what it waited for.
    context.wait_counter(target, 4).expect("wait for 4");
    context.wait_counter(target, count - 4).expect("wait for the rest");
    assert_eq!(context.counter_value(target).expect("value"), 0);
    context.set_counter(target, 7).expect("set");
    context.wait_counter(target, 5).expect("a wait for less than there is");
    assert_eq!(context.counter_value(target).expect("value"), 2);
    context.gfence().expect("gfence");
    context.remove_counter(target);
    assert!(matches!(context.counter_value(target), Err(Error::UnknownCounter { .. })));
    assert!(matches!(context.wait_counter(target, 1), Err(Error::UnknownCounter { .. })));
}

fn three_of_an_amsend<F: Fabric>(context: &mut Context<F>) {
    let handler = register(context, |_| Answer::discard());
    let (origin, target, completion) = (new_counter(context), new_counter(context), new_counter(context));
    let lengths = super::common::lengths(context);
    for &len in &lengths {
        let options = AmOptions {
            origin: Some(origin),
            target: Some(target.name()),
            completion: Some(completion),
            ..AmOptions::default()
        };
        context.amsend(next(context), handler, b"u", &vec![1; len], options).expect("amsend");
        context.wait_counter(origin, 1).expect("origin");
        context.wait_counter(completion, 1).expect("completion");
    }
    context.wait_counter(target, lengths.len() as u64).expect("target");
    context.gfence().expect("gfence");
    for counter in [origin, target, completion] {
        assert_eq!(context.counter_value(counter).expect("value"), 0);
        context.remove_counter(counter);
    }
    let _ = previous(context);
}

fn msgpoll<F: Fabric>(context: &mut Context<F>) {
    context.gfence().expect("gfence");
    let handler = register(context, |_| Answer::discard());
    context.gfence().expect("gfence");
    if context.num_tasks() == 1 {
        assert_eq!(context.msgpoll(3).expect("msgpoll"), PollReason::GaveUp);
    }
    context.amsend(next(context), handler, &[], &[], AmOptions::default()).expect("amsend");
    let mut reason = PollReason::GaveUp;
    while matches!(reason, PollReason::GaveUp | PollReason::SendComplete) {
        reason = context.msgpoll(1000).expect("msgpoll");
    }
}
