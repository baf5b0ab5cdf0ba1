//! The cost of a line of a ring, the lower bound for every short message.
//!
//! Run: `cargo bench -p am-criterion --bench ring`.
//!
//! `one_thread` writes a line and polls it, all in one core's cache, so it measures the instructions. `two_threads` sends a line to another
//! thread and waits for the echo: half of this round trip is the transfer of one line between cores, so it measures the machine. Expected:
//! a few nanoseconds, and on two cores of one chip one or two hundred for the round trip. On a machine with one core the second number
//! measures the scheduler.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use am_via_shm::{Entry, Lines, Payload, RingReader, RingWriter};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const LINES: u32 = 128;
/// Number of empty polls before the thread yields its processor, since the other thread may need it.
const SPINS_MAX: u32 = 500;

fn ring() -> (RingWriter, RingReader) {
    let lines = Lines::private(LINES).expect("the number of lines is a power of two");
    (RingWriter::new(lines.clone()), RingReader::new(lines))
}

fn entry() -> Entry {
    Entry { immediate: 1, length: 8, ..Entry::default() }
}

/// Waits for a line; `None` when `stop` is set.
fn receive(reader: &mut RingReader, stop: &AtomicBool) -> Option<Payload> {
    let mut payload = Payload::default();
    let mut spins = 0;
    while reader.poll(&mut payload).is_none() {
        spins += 1;
        if spins % SPINS_MAX == 0 {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            thread::yield_now();
        }
        std::hint::spin_loop();
    }
    Some(payload)
}

fn one_thread(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ring");
    group.throughput(Throughput::Elements(1));
    let (mut writer, mut reader) = ring();
    let mut payload = Payload::default();
    group.bench_function("one_thread", |bencher| {
        bencher.iter(|| {
            writer.write(black_box(entry()), black_box(&[7; 5]));
            black_box(reader.poll(&mut payload)).expect("the line that was written is found")
        });
    });
    group.finish();
}

fn two_threads(criterion: &mut Criterion) {
    let stop = Arc::new(AtomicBool::new(false));
    let (mut there, mut there_end) = ring();
    let (mut back_end, mut back) = ring();
    let echo = thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            while let Some(payload) = receive(&mut there_end, &stop) {
                back_end.write(entry(), &payload);
            }
        }
    });
    criterion.bench_function("ring/two_threads_round_trip", |bencher| {
        bencher.iter_custom(|rounds| {
            let started = Instant::now();
            for round in 0..rounds {
                there.write(entry(), &[round; 5]);
                let echoed = receive(&mut back, &stop).expect("stop is not set");
                assert_eq!(echoed[0], round);
            }
            started.elapsed()
        });
    });
    stop.store(true, Ordering::Relaxed);
    echo.join().expect("the echo thread does not panic");
}

criterion_group!(rings, one_thread, two_threads);
criterion_main!(rings);
