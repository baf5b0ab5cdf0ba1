//! Messages: all lengths, all kinds of destinations, user headers, gathered data, and the order of arrival.

use super::Check;
use super::common::{
    Shared, UNTOUCHED, everyone, lengths, new_counter, next, pattern, previous, register, until, untouched,
};
use am_core::buffer::{Access, Arrived, JobBuffer, PacketWriter};
use am_core::context::Context;
use am_core::error::Outcome;
use am_core::fabric::Fabric;
use am_core::handler::{Answer, Completion, Destination, Sink};
use am_core::transfer::Gatherer;
use am_core::{AmOptions, Amsend};

pub(super) fn checks<F: Fabric>() -> Vec<(&'static str, Check<F>)> {
    vec![
        ("amsend_every_length_owned", every_length_owned),
        ("amsend_every_length_exposed", every_length_exposed),
        ("amsend_every_length_sink", every_length_sink),
        ("amsend_gathered", gathered),
        ("amsend_truncated", truncated),
        ("amsend_user_headers", user_headers),
        ("amsend_keeps_order", keeps_order),
        ("amsend_taken_in_line", taken_in_line),
        ("amsend_raw_never_waits_and_keeps_order", raw_keeps_order),
    ]
}

type Received = Shared<Vec<(u32, u64, Vec<u8>)>>;

fn every_length_owned<F: Fabric>(context: &mut Context<F>) {
    let received = Received::new();
    let in_handler = received.clone();
    let handler = register(context, move |message| {
        let received = in_handler.clone();
        let buffer = JobBuffer::zeroed(message.len as usize);
        Answer::owned(
            buffer,
            Completion::Call(Box::new(move |delivered| {
                delivered.outcome.expect("delivered");
                let bytes = delivered.buffer.expect("the buffer of Destination::Owned").to_vec();
                received.with(|all| all.push((delivered.source.task.0, delivered.placed, bytes)));
            })),
        )
    });
    for announce in [false, true] {
        for len in lengths(context) {
            let udata = pattern(context.task().0, len);
            let options = AmOptions { announce, ..AmOptions::default() };
            context.amsend(next(context), handler, b"head", &udata, options).expect("amsend");
            until(context, &mut || received.with(|all| !all.is_empty()));
            let (source, placed, bytes) = received.take().remove(0);
            assert_eq!(source, previous(context).task.0);
            assert_eq!(placed, len as u64);
            assert!(bytes == pattern(source, len), "{len} bytes, announce {announce}");
            context.gfence().expect("gfence");
        }
    }
}

fn every_length_exposed<F: Fabric>(context: &mut Context<F>) {
    let all = lengths(context);
    let longest = all.iter().copied().max().unwrap_or(0);
    let buffer = context.alloc(longest + 32).expect("alloc");
    let region = context.expose(buffer, Access { write: false, ..Access::READ }).expect("expose");
    let range = region.range(16, longest as u64).expect("range");
    let arrived = new_counter(context);
    let handler = register(context, move |_| Answer::exposed(range, Completion::Bump(arrived)));
    for len in all {
        region.write(0, &vec![UNTOUCHED; longest + 32]).expect("write");
        context.gfence().expect("gfence");
        let udata = pattern(context.task().0, len);
        context.amsend(next(context), handler, &[], &udata, AmOptions::default()).expect("amsend");
        context.wait_counter(arrived, 1).expect("arrival");
        let mut bytes = vec![0; longest + 32];
        region.read(0, &mut bytes).expect("read");
        assert!(bytes[16..16 + len] == pattern(previous(context).task.0, len), "{len} bytes");
        assert!(untouched(&bytes[..16]) && untouched(&bytes[16 + len..]), "around {len} bytes");
        context.gfence().expect("gfence");
    }
    drop(context.unexpose(region).expect("unexpose"));
    context.remove_counter(arrived);
}

