//! Puts and gets of all lengths, with all counters, with owned and borrowed buffers, and of private memory. The memory around their ranges
//! stays unchanged.

use std::cell::RefCell;

use super::Check;
use super::common::{UNTOUCHED, lengths, new_counter, next, pattern, previous, register};
use am_core::buffer::{Access, Exposed, JobBuffer, RemoteAddress};
use am_core::context::Context;
use am_core::counter::Counter;
use am_core::fabric::Fabric;
use am_core::handler::{Answer, Completion, HandlerId};
use am_core::{AmOptions, Get, GetOptions, Put, PutOptions};

pub(super) fn checks<F: Fabric>() -> Vec<(&'static str, Check<F>)> {
    vec![
        ("put_every_length_target_counter", put_target_counter),
        ("put_in_place_when_it_returns", put_in_place),
        ("put_counters_among_messages", put_counters_among_messages),
        ("put_every_length_completion_counter", put_completion_counter),
        ("put_every_length_fence", put_fence),
        ("get_every_length", get),
        ("put_get_private_memory", private_memory),
        ("put_get_owned", owned),
        ("put_get_in_a_scope", in_a_scope),
    ]
}

const AROUND: usize = 16;

struct Ring {
    own: Exposed,
    all: Vec<RemoteAddress>,
    longest: usize,
    /// The initial contents of the region, computed once.
    clear: Vec<u8>,
    /// A check's copy of the region.
    found: RefCell<Vec<u8>>,
}

/// Three rings of regions, one region per task in each, all of the same length. A fabric whose method of access depends on the region uses
/// all its methods.
fn rings<F: Fabric>(context: &mut Context<F>) -> Vec<Ring> {
    let longest = lengths(context).into_iter().max().unwrap_or(0);
    (0..3)
        .map(|_| {
            let buffer = context.alloc(longest + 2 * AROUND).expect("alloc");
            let own = context.expose(buffer, Access::READ_WRITE).expect("expose");
            let all = context.address_init(own.address(AROUND as u64)).expect("address_init");
            let clear = vec![UNTOUCHED; longest + 2 * AROUND];
            let found = RefCell::new(clear.clone());
            Ring { own, all, longest, clear, found }
        })
        .collect()
}

fn close<F: Fabric>(context: &mut Context<F>, rings: Vec<Ring>) {
    context.gfence().expect("gfence");
    for ring in rings {
        drop(context.unexpose(ring.own).expect("unexpose"));
    }
}

impl Ring {
    fn clear(&self) {
        self.own.write(0, &self.clear).expect("write");
    }

    fn check(&self, source: u32, len: usize) {
        let mut bytes = self.found.borrow_mut();
        bytes.fill(0);
        self.own.read(0, &mut bytes).expect("read");
        assert!(bytes[AROUND..AROUND + len] == pattern(source, len), "{len} bytes of task {source}");
        let is_clear_around =
            bytes[..AROUND] == self.clear[..AROUND] && bytes[AROUND + len..] == self.clear[AROUND + len..];
        assert!(is_clear_around, "around {len} bytes of task {source}");
    }
}

fn put_target_counter<F: Fabric>(context: &mut Context<F>) {
    let rings = rings(context);
    let (origin, target) = (new_counter(context), new_counter(context));
    for ring in &rings {
        for len in lengths(context) {
            ring.clear();
            context.gfence().expect("gfence");
            let bytes = pattern(context.task().0, len);
            let options = PutOptions { origin: Some(origin), target: Some(target.name()), completion: None };
            context.put(ring.all[next(context).task.index()], &bytes, options).expect("put");
            context.wait_counter(origin, 1).expect("origin");
            context.wait_counter(target, 1).expect("target");
            ring.check(previous(context).task.0, len);
            context.gfence().expect("gfence");
        }
    }
    close(context, rings);
    context.remove_counter(origin);
    context.remove_counter(target);
}

