//! Completions that bump a counter at the target or the source, set a flag, reply, or run on the handler thread, for messages sent in each
//! way; an answer to a one-way message, which is refused; and handlers that panic.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Check;
use super::common::{
    Shared, WANTED, new_counter, next, panic_as_wanted, previous, register, register_panicking, until,
};
use super::errors::early_or_next;
use am_core::AmOptions;
use am_core::context::Context;
use am_core::counter::Counter;
use am_core::error::{Error, Fault, Refusal};
use am_core::fabric::Fabric;
use am_core::handler::{Answer, Completion, HandlerId, Reply};

pub(super) fn checks<F: Fabric>() -> Vec<(&'static str, Check<F>)> {
    vec![
        ("completions_bump", bump),
        ("completions_bump_at_source", bump_at_source),
        ("completions_set_flag", set_flag),
        ("completions_reply", reply),
        ("completions_thread", thread),
        ("completions_one_way_is_not_answered", one_way_is_not_answered),
        ("completions_panic_ends_the_operation_only", panics),
    ]
}

/// The ways in which a message can travel: in an entry, in a packet, announced.
fn ways<F: Fabric>(context: &Context<F>) -> [(usize, bool); 5] {
    let packet = context.limits().packet_bytes_max;
    [(0, false), (4, false), (500, false), (packet + 1, false), (4, true)]
}

fn send<F: Fabric>(
    context: &mut Context<F>,
    handler: HandlerId,
    uhdr: &[u8],
    (len, announce): (usize, bool),
) {
    let options = AmOptions { announce, answerable: true, ..AmOptions::default() };
    context.amsend(next(context), handler, uhdr, &vec![9; len], options).expect("amsend");
}

fn bump<F: Fabric>(context: &mut Context<F>) {
    let counter = new_counter(context);
    let handler = register(context, move |_| Answer::consumed(Completion::Bump(counter)));
    for way in ways(context) {
        send(context, handler, &[], way);
        context.wait_counter(counter, 1).expect("bump");
    }
    context.gfence().expect("gfence");
    context.remove_counter(counter);
}

fn bump_at_source<F: Fabric>(context: &mut Context<F>) {
    // Counters made in the same order have the same names in every task.
    let counter = new_counter(context);
    let completion = new_counter(context);
    let handler = register(context, move |_| Answer::consumed(Completion::BumpAtSource(counter.name())));
    for way in ways(context) {
        for completion_counter in [None, Some(completion)] {
            let options = AmOptions {
                completion: completion_counter,
                announce: way.1,
                answerable: true,
                ..AmOptions::default()
            };
            context.amsend(next(context), handler, &[], &vec![9; way.0], options).expect("amsend");
            context.wait_counter(counter, 1).expect("bump at source");
            if completion_counter.is_some() {
                context.wait_counter(completion, 1).expect("completion counter beside it");
            }
        }
    }
    context.gfence().expect("gfence");
    context.remove_counter(counter);
    context.remove_counter(completion);
}

fn set_flag<F: Fabric>(context: &mut Context<F>) {
    let flag = Arc::new(AtomicBool::new(false));
    let in_handler = Arc::clone(&flag);
    let handler = register(context, move |_| Answer::consumed(Completion::SetFlag(Arc::clone(&in_handler))));
    for way in ways(context) {
        send(context, handler, &[], way);
        until(context, &mut || flag.swap(false, Ordering::Acquire));
        context.gfence().expect("gfence");
    }
}

fn reply<F: Fabric>(context: &mut Context<F>) {
    let answers = Shared::<Vec<(u32, Vec<u8>)>>::new();
    let in_handler = answers.clone();
    let completion = new_counter(context);
    let answered = register(context, move |message| {
        in_handler.with(|all| all.push((message.source.task.0, message.uhdr.to_vec())));
        Answer::discard()
    });
    let asked = register(context, move |message| {
        let doubled: Vec<u8> = message.uhdr.iter().map(|byte| byte * 2).collect();
        Answer::consumed(Completion::Reply(Reply::new(answered, &doubled).expect("32 bytes fit")))
    });
    for way in ways(context) {
        for uhdr_len in [0, 1, 16, Reply::BYTES_MAX] {
            let uhdr: Vec<u8> = (0..uhdr_len as u8).collect();
            let options = AmOptions { completion: Some(completion), announce: way.1, ..AmOptions::default() };
            context.amsend(next(context), asked, &uhdr, &vec![9; way.0], options).expect("amsend");
            context.wait_counter(completion, 1).expect("completion");
            until(context, &mut || answers.with(|all| !all.is_empty()));
            let wanted: Vec<u8> = uhdr.iter().map(|byte| byte * 2).collect();
            assert_eq!(answers.take(), [(next(context).task.0, wanted)]);
        }
    }
    assert!(Reply::new(answered, &[0; Reply::BYTES_MAX + 1]).is_none());
    context.gfence().expect("gfence");
    context.remove_counter(completion);
}