/// Replaces each byte with one that is not 0, as [`Scatter`] stores the bytes. A plain loop, since iterators are much slower in unoptimised
/// builds.
fn marked(mut bytes: Vec<u8>) -> Vec<u8> {
    let slots = &mut bytes[..];
    let mut at = 0;
    while at < slots.len() {
        slots[at] = if slots[at] == u8::MAX { 1 } else { slots[at] + 1 };
        at += 1;
    }
    bytes
}

/// Writes each byte to its destination, and asserts that it arrives once only.
#[derive(Debug)]
struct Scatter {
    into: Shared<Vec<u8>>,
}

impl Sink for Scatter {
    fn take(&mut self, offset: u64, bytes: Arrived<'_>) {
        self.into.with(|into| {
            let span = &mut into[offset as usize..offset as usize + bytes.len()];
            assert!(span == vec![0; bytes.len()], "a byte came twice");
            span.copy_from_slice(&marked(bytes.to_vec()));
        });
    }
}

fn every_length_sink<F: Fabric>(context: &mut Context<F>) {
    let into = Shared::<Vec<u8>>::new();
    let for_handler = into.clone();
    let arrived = new_counter(context);
    let handler = register(context, move |message| {
        for_handler.with(|into| *into = vec![0; message.len as usize]);
        let sink = Box::new(Scatter { into: for_handler.clone() });
        Answer::new(Destination::Sink(sink), Completion::Bump(arrived))
    });
    for len in lengths(context) {
        let udata = pattern(context.task().0, len);
        context.amsend(next(context), handler, &[], &udata, AmOptions::default()).expect("amsend");
        context.wait_counter(arrived, 1).expect("arrival");
        let wanted = marked(pattern(previous(context).task.0, len));
        assert!(into.take() == wanted, "{len} bytes");
        context.gfence().expect("gfence");
    }
    context.remove_counter(arrived);
}

/// Every second byte of a pattern.
#[derive(Debug)]
struct EverySecond {
    bytes: Vec<u8>,
}

impl Gatherer for EverySecond {
    fn len(&self) -> u64 {
        self.bytes.len() as u64 / 2
    }

    fn gather(&mut self, offset: u64, len: usize, writer: &mut PacketWriter<'_>) {
        let from = 2 * offset as usize;
        let chosen = every_second(&self.bytes[from..from + 2 * len]);
        assert_eq!(writer.put_slice(&chosen), len, "the buffer has the size asked for");
    }
}

/// Every second byte, by a plain loop as in [`marked`].
fn every_second(bytes: &[u8]) -> Vec<u8> {
    let mut chosen = vec![0; bytes.len() / 2];
    let slots = &mut chosen[..];
    let mut at = 0;
    while at < slots.len() {
        slots[at] = bytes[2 * at];
        at += 1;
    }
    chosen
}

fn gathered<F: Fabric>(context: &mut Context<F>) {
    let received = Received::new();
    let handler = register_owned(context, &received);
    for len in lengths(context) {
        let bytes = pattern(context.task().0, 2 * len);
        let sent = new_counter(context);
        let options = AmOptions { origin: Some(sent), ..AmOptions::default() };
        let outcome = context
            .amsend_gather(
                Amsend { target: next(context), handler, uhdr: b"g", options },
                EverySecond { bytes },
                None,
            )
            .expect("amsend_gather");
        assert_ne!(outcome, Outcome::Retry);
        until(context, &mut || received.with(|all| !all.is_empty()));
        let (source, _, bytes) = received.take().remove(0);
        let wanted = every_second(&pattern(source, 2 * len));
        assert!(bytes == wanted, "{len} bytes");
        context.wait_counter(sent, 1).expect("the gatherer was read");
        context.gfence().expect("gfence");
        context.remove_counter(sent);
    }
}

fn register_owned<F: Fabric>(context: &mut Context<F>, received: &Received) -> am_core::handler::HandlerId {
    let in_handler = received.clone();
    register(context, move |message| {
        let received = in_handler.clone();
        Answer::owned(
            JobBuffer::zeroed(message.len as usize),
            Completion::Call(Box::new(move |delivered| {
                let bytes = delivered.buffer.expect("the buffer of Destination::Owned").to_vec();
                received.with(|all| all.push((delivered.source.task.0, delivered.placed, bytes)));
            })),
        )
    })
}