/// If this task has mapped the target's memory, the bytes of a put are written when `put` returns, and a data fence sends no packet. The
/// counter is incremented when the target makes progress. The task is its own target here, so that no other task makes that progress.
fn put_in_place<F: Fabric>(context: &mut Context<F>) {
    let rings = rings(context);
    let target = new_counter(context);
    let own = context.endpoint();
    let ignore = register(context, |_| Answer::discard());
    for ring in &rings {
        let to = ring.all[own.task.index()];
        for (at, len) in lengths(context).into_iter().enumerate() {
            ring.clear();
            context.fence_data(Some(own)).expect("fence");
            // A put takes the same path whatever else the target has received. If there is a message, the fence waits for it.
            let is_alone = at % 2 == 0;
            if !is_alone {
                context.amsend(own, ignore, &[], &[], AmOptions::default()).expect("amsend");
            }
            let is_mapped = context.with_mapped(to, len as u64, |_| ()).expect("exposed").is_some();
            let before = context.peer_statistics(own).expect("this task").packets_sent;
            let options = PutOptions { target: Some(target.name()), ..PutOptions::default() };
            context.put(to, &pattern(own.task.0, len), options).expect("put");
            if is_mapped {
                ring.check(own.task.0, len);
                assert_eq!(context.counter_value(target).expect("value"), 0, "no progress was made");
            }
            context.fence_data(Some(own)).expect("fence");
            ring.check(own.task.0, len);
            let sent = context.peer_statistics(own).expect("this task").packets_sent - before;
            assert!(
                !is_mapped || !is_alone || sent == 1,
                "only the counter's packet is sent, not {sent} packets"
            );
            context.wait_counter(target, 1).expect("target");
        }
    }
    context.gfence().expect("gfence");
    for ring in rings {
        let len = ring.longest as u64;
        let is_mapped =
            context.with_mapped(ring.all[own.task.index()], len, |_| ()).expect("exposed").is_some();
        let buffer = context.unexpose(ring.own).expect("unexpose");
        put_in_place_to_write_only(context, buffer, is_mapped, (ignore, target));
    }
    context.remove_counter(target);
}

/// Waits for counters that puts and messages of one task bump, in runs of one kind: each counter counts only its own operations, and data
/// are stored before their counter is bumped.
fn put_counters_among_messages<F: Fabric>(context: &mut Context<F>) {
    let rings = rings(context);
    let (stored, greeted) = (new_counter(context), new_counter(context));
    let greet = register(context, move |_| Answer::consumed(Completion::Bump(greeted)));
    let to = next(context).task;
    for round in 0..60_usize {
        let (kind, ring) = (round / 8 % 3, &rings[0]);
        let len = [8, 8, 300][kind];
        let bytes = pattern(context.task().0, len);
        ring.clear();
        context.gfence().expect("gfence");
        if kind == 1 {
            context.amsend(to, greet, &[round as u8], &bytes, AmOptions::default()).expect("amsend");
            context.wait_counter(greeted, 1).expect("greeted");
        } else {
            let options = PutOptions { target: Some(stored.name()), ..PutOptions::default() };
            context.put(ring.all[to.index()], &bytes, options).expect("put");
            context.wait_counter(stored, 1).expect("stored");
            ring.check(previous(context).task.0, len);
        }
        let values = [stored, greeted].map(|counter| context.counter_value(counter).expect("value"));
        assert_eq!(values, [0, 0], "round {round}");
        context.gfence().expect("gfence");
    }
    close(context, rings);
    context.remove_counter(stored);
    context.remove_counter(greeted);
}

/// [`put_in_place`] to memory that peers may write but not read.
fn put_in_place_to_write_only<F: Fabric>(
    context: &mut Context<F>,
    buffer: JobBuffer,
    is_mapped: bool,
    (ignore, target): (HandlerId, Counter),
) {
    let own = context.expose(buffer, Access::WRITE).expect("expose");
    let endpoint = context.endpoint();
    let options = PutOptions { target: Some(target.name()), ..PutOptions::default() };
    for round in 0..3_u8 {
        for len in [1, 8, 16, 40, 200] {
            let to = own.address(AROUND as u64);
            context.fence_data(Some(endpoint)).expect("fence");
            context.amsend(endpoint, ignore, &[], &[], AmOptions::default()).expect("amsend");
            let before = context.peer_statistics(endpoint).expect("this task").packets_sent;
            context.put(to, &vec![round + 1; len], options).expect("put");
            let sent = context.peer_statistics(endpoint).expect("this task").packets_sent - before;
            let mut there = vec![0; len];
            own.read(AROUND as u64, &mut there).expect("its owner may read");
            assert!(!is_mapped || there == vec![round + 1; len], "{len} bytes are not in place");
            assert!(!is_mapped || sent == 1, "only the counter's packet is sent, not {sent} packets");
            context.wait_counter(target, 1).expect("target");
        }
    }
    drop(context.unexpose(own).expect("unexpose"));
}

fn put_completion_counter<F: Fabric>(context: &mut Context<F>) {
    let rings = rings(context);
    let completion = new_counter(context);
    let target = new_counter(context);
    for ring in &rings {
        for (at, len) in lengths(context).into_iter().enumerate() {
            ring.clear();
            context.gfence().expect("gfence");
            let bytes = pattern(context.task().0, len);
            let with_target = at % 2 == 0;
            let options = PutOptions {
                completion: Some(completion),
                target: with_target.then_some(target.name()),
                ..PutOptions::default()
            };
            context.put(ring.all[next(context).task.index()], &bytes, options).expect("put");
            context.wait_counter(completion, 1).expect("completion");
            if with_target {
                context.wait_counter(target, 1).expect("target");
            }
            context.gfence().expect("gfence");
            ring.check(previous(context).task.0, len);
            context.gfence().expect("gfence");
        }
    }
    close(context, rings);
    context.remove_counter(completion);
    context.remove_counter(target);
}