/// A completion on the handler thread can request messages and counter increments, which the context's owner performs; counters are updated
/// after the completion has run.
fn thread<F: Fabric>(context: &mut Context<F>) {
    let (ran, target, completion) = (new_counter(context), new_counter(context), new_counter(context));
    let answered = new_counter(context);
    let second = register(context, move |message| {
        assert_eq!(message.uhdr, b"again");
        Answer::consumed(Completion::Bump(answered))
    });
    let owner = std::thread::current().id();
    let first = register(context, move |message| {
        let source = message.source;
        Answer::consumed(Completion::Thread(Box::new(move |delivered, deferred| {
            assert_ne!(
                std::thread::current().id(),
                owner,
                "the completion runs on another thread than the owner's"
            );
            delivered.outcome.expect("delivered");
            deferred.bump(ran);
            deferred.amsend(source, second, b"again", vec![5; 3000]);
        })))
    });
    let ways = ways(context);
    for (len, announce) in ways {
        let options = AmOptions {
            target: Some(target.name()),
            completion: Some(completion),
            announce,
            ..AmOptions::default()
        };
        context.amsend(next(context), first, &[], &vec![1; len], options).expect("amsend");
        context.wait_counter(completion, 1).expect("completion");
    }
    let count = ways.len() as u64;
    for counter in [ran, target, answered] {
        context.wait_counter(counter, count).expect("counter of the thread");
    }
    context.gfence().expect("gfence");
    for counter in [ran, target, completion, answered] {
        context.remove_counter(counter);
    }
}

/// The sender of a one-way message has reserved no credit for an answer, so the target refuses a completion that answers.
fn one_way_is_not_answered<F: Fabric>(context: &mut Context<F>) {
    let counter = new_counter(context);
    let handler = register(context, move |_| Answer::consumed(Completion::BumpAtSource(counter.name())));
    let options = AmOptions::default();
    context.amsend(next(context), handler, &[], &[], options).expect("amsend");
    match super::errors::next_error(context) {
        Error::NotAnswerable { origin } => assert_eq!(origin, previous(context)),
        other => panic!("the error does not name the answer: {other}"),
    }
    context.gfence().expect("gfence");
    assert_eq!(context.counter_value(counter).expect("value"), 0);
    context.remove_counter(counter);
}

/// Whether the call failed because the handler panicked. Any other error fails the check.
fn is_refused_panic<F: Fabric>(context: &Context<F>, sent: Result<(), Error>) -> bool {
    match sent {
        Ok(()) => false,
        Err(Error::Refused { target, why: Refusal::HandlerPanicked }) => {
            assert_eq!(target, next(context));
            true
        }
        Err(other) => panic!("the error does not name the panic: {other}"),
    }
}

fn panics<F: Fabric>(context: &mut Context<F>) {
    let done: Counter = new_counter(context);
    let in_header = register(context, |_| panic_as_wanted());
    let in_completion =
        register(context, |_| Answer::consumed(Completion::Call(Box::new(|_| panic_as_wanted()))));
    let (sane, mut early) = register_panicking(context, move |_| Answer::consumed(Completion::Bump(done)));
    let options = AmOptions::default();
    for (handler, wanted) in [(in_header, "header"), (in_completion, "completion")] {
        context.amsend(next(context), handler, &[], &[], options).expect("amsend");
        match early_or_next(&mut early, context) {
            error @ Error::HandlerPanicked { .. } => {
                assert_eq!(error.fault(), Fault::Caller);
                let text = error.to_string();
                assert!(text.contains(wanted) && text.contains(WANTED), "{text}");
            }
            other => panic!("the error does not name the handler: {other}"),
        }
    }
    // For one-way messages the origin's next fence reports the error, once.
    let told = context.gfence();
    assert!(is_refused_panic(context, told), "two messages were refused");
    // For answerable messages the origin learns of the error, and its completion counter is not incremented.
    let completion = new_counter(context);
    let (on_thread, mut early) = register_panicking(context, |_| {
        Answer::consumed(Completion::Thread(Box::new(|_, _| panic_as_wanted())))
    });
    for handler in [in_header, in_completion, on_thread] {
        for announce in [false, true] {
            let options = AmOptions { completion: Some(completion), announce, ..AmOptions::default() };
            let sent = context.amsend(next(context), handler, &[], &[1; 100], options);
            let mut refused = u32::from(is_refused_panic(context, sent));
            let mut panicked = 0;
            while (refused, panicked) != (1, 1) {
                match early_or_next(&mut early, context) {
                    Error::HandlerPanicked { origin, .. } => {
                        assert_eq!(origin, previous(context));
                        panicked += 1;
                    }
                    error => refused += u32::from(is_refused_panic(context, Err(error))),
                }
            }
            // The previous task may already be in the next round.
            early = context.gfence().err();
            assert_eq!(context.counter_value(completion).expect("value"), 0);
        }
    }
    assert!(early.is_none(), "{early:?}");
    context.remove_counter(completion);
    // The engine still works.
    context.amsend(next(context), sane, &[], &[], options).expect("amsend");
    context.wait_counter(done, 1).expect("bump");
    context.gfence().expect("gfence");
    context.remove_counter(done);
}