/// A destination shorter than the message receives what fits, and the completion reports the truncation.
fn truncated<F: Fabric>(context: &mut Context<F>) {
    let told = Shared::<Vec<(u64, u64, Vec<u8>)>>::new();
    let in_handler = told.clone();
    let handler = register(context, move |message| {
        let told = in_handler.clone();
        Answer::owned(
            JobBuffer::zeroed(message.len as usize / 2),
            Completion::Call(Box::new(move |delivered| {
                let bytes = delivered.buffer.expect("the buffer of Destination::Owned").to_vec();
                told.with(|told| told.push((delivered.len, delivered.placed, bytes)));
            })),
        )
    });
    for len in lengths(context) {
        let udata = pattern(context.task().0, len);
        context.amsend(next(context), handler, &[], &udata, AmOptions::default()).expect("amsend");
        until(context, &mut || told.with(|told| !told.is_empty()));
        let (sent, placed, bytes) = told.take().remove(0);
        assert_eq!((sent, placed), (len as u64, len as u64 / 2));
        assert!(bytes == pattern(previous(context).task.0, len)[..len / 2], "half of {len} bytes");
        context.gfence().expect("gfence");
    }
}

fn user_headers<F: Fabric>(context: &mut Context<F>) {
    let seen = Shared::<Vec<(Vec<u8>, u64)>>::new();
    let in_handler = seen.clone();
    let handler = register(context, move |message| {
        in_handler.with(|seen| seen.push((message.uhdr.to_vec(), message.len)));
        Answer::discard()
    });
    let max = context.limits().uhdr_bytes_max;
    let packet = context.limits().packet_bytes_max;
    for uhdr_len in [0, 1, 27, 28, 31, 32, 33, 40, 41, max / 2, max - 1, max] {
        for len in [0, 1, 100, packet] {
            let uhdr = pattern(7, uhdr_len);
            context
                .amsend(next(context), handler, &uhdr, &vec![1; len], AmOptions::default())
                .expect("amsend");
            until(context, &mut || seen.with(|seen| !seen.is_empty()));
            assert_eq!(seen.take(), [(uhdr, len as u64)]);
            context.gfence().expect("gfence");
        }
    }
}

/// Messages of one origin reach their header handlers in the order in which they were sent, whatever their lengths.
fn keeps_order<F: Fabric>(context: &mut Context<F>) {
    let seen = Shared::<Vec<(u32, u32)>>::new();
    let in_handler = seen.clone();
    let handler = register(context, move |message| {
        let number = u32::from_le_bytes(message.uhdr.try_into().expect("4 bytes"));
        in_handler.with(|seen| seen.push((message.source.task.0, number)));
        Answer::discard()
    });
    let packet = context.limits().packet_bytes_max;
    let lengths = [0, 500, 3, packet + 1, 20, packet / 2, 3 * packet];
    let count = 60u32;
    for number in 0..count {
        for target in everyone(context) {
            let udata = vec![0; lengths[number as usize % lengths.len()]];
            context
                .amsend(target, handler, &number.to_le_bytes(), &udata, AmOptions::default())
                .expect("amsend");
        }
    }
    let all = count as usize * context.num_tasks() as usize;
    until(context, &mut || seen.with(|seen| seen.len() == all));
    for source in 0..context.num_tasks() {
        let numbers: Vec<u32> =
            seen.with(|seen| seen.iter().filter(|seen| seen.0 == source).map(|seen| seen.1).collect());
        assert_eq!(numbers, (0..count).collect::<Vec<_>>(), "from task {source}");
    }
}

