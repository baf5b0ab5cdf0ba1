//! Packets are claims: a peer that sends arbitrary packets can only cause errors.

#![expect(
    clippy::cast_possible_truncation,
    clippy::unwrap_used,
    reason = "a test: numbers are cut on purpose, and a failed test panics"
)]

use std::sync::{Arc, Mutex};

use am_core::buffer::{
    Access, Executor, Grant, INLINE_BYTES_MAX, InlineBytes, JobBuffer, RawBuffer, RemoteAddress,
};
use am_core::error::{Error, Fault};
use am_core::fabric::{Arrival, Class, Event, Memory, Post, Posted};
use am_core::handler::{Answer, Completion};
use am_core::task::{ContextNumber, Endpoint, TaskId};
use am_core::{AmOptions, Amsend, Context, Get, GetOptions};
use am_core_conform::Random;
use am_core_conform::watchdog::Watchdog;
use am_double::{Config, Double, Reach, network, unequal_network};

/// A packet that is wrong in a random way: arbitrary bytes, or fields with small numbers, which name things that may exist.
fn wild_bytes(random: &mut Random) -> Vec<u8> {
    let len = [0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 41, 60, 1000][random.below(14)];
    if random.one_in(3) {
        return (0..len).map(|_| random.bits() as u8).collect();
    }
    let mut bytes = Vec::new();
    while bytes.len() < len {
        let field = [0, 1, 2, 3, 8, 40, 64, 4096, 1 << 20 | 1, u32::MAX][random.below(10)];
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

fn drain(wild: &mut Double) {
    let mut inline = InlineBytes::new();
    for _ in 0..10 {
        if let Some(Event::Arrival(arrival)) = wild.poll(&mut inline) {
            let (class, from) = (arrival.class, arrival.from);
            wild.release(arrival);
            if class == Class::Request {
                wild.waive(from.index);
            }
        }
    }
}

#[test]
fn any_packet_is_an_error_at_worst() {
    for seed in 0..30 {
        let _watchdog = Watchdog::new(format!("wild peer, seed {seed}"), std::time::Duration::from_secs(60));
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let (_, mut endpoints) = network(Config { credits: 4, requests_max: 4, ..Config::hostile(2, seed) });
        let mut wild = endpoints.pop().unwrap();
        let mut context = Context::new(endpoints.pop().unwrap());
        let target = wild.peer(Endpoint::new(TaskId(0), ContextNumber(0))).unwrap().index;
        let peer = Endpoint::new(TaskId(1), ContextNumber(0));
        let buffer = context.alloc(4096).unwrap();
        let private = context.alloc(64).unwrap();
        let region = context.expose(buffer, Access::READ_WRITE).unwrap();
        let range = region.range(64, 128).unwrap();
        let counter = context.counter().unwrap();
        let handlers = [
            context.register_handler(|_| Answer::discard()).unwrap(),
            context.register_handler(|_| Answer::later()).unwrap(),
            context.register_handler(move |_| Answer::exposed(range, Completion::Bump(counter))).unwrap(),
            context
                .register_handler(|message| {
                    let len = message.len.min(10_000) as usize;
                    Answer::owned(JobBuffer::zeroed(len), Completion::BumpAtSource(counter_of(message.uhdr)))
                })
                .unwrap(),
        ];
        let mut errors = 0;
        for round in 0..3000 {
            // This task has operations in flight, too, which wild answers may name.
            if round % 50 == 0 {
                let options = AmOptions { announce: true, ..AmOptions::default() };
                let udata = JobBuffer::from(vec![1; 5000]);
                drop(context.start(Amsend { target: peer, handler: handlers[0], uhdr: &[], options }, udata));
            }
            let class = if random.one_in(2) { Class::OneWay } else { Class::Request };
            let label = if random.one_in(4) {
                random.bits() as u16
            } else {
                (random.below(16) | random.below(6) << 4) as u16
            };
            let bytes = wild_bytes(&mut random);
            let mut inline = InlineBytes::new();
            let posted = if inline.push(&bytes) {
                wild.post_inline(target, class, label, &inline)
            } else {
                // The entry gets a random number of the bytes; if it gets none, the engine looks for the head in the body.
                let (head, mut body) = bytes.split_at(random.below(INLINE_BYTES_MAX + 1));
                assert!(inline.push(head), "not longer than an entry");
                wild.post_packet(target, class, label, &inline, &mut body)
            };
            // A packet that finds no credit is not sent; other packets follow.
            let _ = posted.expect("the target is alive");
            for _ in 0..3 {
                if let Err(error) = context.probe() {
                    assert_ne!(error.fault(), Fault::System, "{error}");
                    errors += 1;
                }
            }
            drain(&mut wild);
        }
        assert!(errors > 100, "seed {seed}: only {errors} packets were wrong");
        assert!(private.iter().all(|&byte| byte == 0), "memory that was never exposed");
    }
}

/// A peer sends an unlimited number of requests and receives no answers: the number of waiting answers stays bounded, and an error names
/// the peer.
#[test]
fn questions_without_end_take_no_memory() {
    const QUESTIONS: u32 = if cfg!(debug_assertions) { 300_000 } else { 10_000_000 };
    const MAY_WAIT: u32 = 8;
    let _watchdog = Watchdog::new("questions without end".to_owned(), std::time::Duration::from_secs(300));
    let config = Config { reach: Reach::Staged, ..Config::new(2) };
    let requests_max = |task| if task == TaskId(0) { MAY_WAIT } else { u32::MAX };
    let (_, mut endpoints) = unequal_network(config, requests_max);
    let mut wild = endpoints.pop().unwrap();
    let mut context = Context::new(endpoints.pop().unwrap());
    let target = wild.peer(Endpoint::new(TaskId(0), ContextNumber(0))).unwrap().index;
    // A message of 8 bytes that is never accepted: fences wait behind it.
    let later = context.register_handler(|_| Answer::later()).unwrap();
    let mut announcement = InlineBytes::new();
    let fields = [&[0; 4][..], &8u64.to_le_bytes(), &1u32.to_le_bytes(), &u32::MAX.to_le_bytes(), &[0; 4]];
    assert!(fields.iter().all(|bytes| announcement.push(bytes)));
    let _ = wild.post_inline(target, Class::Request, 1 | later.0 << 4, &announcement).unwrap();
    context.probe().unwrap();
    let memory = context.alloc(4096).unwrap();
    let region = context.expose(memory, Access::READ_WRITE).unwrap();
    let at = region.address(0);
    let mut ask = InlineBytes::new();
    let fields =
        [&at.grant.region.to_le_bytes()[..], &at.grant.generation.to_le_bytes(), &at.offset.to_le_bytes()];
    let rest = [&64u64.to_le_bytes()[..], &1u32.to_le_bytes(), &0u32.to_le_bytes()];
    assert!(fields.iter().chain(&rest).all(|bytes| ask.push(bytes)));
    let mut fence = InlineBytes::new();
    assert!(fence.push(&1u32.to_le_bytes()));
    let mut refused = 0;
    let mut inline = InlineBytes::new();
    for question in 0..QUESTIONS {
        let (label, bytes) = if question % 2 == 0 { (8, &ask) } else { (10 | 1 << 4, &fence) };
        assert_eq!(wild.post_inline(target, Class::Request, label, bytes).unwrap(), Posted::Done);
        if let Err(error) = context.probe() {
            assert_eq!(error.fault(), Fault::Peer, "{error}");
            refused += 1;
            if refused == 1 {
                assert!(
                    error.to_string().contains("more gets and fences than it may have unanswered"),
                    "{error}"
                );
            }
        }
        // The peer receives the refusals, which have credits of their own, but never returns the credits of the pieces.
        while let Some(Event::Arrival(arrival)) = wild.poll(&mut inline) {
            if arrival.class == Class::Answer {
                wild.release(arrival);
            }
        }
    }
    println!("{refused} of {QUESTIONS} questions were refused");
    // Each question is answered, refused or still waiting; each answer took a credit.
    assert!(refused + MAY_WAIT + config.credits >= QUESTIONS, "{refused} were refused");
}

/// The owner of memory reports the end of a get before it has sent a byte.
#[test]
fn a_get_ends_with_the_answer_that_came_too_early() {
    let _watchdog = Watchdog::new("an early answer".to_owned(), std::time::Duration::from_secs(60));
    let (_, mut endpoints) = network(Config { reach: Reach::Staged, ..Config::new(2) });
    let mut wild = endpoints.pop().unwrap();
    let mut context = Context::new(endpoints.pop().unwrap());
    let target = wild.peer(Endpoint::new(TaskId(0), ContextNumber(0))).unwrap().index;
    let grant = wild.grant(RawBuffer::EMPTY, Access::READ, None).unwrap().unwrap();
    let (task, executor) = (TaskId(1), Executor::Anyone);
    let from = RemoteAddress { task, context: ContextNumber(0), executor, grant, offset: 0 };
    let getting =
        context.start(Get { from, options: GetOptions::default() }, JobBuffer::zeroed(5000)).unwrap();
    let mut asked = InlineBytes::new();
    while !matches!(wild.poll(&mut asked), Some(Event::Arrival(Arrival { class: Class::Request, .. }))) {}
    // The answer: the operation's number, which follows address and length in the question, and a value.
    let mut told = InlineBytes::new();
    assert!(told.push(&asked.as_slice()[24..28]) && told.push(&[0; 8]));
    let _ = wild.post_inline(target, Class::Answer, 9, &told).unwrap();
    let (_, ended) = context.wait_owned(getting).unwrap();
    let error = ended.unwrap_err();
    assert_eq!(error.fault(), Fault::Peer);
    assert!(error.to_string().contains("the end of a get before its last byte"), "{error}");
    // The peer's later packets are refused with an error that names the peer.
    let _ = wild.post_inline(target, Class::OneWay, 9, &told).unwrap();
    assert_eq!(context.probe().unwrap_err().fault(), Fault::Peer);
}

/// A put and a get with a grant for one operation, which no program gets: the error names the owner of the memory, and not the sender.
#[test]
fn a_refused_range_is_one_of_this_task() {
    let _watchdog = Watchdog::new("refused ranges".to_owned(), std::time::Duration::from_secs(60));
    let (_, mut endpoints) = network(Config::new(2));
    let mut wild = endpoints.pop().unwrap();
    let mut context = Context::new(endpoints.pop().unwrap());
    let target = wild.peer(Endpoint::new(TaskId(0), ContextNumber(0))).unwrap().index;
    for (class, label) in [(Class::OneWay, 2), (Class::Request, 8)] {
        // Region, generation, offset (2 words). Then a get has its length (2 words), operation and counter; the same words are a put's
        // counter, a spare word and 8 bytes.
        let mut packet = InlineBytes::new();
        for field in [Grant::OPERATION_BIT, 1, 0, 0, 8, 0, 0, 0] {
            assert!(packet.push(&field.to_le_bytes()));
        }
        let _ = wild.post_inline(target, class, label, &packet).unwrap();
        let error = context.probe().unwrap_err();
        assert!(matches!(error, Error::RemoteRange { task: TaskId(0), .. }), "{error}");
    }
}

/// A counter whose name may or may not exist at the peer.
fn counter_of(uhdr: &[u8]) -> am_core::counter::CounterName {
    let number = uhdr.first().map_or(1, |&byte| u32::from(byte) + 1);
    am_core::counter::CounterName::from_wire(number).unwrap()
}

/// The head of a message must have the stated length in the entry. If it is too long for the entry, it must come before the data in the
/// buffer.
#[test]
fn a_message_whose_head_is_not_as_long_as_it_says_is_refused() {
    let _watchdog = Watchdog::new("heads".to_owned(), std::time::Duration::from_secs(60));
    let (_, mut endpoints) = network(Config::new(2));
    let mut wild = endpoints.pop().unwrap();
    let mut context = Context::new(endpoints.pop().unwrap());
    let target = wild.peer(Endpoint::new(TaskId(0), ContextNumber(0))).unwrap().index;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let handler = context
        .register_handler(move |message| {
            noted.lock().unwrap().push((message.uhdr.to_vec(), message.here.unwrap().to_vec()));
            Answer::discard()
        })
        .unwrap();
    let data = [7; 100];
    for (uhdr_len, in_entry, is_right) in [
        (8_u16, 16, true),
        (8, 15, false),
        (8, 17, false),
        (0, 8, true),
        (32, 40, true),
        (33, 0, true),
        (900, 0, true),
    ] {
        let uhdr: Vec<u8> = (0..uhdr_len).map(|at| at as u8).collect();
        let bytes = [&u64::from(uhdr_len).to_le_bytes(), &uhdr[..], &data].concat();
        let (head, mut body) = bytes.split_at(in_entry);
        let mut inline = InlineBytes::new();
        assert!(inline.push(head));
        let _ = wild.post_packet(target, Class::OneWay, handler.0 << 4, &inline, &mut body).unwrap();
        assert_eq!(context.probe().is_ok(), is_right, "{in_entry} bytes in the entry");
        let expected = if is_right { vec![(uhdr, data.to_vec())] } else { Vec::new() };
        assert_eq!(std::mem::take(&mut *seen.lock().unwrap()), expected);
    }
}
