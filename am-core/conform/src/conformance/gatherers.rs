//! Gatherers that panic: their messages end at both sides, all credits and answer slots are returned, and the contexts still work.

use super::Check;
use super::common::{Shared, WANTED, next, panic_as_wanted, previous, register, until};
use super::errors::next_error;
use am_core::buffer::{JobBuffer, PacketWriter};
use am_core::context::Context;
use am_core::error::{Error, Fault, Outcome, Refusal};
use am_core::fabric::Fabric;
use am_core::handler::{Answer, Completion, HandlerId};
use am_core::transfer::{Gatherer, Posted};
use am_core::{AmOptions, Amsend};

pub(super) fn checks<F: Fabric>() -> Vec<(&'static str, Check<F>)> {
    vec![("gatherer_panics_in_a_packet", in_a_packet), ("gatherer_panics_in_a_stream", in_a_stream)]
}

/// Produces bytes of one value, and panics if asked for the byte `sound` or a later one.
#[derive(Debug)]
struct Breaks {
    len: usize,
    sound: usize,
}

impl Gatherer for Breaks {
    fn len(&self) -> u64 {
        self.len as u64
    }

    fn gather(&mut self, offset: u64, len: usize, writer: &mut PacketWriter<'_>) {
        if offset as usize + len > self.sound {
            panic_as_wanted();
        }
        assert_eq!(writer.put_slice(&vec![5; len]), len, "the buffer has the size asked for");
    }
}

fn send<F: Fabric>(
    context: &mut Context<F>,
    handler: HandlerId,
    answerable: bool,
    data: Breaks,
) -> Result<Outcome, Error> {
    let options = AmOptions { answerable, ..AmOptions::default() };
    context.amsend_gather(Amsend { target: next(context), handler, uhdr: &[], options }, data, None)
}

/// Sends a message whose gatherer panics, at once or when its data are requested, and checks the error.
fn send_broken<F: Fabric>(context: &mut Context<F>, handler: HandlerId, answerable: bool, data: Breaks) {
    let error = match send(context, handler, answerable, data) {
        Err(error) => error,
        Ok(outcome) => {
            assert_eq!(outcome, Outcome::Posted);
            next_error(context)
        }
    };
    assert_eq!(error.fault(), Fault::Caller);
    assert!(
        matches!(&error, Error::HandlerPanicked { kind: "gather", origin, message }
            if *origin == context.endpoint() && message == WANTED),
        "{error}"
    );
}

fn in_a_packet<F: Fabric>(context: &mut Context<F>) {
    let arrived = Shared::<u64>::new();
    let in_handler = arrived.clone();
    let handler = register(context, move |_| {
        in_handler.with(|arrived| *arrived += 1);
        Answer::discard()
    });
    let limits = context.limits();
    let mut sent = 0u64;
    for answerable in [false, true] {
        for round in 0..limits.credits + limits.requests_max + 3 {
            // The longest one-packet message, or a short one.
            let len = if round % 2 == 0 { 60 } else { limits.packet_bytes_max - 12 };
            send_broken(context, handler, answerable, Breaks { len, sound: 0 });
        }
        // Messages that wait behind others for a credit.
        let options = AmOptions { answerable, ..AmOptions::default() };
        for _ in 0..2 * limits.credits {
            let outcome = context.try_amsend(next(context), handler, &[], &[], options).expect("try_amsend");
            sent += u64::from(outcome == Posted::Done);
        }
        send_broken(context, handler, answerable, Breaks { len: 100, sound: 0 });
        // All credits and answer slots are still there: as many messages can be sent as before.
        for _ in 0..2 * (limits.credits + limits.requests_max) {
            context.amsend(next(context), handler, &[], &[1; 100], options).expect("amsend");
            sent += 1;
        }
    }
    // Tasks have sent different numbers of messages, since each sends as many as it had credits for.
    context.fence_ops(None).expect("fence");
    let counts = context.exchange(&sent.to_le_bytes()).expect("exchange");
    let wanted = &counts[previous(context).task.0 as usize];
    assert_eq!(&arrived.take().to_le_bytes()[..], &wanted[..], "a packet came whose gatherer had panicked");
}

/// How a message ended at its target: the bytes written, and the error.
type Ended = Shared<Vec<(u64, Option<Error>)>>;

fn in_a_stream<F: Fabric>(context: &mut Context<F>) {
    let ended = Ended::new();
    let in_handler = ended.clone();
    let handler = register(context, move |message| {
        let ended = in_handler.clone();
        let call = move |delivered: am_core::handler::Delivered| {
            let error = delivered.outcome.err().map(|error| *error);
            ended.with(|ended| ended.push((delivered.placed, error)));
        };
        Answer::owned(JobBuffer::zeroed(message.len as usize), Completion::Call(Box::new(call)))
    });
    let packet = context.limits().packet_bytes_max;
    for len in [packet + 1, 5 * packet] {
        for sound in [0, packet, 2 * packet, len - 1].into_iter().filter(|&sound| sound < len) {
            send_broken(context, handler, false, Breaks { len, sound });
            until(context, &mut || ended.with(|ended| !ended.is_empty()));
            let (placed, error) = ended.take().remove(0);
            assert_eq!(placed, 0);
            let error = error.expect("it did not come whole");
            assert!(
                matches!(error, Error::Refused { target, why: Refusal::Withdrawn } if target == previous(context)),
                "{error}"
            );
            context.gfence().expect("gfence");
        }
        let outcome = send(context, handler, false, Breaks { len, sound: len }).expect("amsend_gather");
        assert_eq!(outcome, Outcome::Posted);
        until(context, &mut || ended.with(|ended| !ended.is_empty()));
        let (placed, error) = ended.take().remove(0);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(placed, len as u64);
        context.gfence().expect("gfence");
    }
}
