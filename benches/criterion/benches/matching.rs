//! The cost of a match at depth 1, 1 000 and 100 000.
//!
//! Run: `cargo bench -p am-criterion --bench matching`, or a part of it: `... --bench matching -- posted/exact`.
//!
//! One round fills a queue to the depth and drains it, in the order in which it was filled or in reverse. Criterion's throughput is in
//! entries per second; one entry is one post and one match (or one arrival and one receive). Expected: the cost of an entry grows when the
//! queue outgrows a cache, and not with the depth itself.

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mpi_over_am::matching::{ContextId, EarlyArrivalQueue, Envelope, Pattern, PostedQueue};

const WORLD: ContextId = ContextId(1);
const SOURCES: u32 = 64;
const DEPTHS: [u32; 4] = [1, 8, 1_000, 100_000];

/// The pattern of the n-th receive.
type PatternOf = fn(u32) -> Pattern;

const PATTERNS: [(&str, PatternOf); 4] = [
    ("exact", |n| Pattern::exact(WORLD, n % SOURCES, tag(n))),
    ("any_source", |n| Pattern::new(WORLD, None, Some(tag(n)))),
    ("any_tag", |n| Pattern::new(WORLD, Some(n), None)),
    ("exact_one_key", |_| Pattern::exact(WORLD, 0, 0)),
];

fn tag(n: u32) -> i32 {
    n.cast_signed()
}

/// The n-th message, which only the n-th pattern of each kind matches.
fn message(pattern: &str, n: u32) -> Envelope {
    match pattern {
        "any_tag" => Envelope::new(WORLD, n, 7),
        "exact_one_key" => Envelope::new(WORLD, 0, 0),
        _ => Envelope::new(WORLD, n % SOURCES, tag(n)),
    }
}

/// Calls `measure` for every pattern, depth and order, with the receives and messages that fill and drain the queue.
fn for_each_case(
    group: &mut BenchmarkGroup<'_, WallTime>,
    measure: impl Fn(&mut BenchmarkGroup<'_, WallTime>, BenchmarkId, &[Pattern], &[Envelope], bool),
) {
    for (name, pattern) in PATTERNS {
        for depth in DEPTHS {
            let patterns = (0..depth).map(pattern).collect::<Vec<_>>();
            let messages = (0..depth).map(|n| message(name, n)).collect::<Vec<_>>();
            group.throughput(Throughput::Elements(u64::from(depth)));
            for reverse in [false, true] {
                // With one entry, or one key, there is only one order.
                if reverse && (depth == 1 || name == "exact_one_key") {
                    continue;
                }
                let order = if reverse { "reverse" } else { "in_order" };
                let id = BenchmarkId::new(format!("{name}/{order}"), depth);
                measure(group, id, &patterns, &messages, reverse);
            }
        }
    }
}

fn drain<T>(items: &[T], reverse: bool, mut take: impl FnMut(&T)) {
    if reverse {
        items.iter().rev().for_each(&mut take);
    } else {
        items.iter().for_each(&mut take);
    }
}

fn posted(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("posted");
    for_each_case(&mut group, |group, id, patterns, messages, reverse| {
        let mut queue = PostedQueue::<u64>::new();
        group.bench_function(id, |bencher| {
            bencher.iter(|| {
                for (request, pattern) in (0..).zip(black_box(patterns)) {
                    queue.post(*pattern, request);
                }
                drain(black_box(messages), reverse, |message| {
                    black_box(queue.take_match(message).expect("a receive waits"));
                });
            });
        });
        assert!(queue.is_empty());
    });
    group.finish();
}

fn early_arrival(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("early_arrival");
    for_each_case(&mut group, |group, id, patterns, messages, reverse| {
        let mut queue = EarlyArrivalQueue::<u64>::new();
        group.bench_function(id, |bencher| {
            bencher.iter(|| {
                for (record, message) in (0..).zip(black_box(messages)) {
                    queue.push(*message, record);
                }
                drain(black_box(patterns), reverse, |pattern| {
                    black_box(queue.take_match(pattern).expect("a message waits"));
                });
            });
        });
        assert!(queue.is_empty());
    });
    group.finish();
}

/// Both queues of a receiver that posts its receives in time: the cost of matching in a ping-pong.
fn ping_pong(criterion: &mut Criterion) {
    let mut posted = PostedQueue::<u64>::new();
    let mut early = EarlyArrivalQueue::<u64>::new();
    let pattern = Pattern::exact(WORLD, 1, 7);
    let envelope = Envelope::new(WORLD, 1, 7);
    criterion.bench_function("ping_pong", |bencher| {
        bencher.iter(|| {
            let pattern = black_box(&pattern);
            assert!(early.take_match(pattern).is_none(), "no message arrives early");
            posted.post(*pattern, 1);
            posted.take_match(black_box(&envelope)).expect("a receive waits")
        });
    });
}

criterion_group! {
    name = matching;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .sample_size(20);
    targets = ping_pong, posted, early_arrival
}
criterion_main!(matching);
