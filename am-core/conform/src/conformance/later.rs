//! Messages whose destination is named later: accepted and refused, in one packet and announced.

use super::Check;
use super::common::{Shared, lengths, new_counter, next, pattern, previous, register, until};
use am_core::buffer::JobBuffer;
use am_core::context::Context;
use am_core::error::{Error, Fault, Refusal};
use am_core::fabric::Fabric;
use am_core::handler::{Answer, Completion, Destination, HandlerId, Ticket};
use am_core::{AmOptions, Amsend};

pub(super) fn checks<F: Fabric>() -> Vec<(&'static str, Check<F>)> {
    vec![
        ("later_accepted_in_any_order", accepted_in_any_order),
        ("later_more_than_there_are_credits", more_than_credits),
        ("later_refused", refused),
    ]
}

#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    number: u32,
    len: u64,
}

fn register_later<F: Fabric>(context: &mut Context<F>, waiting: &Shared<Vec<Waiting>>) -> HandlerId {
    let waiting = waiting.clone();
    register(context, move |message| {
        let number = u32::from_le_bytes(message.uhdr.try_into().expect("4 bytes"));
        waiting.with(|all| all.push(Waiting { ticket: message.ticket, number, len: message.len }));
        Answer::later()
    })
}

fn send<F: Fabric>(
    context: &mut Context<F>,
    handler: HandlerId,
    number: u32,
    len: usize,
    options: AmOptions,
) -> am_core::OwnedHandle {
    let udata = JobBuffer::from(pattern(number, len));
    let target = next(context);
    context
        .start(Amsend { target, handler, uhdr: &number.to_le_bytes(), options }, udata)
        .expect("amsend_owned")
}

fn accepted_in_any_order<F: Fabric>(context: &mut Context<F>) {
    let waiting = Shared::new();
    let handler = register_later(context, &waiting);
    let completion = new_counter(context);
    let lengths = lengths(context);
    let mut handles = Vec::new();
    for (number, &len) in (0..).zip(&lengths) {
        let announce = number % 3 == 0;
        let options = AmOptions { completion: Some(completion), announce, ..AmOptions::default() };
        handles.push(send(context, handler, number, len, options));
        // One wait covers both directions: each task accepts the arrived messages, the last one first.
        if number % 4 == 3 || number as usize + 1 == lengths.len() {
            let wanted = handles.len();
            until(context, &mut || waiting.with(|all| all.len() == wanted));
            for Waiting { ticket, number, len } in waiting.take().into_iter().rev() {
                accept(context, ticket, number, len);
            }
            context.wait_counter(completion, wanted as u64).expect("completion");
            for handle in handles.drain(..) {
                context.wait_owned(handle).expect("a handle of this context").1.expect("sent");
            }
        }
    }
    context.gfence().expect("gfence");
    context.remove_counter(completion);
}

fn accept<F: Fabric>(context: &mut Context<F>, ticket: Ticket, number: u32, len: u64) {
    let done = Shared::<Option<Vec<u8>>>::new();
    let in_completion = done.clone();
    let completion = Completion::Call(Box::new(move |delivered| {
        delivered.outcome.expect("delivered");
        in_completion.with(|done| *done = Some(delivered.buffer.expect("an owned place").to_vec()));
    }));
    let place = Destination::Owned(JobBuffer::zeroed(len as usize));
    context.accept(ticket, place, completion).expect("accept");
    until(context, &mut || done.with(|done| done.is_some()));
    let bytes = done.take().expect("just seen");
    assert!(bytes == pattern(number, len as usize), "message {number} of {len} bytes");
    let again = context.accept(ticket, Destination::Nowhere, Completion::None);
    assert!(matches!(again, Err(Error::UnknownTicket { .. })), "a ticket is good for one use");
}

/// Messages that wait for their destination delay neither other messages nor answers.
fn more_than_credits<F: Fabric>(context: &mut Context<F>) {
    let waiting = Shared::new();
    let later = register_later(context, &waiting);
    let last = Shared::<u32>::new();
    let in_handler = last.clone();
    let other = register(context, move |_| {
        in_handler.with(|count| *count += 1);
        Answer::discard()
    });
    let completion = new_counter(context);
    let limits = context.limits();
    let count = 3 * (limits.credits + limits.requests_max).min(200);
    let handles: Vec<_> = (0..count)
        .map(|number| {
            let options = AmOptions { announce: number % 2 == 0, ..AmOptions::default() };
            send(context, later, number, 50, options)
        })
        .collect();
    let options = AmOptions { completion: Some(completion), ..AmOptions::default() };
    context.amsend(next(context), other, &[], &[], options).expect("amsend");
    context.wait_counter(completion, 1).expect("the answer to a message behind those that wait");
    until(context, &mut || waiting.with(|all| all.len() == count as usize) && last.with(|last| *last == 1));
    for Waiting { ticket, number, len } in waiting.take() {
        accept(context, ticket, number, len);
    }
    for handle in handles {
        context.wait_owned(handle).expect("a handle of this context").1.expect("sent");
    }
    context.gfence().expect("gfence");
    context.remove_counter(completion);
}

fn refused<F: Fabric>(context: &mut Context<F>) {
    let waiting = Shared::new();
    let handler = register_later(context, &waiting);
    let packet = context.limits().packet_bytes_max;
    for (number, len) in [(0, 0), (1, 10), (2, packet + 1)] {
        let options = AmOptions { announce: true, ..AmOptions::default() };
        let handle = send(context, handler, number, len, options);
        until(context, &mut || waiting.with(|all: &mut Vec<Waiting>| !all.is_empty()));
        let ticket = waiting.take().remove(0).ticket;
        context.refuse(ticket).expect("refuse");
        let (_, result) = context.wait_owned(handle).expect("a handle of this context");
        let error = result.expect_err("the target refused");
        assert_eq!(error.fault(), Fault::Peer);
        match error {
            Error::Refused { target, why } => {
                assert_eq!((target, why), (next(context), Refusal::ByProgram));
            }
            other => panic!("not a refusal: {other}"),
        }
        context.gfence().expect("gfence");
    }
    let _ = previous(context);
}