fn put_fence<F: Fabric>(context: &mut Context<F>) {
    let rings = rings(context);
    for ring in &rings {
        for len in lengths(context) {
            ring.clear();
            context.gfence().expect("gfence");
            let bytes = pattern(context.task().0, len);
            context.put(ring.all[next(context).task.index()], &bytes, PutOptions::default()).expect("put");
            context.gfence().expect("gfence");
            ring.check(previous(context).task.0, len);
            context.gfence().expect("gfence");
        }
    }
    close(context, rings);
}

fn get<F: Fabric>(context: &mut Context<F>) {
    let rings = rings(context);
    let (origin, target) = (new_counter(context), new_counter(context));
    for ring in &rings {
        ring.own.write(AROUND as u64, &pattern(context.task().0, ring.longest)).expect("write");
        context.gfence().expect("gfence");
        for len in lengths(context) {
            let mut bytes = vec![UNTOUCHED; len];
            let options = GetOptions { origin: Some(origin), target: Some(target.name()) };
            let from = next(context);
            context.get(ring.all[from.task.index()], &mut bytes, options).expect("get");
            assert!(bytes == pattern(from.task.0, len), "{len} bytes");
            context.wait_counter(origin, 1).expect("origin");
            context.wait_counter(target, 1).expect("the counter reaches its value");
        }
    }
    close(context, rings);
    context.remove_counter(origin);
    context.remove_counter(target);
}

fn private_memory<F: Fabric>(context: &mut Context<F>) {
    let own = context.expose(vec![0; 100_000].into(), Access::READ_WRITE).expect("expose");
    let all = context.address_init(own.address(0)).expect("address_init");
    let bytes = pattern(context.task().0, 100_000);
    context.put(all[next(context).task.index()], &bytes, PutOptions::default()).expect("put");
    context.gfence().expect("gfence");
    let mut back = vec![0; 100_000];
    context.get(all[next(context).task.index()], &mut back, GetOptions::default()).expect("get");
    assert!(back == bytes, "the get returns the bytes of the put");
    context.gfence().expect("gfence");
    let memory = context.unexpose(own).expect("unexpose");
    assert!(memory[..] == pattern(previous(context).task.0, 100_000)[..]);
}

fn owned<F: Fabric>(context: &mut Context<F>) {
    let rings = rings(context);
    for ring in &rings {
        for len in [0, 8, 5000, 100_000] {
            ring.clear();
            context.gfence().expect("gfence");
            let mut buffer = context.alloc(len).expect("alloc");
            buffer.copy_from_slice(&pattern(context.task().0, len));
            let to = ring.all[next(context).task.index()];
            let handle =
                context.start(Put { to, options: PutOptions::default() }, buffer).expect("put_owned");
            let (buffer, result) = context.wait_owned(handle).expect("a handle of this context");
            result.expect("put");
            assert!(buffer[..] == pattern(context.task().0, len)[..]);
            context.gfence().expect("gfence");
            ring.check(previous(context).task.0, len);
            let handle =
                context.start(Get { from: to, options: GetOptions::default() }, buffer).expect("get_owned");
            let (buffer, result) = context.wait_owned(handle).expect("a handle of this context");
            result.expect("get");
            assert!(buffer[..] == pattern(context.task().0, len)[..]);
            context.gfence().expect("gfence");
        }
    }
    close(context, rings);
}

/// Many operations pending at once on borrowed memory; the scope waits for all of them.
fn in_a_scope<F: Fabric>(context: &mut Context<F>) {
    let rings = rings(context);
    let mine = pattern(context.task().0, 30_000);
    for ring in &rings {
        ring.clear();
        context.gfence().expect("gfence");
        let to = ring.all[next(context).task.index()];
        context
            .scope(|scope| {
                for (at, part) in (0..).zip(mine.chunks(1111)) {
                    scope
                        .start(Put { to: to.plus(at * 1111), options: PutOptions::default() }, part)
                        .expect("put");
                }
            })
            .expect("the scope's end");
        context.gfence().expect("gfence");
        ring.check(previous(context).task.0, mine.len());
        let mut back = vec![0; mine.len()];
        context
            .scope(|scope| {
                for (at, part) in (0..).zip(back.chunks_mut(999)) {
                    scope
                        .start(Get { from: to.plus(at * 999), options: GetOptions::default() }, part)
                        .expect("get");
                }
            })
            .expect("the scope's end");
        assert!(back == mine, "the get returns the bytes of the put");
        context.gfence().expect("gfence");
    }
    close(context, rings);
}