/// Messages that are received in line (`look` and `take`), messages that are only looked at, and messages of other kinds all arrive once,
/// in the order in which they were sent. On a fabric that can't look at the next message, all go to the handlers.
fn taken_in_line<F: Fabric>(context: &mut Context<F>) {
    let seen = Shared::<Vec<(u64, Vec<u8>)>>::new();
    let in_handler = seen.clone();
    let see = move |message: &am_core::handler::Message<'_>| {
        let number = u64::from_le_bytes(message.uhdr.try_into().expect("8 bytes"));
        let bytes = message.here.expect("it fits into a packet").to_vec();
        in_handler.with(|seen| seen.push((number, bytes)));
        Answer::discard()
    };
    let (wanted, other) = (register(context, see.clone()), register(context, see));
    let counted = new_counter(context);
    let (to, from) = (next(context), context.peer(previous(context)).expect("a task of the job"));
    let lengths = [8, 0, 24, 25, 33, 500, 5];
    let message = |task: u32, number: u64| pattern(task, lengths[number as usize % lengths.len()]);
    let count = 400;
    for number in 0..count {
        let handler = if number % 10 == 3 { other } else { wanted };
        let target = (number % 10 == 6).then_some(counted.name());
        let answerable = number % 10 == 8;
        let options = AmOptions { target, answerable, ..AmOptions::default() };
        let udata = message(context.task().0, number);
        context.amsend(to, handler, &number.to_le_bytes(), &udata, options).expect("amsend");
        if let Some((mut messages, _)) = context.in_line(from.index)
            && let Some(next) = messages.look(wanted)
            && let Some((uhdr, data)) = next.parts(8)
        {
            let (uhdr, data) = (uhdr.words()[0], data.to_vec());
            if number % 5 != 0 {
                messages.take();
                seen.with(|seen| seen.push((uhdr, data)));
            }
        }
        if number % 3 == 0 {
            context.probe().expect("probe");
        }
    }
    until(context, &mut || seen.with(|seen| seen.len() as u64 == count));
    for (expected, (number, bytes)) in (0..).zip(seen.take()) {
        assert_eq!(number, expected);
        assert!(bytes == message(from.endpoint.task.0, number), "message {number} of {} bytes", bytes.len());
    }
    assert_eq!(context.counter_value(counted).expect("a counter"), count / 10);
    context.gfence().expect("gfence");
}

/// The non-blocking form queues messages that find no credit, behind those already queued.
fn raw_keeps_order<F: Fabric>(context: &mut Context<F>) {
    let seen = Shared::<Vec<(u32, u32, Vec<u8>)>>::new();
    let in_handler = seen.clone();
    let handler = register(context, move |message| {
        let number = u32::from_le_bytes(message.uhdr.try_into().expect("4 bytes"));
        let source = message.source.task.0;
        let bytes = message.here.map(|here| here.to_vec()).unwrap_or_default();
        in_handler.with(|seen| seen.push((source, number, bytes)));
        Answer::discard()
    });
    let sent = new_counter(context);
    let count = 200u32;
    let packet = context.limits().packet_bytes_max;
    let target = next(context);
    for number in 0..count {
        let len = [5, 100, 0, packet + 9][number as usize % 4];
        let gatherer = EverySecond { bytes: pattern(context.task().0, 2 * len) };
        let options = AmOptions { origin: Some(sent), ..AmOptions::default() };
        let outcome = context
            .amsend_gather(Amsend { target, handler, uhdr: &number.to_le_bytes(), options }, gatherer, None)
            .expect("amsend_gather");
        assert_ne!(outcome, Outcome::Retry);
    }
    context.wait_counter(sent, u64::from(count)).expect("all were sent");
    until(context, &mut || seen.with(|seen| seen.len() == count as usize));
    for (at, (source, number, bytes)) in (0..).zip(seen.take()) {
        assert_eq!((source, number), (previous(context).task.0, at));
        let len = [5, 100, 0, 0][at as usize % 4];
        let wanted = every_second(&pattern(source, 2 * len));
        assert_eq!(bytes, wanted);
    }
    context.gfence().expect("gfence");
    context.remove_counter(sent);
}
