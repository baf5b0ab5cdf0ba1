//! Counters: the events that they count, waits, and watched destinations. Also queries and settings.

use super::Check;
use std::time::{Duration, Instant};

use super::common::{everyone, new_counter, next, previous, register};
use am_core::context::Context;
use am_core::counter::DestinationStatus;
use am_core::error::Error;
use am_core::fabric::Fabric;
use am_core::handler::Answer;
use am_core::task::{Endpoint, TaskId};
use am_core::{AmOptions, PollReason, Query};

pub(super) fn checks<F: Fabric>() -> Vec<(&'static str, Check<F>)> {
    vec![
        ("counters_count_and_subtract", count_and_subtract),
        ("counters_three_of_an_amsend", three_of_an_amsend),
        ("counters_msgpoll_gives_reasons", msgpoll),
        ("counters_wait_has_a_limit", limited_wait),
        ("counters_watch_their_destinations", destinations),
        ("queries_and_settings", queries),
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
    // All increments may be there already; each wait subtracts only its own value.
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

fn limited_wait<F: Fabric>(context: &mut Context<F>) {
    let handler = register(context, |_| Answer::discard());
    let counter = new_counter(context);
    for limit in [Duration::ZERO, Duration::from_millis(3)] {
        let begun = Instant::now();
        assert!(
            !context.wait_counter_for(counter, 1, limit).expect("nothing is wrong"),
            "the counter is never raised"
        );
        assert!(begun.elapsed() >= limit);
    }
    context.gfence().expect("gfence");
    let options = AmOptions { target: Some(counter.name()), ..AmOptions::default() };
    context.amsend(next(context), handler, &[], &[], options).expect("amsend");
    assert!(context.wait_counter_for(counter, 1, Duration::from_secs(50)).expect("nothing is wrong"));
    assert_eq!(context.counter_value(counter).expect("value"), 0);
    context.gfence().expect("gfence");
    context.remove_counter(counter);
    assert!(matches!(
        context.wait_counter_for(counter, 1, Duration::ZERO),
        Err(Error::UnknownCounter { .. })
    ));
}

fn destinations<F: Fabric>(context: &mut Context<F>) {
    let handler = register(context, |_| Answer::discard());
    let counter = new_counter(context);
    let tasks: Vec<_> = everyone(context).map(|endpoint| endpoint.task).collect();
    context.set_counter(counter, 9).expect("set");
    context.set_counter_watched(counter, &tasks).expect("tasks of the job");
    assert_eq!(context.counter_value(counter).expect("value"), 0);
    let all = context.counter_destinations(counter).expect("watched");
    assert!(all.iter().all(|&(_, status)| status == DestinationStatus::Initial));
    let options = AmOptions { completion: Some(counter), ..AmOptions::default() };
    let to = next(context);
    // One-packet and announced messages are acknowledged in different ways.
    for len in [8, 100_000] {
        context.amsend(to, handler, &[], &vec![1; len], options).expect("amsend");
        context.wait_counter(counter, 1).expect("acknowledged");
        for (task, status) in context.counter_destinations(counter).expect("watched") {
            let wanted =
                if task == to.task { DestinationStatus::Received } else { DestinationStatus::Initial };
            assert_eq!(status, wanted, "{task}");
        }
        context.set_counter_watched(counter, &tasks).expect("tasks of the job");
    }
    let beyond = TaskId(context.num_tasks());
    assert!(matches!(context.set_counter_watched(counter, &[beyond]), Err(Error::UnknownTask { .. })));
    let other = new_counter(context);
    assert!(matches!(context.counter_destinations(other), Err(Error::UnknownCounter { .. })));
    context.gfence().expect("gfence");
    context.remove_counter(counter);
    context.remove_counter(other);
}

fn queries<F: Fabric>(context: &mut Context<F>) {
    assert_eq!(context.query(Query::TaskId), u64::from(context.task().0));
    assert_eq!(context.query(Query::NumTasks), u64::from(context.num_tasks()));
    assert_eq!(context.query(Query::MaxUhdrSize), context.limits().uhdr_bytes_max as u64);
    assert_eq!(context.query(Query::MaxPacketSize), context.limits().packet_bytes_max as u64);
    assert_eq!(context.query(Query::ErrorCheck), 1, "calls are always checked");
    let error = context.set(Query::ErrorCheck, 0).expect_err("they can't be left unchecked");
    assert!(matches!(error, Error::Setting { name: "ERROR_CHK", value: 0, .. }), "{error}");
    let error = context.set(Query::NumTasks, 7).expect_err("a fact");
    assert!(matches!(error, Error::Setting { name: "NUM_TASKS", .. }), "{error}");
    // A wait without arrivals ends with the time-out.
    let counter = new_counter(context);
    context.set(Query::Timeout, 1).expect("in its range");
    assert_eq!(context.query(Query::Timeout), 1);
    let error = context.wait_counter(counter, 1).expect_err("the counter is never raised");
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    context.set(Query::Timeout, 0).expect("no limit");
    context.gfence().expect("gfence");
    context.remove_counter(counter);
    // Statistics are kept for each peer.
    let handler = register(context, |_| Answer::discard());
    let to = next(context);
    let before = context.peer_statistics(to).expect("a task of the job");
    for _ in 0..5 {
        context.amsend(to, handler, &[], &[1; 8], AmOptions::default()).expect("amsend");
    }
    context.fence_ops(Some(to)).expect("fence");
    let after = context.peer_statistics(to).expect("a task of the job");
    assert!(after.packets_sent >= before.packets_sent + 6, "five messages and a fence: {before:?} {after:?}");
    assert!(after.packets_received > before.packets_received, "the fence's answer: {before:?} {after:?}");
    assert_eq!((after.operations_under_way, after.packets_waiting), (false, false));
    let beyond = Endpoint::new(TaskId(context.num_tasks()), to.context);
    assert!(matches!(context.peer_statistics(beyond), Err(Error::UnknownTask { .. })));
    context.gfence().expect("gfence");
}
